//! Calls any tool by its name, through the one call path: as one document, or as events with progress.

use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::extract::{Path, RawQuery, Request};
use axum::response::{IntoResponse as _, Response};
use onetool_run::{Permission, present};
use onetool_sdk::{Arguments, CallContext, ErrorKind, NoProgress, QualifiedName, ToolCaller as _, ToolError, Value};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::routes;

use super::super::bundles::blocking;
use super::super::input;
use super::super::invoke::{Invoker, Mode};
use super::super::model::{CallMeta, ErrorReply, InvokeBody, InvokeReply};
use super::super::parameters::InvokeQuery;
use super::super::query;
use super::super::routes::Routes;
use super::AdminState;
use super::events::{EventSender, stream_of, wants_events};
use super::listing;
use super::model::PartRow;
use crate::{ApiError, Identity};

pub(super) fn routes() -> Routes {
    Routes::default().invoke(routes!(invoke))
}

/// How a call ended, after its value or its error.
#[derive(Debug, Default, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct DoneRow {
    duration_ms: f64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    parts: Vec<PartRow>,
}

/// Calls a tool of any kind. With `Accept: text/event-stream` the answer is a stream: `progress`, then `value` (the value
/// as JSON) or `error`, then `done`. With `dryRun=true` nothing is called: a bundle's tool shows the request that it would
/// send, any other its arguments and what the policy says, once they have been checked.
#[utoipa::path(post, path = "/api/tools/{name}/invoke", tag = "toolbox", request_body = Option<InvokeBody>, params(
    ("name" = String, Path, description = "pack.function"),
    InvokeQuery), responses(
    (status = 200, body = InvokeReply),
    (status = 400, description = "the arguments do not fit", body = ErrorReply),
    (status = 403, description = "denied by policy, or the scope 'invoke' is missing", body = ErrorReply),
    (status = 404, body = ErrorReply),
    (status = 409, body = ErrorReply),
    (status = 413, body = ErrorReply),
    (status = 415, body = ErrorReply),
    (status = 422, body = ErrorReply),
    (status = 429, body = ErrorReply),
    (status = 502, body = ErrorReply),
    (status = 504, body = ErrorReply),
))]
async fn invoke(
    state: AdminState,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
    request: Request,
) -> Result<Response, ApiError> {
    let name = tool_name(&name)?;
    let InvokeQuery { dry_run: is_dry_run } = query::parse(query.as_deref())?;
    let is_stream = wants_events(request.headers());
    let mut ctx = Identity::of(request.extensions()).context(request.headers());
    let body: Option<Option<InvokeBody>> =
        input::optional_json(request, state.served.server.api.max_body_bytes).await?;
    let args = body.flatten().unwrap_or_default().args;
    if is_dry_run {
        let reply = dry_run(state, &name, args, ctx).await?;
        if !is_stream {
            return Ok(Json(reply).into_response());
        }
        return Ok(stream_of(tokio_util::sync::CancellationToken::new(), |sender| async move {
            match (&reply.steps, &reply.request) {
                (Some(steps), _) => sender.send("value", steps).await,
                (None, Some(request)) => sender.send("value", request).await,
                (None, None) => sender.send("value", &reply.value).await,
            };
            sender.send("done", &DoneRow { duration_ms: reply.meta.duration_ms, parts: Vec::new() }).await;
        }));
    }
    ctx.deadline = Some(Instant::now() + state.served.server.api.invoke_timeout);
    ctx.tools = Some(Arc::new(state.service.runner().toolbox().clone()));
    let call = Call { state, name, arguments: Arguments::from_json(args) };
    if is_stream {
        return Ok(stream_of(ctx.cancel.clone(), |sender| call.send(ctx, sender)));
    }
    let _cancel_on_drop = ctx.cancel.clone().drop_guard();
    let started = Instant::now();
    let result = call.execute(&ctx).await;
    let meta = CallMeta { duration_ms: milliseconds(started), ..CallMeta::default() };
    match result {
        Ok(value) => {
            Ok(Json(InvokeReply { ok: true, value: value.to_json(), request: None, steps: None, meta }).into_response())
        }
        Err(error) => Err(ApiError::from(error).with_meta(meta)),
    }
}

