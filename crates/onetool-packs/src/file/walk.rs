//! Walks folders like git: files matched by `.gitignore` and `.ignore` are skipped.
//!
//! The walk itself only yields names; a file's content is opened beneath the root's handle. Links are not followed, and
//! `.git`, the trash and unreadable folders are never entered.

use std::path::Path;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use ignore::{WalkBuilder, WalkState};
use onetool_sdk::ToolError;

use super::Files;
use super::place::Place;
use super::settings::real;
use crate::blocking::Stop;

/// More threads than this do not help.
const MAX_THREADS: usize = 8;

/// Whether ignored or hidden files are skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Filter {
    Skip,
    Include,
}

impl Filter {
    pub(super) fn include_if(wanted: bool) -> Self {
        if wanted { Self::Include } else { Self::Skip }
    }
}

/// A walk and its options.
pub(super) struct Walk<'a> {
    pub(super) files: &'a Files,
    pub(super) place: &'a Place,
    pub(super) hidden: Filter,
    pub(super) ignored: Filter,
}

/// Whether to continue after a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    Continue,
    Quit,
}

impl Walk<'_> {
    /// Visits every file by its path relative to the root, on several threads. `visitor` creates one for each thread.
    pub(super) fn visit<V, F>(&self, stop: &Stop, visitor: V) -> Result<(), ToolError>
    where
        V: Fn() -> F + Sync,
        F: FnMut(&Path) -> Next + Send,
    {
        let root = &self.place.root;
        let start = if self.place.is_root() { root.clone() } else { root.join(&self.place.relative) };
        let settings = self.files.settings.clone();
        let (filter_root, real_root, trash) = (root.clone(), real(root), settings.trash_dir.clone());
        let ignored = self.ignored == Filter::Skip;
        WalkBuilder::new(&start)
            .hidden(self.hidden == Filter::Skip)
            .ignore(ignored)
            .git_ignore(ignored)
            .git_exclude(ignored)
            .git_global(false)
            .require_git(false)
            .parents(ignored)
            .follow_links(false)
            .threads(std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS))
            .filter_entry(move |entry| {
                let relative = entry.path().strip_prefix(&filter_root).unwrap_or(entry.path());
                entry.depth() == 0
                    || !(entry.file_name() == ".git"
                        || relative == trash
                        || settings.is_unreadable(&real_root, relative))
            })
            .build_parallel()
            .run(|| {
                let mut visit = visitor();
                Box::new(move |entry| {
                    if stop.is_set() {
                        return WalkState::Quit;
                    }
                    // Skip folders that cannot be read.
                    let Ok(entry) = entry else { return WalkState::Continue };
                    if !entry.file_type().is_some_and(|kind| kind.is_file()) {
                        return WalkState::Continue;
                    }
                    let relative = entry.path().strip_prefix(root).unwrap_or(entry.path());
                    match visit(relative) {
                        Next::Continue => WalkState::Continue,
                        Next::Quit => WalkState::Quit,
                    }
                })
            });
        stop.check()
    }

    /// A path of the walk, relative to its start.
    pub(super) fn below_start<'p>(&self, relative: &'p Path) -> &'p Path {
        relative.strip_prefix(&self.place.relative).unwrap_or(relative)
    }
}

/// Compiles a glob on paths: `*` matches within a name, `**` across folders, `{a,b}` either.
pub(super) fn glob_set(pattern: &str) -> Result<GlobSet, ToolError> {
    let bad = |error: globset::Error| {
        ToolError::value_error(format!("{pattern:?} is not a valid glob: {}", error.kind()))
            .with_hint("for example `src/**/*.rs` or `*.{md,txt}`")
    };
    let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
    if pattern.is_empty() || pattern.starts_with('/') || pattern.split('/').any(|part| part == "..") {
        return Err(ToolError::value_error(format!("{pattern:?} is not a glob below a folder"))
            .with_hint("give the folder as path, and the glob relative to it"));
    }
    let glob = GlobBuilder::new(pattern).literal_separator(true).build().map_err(bad)?;
    let mut set = GlobSetBuilder::new();
    set.add(glob);
    set.build().map_err(bad)
}
