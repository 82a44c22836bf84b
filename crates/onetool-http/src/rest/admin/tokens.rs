//! Named tokens: who may use this server. A token's text is returned only once, when it is created.

use std::time::Duration;

use axum::Json;
use axum::extract::{Path, Request};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use chrono::{DateTime, Utc};
use onetool_state::access_tokens::{NewToken, TokenError, TokenRecord};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::routes;

use super::super::bundles::blocking;
use super::super::input;
use super::super::model::ErrorReply;
use super::super::routes::Routes;
use super::AdminState;
use crate::ApiError;

pub(super) fn routes() -> Routes {
    Routes::default().admin(routes!(list, create)).admin(routes!(revoke))
}

/// A token to create.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct NewTokenBody {
    /// Letters, digits, `-`, `_` and `.`.
    name: String,
    /// `read`, `invoke`, `admin`; without any, `read` and `invoke`.
    #[serde(default)]
    scopes: Vec<String>,
    #[serde(default)]
    groups: Vec<String>,
    /// Without it the token does not expire.
    #[serde(default)]
    expires_in_seconds: Option<u64>,
}

/// Information about a token.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct NamedTokenRow {
    id: String,
    name: String,
    scopes: Vec<String>,
    groups: Vec<String>,
    created_at: DateTime<Utc>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<DateTime<Utc>>,
    /// Accurate to a few minutes.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_used_at: Option<DateTime<Utc>>,
    is_expired: bool,
}

/// A token that was just created.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct NewTokenReply {
    /// The token itself. It is not stored and cannot be shown again.
    token: String,
    #[serde(flatten)]
    record: NamedTokenRow,
}

#[derive(Debug, Serialize, ToSchema)]
struct NamedTokensReply {
    tokens: Vec<NamedTokenRow>,
}

impl From<&TokenRecord> for NamedTokenRow {
    fn from(record: &TokenRecord) -> Self {
        Self {
            id: record.id.clone(),
            name: record.name.clone(),
            scopes: record.scopes.clone(),
            groups: record.groups.clone(),
            created_at: record.created_at,
            expires_at: record.expires_at,
            last_used_at: record.last_used_at,
            is_expired: record.is_expired(Utc::now()),
        }
    }
}

impl From<TokenError> for ApiError {
    fn from(error: TokenError) -> Self {
        let text = error.to_string();
        let (message, hint) = onetool_sdk::split_hint(&text);
        let answer = match error {
            TokenError::Invalid(_) => Self::invalid(message),
            TokenError::Exists(_) => Self::conflict(message),
            TokenError::NotFound(_) => Self::not_found(message),
            TokenError::State(_) => Self::busy(message),
        };
        match hint {
            Some(hint) => answer.with_hint(hint),
            None => answer,
        }
    }
}

/// Named tokens, without the tokens themselves.
#[utoipa::path(get, path = "/api/tokens", tag = "access", responses(
    (status = 200, body = NamedTokensReply),
    (status = 503, body = ErrorReply),
))]
async fn list(state: AdminState) -> Result<Json<NamedTokensReply>, ApiError> {
    let tokens = state.served.tokens.clone();
    let all = blocking(move || Ok(tokens.list()?)).await?;
    Ok(Json(NamedTokensReply { tokens: all.iter().map(|record| NamedTokenRow::from(&**record)).collect() }))
}

/// Creates a token. It is shown only in this reply.
#[utoipa::path(post, path = "/api/tokens", tag = "access", request_body = NewTokenBody, responses(
    (status = 201, body = NewTokenReply),
    (status = 400, body = ErrorReply),
    (status = 409, description = "there is a token of this name", body = ErrorReply),
    (status = 413, body = ErrorReply),
    (status = 415, body = ErrorReply),
    (status = 503, body = ErrorReply),
))]
async fn create(state: AdminState, request: Request) -> Result<Response, ApiError> {
    let body: NewTokenBody = input::json(request, state.served.server.api.max_body_bytes).await?;
    let new = NewToken {
        name: body.name,
        scopes: if body.scopes.is_empty() { vec!["read".to_owned(), "invoke".to_owned()] } else { body.scopes },
        groups: body.groups,
        expires_in: body.expires_in_seconds.map(Duration::from_secs),
    };
    let tokens = state.served.tokens.clone();
    let (token, record) = blocking(move || Ok(tokens.create(new)?)).await?;
    Ok((StatusCode::CREATED, Json(NewTokenReply { token, record: NamedTokenRow::from(&record) })).into_response())
}

/// Revokes a token. Within a second, it is invalid everywhere.
#[utoipa::path(delete, path = "/api/tokens/{token}", tag = "access",
    params(("token" = String, Path, description = "its name or its id")), responses(
    (status = 204, description = "revoked"),
    (status = 404, body = ErrorReply),
    (status = 503, body = ErrorReply),
))]
async fn revoke(state: AdminState, Path(which): Path<String>) -> Result<StatusCode, ApiError> {
    let tokens = state.served.tokens.clone();
    blocking(move || Ok(tokens.revoke(&which)?)).await?;
    Ok(StatusCode::NO_CONTENT)
}
