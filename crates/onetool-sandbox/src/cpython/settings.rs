//! Settings of the engine.

use std::path::PathBuf;
use std::time::Duration;

use onetool_process::SearchPath;

/// Settings of the full Python engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CPythonSettings {
    /// The interpreter. If `None`, the first `python3` on the path that is new enough.
    pub python: Option<PathBuf>,
    /// Where to look for `uv`, and for an interpreter if none is named.
    pub search_path: SearchPath,
    /// The executable that handles [`LAUNCH_ARGUMENT`](super::LAUNCH_ARGUMENT). If `None`, this one.
    pub launcher: Option<PathBuf>,
    /// Run programs with less or no confinement where the system cannot provide it. If off, such a system runs nothing.
    pub allow_unconfined: bool,
    /// Maximum number of concurrent programs.
    pub max_children: usize,
    /// How long a program may wait for its turn.
    pub queue_timeout: Duration,
    /// Keep one interpreter from which the children of programs are forked. If off, each program starts its own.
    pub zygote: bool,
    /// Packages that programs can import besides Python's own library.
    pub packages: PackageSettings,
    /// Folder for our own compiled code, absolute and not writable by programs. If `None`, it is not kept.
    pub cache: Option<PathBuf>,
}

/// Packages for programs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PackageSettings {
    /// In `pip` syntax: `pandas`, `numpy==2.*`. May be empty.
    pub requirements: Vec<String>,
    /// Modules that are imported once, before any program.
    pub preload: Vec<String>,
    /// Where environments are kept, one folder per set of packages. Absolute.
    pub folder: PathBuf,
}

impl PackageSettings {
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }
}

impl Default for CPythonSettings {
    fn default() -> Self {
        Self {
            python: None,
            search_path: SearchPath::default(),
            launcher: None,
            allow_unconfined: false,
            max_children: 16,
            queue_timeout: Duration::from_secs(10),
            zygote: true,
            packages: PackageSettings::default(),
            cache: None,
        }
    }
}
