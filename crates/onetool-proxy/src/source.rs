//! All upstream servers as a [`ToolSource`].

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use onetool_sdk::{
    CallContext, HealthNote, NoteFacts, Offer, Pack, QualifiedName, Severity, SourceChange, ToolCall, ToolError,
    ToolSource, Value, to_python_identifier,
};
use tokio::sync::{Semaphore, broadcast};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::calls::{Asks, CallLink};
use super::http::HttpClient;
use super::oauth::{AuthState, AuthStatus, OAuth, OAuthError};
use super::pack::{CHANGED_INSTRUCTIONS, Route};
use super::phase::Phase;
use super::pins::{INSTRUCTIONS, PinError, Pins, text_of};
use super::requests::Request;
use super::server::{Server, Shared};
use super::settings::{PinMode, ProxySettings, limits};

/// The state of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerState {
    Connected,
    Connecting,
    Disconnected,
    Disabled,
}

impl ServerState {
    /// The name used in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Connected => "connected",
            Self::Connecting => "connecting",
            Self::Disconnected => "disconnected",
            Self::Disabled => "disabled",
        }
    }
}

/// The status of a server, as shown by `ot.health()` and `onetool servers`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerStatus {
    /// The configured name.
    pub name: String,
    /// The pack that contains its tools.
    pub pack: String,
    pub state: ServerState,
    /// Why it is not connected.
    pub reason: Option<String>,
    /// Number of tools, as far as known.
    pub tool_count: usize,
    /// Tools that changed since they were first seen or last accepted.
    pub changed: Vec<String>,
    /// Whether it hung on the last attempt, in this or the previous process: do not wait for it.
    pub hung: bool,
    /// What the current attempt waits for.
    pub wait: Option<Wait>,
    /// The state of its sign-in, if it has or needs one.
    pub auth: Option<AuthStatus>,
}

/// What an attempt to connect waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    /// Such as "answer to initialize".
    pub what: String,
    /// How long the attempt has lasted.
    pub elapsed: Duration,
    /// The timeout of the whole attempt.
    pub limit: Duration,
}

/// A tool that differs from what was accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedTool {
    pub server: String,
    /// The original name; the server's instructions have one too.
    pub tool: String,
    /// The accepted text, if known.
    pub before: Option<String>,
    pub now: String,
}

/// Why a change could not be accepted.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
pub enum AcceptError {
    #[error("no server is named '{name}'; there are: {known}")]
    UnknownServer { name: String, known: String },
    #[error("the server '{server}' has no tool '{tool}'")]
    UnknownTool { server: String, tool: String },
    #[error("what the server '{server}' offers is not known: {reason}")]
    NotKnown { server: String, reason: String },
    #[error(transparent)]
    Pins(#[from] PinError),
}

/// Why a sign-in or sign-out failed.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
pub enum SignInError {
    #[error("no server is named '{name}'; there are: {known}")]
    UnknownServer { name: String, known: String },
    #[error(
        "the server '{name}' has no sign-in: it is not reached over HTTP, has a header of its own for that, or auth is off"
    )]
    NotOffered { name: String },
    #[error("no sign-in that has begun here waits for this, or it took too long; begin it again")]
    NotBegun,
    #[error("signing in to '{name}' did not work: {reason}")]
    Failed { name: String, reason: String },
}

/// All configured MCP servers, each as a pack.
pub struct ProxySource {
    servers: Vec<Arc<Server>>,
    by_pack: HashMap<String, Arc<Server>>,
    shared: Arc<Shared>,
    tasks: TaskTracker,
    stop: CancellationToken,
    _stop_when_dropped: DropGuard,
}

