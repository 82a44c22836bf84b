//! Runs: `run(command)` over REST, as one document or as events, and their cancellation.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Path, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};
use onetool_run::activity::{ActivityEvent, ActivityKind};
use onetool_run::{Admission, RunReply};
use onetool_sdk::CallContext;
use onetool_state::runs::{Owner, RunId, RunOrigin, RunStatus, RunStoreError};
use tokio::sync::broadcast::error::RecvError;
use utoipa_axum::routes;

use super::super::input;
use super::super::model::ErrorReply;
use super::super::routes::Routes;
use super::super::runs::idempotency_key;
use super::AdminState;
use super::calls::milliseconds;
use super::elsewhere::no_run;
use super::events::{EventSender, stream_of, wants_events};
use super::model::{ActivityRow, PartRow, RunBody, RunReplyBody};
use crate::background::{LiveRun, RunClient, StartRun, Started};
use crate::mcp::ReplyPreferences;
use crate::relay::Subject;
use crate::{ApiError, Identity, Principal};

/// Maximum number of concurrent runs started here.
const MAX_RUNNING: usize = 64;

pub(super) fn routes() -> Routes {
    Routes::default().invoke(routes!(start)).invoke(routes!(cancel))
}

/// Runs a command. With `Accept: text/event-stream` the answer is a stream: `started` with the run's id, then
/// `printed`, `progress` and `call` as they happen, then `result`. A run ends when its client disconnects, unless the
/// request has the header `Idempotency-Key`: then it is kept like one of `POST /runs`, and a repeated request gets the
/// same run's result.
#[utoipa::path(post, path = "/api/runs", tag = "runs", request_body = RunBody,
    params(("Idempotency-Key" = Option<String>, Header, description = "the same key means the same run")), responses(
    (status = 200, body = RunReplyBody),
    (status = 400, body = ErrorReply),
    (status = 409, description = "the key was used for another command", body = ErrorReply),
    (status = 413, body = ErrorReply),
    (status = 415, body = ErrorReply),
    (status = 429, description = "the requester has reached a limit; see Retry-After", body = ErrorReply),
    (status = 503, description = "too many runs are under way, or the shared state that a key needs is unavailable",
        body = ErrorReply),
))]
async fn start(state: AdminState, request: Request) -> Result<Response, ApiError> {
    let is_stream = wants_events(request.headers());
    let key = idempotency_key(request.headers())?;
    let principal = Identity::of(request.extensions()).principal;
    let ctx = Identity::of(request.extensions()).context(request.headers());
    let body: RunBody = input::json(request, state.served.server.api.max_body_bytes).await?;
    if let Some(key) = key {
        let kept = KeptRun::start(&state, principal, body.command, key, &ctx).await?;
        if is_stream {
            return Ok(stream_of(ctx.cancel, |sender| kept.send(state, sender)));
        }
        let started = Instant::now();
        let reply = kept.reply(&state).await?;
        return Ok(Json(reply_body(kept.id.to_string(), reply, started)).into_response());
    }
    let running = Running::enter(&state, &ctx)?;
    let admission = state.service.runner().admit(&body.command, &ctx).await.map_err(|refusal| refusal.error)?;
    let let_in = LetIn { command: body.command, ctx, admission, running };
    if is_stream {
        return Ok(stream_of(let_in.ctx.cancel.clone(), |sender| send(state, let_in, sender)));
    }
    let LetIn { command, ctx, admission, running } = let_in;
    let _cancel_on_drop = ctx.cancel.clone().drop_guard();
    let run = ctx.run_id.to_string();
    let started = Instant::now();
    let reply = state.service.runner().run_admitted(&command, ctx, admission).await;
    drop(running);
    Ok(Json(reply_body(run, reply, started)).into_response())
}

/// A run with an idempotency key: it outlives its request, and repeated requests join it.
struct KeptRun {
    owner: Owner,
    id: RunId,
    /// The run itself, if this server executes it.
    live: Option<Arc<LiveRun>>,
}

impl KeptRun {
    async fn start(
        state: &AdminState,
        principal: Principal,
        command: String,
        key: String,
        ctx: &CallContext,
    ) -> Result<Self, ApiError> {
        let background = &state.background;
        let owner = background.owner(principal).await?;
        let start = StartRun {
            owner,
            command,
            origin: RunOrigin::Rest,
            client: RunClient {
                caller: ctx.caller,
                owner: ctx.owner.clone(),
                requester: ctx.requester.clone(),
                capabilities: None,
                reply: ReplyPreferences::default(),
                trace: crate::trace::incoming(),
            },
            key: Some(key),
            ttl: None,
            tags: Vec::new(),
        };
        Ok(match background.run(start).await? {
            Started::New(live, record) => Self { owner: record.owner, id: record.id, live: Some(live) },
            Started::Before(record) | Started::Queued(record) => {
                let live = background.find(&record.owner, &record.id);
                Self { owner: record.owner, id: record.id, live }
            }
        })
    }

