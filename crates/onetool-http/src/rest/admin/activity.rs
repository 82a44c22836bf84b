//! What happens: the calls and runs that are under way, the last ones, and a stream of everything that changes.
//!
//! An administrator sees what everybody does, everybody else what they do themselves.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, RawQuery};
use axum::http::StatusCode;
use axum::response::Response;
use axum::{Extension, Json};
use onetool_run::activity::{ActivityEvent, Viewer, principal_of};
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;
use utoipa_axum::routes;

use super::super::input::Parameters;
use super::super::model::ErrorReply;
use super::super::routes::Routes;
use super::AdminState;
use super::approvals;
use super::events::stream_of;
use super::model::{ActivityReply, ActivityRow};
use crate::{ApiError, Identity, Scope};

/// How often the toolbox is looked at for changes.
const LOOK: Duration = Duration::from_secs(1);

pub(super) fn routes() -> Routes {
    Routes::default().read(routes!(recent)).read(routes!(stream)).invoke(routes!(cancel))
}

/// What somebody sees of what happens.
pub(super) fn viewer(identity: &Identity) -> Viewer {
    if identity.may(Scope::Admin) { Viewer::Administrator } else { Viewer::Owner(identity.principal.owner(None)) }
}

/// The calls and runs that are under way, and the last ones since the server started. Without the scope `admin`, one's own.
#[utoipa::path(get, path = "/api/activity", tag = "activity", params(
    ("principal" = Option<String>, Query, description = "only theirs: the name of a token or a subject, `stdio`, `local` or `anyone`"),
    ), responses(
    (status = 200, body = ActivityReply),
    (status = 400, body = ErrorReply),
))]
async fn recent(
    state: AdminState,
    RawQuery(query): RawQuery,
    Extension(identity): Extension<Arc<Identity>>,
) -> Result<Json<ActivityReply>, ApiError> {
    let mut parameters = Parameters::parse(query.as_deref())?;
    let principal = parameters.text("principal")?;
    parameters.end()?;
    let viewer = viewer(&identity);
    let is_wanted = |event: &ActivityEvent| {
        viewer.sees(event) && principal.as_deref().is_none_or(|wanted| principal_of(&event.requester) == wanted)
    };
    let rows = |events: Vec<ActivityEvent>| events.into_iter().filter(&is_wanted).map(ActivityRow::from).collect();
    let activity = &state.admin.activity;
    // In this order: what ends in between is told twice rather than not at all.
    let under_way = rows(activity.under_way());
    Ok(Json(ActivityReply { events: rows(activity.recent()), under_way }))
}

/// Cancels a call or a run that is under way. Without the scope `admin`, one's own.
#[utoipa::path(delete, path = "/api/activity/{id}", tag = "activity", params(("id" = u64, Path)), responses(
    (status = 204, description = "it ends"),
    (status = 404, body = ErrorReply),
))]
async fn cancel(
    state: AdminState,
    Path(id): Path<String>,
    Extension(identity): Extension<Arc<Identity>>,
) -> Result<StatusCode, ApiError> {
    let is_cancelled = id.parse().is_ok_and(|id| state.admin.activity.cancel(id, &viewer(&identity)));
    if !is_cancelled {
        return Err(ApiError::not_found("no call or run is under way under this id"));
    }
    Ok(StatusCode::NO_CONTENT)
}

/// Server-sent events: `started` for a call or a run that starts, `activity` when it has ended, `approvals` when calls
/// begin or cease to wait, `tools` when the toolbox has changed, `missed` when a slow reader has missed some: the activity
/// is to be read again then. While an administrator reads, calls that need approval wait
/// for them. Without the scope `admin`, one's own calls and runs, and no approvals.
#[utoipa::path(get, path = "/api/events", tag = "activity", responses(
    (status = 200, description = "a stream of events", content_type = "text/event-stream", body = String),
))]
async fn stream(state: AdminState, Extension(identity): Extension<Arc<Identity>>) -> Response {
    let admin = state.admin.clone();
    let toolbox = state.service.runner().toolbox().clone();
    let cancel = CancellationToken::new();
    let ended = cancel.clone();
    let viewer = viewer(&identity);
    let mut activity = admin.activity.subscribe();
    // Only who may decide is waited for.
    let mut waiting = (viewer == Viewer::Administrator).then(|| admin.approvals.watch());
    stream_of(cancel, move |sender| async move {
        let mut catalog = toolbox.now().catalog().clone();
        let mut switches = admin.switches.generation();
        let mut look = tokio::time::interval(LOOK);
        loop {
            let is_open = tokio::select! {
                () = ended.cancelled() => false,
                () = admin.stop.cancelled() => false,
                event = activity.recv() => match event {
                    Ok(event) if viewer.sees(&event) => {
                        let name = if event.is_under_way() { "started" } else { "activity" };
                        sender.send(name, &ActivityRow::from(event)).await
                    }
                    Ok(_) => true,
                    Err(RecvError::Lagged(_)) => sender.send("missed", &serde_json::json!({})).await,
                    Err(RecvError::Closed) => false,
                },
                () = async {
                    match &mut waiting {
                        Some(waiting) => waiting.changed().await,
                        None => std::future::pending().await,
                    }
                } => match approvals::reply(&admin).await {
                    Ok(reply) => sender.send("approvals", &reply).await,
                    Err(_) => true,
                },
                _ = look.tick() => {
                    let now = toolbox.now().catalog().clone();
                    let generation = admin.switches.generation();
                    if std::sync::Arc::ptr_eq(&now, &catalog) && generation == switches {
                        true
                    } else {
                        catalog = now;
                        switches = generation;
                        sender.send("tools", &serde_json::json!({})).await
                    }
                },
            };
            if !is_open {
                return;
            }
        }
    })
}