impl ProxySource {
    /// Starts connecting in the background, on the current tokio runtime; waits for nothing and reads nothing.
    pub fn new(settings: ProxySettings) -> Self {
        let shared = Arc::new(Shared {
            generation: AtomicU64::new(0),
            pins: Pins::new(settings.state.documents()),
            offers: settings.offers,
            search_path: settings.search_path,
            http: Arc::new(HttpClient::default()),
            credentials: settings.credentials,
            waits_for_sign_in: AtomicBool::new(false),
            changes: broadcast::Sender::new(limits::WAITING_CHANGES),
            places: Arc::new(Semaphore::new(limits::STARTING_AT_ONCE)),
        });
        let stop = CancellationToken::new();
        let mut source = Self {
            servers: Vec::new(),
            by_pack: HashMap::new(),
            shared,
            tasks: TaskTracker::new(),
            _stop_when_dropped: stop.clone().drop_guard(),
            stop,
        };
        for server in settings.servers {
            let pack = to_python_identifier(&server.name);
            let server = Server::new(server, pack.clone(), settings.state.documents(), source.shared.clone());
            let server = Arc::new(server);
            source.servers.push(server.clone());
            if server.is_disabled() {
                continue;
            }
            if let Some(other) = source.by_pack.get(&pack) {
                let other = &other.settings.name;
                server.disable(format!("its pack would be named '{pack}', like that of the server '{other}'"));
                continue;
            }
            source.by_pack.insert(pack, server.clone());
            if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                source.tasks.spawn_on(server.run(source.stop.clone()), &runtime);
            }
        }
        source
    }

    /// The status of every server, in the order of the configuration.
    pub fn status(&self) -> Vec<ServerStatus> {
        self.servers.iter().map(|server| status(server)).collect()
    }

    /// Declares that this process is long-lived, so that servers find out where to sign in before anyone asks.
    pub fn wait_for_sign_ins(&self) {
        self.shared.waits_for_sign_in.store(true, Ordering::Relaxed);
        for server in &self.servers {
            server.prepare_sign_in();
        }
    }

    /// Reads the stored sign-ins, so that `status` includes them.
    pub async fn look_at_sign_ins(&self) {
        for oauth in self.servers.iter().filter_map(|server| server.oauth.as_ref()) {
            oauth.look().await;
        }
    }

    fn sign_in_of(&self, name: &str) -> Result<&Arc<OAuth>, SignInError> {
        let is_meant = |server: &&Arc<Server>| server.settings.name == name || server.pack_name == name;
        let Some(server) = self.servers.iter().find(is_meant) else {
            let known: Vec<&str> = self.servers.iter().map(|server| server.settings.name.as_str()).collect();
            return Err(SignInError::UnknownServer { name: name.to_owned(), known: known.join(", ") });
        };
        server.oauth.as_ref().ok_or_else(|| SignInError::NotOffered { name: name.to_owned() })
    }

    /// Starts a sign-in to a server; returns the address to open. `anew` registers a new client.
    pub async fn begin_sign_in(&self, name: &str, anew: bool) -> Result<String, SignInError> {
        let failed = |reason: String| SignInError::Failed { name: name.to_owned(), reason };
        let oauth = self.sign_in_of(name)?;
        match tokio::time::timeout(limits::SIGN_IN_BEGINS, oauth.begin(anew)).await {
            Ok(begun) => begun.map_err(|error| failed(error.to_string())),
            Err(_) => Err(failed("where to sign in was not found out in time".to_owned())),
        }
    }

    /// Completes a sign-in with what the browser was sent back with: the address, its query, or the code alone.
    pub async fn finish_sign_in(&self, name: &str, pasted: &str) -> Result<(), SignInError> {
        let failed = |error: OAuthError| SignInError::Failed { name: name.to_owned(), reason: error.to_string() };
        self.sign_in_of(name)?.finish(pasted).await.map_err(failed)
    }

    /// Sets where browsers returning from a sign-in can reach this process; `None` is this machine alone.
    pub fn take_callbacks_at(&self, url: Option<&str>) {
        for oauth in self.servers.iter().filter_map(|server| server.oauth.as_ref()) {
            oauth.take_callbacks_at(url.map(str::to_owned));
        }
    }

    /// Completes the sign-in that a browser's query belongs to; returns the name of its server.
    pub async fn finish_callback(&self, query: &str) -> Result<String, SignInError> {
        for server in &self.servers {
            let Some(oauth) = &server.oauth else { continue };
            if oauth.is_meant(query).await {
                let name = server.settings.name.clone();
                return match oauth.finish(query).await {
                    Ok(()) => Ok(name),
                    Err(error) => Err(SignInError::Failed { name, reason: error.to_string() }),
                };
            }
        }
        Err(SignInError::NotBegun)
    }

    /// Waits until the current sign-in is over.
    pub async fn signed_in(&self, name: &str) -> Result<(), SignInError> {
        let failed = |reason: String| SignInError::Failed { name: name.to_owned(), reason };
        self.sign_in_of(name)?.finished().await.map_err(failed)
    }

    /// Signs out of a server. Returns whether anyone was signed in.
    pub async fn sign_out(&self, name: &str) -> Result<bool, SignInError> {
        let failed = |error: OAuthError| SignInError::Failed { name: name.to_owned(), reason: error.to_string() };
        let signed_out = self.sign_in_of(name)?.sign_out().await.map_err(failed)?;
        let _ = self.reconnect(name).await;
        Ok(signed_out)
    }

    /// Waits for a connection to the server of a pack, even if calls would fail immediately because it hung.
    pub async fn try_now(&self, pack: &str, ctx: &CallContext) -> Result<(), ToolError> {
        match self.by_pack.get(pack) {
            Some(server) => server.try_now(ctx).await.map(drop),
            None => Ok(()),
        }
    }

    /// Reconnects a server. `None` if no server has this name.
    pub async fn reconnect(&self, name: &str) -> Option<Result<(), ToolError>> {
        let server = self.servers.iter().find(|server| server.settings.name == name)?;
        Some(server.reconnect().await)
    }

    /// The tools of all servers that differ from what was accepted, with both texts. Blocks.
    pub fn changed_tools(&self) -> Vec<ChangedTool> {
        let mut changed = Vec::new();
        for server in self.servers.iter().filter(|server| !server.is_disabled()) {
            let published = server.published();
            let Some(listing) = server.listing().filter(|_| !published.changed.is_empty()) else { continue };
            let mut accepted = self.shared.pins.accepted_texts(&server.settings.name);
            for name in &published.changed {
                let pinned = if name == CHANGED_INSTRUCTIONS { INSTRUCTIONS } else { name };
                changed.push(ChangedTool {
                    server: server.settings.name.clone(),
                    tool: name.clone(),
                    before: accepted.remove(pinned),
                    now: text_of(&listing, pinned),
                });
            }
        }
        changed
    }

    /// Accepts the current content of a server (`name`), or of one of its tools (`name.tool`). Waits for a connection,
    /// so that what the server says today is accepted.
    pub async fn accept(&self, name: &str) -> Result<(), AcceptError> {
        let find =
            |name: &str| self.servers.iter().find(|server| server.settings.name == name || server.pack_name == name);
        let whole = find(name).map(|server| (server, None));
        let found = whole.or_else(|| name.split_once('.').and_then(|(name, tool)| Some((find(name)?, Some(tool)))));
        let Some((server, tool)) = found else {
            let known: Vec<&str> = self.servers.iter().map(|server| server.settings.name.as_str()).collect();
            return Err(AcceptError::UnknownServer { name: name.to_owned(), known: known.join(", ") });
        };
        if let Err(error) = server.try_now(&CallContext::default()).await {
            return Err(AcceptError::NotKnown { server: server.settings.name.clone(), reason: error.message });
        }
        let Some(tool) = tool else { return Ok(server.accept(None).await?) };
        if tool == CHANGED_INSTRUCTIONS {
            return Ok(server.accept(Some(INSTRUCTIONS.to_owned())).await?);
        }
        let original = server
            .listing()
            .and_then(|listing| {
                let names = || listing.tools.iter().map(|tool| tool.name.clone());
                names().find(|name| name == tool).or_else(|| names().find(|name| to_python_identifier(name) == tool))
            })
            .ok_or_else(|| AcceptError::UnknownTool { server: server.settings.name.clone(), tool: tool.to_owned() })?;
        Ok(server.accept(Some(original)).await?)
    }
}

