//! MCP over streamable HTTP. Host, Origin and tokens are checked around it, by the same rules as for REST.
//!
//! The library serves the protocol. Around it: bodies are bounded, every failure is a JSON-RPC error, and sessions
//! follow our rules ([`super::sessions`]).

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use futures_util::StreamExt as _;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Body as _;
use onetool_sdk::repaired_json;
use rmcp::ServerHandler;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::{Value as Json, json};
use tokio_util::sync::CancellationToken;

use super::archive::{Archive, Place};
use super::elsewhere::Here;
use super::events::{Events, ResumeLimits};
use super::lines::{self, Head};
use super::plain_calls::{PlainCall, PlainCalls};
use super::sessions::{OWNER, Owner, SessionLimits, Sessions, SessionsFull};
use super::{Handler, Shared, sse, tasks_2025};
use crate::access::protect;
use crate::background::Background;
use crate::drain::{self, Draining};
use crate::relay::{Relay, Room};
use crate::{AccessError, AccessPolicy, McpSettings, Scope, ServerSettings, Service};

/// Header that names the session of a request.
pub(crate) const SESSION_HEADER: &str = "mcp-session-id";
/// Header that names the event after which a stream resumes.
const LAST_EVENT_HEADER: &str = "last-event-id";
/// Timeout for receiving a body.
const BODY_PATIENCE: Duration = Duration::from_secs(15);
/// Retry delay when the server has no capacity.
const BUSY_SECONDS: u64 = 5;
/// Maximum length of an error's text.
const MAX_REASON: usize = 4096;

const PARSE_ERROR: i32 = -32700;
const INVALID_REQUEST: i32 = -32600;
const INTERNAL_ERROR: i32 = -32603;
const UNKNOWN_SESSION: i32 = -32001;
const BUSY: i32 = -32000;

/// Returns the number of open sessions.
pub(crate) type SessionCount = Arc<dyn Fn() -> usize + Send + Sync>;

/// Returns the MCP endpoint. Streams that wait for events end with `draining`, everything else with `stop`.
pub(crate) fn router(
    service: &Arc<dyn Service>,
    background: &Arc<Background>,
    relay: &Arc<Relay>,
    stop: &CancellationToken,
    draining: &CancellationToken,
) -> (Router, SessionCount) {
    let settings: Settings = {
        let service = service.clone();
        Arc::new(move || EndpointSettings::of(&service.served().server))
    };
    let archive = {
        let service = service.clone();
        Arc::new(Archive::new(move || {
            let served = service.served();
            let node = served.state.is_shared().then(|| served.runs.node().to_owned());
            Place { state: served.state.clone(), kept_for: served.server.mcp.session_memory, node }
        }))
    };
    let shared = Shared::new(service, background.clone(), Some(archive.clone()));
    let handlers = {
        let (service, shared) = (service.clone(), shared.clone());
        move || Handler::new(service.clone(), shared.clone())
    };
    let plain = Some(Arc::new(PlainCalls::new(handlers())));
    let waiting = shared.clone();
    let sweep = Box::new(move || waiting.waiting.sweep());
    let parts = EndpointParts { settings, archive: Some(archive), sweep, plain };
    let (router, sessions) = endpoint(parts, handlers, stop, draining);
    let here = Here { shared: shared.clone(), sessions: sessions.clone() };
    relay.add(Room { waiting: Box::new(here), router: router.clone() });
    (relay.relayed(router).merge(sse::router(service, &shared, stop)), Arc::new(move || sessions.count()))
}

/// Serves MCP at `/mcp` with any handler of the library, with the same transport, sessions and access rules as OneTool.
/// For other servers, and for tests of the transport itself.
pub fn serve_handlers<H: ServerHandler>(
    settings: ServerSettings,
    address: IpAddr,
    handlers: impl Fn() -> H + Send + Sync + 'static,
    stop: &CancellationToken,
) -> Result<Router, AccessError> {
    let access = Arc::new(AccessPolicy::new(address, &settings, None)?);
    let settings: Settings = Arc::new(move || EndpointSettings::of(&settings));
    let parts = EndpointParts { settings, archive: None, sweep: Box::new(|| {}), plain: None };
    Ok(protect(endpoint(parts, handlers, stop, stop).0, access, Scope::Invoke))
}

