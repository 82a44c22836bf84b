//! The client of a run whose tools ask it questions by messages that it answers later, over any transport.

use async_trait::async_trait;
use onetool_sdk::{ClientBridge, ToolError};
use rmcp::model::{ClientCapabilities, InputRequest};
use serde_json::{Value as Json, json};
use tokio::sync::OnceCell;

use super::client::{check_elicitation, root_uris};

/// The transport for questions to the client.
#[async_trait]
pub(crate) trait Questions: Send + Sync {
    async fn ask(&self, request: InputRequest) -> Result<Json, ToolError>;
}

/// The client as tools of a run see it.
pub(crate) struct AskedClient<Q> {
    questions: Q,
    capabilities: ClientCapabilities,
    /// Requested once per run.
    roots: OnceCell<Vec<String>>,
}

impl<Q: Questions> AskedClient<Q> {
    pub(crate) fn new(capabilities: ClientCapabilities, questions: Q) -> Self {
        Self { questions, capabilities, roots: OnceCell::new() }
    }

    async fn ask(&self, method: &str, params: Json) -> Result<Json, ToolError> {
        let request = serde_json::from_value(json!({"method": method, "params": params}))
            .map_err(|error| ToolError::arguments(format!("invalid request to the client: {error}")))?;
        self.questions.ask(request).await
    }
}

#[async_trait]
impl<Q: Questions> ClientBridge for AskedClient<Q> {
    async fn elicit(&self, params: Json) -> Result<Json, ToolError> {
        check_elicitation(Some(&self.capabilities), &params)?;
        let answer = self.ask("elicitation/create", params).await?;
        let action = answer.get("action").and_then(Json::as_str).unwrap_or("cancel");
        let action = if ["accept", "decline"].contains(&action) { action } else { "cancel" };
        Ok(json!({"action": action, "content": answer.get("content")}))
    }

    async fn sample(&self, params: Json) -> Result<Json, ToolError> {
        if self.capabilities.sampling.is_none() {
            return Err(ToolError::unavailable("the client has no model to offer (it does not support sampling)"));
        }
        self.ask("sampling/createMessage", params).await
    }

    async fn roots(&self) -> Result<Vec<String>, ToolError> {
        if self.capabilities.roots.is_none() {
            return Ok(Vec::new());
        }
        let asking = || async { Ok(root_uris(&self.ask("roots/list", json!({})).await?)) };
        self.roots.get_or_try_init(asking).await.cloned()
    }
}
