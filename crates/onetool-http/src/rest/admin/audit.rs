//! The audit trail, for administrators.

use axum::Json;
use axum::body::Body;
use axum::extract::RawQuery;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use chrono::{DateTime, Utc};
use onetool_state::audit::{AuditEvent, AuditFilter, AuditRecord, OUTCOMES, last, read_all};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::routes;

use super::super::bundles::blocking;
use super::super::model::ErrorReply;
use super::super::query::{self, Count};
use super::super::routes::Routes;
use super::AdminState;
use crate::ApiError;

const DEFAULT_LINES: usize = 100;
const MOST_LINES: usize = 1_000;
/// Maximum number of export chunks buffered ahead of the reader.
const AHEAD: usize = 8;
const PIECE_BYTES: usize = 64 << 10;

pub(super) fn routes() -> Routes {
    Routes::default().admin(routes!(search)).admin(routes!(export))
}

/// Lines of the audit trail, the newest first.
#[derive(Debug, Serialize, ToSchema)]
struct AuditReply {
    /// Each with `ts`, `event`, `outcome`, and further fields if known: `principal`, `client`, `door`, `tool`, `run`,
    /// `argumentsHash`, `arguments`, `error`, `approval`, `durationMs`, `address`.
    #[schema(value_type = Vec<Object>)]
    records: Vec<AuditRecord>,
}

/// What to find in the audit trail.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
struct AuditQuery {
    principal: Option<String>,
    /// a pattern such as github.*
    tool: Option<String>,
    /// run, call, auth, admin or lost
    event: Option<String>,
    /// ok, error, denied or limited
    outcome: Option<String>,
    /// what the client calls itself, or a part of it
    client: Option<String>,
    /// the id of a run
    run: Option<String>,
    /// a time, RFC 3339
    since: Option<String>,
    /// a time, RFC 3339
    until: Option<String>,
    /// anywhere in the line
    q: Option<String>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
struct LimitQuery {
    /// at most 1000
    #[serde(default)]
    #[param(value_type = u32, minimum = 1, default = 100)]
    limit: Count<DEFAULT_LINES, MOST_LINES>,
}

/// Searches the audit trail.
#[utoipa::path(get, path = "/api/audit", tag = "audit", params(AuditQuery, LimitQuery), responses(
    (status = 200, body = AuditReply),
    (status = 400, body = ErrorReply),
    (status = 404, description = "audit.enabled is off", body = ErrorReply),
    (status = 503, body = ErrorReply),
))]
async fn search(state: AdminState, RawQuery(query): RawQuery) -> Result<Json<AuditReply>, ApiError> {
    let (wanted, LimitQuery { limit }) = query::parse_both::<AuditQuery, LimitQuery>(query.as_deref())?;
    let (filter, limit) = (filter(wanted)?, limit.0);
    let records = blocking(move || {
        let _ = state.served.audit.flush();
        let (trail, settings) = state.served.audit.trail().ok_or_else(off)?;
        onetool_state::wait(last(&**trail, &filter, settings.horizon(), limit))
            .map_err(|error| ApiError::busy(error.to_string()))
    })
    .await?;
    Ok(Json(AuditReply { records }))
}

/// The audit trail as JSON lines, the oldest first.
#[utoipa::path(get, path = "/api/audit/export", tag = "audit", params(AuditQuery), responses(
    (status = 200, description = "one JSON object per line", content_type = "application/x-ndjson", body = String),
    (status = 400, body = ErrorReply),
    (status = 404, description = "audit.enabled is off", body = ErrorReply),
))]
async fn export(state: AdminState, RawQuery(query): RawQuery) -> Result<Response, ApiError> {
    let filter = filter(query::parse(query.as_deref())?)?;
    if !state.served.audit.is_on() {
        return Err(off());
    }
    let (sender, receiver) = tokio::sync::mpsc::channel::<Result<String, std::io::Error>>(AHEAD);
    tokio::task::spawn_blocking(move || {
        let _ = state.served.audit.flush();
        let Some((trail, settings)) = state.served.audit.trail() else { return };
        let mut piece = String::new();
        let read = onetool_state::wait(read_all(&**trail, &filter, settings.horizon(), &mut |record| {
            // Skips the rest if the client has disconnected.
            if !sender.is_closed()
                && let Ok(line) = serde_json::to_string(&record)
            {
                piece.push_str(&line);
                piece.push('\n');
                if piece.len() >= PIECE_BYTES {
                    let _ = sender.blocking_send(Ok(std::mem::take(&mut piece)));
                }
            }
        }));
        let last = read.map(|()| piece).map_err(std::io::Error::other);
        let _ = sender.blocking_send(last);
    });
    let pieces = futures_util::stream::unfold(receiver, |mut receiver| async {
        receiver.recv().await.map(|piece| (piece, receiver))
    });
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(pieces)).into_response())
}

fn off() -> ApiError {
    ApiError::not_found("the audit log is off").with_hint("set audit.enabled to true")
}

fn filter(wanted: AuditQuery) -> Result<AuditFilter, ApiError> {
    let event = match wanted.event {
        None => None,
        Some(name) => Some(
            AuditEvent::named(&name)
                .ok_or_else(|| ApiError::invalid("event is one of run, call, auth, admin and lost"))?,
        ),
    };
    let tool = match wanted.tool {
        None => None,
        Some(pattern) => Some(
            globset::Glob::new(&pattern)
                .map_err(|_| ApiError::invalid("tool is not a pattern; expected one like github.*"))?
                .compile_matcher(),
        ),
    };
    if wanted.outcome.as_deref().is_some_and(|outcome| !OUTCOMES.contains(&outcome)) {
        return Err(ApiError::invalid(format!("outcome is one of {}", OUTCOMES.join(", "))));
    }
    Ok(AuditFilter {
        principal: wanted.principal,
        tool,
        event,
        outcome: wanted.outcome,
        client: wanted.client,
        run: wanted.run,
        since: time("since", wanted.since)?,
        until: time("until", wanted.until)?,
        text: wanted.q,
    })
}

fn time(name: &str, given: Option<String>) -> Result<Option<DateTime<Utc>>, ApiError> {
    let Some(text) = given else { return Ok(None) };
    DateTime::parse_from_rfc3339(&text)
        .map(|at| Some(at.with_timezone(&Utc)))
        .map_err(|_| ApiError::invalid(format!("{name} is a time such as 2026-11-16T12:00:00Z")))
}