fn status(server: &Server) -> ServerStatus {
    let phase = server.phase();
    let wait = match &phase {
        Phase::Connecting { since, .. } => {
            server.stage.what().map(|what| Wait { what, elapsed: since.elapsed(), limit: server.settings.timeout })
        }
        _ => None,
    };
    let (state, reason) = match phase {
        Phase::Connected { .. } => (ServerState::Connected, None),
        // Attempt 0 is before the first.
        Phase::Connecting { after: None, .. } | Phase::Disconnected { attempt: 0, .. } => {
            (ServerState::Connecting, None)
        }
        // A server that is being retried counts as disconnected until it connects.
        Phase::Connecting { after: Some(trouble), .. } => (ServerState::Disconnected, Some(trouble.reason)),
        Phase::Disconnected { trouble, .. } if trouble.hung => (ServerState::Disconnected, Some(trouble.told())),
        Phase::Disconnected { trouble, .. } => (ServerState::Disconnected, Some(trouble.reason)),
        Phase::Disabled { reason } => (ServerState::Disabled, Some(reason)),
        Phase::Ended => (ServerState::Disconnected, Some("it was shut down".to_owned())),
    };
    let auth = server.oauth.as_ref().and_then(|oauth| oauth.status());
    let needed = auth.as_ref().filter(|auth| auth.state == AuthState::NeedsSignIn);
    let reason = match (reason, needed) {
        (Some(reason), Some(needed)) if state == ServerState::Disconnected => {
            Some(match needed.url.as_ref().filter(|_| server.waits_for_sign_in()) {
                Some(url) => format!("{reason}; open {url} to sign in"),
                None => format!("{reason}; run: onetool servers login {}", server.settings.name),
            })
        }
        (reason, _) => reason,
    };
    let (tool_count, changed) = if state == ServerState::Disabled {
        (0, Vec::new())
    } else {
        let published = server.published();
        (published.tool_count, published.changed.clone())
    };
    ServerStatus {
        name: server.settings.name.clone(),
        pack: server.pack_name.clone(),
        state,
        reason,
        tool_count,
        changed,
        hung: server.is_hung(),
        wait,
        auth,
    }
}

