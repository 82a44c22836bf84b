//! The transport of revision 2024-11-05, HTTP+SSE, behind the switch `server.legacy_sse`.
//!
//! `GET /sse` opens a session: its first event says where to send messages, and everything that the server sends
//! arrives as further events. The session ends with that connection.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, Request, State};
use axum::http::StatusCode;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use futures_util::stream::{self, Stream, StreamExt as _};
use parking_lot::Mutex;
use rmcp::RoleServer;
use rmcp::model::{GetExtensions as _, JsonRpcMessage};
use rmcp::service::{RxJsonRpcMessage, ServiceExt as _, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde::Deserialize;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::http::{failure, read_body};
use super::sessions::Owner;
use super::{Handler, Shared, lines};
use crate::{ApiError, McpSettings, Service};

/// Maximum number of queued messages in each direction.
const QUEUE: usize = 64;
/// Keep-alive interval of a quiet stream.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

#[derive(Clone)]
struct Sessions {
    service: Arc<dyn Service>,
    shared: Arc<Shared>,
    open: Arc<Mutex<HashMap<Uuid, Open>>>,
    stop: CancellationToken,
}

#[derive(Clone)]
struct Open {
    messages: mpsc::Sender<RxJsonRpcMessage<RoleServer>>,
    owner: Owner,
}

pub(super) fn router(service: &Arc<dyn Service>, shared: &Arc<Shared>, stop: &CancellationToken) -> Router {
    let sessions =
        Sessions { service: service.clone(), shared: shared.clone(), open: Arc::default(), stop: stop.clone() };
    Router::new().route("/sse", get(open)).route("/messages", post(message)).with_state(sessions)
}

fn switched_off(service: &dyn Service) -> Option<Response> {
    let is_on = service.served().server.mcp.legacy_sse;
    (!is_on).then(|| {
        ApiError::not_found("HTTP+SSE, the transport of MCP 2024-11-05, is switched off")
            .with_hint("use /mcp, or set server.legacy_sse: true")
            .into_response()
    })
}

/// Returns a refusal if there is no room for another session of `owner`.
fn too_many(open: &HashMap<Uuid, Open>, owner: Owner, settings: &McpSettings) -> Option<Response> {
    let own = open.values().filter(|one| one.owner == owner).count();
    let count = if own >= settings.max_sessions_per_client {
        own
    } else if open.len() >= settings.max_sessions {
        open.len()
    } else {
        return None;
    };
    Some(ApiError::busy(format!("{count} sessions are open; end one, or try again later")).into_response())
}

async fn open(State(sessions): State<Sessions>, request: Request) -> Response {
    if let Some(refusal) = switched_off(&*sessions.service) {
        return refusal;
    }
    let id = Uuid::new_v4();
    let (incoming, messages) = mpsc::channel(QUEUE);
    {
        let (mut open, owner) = (sessions.open.lock(), Owner::of(request.extensions()));
        if let Some(refusal) = too_many(&open, owner, &sessions.service.served().server.mcp) {
            return refusal;
        }
        open.insert(id, Open { messages: incoming, owner });
    }
    let (sender, outgoing) = mpsc::channel(QUEUE);
    let handler = Handler::new(sessions.service.clone(), sessions.shared.clone());
    let closing = CloseOnDrop { id, open: sessions.open.clone() };
    crate::task::spawn(async move {
        match handler.serve(Messages::new(messages, sender)).await {
            Ok(session) => drop(session.waiting().await),
            Err(error) => tracing::debug!(%error, "no session"),
        }
    });
    let endpoint = Event::default().event("endpoint").data(format!("/messages?sessionId={id}"));
    let events = stream::once(async move { Ok(endpoint) }).chain(events(outgoing, closing));
    let events = events.take_until(sessions.stop.clone().cancelled_owned());
    Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response()
}

fn events(
    outgoing: mpsc::Receiver<TxJsonRpcMessage<RoleServer>>,
    closing: CloseOnDrop,
) -> impl Stream<Item = Result<Event, Infallible>> {
    stream::unfold((outgoing, closing), |(mut outgoing, closing)| async move {
        let message = outgoing.recv().await?;
        let data = serde_json::to_string(&message).unwrap_or_default();
        Some((Ok(Event::default().event("message").data(data)), (outgoing, closing)))
    })
}

/// Ends a session with its stream.
struct CloseOnDrop {
    id: Uuid,
    open: Arc<Mutex<HashMap<Uuid, Open>>>,
}

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.open.lock().remove(&self.id);
    }
}

#[derive(Deserialize)]
struct To {
    #[serde(rename = "sessionId")]
    session: Uuid,
}

async fn message(
    State(sessions): State<Sessions>,
    to: Result<Query<To>, QueryRejection>,
    request: Request,
) -> Response {
    if let Some(refusal) = switched_off(&*sessions.service) {
        return refusal;
    }
    let open = to.ok().and_then(|Query(to)| sessions.open.lock().get(&to.session).cloned());
    let principal = Owner::of(request.extensions()).principal;
    let Some(open) = open.filter(|open| open.owner.principal == principal) else {
        return ApiError::not_found("the session is unknown or has ended")
            .with_hint("open one with GET /sse")
            .into_response();
    };
    let limit = sessions.service.served().server.api.max_body_bytes;
    let (parts, body) = request.into_parts();
    let body = match read_body(body, limit).await {
        Ok(body) => body,
        Err(refusal) => return refusal,
    };
    let mut message = match lines::read(&body) {
        Ok(message) => message,
        Err(refusal) => return failure(StatusCode::BAD_REQUEST, refusal.id, refusal.code, &refusal.message),
    };
    if let JsonRpcMessage::Request(request) = &mut message {
        request.request.extensions_mut().insert(parts);
    }
    match open.messages.send(message).await {
        Ok(()) => StatusCode::ACCEPTED.into_response(),
        Err(_) => ApiError::not_found("the session has ended").with_hint("open one with GET /sse").into_response(),
    }
}

/// A session's messages in both directions.
pub(super) struct Messages {
    messages: mpsc::Receiver<RxJsonRpcMessage<RoleServer>>,
    sender: mpsc::Sender<TxJsonRpcMessage<RoleServer>>,
}

impl Messages {
    pub(super) fn new(
        messages: mpsc::Receiver<RxJsonRpcMessage<RoleServer>>,
        sender: mpsc::Sender<TxJsonRpcMessage<RoleServer>>,
    ) -> Self {
        Self { messages, sender }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the client has closed its stream")]
pub(super) struct Closed;

impl Transport<RoleServer> for Messages {
    type Error = Closed;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Closed>> + Send + 'static {
        let sender = self.sender.clone();
        async move { sender.send(item).await.map_err(|_| Closed) }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        self.messages.recv().await
    }

    async fn close(&mut self) -> Result<(), Closed> {
        self.messages.close();
        Ok(())
    }
}
