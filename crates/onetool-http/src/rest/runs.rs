//! Background runs: started with `POST /runs`, then inspected, awaited, cancelled and fetched by their owner.

use std::time::Duration;

use axum::extract::{Extension, Json, Path, RawQuery, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use chrono::{DateTime, Utc};
use onetool_run::RunReply;
use onetool_run::durable::Unknown;
use onetool_sdk::Caller;
use onetool_state::runs::{Owner, ReportedCall, RunId, RunOrigin, RunRecord, RunStatus, RunStoreError};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::routes;

use super::RestState;
use super::admin::PartRow;
use super::input;
use super::model::ErrorReply;
use super::query::{self, PageSize};
use super::routes::Routes;
use crate::background::{RunClient, StartError, StartRun, Started, key};
use crate::mcp::ReplyPreferences;
use crate::{ApiError, Identity, Principal};

/// Maximum time that one request waits for a run.
const MAX_WAIT: Duration = Duration::from_mins(1);
/// Maximum number of tags per run, and bytes per tag.
const MAX_TAGS: usize = 16;
const MAX_TAG: usize = 100;

pub(super) fn routes() -> Routes {
    Routes::default()
        .invoke(routes!(start, list))
        .invoke(routes!(get, delete))
        .invoke(routes!(result))
        .invoke(routes!(cancel))
        .invoke(routes!(resume))
        .invoke(routes!(abandon))
}

/// A run to start in the background.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StartBody {
    /// Python code, as for the tool `run`.
    pub command: String,
    /// How long the run is kept, in seconds from now.
    #[serde(default)]
    pub ttl_seconds: Option<u32>,
    /// What the server that executes it must have: `pack:github`, `server:db`, `package:pandas`, or a word of
    /// `server.tags`. It stays queued until a server that has all of them is free.
    #[serde(default)]
    pub tags: Vec<String>,
}

/// How an interrupted run is resumed.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResumeBody {
    /// How to handle calls whose outcome is unknown: `repeat` makes them again, `raise` raises an error in the code in
    /// their place.
    #[serde(default)]
    #[schema(value_type = String)]
    pub unknown: Unknown,
}

/// A call, for people.
#[derive(Debug, Serialize, ToSchema)]
pub struct CallBody {
    pub number: u64,
    pub tool: String,
    /// As JSON, shortened.
    pub arguments: String,
}

impl From<ReportedCall> for CallBody {
    fn from(call: ReportedCall) -> Self {
        Self { number: call.number, tool: call.tool, arguments: call.arguments }
    }
}

/// The state of a background run.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunBody {
    pub id: String,
    /// `queued`, `working`, `input_required`, `suspended`, `completed`, `failed`, `cancelled` or `interrupted`.
    #[schema(value_type = String)]
    pub status: RunStatus,
    /// The first line of its command.
    pub title: String,
    /// `rest`, `task` or `call`: how it was started.
    #[schema(value_type = String)]
    pub origin: RunOrigin,
    /// Its last progress message, or why it has no reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<DateTime<Utc>>,
    /// How long it is kept, from its creation.
    pub ttl_ms: u64,
    /// The whole command, if a single run was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The permission that a suspended run waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval: Option<String>,
    /// Of an interrupted run: completed calls, which are not repeated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub done: Option<Vec<CallBody>>,
    /// Of an interrupted run: calls whose outcome is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown: Option<Vec<CallBody>>,
}

impl From<RunRecord> for RunBody {
    fn from(run: RunRecord) -> Self {
        let bodies = |calls: Vec<ReportedCall>| calls.into_iter().map(CallBody::from).collect();
        let (done, unknown) = run.calls.map(|calls| (bodies(calls.done), bodies(calls.unknown))).unzip();
        Self {
            id: run.id.to_string(),
            status: run.status,
            title: run.title,
            origin: run.origin,
            message: run.message,
            created_at: run.created_at,
            updated_at: run.updated_at,
            finished_at: run.finished_at,
            ttl_ms: run.ttl_ms,
            command: None,
            tags: run.tags,
            approval: run.approval.filter(|_| run.status == RunStatus::Suspended),
            done,
            unknown,
        }
    }
}

