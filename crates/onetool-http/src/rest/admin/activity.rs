//! Activity: the calls and runs in progress, the last ones, and a stream of all changes.
//!
//! An administrator sees the activity of all users, everybody else their own.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, RawQuery};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};
use onetool_run::activity::{ActivityEvent, Viewer, principal_of};
use serde::Deserialize;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use utoipa::IntoParams;
use utoipa_axum::routes;

use super::super::model::ErrorReply;
use super::super::query;
use super::super::routes::Routes;
use super::AdminState;
use super::approvals;
use super::elsewhere::no_activity;
use super::events::stream_of;
use super::model::{ActivityReply, ActivityRow};
use super::team::{self, ReportedActivity};
use crate::relay::Subject;
use crate::{ApiError, Identity, Scope};

/// Poll interval for changes to the toolbox.
const LOOK: Duration = Duration::from_secs(1);

pub(super) fn routes() -> Routes {
    Routes::default().read(routes!(recent)).read(routes!(stream)).invoke(routes!(cancel))
}

/// Returns which activity an identity may see.
pub(super) fn viewer(identity: &Identity) -> Viewer {
    if identity.may(Scope::Admin) { Viewer::Administrator } else { Viewer::Owner(identity.principal.owner(None)) }
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
struct ActivityQuery {
    /// only theirs: the name of a token or a subject, `stdio`, `local` or `anyone`
    principal: Option<String>,
}

/// The calls and runs that are under way, at all servers that share their state, and the last ones of this server since it
/// started. Without the scope `admin`, one's own.
#[utoipa::path(get, path = "/api/activity", tag = "activity", params(ActivityQuery), responses(
    (status = 200, body = ActivityReply),
    (status = 400, body = ErrorReply),
))]
async fn recent(
    state: AdminState,
    RawQuery(query): RawQuery,
    Extension(identity): Extension<Arc<Identity>>,
) -> Result<Json<ActivityReply>, ApiError> {
    let ActivityQuery { principal } = query::parse(query.as_deref())?;
    let viewer = viewer(&identity);
    let is_wanted = |event: &ActivityEvent| {
        viewer.sees(event) && principal.as_deref().is_none_or(|wanted| principal_of(&event.requester) == wanted)
    };
    let (activity, team) = (&state.admin.activity, &state.admin.team);
    let rows = |events: Vec<ActivityEvent>| -> Vec<ActivityRow> {
        events.into_iter().filter(&is_wanted).map(|event| team.own_row(event)).collect()
    };
    // In this order: an activity that ends in between is reported twice rather than not at all.
    let mut under_way = rows(activity.under_way());
    let others = team.others(&viewer).await.into_iter();
    let is_wanted = |row: &ActivityRow| principal.as_deref().is_none_or(|wanted| row.principal == wanted);
    under_way.extend(others.filter(|row| row.is_under_way && is_wanted(row)));
    under_way.sort_by_key(|row| (row.at, row.id));
    Ok(Json(ActivityReply { node: team.own_name(), events: rows(activity.recent()), under_way }))
}

/// Cancels a call or a run that is under way, at whichever of several servers. Without the scope `admin`, one's own.
#[utoipa::path(delete, path = "/api/activity/{id}", tag = "activity", params(("id" = u64, Path)), responses(
    (status = 204, description = "it ends"),
    (status = 404, body = ErrorReply),
    (status = 503, description = "the shared state is unavailable, and it is not here", body = ErrorReply),
))]
async fn cancel(
    state: AdminState,
    Path(id): Path<String>,
    Extension(identity): Extension<Arc<Identity>>,
    parts: Parts,
) -> Result<Response, ApiError> {
    let id = id.parse().map_err(|_| no_activity())?;
    if state.admin.here.end_activity(id, &identity) {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let elsewhere = state.admin.relay.forward(&Subject::Activity(id), &parts).await?;
    elsewhere.ok_or_else(no_activity)
}

/// Server-sent events: `started` for a call or a run that starts, `activity` when it has ended (of other servers that
/// share the state, those that take longer than a second), `approvals` when calls begin or cease to wait, `tools` when
/// the toolbox has changed, `missed` when a slow reader has missed events and must read the activity again. While an
/// administrator reads, calls that need approval wait for them, at every server. Without the scope `admin`, only one's
/// own calls and runs, and no approvals.
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
    // Calls wait only for readers who may decide.
    let mut waiting = (viewer == Viewer::Administrator).then(|| admin.approvals.watch());
    if waiting.is_some() {
        // From now on, calls at other servers wait for them too.
        let approvals = admin.approvals.clone();
        crate::task::spawn(crate::task::blocking(move || approvals.refresh()));
    }
    stream_of(cancel, move |sender| async move {
        let mut catalog = toolbox.now().catalog().clone();
        let mut switches = admin.switches.generation();
        let mut look = tokio::time::interval(LOOK);
        let (mut look_at_others, mut told) = (tokio::time::interval(team::LOOK), ReportedActivity::default());
        look_at_others.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let is_open = tokio::select! {
                () = ended.cancelled() => false,
                () = admin.stop.cancelled() => false,
                event = activity.recv() => match event {
                    Ok(event) if viewer.sees(&event) => {
                        let name = if event.is_under_way() { "started" } else { "activity" };
                        sender.send(name, &admin.team.own_row(event)).await
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
                _ = look_at_others.tick() => {
                    let mut is_open = true;
                    for row in told.news(admin.team.others(&viewer).await) {
                        let name = if row.is_under_way { "started" } else { "activity" };
                        is_open = is_open && sender.send(name, &row).await;
                    }
                    is_open
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