fn notes(server: &Server) -> Vec<HealthNote> {
    let status = status(server);
    let subject = format!("proxy:{}", status.name);
    let note =
        |severity, message| HealthNote { severity, subject: subject.clone(), message, facts: NoteFacts::default() };
    let mut notes = Vec::new();
    match (status.state, status.reason) {
        (ServerState::Disconnected, Some(reason)) => {
            notes.push(note(Severity::Error, format!("disconnected: {reason}")));
        }
        (ServerState::Disabled, Some(reason)) => notes.push(note(Severity::Info, format!("disabled: {reason}"))),
        _ => {}
    }
    if status.state == ServerState::Disabled {
        return notes;
    }
    if !status.changed.is_empty() {
        let what = status.changed.join(", ");
        let consequence = if server.settings.pin == PinMode::Strict { " and blocked" } else { "" };
        notes.push(note(
            Severity::Warning,
            format!(
                "changed since first seen{consequence}: {what}; look at it, then run: onetool servers accept {}",
                server.settings.name
            ),
        ));
    }
    if let Some(error) = server.pin_error() {
        notes.push(note(Severity::Error, error.to_string()));
    }
    notes
}

#[async_trait]
impl ToolSource for ProxySource {
    fn packs(&self) -> Vec<Arc<Pack>> {
        self.servers
            .iter()
            .filter(|server| !server.is_disabled())
            .map(|server| server.published().pack.clone())
            .collect()
    }

    fn generation(&self) -> u64 {
        self.shared.generation.load(Ordering::Acquire)
    }