/// A page of background runs, the newest first.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunListBody {
    pub runs: Vec<RunBody>,
    /// Asks for the next page. Absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_page_token: Option<String>,
}

/// The result of a background run.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResultBody {
    pub run: String,
    pub text: String,
    pub is_error: bool,
    pub parts: Vec<PartRow>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
struct RunListQuery {
    /// Sizes above 256 count as 256.
    #[serde(default)]
    #[param(value_type = u32, minimum = 1, default = 50)]
    page_size: PageSize,
    page_token: Option<String>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct WaitQuery {
    /// Waits this many seconds for the run to end; at most 60.
    #[serde(default)]
    #[param(minimum = 0, maximum = 60, default = 0)]
    wait: u32,
}

impl From<RunStoreError> for ApiError {
    fn from(error: RunStoreError) -> Self {
        let text = error.to_string();
        let (message, hint) = onetool_sdk::split_hint(&text);
        let error = match error {
            RunStoreError::NotFound => Self::not_found(message),
            RunStoreError::TooMany { .. } | RunStoreError::State(_) => Self::busy(message),
            RunStoreError::OtherCommand | RunStoreError::NotInterrupted(_) | RunStoreError::Lost => {
                Self::conflict(message)
            }
            RunStoreError::TooLarge { .. } => Self::too_large(message),
            RunStoreError::Cursor => Self::invalid("the page token is not valid"),
        };
        match hint {
            Some(hint) => error.with_hint(hint),
            None => error,
        }
    }
}

impl From<StartError> for ApiError {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Refused(refusal) => refusal.error.into(),
            StartError::Store(error) => error.into(),
        }
    }
}

async fn place(state: &RestState, principal: Principal, id: &str) -> Result<(Owner, RunId), ApiError> {
    Ok((state.background.owner(principal).await?, id.parse::<RunId>()?))
}

fn wait_of(query: Option<&str>) -> Result<Duration, ApiError> {
    let WaitQuery { wait } = query::parse(query)?;
    Ok(Duration::from_secs(wait.into()).min(MAX_WAIT))
}

fn checked_tags(tags: Vec<String>) -> Result<Vec<String>, ApiError> {
    let is_tag = |tag: &String| (1..=MAX_TAG).contains(&tag.len()) && !tag.chars().any(char::is_control);
    if tags.len() <= MAX_TAGS && tags.iter().all(is_tag) {
        return Ok(tags);
    }
    Err(ApiError::invalid(format!("tags are at most {MAX_TAGS} words of 1 to {MAX_TAG} bytes")))
}

pub(super) fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    let Some(given) = headers.get(key::HEADER) else { return Ok(None) };
    let given = given.to_str().map_err(|_| ApiError::invalid("the header Idempotency-Key is not plain text"))?;
    key::checked(given).map(Some).map_err(ApiError::invalid)
}

