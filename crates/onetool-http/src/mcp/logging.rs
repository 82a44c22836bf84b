//! `logging/setLevel`: sends our log to the client, from the requested level up.

#![expect(deprecated, reason = "clients of today still ask for logging")]

use std::time::Duration;

use parking_lot::Mutex;
use rmcp::model::{LoggingLevel, LoggingMessageNotificationParam};
use rmcp::{Peer, RoleServer};
use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::Level;
use tracing::level_filters::LevelFilter;

use crate::Service;

/// How long a reply waits for the last log messages.
const LAST_MESSAGES: Duration = Duration::from_secs(1);

/// The log messages sent to one client. None until it asks, and none once it has disconnected.
#[derive(Default)]
pub struct ClientLog {
    sending: Mutex<Option<Sending>>,
}

struct Sending {
    task: JoinHandle<()>,
    /// Cancelled to stop after the messages logged so far.
    last: CancellationToken,
}

impl ClientLog {
    /// From now on, sends messages of this level or more severe, and no others.
    pub fn set_level(&self, service: &dyn Service, peer: Peer<RoleServer>, level: LoggingLevel) {
        let level = threshold(level);
        let mut messages = service.log_messages(level);
        let last = CancellationToken::new();
        let ending = last.clone();
        let task = crate::task::spawn(async move {
            loop {
                let received = tokio::select! {
                    biased;
                    received = messages.recv() => received,
                    () = ending.cancelled() => return,
                };
                let (message_level, data) = match received {
                    Ok(message) => (message.level, message.data),
                    Err(RecvError::Lagged(count)) => (Level::WARN, format!("{count} messages were left out").into()),
                    Err(RecvError::Closed) => return,
                };
                if message_level > level {
                    continue;
                }
                let params = LoggingMessageNotificationParam::new(named(message_level), data).with_logger("onetool");
                if peer.notify_logging_message(params).await.is_err() {
                    return;
                }
            }
        });
        if let Some(old) = self.sending.lock().replace(Sending { task, last }) {
            old.task.abort();
        }
    }

    /// Sends the messages logged so far and stops: nothing may follow the reply.
    pub async fn finish(self) {
        let Some(sending) = self.sending.lock().take() else { return };
        sending.last.cancel();
        let abort = sending.task.abort_handle();
        if tokio::time::timeout(LAST_MESSAGES, sending.task).await.is_err() {
            abort.abort();
        }
    }
}

impl Drop for ClientLog {
    fn drop(&mut self) {
        if let Some(sending) = self.sending.get_mut().take() {
            sending.task.abort();
        }
    }
}

fn threshold(level: LoggingLevel) -> LevelFilter {
    match level {
        LoggingLevel::Debug => LevelFilter::DEBUG,
        LoggingLevel::Info => LevelFilter::INFO,
        LoggingLevel::Notice | LoggingLevel::Warning => LevelFilter::WARN,
        LoggingLevel::Error => LevelFilter::ERROR,
        // We log nothing more severe than an error.
        LoggingLevel::Critical | LoggingLevel::Alert | LoggingLevel::Emergency => LevelFilter::OFF,
    }
}

fn named(level: Level) -> LoggingLevel {
    match level {
        Level::ERROR => LoggingLevel::Error,
        Level::WARN => LoggingLevel::Warning,
        Level::INFO => LoggingLevel::Info,
        Level::DEBUG | Level::TRACE => LoggingLevel::Debug,
    }
}
