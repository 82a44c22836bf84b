//! Calls that wait for a person.

use axum::Json;
use axum::extract::{Path, Request};
use axum::http::StatusCode;
use onetool_run::approvals::{Decision, DecisionError};
use utoipa_axum::routes;

use super::super::bundles::blocking;
use super::super::input;
use super::super::model::ErrorReply;
use super::super::routes::Routes;
use super::Admin;
use super::AdminState;
use super::model::{ApprovalBody, ApprovalRow, ApprovalsReply, DecisionBody};
use crate::ApiError;

pub(super) fn routes() -> Routes {
    Routes::default().admin(routes!(list)).admin(routes!(decide))
}

pub(super) fn rows(admin: &Admin) -> Vec<ApprovalRow> {
    admin.approvals.waiting().into_iter().map(ApprovalRow::from).collect()
}

/// Calls that wait, the oldest first.
#[utoipa::path(get, path = "/api/approvals", tag = "approvals", responses(
    (status = 200, body = ApprovalsReply),
))]
async fn list(state: AdminState) -> Json<ApprovalsReply> {
    Json(ApprovalsReply { approvals: rows(&state.admin) })
}

/// Decides a call that waits.
#[utoipa::path(post, path = "/api/approvals/{id}", tag = "approvals", request_body = ApprovalBody,
    params(("id" = String, Path)), responses(
    (status = 204, description = "decided"),
    (status = 400, body = ErrorReply),
    (status = 404, description = "it was decided already, or its run has ended", body = ErrorReply),
    (status = 409, description = "an approval for good cannot be kept", body = ErrorReply),
    (status = 413, body = ErrorReply),
    (status = 415, body = ErrorReply),
))]
async fn decide(state: AdminState, Path(id): Path<String>, request: Request) -> Result<StatusCode, ApiError> {
    let body: ApprovalBody = input::json(request, state.served.server.api.max_body_bytes).await?;
    let decision = match body.decision {
        DecisionBody::Once => Decision::Once,
        DecisionBody::Session => Decision::Session,
        DecisionBody::Always => Decision::Always,
        DecisionBody::Deny => Decision::Deny,
    };
    blocking(move || {
        state.admin.approvals.decide(&id, decision).map_err(|error| match error {
            DecisionError::NotWaiting => ApiError::not_found(error.to_string()),
            DecisionError::NotKept(_) => ApiError::conflict(error.to_string()),
        })
    })
    .await?;
    Ok(StatusCode::NO_CONTENT)
}
