//! The two eras of the protocol, and how a server's era is detected.
//!
//! Servers of the older era begin with `initialize`; those of the newer one (2026-07-28) answer `server/discover` and
//! have no handshake. How a server reacts to the other era's request is unpredictable: any error, silence, or the end
//! of its process. So one is sent first, and the other as soon as the first is refused or takes too long; the first
//! answer decides. The era is remembered (`contact`), so that the next start sends the right request first.

use std::collections::VecDeque;
use std::future::Future;
use std::time::Duration;

use futures_util::future::Either;
use onetool_config::choices;
use rmcp::model::{
    ClientConfig, ClientJsonRpcMessage, ClientRequest, ClientResult, DiscoverRequest, DiscoverRequestParams,
    DiscoverResult, ErrorData, InitializeRequest, JsonRpcMessage, ProtocolVersion, RequestId, RequestMetaObject,
    ServerCapabilities, ServerJsonRpcMessage, ServerRequest, ServerResult,
};
use rmcp::transport::Transport;
use rmcp::{ClientLifecycleMode, RoleClient};
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

/// The protocol era of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Era {
    /// With `initialize`: revisions up to 2025-11-25.
    Legacy,
    /// With `server/discover`: 2026-07-28.
    Modern,
}

impl Era {
    pub(super) fn other(self) -> Self {
        match self {
            Self::Legacy => Self::Modern,
            Self::Modern => Self::Legacy,
        }
    }

    /// The request that opens a connection.
    pub(super) fn opener(self) -> &'static str {
        match self {
            Self::Legacy => "initialize",
            Self::Modern => "server/discover",
        }
    }

    pub(super) fn lifecycle(self) -> ClientLifecycleMode {
        match self {
            Self::Legacy => ClientLifecycleMode::Initialize,
            Self::Modern => ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::LATEST] },
        }
    }

    fn request(self, info: &ClientConfig) -> ClientJsonRpcMessage {
        let request = match self {
            Self::Legacy => ClientRequest::InitializeRequest(InitializeRequest::new(info.clone())),
            Self::Modern => {
                let mut discover = DiscoverRequest::new(DiscoverRequestParams {});
                discover.extensions.insert(RequestMetaObject::with_client_context(
                    ProtocolVersion::LATEST,
                    info.client_info.clone(),
                    info.capabilities.clone(),
                ));
                ClientRequest::DiscoverRequest(discover)
            }
        };
        JsonRpcMessage::request(request, self.id())
    }

    /// Some servers return the numeric id as text.
    fn is_meant_by(self, id: &RequestId) -> bool {
        self.id() == *id || self.id().to_string() == id.to_string()
    }

    /// Distinct from the ids that the library counts up from zero.
    fn id(self) -> RequestId {
        RequestId::Number(match self {
            Self::Legacy => 2_000_000_001,
            Self::Modern => 2_000_000_002,
        })
    }
}

/// The configured era of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EraChoice {
    /// Detected, and remembered.
    #[default]
    Auto,
    Legacy,
    Modern,
}

choices!(EraChoice { "auto" => Auto, "legacy" => Legacy, "modern" => Modern });

/// Which request goes first, and whether the other may follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) first: Era,
    pub(super) may_fall_back: bool,
    /// How long the first request may take before the other is sent as well.
    pub(super) patience: Duration,
}

/// A server's answer.
pub(super) struct Found {
    pub(super) era: Era,
    pub(super) answer: ServerResult,
}

/// Why no era was found.
pub(super) enum NotFound<E> {
    /// Every request that was sent was refused.
    Refused(Vec<(Era, ErrorData)>),
    /// The connection ended while these requests had no answer.
    Closed,
    Transport(E),
}

