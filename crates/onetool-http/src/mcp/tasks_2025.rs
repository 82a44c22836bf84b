//! Tasks as defined by revision 2025-11-25: a client asks for one with its call, and fetches the result later.
//!
//! The library supports only the later extension. So messages that it would misread reach the handler under our own
//! method names, and results that its types cannot express are answered as plain JSON.

use std::time::Duration;

use onetool_state::runs::{RunOrigin, RunRecord, RunStatus};
use rmcp::model::{
    CallToolRequestParams, CustomRequest, CustomResult, ErrorCode, JsonObject, JsonRpcMessage, ProtocolVersion,
    ServerJsonRpcMessage, ServerResult,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::{Value as Json, json};

use super::keyed::{client_of, converse, idempotency_key, not_started};
use super::preferences::{Delivery, ReplyPreferences};
use super::progress::ClientProgress;
use super::runs::{principal, result_of};
use super::tasks::refused;
use super::{Handler, lines};
use crate::BackgroundSettings;
use crate::background::{StartRun, Started, without_reply};

/// Prefix for the methods that the library would misread.
const PREFIX: &str = "onetool/2025/";
/// Present only in requests of the later revision.
const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";
/// Number of tasks per page.
const PAGE: usize = 50;
/// How long one wait for a task of another process lasts.
const PATIENCE: Duration = Duration::from_mins(1);

/// Whether the request uses the revision that has such tasks.
fn is_spoken(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_some_and(|version| version == ProtocolVersion::V_2025_11_25)
}

/// Renames the method of a message that the library would misread: it knows only `tasks/get` and `tasks/cancel` of the
/// later revision, drops the request for a task from `tools/call`, and has no place for `execution` in a list of tools.
/// `None` for every other message.
pub(super) fn rewritten(message: &[u8]) -> Option<Vec<u8>> {
    const HINTS: [&[u8]; 3] = [b"\"task\"", b"\"tasks/", b"\"tools/list\""];
    if !HINTS.into_iter().any(|hint| lines::contains(message, hint)) {
        return None;
    }
    let mut message: Json = serde_json::from_slice(message).ok()?;
    let method = message.get("method")?.as_str()?.to_owned();
    let params = message.get("params");
    let is_later = params.and_then(|params| params.get("_meta")?.get(VERSION_KEY)).is_some();
    let wants_task = || params.and_then(|params| params.get("task")).is_some_and(Json::is_object);
    let is_ours = match method.as_str() {
        "tasks/get" | "tasks/cancel" | "tasks/result" | "tasks/list" | "tools/list" => true,
        "tools/call" => wants_task(),
        _ => false,
    };
    if is_later || !is_ours || message.get("id").is_none_or(Json::is_null) {
        return None;
    }
    message["method"] = format!("{PREFIX}{method}").into();
    serde_json::to_vec(&message).ok()
}

/// Returns a method's name as the client sent it.
pub(super) fn original(method: &str) -> &str {
    method.strip_prefix(PREFIX).unwrap_or(method)
}

/// Adds the capability that the library's type lacks to the answer to `initialize`.
pub(super) fn offered(message: ServerJsonRpcMessage) -> ServerJsonRpcMessage {
    match message {
        JsonRpcMessage::Response(mut response) => {
            if let ServerResult::InitializeResult(result) = &response.result
                && result.protocol_version == ProtocolVersion::V_2025_11_25
                && let Ok(mut json) = serde_json::to_value(result)
            {
                json["capabilities"]["tasks"] = json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}});
                response.result = ServerResult::CustomResult(CustomResult::new(json));
            }
            JsonRpcMessage::Response(response)
        }
        other => other,
    }
}

/// A request that concerns tasks.
enum Request {
    Create { params: CallToolRequestParams, task: Json },
    Get(String),
    Result(String),
    Cancel(String),
    List(Option<String>),
    ListTools,
}