/// Returns the settings in effect.
type Settings = Arc<dyn Fn() -> EndpointSettings + Send + Sync>;

/// The settings that the endpoint needs.
struct EndpointSettings {
    max_body_bytes: usize,
    mcp: McpSettings,
}

impl EndpointSettings {
    fn of(settings: &ServerSettings) -> Self {
        Self { max_body_bytes: settings.api.max_body_bytes, mcp: settings.mcp.clone() }
    }
}

/// The parts of an endpoint besides its handlers.
struct EndpointParts {
    settings: Settings,
    archive: Option<Arc<Archive>>,
    /// Called periodically.
    sweep: Box<dyn Fn() + Send + Sync>,
    /// Answers calls that do not need the library's transport, where the handlers allow it.
    plain: Option<Arc<PlainCalls>>,
}

fn endpoint<H: ServerHandler>(
    parts: EndpointParts,
    handlers: impl Fn() -> H + Send + Sync + 'static,
    stop: &CancellationToken,
    draining: &CancellationToken,
) -> (Router, Arc<Sessions>) {
    let EndpointParts { settings, archive, sweep, plain } = parts;
    let mut config = StreamableHttpServerConfig::default()
        .disable_allowed_hosts()
        .disable_allowed_origins()
        // Bodies are limited before they get there.
        .with_max_request_body_bytes(usize::MAX)
        // In the newest revision, a single message is not sent as an event stream.
        .with_json_response(true)
        .with_cancellation_token(stop.child_token());
    let events = Arc::new(Events::new({
        let settings = settings.clone();
        move || resume_limits(&settings().mcp)
    }));
    let limits = {
        let settings = settings.clone();
        move || session_limits(&settings().mcp)
    };
    let sessions = Arc::new(Sessions::new(events.clone(), limits, archive));
    crate::task::spawn(keep_house(settings.clone(), sessions.clone(), events, sweep, stop.clone()));
    config.session_store = Some(sessions.remembered());
    let endpoint = StreamableHttpService::new(move || Ok(handlers()), sessions.clone(), config);
    let state = Endpoint { settings, sessions: sessions.clone(), endpoint, plain, draining: draining.clone() };
    (Router::new().route("/mcp", any(answer::<H>)).with_state(state), sessions)
}

fn resume_limits(settings: &McpSettings) -> ResumeLimits {
    ResumeLimits { window: settings.resume_window, bytes: settings.resume_bytes }
}

fn session_limits(settings: &McpSettings) -> SessionLimits {
    SessionLimits {
        idle: settings.session_idle,
        all: settings.max_sessions,
        per_client: settings.max_sessions_per_client,
    }
}

/// Ends idle sessions and removes expired entries periodically, until the server stops.
async fn keep_house(
    settings: Settings,
    sessions: Arc<Sessions>,
    events: Arc<Events>,
    sweep: Box<dyn Fn() + Send + Sync>,
    stop: CancellationToken,
) {
    const OFTEN: Duration = Duration::from_millis(100);
    const SELDOM: Duration = Duration::from_secs(30);
    loop {
        let now = settings().mcp;
        let shortest = now.session_idle.min(now.resume_window).min(now.input_timeout);
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep((shortest / 4).clamp(OFTEN, SELDOM)) => {}
        }
        sessions.end_idle().await;
        events.sweep();
        sweep();
    }
}

struct Endpoint<H: ServerHandler> {
    settings: Settings,
    sessions: Arc<Sessions>,
    endpoint: StreamableHttpService<H, Sessions>,
    plain: Option<Arc<PlainCalls>>,
    draining: CancellationToken,
}

impl<H: ServerHandler> Clone for Endpoint<H> {
    fn clone(&self) -> Self {
        Self {
            settings: self.settings.clone(),
            sessions: self.sessions.clone(),
            endpoint: self.endpoint.clone(),
            plain: self.plain.clone(),
            draining: self.draining.clone(),
        }
    }
}

