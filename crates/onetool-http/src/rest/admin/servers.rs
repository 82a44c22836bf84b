//! MCP servers and Python workers: their state, their logs, and restarts.

use axum::Json;
use axum::extract::{Path, Request};
use axum::http::StatusCode;
use utoipa_axum::routes;

use super::super::bundles::blocking;
use super::super::input;
use super::super::model::ErrorReply;
use super::super::routes::Routes;
use super::AdminState;
use super::model::{AcceptBody, ChangedTool, LogReply, PinsReply, ServersReply, SignInReply, SignInRequest};
use crate::ApiError;

pub(super) fn routes() -> Routes {
    Routes::default()
        .admin(routes!(list))
        .admin(routes!(log))
        .admin(routes!(restart))
        .admin(routes!(login))
        .admin(routes!(logout))
        .admin(routes!(pins))
        .admin(routes!(accept))
}

/// Servers and workers.
#[utoipa::path(get, path = "/api/servers", tag = "servers", responses(
    (status = 200, body = ServersReply),
))]
async fn list(state: AdminState) -> Json<ServersReply> {
    Json(ServersReply { servers: state.admin.operations.servers() })
}

/// The last log lines of a server or worker, as far as the log level keeps them.
#[utoipa::path(get, path = "/api/servers/{name}/log", tag = "servers", params(("name" = String, Path)), responses(
    (status = 200, body = LogReply),
    (status = 404, body = ErrorReply),
))]
async fn log(state: AdminState, Path(name): Path<String>) -> Result<Json<LogReply>, ApiError> {
    let lines = blocking(move || Ok(state.admin.operations.log_of(&name)?)).await?;
    Ok(Json(LogReply { lines }))
}

/// Reconnects a server, or restarts a worker with its next call.
#[utoipa::path(post, path = "/api/servers/{name}/restart", tag = "servers", params(("name" = String, Path)), responses(
    (status = 204, description = "it starts"),
    (status = 404, body = ErrorReply),
    (status = 409, description = "it is disabled", body = ErrorReply),
))]
async fn restart(state: AdminState, Path(name): Path<String>) -> Result<StatusCode, ApiError> {
    state.admin.operations.restart(&name).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Begins to sign in to a server, or completes the sign-in with the browser's callback.
#[utoipa::path(post, path = "/api/servers/{name}/login", tag = "servers", params(("name" = String, Path)),
    request_body = Option<SignInRequest>, responses(
    (status = 200, body = SignInReply),
    (status = 400, body = ErrorReply),
    (status = 404, body = ErrorReply),
    (status = 409, description = "it did not work, or there is no sign-in", body = ErrorReply),
    (status = 413, body = ErrorReply),
    (status = 415, body = ErrorReply),
))]
async fn login(state: AdminState, Path(name): Path<String>, request: Request) -> Result<Json<SignInReply>, ApiError> {
    let body: Option<SignInRequest> = input::optional_json(request, state.served.server.api.max_body_bytes).await?;
    let operations = &state.admin.operations;
    if let Some(callback) = body.and_then(|body| body.callback) {
        operations.finish_sign_in(&name, &callback).await?;
        return Ok(Json(SignInReply { signed_in: true, url: None }));
    }
    let url = operations.sign_in(&name).await?;
    Ok(Json(SignInReply { signed_in: false, url: Some(url) }))
}

/// Signs out of a server: its tokens are revoked where that is possible, and forgotten.
#[utoipa::path(post, path = "/api/servers/{name}/logout", tag = "servers", params(("name" = String, Path)), responses(
    (status = 200, body = SignInReply),
    (status = 404, body = ErrorReply),
    (status = 409, description = "it did not work, or there is no sign-in", body = ErrorReply),
))]
async fn logout(state: AdminState, Path(name): Path<String>) -> Result<Json<SignInReply>, ApiError> {
    state.admin.operations.sign_out(&name).await?;
    Ok(Json(SignInReply { signed_in: false, url: None }))
}

/// Tools of servers that differ from their accepted versions, as a diff.
#[utoipa::path(get, path = "/api/pins", tag = "servers", responses(
    (status = 200, body = PinsReply),
))]
async fn pins(state: AdminState) -> Result<Json<PinsReply>, ApiError> {
    let pins = blocking(move || Ok(state.admin.operations.changed_tools())).await?;
    Ok(Json(PinsReply { pins }))
}

/// Accepts a server's tools as they are now, or one of them.
#[utoipa::path(post, path = "/api/pins/{server}/accept", tag = "servers", params(
    ("server" = String, Path, description = "the server, or server.tool"),
    ), request_body = Option<AcceptBody>, responses(
    (status = 204, description = "accepted"),
    (status = 400, body = ErrorReply),
    (status = 404, body = ErrorReply),
    (status = 409, description = "its tools are unknown, or have changed since they were reviewed", body = ErrorReply),
    (status = 413, body = ErrorReply),
    (status = 415, body = ErrorReply),
))]
async fn accept(state: AdminState, Path(server): Path<String>, request: Request) -> Result<StatusCode, ApiError> {
    let body: Option<AcceptBody> = input::optional_json(request, state.served.server.api.max_body_bytes).await?;
    let operations = state.admin.operations.clone();
    if let Some(digests) = body.and_then(|body| body.digests) {
        let (asked, wanted) = (operations.clone(), server.clone());
        let changed = blocking(move || Ok(asked.changed_tools())).await?;
        let is_meant = |tool: &ChangedTool| tool.server == wanted || format!("{}.{}", tool.server, tool.tool) == wanted;
        if changed.iter().filter(|tool| is_meant(tool)).any(|tool| !digests.contains(&tool.digest)) {
            return Err(ApiError::conflict("it has changed again since you looked at it").with_hint("look at it again"));
        }
    }
    operations.accept_changes(&server).await?;
    Ok(StatusCode::NO_CONTENT)
}
