//! The call during which something is logged, so that log lines can name their run and tool.
//!
//! A log span per call would cost more than most calls: this is one value per task, read only when something is logged.

use std::sync::Arc;

use onetool_sdk::QualifiedName;

tokio::task_local! {
    static CURRENT: LoggedCall;
}

/// A call in progress.
#[derive(Debug, Clone)]
pub struct LoggedCall {
    pub run: Arc<str>,
    pub tool: QualifiedName,
}

impl LoggedCall {
    /// Runs the work of this call.
    pub(crate) async fn scope<T>(self, work: impl Future<Output = T>) -> T {
        CURRENT.scope(self, work).await
    }

    /// Reads the call that this task is working on, if any.
    pub fn with_current<T>(read: impl FnOnce(&Self) -> T) -> Option<T> {
        CURRENT.try_with(read).ok()
    }
}
