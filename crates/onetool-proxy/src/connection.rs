//! One connection to a server: opening it, sending requests, closing it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use onetool_sdk::{CallContext, TRACEPARENT, TRACESTATE};
use rmcp::model::{
    ClientRequest, ErrorCode, ErrorData, GetExtensions, GetMeta as _, ListPromptsRequest, ListResourceTemplatesRequest,
    ListResourcesRequest, ListToolsRequest, PaginatedRequestParams, PingRequest, ServerPeerInfo, ServerResult,
    SubscriptionFilter,
};
use rmcp::service::{PeerRequestOptions, RequestHandle, RunningService, ServiceError, Subscription};
use rmcp::transport::DynamicTransportError;
use rmcp::transport::streamable_http_client::StreamableHttpError;
use rmcp::{Peer, RoleClient};
use serde_json::Value as Json;
use tokio::sync::Mutex;

use super::calls::{CallLink, LinkExtension};
use super::handler::Handler;
use super::listing::{Listing, RemoteTool};
use super::settings::limits;
use super::transport::Wire;

/// Why a request got no result.
#[derive(Debug)]
pub(super) enum Failure {
    /// The caller gave up.
    Cancelled,
    /// No answer within this time.
    Timeout(Duration),
    /// The connection ended. Whether the server had read the request is unknown.
    Closed(String),
    /// The request was lost in transit: the server never received it.
    NotSent(String),
    /// The request was sent, but the response is not a valid answer.
    Unusable(String),
    /// The server requires a sign-in, or more scopes. It did nothing else.
    Unauthorized,
    /// The server answered with an error.
    Rejected(ErrorData),
}

impl Failure {
    pub(super) fn reason(&self) -> String {
        match self {
            Self::Cancelled => "the request was cancelled".to_owned(),
            Self::Timeout(after) => format!("it did not answer within {} s", after.as_secs_f64()),
            Self::Closed(reason) | Self::NotSent(reason) | Self::Unusable(reason) => reason.clone(),
            Self::Unauthorized => "it needs a sign-in".to_owned(),
            Self::Rejected(error) => format!("it answered with error {}: {}", error.code.0, error.message),
        }
    }
}

/// A server that answered the handshake.
pub(super) struct Connection {
    peer: Peer<RoleClient>,
    service: Mutex<Option<RunningService<RoleClient, Handler>>>,
    pub(super) wire: Arc<Wire>,
}

impl Connection {
    /// Wraps a service that has completed the handshake.
    pub(super) fn new(service: RunningService<RoleClient, Handler>, wire: Arc<Wire>) -> Self {
        Self { peer: service.peer().clone(), service: Mutex::new(Some(service)), wire }
    }
}

/// The cause of a transport error, without the names of the types in between.
pub(super) fn transport_error(error: &DynamicTransportError) -> String {
    match error.error.downcast_ref::<StreamableHttpError<reqwest::Error>>() {
        Some(StreamableHttpError::Client(error)) => with_sources(error),
        _ => with_sources(error.error.as_ref()),
    }
}

fn is_unauthorized(error: &DynamicTransportError) -> bool {
    matches!(
        error.error.downcast_ref::<StreamableHttpError<reqwest::Error>>(),
        Some(StreamableHttpError::AuthRequired(_) | StreamableHttpError::InsufficientScope(_))
    )
}

/// Whether a request that failed with this error cannot have reached its server.
fn never_arrived(error: &DynamicTransportError) -> bool {
    let error = error.error.as_ref();
    match error.downcast_ref::<StreamableHttpError<reqwest::Error>>() {
        Some(StreamableHttpError::Client(error)) => return error.is_connect(),
        Some(StreamableHttpError::SessionExpired | StreamableHttpError::TransportChannelClosed) => return true,
        Some(_) => return false,
        None => {}
    }
    match error.downcast_ref::<std::io::Error>() {
        // A line that was not written completely is not a message.
        Some(error) if error.kind() != std::io::ErrorKind::Other => true,
        Some(error) => {
            let beneath = error.get_ref().and_then(|beneath| beneath.downcast_ref::<reqwest::Error>());
            beneath.is_some_and(reqwest::Error::is_connect)
        }
        None => false,
    }
}

