//! Signing in to servers (OAuth 2.1).
//!
//! A server that refuses a request says where tokens for it are issued; the user signs in there once, and from then on
//! the tokens are renewed automatically. `challenge` and `discovery` find the authorization server, `client` chooses
//! our client, `login` and `callback` are one sign-in, `tokens` the token requests, `record` what is stored of it.
//!
//! **Invariants:** one refresh at a time, across all processes that share the state, and processes that waited use its
//! result; only a sign-out or a new sign-in removes tokens, so a network failure never signs anyone out; a token is
//! sent to its own server and nowhere else.

mod callback;
mod challenge;
mod client;
mod discovery;
mod login;
mod record;
mod settings;
mod tokens;
mod web;

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use reqwest::Url;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

pub(crate) use challenge::Challenge;
pub use record::CREDENTIALS;
pub use settings::{AuthSettings, DEFAULT_LOGIN_TIMEOUT, ResourceIndicator};
pub(crate) use web::OAuthError;

use callback::{Callback, Visitor};
use login::{Beginning, Login, SharedLogin};
use record::{ClientOrigin, PendingLogin, Record, RecordStore, Tokens, now};
use tokens::{Grant, TokenRequest};
use web::Web;

use super::http::HttpClient;

/// The pause after a failed refresh; it doubles up to the maximum below.
const RETRY: Duration = Duration::from_secs(2);
const RETRY_MOST: Duration = Duration::from_mins(2);

/// How long a lookup that found no sign-in is trusted.
const LOOKED_UP: Duration = Duration::from_secs(2);

/// The sign-in status of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthStatus {
    pub state: AuthState,
    /// Why a sign-in is required.
    pub reason: Option<String>,
    /// How long the token is still valid, in seconds.
    pub expires_in: Option<u64>,
    /// The address to open in a browser to sign in, while this process waits for it.
    pub url: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthState {
    SignedIn,
    NeedsSignIn,
}

impl AuthState {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SignedIn => "signed in",
            Self::NeedsSignIn => "needs sign-in",
        }
    }
}

/// Why there is no token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NoToken {
    /// A sign-in is required.
    SignIn(String),
    /// Temporary: a later attempt may succeed.
    NotNow(String),
}

#[derive(Default)]
struct Memory {
    record: Option<Record>,
    /// When the record was read.
    read_at: Option<Instant>,
    /// The challenge of the server's last refusal.
    challenge: Option<Challenge>,
    /// Why a sign-in is required.
    need: Option<String>,
    /// When a failed refresh may be retried, and why it failed.
    retry: Option<(Instant, Duration, String)>,
}

/// A sign-in that waits for its user.
struct Waiting {
    login: SharedLogin,
    outcome: watch::Sender<Option<Result<(), String>>>,
    /// Waits for the browser, and ends after responding to it.
    listening: Mutex<Option<JoinHandle<()>>>,
}

impl Waiting {
    /// Stops the listener, and frees its port.
    async fn stop_listening(&self) {
        let listening = self.listening.lock().take();
        if let Some(listening) = listening {
            listening.abort();
            let _ = listening.await;
        }
    }
}

impl Drop for OAuth {
    fn drop(&mut self) {
        if let Some(listening) = self.waiting.lock().take().and_then(|waiting| waiting.listening.lock().take()) {
            listening.abort();
        }
    }
}

/// The sign-in of one server.
pub(crate) struct OAuth {
    server: String,
    url: Url,
    settings: AuthSettings,
    store: RecordStore,
    http: Arc<HttpClient>,
    memory: Mutex<Memory>,
    refreshing: tokio::sync::Mutex<()>,
    beginning: tokio::sync::Mutex<()>,
    waiting: Mutex<Option<Arc<Waiting>>>,
    /// The callback address of this process that others can reach, if any.
    public_callback: Mutex<Option<String>>,
    /// Notified when someone signs in here.
    pub(crate) signed_in: Notify,
}

