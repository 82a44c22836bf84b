//! The file of JSON lines: appended under a lock, merged when it grows, read line by line.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use super::{Record, RecordKind};
use crate::atomic::{self, Lock, StoreError};
use crate::notifications::{last_byte, open_private};

/// Beyond this the file is merged.
const MERGE_BYTES: u64 = 8 * 1024 * 1024;
/// After merging, at most so much is kept: the newest.
const KEPT_BYTES: usize = 4 * 1024 * 1024;
/// A longer line is not ours.
const LINE_BYTES: usize = 64 * 1024;
const LOCK_WAIT: Duration = Duration::from_secs(5);

const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;

/// Appends whole lines in one piece. Blocks while another process writes.
pub(super) fn append(path: &Path, records: &[Record], now: DateTime<Utc>) -> Result<(), StoreError> {
    if records.is_empty() {
        return Ok(());
    }
    let error = |source| StoreError::io(path, source);
    let _lock = Lock::take(&lock_path(path), LOCK_WAIT)?;
    let mut file = open_private(path).map_err(error)?;
    let length = file.metadata().map_err(error)?.len();
    let mut text = Vec::with_capacity(records.len() * 128);
    // What a crash cut short ends here; it is skipped when read.
    if length > 0 && last_byte(&mut file).map_err(error)? != b'\n' {
        text.push(b'\n');
    }
    for record in records {
        write_line(record, &mut text).map_err(error)?;
    }
    file.write_all(&text).map_err(error)?;
    if length + text.len() as u64 > MERGE_BYTES {
        merge(path, now)?;
    }
    Ok(())
}

fn lock_path(path: &Path) -> PathBuf {
    path.with_extension("lock")
}

fn write_line(record: &Record, text: &mut Vec<u8>) -> io::Result<()> {
    serde_json::to_writer(&mut *text, record)?;
    text.push(b'\n');
    Ok(())
}

/// Hands every record to `visit`. A file that is not there has none; lines that are not records are passed over.
pub(super) fn read(path: &Path, mut visit: impl FnMut(Record)) -> Result<(), StoreError> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(StoreError::io(path, error)),
    };
    let mut reader = BufReader::with_capacity(128 * 1024, file);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = (&mut reader)
            .take(LINE_BYTES as u64)
            .read_until(b'\n', &mut line)
            .map_err(|error| StoreError::io(path, error))?;
        if read == 0 {
            return Ok(());
        }
        if line.last() != Some(&b'\n') && read == LINE_BYTES {
            reader.skip_until(b'\n').map_err(|error| StoreError::io(path, error))?;
        } else if let Ok(record) = serde_json::from_slice(&line) {
            visit(record);
        }
    }
}

/// Rewrites the file with what is older than an hour merged by hour, and what is older than a month by day. The caller
/// holds the lock.
fn merge(path: &Path, now: DateTime<Utc>) -> Result<(), StoreError> {
    let mut merged: BTreeMap<(i64, RecordKind, String), Record> = BTreeMap::new();
    let mut recent: Vec<Record> = Vec::new();
    read(path, |mut record| {
        let age = now.signed_duration_since(record.at);
        let span = if age > TimeDelta::days(31) {
            DAY
        } else if age > TimeDelta::hours(1) {
            HOUR
        } else {
            recent.push(record);
            return;
        };
        let start = record.at.timestamp().div_euclid(span) * span;
        record.at = DateTime::from_timestamp(start, 0).unwrap_or(record.at);
        match merged.entry((start, record.kind, record.tool.clone())) {
            std::collections::btree_map::Entry::Vacant(slot) => {
                slot.insert(record);
            }
            std::collections::btree_map::Entry::Occupied(mut slot) => slot.get_mut().merge(&record),
        }
    })?;
    let mut text = lines(merged.values().chain(&recent)).map_err(|error| StoreError::io(path, error))?;
    if text.len() > KEPT_BYTES {
        // So many calls in one hour: merge them too, by minute.
        for mut record in recent.drain(..) {
            let start = record.at.timestamp().div_euclid(60) * 60;
            record.at = DateTime::from_timestamp(start, 0).unwrap_or(record.at);
            merged
                .entry((start, record.kind, record.tool.clone()))
                .and_modify(|kept| kept.merge(&record))
                .or_insert(record);
        }
        text = lines(merged.values()).map_err(|error| StoreError::io(path, error))?;
    }
    let kept = newest(&text, KEPT_BYTES);
    atomic::write(path, kept)?;
    tracing::debug!(path = %path.display(), bytes = kept.len(), "statistics were merged");
    Ok(())
}

fn lines<'a>(records: impl Iterator<Item = &'a Record>) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    for record in records {
        write_line(record, &mut text)?;
    }
    Ok(text)
}

/// The last whole lines that fit.
fn newest(text: &[u8], bytes: usize) -> &[u8] {
    if text.len() <= bytes {
        return text;
    }
    let tail = &text[text.len() - bytes..];
    let start = tail.iter().position(|&byte| byte == b'\n').map_or(tail.len(), |at| at + 1);
    &tail[start..]
}
