//! Detects the end of a burst of requests, when the memory it needed can be released.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::Service;

/// Minimum number of requests in a burst; fewer do not need enough memory to matter.
const FEW: u64 = 16;
/// Number of checks per quiet period.
const LOOKS: u32 = 4;

/// Counts requests.
#[derive(Default)]
pub(crate) struct Traffic(AtomicU64);

impl Traffic {
    pub(crate) fn count(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Notifies the service each time a burst is followed by a quiet period, until the server stops.
    pub(crate) async fn watch(self: Arc<Self>, service: Arc<dyn Service>, stop: CancellationToken) {
        let (mut seen, mut settled, mut unchanged) = (0, 0, 0);
        loop {
            let patience = service.served().quiet_after.max(Duration::from_millis(10));
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(patience / LOOKS) => {}
            }
            let now = self.0.load(Ordering::Relaxed);
            unchanged = if now == seen { unchanged + 1 } else { 0 };
            if unchanged >= LOOKS && now >= settled + FEW {
                settled = now;
                let service = service.clone();
                let _ = crate::task::blocking(move || service.quiet()).await;
            }
            seen = now;
        }
    }
}
