//! The client at the other end, as tools see it: it can be asked, if it said that it can.
#![expect(deprecated, reason = "clients of today still offer sampling")]

use async_trait::async_trait;
use onetool_sdk::{ClientBridge, ToolError};
use rmcp::model::{CreateMessageRequestParams, ElicitRequestParams, ElicitationAction};
use rmcp::{Peer, RoleServer};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;

/// Forwards elicitation and sampling to the client.
pub struct ClientPeer(pub Peer<RoleServer>);

#[async_trait]
impl ClientBridge for ClientPeer {
    async fn elicit(&self, params: Json) -> Result<Json, ToolError> {
        if !self.supports(|capabilities| capabilities.elicitation.is_some()) {
            return Err(ToolError::unavailable("the client cannot ask its user (it does not support elicitation)"));
        }
        let params: ElicitRequestParams = from_json(params)?;
        let answer = self.0.create_elicitation(params).await.map_err(|error| failed(&error))?;
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
        let answer = self.0.create_message(params).await.map_err(|error| failed(&error))?;
        to_json(&answer)
    }
}

impl ClientPeer {
    fn supports(&self, what: impl Fn(&rmcp::model::ClientCapabilities) -> bool) -> bool {
        self.0.peer_info().is_some_and(|info| what(&info.capabilities))
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
