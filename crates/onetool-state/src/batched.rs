//! Accepts entries without ever waiting, and writes them in batches from its own thread.
//!
//! The queue is bounded: if the disk or the network is too slow, the oldest entries are dropped and counted. Entries
//! that are queued when the writer is dropped are written first.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::interface::StateError;

/// Maximum number of entries waiting to be written.
const QUEUE_ENTRIES: usize = 20_000;

/// Where entries go.
pub(crate) trait Sink: Send + Sync + 'static {
    type Entry: Send + 'static;
    /// What is written, for the name of the thread and for warnings.
    const WHAT: &'static str;
    /// The batch size that triggers a write before the interval elapses.
    const BATCH_ENTRIES: usize;

    /// Writes entries in order. `lost` entries were dropped since the last write.
    fn write(&self, batch: &[Self::Entry], lost: u64) -> Result<(), StateError>;

    /// Called after entries have been written.
    fn tidy(&self) -> Result<(), StateError>;
}

struct Queue<T> {
    entries: VecDeque<T>,
    /// Entries dropped since the last write.
    lost: u64,
    lost_ever: u64,
    closing: bool,
}

struct Shared<S: Sink> {
    sink: S,
    /// How long an entry waits at most while the sink is reachable.
    interval: Duration,
    queue: Mutex<Queue<S::Entry>>,
    wake: Condvar,
    /// One writer at a time in this process, so that batches keep their order.
    writing: Mutex<()>,
}

/// The queue in front of a sink.
pub(crate) struct BatchedWriter<S: Sink> {
    shared: Arc<Shared<S>>,
    /// Started with the first entry: most commands write none.
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl<S: Sink> BatchedWriter<S> {
    pub(crate) fn new(sink: S, interval: Duration) -> Self {
        let queue = Queue { entries: VecDeque::new(), lost: 0, lost_ever: 0, closing: false };
        let shared = Shared { sink, interval, queue: Mutex::new(queue), wake: Condvar::new(), writing: Mutex::new(()) };
        Self { shared: Arc::new(shared), thread: Mutex::new(None) }
    }

    pub(crate) fn sink(&self) -> &S {
        &self.shared.sink
    }

    /// Queues an entry. Never waits for the disk or the network.
    pub(crate) fn push(&self, entry: S::Entry) {
        let mut queue = self.shared.queue.lock();
        if queue.entries.len() >= QUEUE_ENTRIES {
            queue.entries.pop_front();
            queue.drop_more(1);
        }
        queue.entries.push_back(entry);
        let (is_first, is_batch) = (queue.entries.len() == 1, queue.entries.len() >= S::BATCH_ENTRIES);
        drop(queue);
        if is_first {
            self.start();
        }
        if is_first || is_batch {
            self.shared.wake.notify_one();
        }
    }

    fn start(&self) {
        let mut thread = self.thread.lock();
        if thread.is_none() {
            let shared = self.shared.clone();
            let named = std::thread::Builder::new().name(format!("onetool {}", S::WHAT));
            match named.spawn(move || shared.write_until_closed()) {
                Ok(handle) => *thread = Some(handle),
                Err(error) => tracing::error!(%error, "no thread could be started that writes the {}", S::WHAT),
            }
        }
    }

    /// Writes all queued entries. Blocks.
    pub(crate) fn flush(&self) -> Result<(), StateError> {
        self.shared.write_queued()
    }

    /// Number of entries dropped because the sink was too slow.
    pub(crate) fn lost(&self) -> u64 {
        self.shared.queue.lock().lost_ever
    }
}

impl<S: Sink> Drop for BatchedWriter<S> {
    fn drop(&mut self) {
        self.shared.queue.lock().closing = true;
        self.shared.wake.notify_one();
        if let Some(thread) = self.thread.lock().take() {
            let _ = thread.join();
        }
    }
}

impl<T> Queue<T> {
    fn drop_more(&mut self, count: usize) {
        self.lost += count as u64;
        self.lost_ever += count as u64;
    }
}

impl<S: Sink> Shared<S> {
    fn write_queued(&self) -> Result<(), StateError> {
        let _writing = self.writing.lock();
        let (batch, lost) = {
            let mut queue = self.queue.lock();
            (queue.entries.drain(..).collect::<Vec<_>>(), std::mem::take(&mut queue.lost))
        };
        if batch.is_empty() {
            self.queue.lock().lost += lost;
            return Ok(());
        }
        let Err(error) = self.sink.write(&batch, lost) else { return self.sink.tidy() };
        // Keep them for the next attempt, as far as there is room.
        let mut queue = self.queue.lock();
        let room = QUEUE_ENTRIES.saturating_sub(queue.entries.len());
        let gone = batch.len().saturating_sub(room);
        queue.lost += lost;
        queue.drop_more(gone);
        for entry in batch.into_iter().skip(gone).rev() {
            queue.entries.push_front(entry);
        }
        Err(error)
    }

    fn write_until_closed(&self) {
        let mut failing = false;
        loop {
            let closing = {
                let mut queue = self.queue.lock();
                while queue.entries.is_empty() && !queue.closing {
                    self.wake.wait(&mut queue);
                }
                let until = Instant::now() + self.interval;
                // After a failure, a full queue does not trigger an early write.
                while !queue.closing && (failing || queue.entries.len() < S::BATCH_ENTRIES) {
                    if self.wake.wait_until(&mut queue, until).timed_out() {
                        break;
                    }
                }
                queue.closing
            };
            match self.write_queued() {
                Ok(()) => failing = false,
                Err(error) => {
                    if !failing {
                        tracing::warn!(%error, "the {} can't be written; its entries wait", S::WHAT);
                    }
                    failing = true;
                }
            }
            if closing {
                return;
            }
        }
    }
}
