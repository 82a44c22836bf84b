//! How a connection is made: starting or reaching the server, detecting its era, the handshake.

use std::ffi::OsStr;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use onetool_process::{ChildCommand, SearchPath, command};
use parking_lot::Mutex;
use rmcp::model::ErrorCode;
use rmcp::service::{ClientInitializeError, serve_client_with_lifecycle};
use rmcp::transport::{Transport, TransportAdapterIdentity};
use rmcp::{ClientHandler as _, RoleClient};

use super::child::ChildTransport;
use super::connection::{Connection, transport_error, with_sources};
use super::era::{self, Era, EraChoice, Found, NotFound, Plan, Primed};
use super::handler::Handler;
use super::http::{Endpoint, HttpClient};
use super::oauth::OAuth;
use super::settings::{Offers, ServerKind, ServerSettings, limits};
use super::text::Redactor;
use super::transport::{ObservedTransport, Wire};
use super::watching::News;

/// What an attempt waits for, and since when.
#[derive(Clone, Default)]
pub(super) struct Stage(Arc<Mutex<Option<(String, Instant)>>>);

impl Stage {
    pub(super) fn enter(&self, what: impl Into<String>) {
        *self.0.lock() = Some((what.into(), Instant::now()));
    }

    pub(super) fn clear(&self) {
        *self.0.lock() = None;
    }

    pub(super) fn what(&self) -> Option<String> {
        self.0.lock().as_ref().map(|(what, _)| what.clone())
    }
}

/// The inputs for opening a connection.
pub(super) struct Opening<'a> {
    pub(super) settings: &'a ServerSettings,
    pub(super) redactor: &'a Redactor,
    pub(super) offers: Offers,
    pub(super) search_path: &'a SearchPath,
    pub(super) http: &'a HttpClient,
    pub(super) auth: Option<&'a Arc<OAuth>>,
    /// The era that the server had last time.
    pub(super) remembered: Mutex<Option<Era>>,
    pub(super) stage: &'a Stage,
    pub(super) news: News,
    /// The wire of the current attempt, in case it must be abandoned.
    pub(super) heard: Mutex<Option<Arc<Wire>>>,
}

/// A connection and its era.
pub(super) struct Opened {
    pub(super) connection: Connection,
    pub(super) era: Era,
}

/// Why a connection could not be made.
enum OpenError {
    Failed(String),
    /// The connection ended before the server answered. The first request may have been of the wrong era.
    Closed(String),
    /// The server requires authentication.
    Unauthorized(String),
}

impl OpenError {
    fn reason(self) -> String {
        match self {
            Self::Failed(reason) | Self::Closed(reason) | Self::Unauthorized(reason) => reason,
        }
    }
}

