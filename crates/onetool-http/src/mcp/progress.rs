//! Progress to the client: what tools report, and a sign of life for runs that take long.

use std::sync::Arc;
use std::time::{Duration, Instant};

use onetool_sdk::{Progress, ProgressSink};
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::{Peer, RoleServer};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// A run says that it lives this often.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// Reports that wait to be sent; more are dropped.
const QUEUE: usize = 64;
/// A message's length at most.
const MAX_MESSAGE: usize = 500;
/// How long the reply waits for the last reports.
const LAST_REPORTS: Duration = Duration::from_secs(1);
/// The protocol wants a number that grows, whatever the tools of one run count: at least by this.
const STEP: f64 = 1e-3;

/// Takes reports without waiting.
struct Queue(mpsc::Sender<Progress>);

impl ProgressSink for Queue {
    fn report(&self, progress: Progress) {
        let _ = self.0.try_send(progress);
    }
}

/// Sends reports to the client, in order.
pub struct ClientProgress {
    sending: JoinHandle<()>,
}

impl ClientProgress {
    /// Starts sending. Ends when the returned sink and its clones are gone.
    pub fn start(peer: Peer<RoleServer>, token: ProgressToken) -> (Self, Arc<dyn ProgressSink>) {
        let (sender, receiver) = mpsc::channel::<Progress>(QUEUE);
        (Self { sending: crate::task::spawn(send_all(peer, token, receiver)) }, Arc::new(Queue(sender)))
    }

    /// Waits until all is sent: nothing may follow the reply.
    pub async fn finish(self) {
        let abort = self.sending.abort_handle();
        if tokio::time::timeout(LAST_REPORTS, self.sending).await.is_err() {
            abort.abort();
        }
    }
}

async fn send_all(peer: Peer<RoleServer>, token: ProgressToken, mut receiver: mpsc::Receiver<Progress>) {
    let started = Instant::now();
    let mut last = 0.0_f64;
    loop {
        let report = match tokio::time::timeout(HEARTBEAT, receiver.recv()).await {
            Ok(Some(report)) => report,
            Ok(None) => return,
            Err(_) => {
                let message = format!("running for {} s", started.elapsed().as_secs());
                Progress { done: 0.0, total: None, message: Some(message) }
            }
        };
        let grows = report.done > last;
        last = if grows { report.done } else { last + STEP };
        let mut params = ProgressNotificationParam::new(token.clone(), last);
        if let Some(total) = report.total.filter(|_| grows) {
            params = params.with_total(total);
        }
        if let Some(message) = report.message.filter(|message| !message.is_empty()) {
            params = params.with_message(message.chars().take(MAX_MESSAGE).collect::<String>());
        }
        if peer.notify_progress(params).await.is_err() {
            return;
        }
    }
}
