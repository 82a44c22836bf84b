//! Merges old records, so that the stream stays within a cap and its totals stay right.

use std::collections::BTreeMap;

use chrono::{DateTime, TimeDelta, Utc};

use super::{Record, RecordKind};

/// Size beyond which the records are merged.
pub(super) const MERGE_BYTES: u64 = 8 * 1024 * 1024;
/// Maximum size after merging; the newest records are kept.
const KEPT_BYTES: usize = 4 * 1024 * 1024;

const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;

type Merged = BTreeMap<(i64, RecordKind, String), Record>;

/// Merges records older than an hour by hour, and those older than a month by day. Lines that are not records are
/// dropped.
pub(super) fn merge(lines: &[String], now: DateTime<Utc>) -> Vec<String> {
    let mut merged = Merged::new();
    let mut recent: Vec<Record> = Vec::new();
    for record in lines.iter().filter_map(|line| serde_json::from_str::<Record>(line).ok()) {
        let age = now.signed_duration_since(record.at);
        if age > TimeDelta::days(31) {
            add(&mut merged, record, DAY);
        } else if age > TimeDelta::hours(1) {
            add(&mut merged, record, HOUR);
        } else {
            recent.push(record);
        }
    }
    let mut kept = rendered(merged.values().chain(&recent));
    if size(&kept) > KEPT_BYTES {
        // Very many calls in one hour: merge them too, by minute.
        for record in recent {
            add(&mut merged, record, 60);
        }
        kept = rendered(merged.values());
    }
    newest(kept)
}

fn add(merged: &mut Merged, mut record: Record, span: i64) {
    let start = record.at.timestamp().div_euclid(span) * span;
    record.at = DateTime::from_timestamp(start, 0).unwrap_or(record.at);
    merged.entry((start, record.kind, record.tool.clone())).and_modify(|kept| kept.merge(&record)).or_insert(record);
}

fn rendered<'a>(records: impl Iterator<Item = &'a Record>) -> Vec<String> {
    records.filter_map(|record| serde_json::to_string(record).ok()).collect()
}

fn size(lines: &[String]) -> usize {
    lines.iter().map(|line| line.len() + 1).sum()
}

/// The last lines that fit.
fn newest(mut lines: Vec<String>) -> Vec<String> {
    let mut over = size(&lines).saturating_sub(KEPT_BYTES);
    let dropped = lines.iter().take_while(|line| {
        let goes = over > 0;
        over = over.saturating_sub(line.len() + 1);
        goes
    });
    let dropped = dropped.count();
    lines.drain(..dropped);
    lines
}