impl Request {
    fn of(method: &str, params: Json) -> Result<Self, ErrorData> {
        let text = |key: &str| params.get(key).and_then(Json::as_str).map(str::to_owned);
        let id = || {
            text("taskId").ok_or_else(|| ErrorData::invalid_params(format!("'{method}' needs 'taskId', a text"), None))
        };
        Ok(match method {
            "tasks/get" => Self::Get(id()?),
            "tasks/result" => Self::Result(id()?),
            "tasks/cancel" => Self::Cancel(id()?),
            "tasks/list" => Self::List(text("cursor")),
            "tools/call" => {
                let task = params.get("task").cloned().unwrap_or_default();
                let params = serde_json::from_value(params).map_err(|_| {
                    let form = "{\"name\": \"run\", \"arguments\": {\"command\": \"…\"}, \"task\": {}}";
                    ErrorData::invalid_params(format!("the parameters of 'tools/call' must be {form}"), None)
                })?;
                Self::Create { params, task }
            }
            _ => Self::ListTools,
        })
    }
}

impl Handler {
    /// Answers a request that was rewritten; `None` for any other.
    pub(super) async fn answer_2025(
        &self,
        request: &CustomRequest,
        context: &RequestContext<RoleServer>,
    ) -> Option<Result<CustomResult, ErrorData>> {
        let method = request.method.strip_prefix(PREFIX)?;
        if method != "tools/list" && !is_spoken(context) {
            return None;
        }
        let request = Request::of(method, request.params.clone().unwrap_or_default());
        let answer = match request {
            Ok(request) => Box::pin(self.handle_task_request(request, context)).await,
            Err(error) => Err(error),
        };
        Some(answer.map(CustomResult::new))
    }

    async fn handle_task_request(
        &self,
        request: Request,
        context: &RequestContext<RoleServer>,
    ) -> Result<Json, ErrorData> {
        let settings = self.shared.background.settings();
        Ok(match request {
            Request::Create { params, task } => self.create_task(params, &task, context).await?,
            Request::Get(id) => {
                let (owner, id) = self.task_of(&id, context).await?;
                let view = self.shared.background.get(&owner, &id).await.map_err(|error| refused(&error))?;
                described(&view.record, &settings)
            }
            Request::Result(id) => self.task_result(&id, context).await?,
            Request::Cancel(id) => {
                let (owner, which) = self.task_of(&id, context).await?;
                let view = self.shared.background.get(&owner, &which).await.map_err(|error| refused(&error))?;
                if view.record.status.is_final() {
                    let status = status(view.record.status);
                    return Err(ErrorData::invalid_params(format!("the task has ended already: {status}"), None));
                }
                described(&self.end_task(&id, context).await?, &settings)
            }
            Request::List(cursor) => {
                let background = &self.shared.background;
                let owner = background.owner(principal(context)).await.map_err(|error| refused(&error))?;
                let page = background.list(&owner, cursor, PAGE).await.map_err(|error| refused(&error))?;
                let tasks: Vec<Json> = page.runs.iter().map(|run| described(run, &settings)).collect();
                match page.next {
                    Some(next) => json!({"tasks": tasks, "nextCursor": next}),
                    None => json!({"tasks": tasks}),
                }
            }
            Request::ListTools => {
                let mut tool = serde_json::to_value(self.listed_tool(context).await).unwrap_or_default();
                if is_spoken(context) {
                    tool["execution"] = json!({"taskSupport": "optional"});
                }
                json!({"tools": [tool]})
            }
        })
    }

