//! Takes lines without ever waiting, and writes them from a thread of its own.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use parking_lot::{Condvar, Mutex};

use super::{AuditEvent, AuditRecord};
use crate::interface::{StateError, Stream, Trail};
use crate::wait;

/// Lines that wait to be written.
const QUEUE_LINES: usize = 20_000;
/// So many are written without waiting for the interval.
const BATCH_LINES: usize = 500;
/// How long a line waits, at most, while the state can be reached.
const INTERVAL: Duration = Duration::from_secs(1);
/// How often what is too old is looked for.
const TRIM_EVERY: Duration = Duration::from_hours(1);
/// A longer line is shortened; it would not be read again.
const LINE_BYTES: usize = 32 << 10;

/// What is kept, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditSettings {
    /// Zero keeps lines for ever.
    pub retention: Duration,
}

impl AuditSettings {
    /// Lines before this are not shown any more.
    pub fn horizon(&self) -> DateTime<Utc> {
        let kept = chrono::TimeDelta::from_std(self.retention).ok().filter(|kept| !kept.is_zero());
        kept.and_then(|kept| Utc::now().checked_sub_signed(kept)).unwrap_or(DateTime::<Utc>::MIN_UTC)
    }
}

#[derive(Default)]
struct Queue {
    lines: VecDeque<String>,
    /// Lines that had to go since the last that was written.
    lost: u64,
    closing: bool,
}

struct Shared {
    trail: Arc<dyn Trail>,
    settings: AuditSettings,
    queue: Mutex<Queue>,
    wake: Condvar,
    /// One writer at a time in this process, so that lines keep their order.
    writing: Mutex<()>,
}

/// Where everything leaves its line.
pub struct AuditLog {
    shared: Option<Arc<Shared>>,
    /// Started with the first line: most commands write none.
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl AuditLog {
    pub fn new(trail: Arc<dyn Trail>, settings: AuditSettings) -> Self {
        let (queue, wake, writing) = (Mutex::default(), Condvar::new(), Mutex::new(()));
        Self { shared: Some(Arc::new(Shared { trail, settings, queue, wake, writing })), thread: Mutex::new(None) }
    }

    /// Keeps nothing.
    pub fn disabled() -> Self {
        Self { shared: None, thread: Mutex::new(None) }
    }

    pub fn is_on(&self) -> bool {
        self.shared.is_some()
    }

    /// Takes a line. Never waits for the disk or the network.
    pub fn record(&self, record: &AuditRecord) {
        let Some(shared) = &self.shared else { return };
        let Some(line) = line(record) else { return };
        let mut queue = shared.queue.lock();
        if queue.lines.len() >= QUEUE_LINES {
            queue.lines.pop_front();
            queue.lost += 1;
        }
        queue.lines.push_back(line);
        let is_batch = queue.lines.len() >= BATCH_LINES;
        let is_first = queue.lines.len() == 1;
        drop(queue);
        if is_first {
            self.start(shared);
        }
        if is_batch || is_first {
            shared.wake.notify_one();
        }
    }

    fn start(&self, shared: &Arc<Shared>) {
        let mut thread = self.thread.lock();
        if thread.is_none() {
            let owned = shared.clone();
            let started = std::thread::Builder::new().name("onetool-audit".to_owned());
            match started.spawn(move || write_until_closed(&owned)) {
                Ok(handle) => *thread = Some(handle),
                Err(error) => tracing::error!(%error, "the audit trail cannot be written"),
            }
        }
    }

    /// Writes what is queued now. Blocks.
    pub fn flush(&self) -> Result<(), StateError> {
        self.shared.as_ref().map_or(Ok(()), |shared| shared.write_queued())
    }

    /// Where the lines are, and how long they are kept; nothing where none are kept.
    pub fn trail(&self) -> Option<(&Arc<dyn Trail>, AuditSettings)> {
        self.shared.as_ref().map(|shared| (&shared.trail, shared.settings))
    }

    /// Removes what is too old. Blocks.
    pub fn trim(&self) -> Result<(), StateError> {
        self.shared.as_ref().map_or(Ok(()), |shared| shared.trim())
    }
}

impl Drop for AuditLog {
    fn drop(&mut self) {
        if let Some(shared) = &self.shared {
            shared.queue.lock().closing = true;
            shared.wake.notify_one();
        }
        if let Some(thread) = self.thread.lock().take() {
            let _ = thread.join();
        }
    }
}

fn line(record: &AuditRecord) -> Option<String> {
    let line = serde_json::to_string(record).ok()?;
    if line.len() <= LINE_BYTES {
        return Some(line);
    }
    let short = AuditRecord { arguments: None, error: None, client: None, ..record.clone() };
    serde_json::to_string(&short).ok().filter(|line| line.len() <= LINE_BYTES)
}

impl Shared {
    fn write_queued(&self) -> Result<(), StateError> {
        let _writing = self.writing.lock();
        let (batch, lost) = {
            let mut queue = self.queue.lock();
            (queue.lines.drain(..).collect::<Vec<String>>(), std::mem::take(&mut queue.lost))
        };
        if batch.is_empty() {
            return Ok(());
        }
        let note = (lost > 0).then(|| AuditRecord { count: Some(lost), ..AuditRecord::new(AuditEvent::Lost, "error") });
        let lines: Vec<String> = note.as_ref().and_then(line).into_iter().chain(batch.iter().cloned()).collect();
        let written = wait(self.trail.append(Stream::AUDIT, &lines));
        if written.is_err() {
            // Keep them for the next attempt, as far as there is room.
            let mut queue = self.queue.lock();
            let room = QUEUE_LINES.saturating_sub(queue.lines.len());
            let gone = batch.len().saturating_sub(room);
            queue.lost += lost + gone as u64;
            for line in batch.into_iter().skip(gone).rev() {
                queue.lines.push_front(line);
            }
        }
        written
    }

    fn trim(&self) -> Result<(), StateError> {
        if self.settings.retention.is_zero() {
            return Ok(());
        }
        let horizon = self.settings.horizon();
        wait(self.trail.trim(Stream::AUDIT, &|line| is_before(line, horizon)))
    }
}

/// Whether a line is older; one that cannot be read is.
pub(super) fn is_before(line: &str, horizon: DateTime<Utc>) -> bool {
    #[derive(serde::Deserialize)]
    struct Time {
        ts: DateTime<Utc>,
    }
    serde_json::from_str::<Time>(line).map_or(true, |line| line.ts < horizon)
}

fn write_until_closed(shared: &Shared) {
    let mut failing = false;
    let mut trimmed: Option<Instant> = None;
    loop {
        let closing = {
            let mut queue = shared.queue.lock();
            while queue.lines.is_empty() && !queue.closing {
                shared.wake.wait(&mut queue);
            }
            let until = Instant::now() + INTERVAL;
            // After a failure a full queue is no reason to hurry.
            while !queue.closing && (failing || queue.lines.len() < BATCH_LINES) {
                if shared.wake.wait_until(&mut queue, until).timed_out() {
                    break;
                }
            }
            queue.closing
        };
        match shared.write_queued() {
            Ok(()) => failing = false,
            Err(error) => {
                if !failing {
                    tracing::warn!(%error, "the audit trail can't be written; its lines wait");
                }
                failing = true;
            }
        }
        if closing {
            return;
        }
        if !failing && trimmed.is_none_or(|at| at.elapsed() >= TRIM_EVERY) {
            trimmed = Some(Instant::now());
            if let Err(error) = shared.trim() {
                tracing::warn!(%error, "old lines of the audit trail could not be removed");
            }
        }
    }
}
