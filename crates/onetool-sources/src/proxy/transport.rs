//! Between rmcp and the wire.
//!
//! [`Tap`] sits on any transport: it notes calls as they go out and handles progress, log messages and changes of lists
//! in the order in which they come, before the reply that follows them. [`ChildTransport`] is a child process with its
//! streams: messages on standard input and output, talk on standard error, and an end that leaves nobody behind.

#![expect(deprecated, reason = "log messages are on their way out of the protocol, but servers send them")]

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::process::Stdio;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use parking_lot::Mutex;
use process_wrap::tokio::{ChildWrapper, CommandWrap};
use rmcp::RoleClient;
use rmcp::model::{
    ClientJsonRpcMessage, GetExtensions, GetMeta, JsonRpcMessage, JsonRpcRequest, LoggingLevel, ServerJsonRpcMessage,
    ServerNotification,
};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::io::{AsyncRead, AsyncReadExt as _, ReadBuf};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::calls::{CallsUnderWay, LinkExtension};
use super::settings::limits;
use super::text::Redactor;

/// What a connection and its transport both know.
pub(super) struct Wire {
    pub(super) server: String,
    pub(super) calls: CallsUnderWay,
    /// Set when the server said that its tools are others now.
    pub(super) tools_changed: Notify,
    /// Cancelled when nothing more can come.
    pub(super) closed: CancellationToken,
    /// Why nothing more can come, where it is known better than "closed".
    pub(super) reason: Mutex<Option<String>>,
    /// The last lines of standard error.
    pub(super) last_words: Mutex<VecDeque<String>>,
    pub(super) redactor: Redactor,
}

/// How many lines of standard error are remembered.
const LAST_WORDS: usize = 5;

impl Wire {
    pub(super) fn new(server: &str, redactor: Redactor) -> Arc<Self> {
        Arc::new(Self {
            server: server.to_owned(),
            calls: CallsUnderWay::default(),
            tools_changed: Notify::new(),
            closed: CancellationToken::new(),
            reason: Mutex::new(None),
            last_words: Mutex::new(VecDeque::new()),
            redactor,
        })
    }

    /// Why the connection ended, as far as anybody knows.
    pub(super) fn reason_or(&self, otherwise: &str) -> String {
        let reason = self.reason.lock().clone().unwrap_or_else(|| otherwise.to_owned());
        let last = self.last_words.lock().back().cloned();
        match last {
            Some(words) => self.redactor.show(&format!("{reason}; it last said: {words}"), limits::REASON_CHARS),
            None => self.redactor.show(&reason, limits::REASON_CHARS),
        }
    }
}

/// Counts what may pass in one window of time.
struct Gate {
    since: Instant,
    passed: u32,
    held_back: u64,
    limit: u32,
    window: std::time::Duration,
}

impl Gate {
    fn new(limit: u32, window: std::time::Duration) -> Self {
        Self { since: Instant::now(), passed: 0, held_back: 0, limit, window }
    }

    /// Whether one more may pass, and how many were held back before it.
    fn pass(&mut self) -> Option<u64> {
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

/// A transport that is listened to.
pub(super) struct Tap<T> {
    inner: T,
    wire: Arc<Wire>,
    log_gate: Gate,
}

impl<T> Tap<T> {
    pub(super) fn new(inner: T, wire: Arc<Wire>) -> Self {
        Self { inner, wire, log_gate: Gate::new(limits::LOG_MESSAGES, limits::LOG_WINDOW) }
    }

    /// Handles a message that only we are interested in; gives back any other.
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
            ServerNotification::ResourceListChangedNotification(_)
            | ServerNotification::PromptListChangedNotification(_)
            | ServerNotification::ResourceUpdatedNotification(_) => None,
            other => Some(JsonRpcMessage::notification(other)),
        }
    }
}