/// An error with its sources, where they add information.
pub(super) fn with_sources(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let more = inner.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        source = inner.source();
    }
    text
}

/// A request in flight. Dropping it without an answer sends the server a cancellation.
struct Pending {
    handle: Option<RequestHandle<RoleClient>>,
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some(handle) = self.handle.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(async move {
                let notice = handle.cancel(Some("the caller gave up".to_owned()));
                let _ = tokio::time::timeout(limits::CANCEL_NOTICE, notice).await;
            });
        }
    }
}

/// How long to wait for an answer, and on whose behalf.
pub(super) enum Waiting<'a> {
    /// A call: ends with its context; progress extends the timeout.
    Call { ctx: &'a CallContext, link: &'a Arc<CallLink>, timeout: Duration },
    /// One of our own requests.
    Ours { timeout: Duration },
}

impl Connection {
    pub(super) fn peer_info(&self) -> Option<Arc<ServerPeerInfo>> {
        self.peer.peer_info()
    }

    /// Sends a request and waits for its result.
    pub(super) async fn request(
        &self,
        mut request: ClientRequest,
        waiting: Waiting<'_>,
    ) -> Result<ServerResult, Failure> {
        if let Waiting::Call { ctx, link, .. } = &waiting {
            link.begin();
            if let Some(trace) = ctx.trace_headers() {
                let meta = request.get_meta_mut();
                meta.0.insert(TRACEPARENT.to_owned(), trace.parent.into());
                if let Some(state) = trace.state {
                    meta.0.insert(TRACESTATE.to_owned(), state.to_string().into());
                }
            }
            request.extensions_mut().insert(LinkExtension(Arc::clone(link)));
        }
        let started = Instant::now();
        // Sending may wait too, for a place in the queue of a stuck connection.
        let hand_over = self.peer.send_request_with_option(request, PeerRequestOptions::no_options());
        let mut pending = Pending { handle: None };
        let answer = async {
            pending.handle = Some(hand_over.await?);
            let Some(handle) = &mut pending.handle else { return Err(ServiceError::TransportClosed) };
            let answer = (&mut handle.rx).await;
            pending.handle = None;
            answer.unwrap_or(Err(ServiceError::TransportClosed))
        };
        let outcome = tokio::select! {
            biased;
            answer = answer => answer,
            failure = give_up(&waiting, started) => return Err(failure),
            () = self.wire.closed.cancelled() => Err(ServiceError::TransportClosed),
        };
        outcome.map_err(|error| match error {
            ServiceError::McpError(error) => Failure::Rejected(error),
            ServiceError::TransportClosed => {
                let reason = self.wire.reason_or("it closed the connection");
                match &waiting {
                    Waiting::Call { link, .. } if !link.may_have_arrived() => Failure::NotSent(reason),
                    Waiting::Call { .. } | Waiting::Ours { .. } => Failure::Closed(reason),
                }
            }
            ServiceError::TransportSend(error) if is_unauthorized(&error) => Failure::Unauthorized,
            ServiceError::TransportSend(error) => {
                let reason = self.wire.redactor.show(&transport_error(&error), limits::REASON_CHARS);
                if never_arrived(&error) { Failure::NotSent(reason) } else { Failure::Unusable(reason) }
            }
            other => Failure::Unusable(self.wire.redactor.show(&with_sources(&other), limits::REASON_CHARS)),
        })
    }

    /// Closes the connection after a request did not get through, so that no other request tries it.
    pub(super) fn abandon(&self) {
        self.wire.closed.cancel();
    }

    /// Like [`Self::request`], with the result as JSON: for infrequent requests.
    pub(super) async fn request_json(&self, request: ClientRequest, waiting: Waiting<'_>) -> Result<Json, Failure> {
        let result = self.request(request, waiting).await?;
        serde_json::to_value(result).map_err(|error| Failure::Unusable(error.to_string()))
    }

    /// Whether the server answers at all; an error is an answer too.
    pub(super) async fn is_alive(&self) -> bool {
        let ping = ClientRequest::PingRequest(PingRequest::default());
        let answer = self.request(ping, Waiting::Ours { timeout: limits::PING }).await;
        matches!(answer, Ok(_) | Err(Failure::Rejected(_)))
    }

