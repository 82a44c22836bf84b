//! Answers to requests that a server makes of its client.
//!
//! Questions for a user or a model are forwarded to the client of the call that they belong to; if there is none, or it
//! is ambiguous, they are refused with the reason. Nothing else is offered.

#![expect(deprecated, reason = "sampling is on its way out of the protocol, but servers use it")]

use std::sync::Arc;

use onetool_sdk::ToolError;
use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult, CustomRequest, CustomResult,
    ElicitRequestParams, ElicitResult, ElicitationCapability, ErrorCode, ErrorData, FormElicitationCapability,
    Implementation, JsonObject, ProtocolVersion, RequestId, SamplingCapability, TASKS_EXTENSION_ID,
    UrlElicitationCapability,
};
use rmcp::service::{InboundStreamOrigin, RequestContext, RoleClient};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;

use super::calls::Question;
use super::settings::{Offers, limits};
use super::transport::Wire;

/// What a question is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Subject {
    /// `elicitation/create`
    Elicitation,
    /// `sampling/createMessage`
    Sampling,
}

/// The client that a server sees.
pub(super) struct Handler {
    wire: Arc<Wire>,
    offers: Offers,
}

impl Handler {
    pub(super) fn new(wire: Arc<Wire>, offers: Offers) -> Self {
        Self { wire, offers }
    }

    async fn pass_on<Q: Serialize, A: DeserializeOwned>(
        &self,
        subject: Subject,
        params: &Q,
        context: &RequestContext<RoleClient>,
    ) -> Result<A, ErrorData> {
        let params = serde_json::to_value(params).map_err(|error| internal(&error.to_string()))?;
        let question = self
            .wire
            .calls
            .question_for(origin(context))
            .map_err(|nobody| ErrorData::new(ErrorCode::INVALID_REQUEST, nobody.message(), None))?;
        let answer = tokio::select! {
            answer = ask(&question, subject, params) => answer,
            () = context.ct.cancelled() => return Err(internal("the request was cancelled")),
            () = self.wire.closed.cancelled() => return Err(internal("the connection is closed")),
        };
        let answer = answer.map_err(|error| internal(&error.message))?;
        serde_json::from_value(answer).map_err(|error| internal(&format!("the client's answer is malformed: {error}")))
    }
}

/// Forwards a question to the client.
pub(super) async fn ask(question: &Question, subject: Subject, params: Json) -> Result<Json, ToolError> {
    let answer = async {
        match subject {
            Subject::Elicitation => question.client.elicit(params).await,
            Subject::Sampling => question.client.sample(params).await,
        }
    };
    tokio::time::timeout(limits::CLIENT_ANSWER, answer)
        .await
        .unwrap_or_else(|_| Err(ToolError::unavailable("the client did not answer in time")))
}

/// The call whose reply stream a request arrived on, if the transport says so.
fn origin(context: &RequestContext<RoleClient>) -> Option<&RequestId> {
    match context.extensions.get::<InboundStreamOrigin>() {
        Some(InboundStreamOrigin::OutboundRequest(id)) => Some(id),
        Some(InboundStreamOrigin::Unassociated) | None => None,
    }
}

fn internal(message: &str) -> ErrorData {
    ErrorData::internal_error(message.to_owned(), None)
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        capabilities.elicitation = self.offers.elicitation.then(|| {
            ElicitationCapability::new()
                .with_form(FormElicitationCapability::default())
                .with_url(UrlElicitationCapability::default())
        });
        capabilities.extensions = Some([(TASKS_EXTENSION_ID.to_owned(), JsonObject::new())].into_iter().collect());
        capabilities.sampling = self.offers.sampling.then(SamplingCapability::default);
        ClientConfig::new(capabilities, Implementation::new("onetool", env!("CARGO_PKG_VERSION")))
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        self.pass_on(Subject::Sampling, &params, &context).await
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        self.pass_on(Subject::Elicitation, &request, &context).await
    }

    /// Questions in a form unknown to the protocol's types arrive here too.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleClient>,
    ) -> Result<CustomResult, ErrorData> {
        let subject = match request.method.as_str() {
            "elicitation/create" => Subject::Elicitation,
            "sampling/createMessage" => Subject::Sampling,
            _ => return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method, None)),
        };
        self.pass_on(subject, &request.params, &context).await.map(CustomResult::new)
    }
}
