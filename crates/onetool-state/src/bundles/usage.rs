//! How often and when tools were called, in a log beside the tools: counting never rewrites a tool.
//!
//! Calls gather in memory and are appended in batches, one line a tool and batch; processes share the log. A torn last
//! line is dropped. When the log grows it is rewritten with one line a tool.

use std::collections::HashMap;
use std::fs::{self, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::PathBuf;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::atomic::{self, Lock, StoreError};

use super::files::Layout;
use super::limits::{LOCK_WAIT, USAGE_LOG_BYTES};
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

/// What the log says, and what is not in it yet.
#[derive(Debug, Default)]
pub(crate) struct UsageLog {
    logged: HashMap<ToolId, Usage>,
    pending: HashMap<ToolId, Usage>,
    /// How much of the log has been read, and which file that was.
    read_to: u64,
    inode: Option<u64>,
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

    pub(crate) fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Reads what was appended since, by any process.
    pub(crate) fn catch_up(&mut self, layout: &Layout) {
        let path = layout.usage();
        let Some(stamp) = super::files::Stamp::read(&path) else { return };
        if self.inode != Some(stamp.inode) || stamp.length < self.read_to {
            self.logged.clear();
            self.read_to = 0;
            self.inode = Some(stamp.inode);
        }
        if stamp.length == self.read_to {
            return;
        }
        let mut text = Vec::new();
        let read = fs::File::open(&path).and_then(|mut file| {
            file.seek(SeekFrom::Start(self.read_to))?;
            file.take(stamp.length - self.read_to).read_to_end(&mut text)
        });
        if read.is_err() {
            return;
        }
        let whole = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        self.read_to += whole as u64;
        for line in text[..whole].split(|&byte| byte == b'\n') {
            if let Ok(line) = serde_json::from_slice::<Line>(line) {
                let usage = Usage { call_count: line.calls, last_called_at: line.last };
                self.logged.entry(line.tool).or_default().add(usage);
            }
        }
    }

    /// Takes what is pending, to be appended without holding anything up.
    pub(crate) fn take_pending(&mut self) -> HashMap<ToolId, Usage> {
        std::mem::take(&mut self.pending)
    }

    /// Puts a batch back that could not be written.
    pub(crate) fn put_back(&mut self, batch: HashMap<ToolId, Usage>) {
        for (tool, usage) in batch {
            self.pending.entry(tool).or_default().add(usage);
        }
    }

    /// Rewrites a grown log, under the lock that the caller holds.
    pub(crate) fn compact(&mut self, layout: &Layout, _held: &Lock) -> Result<(), StoreError> {
        let path = layout.usage();
        if fs::metadata(&path).map_or(0, |metadata| metadata.len()) < USAGE_LOG_BYTES {
            return Ok(());
        }
        self.catch_up(layout);
        atomic::write(&path, &lines(&self.logged))
    }
}

fn lines(batch: &HashMap<ToolId, Usage>) -> Vec<u8> {
    let mut text = Vec::new();
    for (&tool, usage) in batch {
        let line = Line { tool, calls: usage.call_count, last: usage.last_called_at };
        if serde_json::to_writer(&mut text, &line).is_ok() {
            text.push(b'\n');
        }
    }
    text
}

/// Appends a batch. The log's end is mended first, should a killed process have left half a line.
pub(crate) fn append(layout: &Layout, batch: &HashMap<ToolId, Usage>) -> Result<Lock, StoreError> {
    let held = Lock::take(&layout.lock(), LOCK_WAIT)?;
    let path: PathBuf = layout.usage();
    let mut file = OpenOptions::new()
        .create(true)
        .read(true)
        .append(true)
        .open(&path)
        .map_err(|error| StoreError::io(&path, error))?;
    let mut text = Vec::new();
    if ends_torn(&mut file) {
        text.push(b'\n');
    }
    text.extend(lines(batch));
    file.write_all(&text).map_err(|error| StoreError::io(&path, error))?;
    Ok(held)
}

fn ends_torn(file: &mut fs::File) -> bool {
    let mut last = [0_u8];
    file.seek(SeekFrom::End(-1)).and_then(|_| file.read_exact(&mut last)).is_ok() && last[0] != b'\n'
}
