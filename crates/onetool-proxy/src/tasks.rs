//! Tool calls that are answered later, as tasks.
//!
//! In 2025-11-25 a server may require that a tool call is a task (`execution.taskSupport: required`) and refuse any
//! other. It answers with the task's id immediately, reports its progress when asked, and returns the result when it is
//! done. In 2026-07-28 (the extension `io.modelcontextprotocol/tasks`) the server decides by itself to answer a call
//! with a task; the result, and its questions meanwhile, are part of the task's state. To the caller it is a call like
//! any other: it waits, receives progress, answers the server's questions, and cancels the task when it is cancelled.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use onetool_sdk::{ErrorKind, ToolError, Value};
use rmcp::model::{
    CancelTaskParams, CancelTaskRequest, ClientRequest, CreateTaskResult, CustomRequest, ErrorCode, GetTaskParams,
    GetTaskRequest, InputRequests, ServerResult, UpdateTaskParams, UpdateTaskRequest,
};
use serde_json::{Map, Value as Json, json};

use super::calls::{Asks, CallLink};
use super::connection::{Connection, Failure, Waiting};
use super::pack::ToolRoute;
use super::requests::{Attempt, Request};
use super::result::loose_tool_value;
use super::settings::limits;
use super::text::clean;

/// Whether a server refused a call because it is not a task. Such a call had no effect.
pub(super) fn is_demanded(attempt: &Result<ServerResult, Attempt>) -> bool {
    match attempt {
        Err(Attempt::Failed(Failure::Rejected(error))) => {
            error.code == ErrorCode::METHOD_NOT_FOUND && error.message.contains("task")
        }
        // The reference implementation reports every error as a failed tool.
        Ok(ServerResult::CallToolResult(result)) if result.is_error == Some(true) => {
            let says = |text: &str| text.starts_with("MCP error -32601:") && text.contains("task");
            result.content.len() == 1 && result.content[0].as_text().is_some_and(|text| says(&text.text))
        }
        _ => false,
    }
}

/// The status of a task, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    Working,
    /// Its result may be requested: it is available, or the question that blocks it comes with it.
    Ripe,
    Cancelled,
}

impl Status {
    fn of(task: &Json) -> Self {
        match task.get("status").and_then(Json::as_str) {
            Some("working") => Self::Working,
            Some("cancelled") => Self::Cancelled,
            _ => Self::Ripe,
        }
    }
}

