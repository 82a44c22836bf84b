//! Results that were too large for a reply.

use std::sync::Arc;

use axum::extract::{Path, RawQuery};
use axum::http::HeaderMap;
use axum::{Extension, Json};
use onetool_state::results::{Matching, Query, ResultError, ResultStore};
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::routes;

use super::super::bundles::blocking;
use super::super::model::ErrorReply;
use super::super::query;
use super::super::routes::Routes;
use super::AdminState;
use super::model::{ResultPageReply, ResultRow, ResultsReply};
use crate::{ApiError, Identity};

/// Maximum number of results listed.
const LISTED: usize = 500;
const DEFAULT_LINES: u32 = 200;
const MOST_LINES: u32 = 1_000;
/// Maximum size of one page.
const PAGE_BYTES: usize = 1 << 20;

pub(super) fn routes() -> Routes {
    Routes::default().admin(routes!(list)).admin(routes!(read))
}

/// Returns the results of this identity: nobody can read those of others.
fn store(state: &AdminState, identity: &Identity) -> ResultStore {
    state.admin.view.state_for(&identity.context(&HeaderMap::new())).results.clone()
}

/// Your stored results, the newest first.
#[utoipa::path(get, path = "/api/results", tag = "results", responses(
    (status = 200, body = ResultsReply),
))]
async fn list(
    state: AdminState,
    Extension(identity): Extension<Arc<Identity>>,
) -> Result<Json<ResultsReply>, ApiError> {
    let results = blocking(move || {
        Ok(store(&state, &identity)
            .list(LISTED)
            .into_iter()
            .map(|meta| ResultRow {
                handle: meta.handle,
                tool: meta.tool,
                created_at: meta.created_at,
                bytes: meta.size_bytes,
                lines: meta.total_lines,
            })
            .collect())
    })
    .await?;
    Ok(Json(ResultsReply { results }))
}

/// Which lines.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
struct LinesQuery {
    /// lines, or matches, to pass over
    #[serde(default)]
    offset: u32,
    /// at most 1000
    #[param(minimum = 1, default = 200)]
    limit: Option<u32>,
    /// a regular expression: only lines that match
    #[serde(default)]
    search: String,
}

/// Lines of a stored result.
#[utoipa::path(get, path = "/api/results/{handle}", tag = "results", params(
    ("handle" = String, Path),
    LinesQuery), responses(
    (status = 200, body = ResultPageReply),
    (status = 400, body = ErrorReply),
    (status = 404, body = ErrorReply),
))]
async fn read(
    state: AdminState,
    Extension(identity): Extension<Arc<Identity>>,
    Path(handle): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Json<ResultPageReply>, ApiError> {
    let LinesQuery { offset, limit, search } = query::parse(query.as_deref())?;
    let limit = limit.unwrap_or(DEFAULT_LINES).min(MOST_LINES);
    let query = Query::new(i64::from(offset) + 1, limit.into(), PAGE_BYTES)
        .map_err(from_result_error)?
        .searching(&search, Matching::Regex);
    let page =
        blocking(move || store(&state, &identity).query(&handle, &query, &|| true).map_err(from_result_error)).await?;
    Ok(Json(ResultPageReply {
        lines: page.lines,
        offset: page.offset.saturating_sub(1),
        total_lines: page.total_lines,
        has_more: page.has_more,
    }))
}

fn from_result_error(error: ResultError) -> ApiError {
    match error {
        ResultError::NotFound { .. } | ResultError::Expired { .. } => ApiError::not_found(error.to_string()),
        ResultError::Offset(_) | ResultError::Limit(_) | ResultError::Pattern(_) => {
            ApiError::invalid(error.to_string())
        }
        ResultError::Cancelled | ResultError::State(_) => {
            tracing::error!(%error, "a stored result could not be read");
            ApiError::internal("the result could not be read").with_hint("see the log")
        }
    }
}
