//! Statistics: records from several writers at once, and the totals of reports.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;

use super::*;
use crate::flat::{FlatFiles, FlatPlaces};
use crate::interface::{Backend as _, Stream, Trail};

fn assumptions() -> Assumptions {
    Assumptions {
        context_per_call: Some(30_000),
        time_overhead_per_call_ms: Some(4_000),
        input_cost: 15.0,
        output_cost: 75.0,
        chars_per_token: 4.0,
    }
}

fn outcome(ms: f64, error: Option<&str>) -> Outcome {
    Outcome { chars_in: 400, chars_out: 4_000, ms, error: error.map(str::to_owned) }
}

fn trail(path: &Path) -> Arc<dyn Trail> {
    FlatFiles::new(FlatPlaces::new(path).with_stream(Stream::STATS, path)).trail()
}

fn report(path: &Path, period: Period) -> Report {
    Report::read(Some(&*trail(path)), period, None, assumptions(), Utc::now()).unwrap()
}

const NEVER: Duration = Duration::from_hours(1);

#[test]
fn records_outlive_the_recorder() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("stats/stats.jsonl");
    for round in 1..=2 {
        let recorder = StatsRecorder::new(trail(&path), NEVER);
        recorder.record(Record::run(Utc::now(), outcome(20.0, None)));
        recorder.record(Record::call(Utc::now(), "a.b", outcome(10.0, Some("ValueError"))));
        drop(recorder);
        let report = report(&path, Period::All);
        assert_eq!((report.calls.calls, report.runs.calls, report.calls.errors), (round, round, round));
    }
    let lines: Vec<serde_json::Value> =
        fs::read_to_string(&path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 4);
    assert_eq!(lines[1]["errors"], serde_json::json!({"ValueError": 1}));
}

#[test]
fn a_recorder_that_is_switched_off_writes_nothing() {
    let recorder = StatsRecorder::disabled();
    recorder.record(Record::run(Utc::now(), outcome(1.0, None)));
    recorder.flush().unwrap();
    assert_eq!(recorder.dropped(), 0);
}

#[test]
fn several_recorders_on_one_file_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("stats.jsonl");
    std::thread::scope(|scope| {
        for server in 0..4 {
            let recorder = StatsRecorder::new(trail(&path), NEVER);
            scope.spawn(move || {
                for number in 0..250 {
                    recorder.record(Record::call(Utc::now(), &format!("p{server}.t"), outcome(1.0, None)));
                    if number % 10 == 0 {
                        recorder.flush().unwrap();
                    }
                }
            });
        }
    });
    let report = report(&path, Period::Day);
    assert_eq!(report.calls.calls, 1000);
    assert!(report.tools.iter().all(|tool| tool.totals.calls == 250));
}

#[test]
fn when_the_disk_cannot_follow_the_oldest_go_and_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    let recorder = StatsRecorder::new(trail(&folder.path().join("file/stats.jsonl")), NEVER);
    for _ in 0..25_000 {
        recorder.record(Record::run(Utc::now(), outcome(1.0, None)));
    }
    assert!(recorder.flush().is_err());
    assert_eq!(recorder.dropped(), 5_000);
}

#[test]
fn a_line_that_was_cut_short_spoils_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("stats.jsonl");
    fs::write(&path, "{\"ts\":\"2026-01-01T00:").unwrap();
    let recorder = StatsRecorder::new(trail(&path), NEVER);
    recorder.record(Record::call(Utc::now(), "a.b", outcome(1.0, None)));
    recorder.flush().unwrap();
    assert_eq!(report(&path, Period::All).calls.calls, 1);
}

#[test]
fn periods_are_windows_that_end_now() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("stats.jsonl");
    let recorder = StatsRecorder::new(trail(&path), NEVER);
    for days in [0, 3, 20, 400] {
        recorder.record(Record::call(Utc::now() - TimeDelta::days(days), "a.b", outcome(1.0, None)));
    }
    recorder.flush().unwrap();
    for (period, calls) in [(Period::Day, 1), (Period::Week, 2), (Period::Month, 3), (Period::All, 4)] {
        let report = report(&path, period);
        assert_eq!(report.calls.calls, calls, "{period:?}");
        assert_eq!(report.timeline.iter().map(|bar| bar.calls).sum::<u64>(), calls, "{period:?}");
        assert!(report.timeline.len() <= 62, "{}", report.timeline.len());
    }
}

#[test]
fn estimates_follow_the_assumptions() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("stats.jsonl");
    let recorder = StatsRecorder::new(trail(&path), NEVER);
    recorder.record(Record::run(Utc::now(), Outcome { chars_in: 4_000, chars_out: 40_000, ms: 1.0, error: None }));
    recorder.record(Record::call(Utc::now(), "a.b", outcome(1.0, None)));
    recorder.flush().unwrap();
    let report = report(&path, Period::All);
    assert_eq!((report.context_saved(), report.time_saved_ms()), (30_000, 4_000));
    // 1,000 tokens written at 75 dollars per million, and 10,000 read at 15.
    assert!((report.cost_usd() - 0.225).abs() < 1e-9, "{}", report.cost_usd());
    assert!((report.savings_usd() - 0.45).abs() < 1e-9, "{}", report.savings_usd());
    assert_eq!(report.timeline.iter().map(|bar| bar.context_saved).sum::<u64>(), 30_000);
}

