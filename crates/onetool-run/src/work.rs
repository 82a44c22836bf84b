//! What is under way, and how all of it ends when the server does.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio_util::sync::CancellationToken;

/// Counts runs, and cancels runs and calls once there is no more time for them. Cheap to clone; clones share.
#[derive(Debug, Clone, Default)]
pub struct Work {
    runs: Arc<AtomicUsize>,
    over: CancellationToken,
}

/// One run that is under way.
pub(crate) struct UnderWay(Arc<AtomicUsize>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Work {
    /// Runs that have not ended yet.
    pub fn runs(&self) -> usize {
        self.runs.load(Ordering::Acquire)
    }

    /// Cancels every run and every call, those to come too. Each is answered.
    pub fn cancel_all(&self) {
        self.over.cancel();
    }

    pub(crate) fn begin(&self) -> UnderWay {
        self.runs.fetch_add(1, Ordering::AcqRel);
        UnderWay(self.runs.clone())
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.is_cancelled()
    }

    pub(crate) async fn over(&self) {
        self.over.cancelled().await;
    }
}
