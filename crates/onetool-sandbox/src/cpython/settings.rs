//! How the engine is set up.

use std::path::PathBuf;
use std::time::Duration;

use onetool_process::SearchPath;

/// Settings of the full Python engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CPythonSettings {
    /// The interpreter; `None`: the first `python3` on the path that is new enough.
    pub python: Option<PathBuf>,
    /// Where `uv`, and an interpreter if none is named, are looked for.
    pub search_path: SearchPath,
    /// The executable that answers to [`LAUNCH_ARGUMENT`](super::LAUNCH_ARGUMENT); `None`: this one.
    pub launcher: Option<PathBuf>,
    /// Run programs with less confinement, or none, where the system cannot give it. Off: such a system runs nothing.
    pub allow_unconfined: bool,
    /// Programs that run at once.
    pub max_children: usize,
    /// How long a program may wait for its turn.
    pub queue_timeout: Duration,
    /// Keep one interpreter from which the children of programs are forked. Off: each program starts its own.
    pub zygote: bool,
    /// What programs can import besides Python's own library.
    pub packages: PackageSettings,
    /// Where compiled code of our own is kept. Absolute, and no place that a program could write to; `None`: nowhere.
    pub cache: Option<PathBuf>,
}

/// Packages for programs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PackageSettings {
    /// As `pip` takes them: `pandas`, `numpy==2.*`. Empty: there are none.
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
