//! Polls for queued runs: those that another server began and lost, and those that need what this one has.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use onetool_state::runs::RunStoreError;
use tokio_util::sync::CancellationToken;

use super::live::{LiveRun, Recording};
use super::{Background, blocking};

/// Poll interval for calls that wait for a person.
const ASKED: Duration = Duration::from_secs(1);
/// Interval for removing expired runs.
const SWEEP: Duration = Duration::from_mins(1);
/// Interval for counting the backlog, for metrics.
const COUNT: Duration = Duration::from_secs(2);
/// Poll interval while the shared state is unavailable.
const AWAY: Duration = Duration::from_secs(2);

pub(super) async fn watch(background: Weak<Background>, stop: CancellationToken) {
    let mut asked: Option<Instant> = None;
    let mut swept = Instant::now();
    let mut counted: Option<Instant> = None;
    let mut pause = Duration::ZERO;
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
        let Some(background) = background.upgrade() else { return };
        pause = background.store().look_every();
        if background.take_some().await.is_err() {
            pause = AWAY;
            // The backlog is unknown.
            *background.backlog.lock() = None;
            counted = None;
            continue;
        }
        if counted.is_none_or(|counted| counted.elapsed() >= COUNT) {
            counted = Some(Instant::now());
            let store = background.store();
            let backlog = blocking(move || store.backlog()).await.ok();
            *background.backlog.lock() = backlog;
        }
        if asked.is_none_or(|asked| asked.elapsed() >= ASKED) {
            asked = Some(Instant::now());
            background.look_for_questions().await;
        }
        if swept.elapsed() >= SWEEP {
            swept = Instant::now();
            let store = background.store();
            let _ = blocking(move || store.sweep()).await;
        }
    }
}

impl Background {
    /// Takes queued runs as long as there is capacity.
    async fn take_some(self: &Arc<Self>) -> Result<(), RunStoreError> {
        while self.has_time() {
            let (store, tags, since) = (self.store(), self.service.tags(), Instant::now());
            let taken = blocking(move || store.take_next(&tags)).await.inspect_err(|error| {
                tracing::debug!(%error, "runs that wait could not be looked for");
            })?;
            let Some(taken) = taken else { return Ok(()) };
            tracing::info!(run = %taken.record.id, fence = taken.claim.fence, "a run was taken from the queue");
            let live = LiveRun::new(taken.record.id.clone(), taken.record.owner.clone(), String::new());
            let live = Arc::new(live);
            *live.recording.lock().await = Recording::Before;
            self.spawn_recorded(&live, taken, since, None);
        }
        Ok(())
    }

    /// Refreshes the calls that wait for a person, of runs without a process.
    async fn look_for_questions(&self) {
        let Some(admin) = self.service.admin() else { return };
        let _ = blocking(move || admin.approvals.refresh()).await;
    }
}