/// Starts a run in the background. With the header `Idempotency-Key` a repeated request is answered with the same run.
#[utoipa::path(post, path = "/runs", tag = "runs", request_body = StartBody,
    params(("Idempotency-Key" = Option<String>, Header, description = "the same key means the same run")), responses(
    (status = 202, description = "it was started; Location says where it is", body = RunBody),
    (status = 200, description = "it was started before", body = RunBody),
    (status = 400, body = ErrorReply),
    (status = 409, description = "the key was used for another command", body = ErrorReply),
    (status = 413, body = ErrorReply),
    (status = 415, body = ErrorReply),
    (status = 429, description = "the requester has reached a limit; see Retry-After", body = ErrorReply),
    (status = 503, description = "too many runs are under way, or the shared state is unavailable", body = ErrorReply),
))]
async fn start(
    State(state): State<RestState>,
    Extension(principal): Extension<Principal>,
    request: Request,
) -> Result<Response, ApiError> {
    let key = idempotency_key(request.headers())?;
    let ctx = Identity::of(request.extensions()).context(request.headers());
    let owner = state.background.owner(principal).await?;
    let requester = ctx.requester;
    let body: StartBody = input::json(request, state.served.server.api.max_body_bytes).await?;
    let run = StartRun {
        owner,
        command: body.command,
        origin: RunOrigin::Rest,
        client: RunClient {
            caller: Caller::Rest,
            owner: principal.owner(None),
            requester,
            capabilities: None,
            reply: ReplyPreferences::default(),
            trace: crate::trace::incoming(),
        },
        key,
        ttl: body.ttl_seconds.map(|seconds| Duration::from_secs(seconds.into())),
        tags: checked_tags(body.tags)?,
    };
    let (status, record) = match state.background.run(run).await? {
        Started::New(_, record) | Started::Queued(record) => (StatusCode::ACCEPTED, record),
        Started::Before(record) => (StatusCode::OK, record),
    };
    let location = HeaderValue::from_str(&format!("/runs/{}", record.id)).ok();
    let mut response = (status, Json(RunBody::from(record))).into_response();
    if let Some(location) = location {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

/// Lists background runs, the newest first.
#[utoipa::path(get, path = "/runs", tag = "runs", params(RunListQuery), responses(
    (status = 200, body = RunListBody),
    (status = 400, description = "a parameter or the page token is not valid", body = ErrorReply),
    (status = 503, body = ErrorReply),
))]
async fn list(
    State(state): State<RestState>,
    Extension(principal): Extension<Principal>,
    RawQuery(query): RawQuery,
) -> Result<Json<RunListBody>, ApiError> {
    let RunListQuery { page_size, page_token } = query::parse(query.as_deref())?;
    let owner = state.background.owner(principal).await?;
    let page = state.background.list(&owner, page_token, page_size.0).await?;
    Ok(Json(RunListBody { runs: page.runs.into_iter().map(RunBody::from).collect(), next_page_token: page.next }))
}

/// Returns the state of a background run. With `wait`, answers when the run has ended or needs input, or time is up.
#[utoipa::path(get, path = "/runs/{id}", tag = "runs", params(("id" = String, Path), WaitQuery), responses(
    (status = 200, body = RunBody),
    (status = 400, body = ErrorReply),
    (status = 404, body = ErrorReply),
    (status = 503, body = ErrorReply),
))]
async fn get(
    State(state): State<RestState>,
    Extension(principal): Extension<Principal>,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Json<RunBody>, ApiError> {
    let wait = wait_of(query.as_deref())?;
    let (owner, id) = place(&state, principal, &id).await?;
    let view = state.background.wait(&owner, &id, wait).await?;
    let command = state.background.command(&owner, &id).await.ok();
    Ok(Json(RunBody { command, ..RunBody::from(view.record) }))
}

/// Returns the result of a background run that has ended.
#[utoipa::path(get, path = "/runs/{id}/result", tag = "runs", params(("id" = String, Path), WaitQuery), responses(
    (status = 200, body = ResultBody),
    (status = 400, body = ErrorReply),
    (status = 404, body = ErrorReply),
    (status = 409, description = "it has not ended, or it ended without a result", body = ErrorReply),
    (status = 503, body = ErrorReply),
))]
async fn result(
    State(state): State<RestState>,
    Extension(principal): Extension<Principal>,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Json<ResultBody>, ApiError> {
    let wait = wait_of(query.as_deref())?;
    let (owner, id) = place(&state, principal, &id).await?;
    let record = state.background.wait(&owner, &id, wait).await?.record;
    if !record.status.is_final() {
        return Err(ApiError::conflict("the run has not ended").with_hint("ask again with ?wait=60"));
    }
    let reply = state.background.reply(&owner, &id).await?.filter(|_| record.status != RunStatus::Cancelled);
    let Some(RunReply { text, is_error, parts }) = reply else {
        let reason = record.message.unwrap_or_else(|| "no reason is known".to_owned());
        let error = ApiError::conflict(format!("the run ended without a result: {reason}"));
        return Err(match record.status {
            RunStatus::Interrupted => error.with_hint(format!(
                "GET /runs/{id} lists what was done and what is unknown; then POST /runs/{id}/resume or /runs/{id}/abandon"
            )),
            _ => error,
        });
    };
    Ok(Json(ResultBody { run: id.to_string(), text, is_error, parts: parts.into_iter().map(PartRow::from).collect() }))
}

/// Cancels a background run. One that has ended is not changed.
#[utoipa::path(post, path = "/runs/{id}/cancel", tag = "runs", params(("id" = String, Path)), responses(
    (status = 200, body = RunBody),
    (status = 404, body = ErrorReply),
    (status = 503, body = ErrorReply),
))]
async fn cancel(
    State(state): State<RestState>,
    Extension(principal): Extension<Principal>,
    Path(id): Path<String>,
) -> Result<Json<RunBody>, ApiError> {
    let (owner, id) = place(&state, principal, &id).await?;
    Ok(Json(state.background.cancel(&owner, &id).await?.into()))
}

