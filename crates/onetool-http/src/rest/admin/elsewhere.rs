//! Runs and calls of this server that may be cancelled through others: see [`crate::relay`].

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::delete;
use axum::{Extension, Router};
use onetool_run::activity::Activity;
use tokio_util::sync::CancellationToken;

use super::Running;
use super::activity::viewer;
use crate::relay::{Room, Subject, Waiting};
use crate::{ApiError, Identity};

/// Age from which a run or call may be cancelled through another server; shorter ones are not worth polling for.
const LOOKED_FOR_AFTER: Duration = Duration::from_millis(200);

/// Runs that were started over REST here, and all activity in progress.
pub(crate) struct Here {
    pub(crate) running: Running,
    pub(crate) activity: Arc<Activity>,
}

impl Here {
    /// Cancels a run of `who`. `false` if they have none with this id.
    pub(super) fn end_run(&self, id: &str, who: &Identity) -> bool {
        let running = self.running.lock();
        let found = running.get(id).filter(|(owner, _)| *owner == who.principal.owner(None));
        let found = found.map(|(_, cancel)| cancel.clone());
        drop(running);
        // Outside the lock, because a woken task may need it.
        found.inspect(CancellationToken::cancel).is_some()
    }

    /// Cancels a call or a run that `who` may see.
    pub(super) fn end_activity(&self, id: u64, who: &Identity) -> bool {
        self.activity.cancel(id, &viewer(who))
    }
}

impl Waiting for Arc<Here> {
    fn has(&self, subject: &Subject, who: &Identity) -> bool {
        match subject {
            Subject::RestRun(id) => {
                self.running.lock().get(id).is_some_and(|(owner, _)| *owner == who.principal.owner(None))
            }
            Subject::Activity(id) => self.activity.has(*id, &viewer(who)),
            Subject::Round(_) | Subject::Run(_) | Subject::Question { .. } | Subject::Call(_) => false,
        }
    }

    fn is_waiting(&self) -> bool {
        self.activity.has_long(LOOKED_FOR_AFTER)
    }
}

/// Answers letters about them.
pub(crate) fn room(here: &Arc<Here>) -> Room {
    let router = Router::new()
        .route("/api/runs/{id}", delete(end_run))
        .route("/api/activity/{id}", delete(end_activity))
        .with_state(here.clone());
    Room { waiting: Box::new(here.clone()), router }
}

async fn end_run(
    State(here): State<Arc<Here>>,
    Path(id): Path<String>,
    Extension(identity): Extension<Arc<Identity>>,
) -> Result<StatusCode, ApiError> {
    if here.end_run(&id, &identity) { Ok(StatusCode::NO_CONTENT) } else { Err(no_run()) }
}

async fn end_activity(
    State(here): State<Arc<Here>>,
    Path(id): Path<u64>,
    Extension(identity): Extension<Arc<Identity>>,
) -> Result<StatusCode, ApiError> {
    if here.end_activity(id, &identity) { Ok(StatusCode::NO_CONTENT) } else { Err(no_activity()) }
}

pub(super) fn no_run() -> ApiError {
    ApiError::not_found("no run with this id is in progress")
}

pub(super) fn no_activity() -> ApiError {
    ApiError::not_found("no call or run is under way under this id")
}
