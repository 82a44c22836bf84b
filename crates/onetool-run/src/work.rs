//! Tracks the work in progress, and cancels it when the server stops.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio_util::sync::CancellationToken;

/// Counts runs, and cancels runs and calls when the drain period is over. Cheap to clone; clones share.
#[derive(Debug, Clone, Default)]
pub struct Work {
    runs: Arc<AtomicUsize>,
    over: CancellationToken,
}

/// A run in progress.
pub(crate) struct UnderWay(Arc<AtomicUsize>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Work {
    /// Number of runs in progress.
    pub fn runs(&self) -> usize {
        self.runs.load(Ordering::Acquire)
    }

    /// Cancels every run and every call, including later ones. Each still gets an answer.
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
