//! The allowed paths and the limits of the pack.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use onetool_config::{Reader, Section, expand_home, keys};

keys! {
    /// The pack `file`.
    pub struct FileKeys {
        /// Folders that it may use, relative to the project. Without it, the project.
        roots: Vec<String> = Vec::new(), live, example "[\".\"]";
        /// Also use the folders that the client names as its roots. For clients that you trust with the whole machine.
        client_roots: bool = false, live;
    }
}

pub const FILE: Section<FileKeys> = Section::new("tools.file");

use super::guard::Guard;

/// Files that no tool may read: the secrets of this program.
const UNREADABLE: &[&str] = &["**/.onetool/**/secrets.yaml", "**/.onetool/**/secrets.yml"];

/// Files that no tool may write: a hook, a configuration or an extension written here would run outside the sandbox.
const PROTECTED: &[&str] = &["**/.git", "**/.git/**", "**/.onetool", "**/.onetool/**"];

/// Settings of the pack `file`.
#[derive(Debug, Clone)]
pub struct FileSettings {
    /// Folders that the tools may use. Relative paths start at the first; the others are reached by absolute paths.
    pub roots: Vec<PathBuf>,
    /// Whether the client's own roots are allowed too, after these.
    pub client_roots: bool,
    /// Maximum size of one `read` with line numbers, in bytes.
    pub max_read_bytes: usize,
    /// Maximum size of a file in memory: written, edited, patched, or read as plain text.
    pub max_write_bytes: usize,
    /// Longer lines are clipped in output.
    pub max_line_chars: usize,
    /// Maximum number of entries, paths or matches per call.
    pub max_results: usize,
    /// Maximum number of paths that `list` and `glob` return to code.
    pub max_paths: usize,
    /// Maximum size of a returned diff; of a larger one only its size is reported.
    pub max_diff_bytes: usize,
    /// Where `delete` moves files, below their root.
    pub trash_dir: PathBuf,
    /// The files that control this program.
    pub guard: Arc<Guard>,
    unreadable: GlobSet,
    protected: GlobSet,
}

impl FileSettings {
    /// The defaults for a project: its folder is the only root.
    pub fn for_project(folder: impl Into<PathBuf>) -> Self {
        Self {
            roots: vec![folder.into()],
            client_roots: false,
            max_read_bytes: 256 * 1024,
            max_write_bytes: 16 * 1024 * 1024,
            max_line_chars: 2000,
            max_results: 1000,
            max_paths: 100_000,
            max_diff_bytes: 256 * 1024,
            trash_dir: PathBuf::from(".onetool/trash"),
            guard: Arc::default(),
            unreadable: glob_set(UNREADABLE).unwrap_or_default(),
            protected: glob_set(PROTECTED).unwrap_or_default(),
        }
    }

    /// Reads the section `tools.file`.
    pub fn read(reader: &mut Reader) -> Self {
        let project = reader.places().project.clone();
        let keys = reader.read(&FILE);
        let roots: Vec<PathBuf> = keys.roots.iter().map(|root| project.join(expand_home(root))).collect();
        let is_too_large = reader.places().is_too_large_for_tools();
        let defaults = Self { client_roots: keys.client_roots, ..Self::for_project(project) };
        match roots.is_empty() {
            // The whole machine is never a default root.
            true if is_too_large => Self { roots: Vec::new(), ..defaults },
            true => defaults,
            false => Self { roots, ..defaults },
        }
    }

    /// Adds the files that control this program, which the tools must not change.
    #[must_use]
    pub fn with_guard(self, guard: Guard) -> Self {
        Self { guard: Arc::new(guard), ..self }
    }

    /// Checks the absolute path too: a root may itself be the folder with the secrets.
    pub(super) fn is_unreadable(&self, real_root: &Path, relative: &Path) -> bool {
        let whole = real_root.join(relative);
        self.unreadable.is_match(relative) || self.unreadable.is_match(&whole) || self.guard.forbids_reading(&whole)
    }

    /// Checks the absolute path too, and its target.
    pub(super) fn is_protected(&self, real_root: &Path, relative: &Path) -> bool {
        let whole = real_root.join(relative);
        self.protected.is_match(relative) || self.protected.is_match(&whole) || self.guard.forbids_change(&whole)
    }

    /// Whether a folder is protected against writing, or lies in one that is.
    pub(super) fn is_within_protected(&self, real_root: &Path, relative: &Path) -> bool {
        let whole = real_root.join(relative);
        self.protected.is_match(relative) || self.protected.is_match(&whole) || self.guard.forbids_writing_in(&whole)
    }

    /// Whether a folder may not be moved to or from this path.
    pub(super) fn is_fixed_folder(&self, real_root: &Path, relative: &Path) -> bool {
        self.guard.forbids_moving_folder(&real_root.join(relative))
    }
}

/// A root with its links resolved.
pub(super) fn real(root: &Path) -> PathBuf {
    std::fs::canonicalize(root).unwrap_or_else(|_| root.to_owned())
}

/// Ignores case: on some file systems `.GIT` is `.git`.
fn glob_set(globs: &[&str]) -> Result<GlobSet, globset::Error> {
    let mut set = GlobSetBuilder::new();
    for glob in globs {
        set.add(GlobBuilder::new(glob).case_insensitive(true).literal_separator(true).build()?);
    }
    set.build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_and_hooks_are_out_of_reach_by_default() {
        let settings = FileSettings::for_project("/p");
        for path in [".onetool/secrets.yaml", "sub/.onetool/config/secrets.yml", ".OneTool/Secrets.yaml"] {
            assert!(settings.is_unreadable(Path::new("/p"), Path::new(path)), "{path}");
        }
        assert!(settings.is_unreadable(Path::new("/home/me/.onetool"), Path::new("secrets.yaml")));
        for path in [".git/hooks/pre-commit", ".GIT/config", "vendor/x/.git/config", ".onetool/onetool.yaml", ".git"] {
            assert!(settings.is_protected(Path::new("/p"), Path::new(path)), "{path}");
        }
        for path in ["secrets.yaml", ".gitignore", "src/onetool/a.rs", ".github/workflows/a.yml"] {
            assert!(!settings.is_protected(Path::new("/p"), Path::new(path)), "{path}");
            assert!(!settings.is_unreadable(Path::new("/p"), Path::new(path)), "{path}");
        }
    }
}
