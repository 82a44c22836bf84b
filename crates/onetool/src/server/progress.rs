//! Progress to the client: what tools report, and a sign of life for runs that take long.

use std::sync::Arc;
use std::time::{Duration, Instant};

use onetool_sdk::{Progress, ProgressSink};
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::{Peer, RoleServer};
use tokio::sync::mpsc;

/// A run says that it lives this often.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// Reports that wait to be sent; more are dropped.
const QUEUE: usize = 64;
/// A message's length at the most.
const MAX_MESSAGE: usize = 500;

/// Sends reports to the client in order, until dropped.
pub struct ClientProgress {
    sender: mpsc::Sender<Progress>,
}

impl ProgressSink for ClientProgress {
    fn report(&self, progress: Progress) {
        let _ = self.sender.try_send(progress);
    }
}

/// Starts sending. Nothing is sent for the run once the returned sink and its clones are gone.
pub fn start(peer: Peer<RoleServer>, token: ProgressToken) -> Arc<ClientProgress> {
    let (sender, mut receiver) = mpsc::channel::<Progress>(QUEUE);
    tokio::spawn(async move {
        let started = Instant::now();
        let mut count = 0.0_f64;
        loop {
            let report = match tokio::time::timeout(HEARTBEAT, receiver.recv()).await {
                Ok(Some(report)) => report,
                Ok(None) => return,
                Err(_) => Progress {
                    done: 0.0,
                    total: None,
                    message: Some(format!("running for {} s", started.elapsed().as_secs())),
                },
            };
            // The protocol wants a number that grows, whatever the tools of one run count.
            count += 1.0;
            let mut message = report.message.unwrap_or_default();
            if report.done > 0.0 || report.total.is_some() {
                let total = report.total.map(|total| format!("/{total}")).unwrap_or_default();
                message = format!("{message} ({}{total})", report.done).trim().to_owned();
            }
            let message: String = message.chars().take(MAX_MESSAGE).collect();
            let params = ProgressNotificationParam::new(token.clone(), count).with_message(message);
            if peer.notify_progress(params).await.is_err() {
                return;
            }
        }
    });
    Arc::new(ClientProgress { sender })
}