async fn answer<H: ServerHandler>(State(state): State<Endpoint<H>>, request: Request) -> Response {
    let (mut parts, body) = request.into_parts();
    let owner = Owner::of(&parts.extensions);
    state.sessions.unseal(&mut parts.headers, owner.principal).await;
    let header = |name| parts.headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let session = header(SESSION_HEADER);
    // Event ids of a session's own stream begin with the session's id.
    let resumed = header(LAST_EVENT_HEADER).and_then(|event| event.split_once(':')).map(|(session, _)| session);
    if [session, resumed].into_iter().flatten().any(|id| !state.sessions.may_use(id, owner.principal)) {
        return unknown_session();
    }
    if parts.method == Method::GET
        && session.is_none_or(|id| state.sessions.is_known(id))
        && header(LAST_EVENT_HEADER).is_some_and(|event| state.sessions.may_be_elsewhere(event))
    {
        return not_kept_here();
    }
    let limit = (state.settings)().max_body_bytes;
    let body = match read_body(body, limit).await {
        Ok(body) => body,
        Err(refusal) => return refusal,
    };
    if parts.extensions.get::<Draining>().is_some()
        && let Some(refusal) = refused_while_draining(&body)
    {
        return refusal;
    }
    if let Some(plain) = &state.plain
        && let Some(call) = PlainCall::of(&parts, &body)
    {
        return plain.answer(call, parts).await;
    }
    let needs_session = match session {
        Some(id) => !state.sessions.is_open(id),
        None => opens_session(&body),
    };
    if needs_session && let Err(full) = state.sessions.make_room(owner).await {
        return busy(&full);
    }
    let body = tasks_2025::rewritten(&body).map_or(body, Bytes::from);
    let waits_for_news = parts.method == Method::GET || method_of(&body).as_deref() == Some(LISTEN);
    let draining = state.draining.clone();
    let mut response = OWNER.scope(owner, state.serve(parts, body)).await;
    state.sessions.seal(response.headers_mut());
    if waits_for_news {
        response.map(|body| Body::from_stream(body.into_data_stream().take_until(draining.cancelled_owned())))
    } else {
        response
    }
}

/// A server that is stopping starts nothing new: only answers, notifications and requests about tasks are served.
fn refused_while_draining(body: &[u8]) -> Option<Response> {
    let head = serde_json::from_slice::<Head>(body).ok();
    let method = head.as_ref().and_then(|head| head.method.as_deref());
    if method.is_none_or(|method| method.starts_with("notifications/") || method.starts_with("tasks/")) {
        return None;
    }
    let message = format!("{}\nhint: {}", drain::REFUSAL, drain::HINT);
    let id = head.and_then(|head| head.id);
    let mut response = failure(StatusCode::SERVICE_UNAVAILABLE, id, BUSY, &message);
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(drain::RETRY_SECONDS));
    Some(response)
}

/// The method of a request whose response stays open until the client disconnects.
const LISTEN: &str = "subscriptions/listen";

/// Returns the method of a small message that may be a `subscriptions/listen` request.
fn method_of(body: &[u8]) -> Option<String> {
    const SMALL: usize = 4096;
    let is_candidate = body.len() <= SMALL && lines::contains(body, LISTEN.as_bytes());
    is_candidate.then(|| serde_json::from_slice::<Head>(body).ok()?.method).flatten()
}