    /// Lists everything that the server offers.
    pub(super) async fn list(&self, timeout: Duration) -> Result<Listing, Failure> {
        let mut listing = Listing::default();
        if let Some(info) = self.peer_info() {
            listing.has_resources = info.capabilities.resources.is_some();
            listing.has_prompts = info.capabilities.prompts.is_some();
            listing.instructions = info.instructions.clone().unwrap_or_default();
            if let Some(server) = &info.server_info {
                listing.title = server.title.clone().unwrap_or_else(|| server.name.clone());
            }
        }
        let tools = self.list_items(ListKind::Tools, &|_| Waiting::Ours { timeout }).await?;
        let mut names = std::collections::HashSet::new();
        listing.tools =
            tools.iter().filter_map(RemoteTool::read).filter(|tool| names.insert(tool.name.clone())).collect();
        Ok(listing)
    }

    /// Lists all pages of one kind.
    pub(super) async fn list_items<'a>(
        &self,
        kind: ListKind,
        waiting: &(dyn Fn(usize) -> Waiting<'a> + Send + Sync),
    ) -> Result<Vec<Json>, Failure> {
        let mut items = Vec::new();
        let mut cursor: Option<String> = None;
        for page in 0..limits::LIST_PAGES {
            let answer = match self.request_json(kind.request(cursor.take()), waiting(page)).await {
                // A server that does not know the method has no such items.
                Err(Failure::Rejected(error)) if error.code == ErrorCode::METHOD_NOT_FOUND => break,
                answer => answer?,
            };
            items.extend(answer.get(kind.key()).and_then(Json::as_array).into_iter().flatten().cloned());
            cursor = answer.get("nextCursor").and_then(Json::as_str).map(str::to_owned);
            if cursor.is_none() || items.len() >= limits::LISTED_ITEMS {
                break;
            }
        }
        items.truncate(limits::LISTED_ITEMS);
        Ok(items)
    }

    /// Subscribes to notifications of a server of the newer era.
    pub(super) async fn listen(&self, filter: SubscriptionFilter) -> Result<Subscription, ServiceError> {
        self.peer.listen(filter).await
    }

    /// Closes the connection and, if it is a child, ends the process.
    pub(super) async fn close(&self) {
        let service = self.service.lock().await.take();
        if let Some(mut service) = service {
            let _ = service.close_with_timeout(limits::CLOSE).await;
        }
    }
}

/// Waits until the answer is no longer worth waiting for.
async fn give_up(waiting: &Waiting<'_>, started: Instant) -> Failure {
    match waiting {
        Waiting::Ours { timeout } => {
            tokio::time::sleep(*timeout).await;
            Failure::Timeout(*timeout)
        }
        Waiting::Call { ctx, link, timeout } => loop {
            let last = started + *timeout * limits::PROGRESS_STRETCH;
            let mut until = link.heard_at() + *timeout;
            if !link.has_open_question() {
                until = until.min(last);
            }
            if let Some(deadline) = ctx.deadline {
                until = until.min(deadline);
            }
            if until <= Instant::now() {
                return Failure::Timeout(started.elapsed());
            }
            tokio::select! {
                () = ctx.cancel.cancelled() => return Failure::Cancelled,
                () = tokio::time::sleep_until(until.into()) => {}
            }
        },
    }
}

/// Lists that are paged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListKind {
    Tools,
    Resources,
    ResourceTemplates,
    Prompts,
}

impl ListKind {
    fn key(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Resources => "resources",
            Self::ResourceTemplates => "resourceTemplates",
            Self::Prompts => "prompts",
        }
    }

    fn request(self, cursor: Option<String>) -> ClientRequest {
        // The first page is requested without parameters: some servers reject an empty cursor.
        let params = cursor.map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor)));
        match self {
            Self::Tools => ClientRequest::ListToolsRequest(ListToolsRequest { params, ..Default::default() }),
            Self::Resources => {
                ClientRequest::ListResourcesRequest(ListResourcesRequest { params, ..Default::default() })
            }
            Self::ResourceTemplates => ClientRequest::ListResourceTemplatesRequest(ListResourceTemplatesRequest {
                params,
                ..Default::default()
            }),
            Self::Prompts => ClientRequest::ListPromptsRequest(ListPromptsRequest { params, ..Default::default() }),
        }
    }
}