/// Asks a server on one connection, first in one era and then in the other.
pub(super) async fn find<T: Transport<RoleClient>>(
    transport: &mut T,
    plan: Plan,
    info: &ClientConfig,
    asking: impl Fn(Era),
) -> Result<Found, NotFound<T::Error>> {
    let mut sent = vec![plan.first];
    let mut refused: Vec<(Era, ErrorData)> = Vec::new();
    asking(plan.first);
    transport.send(plan.first.request(info)).await.map_err(NotFound::Transport)?;
    let other = plan.first.other();
    let patience = tokio::time::sleep(plan.patience);
    tokio::pin!(patience);
    loop {
        let may_ask_otherwise = plan.may_fall_back && sent.len() == 1;
        let message = tokio::select! {
            message = transport.receive() => message,
            () = &mut patience, if may_ask_otherwise => {
                sent.push(other);
                asking(other);
                transport.send(other.request(info)).await.map_err(NotFound::Transport)?;
                continue;
            }
        };
        let (era, error) = match message {
            None => return Err(NotFound::Closed),
            Some(JsonRpcMessage::Response(response)) => {
                let Some(era) = sent.iter().copied().find(|era| era.is_meant_by(&response.id)) else {
                    continue;
                };
                match usable(era, response.result) {
                    Ok(answer) => return Ok(Found { era, answer }),
                    Err(error) => (era, error),
                }
            }
            Some(JsonRpcMessage::Error(error)) => {
                let meant = |era: &Era| error.id.as_ref().is_none_or(|id| era.is_meant_by(id));
                let open = sent.iter().copied().filter(|era| !refused.iter().any(|(refused, _)| refused == era));
                let Some(era) = open.into_iter().find(meant) else { continue };
                (era, error.error)
            }
            Some(JsonRpcMessage::Request(request)) if matches!(request.request, ServerRequest::PingRequest(_)) => {
                let pong = JsonRpcMessage::response(ClientResult::empty(()), request.id);
                transport.send(pong).await.map_err(NotFound::Transport)?;
                continue;
            }
            Some(_) => continue,
        };
        refused.push((era, error));
        if plan.may_fall_back && sent.len() == 1 {
            sent.push(other);
            asking(other);
            transport.send(other.request(info)).await.map_err(NotFound::Transport)?;
        } else if refused.len() == sent.len() {
            return Err(NotFound::Refused(refused));
        }
    }
}

/// Checks that an answer is valid for its era; otherwise says why it is not.
fn usable(era: Era, answer: ServerResult) -> Result<ServerResult, ErrorData> {
    match (era, answer) {
        (Era::Legacy, answer @ ServerResult::InitializeResult(_)) => Ok(answer),
        (Era::Legacy, _) => Err(ErrorData::internal_error("its answer to initialize can't be read", None)),
        (Era::Modern, answer) => {
            let discovered = match answer {
                ServerResult::DiscoverResult(result) => Some(result),
                other => lenient(other),
            };
            let result = discovered
                .ok_or_else(|| ErrorData::internal_error("its answer to server/discover can't be read", None))?;
            if result.supported_versions.contains(&ProtocolVersion::LATEST) {
                return Ok(ServerResult::DiscoverResult(result));
            }
            let versions: Vec<&str> = result.supported_versions.iter().map(ProtocolVersion::as_str).collect();
            let message = format!("it does not support {}, only {}", ProtocolVersion::LATEST, versions.join(", "));
            Err(ErrorData::internal_error(message, None))
        }
    }
}

/// Parses an answer to `server/discover` that omits unimportant fields.
fn lenient(answer: ServerResult) -> Option<DiscoverResult> {
    let mut json = serde_json::to_value(answer).ok()?;
    json.get("supportedVersions")?.as_array()?;
    let object = json.as_object_mut()?;
    for (key, value) in [
        ("resultType", json!("complete")),
        ("capabilities", json!({})),
        ("ttlMs", json!(0)),
        ("cacheScope", json!("private")),
    ] {
        object.entry(key).or_insert(value);
    }
    serde_json::from_value(json).ok()
}

/// A transport whose server has already been asked: the library's own first request gets the existing answer.
pub(super) struct Primed<T> {
    inner: T,
    answer: Option<ServerResult>,
    ready: VecDeque<ServerJsonRpcMessage>,
}

impl<T> Primed<T> {
    pub(super) fn new(inner: T, answer: ServerResult) -> Self {
        Self { inner, answer: Some(answer), ready: VecDeque::new() }
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Primed<T> {
    type Error = T::Error;

    fn send(&mut self, item: ClientJsonRpcMessage) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        if let JsonRpcMessage::Request(request) = &item
            && let Some(answer) = self.answer.take()
        {
            self.ready.push_back(JsonRpcMessage::response(answer, request.id.clone()));
            return Either::Left(std::future::ready(Ok(())));
        }
        Either::Right(self.inner.send(item))
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        if let Some(message) = self.ready.pop_front() {
            return Some(message);
        }
        self.inner.receive().await
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.inner.close()
    }
}

/// Counts the declared capabilities of a server: every capability, and every part of one.
pub(super) fn capability_count(capabilities: &ServerCapabilities) -> usize {
    fn count(json: &Json) -> usize {
        match json {
            Json::Object(object) => object
                .values()
                .filter(|value| !matches!(value, Json::Null | Json::Bool(false)))
                .map(|value| 1 + count(value))
                .sum(),
            _ => 0,
        }
    }
    count(&serde_json::to_value(capabilities).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_counted_with_their_parts() {
        let of = |json: Json| capability_count(&serde_json::from_value(json).unwrap());
        assert_eq!(of(json!({})), 0);
        assert_eq!(of(json!({"tools": {}})), 1);
        assert_eq!(of(json!({"tools": {"listChanged": true}, "resources": {"subscribe": false}})), 3);
    }
}
