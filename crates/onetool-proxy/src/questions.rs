//! Questions that a server of the newer era asks before it answers: they are part of its result, and the request is
//! sent again with the answers. Servers of the older era may do the same with an error, for addresses that the user
//! must open first.

use std::sync::Arc;

use onetool_sdk::{ErrorKind, ToolError};
use rmcp::model::{
    ClientRequest, ErrorData, InputRequest, InputRequests, InputRequiredResult, InputResponses, ServerResult,
};
use serde_json::{Value as Json, json};

use super::calls::{Asks, CallLink, Question};
use super::connection::Failure;
use super::handler::{Subject, ask};
use super::requests::Request;
use super::settings::limits;

/// The error code with which a server of the older era requires that an address is opened first.
const URL_ELICITATION_REQUIRED: i32 = -32042;

/// The additional parameters of a request that is sent again.
#[derive(Default, Clone)]
pub(super) struct Inputs {
    pub(super) responses: Option<InputResponses>,
    pub(super) state: Option<String>,
}

impl Request<'_> {
    /// Sends a request, answers the server's questions, and sends it again with the answers.
    pub(super) async fn send_with_answers(
        &self,
        make: &(dyn Fn(&Inputs) -> ClientRequest + Send + Sync),
    ) -> Result<Json, ToolError> {
        let link = CallLink::new(self.ctx, Asks::Other);
        let mut inputs = Inputs::default();
        for _ in 0..limits::INPUT_ROUNDS {
            match self.send(&|| make(&inputs), &link).await? {
                ServerResult::InputRequiredResult(wanted) => inputs = self.inputs(wanted, &link).await?,
                result => {
                    return serde_json::to_value(result).map_err(|error| ToolError::internal(error.to_string()));
                }
            }
        }
        Err(self.asked_too_often())
    }

    pub(super) fn asked_too_often(&self) -> ToolError {
        let message =
            format!("{} asked for input {} times without an answer of its own", self.function, limits::INPUT_ROUNDS);
        ToolError::new(ErrorKind::Upstream { status: None }, message)
    }

    pub(super) async fn inputs(&self, wanted: InputRequiredResult, link: &Arc<CallLink>) -> Result<Inputs, ToolError> {
        let responses = self.answers(wanted.input_requests.unwrap_or_default(), link).await?;
        Ok(Inputs { responses: Some(responses), state: wanted.request_state })
    }

    /// Answers the questions that a server asks before it answers the call itself.
    pub(super) async fn answers(
        &self,
        requests: InputRequests,
        link: &Arc<CallLink>,
    ) -> Result<InputResponses, ToolError> {
        let mut answers = InputResponses::new();
        for (name, request) in requests {
            let subject = match &request {
                InputRequest::Elicitation(_) => Subject::Elicitation,
                InputRequest::CreateMessage(_) => Subject::Sampling,
                _ => {
                    answers.insert(name, json!({"roots": []}));
                    continue;
                }
            };
            let params = serde_json::to_value(&request)
                .ok()
                .and_then(|mut request| Some(request.get_mut("params")?.take()))
                .unwrap_or_default();
            answers.insert(name, self.answer(subject, params, link).await?);
        }
        Ok(answers)
    }

    async fn answer(&self, subject: Subject, params: Json, link: &Arc<CallLink>) -> Result<Json, ToolError> {
        let client = self.ctx.client.clone().ok_or_else(|| {
            ToolError::unavailable(format!(
                "{} needs an answer from the user, and there is no client to ask",
                self.function
            ))
        })?;
        let question = Question::new(client, vec![link.clone()]);
        tokio::select! {
            answer = ask(&question, subject, params) => answer,
            () = self.ctx.cancel.cancelled() => Err(self.failed(Failure::Cancelled)),
        }
    }

    /// Whether a failed call may be retried because the user has opened the addresses that the server requires.
    pub(super) async fn has_opened(&self, error: &ErrorData, link: &Arc<CallLink>) -> bool {
        let wanted = error.data.as_ref().and_then(|data| data.get("elicitations")).and_then(Json::as_array);
        let Some(wanted) = wanted.filter(|wanted| error.code.0 == URL_ELICITATION_REQUIRED && !wanted.is_empty())
        else {
            return false;
        };
        for elicitation in wanted.iter().take(limits::INPUT_ROUNDS) {
            let mut params = elicitation.clone();
            params["mode"] = "url".into();
            let answer = self.answer(Subject::Elicitation, params, link).await;
            if !answer.is_ok_and(|answer| answer.get("action").and_then(Json::as_str) == Some("accept")) {
                return false;
            }
        }
        true
    }
}