impl Opening<'_> {
    /// Starts or reaches the server and performs the handshake. Has no timeout of its own.
    pub(super) async fn open(&self) -> Result<Opened, String> {
        let opened = match &self.settings.kind {
            ServerKind::Stdio { .. } => self.open_child().await,
            ServerKind::Http { .. } => self.open_http().await,
        };
        opened.map_err(OpenError::reason)
    }

    /// Explains why an attempt took too long, as far as the server said.
    pub(super) fn given_up(&self, after: Duration) -> String {
        let waiting = self.stage.what().map(|what| format!(" (no {what})")).unwrap_or_default();
        let reason = format!("it was not ready within {} s{waiting}", after.as_secs_f64());
        let heard = self.heard.lock().clone();
        heard.map_or_else(|| reason.clone(), |wire| wire.reason_or(&reason))
    }

    pub(super) fn remembered(&self) -> Option<Era> {
        *self.remembered.lock()
    }

    fn plan(&self) -> Plan {
        let (first, may_fall_back) = match self.settings.era {
            EraChoice::Auto => (self.remembered().unwrap_or(Era::Modern), true),
            EraChoice::Legacy => (Era::Legacy, false),
            EraChoice::Modern => (Era::Modern, false),
        };
        Plan { first, may_fall_back, patience: self.settings.probe }
    }

    fn new_wire(&self) -> Arc<Wire> {
        let wire = Wire::new(self.settings, self.redactor.clone(), self.news.clone());
        *self.heard.lock() = Some(wire.clone());
        wire
    }

    fn asking(&self, era: Era) {
        self.stage.enter(format!("answer to {}", era.opener()));
    }

    async fn open_child(&self) -> Result<Opened, OpenError> {
        let plan = self.plan();
        let outcome = self.start_child(plan).await;
        // Some servers exit when the first request is not the expected one.
        match outcome {
            Err(OpenError::Closed(_)) if plan.may_fall_back && self.remembered().is_none() => {
                let alone = Plan { first: plan.first.other(), may_fall_back: false, ..plan };
                self.start_child(alone).await
            }
            outcome => outcome,
        }
    }

    async fn start_child(&self, plan: Plan) -> Result<Opened, OpenError> {
        let ServerKind::Stdio { command: program, args, env, cwd } = &self.settings.kind else {
            return Err(OpenError::Failed("it is not a program".to_owned()));
        };
        let wire = self.new_wire();
        // A relative path is relative to the server's working directory.
        let program_path = match cwd {
            Some(cwd) if program.contains('/') => cwd.join(program),
            _ => PathBuf::from(program),
        };
        let found = self
            .search_path
            .find(program_path.as_os_str())
            .map_err(|error| OpenError::Failed(self.redactor.show(&error.to_string(), limits::REASON_CHARS)))?;
        let child = command(&ChildCommand {
            program: found.as_os_str(),
            args: args.iter().map(OsStr::new).collect(),
            folder: cwd.as_deref(),
            environment: env,
            // A server is a third-party program: variables beyond the common ones must be configured.
            inherit_prefixes: &[],
            search_path: self.search_path,
        });
        let transport = ChildTransport::spawn(child, &wire).map_err(|error| {
            let where_from = cwd.as_deref().map(|folder| format!(" in {}", folder.display())).unwrap_or_default();
            let reason = format!("'{program}' can't be started{where_from}: {error}");
            OpenError::Failed(self.redactor.show(&reason, limits::REASON_CHARS))
        })?;
        self.ask_and_shake_hands(transport, wire, plan).await
    }

    async fn open_http(&self) -> Result<Opened, OpenError> {
        let plan = self.plan();
        let outcome = if plan.may_fall_back { self.either(plan).await } else { self.reach(plan.first).await };
        let outcome = match outcome {
            // The era was not remembered, so the other one may offer more.
            Ok(opened) if plan.may_fall_back && self.remembered().is_none() => Ok(self.richer(opened, plan).await),
            outcome => outcome,
        };
        match outcome {
            Err(OpenError::Failed(reason) | OpenError::Closed(reason))
                if plan.first == Era::Legacy || plan.may_fall_back =>
            {
                // Whatever the failure: a server that opens a stream and names an address is of the older kind.
                let ServerKind::Http { url, headers } = &self.settings.kind else {
                    return Err(OpenError::Failed(reason));
                };
                let before = self.heard.lock().clone();
                let wire = self.new_wire();
                self.stage.enter("event stream of the older kind");
                let endpoint = Endpoint { url, headers, wire: &wire, auth: self.auth };
                let Ok(older) = self.http.older(&endpoint).await else {
                    *self.heard.lock() = before;
                    return Err(OpenError::Failed(reason));
                };
                self.asking(Era::Legacy);
                let connection = self.shake_hands(older, wire, Era::Legacy).await?;
                Ok(Opened { connection, era: Era::Legacy })
            }
            outcome => outcome,
        }
    }

    /// Tries one era, and the other when that fails or takes long; the first answer wins.
    async fn either(&self, plan: Plan) -> Result<Opened, OpenError> {
        let first = Box::pin(self.reach(plan.first));
        let other = Box::pin(self.reach(plan.first.other()));
        match tokio::time::timeout(plan.patience, first).await {
            Ok(Ok(opened)) => Ok(opened),
            Ok(Err(error @ OpenError::Unauthorized(_))) => Err(error),
            Ok(Err(refused)) => match other.await {
                Err(OpenError::Failed(reason) | OpenError::Closed(reason)) => {
                    Err(OpenError::Failed(both(plan.first, refused.reason(), &reason)))
                }
                outcome => outcome,
            },
            // Over HTTP, an abandoned request costs nothing: it is sent again alongside the other.
            Err(_) => first_success(other, Box::pin(self.reach(plan.first))).await,
        }
    }

    async fn reach(&self, era: Era) -> Result<Opened, OpenError> {
        let ServerKind::Http { url, headers } = &self.settings.kind else {
            return Err(OpenError::Failed("it has no address".to_owned()));
        };
        let wire = self.new_wire();
        let endpoint = Endpoint { url, headers, wire: &wire, auth: self.auth };
        let transport = self.http.streamable(&endpoint).await.map_err(OpenError::Failed)?;
        self.asking(era);
        let connection = self.shake_hands(transport, wire, era).await?;
        Ok(Opened { connection, era })
    }

    /// Tries the other era of a server too, and returns the connection that offers more.
    async fn richer(&self, opened: Opened, plan: Plan) -> Opened {
        let Ok(Ok(other)) = tokio::time::timeout(plan.patience, self.reach(opened.era.other())).await else {
            return opened;
        };
        let count =
            |opened: &Opened| opened.connection.peer_info().map_or(0, |info| era::capability_count(&info.capabilities));
        let other_is_better = match count(&other).cmp(&count(&opened)) {
            std::cmp::Ordering::Greater => true,
            std::cmp::Ordering::Equal => other.era == Era::Modern,
            std::cmp::Ordering::Less => false,
        };
        let (better, worse) = if other_is_better { (other, opened) } else { (opened, other) };
        *self.heard.lock() = Some(better.connection.wire.clone());
        worse.connection.close().await;
        better
    }

    async fn ask_and_shake_hands<T>(&self, transport: T, wire: Arc<Wire>, plan: Plan) -> Result<Opened, OpenError>
    where
        T: Transport<RoleClient> + 'static,
    {
        let info = Handler::new(wire.clone(), self.offers).get_info();
        let mut tap = ObservedTransport::new(transport, wire.clone());
        let found = era::find(&mut tap, plan, &info, |era| self.asking(era)).await;
        let show = |text: &str| self.redactor.show(text, limits::REASON_CHARS);
        let Found { era, answer } = match found {
            Ok(found) => found,
            Err(failure) => {
                let error = match failure {
                    NotFound::Refused(refused) => {
                        let refusals: Vec<String> = refused
                            .iter()
                            .map(|(era, error)| format!("{} (error {}): {}", era.opener(), error.code.0, error.message))
                            .collect();
                        OpenError::Failed(show(&format!("it refused {}", refusals.join("; and "))))
                    }
                    NotFound::Closed => {
                        OpenError::Closed(wire.reason_or("it closed the connection during the handshake"))
                    }
                    NotFound::Transport(error) => OpenError::Closed(wire.reason_or(&with_sources(&error))),
                };
                let _ = tokio::time::timeout(limits::CLOSE, tap.close()).await;
                return Err(error);
            }
        };
        let connection = self.shake_hands_with(Primed::new(tap, answer), wire, era).await?;
        Ok(Opened { connection, era })
    }

    async fn shake_hands<T>(&self, transport: T, wire: Arc<Wire>, era: Era) -> Result<Connection, OpenError>
    where
        T: Transport<RoleClient> + 'static,
    {
        self.shake_hands_with(ObservedTransport::new(transport, wire.clone()), wire, era).await
    }

    async fn shake_hands_with<T>(&self, transport: T, wire: Arc<Wire>, era: Era) -> Result<Connection, OpenError>
    where
        T: Transport<RoleClient> + 'static,
    {
        let handler = Handler::new(wire.clone(), self.offers);
        let service =
            serve_client_with_lifecycle::<_, _, _, TransportAdapterIdentity>(handler, transport, era.lifecycle())
                .await
                .map_err(|error| self.handshake_error(&error, &wire, era))?;
        Ok(Connection::new(service, wire))
    }

    fn handshake_error(&self, error: &ClientInitializeError, wire: &Wire, era: Era) -> OpenError {
        let show = |text: &str| self.redactor.show(text, limits::REASON_CHARS);
        if error.is_authorization_required() || error.auth_challenge().is_some() {
            let need = self.auth.and_then(|auth| auth.status()).and_then(|status| status.reason);
            let need = need.unwrap_or_else(|| "HTTP 401 Unauthorized".to_owned());
            return OpenError::Unauthorized(show(&format!("it needs a sign-in: {need}")));
        }
        match error {
            ClientInitializeError::ConnectionClosed(_) => {
                OpenError::Closed(wire.reason_or("it closed the connection during the handshake"))
            }
            ClientInitializeError::JsonRpcError(error) if error.code == ErrorCode::METHOD_NOT_FOUND => {
                OpenError::Failed(show(&format!("it does not know {}: {}", era.opener(), error.message)))
            }
            ClientInitializeError::JsonRpcError(error) => {
                let (opener, code) = (era.opener(), error.code.0);
                OpenError::Failed(show(&format!("it refused {opener} (error {code}): {}", error.message)))
            }
            ClientInitializeError::TransportError { error, .. } => OpenError::Failed(show(&transport_error(error))),
            other => OpenError::Failed(show(&with_sources(other))),
        }
    }
}

/// Why neither era worked. Usually both reasons are the same.
fn both(first: Era, refused: String, reason: &str) -> String {
    if refused == reason {
        return refused;
    }
    match first {
        // The answer to `initialize` is what most servers mean.
        Era::Modern => format!("{reason} (server/discover: {refused})"),
        Era::Legacy => format!("{refused} (server/discover: {reason})"),
    }
}

/// Returns the first success of two; if both fail, the error of the first argument.
async fn first_success<T>(
    one: impl Future<Output = Result<T, OpenError>> + Unpin,
    two: impl Future<Output = Result<T, OpenError>> + Unpin,
) -> Result<T, OpenError> {
    use futures_util::future::{Either, select};
    match select(one, two).await {
        Either::Left((Ok(value), _)) | Either::Right((Ok(value), _)) => Ok(value),
        Either::Left((Err(error), rest)) => rest.await.map_err(|_| error),
        Either::Right((Err(_), rest)) => rest.await,
    }
}
