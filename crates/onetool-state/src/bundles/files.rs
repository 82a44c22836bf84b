//! Where the files are, how they are recognised again, and what happens to broken ones.

use std::fs::{self, Metadata};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::de::DeserializeOwned;

use super::limits::{CLOCK_TICK, SETTLED};
use super::model::KNOWN_TYPES;
use super::names::{BundleId, ToolId};

/// The paths of a store.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    pub(crate) root: PathBuf,
}

impl Layout {
    pub(crate) fn lock(&self) -> PathBuf {
        self.root.join(".lock")
    }

    pub(crate) fn switches(&self) -> PathBuf {
        self.root.join("builtin.json")
    }

    pub(crate) fn usage(&self) -> PathBuf {
        self.root.join("usage.jsonl")
    }

    pub(crate) fn folder(&self, bundle: BundleId) -> PathBuf {
        self.root.join(bundle.to_string())
    }

    pub(crate) fn bundle(&self, bundle: BundleId) -> PathBuf {
        self.folder(bundle).join("bundle.json")
    }

    pub(crate) fn tool(&self, bundle: BundleId, tool: ToolId) -> PathBuf {
        self.folder(bundle).join(format!("{tool}.json"))
    }

    /// Whether anything is kept here, or may be: a folder that nobody made is not made for counting alone.
    pub(crate) fn is_at_home(&self) -> bool {
        self.root.is_dir() || self.root.parent().is_some_and(Path::is_dir)
    }

    fn quarantine(&self) -> PathBuf {
        self.root.join("quarantine")
    }

    /// Moves a broken file aside, unless it may still be being written. Says where it went.
    pub(crate) fn set_aside(&self, path: &Path) -> Option<PathBuf> {
        let modified = fs::symlink_metadata(path).ok()?.modified().ok()?;
        if SystemTime::now().duration_since(modified).unwrap_or_default() < SETTLED {
            return None;
        }
        let folder = self.quarantine();
        fs::create_dir_all(&folder).ok()?;
        let relative = path.strip_prefix(&self.root).unwrap_or(path);
        let name = relative.to_string_lossy().replace(['/', '\\'], "_");
        let target = folder.join(format!("{name}.{}", uuid::Uuid::now_v7().simple()));
        fs::rename(path, &target).ok()?;
        Some(target)
    }
}

/// What tells one state of a file from another without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) inode: u64,
    modified: Option<SystemTime>,
    pub(crate) length: u64,
}

impl Stamp {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        Self { inode: inode(metadata), modified: metadata.modified().ok(), length: metadata.len() }
    }

    pub(crate) fn read(path: &Path) -> Option<Self> {
        fs::symlink_metadata(path).ok().map(|metadata| Self::of(&metadata))
    }
}

#[cfg(unix)]
fn inode(metadata: &Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(metadata)
}

#[cfg(not(unix))]
fn inode(_: &Metadata) -> u64 {
    0
}

/// The inode that a folder's listing gives for free.
#[cfg(unix)]
pub(crate) fn listed_inode(entry: &fs::DirEntry) -> u64 {
    std::os::unix::fs::DirEntryExt::ino(entry)
}

/// Without inodes a listing can't tell a replaced file: zero never equals a known file's stamp with a length.
#[cfg(not(unix))]
pub(crate) fn listed_inode(_: &fs::DirEntry) -> u64 {
    u64::MAX
}

/// When a folder last changed, as seen at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FolderStamp {
    modified: SystemTime,
    /// So young that a later change may carry the same time.
    racy: bool,
}

impl FolderStamp {
    /// Read it before the listing: a change in between then shows as a newer time.
    pub(crate) fn read(path: &Path) -> Option<Self> {
        let modified = fs::metadata(path).ok()?.modified().ok()?;
        let racy = SystemTime::now().duration_since(modified).unwrap_or_default() < CLOCK_TICK;
        Some(Self { modified, racy })
    }

    pub(crate) fn still(self, now: Self) -> bool {
        !self.racy && self.modified == now.modified
    }
}

/// Reads and parses one file of at most `limit` bytes.
pub(crate) fn load<T: DeserializeOwned>(path: &Path, limit: usize) -> Result<(T, String, Stamp), LoadError> {
    let metadata = fs::symlink_metadata(path).map_err(|error| LoadError::Gone(error.to_string()))?;
    if !metadata.is_file() {
        return Err(LoadError::Skipped("it is not a plain file".to_owned()));
    }
    if metadata.len() > limit as u64 {
        return Err(LoadError::Skipped(format!("it is larger than {limit} bytes")));
    }
    let mut bytes = Vec::with_capacity(metadata.len() as usize);
    fs::File::open(path)
        .and_then(|file| file.take(limit as u64 + 1).read_to_end(&mut bytes))
        .map_err(|error| LoadError::Gone(error.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|_| LoadError::Broken("it is not UTF-8".to_owned()))?;
    let value = serde_json::from_str(&text).map_err(|error| match foreign_type(&text) {
        Some(kind) => LoadError::Skipped(format!("its type '{kind}' is not known to this build")),
        None => LoadError::Broken(error.to_string()),
    })?;
    Ok((value, text, Stamp::of(&metadata)))
}

/// The type of a tool that another build may understand: such a file is not broken.
fn foreign_type(text: &str) -> Option<String> {
    let json: serde_json::Value = serde_json::from_str(text).ok()?;
    let kind = json.get("type")?.as_str()?;
    (!KNOWN_TYPES.contains(&kind)).then(|| kind.to_owned())
}

/// Why a file does not count.
#[derive(Debug)]
pub(crate) enum LoadError {
    /// Gone meanwhile, or not readable now.
    Gone(String),
    /// Left where it is, and reported.
    Skipped(String),
    /// Set aside, and reported.
    Broken(String),
}
