//! Calls that wait for a person.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Request};
use axum::http::StatusCode;
use onetool_run::approvals::{ApprovalRequest, Decision, DecisionError};
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

/// Returns the calls that wait, the oldest first. Blocks.
fn rows(admin: &Admin) -> Vec<ApprovalRow> {
    let waiting = admin.approvals.waiting().into_iter();
    let row = |request: ApprovalRequest| {
        let files = admin.operations.policy_files(&request.tool);
        ApprovalRow::new(request, files)
    };
    waiting.map(row).collect()
}

pub(super) async fn reply(admin: &Arc<Admin>) -> Result<ApprovalsReply, ApiError> {
    let admin = admin.clone();
    blocking(move || Ok(ApprovalsReply { approvals: rows(&admin) })).await
}

/// Calls that wait, the oldest first.
#[utoipa::path(get, path = "/api/approvals", tag = "approvals", responses(
    (status = 200, body = ApprovalsReply),
))]
async fn list(state: AdminState) -> Result<Json<ApprovalsReply>, ApiError> {
    Ok(Json(reply(&state.admin).await?))
}

/// Decides a call that waits: `once`, for the `session` (until the server ends), `always` (writes a rule into
/// `security.policy`), or `deny`.
#[utoipa::path(post, path = "/api/approvals/{id}", tag = "approvals", request_body = ApprovalBody,
    params(("id" = String, Path)), responses(
    (status = 204, description = "decided"),
    (status = 400, body = ErrorReply),
    (status = 404, description = "it was decided already, or its run has ended", body = ErrorReply),
    (status = 409, description = "a permanent approval cannot be stored", body = ErrorReply),
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
        })?;
        if decision == Decision::Always {
            // The rule is written; errors in the file are reported with the other problems.
            let _ = state.admin.operations.reload();
        }
        Ok(())
    })
    .await?;
    Ok(StatusCode::NO_CONTENT)
}
