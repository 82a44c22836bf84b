//! The resolved configuration of runs: nothing here is optional that must exist.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use indexmap::IndexMap;
use onetool_sandbox::{Engine, FileAccess, Limits, SessionLimits};
use onetool_sdk::{CallContext, HealthNote, Redactor};
use onetool_state::interface::{Retention, Trail};
use onetool_state::results::ResultStore;

use crate::groups::Groups;
use crate::quota::Quotas;
use crate::{Catalog, Gate, LearnedShapes, Permissions, SavedCode, SearchIndex, ToolOverride};

/// A parameter of a snippet.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SnippetParameter {
    pub required: bool,
    /// The type as the snippet's author wrote it; for display only.
    pub kind: Option<String>,
    pub default: Option<serde_json::Value>,
    pub description: Option<String>,
}

/// A template that `$name key=value` expands.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Snippet {
    pub description: String,
    pub parameters: IndexMap<String, SnippetParameter>,
    /// A Jinja template of Python code.
    pub body: String,
    /// Whether a run saved it, rather than the user's configuration.
    pub is_saved: bool,
}

/// The file for messages of topics that match `pattern`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topic {
    pub pattern: String,
    /// Absolute.
    pub file: PathBuf,
}

/// How large outputs are handled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputSettings {
    /// Larger outputs are stored; 0 disables storing.
    pub max_inline_size: usize,
    /// Stored results older than this are removed; zero keeps them.
    pub result_ttl: Duration,
    pub preview_lines: usize,
    /// Maximum bytes of images, recordings and resources in one reply; the rest is left out.
    pub max_media_bytes: usize,
    /// Absolute.
    pub result_store_dir: PathBuf,
    /// Maximum bytes of all stored results; beyond it the oldest are removed.
    pub max_store_bytes: u64,
}

impl OutputSettings {
    /// How long results are kept, and how many bytes of them.
    pub fn retention(&self) -> Retention {
        Retention { ttl: self.result_ttl, max_bytes: self.max_store_bytes, ..Retention::default() }
    }
}

/// What statistics assume.
#[derive(Debug, Clone, PartialEq)]
pub struct StatsSettings {
    pub enabled: bool,
    /// Absolute.
    pub file: PathBuf,
    pub flush_interval: Duration,
    /// Fixed savings per call, if configured; otherwise savings are measured.
    pub context_per_call: Option<u64>,
    pub time_overhead_per_call_ms: Option<u64>,
    /// US dollars per million tokens.
    pub input_cost: f64,
    pub output_cost: f64,
    pub chars_per_token: f64,
    /// Whether the shapes of results are learned.
    pub shapes: bool,
}

/// The status of an upstream server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerStatus {
    pub name: String,
    /// `connected`, `connecting`, `disconnected` or `disabled`.
    pub state: String,
    /// Why it is not connected.
    pub reason: Option<String>,
}

/// The toolbox at one moment, as the `ot` pack reports it.
#[derive(Clone)]
pub struct ToolboxState {
    pub catalog: Arc<Catalog>,
    /// Target of each alias: `pack.function`.
    pub aliases: IndexMap<String, String>,
    pub snippets: IndexMap<String, Snippet>,
    /// Instructions by pack, from `prompts.packs`.
    pub instructions: IndexMap<String, String>,
    pub servers: Vec<ServerStatus>,
    pub topics: Vec<Topic>,
    pub output: OutputSettings,
    /// Results that were too large for a reply.
    pub results: ResultStore,
    pub stats: StatsSettings,
    /// Earlier calls, if they are recorded.
    pub trail: Option<Arc<dyn Trail>>,
    /// The project's folder.
    pub folder: PathBuf,
    /// Folders that are written to; the one that contains most of the others is first.
    pub storage: Vec<PathBuf>,
    /// The language version of runs and the engine that executes it, e.g. `3.14 (monty)`.
    pub engine: String,
    pub notes: Vec<HealthNote>,
    /// What the configuration overrides about tools, by `pack.function`.
    pub overrides: IndexMap<String, ToolOverride>,
    /// Where packs are documented; `None` if nowhere.
    pub docs: IndexMap<String, Option<String>>,
    /// What tools have been seen to return.
    pub learned: Arc<LearnedShapes>,
    /// Which tools may be called.
    pub permissions: Permissions,
    /// What each principal may do.
    pub groups: Arc<Groups>,
    /// What principals have used.
    pub quotas: Arc<Quotas>,
    /// Code that runs saved.
    pub saved: Arc<SavedCode>,
    /// The search index over all of this.
    pub search: Arc<SearchIndex>,
}

impl ToolboxState {
    /// The caller's stored results; nobody else can read them.
    pub fn results_of(&self, ctx: &CallContext) -> ResultStore {
        ctx.principal_owner().map_or_else(|| self.results.clone(), |owner| self.results.scoped(owner))
    }
}

/// How runs are executed and presented. Does not implement `Debug`, because it holds secrets.
#[derive(Clone)]
pub struct RunSettings {
    /// Removes secrets from replies.
    pub redactor: Redactor,
    /// Calls that the configuration blocks.
    pub gate: Gate,
    pub engine: Engine,
    pub limits: Limits,
    /// Whether calls are checked against signatures before anything runs.
    pub type_check: bool,
    /// Whether output is sanitised by default.
    pub sanitise: bool,
    /// Maximum size of an error's text, in bytes.
    pub max_error_bytes: usize,
    /// What code may do with files, through the `file` pack.
    pub files: FileAccess,
    /// Maximum number of sessions, and how long they last.
    pub sessions: SessionLimits,
    /// Configured packages, for errors about missing ones.
    pub packages: Vec<String>,
    /// Whether a reply that is too large is stored and summarised.
    pub stores_large_output: bool,
    /// A limit that the client requested, besides `output.max_inline_size`.
    pub max_inline: Option<usize>,
}

impl Default for RunSettings {
    fn default() -> Self {
        Self {
            redactor: Redactor::default(),
            gate: Gate::default(),
            engine: Engine::Auto,
            limits: Limits::default(),
            type_check: true,
            sanitise: false,
            max_error_bytes: 16 << 10,
            files: FileAccess::Full,
            sessions: SessionLimits::default(),
            packages: Vec::new(),
            stores_large_output: true,
            max_inline: None,
        }
    }
}
