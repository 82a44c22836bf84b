use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::flat::{FlatFiles, FlatPlaces};
use crate::interface::{Backend as _, Stream, Trail};
use crate::wait;

fn trail(folder: &std::path::Path) -> Arc<dyn Trail> {
    FlatFiles::new(FlatPlaces::standard(folder)).trail()
}

fn settings(retention: Duration) -> AuditSettings {
    AuditSettings { retention }
}

fn record(number: usize) -> AuditRecord {
    AuditRecord {
        principal: Some(if number.is_multiple_of(2) { "ana" } else { "eve" }.to_owned()),
        tool: Some(format!("p.f{number}")),
        ..AuditRecord::new(AuditEvent::Call, "ok")
    }
}

#[test]
fn lines_are_kept_in_order_and_found_again() {
    let folder = tempfile::tempdir().unwrap();
    let kept = settings(Duration::from_hours(1));
    let log = AuditLog::new(trail(folder.path()), kept);
    for number in 0..2_000 {
        log.record(record(number));
    }
    drop(log);
    let trail = trail(folder.path());
    let mut all = Vec::new();
    wait(read_all(&*trail, &AuditFilter::default(), kept.horizon(), &mut |record| all.push(record))).unwrap();
    assert_eq!(all.len(), 2_000);
    assert_eq!(all[1_999].tool.as_deref(), Some("p.f1999"));
    let filter = AuditFilter {
        principal: Some("eve".to_owned()),
        tool: Some(globset::Glob::new("p.f1?").unwrap().compile_matcher()),
        ..AuditFilter::default()
    };
    let found = wait(last(&*trail, &filter, kept.horizon(), 3)).unwrap();
    let names: Vec<_> = found.iter().filter_map(|record| record.tool.as_deref()).collect();
    assert_eq!(names, ["p.f19", "p.f17", "p.f15"]);
}

#[test]
fn what_is_too_old_is_neither_shown_nor_kept() {
    let folder = tempfile::tempdir().unwrap();
    let trail = trail(folder.path());
    let old = AuditRecord { ts: Utc::now() - chrono::TimeDelta::hours(2), ..record(1) };
    let line = serde_json::to_string(&old).unwrap();
    wait(trail.append(Stream::AUDIT, &vec![line; 100])).unwrap();
    let kept = settings(Duration::from_hours(1));
    let log = AuditLog::new(trail.clone(), kept);
    log.record(record(2));
    log.flush().unwrap();
    assert_eq!(wait(last(&*trail, &AuditFilter::default(), kept.horizon(), 10)).unwrap().len(), 1);
    log.trim().unwrap();
    let mut count = 0;
    wait(trail.read(Stream::AUDIT, crate::interface::Position::default(), &mut |_| count += 1)).unwrap();
    assert_eq!(count, 1);
}

#[test]
fn a_follower_repeats_nothing_when_old_lines_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let trail = trail(folder.path());
    let line = |number: usize| serde_json::to_string(&record(number)).unwrap();
    let lines = |numbers: std::ops::Range<usize>| numbers.map(line).collect::<Vec<_>>();
    let (filter, horizon) = (AuditFilter::default(), settings(Duration::from_hours(1)).horizon());
    wait(trail.append(Stream::AUDIT, &lines(0..10))).unwrap();
    let mut follower = wait(Follower::at_end(&*trail)).unwrap();
    let mut added = || {
        let found = wait(follower.added(&*trail, &filter, horizon)).unwrap();
        found.into_iter().filter_map(|record| record.tool).collect::<Vec<_>>()
    };
    assert_eq!(added(), Vec::<String>::new());
    wait(trail.append(Stream::AUDIT, &lines(10..11))).unwrap();
    assert_eq!(added(), ["p.f10"]);
    // The older half goes, and a line is added before anybody looks again.
    wait(trail.trim(Stream::AUDIT, &|line| (0..6).any(|number| line.contains(&format!("\"p.f{number}\""))))).unwrap();
    wait(trail.append(Stream::AUDIT, &lines(11..12))).unwrap();
    assert_eq!(added(), ["p.f11"]);
    // All lines that were read are gone.
    wait(trail.trim(Stream::AUDIT, &|_| true)).unwrap();
    wait(trail.append(Stream::AUDIT, &lines(12..14))).unwrap();
    assert_eq!(added(), ["p.f12", "p.f13"]);
}
