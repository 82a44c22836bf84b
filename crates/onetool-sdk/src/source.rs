//! Where tools come from. A [`ToolSource`] offers packs and executes calls to them; four kinds exist
//! (native, worker, proxy, bundle), and the call path treats them all alike.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use indexmap::IndexMap;

use crate::{Arguments, CallContext, Effect, InputSchema, QualifiedName, Signature, ToolError, Value};

/// Everything known about a tool without calling it.
#[derive(Debug, Clone)]
pub struct ToolSpec {
    /// The function's name inside its pack: a Python identifier.
    pub name: String,
    /// What it does. The first line is the summary.
    pub description: String,
    pub signature: Signature,
    /// JSON Schema of the arguments, an object.
    pub input_schema: InputSchema,
    /// JSON Schema of the result, if the tool declares one.
    pub output_schema: Option<serde_json::Value>,
    /// What it returns, in words.
    pub returns: Option<String>,
    /// A call that works.
    pub example: Option<String>,
    /// Whether the signature is complete: `false` if the tool may accept arguments that it does not list, or if its
    /// types are not known well enough to check a call before it runs.
    pub checkable: bool,
    /// The side effects of a call.
    pub effect: Effect,
}

impl ToolSpec {
    /// Creates a tool whose signature and arguments come from a schema alone.
    pub fn from_schema(name: &str, description: &str, schema: serde_json::Value) -> Self {
        Self {
            name: name.to_owned(),
            description: description.to_owned(),
            signature: Signature::from_json_schema(&schema),
            input_schema: schema.into(),
            output_schema: None,
            returns: None,
            example: None,
            checkable: true,
            effect: Effect::default(),
        }
    }

    /// The first line of the description.
    pub fn summary(&self) -> &str {
        self.description.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("")
    }
}

/// The argument with which code selects the version of a tool in a bundle.
pub const VERSION_ARGUMENT: &str = "_version";

/// The implementation behind a pack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Rust functions in this process.
    Native,
    /// A Python file, run in a worker.
    Worker { file: PathBuf },
    /// An upstream MCP server.
    Proxy { server: String },
    /// A bundle of HTTP and native tools.
    Bundle { id: String },
}

impl Origin {
    /// The pack in words, to tell it from another of the same name.
    pub fn describe(&self) -> String {
        match self {
            Self::Native => "the built-in pack".to_owned(),
            Self::Worker { file } => format!("the file {}", file.display()),
            Self::Proxy { server } => format!("the server '{server}'"),
            Self::Bundle { .. } => "the bundle of this name".to_owned(),
        }
    }

    /// The file, server or bundle that the pack comes from; `None` for Rust functions.
    pub fn place(&self) -> Option<String> {
        match self {
            Self::Native => None,
            Self::Worker { file } => Some(file.display().to_string()),
            Self::Proxy { server } => Some(server.clone()),
            Self::Bundle { id } => Some(id.clone()),
        }
    }

    /// `local` or `proxy:{server}`.
    pub fn label(&self) -> String {
        match self {
            Self::Proxy { server } => format!("proxy:{server}"),
            _ => "local".to_owned(),
        }
    }

    /// `local` or `proxy`.
    pub fn short_label(&self) -> &'static str {
        match self {
            Self::Proxy { .. } => "proxy",
            _ => "local",
        }
    }
}

/// A named group of tools at one point in time. Immutable: a source that changes offers a new one.
#[derive(Debug, Clone)]
pub struct Pack {
    /// A Python identifier.
    pub name: String,
    pub description: String,
    pub origin: Origin,
    pub tools: IndexMap<String, Arc<ToolSpec>>,
    /// Something a user should know about the pack now, e.g. that its tools are listed from a cache.
    pub note: Option<String>,
    pub docs: PackDocs,
}

/// Where a pack is documented, as declared by its author.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum PackDocs {
    /// Among OneTool's own pages.
    #[default]
    Unsaid,
    At(String),
    /// No documentation for models.
    Off,
}

impl PackDocs {
    /// Maximum length of the address.
    const MAX_ADDRESS: usize = 2000;

    /// Parses `off` or a web address; `None` for anything else.
    pub fn read(text: &str) -> Option<Self> {
        let is_address = (text.starts_with("https://") || text.starts_with("http://"))
            && text.len() <= Self::MAX_ADDRESS
            && !text.contains(|c: char| c.is_whitespace() || c.is_control());
        match text {
            "off" => Some(Self::Off),
            "" => Some(Self::Unsaid),
            address => is_address.then(|| Self::At(address.to_owned())),
        }
    }
}

