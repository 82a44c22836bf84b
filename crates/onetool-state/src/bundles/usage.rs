//! How often and when tools were called, in a separate stream: counting never rewrites a tool.
//!
//! Calls gather in memory and are appended in batches, one line per tool and batch; processes share the stream. When it
//! grows it is rewritten with one line per tool.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::interface::{Position, StateError, Stream, Trail};
use crate::wait;

use super::limits::USAGE_LOG_BYTES;
use super::names::ToolId;

/// How a tool was used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    pub call_count: u64,
    pub last_called_at: Option<DateTime<Utc>>,
}

impl Usage {
    fn add(&mut self, other: Self) {
        self.call_count += other.call_count;
        self.last_called_at = self.last_called_at.max(other.last_called_at);
    }
}

#[derive(Serialize, Deserialize)]
struct Line {
    tool: ToolId,
    calls: u64,
    last: Option<DateTime<Utc>>,
}

/// The counts in the stream, and those not written to it yet.
#[derive(Debug, Default)]
pub(crate) struct UsageLog {
    logged: HashMap<ToolId, Usage>,
    pending: HashMap<ToolId, Usage>,
    /// How far the stream has been read.
    read_to: Position,
}

impl UsageLog {
    pub(crate) fn record(&mut self, tool: ToolId, at: DateTime<Utc>) {
        self.pending.entry(tool).or_default().add(Usage { call_count: 1, last_called_at: Some(at) });
    }

    pub(crate) fn of(&self, tool: ToolId) -> Usage {
        let mut usage = self.logged.get(&tool).copied().unwrap_or_default();
        usage.add(self.pending.get(&tool).copied().unwrap_or_default());
        usage
    }

    pub(crate) fn position(&self) -> Position {
        self.read_to
    }

    /// Applies the result of [`read`].
    pub(crate) fn take_in(&mut self, news: News) {
        if news.restarted {
            self.logged.clear();
        }
        self.read_to = news.position;
        for (tool, usage) in news.usage {
            self.logged.entry(tool).or_default().add(usage);
        }
    }

    /// Takes the pending counts, to be appended without holding the lock.
    pub(crate) fn take_pending(&mut self) -> HashMap<ToolId, Usage> {
        std::mem::take(&mut self.pending)
    }

    /// Returns a batch that could not be written.
    pub(crate) fn put_back(&mut self, batch: HashMap<ToolId, Usage>) {
        for (tool, usage) in batch {
            self.pending.entry(tool).or_default().add(usage);
        }
    }
}

/// The counts appended since a position.
pub(crate) struct News {
    usage: HashMap<ToolId, Usage>,
    position: Position,
    restarted: bool,
}

/// Reads the counts that any process appended.
pub(crate) fn read(trail: &dyn Trail, since: Position) -> Result<News, StateError> {
    let mut usage: HashMap<ToolId, Usage> = HashMap::new();
    let read = wait(trail.read(Stream::USAGE, since, &mut |line| add(&mut usage, line)))?;
    Ok(News { usage, position: read.position, restarted: read.restarted })
}

fn add(usage: &mut HashMap<ToolId, Usage>, line: &str) {
    if let Ok(line) = serde_json::from_str::<Line>(line) {
        let one = Usage { call_count: line.calls, last_called_at: line.last };
        usage.entry(line.tool).or_default().add(one);
    }
}

/// Appends a batch, and compacts a stream that has grown.
pub(crate) fn append(trail: &dyn Trail, batch: &HashMap<ToolId, Usage>) -> Result<(), StateError> {
    wait(trail.append(Stream::USAGE, &lines(batch)))?;
    wait(trail.compact(Stream::USAGE, USAGE_LOG_BYTES, &|old| {
        let mut usage = HashMap::new();
        old.iter().for_each(|line| add(&mut usage, line));
        lines(&usage)
    }))
}

fn lines(batch: &HashMap<ToolId, Usage>) -> Vec<String> {
    let line = |(&tool, usage): (&ToolId, &Usage)| {
        serde_json::to_string(&Line { tool, calls: usage.call_count, last: usage.last_called_at }).ok()
    };
    batch.iter().filter_map(line).collect()
}
