//! Recognizes unchanged files and folders without reading them.

use std::fs::{self, Metadata};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// A file modified this shortly before it was read may change again within the same clock tick.
const CLOCK_TICK: Duration = Duration::from_millis(50);

/// Distinguishes states of a file without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    inode: u64,
    modified: Option<SystemTime>,
    length: u64,
}

impl Stamp {
    pub(super) fn of(metadata: &Metadata) -> Self {
        Self { inode: inode(metadata), modified: metadata.modified().ok(), length: metadata.len() }
    }

    pub(super) fn read(path: &Path) -> Option<Self> {
        fs::symlink_metadata(path).ok().map(|metadata| Self::of(&metadata))
    }

    /// Whether the file is so recent that a later change may carry the same time: file system clocks tick, and a file
    /// that is replaced twice may get its first inode back.
    pub(super) fn is_racy(&self) -> bool {
        let age = self.modified.and_then(|modified| SystemTime::now().duration_since(modified).ok());
        age.is_none_or(|age| age < CLOCK_TICK)
    }
}

#[cfg(unix)]
pub(super) fn inode(metadata: &Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(metadata)
}

#[cfg(not(unix))]
pub(super) fn inode(_: &Metadata) -> u64 {
    0
}

/// When a folder last changed, as seen at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FolderStamp {
    modified: SystemTime,
    /// So recent that a later change may carry the same time.
    racy: bool,
}

impl FolderStamp {
    /// Must be read before the listing: a change in between then shows as a newer time.
    pub(super) fn read(path: &Path) -> Option<Self> {
        let modified = fs::metadata(path).ok()?.modified().ok()?;
        let racy = SystemTime::now().duration_since(modified).unwrap_or_default() < CLOCK_TICK;
        Some(Self { modified, racy })
    }

    pub(super) fn still(self, now: Self) -> bool {
        !self.racy && self.modified == now.modified
    }
}
