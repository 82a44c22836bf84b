//! What a tool's function receives besides its input: the call, a clock, a logger and its dependencies.
//!
//! A clone is the same context: it shares the call's dependencies. [`ToolContext::next_call`] is the context of another
//! call in the same run: run-scoped values are kept, call-scoped ones are made anew.

use std::fmt;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use tokio_util::sync::CancellationToken;

use crate::dependency::{Dependencies, DependencyKey, Resolutions};
use crate::{CallContext, ErrorKind, ToolError};

/// Source of the current time.
pub type Clock = Arc<dyn Fn() -> DateTime<Utc> + Send + Sync>;

/// Severity of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    Debug,
    Info,
    Warning,
    Error,
}

/// Receives a tool's log lines. Must not block.
pub trait Logger: Send + Sync {
    fn log(&self, level: LogLevel, message: &str);
}

/// Writes log lines as `tracing` events.
#[derive(Debug, Clone, Copy, Default)]
pub struct TracingLogger;

impl Logger for TracingLogger {
    fn log(&self, level: LogLevel, message: &str) {
        match level {
            LogLevel::Debug => tracing::debug!(target: "onetool::tool", "{message}"),
            LogLevel::Info => tracing::info!(target: "onetool::tool", "{message}"),
            LogLevel::Warning => tracing::warn!(target: "onetool::tool", "{message}"),
            LogLevel::Error => tracing::error!(target: "onetool::tool", "{message}"),
        }
    }
}

/// What a tool's function receives besides its input. Cheap to clone.
#[derive(Clone)]
pub struct ToolContext {
    pub call: CallContext,
    /// Values and factories supplied by the caller; they take precedence over a key's own factory.
    pub deps: Dependencies,
    clock: Clock,
    logger: Arc<dyn Logger>,
    resolutions: Resolutions,
}

impl ToolContext {
    pub fn new(call: CallContext) -> Self {
        Self {
            call,
            deps: Dependencies::default(),
            clock: Arc::new(Utc::now),
            logger: Arc::new(TracingLogger),
            resolutions: Resolutions::default(),
        }
    }

    #[must_use]
    pub fn with_dependencies(self, deps: Dependencies) -> Self {
        Self { deps, ..self }
    }

    #[must_use]
    pub fn with_clock(self, clock: impl Fn() -> DateTime<Utc> + Send + Sync + 'static) -> Self {
        Self { clock: Arc::new(clock), ..self }
    }

    #[must_use]
    pub fn with_logger(self, logger: impl Logger + 'static) -> Self {
        Self { logger: Arc::new(logger), ..self }
    }

    /// Returns the context of another call in the same run.
    #[must_use]
    pub fn next_call(&self) -> Self {
        self.with_resolutions(self.resolutions.next_call())
    }

    pub(crate) fn resolutions(&self) -> &Resolutions {
        &self.resolutions
    }

    pub(crate) fn with_resolutions(&self, resolutions: Resolutions) -> Self {
        Self { resolutions, ..self.clone() }
    }

    /// Returns the time from the caller's clock.
    pub fn now(&self) -> DateTime<Utc> {
        (self.clock)()
    }

    pub fn log(&self, level: LogLevel, message: impl AsRef<str>) {
        self.logger.log(level, message.as_ref());
    }

    /// Cancelled when the caller gives up.
    pub fn cancellation(&self) -> &CancellationToken {
        &self.call.cancel
    }

    /// Fails if the caller gave up or the deadline has passed. For loops that do not await.
    pub fn check_cancelled(&self) -> Result<(), ToolError> {
        if self.call.cancel.is_cancelled() {
            return Err(cancelled());
        }
        match self.call.remaining() {
            Some(left) if left.is_zero() => Err(timed_out()),
            _ => Ok(()),
        }
    }

    /// Returns the value of a dependency, made once per call (or per run, see [`DependencyKey::per_run`]), even if it
    /// is resolved concurrently. Failures are not cached; a cycle is an error.
    pub async fn resolve<T: Send + Sync + 'static>(&self, key: &DependencyKey<T>) -> Result<Arc<T>, ToolError> {
        let work = crate::dependency::resolve(self, key);
        self.until_over(work).await
    }

    /// Awaits `work` until it ends, the caller gives up, or the deadline passes.
    pub(crate) async fn until_over<T>(&self, work: impl Future<Output = Result<T, ToolError>>) -> Result<T, ToolError> {
        let deadline = self.call.deadline.map(tokio::time::Instant::from_std);
        let expiry = async move {
            match deadline {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.call.cancel.cancelled() => Err(cancelled()),
            outcome = work => outcome,
            () = expiry => Err(timed_out()),
        }
    }
}

fn cancelled() -> ToolError {
    ToolError::new(ErrorKind::Cancelled, "the call was cancelled")
}

fn timed_out() -> ToolError {
    ToolError::new(ErrorKind::Timeout, "the call took longer than its deadline allows")
        .with_hint("ask for less at once, or allow more time")
}

impl Default for ToolContext {
    fn default() -> Self {
        Self::new(CallContext::default())
    }
}

impl fmt::Debug for ToolContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolContext").field("call", &self.call).field("deps", &self.deps).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<(LogLevel, String)>>>);

    impl Logger for Kept {
        fn log(&self, level: LogLevel, message: &str) {
            self.0.lock().push((level, message.to_owned()));
        }
    }

    #[test]
    fn the_caller_chooses_clock_and_logger() {
        let kept = Kept::default();
        let ctx = ToolContext::default().with_clock(|| DateTime::UNIX_EPOCH).with_logger(kept.clone());
        ctx.next_call().log(LogLevel::Warning, format!("it is {}", ctx.now().timestamp()));
        assert_eq!(*kept.0.lock(), [(LogLevel::Warning, "it is 0".to_owned())]);
    }

    #[test]
    fn a_loop_that_does_not_wait_can_ask_whether_to_go_on() {
        let ctx = ToolContext::default();
        assert_eq!(ctx.check_cancelled(), Ok(()));
        ctx.cancellation().cancel();
        assert_eq!(ctx.check_cancelled().unwrap_err().kind, ErrorKind::Cancelled);
    }
}