    async fn create_task(
        &self,
        params: CallToolRequestParams,
        task: &Json,
        context: &RequestContext<RoleServer>,
    ) -> Result<Json, ErrorData> {
        let command = match self.command_of(&params)? {
            Ok(command) => command.to_owned(),
            Err(refusal) => {
                return serde_json::to_value(refusal)
                    .map_err(|error| ErrorData::new(ErrorCode::INTERNAL_ERROR, error.to_string(), None));
            }
        };
        let background = &self.shared.background;
        let owner = background.owner(principal(context)).await.map_err(|error| refused(&error))?;
        let start = StartRun {
            owner,
            command,
            origin: RunOrigin::Task,
            client: client_of(context),
            key: idempotency_key(context)?,
            ttl: task.get("ttl").and_then(Json::as_u64).map(Duration::from_millis),
            tags: Vec::new(),
        };
        let record = match background.run(start).await {
            Ok(Started::New(run, record)) => {
                if let Some(token) = context.meta.get_progress_token() {
                    // The token stays valid until the task has ended.
                    let (_, sink) = ClientProgress::start(context.peer.clone(), token);
                    run.listen(Some(sink));
                }
                record
            }
            Ok(Started::Before(record) | Started::Queued(record)) => record,
            Err(error) => {
                let told = not_started(error);
                let message = told.content.first().and_then(|block| block.as_text().map(|it| it.text.clone()));
                return Err(ErrorData::new(ErrorCode::INTERNAL_ERROR, message.unwrap_or_default(), None));
            }
        };
        Ok(json!({"task": described(&record, &background.settings())}))
    }

    /// Waits until the task has ended; meanwhile its questions are asked on this connection.
    async fn task_result(&self, id: &str, context: &RequestContext<RoleServer>) -> Result<Json, ErrorData> {
        let (owner, id) = self.task_of(id, context).await?;
        let background = &self.shared.background;
        let related = JsonObject::from_iter([(RELATED_TASK.to_owned(), json!({"taskId": id.as_str()}))]);
        let (reply, record) = loop {
            if let Some(run) = background.find(&owner, &id) {
                tokio::select! {
                    reply = converse(&run, &context.peer, Some(&related)) => {
                        let view = background.get(&owner, &id).await.map_err(|error| refused(&error))?;
                        if view.record.status != RunStatus::Cancelled {
                            break ((*reply).clone(), view.record);
                        }
                        break (without_reply(&view.record), view.record);
                    }
                    () = context.ct.cancelled() => return Err(ErrorData::invalid_request("cancelled", None)),
                }
            }
            let view = background.wait(&owner, &id, PATIENCE).await.map_err(|error| refused(&error))?;
            if view.record.status.is_final() {
                let kept = background.reply(&owner, &id).await.map_err(|error| refused(&error))?;
                break (kept.unwrap_or_else(|| without_reply(&view.record)), view.record);
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        };
        let preferences = ReplyPreferences::of(context).or(ReplyPreferences::of_task(&record));
        let result = Delivery::new(self, preferences, context).result(result_of(reply)).await;
        let mut result = serde_json::to_value(result).unwrap_or_default();
        if let Json::Object(fields) = &mut result {
            fields.remove("resultType");
            fields.insert("_meta".to_owned(), Json::Object(related));
        }
        Ok(result)
    }
}

fn status(status: RunStatus) -> &'static str {
    match status {
        RunStatus::Working | RunStatus::Queued | RunStatus::Suspended => "working",
        RunStatus::InputRequired => "input_required",
        RunStatus::Completed => "completed",
        RunStatus::Failed | RunStatus::Interrupted => "failed",
        RunStatus::Cancelled => "cancelled",
    }
}

fn described(record: &RunRecord, settings: &BackgroundSettings) -> Json {
    let mut task = json!({
        "taskId": record.id.as_str(),
        "status": status(record.status),
        "createdAt": record.created_at.to_rfc3339(),
        "lastUpdatedAt": record.updated_at.to_rfc3339(),
        "ttl": record.ttl_ms,
        "pollInterval": u64::try_from(settings.poll_interval.as_millis()).unwrap_or(u64::MAX),
    });
    if let Some(message) = &record.message {
        task["statusMessage"] = json!(message);
    }
    task
}
