//! Runs: `run(command)` over REST, as one document or as events, and their end before time.

use std::time::Instant;

use axum::extract::{Path, Request};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};
use onetool_run::RunReply;
use onetool_run::activity::{ActivityEvent, ActivityKind};
use onetool_sdk::CallContext;
use tokio::sync::broadcast::error::RecvError;
use utoipa_axum::routes;

use super::super::input;
use super::super::model::ErrorReply;
use super::super::routes::Routes;
use super::AdminState;
use super::calls::milliseconds;
use super::events::{EventSender, stream_of, wants_events};
use super::model::{ActivityRow, PartRow, RunBody, RunReplyBody};
use crate::{ApiError, Identity, Principal};

/// Runs that may be under way at one time from here.
const MAX_RUNNING: usize = 64;

pub(super) fn routes() -> Routes {
    Routes::default().invoke(routes!(start)).invoke(routes!(cancel))
}

/// Runs a command. With `Accept: text/event-stream` the answer is a stream: `started` with the run's id, then `printed`,
/// `progress` and `call` as they happen, then `result`. A client that goes away ends its run.
#[utoipa::path(post, path = "/api/runs", tag = "runs", request_body = RunBody, responses(
    (status = 200, body = RunReplyBody),
    (status = 400, body = ErrorReply),
    (status = 413, body = ErrorReply),
    (status = 415, body = ErrorReply),
    (status = 429, description = "whoever asks has used up what they may; see Retry-After", body = ErrorReply),
    (status = 503, description = "too many runs are under way", body = ErrorReply),
))]
async fn start(state: AdminState, request: Request) -> Result<Response, ApiError> {
    let is_stream = wants_events(request.headers());
    let ctx = Identity::of(request.extensions()).context(request.headers());
    let body: RunBody = input::json(request, state.served.server.api.max_body_bytes).await?;
    state.service.runner().admits(&ctx).await?;
    let running = Running::enter(&state, &ctx)?;
    if is_stream {
        return Ok(stream_of(ctx.cancel.clone(), |sender| send(state, body.command, ctx, sender, running)));
    }
    let _cancel_on_drop = ctx.cancel.clone().drop_guard();
    let run = ctx.run_id.to_string();
    let started = Instant::now();
    let reply = state.service.runner().run(&body.command, ctx).await;
    drop(running);
    Ok(Json(reply_body(run, reply, started)).into_response())
}

/// Ends a run that was started here.
#[utoipa::path(delete, path = "/api/runs/{id}", tag = "runs", params(("id" = String, Path)), responses(
    (status = 204, description = "it ends"),
    (status = 404, body = ErrorReply),
))]
async fn cancel(
    state: AdminState,
    Path(id): Path<String>,
    Extension(principal): Extension<Principal>,
) -> Result<StatusCode, ApiError> {
    match state.admin.running.lock().get(&id) {
        Some((owner, cancel)) if *owner == principal.owner(None) => {
            cancel.cancel();
            Ok(StatusCode::NO_CONTENT)
        }
        _ => Err(ApiError::not_found("no run is under way under this id")),
    }
}

async fn send(state: AdminState, command: String, mut ctx: CallContext, sender: EventSender, running: Running) {
    let run_id = ctx.run_id.clone();
    ctx.progress = std::sync::Arc::new(sender.clone());
    sender.send("started", &serde_json::json!({"run": &*run_id})).await;
    let mut events = state.admin.activity.subscribe();
    let is_call =
        |event: &ActivityEvent| event.run_id == run_id && event.kind == ActivityKind::Call && !event.is_under_way();
    let started = Instant::now();
    let run = state.service.runner().run(&command, ctx);
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

/// A run's place among those that can be ended.
struct Running {
    state: AdminState,
    id: String,
}

impl Running {
    fn enter(state: &AdminState, ctx: &CallContext) -> Result<Self, ApiError> {
        let id = ctx.run_id.to_string();
        let mut running = state.admin.running.lock();
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
        self.state.admin.running.lock().remove(&self.id);
    }
}
