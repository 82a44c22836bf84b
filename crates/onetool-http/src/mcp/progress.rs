//! Progress for the client: reports of tools, and a heartbeat for long runs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use onetool_sdk::{Progress, ProgressSink};
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::{Peer, RoleServer};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Interval between signs of life of a run.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// Maximum number of queued reports; more are dropped.
const QUEUE: usize = 64;
/// Number of reports sent without delay. Beyond it, only the newest is sent in each period.
const BURST: u32 = 100;
/// Interval between reports beyond a burst, and the time to regain one of the next burst.
const PERIOD: Duration = Duration::from_millis(50);
/// Maximum length of a message.
const MAX_MESSAGE: usize = 500;
/// How long the reply waits for the last reports.
const LAST_REPORTS: Duration = Duration::from_secs(1);
/// Minimum step: the protocol requires a growing number, whatever the tools of one run count.
const STEP: f64 = 1e-3;

/// Accepts reports without waiting.
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
    /// Starts sending. Ends when the returned sink and its clones are dropped.
    pub fn start(peer: Peer<RoleServer>, token: ProgressToken) -> (Self, Arc<dyn ProgressSink>) {
        let (sender, receiver) = mpsc::channel::<Progress>(QUEUE);
        (Self { sending: crate::task::spawn(send_all(peer, token, receiver)) }, Arc::new(Queue(sender)))
    }

    /// Waits until everything is sent: nothing may follow the reply.
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
    let mut pace = Pace { left: BURST, since: started };
    loop {
        let report = match tokio::time::timeout(HEARTBEAT, receiver.recv()).await {
            Ok(Some(report)) => report,
            Ok(None) => return,
            Err(_) => {
                let message = format!("running for {} s", started.elapsed().as_secs());
                Progress { done: 0.0, total: None, message: Some(message) }
            }
        };
        let report = pace.newest(report, &mut receiver).await;
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

/// Limits the rate of reports, so that a tool cannot flood a client.
struct Pace {
    /// Remaining reports of the burst.
    left: u32,
    /// The time up to which the burst has been replenished.
    since: Instant,
}

impl Pace {
    /// Returns when the next report may be sent; `None` if at once.
    fn turn(&mut self, now: Instant) -> Option<Instant> {
        let earned = (now.saturating_duration_since(self.since).as_millis() / PERIOD.as_millis()) as u32;
        self.left = self.left.saturating_add(earned).min(BURST);
        self.since += PERIOD * earned;
        if self.left > 0 {
            self.left -= 1;
            return None;
        }
        self.since += PERIOD;
        Some(self.since)
    }

    /// Waits for the report's turn; returns it, or the newest that arrived meanwhile.
    async fn newest(&mut self, mut report: Progress, receiver: &mut mpsc::Receiver<Progress>) -> Progress {
        let Some(turn) = self.turn(Instant::now()) else { return report };
        loop {
            match tokio::time::timeout_at(turn.into(), receiver.recv()).await {
                Ok(Some(newer)) => report = newer,
                Ok(None) | Err(_) => return report,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_a_burst_a_flood_is_thinned_out() {
        let start = Instant::now();
        let mut pace = Pace { left: BURST, since: start };
        assert!((0..BURST).all(|_| pace.turn(start).is_none()));
        // Sending at each turn yields twenty reports per second.
        let mut now = start;
        for _ in 0..20 {
            now = pace.turn(now).unwrap();
        }
        assert_eq!(now - start, Duration::from_secs(1));
        // A quiet time earns one new burst at most.
        now += Duration::from_mins(1);
        assert!((0..BURST).all(|_| pace.turn(now).is_none()));
        assert!(pace.turn(now).is_some());
    }

    #[tokio::test]
    async fn the_newest_report_goes_out_when_its_turn_comes_and_the_last_is_told() {
        let (sender, mut receiver) = mpsc::channel(QUEUE);
        let report = |done: u32| Progress { done: done.into(), total: None, message: None };
        for done in 2..=10 {
            sender.try_send(report(done)).unwrap();
        }
        drop(sender);
        let mut pace = Pace { left: 0, since: Instant::now() };
        assert_eq!(pace.newest(report(1), &mut receiver).await.done, 10.0);
    }
}
