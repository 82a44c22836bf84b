//! The pack `file`: text files inside the allowed roots.
//!
//! **Invariant**: everything is opened beneath a root's directory handle (see [`place`]), every write replaces a file
//! whole or not at all (see `write`), and bytes that are not text are refused rather than damaged (see [`content`]).
//! A change is computed in memory by pure functions and only then written.

mod content;
mod list;
mod place;
mod read;
mod settings;

use std::sync::Arc;

pub use settings::FileSettings;

use super::NativePack;

/// What all tools of the pack share.
#[derive(Clone)]
struct Files {
    settings: Arc<FileSettings>,
}

impl Files {
    fn is_first_root(&self, place: &place::Place) -> bool {
        self.settings.roots.first() == Some(&place.root)
    }
}

/// The pack `file`.
pub fn pack(settings: FileSettings) -> NativePack {
    let files = Files { settings: Arc::new(settings) };
    NativePack {
        name: "file",
        description: "Read, search and change text files of the project.",
        tools: vec![read::tool(files.clone()), list::tool(files)],
    }
}

#[cfg(test)]
mod tests;
