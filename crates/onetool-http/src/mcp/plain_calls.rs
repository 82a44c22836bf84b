//! The fast path for `tools/call` of revision 2026-07-28 as nearly every client sends it: one request, one answer.
//!
//! The library serves each request with a service, a transport and several tasks of its own, which takes longer than a
//! small run. An ordinary call goes to the same handler without them. The library handles everything else: other
//! methods, mismatched headers, clients that want progress or log messages. It also words all refusals.

use axum::body::Bytes;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use rmcp::model::{
    ClientRequest, ErrorCode, GetMeta as _, JsonRpcMessage, ProtocolVersion, RequestId, ServerJsonRpcMessage,
};
use rmcp::service::{RequestContext, RunningService, serve_directly};
use rmcp::{Peer, RoleServer, Service as _};
use tokio::sync::mpsc;

use super::Handler;
use super::http::SESSION_HEADER;
use super::lines::ToolCall;
use super::sse::Messages;

const VERSION_HEADER: &str = "mcp-protocol-version";
const METHOD_HEADER: &str = "mcp-method";
const NAME_HEADER: &str = "mcp-name";
/// Prefix of headers that repeat arguments, which must be compared.
const ARGUMENT_HEADERS: &str = "mcp-param-";
/// A client that sets one of these expects messages before the answer.
const STREAMED: [&str; 2] = ["progressToken", "io.modelcontextprotocol/logLevel"];

/// Answers plain calls.
pub(super) struct PlainCalls {
    handler: Handler,
    /// The peer of a client that gets no notifications and no questions.
    nobody: Peer<RoleServer>,
    _serving: RunningService<RoleServer, Handler>,
    _open: mpsc::Sender<rmcp::service::RxJsonRpcMessage<RoleServer>>,
}

/// A parsed plain call.
pub(super) struct PlainCall {
    id: RequestId,
    request: ClientRequest,
}

impl PlainCall {
    /// Returns the call in a request, if nothing about it is unusual.
    pub(super) fn of(parts: &Parts, body: &[u8]) -> Option<Self> {
        let headers = &parts.headers;
        let is_ordinary = parts.method == Method::POST
            && !headers.contains_key(SESSION_HEADER)
            && is(headers, VERSION_HEADER, ProtocolVersion::V_2026_07_28.as_str())
            && is(headers, METHOD_HEADER, "tools/call")
            && only(headers, header::CONTENT_TYPE.as_str())?.starts_with("application/json")
            && accepts_both(headers)
            && !headers.keys().any(|name| name.as_str().starts_with(ARGUMENT_HEADERS));
        if !is_ordinary {
            return None;
        }
        let call: ToolCall = serde_json::from_slice(body).ok()?;
        let is_named = is(headers, NAME_HEADER, call.name());
        let (id, request) = call.into_request();
        let meta = request.get_meta();
        let fits = is_named
            && meta.protocol_version().as_ref() == Some(&ProtocolVersion::V_2026_07_28)
            && meta.missing_required_keys(&ProtocolVersion::V_2026_07_28).is_empty()
            && !STREAMED.iter().any(|key| meta.contains_key(*key));
        fits.then_some(Self { id, request })
    }
}

impl PlainCalls {
    /// Must be called within the runtime.
    pub(super) fn new(handler: Handler) -> Self {
        let (open, messages) = mpsc::channel(1);
        let (sender, _) = mpsc::channel(1);
        let serving = serve_directly(handler.clone(), Messages::new(messages, sender), None);
        Self { handler, nobody: serving.peer().clone(), _serving: serving, _open: open }
    }

    /// Makes the call. A client that disconnects cancels it.
    pub(super) async fn answer(&self, call: PlainCall, parts: Parts) -> Response {
        let PlainCall { id, mut request } = call;
        let mut context = RequestContext::new(id.clone(), self.nobody.clone());
        std::mem::swap(&mut context.meta, request.get_meta_mut());
        context.extensions.insert(parts);
        let left = context.ct.clone().drop_guard();
        let handler = self.handler.clone();
        let answering = crate::task::spawn(async move { handler.handle_request(request, context).await });
        let outcome = answering.await;
        left.disarm();
        let message: ServerJsonRpcMessage = match outcome {
            Ok(Ok(result)) => JsonRpcMessage::response(result, id),
            Ok(Err(error)) => JsonRpcMessage::error(error, Some(id)),
            Err(_) => {
                let message = "internal error; see the server log";
                JsonRpcMessage::error(rmcp::ErrorData::internal_error(message, None), Some(id))
            }
        };
        let status = match &message {
            JsonRpcMessage::Error(error) => status_of(error.error.code),
            _ => StatusCode::OK,
        };
        let body = serde_json::to_vec(&message).unwrap_or_default();
        (status, [(header::CONTENT_TYPE, "application/json")], Bytes::from(body)).into_response()
    }
}

