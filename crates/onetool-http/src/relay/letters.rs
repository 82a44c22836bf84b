//! Requests and their answers as they are passed through the shared state.

use std::sync::Arc;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{Identity, PeerAddress, Principal, Scope};

/// Folder of the answers.
pub(super) const REPLIES: &str = "reply";
/// Maximum size of an answer that is forwarded.
const MAX_REPLY: usize = 8 << 20;
/// Headers of a request that its answer depends on.
const CARRIED: &[&str] = &[
    "accept",
    "content-type",
    "idempotency-key",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
    "traceparent",
    "tracestate",
    "user-agent",
];

/// A request in transit.
#[derive(Serialize, Deserialize)]
pub(super) struct Letter {
    at: DateTime<Utc>,
    /// Key of the expected answer.
    pub(super) reply: String,
    /// Servers of an earlier version send only `POST /mcp` requests.
    #[serde(default = "post")]
    method: String,
    #[serde(default = "mcp")]
    path: String,
    principal: Option<u64>,
    name: Option<String>,
    groups: Vec<String>,
    scopes: Vec<String>,
    address: Option<std::net::SocketAddr>,
    headers: Vec<(String, String)>,
    body: String,
}

/// The state of its answer.
#[derive(Serialize, Deserialize)]
pub(super) struct Reply {
    pub(super) at: DateTime<Utc>,
    /// Increases while it is being answered.
    pub(super) beat: u64,
    pub(super) answer: Option<Answer>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    body: String,
}

fn carried(headers: &HeaderMap) -> Vec<(String, String)> {
    let text = |name: &&str| Some(((*name).to_owned(), headers.get(*name)?.to_str().ok()?.to_owned()));
    CARRIED.iter().filter_map(text).collect()
}

pub(super) fn letter(parts: &Parts, body: &Bytes) -> Option<(String, Letter)> {
    let id = Uuid::new_v4().simple().to_string();
    let identity = Identity::of(&parts.extensions);
    let letter = Letter {
        at: Utc::now(),
        reply: format!("{REPLIES}/{id}"),
        method: parts.method.to_string(),
        path: parts.uri.path().to_owned(),
        principal: match identity.principal {
            Principal::Anyone => None,
            Principal::Token(fingerprint) => Some(fingerprint),
        },
        name: identity.name.clone(),
        groups: identity.groups.clone(),
        scopes: identity.scopes.iter().map(|scope| scope.name().to_owned()).collect(),
        address: parts.extensions.get::<PeerAddress>().map(|address| address.0),
        headers: carried(&parts.headers),
        body: std::str::from_utf8(body).ok()?.to_owned(),
    };
    Some((id, letter))
}

fn post() -> String {
    "POST".to_owned()
}

fn mcp() -> String {
    "/mcp".to_owned()
}

impl Letter {
    /// Returns who makes the request.
    pub(super) fn identity(&self) -> Identity {
        Identity {
            principal: self.principal.map_or(Principal::Anyone, Principal::Token),
            name: self.name.clone(),
            groups: self.groups.clone(),
            scopes: self.scopes.iter().filter_map(|scope| Scope::named(scope)).collect(),
        }
    }

    pub(super) fn into_request(self) -> Option<Request> {
        let identity = self.identity();
        let head = Request::builder().method(self.method.as_str()).uri(self.path).header(header::HOST, "localhost");
        let mut request = head.body(Body::from(self.body)).ok()?;
        for (name, value) in self.headers {
            request.headers_mut().insert(name.parse::<HeaderName>().ok()?, HeaderValue::try_from(value).ok()?);
        }
        if let Some(address) = self.address {
            request.extensions_mut().insert(PeerAddress(address));
        }
        request.extensions_mut().insert(identity.principal);
        request.extensions_mut().insert(Arc::new(identity));
        Some(request)
    }
}

impl Answer {
    pub(super) async fn of(response: Response) -> Self {
        let (parts, body) = response.into_parts();
        let kept = |name: HeaderName| {
            let value = parts.headers.get(&name)?.to_str().ok()?.to_owned();
            Some((name.to_string(), value))
        };
        let headers = [header::CONTENT_TYPE, header::RETRY_AFTER].into_iter().filter_map(kept).collect();
        match to_bytes(body, MAX_REPLY).await {
            Ok(body) => Self { status: parts.status.as_u16(), headers, body: STANDARD.encode(&body) },
            Err(_) => Self { status: StatusCode::BAD_GATEWAY.as_u16(), headers: Vec::new(), body: String::new() },
        }
    }

    pub(super) fn into_response(self) -> Response {
        let body = STANDARD.decode(self.body).unwrap_or_default();
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = StatusCode::from_u16(self.status).unwrap_or(StatusCode::BAD_GATEWAY);
        for (name, value) in self.headers {
            if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), HeaderValue::try_from(value)) {
                response.headers_mut().insert(name, value);
            }
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use axum::http::Method;

    use super::*;

    #[test]
    fn a_letter_says_whose_it_is_and_holds_no_token() {
        let mut request = Request::post("/mcp")
            .header("authorization", "Bearer secret-secret")
            .header("mcp-session-id", "s")
            .body(Body::empty())
            .unwrap();
        let ana = Identity {
            principal: Principal::Token(7),
            name: Some("ana".to_owned()),
            groups: vec!["team".to_owned()],
            scopes: vec![Scope::Invoke],
        };
        request.extensions_mut().insert(Arc::new(ana.clone()));
        let (parts, _) = request.into_parts();
        let (_, letter) = letter(&parts, &Bytes::from_static(b"{}")).unwrap();
        let text = serde_json::to_string(&letter).unwrap();
        assert!(!text.contains("secret"), "{text}");
        let request = serde_json::from_str::<Letter>(&text).unwrap().into_request().unwrap();
        assert_eq!(*Identity::of(request.extensions()), ana);
        assert_eq!(request.extensions().get::<Principal>(), Some(&Principal::Token(7)));
        assert_eq!(request.headers()["mcp-session-id"], "s");
        assert_eq!((request.method(), request.uri().path()), (&Method::POST, "/mcp"));
        // As sent by a server of an earlier version.
        let mut old: serde_json::Value = serde_json::from_str(&text).unwrap();
        for name in ["method", "path"] {
            old.as_object_mut().unwrap().remove(name);
        }
        let request = serde_json::from_value::<Letter>(old).unwrap().into_request().unwrap();
        assert_eq!((request.method(), request.uri().path()), (&Method::POST, "/mcp"));
    }
}