    async fn reply(&self, state: &AdminState) -> Result<RunReply, ApiError> {
        match &self.live {
            Some(live) => Ok((*live.reply().await).clone()),
            None => Ok(state.background.reply_at_end(&self.owner, &self.id).await?),
        }
    }

    async fn send(self, state: AdminState, sender: EventSender) {
        sender.send("started", &serde_json::json!({"run": self.id.as_str()})).await;
        if let Some(live) = &self.live {
            live.listen(Some(Arc::new(sender.clone())));
        }
        let started = Instant::now();
        let reply = self.reply(&state).await.unwrap_or_else(|error| {
            let text = format!("RuntimeError: {}", error.message());
            RunReply { text, parts: Vec::new(), is_error: true }
        });
        sender.send("result", &reply_body(self.id.to_string(), reply, started)).await;
    }
}

/// Cancels a run of `POST /api/runs`, with or without a key, whichever of several servers executes it.
#[utoipa::path(delete, path = "/api/runs/{id}", tag = "runs", params(("id" = String, Path)), responses(
    (status = 204, description = "it ends"),
    (status = 404, body = ErrorReply),
    (status = 503, description = "the shared state is unavailable, and the run is not here", body = ErrorReply),
))]
async fn cancel(
    state: AdminState,
    Path(id): Path<String>,
    Extension(identity): Extension<Arc<Identity>>,
    parts: Parts,
) -> Result<Response, ApiError> {
    if state.admin.here.end_run(&id, &identity) {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let which = id.parse::<RunId>().map_err(|_| no_run())?;
    // A run with a key is a background run, whose record is shared.
    let owner = state.background.owner(identity.principal).await?;
    match state.background.get(&owner, &which).await {
        Ok(view) if view.record.status.is_final() => return Err(no_run()),
        Ok(_) => {
            let record = state.background.cancel(&owner, &which).await?;
            let is_ended = record.status == RunStatus::Cancelled;
            return if is_ended { Ok(StatusCode::NO_CONTENT.into_response()) } else { Err(no_run()) };
        }
        Err(RunStoreError::NotFound) => {}
        Err(error) => return Err(error.into()),
    }
    let elsewhere = state.admin.relay.forward(&Subject::RestRun(id), &parts).await?;
    elsewhere.ok_or_else(no_run)
}

/// A run that was admitted.
struct LetIn {
    command: String,
    ctx: CallContext,
    admission: Admission,
    running: Running,
}

async fn send(state: AdminState, let_in: LetIn, sender: EventSender) {
    let LetIn { command, mut ctx, admission, running } = let_in;
    let run_id = ctx.run_id.clone();
    ctx.progress = std::sync::Arc::new(sender.clone());
    sender.send("started", &serde_json::json!({"run": &*run_id})).await;
    let mut events = state.admin.activity.subscribe();
    let is_call =
        |event: &ActivityEvent| event.run_id == run_id && event.kind == ActivityKind::Call && !event.is_under_way();
    let started = Instant::now();
    let run = state.service.runner().run_admitted(&command, ctx, admission);
    tokio::pin!(run);
    let reply = loop {
        tokio::select! {
            biased;
            event = events.recv() => match event {
                Ok(event) if is_call(&event) => {
                    sender.offer("call", &ActivityRow::from(event));
                }
                Ok(_) | Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => break (&mut run).await,
            },
            reply = &mut run => break reply,
        }
    };
    while let Ok(event) = events.try_recv() {
        if is_call(&event) {
            sender.offer("call", &ActivityRow::from(event));
        }
    }
    drop(running);
    sender.send("result", &reply_body(run_id.to_string(), reply, started)).await;
}

fn reply_body(run: String, reply: RunReply, started: Instant) -> RunReplyBody {
    RunReplyBody {
        run,
        text: reply.text,
        is_error: reply.is_error,
        parts: reply.parts.into_iter().map(PartRow::from).collect(),
        duration_ms: milliseconds(started),
    }
}

/// A run's entry in the list of runs that can be cancelled.
struct Running {
    state: AdminState,
    id: String,
}

impl Running {
    fn enter(state: &AdminState, ctx: &CallContext) -> Result<Self, ApiError> {
        let id = ctx.run_id.to_string();
        let mut running = state.admin.here.running.lock();
        if running.len() >= MAX_RUNNING {
            return Err(ApiError::busy(format!("{MAX_RUNNING} runs are under way")));
        }
        running.insert(id.clone(), (ctx.owner.clone(), ctx.cancel.clone()));
        drop(running);
        Ok(Self { state: state.clone(), id })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.state.admin.here.running.lock().remove(&self.id);
    }
}