pub(super) fn tool_name(text: &str) -> Result<QualifiedName, ApiError> {
    text.parse().map_err(|_| ApiError::invalid("a tool's name is pack.function"))
}

/// A call that is ready to be made.
struct Call {
    state: AdminState,
    name: QualifiedName,
    arguments: Arguments,
}

impl Call {
    async fn execute(self, ctx: &CallContext) -> Result<Value, ToolError> {
        let timeout = self.state.served.server.api.invoke_timeout;
        let runner = self.state.service.runner();
        let call = runner.toolbox().call_tool(&self.name, self.arguments, ctx);
        let result = tokio::time::timeout(timeout, call)
            .await
            .unwrap_or_else(|_| Err(ToolError::new(ErrorKind::Timeout, format!("{} took too long", self.name))));
        let redactor = runner.redactor();
        result.map(|value| redactor.value(value)).map_err(|error| redactor.error(error))
    }

    async fn send(self, mut ctx: CallContext, sender: EventSender) {
        ctx.progress = self.state.service.runner().checked_progress(Arc::new(sender.clone()));
        let started = Instant::now();
        let result = self.execute(&ctx).await;
        let mut done = DoneRow { duration_ms: milliseconds(started), parts: Vec::new() };
        match result {
            Ok(value) => {
                let (rest, parts) = present::split_parts(value);
                done.parts = parts.into_iter().map(PartRow::from).collect();
                sender.send("value", &rest.map(|value| value.to_json())).await;
            }
            Err(error) => {
                sender.send("error", &ApiError::from(error).reply().error).await;
            }
        }
        sender.send("done", &done).await;
    }
}

/// Shows what the newest callable version of a bundle's tool would send, or what any other tool would be called with.
async fn dry_run(
    state: AdminState,
    name: &QualifiedName,
    args: serde_json::Map<String, serde_json::Value>,
    context: CallContext,
) -> Result<InvokeReply, ApiError> {
    let wanted = name.clone();
    let store = state.served.bundles.store.clone();
    let version = blocking(move || listing::bundle_version(&store, &wanted)).await?;
    let Some(path) = version else { return checked(&state, name, args, &context) };
    let invoker = Invoker {
        bundles: state.served.bundles.clone(),
        tools: Arc::new(state.service.runner().toolbox().clone()),
        timeout: state.served.server.api.invoke_timeout,
        context,
        redactor: state.service.runner().redactor(),
    };
    invoker.invoke(path, args, Mode::DryRun, Arc::new(NoProgress)).await
}

/// Checks a call without making it.
fn checked(
    state: &AdminState,
    name: &QualifiedName,
    args: serde_json::Map<String, serde_json::Value>,
    context: &CallContext,
) -> Result<InvokeReply, ApiError> {
    let started = Instant::now();
    let toolbox = state.service.runner().toolbox().now_for(&context.requester);
    let call = toolbox.dry_run(name, Arguments::from_json(args))?;
    let permission = match call.permission {
        Permission::Allow => "allow",
        Permission::Ask => "ask",
        Permission::Deny => "deny",
    };
    let value = serde_json::json!({
        "tool": name.to_string(),
        "arguments": call.arguments.to_json(),
        "permission": permission,
    });
    let meta = CallMeta { duration_ms: milliseconds(started), dry_run: true, ..CallMeta::default() };
    Ok(InvokeReply { ok: true, value, request: None, steps: None, meta })
}

pub(super) fn milliseconds(since: Instant) -> f64 {
    (since.elapsed().as_secs_f64() * 1e6).round() / 1e3
}
