//! Prompts and resources of upstream servers, which may need input before they answer.
//!
//! A client of an older revision is asked while it waits. One of 2026-07-28 is told what is needed, and calls again, as
//! for runs ([`super::rounds`]).

use std::collections::BTreeMap;

use rmcp::model::{
    GetPromptRequestParams, GetPromptResult, InputRequiredResult, InputResponses, JsonObject,
    ReadResourceRequestParams, ReadResourceResult, ServerResult,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::Value as Json;

use super::rounds::{ActiveRun, Binding, InvalidState, ParkedRun, Step};
use super::runs::{invalid_state, is_stateless, principal};
use super::{Handler, upstream};

/// A request to an upstream server.
#[derive(Clone)]
pub(super) enum Wanted {
    Prompt { name: String, arguments: JsonObject },
    Resource { uri: String },
}

/// The answer to it.
pub(super) enum Fetched {
    Prompt(GetPromptResult),
    Resource(ReadResourceResult),
    InputRequired(InputRequiredResult),
}

/// Returns the answers of a client that calls again, with the state that identifies the call.
pub(super) fn retry_of(state: Option<String>, answers: Option<InputResponses>) -> Option<(String, InputResponses)> {
    state.map(|state| (state, answers.unwrap_or_default()))
}

impl Wanted {
    /// Returns the prompt `server/prompt`; `None` for our own prompts.
    pub(super) fn prompt(request: &GetPromptRequestParams) -> Option<Self> {
        let arguments = request.arguments.clone().unwrap_or_default();
        upstream::is_prompt(&request.name).then(|| Self::Prompt { name: request.name.clone(), arguments })
    }

    /// Returns the resource `ot://server/{server}/{uri}`; `None` for our own resources.
    pub(super) fn resource(request: &ReadResourceRequestParams) -> Option<Self> {
        upstream::is_ours(&request.uri).then(|| Self::Resource { uri: request.uri.clone() })
    }

    /// The request that a state is bound to, independent of the order of its arguments.
    fn bound(&self) -> String {
        match self {
            Self::Prompt { name, arguments } => {
                let arguments: BTreeMap<&String, &Json> = arguments.iter().collect();
                format!("prompts/get {name} {}", serde_json::to_string(&arguments).unwrap_or_default())
            }
            Self::Resource { uri } => format!("resources/read {uri}"),
        }
    }
}

fn failed_inside() -> Result<ServerResult, ErrorData> {
    Err(ErrorData::internal_error("internal error; see the server log", None))
}

impl Handler {
    /// Asks an upstream server on behalf of the client of this request.
    pub(super) async fn fetch(
        &self,
        wanted: Wanted,
        retry: Option<(String, InputResponses)>,
        context: &RequestContext<RoleServer>,
    ) -> Result<Fetched, ErrorData> {
        if !is_stateless(context) {
            return fetched(upstream::fetch(&self.tools(context), wanted, &self.asking(context)).await?);
        }
        let bound = wanted.bound();
        let binding = Binding { principal: principal(context), command: &bound };
        let mut work = match retry {
            None => self.begin_fetching(wanted, context),
            Some((state, answers)) => match self.shared.waiting.take(&state, binding).map_err(invalid_state)? {
                ParkedRun::Offer(mut work) => {
                    work.answer(answers);
                    work
                }
                ParkedRun::Own(_) | ParkedRun::Live(_) => return Err(invalid_state(InvalidState)),
            },
        };
        match work.advance(&context.ct).await {
            Step::Finished(outcome) => fetched(outcome?),
            Step::NeedsInput(requests) => {
                let patience = self.service.served().server.mcp.input_timeout;
                let state = self.shared.waiting.park(ParkedRun::Offer(work), binding, patience);
                Ok(Fetched::InputRequired(InputRequiredResult::new(Some(requests), Some(state))))
            }
        }
    }

    fn begin_fetching(
        &self,
        wanted: Wanted,
        context: &RequestContext<RoleServer>,
    ) -> ActiveRun<Result<ServerResult, ErrorData>> {
        let (tools, mut ctx) = (self.tools(context), self.asking(context));
        // The user may take as long as for a run's question.
        ctx.deadline = ctx.deadline.map(|deadline| deadline + self.service.served().server.mcp.input_timeout);
        let capabilities = context.client_capabilities().unwrap_or_default();
        ActiveRun::new(capabilities, failed_inside, move |client, _, cancel| {
            ctx.client = Some(client);
            ctx.cancel = cancel;
            Box::pin(async move { upstream::fetch(&tools, wanted, &ctx).await })
        })
    }
}

fn fetched(result: ServerResult) -> Result<Fetched, ErrorData> {
    match result {
        ServerResult::GetPromptResult(prompt) => Ok(Fetched::Prompt(prompt)),
        ServerResult::ReadResourceResult(resource) => Ok(Fetched::Resource(resource)),
        _ => Err(ErrorData::internal_error("neither a prompt nor a resource", None)),
    }
}
