//! Notices when a burst of requests is over: memory that it needed can then be given back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::Service;

/// Requests so few that their memory is not worth a look.
const FEW: u64 = 16;
/// So often it is looked for requests in the time after which it counts as quiet.
const LOOKS: u32 = 4;

/// Counts requests.
#[derive(Default)]
pub(crate) struct Traffic(AtomicU64);

impl Traffic {
    pub(crate) fn count(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Tells the service each time that it has been quiet after a burst, until the server stops.
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
