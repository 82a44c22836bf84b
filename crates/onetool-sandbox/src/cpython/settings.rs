//! How the engine is set up.

use std::path::PathBuf;
use std::time::Duration;

/// Settings of the full Python engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CPythonSettings {
    /// The interpreter; `None`: the first `python3` on the path that is new enough.
    pub python: Option<PathBuf>,
    /// Where an interpreter is looked for if none is named.
    pub search_folders: Vec<PathBuf>,
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
}

impl Default for CPythonSettings {
    fn default() -> Self {
        Self {
            python: None,
            search_folders: std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
                .filter(|folder| folder.is_absolute())
                .collect(),
            launcher: None,
            allow_unconfined: false,
            max_children: 16,
            queue_timeout: Duration::from_secs(10),
            zygote: true,
        }
    }
}
