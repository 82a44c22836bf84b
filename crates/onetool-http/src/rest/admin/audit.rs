//! The audit trail, for administrators.

use axum::Json;
use axum::body::Body;
use axum::extract::RawQuery;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use chrono::{DateTime, Utc};
use onetool_state::audit::{AuditEvent, AuditFilter, AuditRecord, OUTCOMES, last, read_all};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::routes;

use super::super::bundles::blocking;
use super::super::input::Parameters;
use super::super::model::ErrorReply;
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

/// Searches the audit trail.
#[utoipa::path(get, path = "/api/audit", tag = "audit", params(
    ("principal" = Option<String>, Query),
    ("tool" = Option<String>, Query, description = "a pattern such as github.*"),
    ("event" = Option<String>, Query, description = "run, call, auth, admin or lost"),
    ("outcome" = Option<String>, Query, description = "ok, error, denied or limited"),
    ("client" = Option<String>, Query, description = "what the client calls itself, or a part of it"),
    ("run" = Option<String>, Query, description = "the id of a run"),
    ("since" = Option<String>, Query, description = "a time, RFC 3339"),
    ("until" = Option<String>, Query, description = "a time, RFC 3339"),
    ("q" = Option<String>, Query, description = "anywhere in the line"),
    ("limit" = Option<usize>, Query, description = "at most 1000", minimum = 1),
    ), responses(
    (status = 200, body = AuditReply),
    (status = 400, body = ErrorReply),
    (status = 404, description = "audit.enabled is off", body = ErrorReply),
    (status = 503, body = ErrorReply),
))]
async fn search(state: AdminState, RawQuery(query): RawQuery) -> Result<Json<AuditReply>, ApiError> {
    let mut parameters = Parameters::parse(query.as_deref())?;
    let limit = match parameters.text("limit")? {
        None => DEFAULT_LINES,
        Some(text) => {
            let number = text.parse::<usize>().ok().filter(|limit| *limit >= 1);
            number.ok_or_else(|| ApiError::invalid("limit is a whole number from 1"))?.min(MOST_LINES)
        }
    };
    let filter = filter(parameters)?;
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
#[utoipa::path(get, path = "/api/audit/export", tag = "audit", params(
    ("principal" = Option<String>, Query),
    ("tool" = Option<String>, Query, description = "a pattern such as github.*"),
    ("event" = Option<String>, Query, description = "run, call, auth, admin or lost"),
    ("outcome" = Option<String>, Query, description = "ok, error, denied or limited"),
    ("client" = Option<String>, Query),
    ("run" = Option<String>, Query),
    ("since" = Option<String>, Query, description = "a time, RFC 3339"),
    ("until" = Option<String>, Query, description = "a time, RFC 3339"),
    ("q" = Option<String>, Query),
    ), responses(
    (status = 200, description = "one JSON object per line", content_type = "application/x-ndjson", body = String),
    (status = 400, body = ErrorReply),
    (status = 404, description = "audit.enabled is off", body = ErrorReply),
))]
async fn export(state: AdminState, RawQuery(query): RawQuery) -> Result<Response, ApiError> {
    let filter = filter(Parameters::parse(query.as_deref())?)?;
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

fn filter(mut parameters: Parameters) -> Result<AuditFilter, ApiError> {
    let event = match parameters.text("event")? {
        None => None,
        Some(name) => Some(
            AuditEvent::named(&name)
                .ok_or_else(|| ApiError::invalid("event is one of run, call, auth, admin and lost"))?,
        ),
    };
    let tool = match parameters.text("tool")? {
        None => None,
        Some(pattern) => Some(
            globset::Glob::new(&pattern)
                .map_err(|_| ApiError::invalid("tool is not a pattern; expected one like github.*"))?
                .compile_matcher(),
        ),
    };
    let outcome = parameters.text("outcome")?;
    if outcome.as_deref().is_some_and(|outcome| !OUTCOMES.contains(&outcome)) {
        return Err(ApiError::invalid(format!("outcome is one of {}", OUTCOMES.join(", "))));
    }
    let mut time = |name: &str| match parameters.text(name)? {
        None => Ok(None),
        Some(text) => DateTime::parse_from_rfc3339(&text)
            .map(|at| Some(at.with_timezone(&Utc)))
            .map_err(|_| ApiError::invalid(format!("{name} is a time such as 2026-11-16T12:00:00Z"))),
    };
    let (since, until) = (time("since")?, time("until")?);
    let filter = AuditFilter {
        principal: parameters.text("principal")?,
        tool,
        event,
        outcome,
        client: parameters.text("client")?,
        run: parameters.text("run")?,
        since,
        until,
        text: parameters.text("q")?,
    };
    parameters.end()?;
    Ok(filter)
}
