//! Which call something is logged in, so that whatever is logged on the way says for which run and tool.
//!
//! A span of the log for every call would cost more than most calls: this is one value per task, read only where something
//! is logged.

use std::sync::Arc;

use onetool_sdk::QualifiedName;

tokio::task_local! {
    static CURRENT: LoggedCall;
}

/// A call that is under way.
#[derive(Debug, Clone)]
pub struct LoggedCall {
    pub run: Arc<str>,
    pub tool: QualifiedName,
}

impl LoggedCall {
    /// Does the work of this call.
    pub(crate) async fn scope<T>(self, work: impl Future<Output = T>) -> T {
        CURRENT.scope(self, work).await
    }

    /// Tells of the call that this thread is working on, if it is.
    pub fn with_current<T>(read: impl FnOnce(&Self) -> T) -> Option<T> {
        CURRENT.try_with(read).ok()
    }
}