/// A resolved call with matched arguments.
#[derive(Debug, Clone)]
pub struct ToolCall {
    pub pack: Arc<Pack>,
    pub tool: Arc<ToolSpec>,
    /// Version of a bundle's tool, if the caller names one.
    pub version: Option<String>,
    pub arguments: Arguments,
}

impl ToolCall {
    pub fn name(&self) -> QualifiedName {
        QualifiedName::new(&self.pack.name, &self.tool.name)
    }
}

/// How bad a [`HealthNote`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    Info,
    Warning,
    Error,
}

/// Something that `ot.health()` must report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthNote {
    pub severity: Severity,
    /// What it is about: a file, a server, a configuration key.
    pub subject: String,
    pub message: String,
    pub facts: NoteFacts,
}

/// What a [`HealthNote`] on the configuration is about, for code that acts on it; the message says it in words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NoteFacts {
    /// The line in the file that is the note's subject.
    pub line: Option<usize>,
    /// The path of the key.
    pub key: Vec<String>,
    /// What is off because it came with a repository, such as `servers, tools_dir`.
    pub untrusted: Option<String>,
}

/// What an MCP server offers besides its tools.
#[derive(Debug, Clone, PartialEq)]
pub enum Offer {
    Prompts,
    Prompt {
        name: String,
        arguments: serde_json::Map<String, serde_json::Value>,
    },
    Resources,
    ResourceTemplates,
    Read {
        uri: String,
    },
    /// Completions for a prompt argument or a variable of a URI template: the protocol's parameters of
    /// `completion/complete`, with the server's own names.
    Complete {
        params: serde_json::Value,
    },
}

/// A notification from an MCP server, other than changes of its tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceChange {
    /// The list of its prompts has changed.
    Prompts { pack: String },
    /// The list of its resources has changed.
    Resources { pack: String },
    /// A watched resource has changed.
    Resource { pack: String, uri: String },
}

/// Offers packs and executes calls to them.
#[async_trait]
pub trait ToolSource: Send + Sync {
    /// Returns the current packs. Cheap: anything slow is discovered in the background.
    fn packs(&self) -> Vec<Arc<Pack>>;

    /// A number that changes whenever the result of `packs` changes. Read before every run.
    fn generation(&self) -> u64;

    /// Executes a call whose arguments have been matched and validated.
    async fn call(&self, call: ToolCall, ctx: &CallContext) -> Result<Value, ToolError>;

    /// Returns what a pack's MCP server offers besides its tools: a list as a JSON array, anything else as the
    /// protocol's result. `None` if the pack has nothing of that kind.
    async fn offer(
        &self,
        _pack: &str,
        _offer: Offer,
        _ctx: &CallContext,
    ) -> Result<Option<serde_json::Value>, ToolError> {
        Ok(None)
    }

    /// Subscribes to notifications from the servers behind this source, if there are any.
    fn changes(&self) -> Option<tokio::sync::broadcast::Receiver<SourceChange>> {
        None
    }

    /// Subscribes to changes of a resource of the server behind `pack`. `false` if there is no such server.
    async fn watch(&self, _pack: &str, _uri: &str, _ctx: &CallContext) -> Result<bool, ToolError> {
        Ok(false)
    }

    /// Reverses one `watch`.
    async fn unwatch(&self, _pack: &str, _uri: &str) {}

    /// Waits, no longer than `ctx` allows, until the tools of `pack` are known. Called before a function is reported
    /// missing, because a source that lists its tools in the background may be about to know it. The error says why
    /// they could not be listed.
    async fn settle(&self, _pack: &str, _ctx: &CallContext) -> Result<(), ToolError> {
        Ok(())
    }

    /// Returns why an expected pack of this name is not among `packs`.
    fn absence(&self, _pack: &str) -> Option<String> {
        None
    }

    /// Returns the names, or name patterns, of the secrets that a tool may request, if the source knows them.
    fn secrets(&self, _name: &QualifiedName) -> Vec<String> {
        Vec::new()
    }

    /// Returns current problems and other notes.
    fn health(&self) -> Vec<HealthNote> {
        Vec::new()
    }

    /// Stops processes and closes connections.
    async fn shutdown(&self) {}
}
