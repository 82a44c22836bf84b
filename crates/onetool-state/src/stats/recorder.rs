//! Accepts records of calls, and writes them periodically.

use std::sync::Arc;
use std::time::Duration;

use chrono::Utc;

use super::Record;
use super::merge::{MERGE_BYTES, merge};
use crate::batched::{BatchedWriter, Sink};
use crate::interface::{StateError, Stream, Trail};
use crate::wait;

/// Minimum interval, whatever the configuration sets.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);

/// The stream of statistics.
struct StatsStream(Arc<dyn Trail>);

impl Sink for StatsStream {
    type Entry = Record;
    const WHAT: &'static str = "statistics";
    const BATCH_ENTRIES: usize = 1_000;

    fn write(&self, batch: &[Record], _lost: u64) -> Result<(), StateError> {
        let lines: Vec<String> = batch.iter().filter_map(|record| serde_json::to_string(record).ok()).collect();
        wait(self.0.append(Stream::STATS, &lines))
    }

    fn tidy(&self) -> Result<(), StateError> {
        wait(self.0.compact(Stream::STATS, MERGE_BYTES, &|lines| merge(&lines, Utc::now())))
    }
}

/// Accepts the records of calls.
pub struct StatsRecorder {
    writer: Option<BatchedWriter<StatsStream>>,
}

impl StatsRecorder {
    /// Appends to the stream of statistics every `interval`.
    pub fn new(trail: Arc<dyn Trail>, interval: Duration) -> Self {
        Self { writer: Some(BatchedWriter::new(StatsStream(trail), interval.max(SHORTEST_INTERVAL))) }
    }

    /// A recorder that drops everything, for disabled statistics.
    pub fn disabled() -> Self {
        Self { writer: None }
    }

    /// Queues a record. Never waits for the disk.
    pub fn record(&self, record: Record) {
        if let Some(writer) = &self.writer {
            writer.push(record);
        }
    }

    /// Writes all queued records. Blocks.
    pub fn flush(&self) -> Result<(), StateError> {
        self.writer.as_ref().map_or(Ok(()), BatchedWriter::flush)
    }

    /// The trail that records are written to; `None` if statistics are disabled.
    pub fn trail(&self) -> Option<&dyn Trail> {
        self.writer.as_ref().map(|writer| &*writer.sink().0)
    }

    /// Number of records lost because the disk was too slow.
    pub fn dropped(&self) -> u64 {
        self.writer.as_ref().map_or(0, BatchedWriter::lost)
    }
}
