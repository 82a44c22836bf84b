//! Runs with an idempotency key: a client that lost its connection sends the same request again, and gets the same run.
//!
//! Such a run is a background run whose id is derived from the key. The first request starts it, later ones join it:
//! they receive its progress, its questions and its reply, also after it has ended.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use onetool_run::RunReply;
use onetool_sdk::Caller;
use onetool_state::runs::{Owner, RunId, RunOrigin, RunRecord, RunStoreError};
use rmcp::model::{
    CallToolResponse, CallToolResult, GetMeta as _, InputRequest, InputRequiredResult, InputResponses, JsonObject,
    ServerRequest,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, Peer, RoleServer};
use serde_json::{Value as Json, json};

use super::Handler;
use super::preferences::ReplyPreferences;
use super::progress::ClientProgress;
use super::rounds::{Binding, LiveHandle, ParkedRun};
use super::runs::{ClientUpdates, owner, principal, requester, result_of};
use crate::background::{LiveRun, LiveStep, RunClient, StartError, StartRun, Started, key};

/// Name of the key in a request's `_meta`.
const META_KEY: &str = "onetool/idempotencyKey";

/// Returns the idempotency key of a request: from its `_meta`, or from a header.
pub(super) fn idempotency_key(context: &RequestContext<RoleServer>) -> Result<Option<String>, ErrorData> {
    let invalid = |reason: String| ErrorData::invalid_params(reason, None);
    if let Some(given) = context.meta.get(META_KEY) {
        let Some(given) = given.as_str() else { return Err(invalid(format!("_meta[\"{META_KEY}\"] must be a text"))) };
        return key::checked(given).map(Some).map_err(invalid);
    }
    let parts = context.extensions.get::<axum::http::request::Parts>();
    let Some(given) = parts.and_then(|parts| parts.headers.get(key::HEADER)) else { return Ok(None) };
    let given = given.to_str().map_err(|_| invalid(format!("the header {} is not plain text", key::HEADER)))?;
    key::checked(given).map(Some).map_err(invalid)
}

/// Returns the client of a request, as tools of its background run see it.
pub(super) fn client_of(context: &RequestContext<RoleServer>) -> RunClient {
    RunClient {
        trace: crate::trace::of_message(context),
        caller: Caller::Run,
        owner: owner(context),
        requester: requester(context),
        capabilities: Some(context.client_capabilities().unwrap_or_default()),
        reply: ReplyPreferences::of(context),
    }
}

/// The result of a call whose run did not start.
pub(super) fn not_started(error: StartError) -> CallToolResult {
    match error {
        StartError::Refused(refusal) => result_of(refusal.reply),
        StartError::Store(error) => failed(&error),
    }
}

/// Converts an error to the result of a call.
pub(super) fn failed(error: &RunStoreError) -> CallToolResult {
    result_of(RunReply { text: format!("RuntimeError: {error}"), parts: Vec::new(), is_error: true })
}

impl Handler {
    /// Runs a command with a key, for a client that can be asked while it waits.
    pub(super) async fn run_keyed(
        &self,
        command: &str,
        key: String,
        context: RequestContext<RoleServer>,
    ) -> CallToolResult {
        let binding = Binding { principal: principal(&context), command };
        match self.start_keyed(binding, Some(key), client_of(&context)).await {
            Err(error) => not_started(error),
            Ok(Joined::Live(run)) => {
                let progress = context.meta.get_progress_token().map(|token| {
                    let (sending, sink) = ClientProgress::start(context.peer.clone(), token);
                    run.listen(Some(sink));
                    sending
                });
                let reply = tokio::select! {
                    reply = converse(&run, &context.peer, None) => reply,
                    // An explicit cancellation applies to the run.
                    () = context.ct.cancelled() => {
                        let _ = self.shared.background.cancel(&run.owner, &run.id).await;
                        run.reply().await
                    }
                };
                run.listen(None);
                if let Some(progress) = progress {
                    progress.finish().await;
                }
                result_of((*reply).clone())
            }
            Ok(Joined::Elsewhere(owner, id)) => self.reply_of(&owner, &id).await,
        }
    }

    /// Runs a command with a key, for a client that is told which input is needed, and calls again.
    pub(super) async fn run_keyed_in_rounds(
        &self,
        binding: Binding<'_>,
        key: Option<String>,
        context: &RequestContext<RoleServer>,
    ) -> CallToolResponse {
        match self.start_keyed(binding, key, client_of(context)).await {
            Err(error) => not_started(error).into(),
            Ok(Joined::Live(run)) => self.follow(LiveHandle { run, cancel_on_drop: None }, binding, context).await,
            Ok(Joined::Elsewhere(owner, id)) => self.reply_of(&owner, &id).await.into(),
        }
    }

    async fn start_keyed(
        &self,
        binding: Binding<'_>,
        key: Option<String>,
        client: RunClient,
    ) -> Result<Joined, StartError> {
        let background = &self.shared.background;
        let owner = background.owner(binding.principal).await?;
        let start = StartRun {
            owner,
            command: binding.command.to_owned(),
            origin: RunOrigin::Call,
            client,
            key,
            ttl: None,
            tags: Vec::new(),
        };
        Ok(match background.run(start).await? {
            Started::New(run, _) => Joined::Live(run),
            Started::Queued(record) => Joined::Elsewhere(record.owner, record.id),
            Started::Before(record) => match background.find(&record.owner, &record.id) {
                Some(run) => Joined::Live(run),
                None => Joined::Elsewhere(record.owner, record.id),
            },
        })
    }

