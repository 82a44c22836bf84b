//! What a configuration means for runs, resolved: nothing here is optional that must exist.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use indexmap::IndexMap;
use onetool_sandbox::{Engine, Limits};
use onetool_sdk::{HealthNote, Redactor};

use crate::{Catalog, Gate, SearchIndex};

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
}

/// What statistics assume.
#[derive(Debug, Clone, PartialEq)]
pub struct StatsSettings {
    pub enabled: bool,
    /// Absolute.
    pub file: PathBuf,
    pub flush_interval: Duration,
    pub context_per_call: u64,
    pub time_overhead_per_call_ms: u64,
    /// US dollars a million tokens.
    pub input_cost: f64,
    pub output_cost: f64,
    pub chars_per_token: f64,
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
    pub stats: StatsSettings,
    /// The project's folder.
    pub folder: PathBuf,
    /// Folders that are written to, the one that holds most of the others first.
    pub storage: Vec<PathBuf>,
    /// The language that runs speak and what executes it, e.g. `3.14 (monty)`.
    pub engine: String,
    pub notes: Vec<HealthNote>,
    /// What searches in all this look words up in.
    pub search: Arc<SearchIndex>,
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
        }
    }
}
