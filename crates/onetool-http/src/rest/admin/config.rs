//! The configuration with its problems, and secrets that can be set but never read.

use axum::Json;
use axum::extract::{Path, Request};
use axum::http::StatusCode;
use utoipa_axum::routes;

use super::super::bundles::blocking;
use super::super::input;
use super::super::model::ErrorReply;
use super::super::routes::Routes;
use super::AdminState;
use super::model::{ConfigReply, SecretBody, SecretsReply};
use crate::ApiError;

const MAX_NAME: usize = 128;
const MAX_VALUE: usize = 64 << 10;

pub(super) fn routes() -> Routes {
    Routes::default()
        .admin(routes!(get))
        .admin(routes!(reload))
        .admin(routes!(secrets))
        .admin(routes!(set_secret, remove_secret))
}

/// The files, their problems, and the names of tokens.
#[utoipa::path(get, path = "/api/config", tag = "configuration", responses(
    (status = 200, body = ConfigReply),
))]
async fn get(state: AdminState) -> Json<ConfigReply> {
    Json(state.admin.operations.configuration())
}

/// Reads the configuration again.
#[utoipa::path(post, path = "/api/config/reload", tag = "configuration", responses(
    (status = 204, description = "read"),
    (status = 422, description = "a file cannot be understood; the last good state stays", body = ErrorReply),
))]
async fn reload(state: AdminState) -> Result<StatusCode, ApiError> {
    blocking(move || Ok(state.admin.operations.reload()?)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The names of secrets.
#[utoipa::path(get, path = "/api/secrets", tag = "configuration", responses(
    (status = 200, body = SecretsReply),
))]
async fn secrets(state: AdminState) -> Json<SecretsReply> {
    Json(SecretsReply { secrets: state.admin.operations.secrets() })
}

/// Sets a secret. Its value is never returned.
#[utoipa::path(put, path = "/api/secrets/{name}", tag = "configuration", request_body = SecretBody,
    params(("name" = String, Path, pattern = "^[A-Za-z_][A-Za-z0-9_.-]{0,127}$")), responses(
    (status = 204, description = "written"),
    (status = 400, body = ErrorReply),
    (status = 409, description = "the file of secrets cannot be changed", body = ErrorReply),
    (status = 413, body = ErrorReply),
    (status = 415, body = ErrorReply),
))]
async fn set_secret(state: AdminState, Path(name): Path<String>, request: Request) -> Result<StatusCode, ApiError> {
    check_name(&name)?;
    let body: SecretBody = input::json(request, state.served.server.api.max_body_bytes).await?;
    if body.value.is_empty() || body.value.len() > MAX_VALUE {
        return Err(ApiError::invalid(format!("a secret's value has 1 to {MAX_VALUE} bytes")));
    }
    blocking(move || Ok(state.admin.operations.set_secret(&name, Some(&body.value))?)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Removes a secret.
#[utoipa::path(delete, path = "/api/secrets/{name}", tag = "configuration", params(("name" = String, Path)), responses(
    (status = 204, description = "removed"),
    (status = 400, body = ErrorReply),
    (status = 404, body = ErrorReply),
    (status = 409, description = "the file of secrets cannot be changed", body = ErrorReply),
))]
async fn remove_secret(state: AdminState, Path(name): Path<String>) -> Result<StatusCode, ApiError> {
    check_name(&name)?;
    blocking(move || Ok(state.admin.operations.set_secret(&name, None)?)).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn check_name(name: &str) -> Result<(), ApiError> {
    let is_first = |c: char| c.is_ascii_alphabetic() || c == '_';
    let is_next = |c: char| is_first(c) || c.is_ascii_digit() || c == '-' || c == '.';
    if name.len() <= MAX_NAME && name.starts_with(is_first) && name.chars().all(is_next) {
        Ok(())
    } else {
        Err(ApiError::invalid(format!(
            "a secret's name has letters, digits, '_', '-' and '.', begins with a letter or '_', and has at most {MAX_NAME} characters"
        )))
    }
}
