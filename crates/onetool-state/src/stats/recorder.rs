//! Takes records without ever waiting, and writes them from a thread of its own.
//!
//! The queue is bounded: when the disk can't follow, the oldest records go and are counted. Whatever is queued when the
//! recorder is dropped is written first.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use chrono::Utc;
use parking_lot::{Condvar, Mutex};

use super::Record;
use super::merge::{MERGE_BYTES, merge};
use crate::atomic::StoreError;
use crate::interface::{StateError, Stream, Trail};
use crate::wait;

/// Records that wait to be written.
const QUEUE_RECORDS: usize = 20_000;
/// So many are written without waiting for the interval.
const BATCH_RECORDS: usize = 1_000;
/// The interval is at least this, whatever the configuration says.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);

#[derive(Default)]
struct Queue {
    records: VecDeque<Record>,
    dropped: u64,
    closing: bool,
}

struct Shared {
    trail: Arc<dyn Trail>,
    queue: Mutex<Queue>,
    wake: Condvar,
    /// One writer at a time in this process, so that batches keep their order.
    writing: Mutex<()>,
}

/// Where calls leave their records.
pub struct StatsRecorder {
    shared: Option<Arc<Shared>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl StatsRecorder {
    /// Starts the thread that appends to the stream of statistics every `interval`.
    pub fn start(trail: Arc<dyn Trail>, interval: Duration) -> Result<Self, StoreError> {
        let shared = Arc::new(Shared { trail, queue: Mutex::default(), wake: Condvar::new(), writing: Mutex::new(()) });
        let owned = shared.clone();
        let interval = interval.max(SHORTEST_INTERVAL);
        let thread = std::thread::Builder::new()
            .name("onetool-stats".to_owned())
            .spawn(move || write_until_closed(&owned, interval))
            .map_err(|error| StoreError::io("onetool-stats", error))?;
        Ok(Self { shared: Some(shared), thread: Mutex::new(Some(thread)) })
    }

    /// A recorder that forgets everything, for when statistics are switched off.
    pub fn disabled() -> Self {
        Self { shared: None, thread: Mutex::new(None) }
    }

    /// Takes a record. Never waits for the disk.
    pub fn record(&self, record: Record) {
        let Some(shared) = &self.shared else { return };
        let mut queue = shared.queue.lock();
        if queue.records.len() >= QUEUE_RECORDS {
            queue.records.pop_front();
            queue.dropped += 1;
        }
        queue.records.push_back(record);
        if queue.records.len() >= BATCH_RECORDS {
            shared.wake.notify_one();
        }
    }

    /// Writes what is queued now. Blocks.
    pub fn flush(&self) -> Result<(), StateError> {
        self.shared.as_ref().map_or(Ok(()), |shared| shared.write_queued())
    }

    /// Where the records go; nowhere, when statistics are switched off.
    pub fn trail(&self) -> Option<&dyn Trail> {
        self.shared.as_ref().map(|shared| &*shared.trail)
    }

    /// Records that were lost because the disk could not follow.
    pub fn dropped(&self) -> u64 {
        self.shared.as_ref().map_or(0, |shared| shared.queue.lock().dropped)
    }
}

impl Drop for StatsRecorder {
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

impl Shared {
    fn write_queued(&self) -> Result<(), StateError> {
        let _writing = self.writing.lock();
        let batch: Vec<Record> = self.queue.lock().records.drain(..).collect();
        if batch.is_empty() {
            return Ok(());
        }
        let lines: Vec<String> = batch.iter().filter_map(|record| serde_json::to_string(record).ok()).collect();
        let written = wait(self.trail.append(Stream::STATS, &lines));
        if written.is_ok() {
            wait(self.trail.compact(Stream::STATS, MERGE_BYTES, &|lines| merge(&lines, Utc::now())))?;
        } else {
            // Keep them for the next attempt, as far as there is room.
            let mut queue = self.queue.lock();
            let room = QUEUE_RECORDS.saturating_sub(queue.records.len());
            let lost = batch.len().saturating_sub(room);
            queue.dropped += lost as u64;
            for record in batch.into_iter().skip(lost).rev() {
                queue.records.push_front(record);
            }
        }
        written
    }
}

fn write_until_closed(shared: &Shared, interval: Duration) {
    let mut failing = false;
    loop {
        let closing = {
            let mut queue = shared.queue.lock();
            let until = Instant::now() + interval;
            // After a failure a full queue is no reason to hurry.
            while !queue.closing && (failing || queue.records.len() < BATCH_RECORDS) {
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
                    tracing::warn!(%error, "statistics can't be written");
                }
                failing = true;
            }
        }
        if closing {
            return;
        }
    }
}
