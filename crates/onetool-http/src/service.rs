//! The interface between this crate and the program that uses it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use onetool_bundles::{BundleSource, HttpEngine, ImportSettings};
use onetool_run::Runner;
use onetool_sdk::CallContext;
use onetool_state::State;
use onetool_state::access_tokens::AccessTokens;
use onetool_state::audit::AuditLog;
use onetool_state::bundles::BundleStore;
use onetool_state::runs::{RunLimits, RunStore};
use tokio::sync::broadcast;
use tracing::Level;
use tracing::level_filters::LevelFilter;

use crate::metrics::Metrics;
use crate::rest::admin::AdminParts;
use crate::{AccessToken, OAuthSettings, TlsSettings, TrustedProxies};

/// Everything that REST and MCP need. Implemented by the program, and by tests with the parts they need.
#[async_trait]
pub trait Service: Send + Sync + 'static {
    /// Runs commands, over the toolbox through which REST calls tools too.
    fn runner(&self) -> &Runner;

    /// Returns the settings and stores in effect. A reload creates new ones; without changes it is the same `Arc`.
    fn served(&self) -> Arc<Served>;

    /// Subscribes to log messages at `level` or more severe; the receiver filters out finer ones.
    fn log_messages(&self, level: LevelFilter) -> broadcast::Receiver<LogMessage>;

    /// Returns what this process offers that a run may require: its packs, servers, packages, and configured tags.
    fn tags(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns what people may view and decide; a server without it has no admin page.
    fn admin(&self) -> Option<AdminParts> {
        None
    }

    /// Before a run of a user who may decide it: asks once, through the client of `ctx`, whether to trust the project
    /// if parts of it wait for that.
    async fn offer_trust(&self, _ctx: &CallContext) {}

    /// Prepares what the first request needs. Clients do not wait for it.
    async fn warm_up(&self);

    /// Called when no request has arrived for a while after a burst: memory may be released. May block.
    fn quiet(&self) {}

    /// Adds the program's own measurements.
    fn measure(&self, _metrics: &mut Metrics) {}

    /// Ends child processes and flushes pending writes.
    async fn shutdown(&self);
}

/// Settings and stores that a reload may replace.
#[derive(Clone)]
pub struct Served {
    /// `prompts.instructions`
    pub instructions: Option<String>,
    /// `prompts.tools.run.description`
    pub run_description: Option<String>,
    pub server: ServerSettings,
    /// Tokens created by name.
    pub tokens: Arc<AccessTokens>,
    /// The audit trail.
    pub audit: Arc<AuditLog>,
    pub bundles: Bundles,
    /// Stores everything else: MCP sessions.
    pub state: State,
    /// Records of background runs.
    pub runs: RunStore,
    pub background: BackgroundSettings,
    /// How long it must be quiet before [`Service::quiet`] is called.
    pub quiet_after: Duration,
}

/// The section `background` of a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackgroundSettings {
    pub limits: RunLimits,
    /// How long a run is kept unless its client specifies a time.
    pub ttl: Duration,
    pub max_ttl: Duration,
    /// How long a run may take.
    pub timeout: Duration,
    pub task_after: Duration,
    pub poll_interval: Duration,
    /// Maximum number of concurrent runs in this process; more wait in the queue.
    pub max_running: usize,
    /// How long a call waits for a permission when nobody is there to ask.
    pub approval_ttl: Duration,
    /// Size limit for the outcomes in one run's journal.
    pub journal_bytes: usize,
}

/// The section `server` of a configuration.
#[derive(Clone, Default)]
pub struct ServerSettings {
    /// Listen address of `serve --http` unless given on the command line.
    pub bind: Option<SocketAddr>,
    pub tokens: Vec<AccessToken>,
    /// `server.public_url`: the address people use, without a trailing slash.
    pub public_url: Option<String>,
    /// Tokens of an OAuth issuer are accepted too.
    pub oauth: Option<OAuthSettings>,
    /// Further host names of the server.
    pub hosts: Vec<String>,
    /// Sites whose pages may call it.
    pub origins: Vec<String>,
    /// `server.trusted_proxies`: the proxies that may state where a request comes from.
    pub trusted_proxies: TrustedProxies,
    /// `server.tags`: tags that runs may require.
    pub tags: Vec<String>,
    /// How long work in progress may continue after shutdown begins.
    pub drain: Duration,
    pub metrics: MetricsSettings,
    /// Without it, the server speaks plain HTTP.
    pub tls: Option<TlsSettings>,
    pub api: ApiSettings,
    pub mcp: McpSettings,
}

/// Whether and to whom `/metrics` answers.
#[derive(Clone, Default)]
pub struct MetricsSettings {
    pub is_on: bool,
    /// A token for `/metrics` alone, beside those with the scope `read`.
    pub token: Option<String>,
}

/// What MCP over HTTP keeps for its clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpSettings {
    /// `server.session_idle`: a session that nobody uses for this long ends. Its client's next request brings it back.
    pub session_idle: Duration,
    /// `server.session_memory`: a session can be brought back for this long, also after a restart.
    pub session_memory: Duration,
    /// `server.max_sessions`: the session that has been idle for longest makes room for another.
    pub max_sessions: usize,
    /// `server.max_sessions_per_client`, by token and address.
    pub max_sessions_per_client: usize,
    /// `server.resume_window`: how long answers are kept for clients that lost their connection.
    pub resume_window: Duration,
    /// `server.resume_mb`: size limit for these answers, for all clients together.
    pub resume_bytes: usize,
    /// `server.input_timeout`: how long a run waits for the user's input.
    pub input_timeout: Duration,
    /// `server.legacy_sse`: serve the transport of revision 2024-11-05 too.
    pub legacy_sse: bool,
}

/// Limits of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiSettings {
    /// `server.max_body_bytes`
    pub max_body_bytes: usize,
    /// `server.request_timeout`, for everything but calls of tools.
    pub request_timeout: Duration,
    /// `server.invoke_timeout`
    pub invoke_timeout: Duration,
}

/// Bundles, and the engine that makes their requests.
#[derive(Clone)]
pub struct Bundles {
    pub store: BundleStore,
    pub engine: Arc<HttpEngine>,
    pub source: Arc<BundleSource>,
    pub imports: ImportSettings,
}

/// One line of the log, without secrets.
#[derive(Debug, Clone)]
pub struct LogMessage {
    pub level: Level,
    pub data: serde_json::Value,
}
