//! Streams of lines.

use std::ops::ControlFlow;

use super::Open;
use crate::interface::{Position, Stream, Trail, TrailRead};

pub(super) const TESTED: Stream = Stream::STATS;

pub(super) async fn lines(trail: &dyn Trail, since: Position) -> (Vec<String>, TrailRead) {
    let mut lines = Vec::new();
    let read = trail.read(TESTED, since, &mut |line| lines.push(line.to_owned())).await.unwrap();
    (lines, read)
}

fn numbered(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|number| format!("{{\"n\":{number}}}")).collect()
}

pub(super) async fn check(open: Open<'_>) {
    let (one, other) = (open().trail(), open().trail());
    assert_eq!(lines(&*one, Position::default()).await.0, Vec::<String>::new());
    one.append(TESTED, &numbered(0..3)).await.unwrap();
    one.append(TESTED, &[]).await.unwrap();
    let (seen, read) = lines(&*other, Position::default()).await;
    assert_eq!(seen, numbered(0..3));
    let (nothing, same) = lines(&*other, read.position).await;
    assert_eq!((nothing.len(), same.position, same.restarted), (0, read.position, false));
    other.append(TESTED, &numbered(3..5)).await.unwrap();
    let (seen, next) = lines(&*other, read.position).await;
    assert_eq!((seen, next.restarted), (numbered(3..5), false));

    // A small stream is not compacted.
    one.compact(TESTED, 1 << 20, &|_| panic!("it is small")).await.unwrap();
    one.compact(TESTED, 10, &|lines| vec![format!("{{\"merged\":{}}}", lines.len())]).await.unwrap();
    let (seen, merged) = lines(&*other, next.position).await;
    assert_eq!((seen, merged.restarted), (vec!["{\"merged\":5}".to_owned()], true));
    other.append(TESTED, &numbered(5..6)).await.unwrap();
    let (seen, last) = lines(&*one, merged.position).await;
    assert_eq!((seen, last.restarted), (numbered(5..6), false));
    assert_eq!(lines(&*one, Position::default()).await.0.len(), 2);
    check_both_ends(&*one, &*other).await;
}

/// Reading from the end, and removing from the start.
async fn check_both_ends(one: &dyn Trail, other: &dyn Trail) {
    const LINES: usize = 25_000;
    let stream = Stream::AUDIT;
    let back = async |limit: usize| {
        let mut seen = Vec::new();
        other
            .read_back(stream, &mut |line| {
                seen.push(line.to_owned());
                if seen.len() < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })
            .await
            .unwrap();
        seen
    };
    assert_eq!(back(1).await, Vec::<String>::new());
    one.trim(stream, &|_| true).await.unwrap();
    for start in (0..LINES).step_by(5_000) {
        one.append(stream, &numbered(start..start + 5_000)).await.unwrap();
    }
    let mut expected = numbered(0..LINES);
    expected.reverse();
    assert_eq!(back(3).await, expected[..3]);
    assert_eq!(back(usize::MAX).await, expected);
    let is_old =
        |limit: usize| move |line: &str| line[5..line.len() - 1].parse::<usize>().is_ok_and(|number| number < limit);
    one.trim(stream, &is_old(20_000)).await.unwrap();
    assert_eq!(back(usize::MAX).await, expected[..5_000]);
    other.append(stream, &numbered(LINES..LINES + 1)).await.unwrap();
    assert_eq!(back(1).await, numbered(LINES..LINES + 1));
    one.trim(stream, &|_| true).await.unwrap();
    assert_eq!(back(1).await, Vec::<String>::new());
}
