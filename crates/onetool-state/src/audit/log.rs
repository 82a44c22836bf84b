//! Accepts audit lines, writes them, and removes expired ones.

use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use parking_lot::Mutex;

use super::{AuditEvent, AuditRecord};
use crate::batched::{BatchedWriter, Sink};
use crate::interface::{StateError, Stream, Trail};
use crate::wait;

/// How long a line waits at most while the state is reachable.
const INTERVAL: Duration = Duration::from_secs(1);
/// How often expired lines are removed.
const TRIM_EVERY: Duration = Duration::from_hours(1);
/// Maximum length of a line; a longer one is shortened, because it could not be read again.
const LINE_BYTES: usize = 32 << 10;

/// How long audit lines are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditSettings {
    /// Zero keeps lines forever.
    pub retention: Duration,
}

impl AuditSettings {
    /// Lines before this are no longer shown.
    pub fn horizon(&self) -> DateTime<Utc> {
        let kept = chrono::TimeDelta::from_std(self.retention).ok().filter(|kept| !kept.is_zero());
        kept.and_then(|kept| Utc::now().checked_sub_signed(kept)).unwrap_or(DateTime::<Utc>::MIN_UTC)
    }
}

/// The stream of audit lines.
struct AuditStream {
    trail: Arc<dyn Trail>,
    settings: AuditSettings,
    trimmed: Mutex<Option<Instant>>,
}

impl Sink for AuditStream {
    type Entry = AuditRecord;
    const WHAT: &'static str = "audit trail";
    const BATCH_ENTRIES: usize = 500;

    fn write(&self, batch: &[AuditRecord], lost: u64) -> Result<(), StateError> {
        let note = (lost > 0).then(|| AuditRecord { count: Some(lost), ..AuditRecord::new(AuditEvent::Lost, "error") });
        let lines: Vec<String> = note.iter().chain(batch).filter_map(line).collect();
        wait(self.trail.append(Stream::AUDIT, &lines))
    }

    fn tidy(&self) -> Result<(), StateError> {
        let mut trimmed = self.trimmed.lock();
        if trimmed.is_some_and(|at| at.elapsed() < TRIM_EVERY) {
            return Ok(());
        }
        *trimmed = Some(Instant::now());
        self.trim()
    }
}

impl AuditStream {
    fn trim(&self) -> Result<(), StateError> {
        if self.settings.retention.is_zero() {
            return Ok(());
        }
        let horizon = self.settings.horizon();
        wait(self.trail.trim(Stream::AUDIT, &|line| is_before(line, horizon)))
    }
}

/// Accepts audit records.
pub struct AuditLog {
    writer: Option<BatchedWriter<AuditStream>>,
}

impl AuditLog {
    pub fn new(trail: Arc<dyn Trail>, settings: AuditSettings) -> Self {
        let stream = AuditStream { trail, settings, trimmed: Mutex::new(None) };
        Self { writer: Some(BatchedWriter::new(stream, INTERVAL)) }
    }

    /// Keeps nothing.
    pub fn disabled() -> Self {
        Self { writer: None }
    }

    pub fn is_on(&self) -> bool {
        self.writer.is_some()
    }

    /// Queues a record. Never waits for the disk or the network.
    pub fn record(&self, record: AuditRecord) {
        if let Some(writer) = &self.writer {
            writer.push(if record.text_bytes() > LINE_BYTES { record.without_texts() } else { record });
        }
    }

    /// Writes all queued records. Blocks.
    pub fn flush(&self) -> Result<(), StateError> {
        self.writer.as_ref().map_or(Ok(()), BatchedWriter::flush)
    }

    /// The trail and its settings; `None` if auditing is disabled.
    pub fn trail(&self) -> Option<(&Arc<dyn Trail>, AuditSettings)> {
        self.writer.as_ref().map(|writer| (&writer.sink().trail, writer.sink().settings))
    }

    /// Removes expired lines. Blocks.
    pub fn trim(&self) -> Result<(), StateError> {
        self.writer.as_ref().map_or(Ok(()), |writer| writer.sink().trim())
    }
}

fn line(record: &AuditRecord) -> Option<String> {
    let line = serde_json::to_string(record).ok()?;
    if line.len() <= LINE_BYTES {
        return Some(line);
    }
    serde_json::to_string(&record.clone().without_texts()).ok().filter(|line| line.len() <= LINE_BYTES)
}

/// Whether a line is older than `horizon`; invalid lines are.
pub(super) fn is_before(line: &str, horizon: DateTime<Utc>) -> bool {
    #[derive(serde::Deserialize)]
    struct Time {
        ts: DateTime<Utc>,
    }
    serde_json::from_str::<Time>(line).map_or(true, |line| line.ts < horizon)
}