    /// Returns the reply of a run that another process executes, or that has ended.
    async fn reply_of(&self, owner: &Owner, id: &RunId) -> CallToolResult {
        match self.shared.background.reply_at_end(owner, id).await {
            Ok(reply) => result_of(reply),
            Err(error) => failed(&error),
        }
    }

    /// Waits for a live run on behalf of a client of the new revision.
    pub(super) async fn follow(
        &self,
        handle: LiveHandle,
        binding: Binding<'_>,
        context: &RequestContext<RoleServer>,
    ) -> CallToolResponse {
        let supports_tasks = context.client_capabilities().unwrap_or_default().supports_tasks();
        let hearing = ClientUpdates::start(self, context);
        handle.run.listen(hearing.sink());
        let step = self.step(&handle, supports_tasks, context).await;
        handle.run.listen(None);
        hearing.finish().await;
        match step {
            FollowStep::Finished(reply) => result_of((*reply).clone()).into(),
            FollowStep::Task(record) => {
                let mut handle = handle;
                if let Some(guard) = handle.cancel_on_drop.take() {
                    guard.disarm();
                }
                super::tasks::created(&record, &self.shared.background.settings()).into()
            }
            FollowStep::NeedsInput(requests) => {
                let patience = self.service.served().server.mcp.input_timeout;
                let state = self.shared.waiting.park(ParkedRun::Live(handle), binding, patience);
                InputRequiredResult::new(Some(requests), Some(state)).into()
            }
        }
    }

    async fn step(
        &self,
        handle: &LiveHandle,
        supports_tasks: bool,
        context: &RequestContext<RoleServer>,
    ) -> FollowStep {
        let background = &self.shared.background;
        let (run, none) = (&handle.run, BTreeSet::new());
        let mut becomes_task = supports_tasks;
        let slow = tokio::time::sleep(background.settings().task_after);
        tokio::pin!(slow);
        loop {
            tokio::select! {
                biased;
                step = run.advance(&none) => return match step {
                    LiveStep::Finished(reply) => FollowStep::Finished(reply),
                    LiveStep::NeedsInput(requests) => FollowStep::NeedsInput(requests),
                },
                () = &mut slow, if becomes_task => match background.record(run, RunOrigin::Task).await {
                    Ok(record) => return FollowStep::Task(Box::new(record)),
                    // A task cannot be recorded: the request waits, as it would without tasks.
                    Err(error) => {
                        tracing::debug!(%error, "a run does not become a task");
                        becomes_task = false;
                    }
                },
                () = context.ct.cancelled() => {
                    if handle.cancel_on_drop.is_some() {
                        run.cancel.cancel();
                        return FollowStep::Finished(run.reply().await);
                    }
                    // With a key or a record, a closed connection does not cancel the run.
                    let text = "the client is gone; the run goes on".to_owned();
                    return FollowStep::Finished(Arc::new(RunReply { text, parts: Vec::new(), is_error: true }));
                }
            }
        }
    }
}

enum Joined {
    Live(Arc<LiveRun>),
    Elsewhere(Owner, RunId),
}

enum FollowStep {
    Finished(Arc<RunReply>),
    Task(Box<RunRecord>),
    NeedsInput(rmcp::model::InputRequests),
}

/// Waits for a run's reply and asks the client the run's questions. `related` is added to the requests' `_meta`.
pub(super) async fn converse(run: &LiveRun, peer: &Peer<RoleServer>, related: Option<&JsonObject>) -> Arc<RunReply> {
    let mut asked = BTreeSet::new();
    let mut asking = FuturesUnordered::new();
    loop {
        tokio::select! {
            step = run.advance(&asked) => match step {
                LiveStep::Finished(reply) => return reply,
                LiveStep::NeedsInput(questions) => for (key, question) in questions {
                    asked.insert(key.clone());
                    asking.push(ask(peer, key, question, related));
                },
            },
            Some((key, answer)) = asking.next() => match answer {
                Some(answer) => run.answer(InputResponses::from([(key, answer)])),
                None => run.give_up(&key),
            },
        }
    }
}

async fn ask(
    peer: &Peer<RoleServer>,
    key: String,
    question: InputRequest,
    related: Option<&JsonObject>,
) -> (String, Option<Json>) {
    let mut request = match question {
        InputRequest::Elicitation(request) => ServerRequest::ElicitRequest(request),
        InputRequest::CreateMessage(request) => ServerRequest::CreateMessageRequest(request),
        InputRequest::ListRoots(request) => ServerRequest::ListRootsRequest(request),
        _ => return (key, None),
    };
    if let Some(related) = related {
        for (name, value) in related {
            request.get_meta_mut().insert(name.clone(), value.clone());
        }
    }
    let answer = peer.send_request(request).await.ok().and_then(|answer| serde_json::to_value(answer).ok());
    (key, answer.or_else(|| Some(json!({"action": "cancel"}))))
}