/// Resumes an interrupted run: calls whose outcome is known are not repeated.
#[utoipa::path(post, path = "/runs/{id}/resume", tag = "runs", request_body = ResumeBody,
    params(("id" = String, Path)), responses(
    (status = 202, description = "it is queued until a server is free", body = RunBody),
    (status = 400, body = ErrorReply),
    (status = 404, body = ErrorReply),
    (status = 409, description = "it was not interrupted", body = ErrorReply),
    (status = 413, body = ErrorReply),
    (status = 415, body = ErrorReply),
    (status = 503, body = ErrorReply),
))]
async fn resume(
    State(state): State<RestState>,
    Extension(principal): Extension<Principal>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, ApiError> {
    let has_body = request.headers().get(header::CONTENT_LENGTH).is_none_or(|length| length != "0")
        && request.headers().contains_key(header::CONTENT_TYPE);
    let body: ResumeBody = if has_body {
        input::json(request, state.served.server.api.max_body_bytes).await?
    } else {
        ResumeBody::default()
    };
    let (owner, id) = place(&state, principal, &id).await?;
    let record = state.background.resume(&owner, &id, body.unknown).await?;
    Ok((StatusCode::ACCEPTED, Json(RunBody::from(record))).into_response())
}

/// Abandons an interrupted run.
#[utoipa::path(post, path = "/runs/{id}/abandon", tag = "runs", params(("id" = String, Path)), responses(
    (status = 200, body = RunBody),
    (status = 404, body = ErrorReply),
    (status = 409, description = "it was not interrupted", body = ErrorReply),
    (status = 503, body = ErrorReply),
))]
async fn abandon(
    State(state): State<RestState>,
    Extension(principal): Extension<Principal>,
    Path(id): Path<String>,
) -> Result<Json<RunBody>, ApiError> {
    let (owner, id) = place(&state, principal, &id).await?;
    Ok(Json(state.background.abandon(&owner, &id).await?.into()))
}

/// Cancels a background run and deletes it with its result.
#[utoipa::path(delete, path = "/runs/{id}", tag = "runs", params(("id" = String, Path)), responses(
    (status = 204, description = "it is gone"),
    (status = 404, body = ErrorReply),
    (status = 503, body = ErrorReply),
))]
async fn delete(
    State(state): State<RestState>,
    Extension(principal): Extension<Principal>,
    Path(id): Path<String>,
) -> Result<StatusCode, ApiError> {
    let (owner, id) = place(&state, principal, &id).await?;
    state.background.remove(&owner, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}
