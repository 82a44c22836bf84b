//! Between rmcp and the wire.
//!
//! [`ObservedTransport`] wraps any transport: it registers calls as they are sent and handles progress, log messages and list changes
//! in order of arrival, before the reply that follows them. The transports themselves are in `child` (a process),
//! `http` (streamable HTTP) and `sse` (the older one).

#![expect(deprecated, reason = "log messages are on their way out of the protocol, but servers send them")]

use std::collections::VecDeque;
use std::future::Future;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use rmcp::RoleClient;
use rmcp::model::{
    ClientJsonRpcMessage, GetExtensions, GetMeta, JsonRpcMessage, JsonRpcRequest, LoggingLevel, ServerJsonRpcMessage,
    ServerNotification,
};
use rmcp::transport::Transport;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::calls::{CallsUnderWay, LinkExtension};
use super::settings::{ServerSettings, limits};
use super::text::Redactor;
use super::watching::News;

/// State shared by a connection and its transport.
pub(super) struct Wire {
    pub(super) server: String,
    pub(super) calls: CallsUnderWay,
    /// Notified when the server announces that its tools changed.
    pub(super) tools_changed: Notify,
    pub(super) news: News,
    /// Cancelled when nothing more can arrive.
    pub(super) closed: CancellationToken,
    /// Why nothing more can arrive, if a better reason than "closed" is known.
    pub(super) reason: Mutex<Option<String>>,
    /// The last lines of standard error.
    pub(super) last_words: Mutex<VecDeque<String>>,
    /// Maximum size of a message from the server, in bytes.
    pub(super) max_message: usize,
    pub(super) redactor: Redactor,
}

/// Number of lines of standard error that are kept.
const LAST_WORDS: usize = 5;

impl Wire {
    pub(super) fn new(settings: &ServerSettings, redactor: Redactor, news: News) -> Arc<Self> {
        Arc::new(Self {
            server: settings.name.clone(),
            calls: CallsUnderWay::default(),
            tools_changed: Notify::new(),
            news,
            closed: CancellationToken::new(),
            reason: Mutex::new(None),
            last_words: Mutex::new(VecDeque::new()),
            max_message: settings.max_message_bytes,
            redactor,
        })
    }

    /// Records that the connection ends because of an overlong message, and returns the reason.
    pub(super) fn too_long(&self) -> String {
        let reason = too_long(self.max_message);
        *self.reason.lock() = Some(reason.clone());
        reason
    }

    /// Keeps a line of standard error, in case it is one of the last.
    pub(super) fn said(&self, line: String) {
        let mut words = self.last_words.lock();
        if words.len() == LAST_WORDS {
            words.pop_front();
        }
        words.push_back(line);
    }

    /// Why the connection ended, as far as known.
    pub(super) fn reason_or(&self, otherwise: &str) -> String {
        let reason = self.reason.lock().clone().unwrap_or_else(|| otherwise.to_owned());
        let last = self.last_words.lock().back().cloned();
        match last {
            Some(words) => self.redactor.show(&format!("{reason}; it last said: {words}"), limits::REASON_CHARS),
            None => self.redactor.show(&reason, limits::REASON_CHARS),
        }
    }
}

/// The reason for a message longer than `limit` bytes.
pub(super) fn too_long(limit: usize) -> String {
    let limit = limit as f64 / f64::from(1024 * 1024);
    format!("it sent a message of more than {limit} MiB (servers.<name>.max_message_mb)")
}

/// A rate limit per window of time.
pub(super) struct Gate {
    since: Instant,
    passed: u32,
    held_back: u64,
    limit: u32,
    window: std::time::Duration,
}

impl Gate {
    pub(super) fn new(limit: u32, window: std::time::Duration) -> Self {
        Self { since: Instant::now(), passed: 0, held_back: 0, limit, window }
    }

    /// Returns how many were suppressed before this one, or `None` if this one is suppressed too.
    pub(super) fn pass(&mut self) -> Option<u64> {
        if self.since.elapsed() >= self.window {
            self.since = Instant::now();
            self.passed = 0;
        }
        if self.passed < self.limit {
            self.passed += 1;
            Some(std::mem::take(&mut self.held_back))
        } else {
            self.held_back += 1;
            None
        }
    }
}

/// A transport whose messages are observed.
pub(super) struct ObservedTransport<T> {
    inner: T,
    wire: Arc<Wire>,
    log_gate: Gate,
}

impl<T> ObservedTransport<T> {
    pub(super) fn new(inner: T, wire: Arc<Wire>) -> Self {
        Self { inner, wire, log_gate: Gate::new(limits::LOG_MESSAGES, limits::LOG_WINDOW) }
    }

    /// Handles a message that only concerns us; returns any other.
    fn hear(&mut self, message: ServerJsonRpcMessage) -> Option<ServerJsonRpcMessage> {
        let JsonRpcMessage::Notification(notification) = message else { return Some(message) };
        match notification.notification {
            ServerNotification::ProgressNotification(progress) => {
                self.wire.calls.progress(progress.params);
                None
            }
            ServerNotification::LoggingMessageNotification(log) => {
                if let Some(held_back) = self.log_gate.pass() {
                    let text = match &log.params.data {
                        serde_json::Value::String(text) => text.clone(),
                        other => other.to_string(),
                    };
                    let text = self.wire.redactor.show(&text, limits::LOG_CHARS);
                    log_message(&self.wire.server, log.params.level, &text, held_back);
                }
                None
            }
            ServerNotification::ToolListChangedNotification(_) => {
                self.wire.tools_changed.notify_one();
                None
            }
            ServerNotification::ResourceListChangedNotification(_) => {
                self.wire.news.resources();
                None
            }
            ServerNotification::PromptListChangedNotification(_) => {
                self.wire.news.prompts();
                None
            }
            ServerNotification::ResourceUpdatedNotification(updated) => {
                self.wire.news.resource(updated.params.uri);
                None
            }
            other => Some(JsonRpcMessage::notification(other)),
        }
    }
}

/// Log target for messages of servers, not our own.
pub(super) const SERVER_LOG_TARGET: &str = "onetool::said";

fn log_message(server: &str, level: LoggingLevel, text: &str, held_back: u64) {
    match level {
        LoggingLevel::Debug => tracing::debug!(target: SERVER_LOG_TARGET, server, held_back, "{text}"),
        LoggingLevel::Info | LoggingLevel::Notice => {
            tracing::info!(target: SERVER_LOG_TARGET, server, held_back, "{text}");
        }
        LoggingLevel::Warning => tracing::warn!(target: SERVER_LOG_TARGET, server, held_back, "{text}"),
        LoggingLevel::Error | LoggingLevel::Critical | LoggingLevel::Alert | LoggingLevel::Emergency => {
            tracing::error!(target: SERVER_LOG_TARGET, server, held_back, "{text}");
        }
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for ObservedTransport<T> {
    type Error = T::Error;

    fn send(&mut self, item: ClientJsonRpcMessage) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        if let JsonRpcMessage::Request(JsonRpcRequest { id, request, .. }) = &item
            && let Some(LinkExtension(link)) = request.extensions().get::<LinkExtension>().cloned()
        {
            link.hand_over(0);
            self.wire.calls.note(id.clone(), request.get_meta().get_progress_token(), &link);
        }
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        // Cancel-safe: the only await is the inner transport, which is cancel-safe.
        loop {
            let Some(message) = self.inner.receive().await else {
                self.wire.closed.cancel();
                return None;
            };
            if let Some(message) = self.hear(message) {
                return Some(message);
            }
        }
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.wire.closed.cancel();
        self.inner.close()
    }
}
