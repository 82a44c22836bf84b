//! The pack `file`: text files inside the allowed roots.
//!
//! **Invariant**: everything is opened beneath a root's directory handle (see `place`), every write replaces a file
//! whole or not at all (see `change`), and bytes that are not text are refused rather than
//! damaged (see `content`), or handled as bytes (see `raw`).
//! A change is computed in memory by pure functions and only then written.

mod change;
mod client_roots;
mod content;
mod diff;
mod edit;
mod folders;
mod glob;
mod grep;
mod guard;
mod info;
mod list;
mod nearby;
mod outcome;
mod patch;
mod place;
mod raw;
mod read;
mod settings;
mod trash;
mod walk;
mod write;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use onetool_sdk::{ErrorKind, ToolError};
use parking_lot::{Mutex, MutexGuard};

pub use guard::Guard;
pub use settings::{FILE, FileKeys, FileSettings};

use super::NativePack;

/// What all tools of the pack share.
#[derive(Clone)]
struct Files {
    settings: Arc<FileSettings>,
    /// Held during a change, from reading the current state to writing the new one.
    writing: Arc<Mutex<()>>,
}

/// How long a change waits for earlier ones.
const WRITE_WAIT: Duration = Duration::from_secs(20);

impl Files {
    fn writing(&self) -> Result<MutexGuard<'_, ()>, ToolError> {
        self.writing
            .try_lock_for(WRITE_WAIT)
            .ok_or_else(|| ToolError::new(ErrorKind::Timeout, "another change of files takes too long"))
    }

    fn is_first_root(&self, place: &place::Place) -> bool {
        self.settings.roots.first() == Some(&place.root)
    }
}

/// Resolves the path of a file or folder for a tool outside this pack that will read or write it, by the same rules as
/// the pack's own tools. Blocks.
pub fn resolve(settings: &FileSettings, path: &str, for_writing: bool) -> Result<PathBuf, ToolError> {
    let purpose = if for_writing { place::Purpose::Write } else { place::Purpose::Read };
    place::elsewhere(settings, path, purpose)
}

/// The pack `file`.
pub fn pack(settings: FileSettings) -> NativePack {
    let files = Files { settings: Arc::new(settings), writing: Arc::default() };
    NativePack {
        name: "file",
        description: "Read, search and change text files of the project.",
        tools: vec![
            read::tool(files.clone()).read_only(),
            write::tool(files.clone()),
            edit::tool(files.clone()),
            patch::tool(files.clone()),
            list::tool(files.clone()).read_only(),
            glob::tool(files.clone()).read_only(),
            grep::tool(files.clone()).read_only(),
            info::tool(files.clone()).read_only(),
            folders::make_folder(files.clone()),
            folders::move_to(files.clone()),
            trash::tool(files),
        ],
    }
}

#[cfg(test)]
mod tests;
