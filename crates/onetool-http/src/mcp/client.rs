//! The client at the other end, as tools see it: it can be asked, if it said that it can.
#![expect(deprecated, reason = "clients of today still offer sampling")]

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use onetool_sdk::{ClientBridge, ToolError};
use parking_lot::Mutex;
use rmcp::model::{CreateMessageRequestParams, ElicitRequestParams, ElicitationAction};
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

/// What a session's client named as its roots, until it says that they changed.
#[derive(Default)]
pub struct ClientRoots(Mutex<Option<Vec<String>>>);

impl ClientRoots {
    pub fn forget(&self) {
        *self.0.lock() = None;
    }
}

/// The folders in an answer to `roots/list`.
pub(crate) fn root_uris(answer: &Json) -> Vec<String> {
    let roots = answer.get("roots").and_then(Json::as_array).into_iter().flatten();
    roots.filter_map(|root| root.get("uri").and_then(Json::as_str)).map(str::to_owned).collect()
}

#[async_trait]
impl ClientBridge for ClientPeer {
    async fn elicit(&self, params: Json) -> Result<Json, ToolError> {
        if !self.supports(|capabilities| capabilities.elicitation.is_some()) {
            return Err(ToolError::unavailable("the client cannot ask its user (it does not support elicitation)"));
        }
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
    fn supports(&self, what: impl Fn(&rmcp::model::ClientCapabilities) -> bool) -> bool {
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
