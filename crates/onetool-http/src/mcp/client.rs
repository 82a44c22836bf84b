//! The connected client as tools see it: it can be asked if it declared support.
#![expect(deprecated, reason = "clients of today still offer sampling")]

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use onetool_sdk::{ClientBridge, ToolError};
use parking_lot::Mutex;
use rmcp::model::{ClientCapabilities, CreateMessageRequestParams, ElicitRequestParams, ElicitationAction};
use rmcp::{Peer, RoleServer};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;

/// How long a client may take to name its roots.
const ROOTS_PATIENCE: Duration = Duration::from_secs(10);

/// Forwards elicitation and sampling to the client.
pub struct ClientPeer {
    pub peer: Peer<RoleServer>,
    pub roots: Arc<ClientRoots>,
}

/// The roots that a session's client named, until it reports a change.
#[derive(Default)]
pub struct ClientRoots(Mutex<Option<Vec<String>>>);

impl ClientRoots {
    pub fn forget(&self) {
        *self.0.lock() = None;
    }
}

/// Checks whether a client can ask its user according to these parameters of `elicitation/create`.
pub(super) fn check_elicitation(capabilities: Option<&ClientCapabilities>, params: &Json) -> Result<(), ToolError> {
    let Some(modes) = capabilities.and_then(|capabilities| capabilities.elicitation.as_ref()) else {
        return Err(ToolError::unavailable("the client cannot ask its user (it does not support elicitation)"));
    };
    let is_address = params.get("mode").and_then(Json::as_str) == Some("url");
    // A client that declares no mode supports forms, the only mode before others existed.
    if is_address && modes.url.is_none() {
        let message = "the client cannot have its user open an address (it does not support elicitation by URL)";
        return Err(match params.get("url").and_then(Json::as_str) {
            Some(url) => ToolError::unavailable(message).with_hint(format!("open {url} in a browser, then try again")),
            None => ToolError::unavailable(message),
        });
    }
    if !is_address && modes.form.is_none() && modes.url.is_some() {
        return Err(ToolError::unavailable(
            "the client has no forms for its user (it supports elicitation by URL only)",
        ));
    }
    Ok(())
}

/// Returns the folders in an answer to `roots/list`.
pub(crate) fn root_uris(answer: &Json) -> Vec<String> {
    let roots = answer.get("roots").and_then(Json::as_array).into_iter().flatten();
    roots.filter_map(|root| root.get("uri").and_then(Json::as_str)).map(str::to_owned).collect()
}

#[async_trait]
impl ClientBridge for ClientPeer {
    async fn elicit(&self, params: Json) -> Result<Json, ToolError> {
        let info = self.peer.peer_info();
        check_elicitation(info.as_ref().map(|info| &info.capabilities), &params)?;
        let params: ElicitRequestParams = from_json(params)?;
        let answer = self.peer.create_elicitation(params).await.map_err(|error| failed(&error))?;
        let action = match answer.action {
            ElicitationAction::Accept => "accept",
            ElicitationAction::Decline => "decline",
            _ => "cancel",
        };
        Ok(serde_json::json!({"action": action, "content": answer.content}))
    }

    async fn sample(&self, params: Json) -> Result<Json, ToolError> {
        if !self.supports(|capabilities| capabilities.sampling.is_some()) {
            return Err(ToolError::unavailable("the client has no model to offer (it does not support sampling)"));
        }
        let params: CreateMessageRequestParams = from_json(params)?;
        let answer = self.peer.create_message(params).await.map_err(|error| failed(&error))?;
        to_json(&answer)
    }

    async fn roots(&self) -> Result<Vec<String>, ToolError> {
        if !self.supports(|capabilities| capabilities.roots.is_some()) {
            return Ok(Vec::new());
        }
        if let Some(known) = self.roots.0.lock().clone() {
            return Ok(known);
        }
        let answer = tokio::time::timeout(ROOTS_PATIENCE, self.peer.list_roots())
            .await
            .map_err(|_| ToolError::unavailable("the client did not name its roots in time"))?
            .map_err(|error| failed(&error))?;
        let roots = root_uris(&to_json(&answer)?);
        *self.roots.0.lock() = Some(roots.clone());
        Ok(roots)
    }
}

impl ClientPeer {
    fn supports(&self, what: impl Fn(&ClientCapabilities) -> bool) -> bool {
        self.peer.peer_info().is_some_and(|info| what(&info.capabilities))
    }
}

fn from_json<T: DeserializeOwned>(json: Json) -> Result<T, ToolError> {
    serde_json::from_value(json)
        .map_err(|error| ToolError::arguments(format!("no valid request to the client: {error}")))
}

fn to_json(value: &impl Serialize) -> Result<Json, ToolError> {
    serde_json::to_value(value).map_err(|error| ToolError::internal(error.to_string()))
}

fn failed(error: &rmcp::ServiceError) -> ToolError {
    ToolError::unavailable(format!("the client did not answer: {error}"))
}