impl Request<'_> {
    /// Calls a tool as a task and waits for the result. Boxed: few calls are tasks, and all would pay for its size.
    pub(super) fn task<'a>(
        &'a self,
        route: &'a ToolRoute,
        arguments: Map<String, Json>,
    ) -> BoxFuture<'a, Result<Value, ToolError>> {
        Box::pin(self.as_task(route, arguments))
    }

    async fn as_task(&self, route: &ToolRoute, arguments: Map<String, Json>) -> Result<Value, ToolError> {
        let link = CallLink::new(self.ctx, Asks::Other);
        let kept = u64::try_from(limits::TASK_KEPT.as_millis()).unwrap_or(u64::MAX);
        let params = json!({"name": route.original, "arguments": arguments, "task": {"ttl": kept}});
        let created = self.send_json(&|| custom("tools/call", params.clone()), &link).await?;
        let Some(task) = created.get("task") else { return loose_tool_value(&created, route.reading) };
        let Some(id) = task.get("taskId").and_then(Json::as_str) else {
            let reason = "it made a task without an id".to_owned();
            return Err(self.failed(Failure::Unusable(reason)));
        };
        // Tasks are bound to the connection on which they were created.
        let connection = self.server.connection(self.ctx).await?;
        let mut left_behind = LeftBehind { connection: Some(connection), id: id.to_owned() };
        let result = Box::pin(self.result_of(id, task, &link)).await;
        if result.is_ok() {
            left_behind.connection = None;
        }
        loose_tool_value(&result?, route.reading)
    }

    async fn result_of(&self, id: &str, task: &Json, link: &Arc<CallLink>) -> Result<Json, ToolError> {
        let mut status = self.heard(task, link);
        let mut pause = pause_of(task);
        let (started, at_most) = (Instant::now(), self.server.settings.timeout * limits::PROGRESS_STRETCH);
        while status == Status::Working {
            if started.elapsed() > at_most {
                return Err(self.failed(Failure::Timeout(at_most)));
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.ctx.cancel.cancelled() => return Err(self.failed(Failure::Cancelled)),
            }
            let task = self.look(id).await?;
            status = self.heard(&task, link);
            pause = pause_of(&task);
        }
        if status == Status::Cancelled {
            let message = format!("the server cancelled {} itself", self.function);
            return Err(ToolError::new(ErrorKind::Upstream { status: None }, message));
        }
        // After a question, the server's timeout starts over.
        let watching = async {
            loop {
                tokio::time::sleep(pause).await;
                match self.look(id).await {
                    Ok(task) => drop(self.heard(&task, link)),
                    Err(_) => std::future::pending().await,
                }
            }
        };
        let asking = || custom("tasks/result", json!({"taskId": id}));
        tokio::select! {
            result = self.send_json(&asking, link) => result,
            never = watching => never,
        }
    }

    /// Waits for the result of a task that a server created for a call by itself. Boxed for the same reason.
    pub(super) fn started_task<'a>(
        &'a self,
        route: &'a ToolRoute,
        created: CreateTaskResult,
    ) -> BoxFuture<'a, Result<Value, ToolError>> {
        Box::pin(async move {
            let id = created.task.task_id.clone();
            let link = CallLink::new(self.ctx, Asks::Other);
            let connection = self.server.connection(self.ctx).await?;
            let mut left_behind = LeftBehind { connection: Some(connection), id: id.clone() };
            let seed = serde_json::to_value(&created.task).unwrap_or_default();
            let result = Box::pin(self.state_of(&id, seed, &link)).await;
            if result.is_ok() {
                left_behind.connection = None;
            }
            loose_tool_value(&result?, route.reading)
        })
    }

    /// Polls a task of the extension until its state contains the result.
    async fn state_of(&self, id: &str, seed: Json, link: &Arc<CallLink>) -> Result<Json, ToolError> {
        let upstream = |message: String| ToolError::new(ErrorKind::Upstream { status: None }, message);
        let (mut started, at_most) = (Instant::now(), self.server.settings.timeout * limits::PROGRESS_STRETCH);
        let mut answered: HashSet<String> = HashSet::new();
        let mut task = seed;
        loop {
            self.heard(&task, link);
            match task.get("status").and_then(Json::as_str) {
                // The state in the answer to the call has no result yet.
                Some("completed") if task.get("result").is_some() => return Ok(task["result"].take()),
                Some("failed") if task.get("error").is_some() => {
                    let message = task["error"].get("message").and_then(Json::as_str).unwrap_or("it failed");
                    let message = self.server.redactor.show(message, limits::ERROR_CHARS);
                    return Err(upstream(format!("{}: {message}", self.function)));
                }
                Some("cancelled") => return Err(upstream(format!("the server cancelled {} itself", self.function))),
                Some("input_required") => {
                    let wanted: InputRequests =
                        serde_json::from_value(task["inputRequests"].take()).unwrap_or_default();
                    let new: InputRequests = wanted.into_iter().filter(|(name, _)| !answered.contains(name)).collect();
                    if !new.is_empty() {
                        answered.extend(new.keys().cloned());
                        let asked = Instant::now();
                        let params = UpdateTaskParams::new(id, self.answers(new, link).await?);
                        started += asked.elapsed();
                        let update = || ClientRequest::UpdateTaskRequest(UpdateTaskRequest::new(params.clone()));
                        self.send_json(&update, link).await?;
                    }
                }
                _ => {}
            }
            if started.elapsed() > at_most {
                return Err(self.failed(Failure::Timeout(at_most)));
            }
            tokio::select! {
                () = tokio::time::sleep(pause_of(&task)) => {}
                () = self.ctx.cancel.cancelled() => return Err(self.failed(Failure::Cancelled)),
            }
            let look = || ClientRequest::GetTaskRequest(GetTaskRequest::new(GetTaskParams::new(id)));
            task = self.send_json(&look, &CallLink::new(self.ctx, Asks::Other)).await?;
        }
    }

    async fn look(&self, id: &str) -> Result<Json, ToolError> {
        let link = CallLink::new(self.ctx, Asks::Other);
        self.send_json(&|| custom("tasks/get", json!({"taskId": id})), &link).await
    }

    /// Any answer about a task is a sign of life; its status message is progress.
    fn heard(&self, task: &Json, link: &CallLink) -> Status {
        let says = task.get("statusMessage").and_then(Json::as_str).unwrap_or_default();
        link.tell(&clean(&self.server.redactor.show(says, limits::REASON_CHARS), limits::REASON_CHARS));
        Status::of(task)
    }
}

/// How long to wait before polling again.
fn pause_of(task: &Json) -> Duration {
    let wanted = task.get("pollInterval").or_else(|| task.get("pollIntervalMs"));
    let wanted = wanted.and_then(Json::as_u64).map(Duration::from_millis);
    wanted.unwrap_or(limits::TASK_POLL).clamp(limits::TASK_POLL_LEAST, limits::TASK_POLL_MOST)
}

fn custom(method: &str, params: Json) -> ClientRequest {
    ClientRequest::CustomRequest(CustomRequest::new(method, Some(params)))
}

/// A task whose result no one waits for any more: it is cancelled on drop.
struct LeftBehind {
    connection: Option<Arc<Connection>>,
    id: String,
}

impl Drop for LeftBehind {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let request = ClientRequest::CancelTaskRequest(CancelTaskRequest::new(CancelTaskParams::new(&self.id)));
            runtime.spawn(async move {
                let waiting = Waiting::Ours { timeout: limits::CANCEL_NOTICE };
                if let Err(failure) = connection.request(request, waiting).await {
                    tracing::debug!(reason = failure.reason(), "a task that nobody waits for was not cancelled");
                }
            });
        }
    }
}
