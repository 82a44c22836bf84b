//! What is served: the seam between this crate and the program that uses it.

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

    /// What is in force now. A reload makes a new one; as long as nothing changes it is the same `Arc`.
    fn served(&self) -> Arc<Served>;

    /// Log messages from now on, at least down to `level`; the receiver leaves out what is finer.
    fn log_messages(&self, level: LevelFilter) -> broadcast::Receiver<LogMessage>;

    /// What this process has that a run may need: its packs, servers, packages, and what the configuration adds.
    fn tags(&self) -> Vec<String> {
        Vec::new()
    }

    /// What people may look at and decide; a server without it has no admin page.
    fn admin(&self) -> Option<AdminParts> {
        None
    }

    /// Before a run of somebody who may decide it: asks once, through the client of `ctx`, whether the project is
    /// trusted where parts of it wait for that.
    async fn offer_trust(&self, _ctx: &CallContext) {}

    /// Prepares what the first request needs. Clients do not wait for it.
    async fn warm_up(&self);

    /// Called when no request has come for a while after a burst of them: memory may be given back. May block.
    fn quiet(&self) {}

    /// Adds what the program measures of itself.
    fn measure(&self, _metrics: &mut Metrics) {}

    /// Ends child processes and writes what is not written yet.
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
    /// Tokens that were made by name.
    pub tokens: Arc<AccessTokens>,
    /// Who did what.
    pub audit: Arc<AuditLog>,
    pub bundles: Bundles,
    /// What is kept besides: MCP sessions.
    pub state: State,
    /// What is known of background runs.
    pub runs: RunStore,
    pub background: BackgroundSettings,
    /// How long it must be quiet before [`Service::quiet`] is called.
    pub quiet_after: Duration,
}

/// The section `background` of a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackgroundSettings {
    pub limits: RunLimits,
    /// How long a run is kept unless its client says.
    pub ttl: Duration,
    pub max_ttl: Duration,
    /// How long a run may take.
    pub timeout: Duration,
    pub task_after: Duration,
    pub poll_interval: Duration,
    /// At once in this process; more wait in the queue.
    pub max_running: usize,
    /// How long a call waits for a permission when nobody is there.
    pub approval_ttl: Duration,
    /// Of outcomes that one run's journal keeps.
    pub journal_bytes: usize,
}

/// The section `server` of a configuration.
#[derive(Clone, Default)]
pub struct ServerSettings {
    /// Where `serve --http` listens unless it is told.
    pub bind: Option<SocketAddr>,
    pub tokens: Vec<AccessToken>,
    /// `server.public_url`: where people reach it, without a slash at the end.
    pub public_url: Option<String>,
    /// Tokens of an OAuth issuer are taken too.
    pub oauth: Option<OAuthSettings>,
    /// Further names that the server is known by.
    pub hosts: Vec<String>,
    /// Sites whose pages may call it.
    pub origins: Vec<String>,
    /// `server.trusted_proxies`: who may say where a request comes from.
    pub trusted_proxies: TrustedProxies,
    /// `server.tags`: what runs may ask for.
    pub tags: Vec<String>,
    /// How long what is under way may go on after the end was called.
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
    /// `server.resume_mb`: how much of them is kept, all clients together.
    pub resume_bytes: usize,
    /// `server.input_timeout`: how long a run waits for the user's input.
    pub input_timeout: Duration,
    /// `server.legacy_sse`: serve the transport of revision 2024-11-05 too.
    pub legacy_sse: bool,
}

/// What a request may cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiSettings {
    /// `server.max_body_bytes`
    pub max_body_bytes: usize,
    /// `server.request_timeout`, for everything but calls of tools.
    pub request_timeout: Duration,
    /// `server.invoke_timeout`
    pub invoke_timeout: Duration,
}

/// Bundles, and what makes their requests.
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
