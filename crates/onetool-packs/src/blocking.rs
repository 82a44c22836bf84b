//! Runs the blocking work of native tools outside the async threads.
//!
//! The work gets a [`Stop`] and checks it at regular steps (a line, a file, a chunk), so that a cancelled or late call
//! ends soon. The caller does not wait for a step that hangs in the kernel.
//!
//! Only a few calls of one run work at a time: more would not be faster, and would keep more data in memory at once.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Weak};
use std::time::Instant;

use onetool_sdk::{ErrorKind, ToolContext, ToolError};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// Maximum number of concurrent calls per run. The others wait.
const AT_ONCE: usize = 4;

/// The semaphores of runs with active calls.
static TURNS: LazyLock<Mutex<HashMap<Arc<str>, Weak<Semaphore>>>> = LazyLock::new(Mutex::default);

fn turns(run: &Arc<str>) -> Arc<Semaphore> {
    let mut all = TURNS.lock();
    if let Some(known) = all.get(run).and_then(Weak::upgrade) {
        return known;
    }
    all.retain(|_, turns| turns.strong_count() > 0);
    let new = Arc::new(Semaphore::new(AT_ONCE));
    all.insert(run.clone(), Arc::downgrade(&new));
    new
}

/// Whether work should stop.
#[derive(Debug, Clone)]
pub(crate) struct Stop {
    cancel: CancellationToken,
    deadline: Option<Instant>,
}

impl Stop {
    pub(crate) fn of(ctx: &ToolContext) -> Self {
        Self { cancel: ctx.call.cancel.clone(), deadline: ctx.call.deadline }
    }

    pub(crate) fn check(&self) -> Result<(), ToolError> {
        if self.cancel.is_cancelled() {
            return Err(cancelled());
        }
        if self.deadline.is_some_and(|at| Instant::now() >= at) {
            return Err(ToolError::new(ErrorKind::Timeout, "the call took longer than it may"));
        }
        Ok(())
    }

    pub(crate) fn is_set(&self) -> bool {
        self.check().is_err()
    }
}

fn cancelled() -> ToolError {
    ToolError::new(ErrorKind::Cancelled, "the call was cancelled")
}

/// Runs `work` on a thread where blocking is allowed.
pub(crate) async fn blocking<T, F>(ctx: &ToolContext, work: F) -> Result<T, ToolError>
where
    T: Send + 'static,
    F: FnOnce(&Stop) -> Result<T, ToolError> + Send + 'static,
{
    let stop = Stop::of(ctx);
    stop.check()?;
    // Held until the caller has the outcome.
    let _turn = tokio::select! {
        biased;
        turn = turns(&ctx.call.run_id).acquire_owned() => turn,
        () = ctx.call.cancel.cancelled() => return Err(cancelled()),
    };
    let task = tokio::task::spawn_blocking(move || work(&stop));
    tokio::select! {
        biased;
        outcome = task => outcome.map_err(|error| ToolError::internal(format!("the tool's work ended early: {error}")))?,
        () = ctx.call.cancel.cancelled() => Err(cancelled()),
    }
}
