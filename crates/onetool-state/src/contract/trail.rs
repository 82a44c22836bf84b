//! Streams of lines.

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

    // Nothing happens while it is small.
    one.compact(TESTED, 1 << 20, &|_| panic!("it is small")).await.unwrap();
    one.compact(TESTED, 10, &|lines| vec![format!("{{\"merged\":{}}}", lines.len())]).await.unwrap();
    let (seen, merged) = lines(&*other, next.position).await;
    assert_eq!((seen, merged.restarted), (vec!["{\"merged\":5}".to_owned()], true));
    other.append(TESTED, &numbered(5..6)).await.unwrap();
    let (seen, last) = lines(&*one, merged.position).await;
    assert_eq!((seen, last.restarted), (numbered(5..6), false));
    assert_eq!(lines(&*one, Position::default()).await.0.len(), 2);
}