/// Returns the HTTP status that the revision requires for an error.
fn status_of(code: ErrorCode) -> StatusCode {
    match code {
        ErrorCode::UNSUPPORTED_PROTOCOL_VERSION
        | ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY
        | ErrorCode::HEADER_MISMATCH => StatusCode::BAD_REQUEST,
        ErrorCode::METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
        _ => StatusCode::OK,
    }
}

/// Returns the value of a header that is given exactly once.
fn only<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    if values.next().is_some() { None } else { value.to_str().ok() }
}

fn is(headers: &HeaderMap, name: &str, expected: &str) -> bool {
    only(headers, name) == Some(expected)
}

fn accepts_both(headers: &HeaderMap) -> bool {
    only(headers, header::ACCEPT.as_str())
        .is_some_and(|accepted| accepted.contains("application/json") && accepted.contains("text/event-stream"))
}

#[cfg(test)]
mod tests {
    use axum::http::Request;
    use serde_json::{Value as Json, json};

    use super::*;

    fn body(meta: Json) -> Json {
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": "run", "arguments": {"command": "1"}, "_meta": meta}})
    }

    fn meta() -> Json {
        json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {}})
    }

    fn head(change: impl FnOnce(&mut HeaderMap)) -> Parts {
        let request = Request::post("/mcp")
            .header(VERSION_HEADER, "2026-07-28")
            .header(METHOD_HEADER, "tools/call")
            .header(NAME_HEADER, "run")
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json, text/event-stream");
        let mut parts = request.body(()).unwrap().into_parts().0;
        change(&mut parts.headers);
        parts
    }

    fn is_plain(parts: &Parts, body: &Json) -> bool {
        PlainCall::of(parts, body.to_string().as_bytes()).is_some()
    }

    #[test]
    fn only_what_is_ordinary_in_every_respect_is_taken() {
        assert!(is_plain(&head(|_| {}), &body(meta())));
        let changes: [(&str, fn(&mut HeaderMap)); 9] = [
            ("a session", |head| drop(head.insert(SESSION_HEADER, "x".parse().unwrap()))),
            ("another revision", |head| drop(head.insert(VERSION_HEADER, "2025-11-25".parse().unwrap()))),
            ("another method", |head| drop(head.insert(METHOD_HEADER, "tools/list".parse().unwrap()))),
            ("two methods", |head| {
                head.append(METHOD_HEADER, "tools/call".parse().unwrap());
            }),
            ("another name", |head| drop(head.insert(NAME_HEADER, "other".parse().unwrap()))),
            ("no name", |head| drop(head.remove(NAME_HEADER))),
            ("an argument", |head| drop(head.insert("mcp-param-x", "1".parse().unwrap()))),
            ("text", |head| drop(head.insert(header::CONTENT_TYPE, "text/plain".parse().unwrap()))),
            ("JSON alone", |head| drop(head.insert(header::ACCEPT, "application/json".parse().unwrap()))),
        ];
        for (what, change) in changes {
            assert!(!is_plain(&head(change), &body(meta())), "{what}");
        }
        for (key, value) in [
            ("progressToken", json!(1)),
            ("io.modelcontextprotocol/logLevel", json!("debug")),
            ("io.modelcontextprotocol/protocolVersion", json!("2025-11-25")),
            ("io.modelcontextprotocol/clientCapabilities", json!(1)),
        ] {
            let mut changed = meta();
            changed[key] = value;
            assert!(!is_plain(&head(|_| {}), &body(changed)), "{key}");
        }
        for (key, value) in [("method", json!("tools/list")), ("id", json!(null)), ("extra", json!(1))] {
            let mut changed = body(meta());
            changed[key] = value;
            assert!(!is_plain(&head(|_| {}), &changed), "{key}");
        }
    }
}
