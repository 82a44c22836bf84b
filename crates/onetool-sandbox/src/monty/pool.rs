//! The pool of children: started ahead, lent to one run at a time, replaced when they die, and reduced when idle.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::process::Process;
use crate::Census;
use crate::execution::Failure;

/// Settings of the engine and its pool of children.
#[derive(Debug, Clone)]
pub struct MontySettings {
    /// The executable that acts as a child when started with [`super::CHILD_ARGUMENT`].
    pub executable: PathBuf,
    /// Number of children that are started ahead and kept.
    pub prewarmed: usize,
    /// Maximum number of children.
    pub max_children: usize,
    /// Maximum number of runs that wait for a child; more are refused.
    pub max_waiting: usize,
    /// How long a run waits for a child.
    pub wait: Duration,
    /// Children beyond `prewarmed` are ended after this long without a run.
    pub idle_timeout: Duration,
}

/// A child is replaced after this many runs, so that no slow leak adds up.
const RUNS_PER_CHILD: u32 = 10_000;

/// The children of one engine.
pub(super) struct Pool {
    settings: MontySettings,
    state: Mutex<State>,
    /// One permit per child that may be lent.
    children: Arc<Semaphore>,
    /// One permit per run that has a child or waits for one.
    places: Arc<Semaphore>,
}

#[derive(Default)]
struct State {
    /// The most recently used one is last, and is used first.
    idle: Vec<Process>,
    last_use: Option<Instant>,
    /// Ends surplus children.
    shrinking: Option<AbortHandle>,
}

impl Pool {
    pub(super) fn new(settings: MontySettings) -> Arc<Self> {
        let children = settings.max_children.max(1);
        Arc::new(Self {
            children: Arc::new(Semaphore::new(children)),
            places: Arc::new(Semaphore::new(children + settings.max_waiting)),
            state: Mutex::default(),
            settings,
        })
    }

    /// Starts children until the configured number is idle.
    pub(super) fn warm_up(&self) -> Result<(), Failure> {
        let wanted = self.settings.prewarmed.min(self.settings.max_children.max(1));
        while self.state.lock().idle.len() < wanted {
            let process = Process::start(&self.settings.executable)?;
            self.state.lock().idle.push(process);
        }
        Ok(())
    }

    /// Lends a child, which is killed unless it is [returned](Lent::finish).
    pub(super) async fn lend(self: &Arc<Self>) -> Result<Lent, Failure> {
        let Ok(place) = self.places.clone().try_acquire_owned() else {
            let most = self.settings.max_children.max(1) + self.settings.max_waiting;
            return Err(Failure::Busy(format!("{most} runs are under way or waiting already")));
        };
        let permit = match self.children.clone().try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => match tokio::time::timeout(self.settings.wait, self.children.clone().acquire_owned()).await {
                Ok(Ok(permit)) => permit,
                Ok(Err(_)) | Err(_) => {
                    return Err(Failure::Busy(format!("no sandbox became free within {:?}", self.settings.wait)));
                }
            },
        };
        let (process, waited) = loop {
            let idle = self.state.lock().idle.pop();
            let Some(mut process) = idle else { break (Process::start(&self.settings.executable)?, false) };
            // It may have died while idle.
            if process.is_alive() {
                break (process, true);
            }
        };
        Ok(Lent { process, waited, pool: self.clone(), _permits: (place, permit) })
    }

    /// Returns the process ids of the children that wait for a run.
    pub(super) fn idle(&self) -> Vec<u32> {
        self.state.lock().idle.iter().filter_map(Process::id).collect()
    }

    pub(super) fn census(&self) -> Census {
        let most = self.settings.max_children.max(1);
        let busy = most.saturating_sub(self.children.available_permits());
        let placed = (most + self.settings.max_waiting).saturating_sub(self.places.available_permits());
        let idle = self.state.lock().idle.len();
        Census { busy, idle, waiting: placed.saturating_sub(busy), ..Census::default() }
    }

    /// Ends the idle children.
    pub(super) async fn shut_down(&self) {
        let idle = {
            let mut state = self.state.lock();
            if let Some(shrinking) = state.shrinking.take() {
                shrinking.abort();
            }
            std::mem::take(&mut state.idle)
        };
        futures_util::future::join_all(idle.into_iter().map(Process::end)).await;
    }

    fn take_back(self: &Arc<Self>, mut process: Process) {
        process.runs += 1;
        if process.runs >= RUNS_PER_CHILD {
            return;
        }
        let mut state = self.state.lock();
        state.idle.push(process);
        state.last_use = Some(Instant::now());
        if state.idle.len() > self.settings.prewarmed && state.shrinking.is_none() {
            let shrinking = tokio::spawn(shrink_when_quiet(Arc::downgrade(self), self.settings.idle_timeout));
            state.shrinking = Some(shrinking.abort_handle());
        }
    }

    /// Removes and returns the surplus children, or returns when to check again.
    fn surplus(&self) -> Result<Vec<Process>, Instant> {
        let mut state = self.state.lock();
        let quiet_at = state.last_use.map_or_else(Instant::now, |used| used + self.settings.idle_timeout);
        if quiet_at > Instant::now() {
            return Err(quiet_at);
        }
        state.shrinking = None;
        let surplus = state.idle.len().saturating_sub(self.settings.prewarmed);
        Ok(state.idle.drain(..surplus).collect())
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if let Some(shrinking) = self.state.get_mut().shrinking.take() {
            shrinking.abort();
        }
    }
}

async fn shrink_when_quiet(pool: std::sync::Weak<Pool>, idle_timeout: Duration) {
    let mut next = Instant::now() + idle_timeout;
    loop {
        tokio::time::sleep_until(next).await;
        let Some(surplus) = pool.upgrade().map(|pool| pool.surplus()) else { return };
        match surplus {
            Err(later) => next = later,
            Ok(surplus) => {
                futures_util::future::join_all(surplus.into_iter().map(Process::end)).await;
                return;
            }
        }
    }
}

/// A child in use.
pub(super) struct Lent {
    process: Process,
    /// It was started earlier, and may have died since.
    pub(super) waited: bool,
    pool: Arc<Pool>,
    _permits: (OwnedSemaphorePermit, OwnedSemaphorePermit),
}

impl Lent {
    pub(super) fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Returns a child that has reported the end of its program. It cleans up while the reply is on its way.
    pub(super) fn finish(self) {
        self.pool.take_back(self.process);
    }
}