    fn absence(&self, pack: &str) -> Option<String> {
        let server = self.status().into_iter().find(|server| server.pack == pack || server.name == pack)?;
        let reason = server.reason.map(|reason| format!(": {reason}")).unwrap_or_default();
        Some(format!("the server '{}' is {}{reason}", server.name, server.state.as_str()))
    }

    fn secrets(&self, name: &QualifiedName) -> Vec<String> {
        self.by_pack.get(&name.pack).map(|server| server.settings.secrets.clone()).unwrap_or_default()
    }

    async fn call(&self, call: ToolCall, ctx: &CallContext) -> Result<Value, ToolError> {
        let name = call.name();
        let server = self
            .by_pack
            .get(&name.pack)
            .ok_or_else(|| ToolError::not_found(format!("{name} is not a tool of a server")))?;
        let published = server.published();
        let route = published.routes.get(&name.function).ok_or_else(|| {
            ToolError::not_found(format!("the server '{}' no longer has {name}", server.settings.name))
        })?;
        let function = name.to_string();
        let request = Request { server, function: &function, ctx };
        match route {
            Route::Tool(route) => request.tool(route, call.arguments).await,
            Route::Blocked { reason } => Err(ToolError::denied(format!("{name} is blocked: {reason}"))),
            Route::Resources => request.resources().await,
            Route::Read => request.read(call.arguments).await,
            Route::Prompts => request.prompts().await,
            Route::Prompt => request.prompt(call.arguments).await,
        }
    }

    async fn offer(&self, pack: &str, offer: Offer, ctx: &CallContext) -> Result<Option<serde_json::Value>, ToolError> {
        let Some(server) = self.by_pack.get(pack) else { return Ok(None) };
        let published = server.published();
        let has = |wanted: fn(&Route) -> bool| published.routes.values().any(wanted);
        let is_there = match &offer {
            Offer::Prompts | Offer::Prompt { .. } => has(|route| matches!(route, Route::Prompts)),
            Offer::Resources | Offer::ResourceTemplates | Offer::Read { .. } => {
                has(|route| matches!(route, Route::Resources))
            }
            Offer::Complete { .. } => has(|route| matches!(route, Route::Prompts | Route::Resources)),
        };
        if !is_there {
            return Ok(None);
        }
        Request { server, function: pack, ctx }.offer(offer).await.map(Some)
    }

    fn changes(&self) -> Option<broadcast::Receiver<SourceChange>> {
        Some(self.shared.changes.subscribe())
    }

    async fn watch(&self, pack: &str, uri: &str, ctx: &CallContext) -> Result<bool, ToolError> {
        match self.by_pack.get(pack) {
            Some(server) => server.watch_resource(uri, ctx).await.map(|()| true),
            None => Ok(false),
        }
    }

    async fn unwatch(&self, pack: &str, uri: &str) {
        if let Some(server) = self.by_pack.get(pack) {
            server.unwatch_resource(uri).await;
        }
    }

    async fn settle(&self, pack: &str, ctx: &CallContext) -> Result<(), ToolError> {
        let Some(server) = self.by_pack.get(pack) else { return Ok(()) };
        match server.connection(ctx).await {
            // The caller has a client that can be asked to sign in.
            Err(error) if server.needs_sign_in() && ctx.client.is_some() => {
                let link = CallLink::new(ctx, Asks::Other);
                Request { server, function: pack, ctx }.signed_in(error, &link).await.map(drop)
            }
            outcome => outcome.map(drop),
        }
    }

    fn health(&self) -> Vec<HealthNote> {
        self.servers.iter().flat_map(|server| notes(server)).collect()
    }

    async fn shutdown(&self) {
        self.stop.cancel();
        self.tasks.close();
        let patience = limits::CLOSE + Duration::from_secs(1);
        if tokio::time::timeout(patience, self.tasks.wait()).await.is_err() {
            tracing::warn!("some servers did not end in time");
        }
    }
}
