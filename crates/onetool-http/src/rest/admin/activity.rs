//! What happens: the last calls and runs, and a stream of everything that changes.

use std::time::Duration;

use axum::Json;
use axum::response::Response;
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;
use utoipa_axum::routes;

use super::super::routes::Routes;
use super::AdminState;
use super::approvals;
use super::events::stream_of;
use super::model::{ActivityReply, ActivityRow};

/// How often the toolbox is looked at for changes.
const LOOK: Duration = Duration::from_secs(1);

pub(super) fn routes() -> Routes {
    Routes::default().admin(routes!(recent)).admin(routes!(stream))
}

/// The last calls and runs since the server started.
#[utoipa::path(get, path = "/api/activity", tag = "activity", responses(
    (status = 200, body = ActivityReply),
))]
async fn recent(state: AdminState) -> Json<ActivityReply> {
    Json(ActivityReply { events: state.admin.activity.recent().into_iter().map(ActivityRow::from).collect() })
}

/// Server-sent events: `activity` for a call or a run that ended, `approvals` when calls begin or cease to wait, `tools`
/// when the toolbox has changed. While somebody reads, calls that need approval wait for them.
#[utoipa::path(get, path = "/api/events", tag = "activity", responses(
    (status = 200, description = "a stream of events", content_type = "text/event-stream", body = String),
))]
async fn stream(state: AdminState) -> Response {
    let admin = state.admin.clone();
    let toolbox = state.service.runner().toolbox().clone();
    let cancel = CancellationToken::new();
    let ended = cancel.clone();
    let mut activity = admin.activity.subscribe();
    let mut waiting = admin.approvals.watch();
    stream_of(cancel, move |sender| async move {
        let mut catalog = toolbox.now().catalog().clone();
        let mut switches = admin.switches.generation();
        let mut look = tokio::time::interval(LOOK);
        loop {
            let is_open = tokio::select! {
                () = ended.cancelled() => false,
                () = admin.stop.cancelled() => false,
                event = activity.recv() => match event {
                    Ok(event) => sender.send("activity", &ActivityRow::from(event)).await,
                    Err(RecvError::Lagged(_)) => true,
                    Err(RecvError::Closed) => false,
                },
                () = waiting.changed() => match approvals::reply(&admin).await {
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