impl<H: ServerHandler> Endpoint<H> {
    async fn serve(&self, parts: Parts, body: Bytes) -> Response {
        let method = parts.method.clone();
        let is_json = is_json(&parts.headers);
        let response = self.pass_on(parts.clone(), body.clone()).await;
        match response.status() {
            // The library answers "accepted", which some clients treat as a failure; the session has ended by now.
            StatusCode::ACCEPTED if method == Method::DELETE => StatusCode::NO_CONTENT.into_response(),
            // A request with an invalid id is parsed as a notification, and would get no answer.
            StatusCode::ACCEPTED if lines::has_unusable_id(&body) => {
                failure(StatusCode::BAD_REQUEST, None, INVALID_REQUEST, lines::FORM)
            }
            StatusCode::UNSUPPORTED_MEDIA_TYPE if is_json => match lines::read(&body) {
                // Almost valid JSON is repaired, as on standard input.
                Ok(_) => self.pass_on(parts, repaired_json(&body).into_owned().into()).await,
                Err(refusal) => failure(StatusCode::BAD_REQUEST, refusal.id, refusal.code, &refusal.message),
            },
            status if status.is_client_error() || status.is_server_error() => explained(response, &body).await,
            _ => response,
        }
    }

    async fn pass_on(&self, parts: Parts, body: Bytes) -> Response {
        self.endpoint.handle(Request::from_parts(parts, Full::new(body))).await.map(Body::new)
    }
}

pub(super) async fn read_body(body: Body, limit: usize) -> Result<Bytes, Response> {
    let too_large = || {
        let message = format!("a body has at most {limit} bytes\nhint: see server.max_body_bytes");
        failure(StatusCode::PAYLOAD_TOO_LARGE, None, INVALID_REQUEST, &message)
    };
    if body.size_hint().lower() > limit as u64 {
        return Err(too_large());
    }
    match tokio::time::timeout(BODY_PATIENCE, Limited::new(body, limit).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(_)) => Err(failure(StatusCode::BAD_REQUEST, None, PARSE_ERROR, "the body could not be read")),
        Err(_) => Err(failure(StatusCode::REQUEST_TIMEOUT, None, PARSE_ERROR, "the body did not arrive in time")),
    }
}

/// Whether this is the `initialize` of a client with sessions.
fn opens_session(body: &[u8]) -> bool {
    const METHOD: &[u8] = b"\"initialize\"";
    lines::contains(body, METHOD)
        && serde_json::from_slice::<Head>(body).is_ok_and(|head| head.method.as_deref() == Some("initialize"))
}

fn is_json(headers: &HeaderMap) -> bool {
    headers
        .get(header::CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok())
        .is_some_and(|kind| kind.starts_with("application/json"))
}

/// Converts an error of the library, which may be plain text, to a JSON-RPC error.
async fn explained(response: Response, request: &[u8]) -> Response {
    if is_json(response.headers()) {
        return response;
    }
    let (parts, body) = response.into_parts();
    if parts.status == StatusCode::NOT_FOUND {
        return unknown_session();
    }
    let reason =
        Limited::new(body, MAX_REASON).collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let code = if parts.status.is_server_error() { INTERNAL_ERROR } else { INVALID_REQUEST };
    let id = serde_json::from_slice::<Head>(request).ok().and_then(|head| head.id);
    let mut response = failure(parts.status, id, code, &String::from_utf8_lossy(&reason));
    if let Some(allowed) = parts.headers.get(header::ALLOW) {
        response.headers_mut().insert(header::ALLOW, allowed.clone());
    }
    response
}

fn unknown_session() -> Response {
    let message = "the session is unknown or has ended\nhint: send initialize without Mcp-Session-Id";
    failure(StatusCode::NOT_FOUND, None, UNKNOWN_SESSION, message)
}

/// Only the server that produced an answer keeps it for clients that missed it. A retry may reach that server.
fn not_kept_here() -> Response {
    let message = "this server does not keep the events after this Last-Event-ID; another one may\n\
                   hint: ask again, or send the request again (with an idempotency key it is the same run)";
    let mut response = failure(StatusCode::SERVICE_UNAVAILABLE, None, BUSY, message);
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(BUSY_SECONDS));
    response
}

fn busy(full: &SessionsFull) -> Response {
    let mut response = failure(StatusCode::SERVICE_UNAVAILABLE, None, BUSY, &full.to_string());
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(BUSY_SECONDS));
    response
}

pub(super) fn failure(status: StatusCode, id: Option<Json>, code: i32, message: &str) -> Response {
    let error = json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}});
    (status, axum::Json(error)).into_response()
}
