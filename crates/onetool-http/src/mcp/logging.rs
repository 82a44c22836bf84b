//! `logging/setLevel`: the client hears what we log, from the level that it asked for.

#![expect(deprecated, reason = "clients of today still ask for logging")]

use parking_lot::Mutex;
use rmcp::model::{LoggingLevel, LoggingMessageNotificationParam};
use rmcp::{Peer, RoleServer};
use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinHandle;
use tracing::Level;
use tracing::level_filters::LevelFilter;

use crate::Service;

/// What one client hears. Nothing until it asks; nothing once it is gone.
#[derive(Default)]
pub struct ClientLog {
    task: Mutex<Option<JoinHandle<()>>>,
}

impl ClientLog {
    /// The client hears everything from this level up, and nothing else, from now on.
    pub fn set_level(&self, service: &dyn Service, peer: Peer<RoleServer>, level: LoggingLevel) {
        let level = threshold(level);
        let mut messages = service.log_messages(level);
        let task = tokio::spawn(async move {
            loop {
                let (message_level, data) = match messages.recv().await {
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
        if let Some(old) = self.task.lock().replace(task) {
            old.abort();
        }
    }
}

impl Drop for ClientLog {
    fn drop(&mut self) {
        if let Some(task) = self.task.get_mut().take() {
            task.abort();
        }
    }
}

fn threshold(level: LoggingLevel) -> LevelFilter {
    match level {
        LoggingLevel::Debug => LevelFilter::DEBUG,
        LoggingLevel::Info => LevelFilter::INFO,
        LoggingLevel::Notice | LoggingLevel::Warning => LevelFilter::WARN,
        LoggingLevel::Error => LevelFilter::ERROR,
        // We log nothing that is worse than an error.
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
