//! Settings that the rest of the program provides for workers, resolved.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use onetool_config::{AnySection, FileTrust, MAX_MB, Section, Shape, keys};
use onetool_process::SearchPath;
use onetool_sdk::ToolError;

keys! {
    /// Workers: the processes that serve Python tool files.
    pub struct WorkerKeys {
        /// Seconds without a call after which a worker ends.
        idle_timeout: Duration = Duration::from_mins(10), live;
        /// Seconds that a call may take.
        call_timeout: Duration = Duration::from_mins(2), live;
        /// Seconds that installing packages and importing the file may take.
        startup_timeout: Duration = Duration::from_mins(5), live;
        /// Seconds that a cancelled call may take to stop. After that the pack gets a new worker.
        cancel_grace: Duration = Duration::from_secs(2), live;
        /// Plain functions of one pack that run at once, each on a thread. A file can say less: `threads` in `[tool.onetool]`.
        threads: usize [Shape::Count(1, 256)] = 8, live;
        /// Workers at once; the one that is idle longest makes room for a new one.
        max: usize [Shape::Count(1, 1000)] = 20, live;
        /// Calls that may wait for one pack.
        max_queue: usize [Shape::Count(1, 1_000_000)] = 1000, live;
        /// Memory of a worker, in megabytes.
        max_memory_mb: u64 [Shape::Count(16, MAX_MB)] = 4096, live;
    }
}

pub const WORKERS: Section<WorkerKeys> = Section::new("workers");

/// The sections of this crate.
pub const SECTIONS: &[&dyn AnySection] = &[&TOOLS_DIR, &WORKERS];

pub const TOOLS_DIR: Section<Vec<String>> = Section::new("tools_dir")
    .with_doc("Patterns of further tool files, relative to the project.")
    .with_shape(Shape::OneOrMore(&Shape::Text))
    .with_example("[\".onetool/tools/*.py\"]");

/// Where tool files are, and the limits of their workers.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkerSettings {
    /// `.onetool/tools` of the project: `<pack>/<pack>_tools.py` below it.
    pub project_tools: Option<PathBuf>,
    /// `~/.onetool/tools`, shared by all projects. The project's files take precedence.
    pub global_tools: Option<PathBuf>,
    /// A file that its author is working on: found before all others, and trusted.
    pub authored: Option<PathBuf>,
    /// Patterns of additional files, e.g. `.onetool/tools/*.py`, relative to `folder`.
    pub tools_dir: Vec<String>,
    /// The folder that workers run in, and that patterns are relative to.
    pub folder: PathBuf,
    /// Which files may be run.
    pub trust: FileTrust,
    /// Where programs are looked up, and the `PATH` of workers.
    pub search_path: SearchPath,
    /// The `uv` program: a name to be found in `search_path`, or an absolute path.
    pub uv: PathBuf,
    /// The Python for files without dependencies if there is no `uv`.
    pub python: PathBuf,
    /// Additional variables for workers, on top of the small set that every child gets.
    pub environment: BTreeMap<String, String>,
    /// A worker that no call has used for this long is ended.
    pub idle_timeout: Duration,
    /// Maximum duration of a call.
    pub call_timeout: Duration,
    /// Maximum duration of installing packages and importing the file.
    pub startup_timeout: Duration,
    /// How long a cancelled call may take to clean up before its pack gets a new worker.
    pub cancel_grace: Duration,
    /// Maximum number of workers; the one that has been idle longest makes room for a new one.
    pub max_workers: usize,
    /// Maximum number of calls that wait for one pack.
    pub max_queue: usize,
    /// Maximum number of plain functions that one worker runs concurrently.
    pub threads: usize,
    /// Maximum number of concurrent `async def` calls per worker.
    pub max_concurrent: usize,
    /// Maximum size of a message between us and a worker.
    pub max_message_bytes: usize,
    pub limits: WorkerLimits,
}

impl Default for WorkerSettings {
    fn default() -> Self {
        Self::new(&WorkerKeys::default())
    }
}

impl WorkerSettings {
    /// Creates settings from the configuration, with defaults for the rest.
    pub fn new(keys: &WorkerKeys) -> Self {
        Self {
            project_tools: None,
            global_tools: None,
            authored: None,
            tools_dir: Vec::new(),
            folder: PathBuf::from("."),
            trust: FileTrust::default(),
            search_path: SearchPath::default(),
            uv: PathBuf::from("uv"),
            python: PathBuf::from("python3"),
            environment: BTreeMap::new(),
            idle_timeout: keys.idle_timeout,
            call_timeout: keys.call_timeout,
            startup_timeout: keys.startup_timeout,
            cancel_grace: keys.cancel_grace,
            max_workers: keys.max,
            max_queue: keys.max_queue,
            threads: keys.threads,
            max_concurrent: 32,
            max_message_bytes: 64 << 20,
            limits: WorkerLimits { memory_bytes: Some(keys.max_memory_mb << 20), ..WorkerLimits::default() },
        }
    }
}

/// Limits that the operating system enforces on a worker and its children, on each separately. `None` means no limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerLimits {
    /// Private memory (`RLIMIT_DATA`).
    pub memory_bytes: Option<u64>,
    pub open_files: Option<u64>,
    pub file_bytes: Option<u64>,
    pub cpu_seconds: Option<u64>,
}

impl Default for WorkerLimits {
    fn default() -> Self {
        Self { memory_bytes: Some(4 << 30), open_files: Some(4096), file_bytes: None, cpu_seconds: None }
    }
}

impl WorkerLimits {
    /// Serializes the limits under the names of Python's `resource` module.
    pub(super) fn to_json(&self) -> serde_json::Value {
        let pairs = [
            ("RLIMIT_DATA", self.memory_bytes),
            ("RLIMIT_NOFILE", self.open_files),
            ("RLIMIT_FSIZE", self.file_bytes),
            ("RLIMIT_CPU", self.cpu_seconds),
        ];
        pairs.into_iter().filter_map(|(name, value)| Some((name.to_owned(), serde_json::Value::from(value?)))).collect()
    }
}

/// What a tool may request from the program. Must not block for long.
pub trait WorkerServices: Send + Sync {
    /// Returns the value of a secret. Only called for names that the tool file lists.
    fn secret(&self, name: &str) -> Option<String>;

    /// Returns `tools.<pack>.<key>` of the configuration.
    fn config(&self, pack: &str, key: &str) -> Option<serde_json::Value>;

    /// Returns the absolute path for a path given by a caller, by the rules for files. May block.
    fn resolve_path(&self, _path: &str, _for_writing: bool) -> Result<PathBuf, ToolError> {
        Err(ToolError::unavailable("paths cannot be resolved here"))
    }

    /// Receives a line that a tool printed, without secrets.
    fn printed(&self, _pack: &str, _line: &str) {}
}

/// No secrets and no configuration.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoServices;

impl WorkerServices for NoServices {
    fn secret(&self, _: &str) -> Option<String> {
        None
    }

    fn config(&self, _: &str, _: &str) -> Option<serde_json::Value> {
        None
    }
}
