//! Where tools come from. A [`ToolSource`] offers packs and executes calls to them; four kinds exist
//! (native, worker, proxy, bundle), and the call path treats them all alike.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use indexmap::IndexMap;

use crate::{Arguments, CallContext, Effect, InputSchema, QualifiedName, Signature, ToolError, Value};

/// Everything that is known of a tool without calling it.
#[derive(Debug, Clone)]
pub struct ToolSpec {
    /// The function's name inside its pack: a Python identifier.
    pub name: String,
    /// What it does. The first line is the summary.
    pub description: String,
    pub signature: Signature,
    /// JSON Schema of the arguments, an object.
    pub input_schema: InputSchema,
    /// JSON Schema of the result, where the tool promises one.
    pub output_schema: Option<serde_json::Value>,
    /// What it returns, in words.
    pub returns: Option<String>,
    /// A call that works.
    pub example: Option<String>,
    /// Whether the signature is the whole truth: `false` when the tool may take arguments that it does not list,
    /// or its types are not known well enough to check a call before it runs.
    pub checkable: bool,
    /// What a call does besides giving a value.
    pub effect: Effect,
}

impl ToolSpec {
    /// A tool of which a schema says all: signature and arguments.
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

/// What stands behind a pack.
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

/// A named group of tools, as it is now. Immutable: a source that changes offers a new one.
#[derive(Debug, Clone)]
pub struct Pack {
    /// A Python identifier.
    pub name: String,
    pub description: String,
    pub origin: Origin,
    pub tools: IndexMap<String, Arc<ToolSpec>>,
    /// Something a user should know of the pack now, e.g. that its tools are listed from a cache.
    pub note: Option<String>,
    pub docs: PackDocs,
}

/// Where a pack is documented, as its author says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum PackDocs {
    /// Among OneTool's own pages.
    #[default]
    Unsaid,
    At(String),
    /// Nowhere that a model should look.
    Off,
}

impl PackDocs {
    /// The longest address.
    const MAX_ADDRESS: usize = 2000;

    /// `off`, or a web address; `None` for anything else.
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

/// One call, resolved and matched.
#[derive(Debug, Clone)]
pub struct ToolCall {
    pub pack: Arc<Pack>,
    pub tool: Arc<ToolSpec>,
    /// Of a tool in a bundle, where the caller names one.
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

/// Something that `ot.health()` must tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthNote {
    pub severity: Severity,
    /// What it is about: a file, a server, a configuration key.
    pub subject: String,
    pub message: String,
}

/// What may be asked of an MCP server besides its tools.
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
    /// What may stand for an argument of a prompt, or in a template of a URI: the protocol's parameters of
    /// `completion/complete`, with the server's own names.
    Complete {
        params: serde_json::Value,
    },
}

/// What an MCP server tells of its own accord, besides changes of its tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceChange {
    /// The list of its prompts has changed.
    Prompts { pack: String },
    /// The list of its resources has changed.
    Resources { pack: String },
    /// A resource that is watched has changed.
    Resource { pack: String, uri: String },
}

/// Offers packs and executes calls to them.
#[async_trait]
pub trait ToolSource: Send + Sync {
    /// The packs as they are now. Cheap: what is slow to find out is found out in the background.
    fn packs(&self) -> Vec<Arc<Pack>>;

    /// A number that changes whenever `packs` would answer differently. Read before every run.
    fn generation(&self) -> u64;

    /// Executes a call whose arguments have been matched and validated.
    async fn call(&self, call: ToolCall, ctx: &CallContext) -> Result<Value, ToolError>;

    /// What a pack offers besides its tools, where an MCP server stands behind it: a list as a JSON array, anything else
    /// as the protocol's result. `None` where the pack has nothing of the kind.
    async fn offer(
        &self,
        _pack: &str,
        _offer: Offer,
        _ctx: &CallContext,
    ) -> Result<Option<serde_json::Value>, ToolError> {
        Ok(None)
    }

    /// What the servers behind this source tell from now on, where there are any.
    fn changes(&self) -> Option<tokio::sync::broadcast::Receiver<SourceChange>> {
        None
    }

    /// Asks the server behind `pack` to tell when a resource changes. `false` where there is no such server.
    async fn watch(&self, _pack: &str, _uri: &str, _ctx: &CallContext) -> Result<bool, ToolError> {
        Ok(false)
    }

    /// Takes one `watch` back.
    async fn unwatch(&self, _pack: &str, _uri: &str) {}

    /// Waits, no longer than `ctx` allows, until the tools of `pack` are known. Called before a function that a pack
    /// seems to lack is reported missing: a source that learns its tools in the background may be about to know it. The
    /// error says why they could not be learned.
    async fn settle(&self, _pack: &str, _ctx: &CallContext) -> Result<(), ToolError> {
        Ok(())
    }

    /// Why a pack of this name is not among `packs`, where one would expect it to be.
    fn absence(&self, _pack: &str) -> Option<String> {
        None
    }

    /// The names of the secrets that a tool may ask for, or patterns of them, where the source knows.
    fn secrets(&self, _name: &QualifiedName) -> Vec<String> {
        Vec::new()
    }

    /// What is wrong, or worth telling, now.
    fn health(&self) -> Vec<HealthNote> {
        Vec::new()
    }

    /// Ends processes and connections.
    async fn shutdown(&self) {}
}
