//! Whether the contents of the project's folder may run.

use axum::Json;
use axum::extract::Request;
use utoipa_axum::routes;

use super::super::bundles::blocking;
use super::super::input;
use super::super::model::ErrorReply;
use super::super::routes::Routes;
use super::AdminState;
use super::model::{TrustBody, TrustReply};
use crate::ApiError;

pub(super) fn routes() -> Routes {
    Routes::default().admin(routes!(get, decide))
}

/// Whether the folder is trusted, and what is disabled until it is.
#[utoipa::path(get, path = "/api/trust", tag = "configuration", responses(
    (status = 200, body = TrustReply),
))]
async fn get(state: AdminState) -> Result<Json<TrustReply>, ApiError> {
    blocking(move || Ok(Json(state.admin.operations.trust()))).await
}

/// Trusts the folder from now on, or revokes the trust. Parts that were held back take effect at once.
#[utoipa::path(put, path = "/api/trust", tag = "configuration", request_body = TrustBody, responses(
    (status = 200, body = TrustReply),
    (status = 400, body = ErrorReply),
    (status = 409, description = "another folder is served, or ONETOOL_TRUST decides", body = ErrorReply),
    (status = 413, body = ErrorReply),
    (status = 415, body = ErrorReply),
))]
async fn decide(state: AdminState, request: Request) -> Result<Json<TrustReply>, ApiError> {
    let body: TrustBody = input::json(request, state.served.server.api.max_body_bytes).await?;
    blocking(move || {
        let operations = &state.admin.operations;
        let folder = operations.trust().folder;
        if body.folder != folder {
            return Err(ApiError::conflict("this server serves another folder").with_hint("ask GET /api/trust again"));
        }
        operations.set_trust(body.is_trusted)?;
        Ok(Json(operations.trust()))
    })
    .await
}
