//! What a configuration means for runs, resolved: nothing here is optional that must exist.

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
    /// The type as the snippet's author wrote it; only shown.
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

/// Where messages of topics that match `pattern` go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topic {
    pub pattern: String,
    /// Absolute.
    pub file: PathBuf,
}

/// What happens with large outputs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputSettings {
    /// Larger outputs are stored; 0 turns that off.
    pub max_inline_size: usize,
    /// Stored results older than this are removed; zero keeps them.
    pub result_ttl: Duration,
    pub preview_lines: usize,
    /// Images, recordings and resources of one reply take at most this many bytes together; the rest is left out.
    pub max_media_bytes: usize,
    /// Absolute.
    pub result_store_dir: PathBuf,
    /// All stored results together; beyond it the oldest go.
    pub max_store_bytes: u64,
}

impl OutputSettings {
    /// How long results are kept, and how much of them.
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
    /// Flat figures, where the configuration has them; else savings are measured.
    pub context_per_call: Option<u64>,
    pub time_overhead_per_call_ms: Option<u64>,
    /// US dollars a million tokens.
    pub input_cost: f64,
    pub output_cost: f64,
    pub chars_per_token: f64,
    /// Whether the shapes of results are learned.
    pub shapes: bool,
}

/// How an upstream server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerStatus {
    pub name: String,
    /// `connected`, `connecting`, `disconnected` or `disabled`.
    pub state: String,
    /// Why, where it is not connected.
    pub reason: Option<String>,
}

/// The toolbox at one moment: what the `ot` pack tells about.
#[derive(Clone)]
pub struct ToolboxState {
    pub catalog: Arc<Catalog>,
    /// Alias to `pack.function`.
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
    /// What was called before, where that is kept.
    pub trail: Option<Arc<dyn Trail>>,
    /// The project's folder.
    pub folder: PathBuf,
    /// Folders that are written to, the one that holds most of the others first.
    pub storage: Vec<PathBuf>,
    /// The language that runs speak and what executes it, e.g. `3.14 (monty)`.
    pub engine: String,
    pub notes: Vec<HealthNote>,
    /// What the configuration says of tools instead of what they say themselves, by `pack.function`.
    pub overrides: IndexMap<String, ToolOverride>,
    /// Where packs are documented; `None` where nowhere.
    pub docs: IndexMap<String, Option<String>>,
    /// What tools were seen to return.
    pub learned: Arc<LearnedShapes>,
    /// Which tools may be called.
    pub permissions: Permissions,
    /// Who may do what.
    pub groups: Arc<Groups>,
    /// What they have used up.
    pub quotas: Arc<Quotas>,
    /// Code that runs kept for later.
    pub saved: Arc<SavedCode>,
    /// What searches in all this look words up in.
    pub search: Arc<SearchIndex>,
}

impl ToolboxState {
    /// Stored results of whoever calls: nobody else reads theirs.
    pub fn results_of(&self, ctx: &CallContext) -> ResultStore {
        ctx.principal_owner().map_or_else(|| self.results.clone(), |owner| self.results.scoped(owner))
    }
}

/// How runs are executed and answered. Without `Debug`: it holds secrets.
#[derive(Clone)]
pub struct RunSettings {
    /// Keeps the values of secrets out of replies.
    pub redactor: Redactor,
    /// Calls that the configuration forbids.
    pub gate: Gate,
    pub engine: Engine,
    pub limits: Limits,
    /// Whether calls are checked against signatures before anything runs.
    pub type_check: bool,
    /// Whether output is sanitised where the code does not say.
    pub sanitise: bool,
    /// An error's text is cut to this many bytes.
    pub max_error_bytes: usize,
    /// What code may do with files, through the `file` pack.
    pub files: FileAccess,
    /// How many sessions there may be, and for how long.
    pub sessions: SessionLimits,
    /// Packages that the configuration names, for errors about those that it does not.
    pub packages: Vec<String>,
    /// Whether a reply that is too large is stored and summarised.
    pub stores_large_output: bool,
    /// A limit that the client asked for, besides `output.max_inline_size`.
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