impl OAuth {
    pub(crate) fn new(
        server: &str,
        url: &str,
        settings: AuthSettings,
        state: &onetool_state::State,
        http: Arc<HttpClient>,
    ) -> Option<Arc<Self>> {
        let parsed = Url::parse(url).ok()?;
        Some(Arc::new(Self {
            server: server.to_owned(),
            store: RecordStore::new(state, url, &settings),
            url: parsed,
            settings,
            http,
            memory: Mutex::default(),
            refreshing: tokio::sync::Mutex::default(),
            beginning: tokio::sync::Mutex::default(),
            waiting: Mutex::new(None),
            public_callback: Mutex::new(None),
            signed_in: Notify::new(),
        }))
    }

    async fn web(&self) -> Result<Web, OAuthError> {
        let client = self.http.plain().await.map_err(OAuthError::Transient)?;
        Ok(Web::new(client, &self.url))
    }

    /// Tokens of the configured client; those of another are not used.
    fn usable<'a>(&self, record: &'a Record) -> Option<&'a Tokens> {
        let client = record.client.as_ref()?;
        let is_ours = match (&self.settings.client_id, client.origin) {
            (Some(id), _) => client.id == *id,
            (None, ClientOrigin::Configured) => false,
            (None, ClientOrigin::MetadataUrl | ClientOrigin::Registered) => true,
        };
        record.tokens.as_ref().filter(|_| is_ours)
    }

    /// The token for a request; `None` if there is no sign-in and none may be required.
    pub(crate) async fn token(&self) -> Result<Option<String>, NoToken> {
        {
            let memory = self.memory.lock();
            let tokens = memory.record.as_ref().and_then(|record| self.usable(record));
            if let Some(tokens) = tokens.filter(|tokens| tokens.is_fresh()) {
                return Ok(Some(tokens.access.clone()));
            }
            // Most servers require no sign-in: they are not looked up on every call.
            if tokens.is_none() && memory.read_at.is_some_and(|at| at.elapsed() < LOOKED_UP) {
                return Ok(None);
            }
        }
        self.look_up().await
    }

    /// The current stored token, whichever process obtained it.
    pub(crate) async fn look_up(&self) -> Result<Option<String>, NoToken> {
        let record = self.read().await?;
        match self.usable(&record) {
            None => Ok(None),
            Some(tokens) if tokens.is_fresh() => Ok(Some(tokens.access.clone())),
            Some(tokens) => self.renew(&tokens.access.clone()).await.map(Some),
        }
    }

    async fn read(&self) -> Result<Record, NoToken> {
        let record = self.store.read().await.map_err(|error| NoToken::NotNow(error.to_string()))?;
        let mut memory = self.memory.lock();
        memory.record = Some(record.clone());
        memory.read_at = Some(Instant::now());
        Ok(record)
    }

    /// Returns a token other than `used`: one that another process obtained meanwhile, or a new one.
    pub(crate) async fn renew(&self, used: &str) -> Result<String, NoToken> {
        let _turn = self.refreshing.lock().await;
        let lease = self.store.lease().await.map_err(|error| NoToken::NotNow(error.to_string()))?;
        let outcome = self.renew_alone(used).await;
        lease.release().await;
        outcome
    }

    /// Renews the token; the lease must be held.
    async fn renew_alone(&self, used: &str) -> Result<String, NoToken> {
        let mut record = self.read().await?;
        let Some(tokens) = self.usable(&record).cloned() else {
            return Err(NoToken::SignIn("nobody is signed in".to_owned()));
        };
        if tokens.access != used && tokens.is_valid() {
            return Ok(tokens.access);
        }
        // A token that is due for renewal may still be valid.
        let meanwhile = |reason: NoToken| {
            if tokens.is_valid() && !tokens.is_fresh() { Ok(tokens.access.clone()) } else { Err(reason) }
        };
        if let Some(reason) = &record.refused {
            return meanwhile(NoToken::SignIn(reason.clone()));
        }
        let (Some(server), Some(client), Some(refresh)) = (&record.server, &record.client, &tokens.refresh) else {
            return meanwhile(NoToken::SignIn("the token has expired, and there is none to renew it with".to_owned()));
        };
        let failed_before = self.memory.lock().retry.clone();
        if let Some((at, _, reason)) = &failed_before
            && let left = at.saturating_duration_since(Instant::now())
            && !left.is_zero()
        {
            let seconds = left.as_secs_f64().ceil();
            return meanwhile(NoToken::NotNow(format!("{reason}; the next try is due in {seconds} s")));
        }
        let request = TokenRequest {
            server,
            client,
            grant: Grant::Refresh { token: refresh },
            resource: tokens.resource.as_deref(),
            scopes: &tokens.asked,
        };
        let sent = match self.web().await {
            Ok(web) => request.send(&web).await,
            Err(error) => Err(error),
        };
        match sent {
            Ok(mut renewed) => {
                if renewed.granted.is_empty() {
                    renewed.granted.clone_from(&tokens.granted);
                }
                let access = renewed.access.clone();
                record.tokens = Some(renewed);
                record.refused = None;
                // The old refresh token is spent: even if the new one cannot be stored, it must be used.
                if let Err(error) = self.store.write(&record).await {
                    tracing::error!(target: "onetool::server", server = self.server, "a renewed token can't be kept: {error}");
                }
                let mut memory = self.memory.lock();
                memory.retry = None;
                memory.need = None;
                memory.record = Some(record);
                Ok(access)
            }
            Err(error) if error.is_refusal(&["invalid_grant", "invalid_client", "unauthorized_client"]) => {
                let reason = format!("the sign-in is no longer accepted ({error})");
                record.refused = Some(reason.clone());
                // A fresh token is renewed only if its server refused it early: let every process know.
                if tokens.is_fresh()
                    && let Some(kept) = &mut record.tokens
                {
                    kept.expires_at = Some(now());
                }
                if !error.is_refusal(&["invalid_grant"]) {
                    // The server has forgotten the client; the next sign-in registers another.
                    record.registered = None;
                }
                let _ = self.store.write(&record).await;
                self.memory.lock().record = Some(record);
                meanwhile(NoToken::SignIn(reason))
            }
            Err(error) => {
                let pause = failed_before.map_or(RETRY, |(_, pause, _)| (pause * 2).min(RETRY_MOST));
                let reason = format!("its token can't be renewed now: {error}");
                self.memory.lock().retry = Some((Instant::now() + pause, pause, reason.clone()));
                meanwhile(NoToken::NotNow(reason))
            }
        }
    }

    /// Records that the server refused a request, with or without a token.
    pub(crate) fn refused(&self, header: &str, had_token: bool) {
        let challenge = Challenge::parse(header);
        let reason = if challenge.wants_more_scope() {
            format!("it wants more rights: {}", challenge.scopes().join(", "))
        } else if had_token {
            "it does not accept the token".to_owned()
        } else {
            "nobody is signed in".to_owned()
        };
        let mut memory = self.memory.lock();
        memory.need = Some(reason);
        memory.challenge = Some(challenge);
    }

    /// Records that there is no token.
    pub(crate) fn lacks(&self, reason: String) {
        self.memory.lock().need = Some(reason);
    }

    /// Records that a request succeeded.
    pub(crate) fn accepted(&self) {
        let mut memory = self.memory.lock();
        memory.need = None;
        memory.challenge = None;
    }

    pub(crate) fn needs_sign_in(&self) -> bool {
        self.memory.lock().need.is_some()
    }

    /// Whether there are tokens other than those that were refused: another process may have signed in.
    pub(crate) async fn has_news(&self) -> bool {
        let before = {
            let memory = self.memory.lock();
            memory.record.as_ref().and_then(|record| record.tokens.clone())
        };
        let Ok(record) = self.store.read().await else { return false };
        let is_news = record.tokens.is_some() && record.tokens != before;
        if is_news {
            self.memory.lock().record = Some(record);
        }
        is_news
    }

    pub(crate) fn status(&self) -> Option<AuthStatus> {
        let memory = self.memory.lock();
        let record = memory.record.as_ref();
        let tokens = record.and_then(|record| self.usable(record));
        let url = self.waiting.lock().as_ref().map(|waiting| waiting.login.url.clone());
        let refused =
            record.and_then(|record| record.refused.clone()).filter(|_| !tokens.is_some_and(Tokens::is_valid));
        if let Some(reason) = memory.need.clone().or(refused) {
            return Some(AuthStatus { state: AuthState::NeedsSignIn, reason: Some(reason), expires_in: None, url });
        }
        let tokens = tokens?;
        let expires_in = tokens.expires_at.map(|at| at.saturating_sub(now()));
        Some(AuthStatus { state: AuthState::SignedIn, reason: None, expires_in, url: None })
    }

    /// Reads the stored sign-in, so that `status` includes it.
    pub(crate) async fn look(&self) {
        let _ = self.read().await;
    }

    /// Starts a sign-in, or finds the one in progress; returns the address to open.
    pub(crate) async fn begin(self: &Arc<Self>, anew: bool) -> Result<String, OAuthError> {
        let _turn = self.beginning.lock().await;
        if !anew && let Some(waiting) = &*self.waiting.lock() {
            return Ok(waiting.login.url.clone());
        }
        self.begin_alone(anew).await
    }

    async fn begin_alone(self: &Arc<Self>, anew: bool) -> Result<String, OAuthError> {
        let web = self.web().await?;
        // The port of the previous listener is needed again.
        let before = self.waiting.lock().take();
        if let Some(before) = before {
            before.stop_listening().await;
        }
        let record = match self.store.read().await {
            Ok(record) => record,
            // A record that can't be read is replaced by signing in.
            Err(OAuthError::Invalid(_)) => Record { url: self.url.clone().into(), ..Record::default() },
            Err(error) => return Err(error),
        };
        let known = self.memory.lock().challenge.clone();
        let challenge = match known {
            Some(challenge) => challenge,
            None => self.ask_for_challenge().await,
        };
        let public_callback = self.public_callback.lock().clone();
        let beginning = Beginning {
            public_callback: public_callback.as_deref(),
            web: &web,
            settings: &self.settings,
            url: &self.url,
            challenge: &challenge,
            record: &record,
            anew,
        };
        let (login, listener) = beginning.begin().await?;
        let is_public = public_callback.as_ref().is_some_and(|callback| login.client.redirect_uri == *callback);
        if login.is_new_client || is_public {
            self.keep_begun(&login, is_public).await?;
        }
        let login = Arc::new(login);
        let (outcome, _) = watch::channel(None);
        let listening = listener.map(|listener| {
            let this = Arc::downgrade(self);
            tokio::spawn(async move {
                while let Ok(visitor) = Visitor::next(&listener).await {
                    let Some(this) = this.upgrade() else { return };
                    let (outcome, is_over) = this.conclude(&format!("?{}", visitor.query)).await;
                    drop(this);
                    visitor.show(&outcome.map_err(|error| error.to_string())).await;
                    if is_over {
                        return;
                    }
                }
            })
        });
        let url = login.url.clone();
        *self.waiting.lock() = Some(Arc::new(Waiting { login, outcome, listening: Mutex::new(listening) }));
        Ok(url)
    }

    /// Returns the server's challenge to a request without a token.
    async fn ask_for_challenge(&self) -> Challenge {
        let Ok(client) = self.http.client().await else { return Challenge::default() };
        let body = serde_json::json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
        let request = client
            .post(self.url.clone())
            .header(http::header::ACCEPT, "application/json, text/event-stream")
            .timeout(Duration::from_secs(10))
            .json(&body);
        let Ok(response) = request.send().await else { return Challenge::default() };
        let header = response.headers().get(http::header::WWW_AUTHENTICATE).and_then(|value| value.to_str().ok());
        header.map(Challenge::parse).unwrap_or_default()
    }

    /// Stores a newly registered client, and a sign-in whose browser may return to another server that shares the
    /// state, along with the existing tokens.
    async fn keep_begun(&self, login: &Login, is_public: bool) -> Result<(), OAuthError> {
        let lease = self.store.lease().await?;
        let kept = async {
            let mut record = self.store.read().await?;
            if login.is_new_client {
                record.registered = Some(login.client.clone());
            }
            if is_public {
                record.add_pending(login.clone(), self.settings.login_timeout);
            }
            self.store.write(&record).await
        };
        let kept = kept.await;
        lease.release().await;
        match kept {
            // Not fatal: the tokens are stored together with the client.
            Err(error) => {
                tracing::warn!(target: "onetool::server", server = self.server, "a sign-in that has begun can't be kept: {error}");
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Completes the current sign-in with a callback: an address, a query, or a code alone.
    pub(crate) async fn finish(&self, pasted: &str) -> Result<(), OAuthError> {
        let waiting = self.waiting.lock().clone();
        let (outcome, is_over) = self.conclude(pasted).await;
        if is_over && let Some(waiting) = waiting {
            waiting.stop_listening().await;
        }
        outcome
    }

    /// Completes a sign-in, and returns whether it is over. Unrelated callbacks do not end it: anyone may send one.
    async fn conclude(&self, pasted: &str) -> (Result<(), OAuthError>, bool) {
        let callback = match Callback::parse(pasted) {
            Ok(callback) => callback,
            Err(error) => return (Err(error), false),
        };
        let waiting = self.waiting.lock().clone();
        let waiting = match waiting {
            Some(waiting) if callback.is_bare || waiting.login.is_meant(&callback) => Some(waiting),
            other => self.begun_elsewhere(&callback).await.or(other),
        };
        let Some(waiting) = waiting else {
            return (Err(OAuthError::Invalid("no sign-in has begun here".to_owned())), false);
        };
        let is_over = callback.is_bare || waiting.login.is_meant(&callback);
        let finishing = async { waiting.login.finish(&callback, &self.web().await?).await };
        let outcome = match finishing.await {
            Ok(tokens) => self.keep(&waiting.login, tokens).await,
            Err(error) => Err(error),
        };
        if !is_over {
            return (outcome, false);
        }
        if let Err(error) = &outcome
            && waiting.login.client.origin == ClientOrigin::Registered
            && error.is_refusal(&["invalid_client", "unauthorized_client"])
        {
            self.forget_client().await;
        }
        {
            let mut current = self.waiting.lock();
            if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, &waiting)) {
                *current = None;
            }
        }
        waiting.outcome.send_replace(Some(outcome.as_ref().map(|&()| ()).map_err(ToString::to_string)));
        if outcome.is_ok() {
            self.signed_in.notify_one();
        }
        (outcome, true)
    }

    /// Finds a sign-in that began at another server that shares the state, or here before a restart.
    async fn begun_elsewhere(&self, callback: &Callback) -> Option<Arc<Waiting>> {
        let record = self.store.read().await.ok()?;
        let is_meant = |pending: &&PendingLogin| pending.until > now() && pending.login.is_meant(callback);
        let login = record.pending.iter().find(is_meant)?.login.clone();
        let (outcome, _) = watch::channel(None);
        Some(Arc::new(Waiting { login: Arc::new(login), outcome, listening: Mutex::new(None) }))
    }

    /// Sets the callback address of this process.
    pub(crate) fn take_callbacks_at(&self, url: Option<String>) {
        *self.public_callback.lock() = url;
    }

    /// Whether a browser's callback is for this server.
    pub(crate) async fn is_meant(&self, query: &str) -> bool {
        let Ok(callback) = Callback::parse(query) else { return false };
        let waiting = self.waiting.lock().clone();
        callback.state.is_some()
            && (waiting.is_some_and(|waiting| waiting.login.is_meant(&callback))
                || self.begun_elsewhere(&callback).await.is_some())
    }

    async fn forget_client(&self) {
        let Ok(lease) = self.store.lease().await else { return };
        if let Ok(mut record) = self.store.read().await {
            record.registered = None;
            let _ = self.store.write(&record).await;
        }
        lease.release().await;
    }

    /// Stores new tokens with everything that belongs to them. The old ones remain until then.
    async fn keep(&self, login: &Login, tokens: Tokens) -> Result<(), OAuthError> {
        let lease = self.store.lease().await?;
        let before = self.store.read().await.unwrap_or_default();
        let mut pending = before.pending;
        pending.retain(|pending| pending.until > now() && pending.login != *login);
        let registered = before.registered;
        let is_registered = login.client.origin == ClientOrigin::Registered;
        let record = Record {
            url: self.url.clone().into(),
            server: Some(login.server.clone()),
            client: Some(login.client.clone()),
            tokens: Some(tokens),
            registered: if is_registered { Some(login.client.clone()) } else { registered },
            pending,
            refused: None,
        };
        let written = self.store.write(&record).await;
        lease.release().await;
        written?;
        let mut memory = self.memory.lock();
        *memory = Memory { record: Some(record), ..Memory::default() };
        Ok(())
    }

    /// Waits until the current sign-in is over.
    pub(crate) async fn finished(&self) -> Result<(), String> {
        let waiting = self.waiting.lock().clone();
        let Some(waiting) = waiting else { return Ok(()) };
        let mut outcomes = waiting.outcome.subscribe();
        let limit = self.settings.login_timeout;
        let outcome = tokio::time::timeout(limit, outcomes.wait_for(Option::is_some)).await;
        match outcome {
            Ok(Ok(outcome)) => outcome.clone().unwrap_or(Ok(())),
            Ok(Err(_)) => Err("the sign-in was given up".to_owned()),
            Err(_) => Err(format!("nobody signed in within {} s (servers.<name>.auth.login_timeout)", limit.as_secs())),
        }
    }

    /// Signs out: tokens are revoked if the authorization server supports it, and forgotten.
    pub(crate) async fn sign_out(&self) -> Result<bool, OAuthError> {
        let lease = self.store.lease().await?;
        let signing_out = async {
            let mut record = self.store.read().await?;
            let had = record.tokens.take();
            if let (Some(tokens), Some(server), Some(client)) = (&had, &record.server, &record.client) {
                self.revoke(tokens, server, client).await;
            }
            record.refused = None;
            self.store.write(&record).await?;
            let mut memory = self.memory.lock();
            *memory = Memory { record: Some(record), ..Memory::default() };
            Ok(had.is_some())
        };
        let outcome = signing_out.await;
        lease.release().await;
        outcome
    }

    async fn revoke(&self, tokens: &Tokens, server: &discovery::AuthorizationServer, client: &record::OAuthClient) {
        let Some(endpoint) = &server.revocation_endpoint else { return };
        let Ok(web) = self.web().await else { return };
        let Ok(url) = web.checked(endpoint) else { return };
        let (token, hint) = match &tokens.refresh {
            Some(refresh) => (refresh.as_str(), "refresh_token"),
            None => (tokens.access.as_str(), "access_token"),
        };
        let secret = client.secret.as_deref().unwrap_or_default();
        let mut form = vec![("token", token), ("token_type_hint", hint)];
        let mut basic = None;
        match client.auth_method {
            record::AuthMethod::None => form.push(("client_id", &client.id)),
            record::AuthMethod::Post => form.extend([("client_id", client.id.as_str()), ("client_secret", secret)]),
            record::AuthMethod::Basic => basic = Some((client.id.as_str(), secret)),
        }
        if let Err(error) = web.post_form(&url, &form, basic).await {
            tracing::info!(target: "onetool::server", server = self.server, "tokens were not revoked: {error}");
        }
    }
}