#[test]
fn savings_are_counted_when_they_were_made() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("stats.jsonl");
    let recorder = StatsRecorder::new(trail(&path), NEVER);
    let now = Utc::now();
    for (hours, kept) in [(30, 4_000), (0, 8_000)] {
        let run = Record::run(now - TimeDelta::hours(hours), outcome(1.0, None));
        recorder.record(run.with_saved(Saved { kept, cost: 1_000, together_ms: 0.0 }));
    }
    recorder.record(Record::call(now, "a.b", Outcome { chars_in: 1, chars_out: 2_000, ms: 1.0, error: None }));
    recorder.flush().unwrap();
    let assumptions = Assumptions { context_per_call: None, ..assumptions() };
    let read = |period, tool| Report::read(Some(&*trail(&path)), period, tool, assumptions.clone(), now).unwrap();
    let whole = read(Period::All, None);
    let saved: Vec<u64> = whole.timeline.iter().map(|bar| bar.context_saved).filter(|saved| *saved > 0).collect();
    assert_eq!(saved, [750, 1_750]);
    assert_eq!(saved.iter().sum::<u64>(), whole.context_saved());
    let one = read(Period::Day, Some("a.b"));
    assert_eq!(one.timeline.last().unwrap().context_saved, 500);
    assert_eq!(one.context_saved(), 500);
}

#[test]
fn a_large_file_is_merged_and_keeps_its_totals() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("stats.jsonl");
    let now = Utc::now();
    let old: Vec<Record> = (0..60_000_i64)
        .map(|number| {
            let at = now - TimeDelta::hours(2 + number % 2000);
            let error = (number % 10 == 0).then_some("ValueError");
            Record::call(at, &format!("pack.tool_{}", number % 7), outcome((number % 100) as f64, error))
        })
        .collect();
    for batch in old.chunks(15_000) {
        let recorder = StatsRecorder::new(trail(&path), NEVER);
        batch.iter().for_each(|record| recorder.record(record.clone()));
        recorder.flush().unwrap();
    }
    let before = report(&path, Period::All);
    for _ in 0..2 {
        let recorder = StatsRecorder::new(trail(&path), NEVER);
        (0..15_000).for_each(|_| recorder.record(Record::call(now, "pack.recent", outcome(5.0, None))));
        recorder.flush().unwrap();
    }
    let after = report(&path, Period::All);
    assert!(fs::metadata(&path).unwrap().len() < 5 * 1024 * 1024, "{}", fs::metadata(&path).unwrap().len());
    assert_eq!(after.calls.calls, before.calls.calls + 30_000);
    assert_eq!(after.calls.errors, before.calls.errors);
    assert_eq!(after.calls.chars_out, before.calls.chars_out + 30_000 * 4_000);
    assert!((after.calls.max_ms - 99.0).abs() < 1e-9);
}

#[test]
fn many_threads_record_without_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("stats.jsonl");
    let recorder = Arc::new(StatsRecorder::new(trail(&path), Duration::from_millis(10)));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..2_000 {
                    recorder.record(Record::call(Utc::now(), "a.b", outcome(1.0, None)));
                }
            });
        }
    });
    recorder.flush().unwrap();
    assert_eq!(report(&path, Period::All).calls.calls + recorder.dropped(), 8_000);
}

#[test]
fn the_page_is_self_contained_and_escaped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("stats.jsonl");
    let recorder = StatsRecorder::new(trail(&path), NEVER);
    for hours in 0..48 {
        let error = (hours % 9 == 0).then_some("<b>Value</b>Error");
        let at = Utc::now() - TimeDelta::hours(hours);
        recorder.record(Record::call(at, "x.<script>alert('1')</script>&\"", outcome(10.0, error)));
        recorder.record(Record::call(at, "brave.search", outcome(250.0, None)));
    }
    recorder.flush().unwrap();
    for period in [Period::Day, Period::Week, Period::All] {
        let page = render_html(&report(&path, period));
        assert!(!page.contains("<script") && !page.contains("<b>"), "{page}");
        assert!(page.contains("&lt;script&gt;") && page.contains("&lt;b&gt;Value"), "{page}");
        assert!(!page.contains("http://") && !page.contains("https://") && !page.contains("src="), "{page}");
        assert!(page.contains("<svg") && page.contains("prefers-color-scheme: dark"));
    }
    let empty = render_html(&report(&folder.path().join("none.jsonl"), Period::All));
    assert!(empty.contains("No calls in this period."));
}

#[test]
fn savings_are_what_was_not_sent_less_what_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("stats.jsonl");
    let recorder = StatsRecorder::new(trail(&path), NEVER);
    let saved = Saved { kept: 10_000, cost: 2_000, together_ms: 150.4 };
    recorder.record(Record::run(Utc::now(), outcome(1.0, None)).with_saved(saved));
    recorder.record(Record::run(Utc::now(), outcome(1.0, None)));
    recorder.record(Record::call(Utc::now(), "a.b", outcome(1.0, None)));
    recorder.record(Record::call(Utc::now(), "ot.stats", outcome(1.0, None)));
    recorder.flush().unwrap();
    let measured = Assumptions { context_per_call: None, time_overhead_per_call_ms: None, ..assumptions() };
    let read = |tool| Report::read(Some(&*trail(&path)), Period::All, tool, measured.clone(), Utc::now()).unwrap();
    assert_eq!((read(None).context_saved(), read(None).time_saved_ms()), (2_000, 150));
    assert_eq!((read(Some("a.b")).context_saved(), read(Some("a.b")).time_saved_ms()), (1_000, 0));
    assert_eq!(read(Some("ot.stats")).context_saved(), 0);
    assert!(read(None).computed()[0].1.starts_with("measured: 10000 bytes"));
    // A configured figure counts successful calls, but not those that only inspect the toolbox.
    recorder.record(Record::call(Utc::now(), "a.b", outcome(1.0, Some("ValueError"))));
    recorder.flush().unwrap();
    let flat = report(&path, Period::All);
    assert_eq!(flat.context_saved(), 30_000);
    assert!(flat.computed()[0].1.starts_with("configured: 30000 tokens for each of 1 successful calls"));
}
