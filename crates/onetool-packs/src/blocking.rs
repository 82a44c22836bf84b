//! Blocking work of native tools, off the async threads.
//!
//! The work gets a [`Stop`] and asks it at every step whose number the caller chooses (a line, a file, a chunk), so a
//! cancelled or late call ends soon; the caller does not wait for a step that hangs in the kernel.

use std::time::Instant;

use onetool_sdk::{ErrorKind, ToolContext, ToolError};
use tokio_util::sync::CancellationToken;

/// Whether work should still go on.
#[derive(Debug, Clone)]
pub(crate) struct Stop {
    cancel: CancellationToken,
    deadline: Option<Instant>,
}

impl Stop {
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

/// Runs `work` where blocking is allowed.
pub(crate) async fn blocking<T, F>(ctx: &ToolContext, work: F) -> Result<T, ToolError>
where
    T: Send + 'static,
    F: FnOnce(&Stop) -> Result<T, ToolError> + Send + 'static,
{
    let stop = Stop { cancel: ctx.call.cancel.clone(), deadline: ctx.call.deadline };
    stop.check()?;
    let task = tokio::task::spawn_blocking(move || work(&stop));
    tokio::select! {
        biased;
        outcome = task => outcome.map_err(|error| ToolError::internal(format!("the tool's work ended early: {error}")))?,
        () = ctx.call.cancel.cancelled() => Err(cancelled()),
    }
}