fn log_message(server: &str, level: LoggingLevel, text: &str, held_back: u64) {
    match level {
        LoggingLevel::Debug => tracing::debug!(target: "onetool::server", server, held_back, "{text}"),
        LoggingLevel::Info | LoggingLevel::Notice => {
            tracing::info!(target: "onetool::server", server, held_back, "{text}");
        }
        LoggingLevel::Warning => tracing::warn!(target: "onetool::server", server, held_back, "{text}"),
        LoggingLevel::Error | LoggingLevel::Critical | LoggingLevel::Alert | LoggingLevel::Emergency => {
            tracing::error!(target: "onetool::server", server, held_back, "{text}");
        }
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Tap<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        mut item: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        if let JsonRpcMessage::Request(JsonRpcRequest { id, request, .. }) = &mut item
            && let Some(LinkExtension(link)) = request.extensions_mut().remove::<LinkExtension>()
        {
            self.wire.calls.note(id.clone(), request.get_meta().get_progress_token(), &link);
        }
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        // Safe to drop between messages: the only thing awaited is the inner transport, which is.
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

/// A child process as a transport.
pub(super) struct ChildTransport {
    lines: AsyncRwTransport<RoleClient, LineGuard<ChildStdout>, ChildStdin>,
    child: Option<Box<dyn ChildWrapper>>,
    talk: Option<tokio::task::JoinHandle<()>>,
    wire: Arc<Wire>,
    has_ended: bool,
}

impl ChildTransport {
    /// Starts the process.
    pub(super) fn spawn(mut command: CommandWrap, wire: &Arc<Wire>) -> io::Result<Self> {
        command.command_mut().stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let missing = || io::Error::other("a standard stream is missing");
        let stdin = child.stdin().take().ok_or_else(missing)?;
        let stdout = child.stdout().take().ok_or_else(missing)?;
        let stderr = child.stderr().take().ok_or_else(missing)?;
        let talk = Some(tokio::spawn(drain(stderr, wire.clone())));
        let guard = LineGuard { inner: stdout, since_newline: 0, wire: wire.clone() };
        let lines = AsyncRwTransport::new_client(guard, stdin).with_max_line_length(usize::MAX);
        Ok(Self { lines, child: Some(child), talk, wire: wire.clone(), has_ended: false })
    }

    /// After the server closed its output: finds out why, while it can still be found out.
    async fn inquire(&mut self) {
        if let Some(child) = &mut self.child
            && let Ok(Ok(status)) = tokio::time::timeout(limits::LAST_WORDS, child.wait()).await
        {
            self.wire.reason.lock().get_or_insert_with(|| format!("the server ended ({status})"));
        }
        if let Some(mut talk) = self.talk.take()
            && tokio::time::timeout(limits::LAST_WORDS, &mut talk).await.is_err()
        {
            // Something that the server started still holds its standard error.
            self.talk = Some(talk);
        }
    }

    /// Ends the process and everything it started.
    async fn end(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        if !self.has_ended {
            // The end of its input asks a server to leave, then a signal does. One that closed its output has left.
            if tokio::time::timeout(limits::EXIT_GRACE, child.wait()).await.is_err() {
                #[cfg(unix)]
                let _ = child.signal(rustix::process::Signal::TERM.as_raw());
                let _ = tokio::time::timeout(limits::EXIT_GRACE, child.wait()).await;
            }
        }
        // Also when the leader left by itself: what it started may still be there. No such group is no failure.
        let _ = child.start_kill();
        let _ = tokio::time::timeout(limits::REAP, child.wait()).await;
    }
}

impl Drop for ChildTransport {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.start_kill();
        }
        if let Some(talk) = &self.talk {
            talk.abort();
        }
    }
}

impl Transport<RoleClient> for ChildTransport {
    type Error = io::Error;

    fn send(&mut self, item: ClientJsonRpcMessage) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.lines.send(item)
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        let message = self.lines.receive().await;
        if message.is_none() {
            self.has_ended = true;
            self.inquire().await;
        }
        message
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        // A writer that is stuck on a full pipe holds the lock that closing needs: then the kill comes first.
        let _ = tokio::time::timeout(limits::EXIT_GRACE, self.lines.close()).await;
        self.end().await;
        Ok(())
    }
}

/// A reader that fails when a line grows too long: what can't be read whole must not be read at all.
struct LineGuard<R> {
    inner: R,
    since_newline: usize,
    wire: Arc<Wire>,
}

impl<R: AsyncRead + Unpin> AsyncRead for LineGuard<R> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        std::task::ready!(Pin::new(&mut self.inner).poll_read(cx, buf))?;
        let read = &buf.filled()[before..];
        self.since_newline = match read.iter().rposition(|byte| *byte == b'\n') {
            Some(at) => read.len() - at - 1,
            None => self.since_newline + read.len(),
        };
        if self.since_newline > limits::MESSAGE_BYTES {
            let reason = format!("it sent a message of more than {} MiB", limits::MESSAGE_BYTES / (1024 * 1024));
            *self.wire.reason.lock() = Some(reason.clone());
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, reason)));
        }
        Poll::Ready(Ok(()))
    }
}

/// Reads standard error to its end, whatever comes, so that the child never waits for us. Some of it is logged.
async fn drain(mut stderr: ChildStderr, wire: Arc<Wire>) {
    let mut gate = Gate::new(limits::STDERR_LINES, limits::STDERR_WINDOW);
    let mut chunk = vec![0_u8; 8 * 1024];
    let mut line: Vec<u8> = Vec::new();
    while let Ok(count @ 1..) = stderr.read(&mut chunk).await {
        for byte in &chunk[..count] {
            if *byte == b'\n' {
                say(&wire, &mut gate, &line);
                line.clear();
            } else if line.len() < limits::STDERR_LINE_BYTES {
                line.push(*byte);
            }
        }
    }
    say(&wire, &mut gate, &line);
}

fn say(wire: &Wire, gate: &mut Gate, line: &[u8]) {
    if line.iter().all(u8::is_ascii_whitespace) {
        return;
    }
    let Some(held_back) = gate.pass() else { return };
    let text = wire.redactor.show(&String::from_utf8_lossy(line), limits::STDERR_LINE_BYTES);
    tracing::debug!(target: "onetool::server", server = wire.server, held_back, "{text}");
    let mut words = wire.last_words.lock();
    if words.len() == LAST_WORDS {
        words.pop_front();
    }
    words.push_back(text);
}
