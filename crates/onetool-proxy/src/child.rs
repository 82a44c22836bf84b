//! A child process as a transport: one message per line on standard input and output, logs on standard error, and a
//! shutdown that leaves no process behind.
//!
//! **Invariant:** when the process is gone, a request that was never read is known as such, so that it can be sent
//! again; a request that may have been read never is.

use std::future::Future;
use std::io;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::FutureExt as _;
use futures_util::future::Either;
use process_wrap::tokio::{ChildWrapper, CommandWrap};
use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, GetExtensions as _, JsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::AsyncWriteExt as _;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use super::calls::{CallLink, LinkExtension};
use super::messages;
use super::settings::limits;
use super::transport::{Gate, SERVER_LOG_TARGET, Wire};
use onetool_process::{BoundedLines, Line, Watched, unread};

/// A child process with its streams.
pub(super) struct ChildTransport {
    lines: BoundedLines<ChildStdout>,
    writer: Arc<Writer>,
    child: Option<Box<dyn ChildWrapper>>,
    talk: Option<JoinHandle<()>>,
    watch: Option<JoinHandle<()>>,
    wire: Arc<Wire>,
    has_ended: bool,
    _watched: Option<Watched>,
}

/// Standard input of the process.
struct Writer {
    stdin: Mutex<Option<ChildStdin>>,
    /// Total bytes of the lines written.
    written: AtomicU64,
}

impl ChildTransport {
    /// Starts the process.
    pub(super) fn spawn(mut command: CommandWrap, wire: &Arc<Wire>) -> io::Result<Self> {
        command.command_mut().stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Watched::prepare();
        let mut child = command.spawn()?;
        let watched = child.id().map(Watched::new);
        let missing = || io::Error::other("a standard stream is missing");
        let stdin = child.stdin().take().ok_or_else(missing)?;
        let stdout = child.stdout().take().ok_or_else(missing)?;
        let stderr = child.stderr().take().ok_or_else(missing)?;
        let writer = Arc::new(Writer { stdin: Mutex::new(Some(stdin)), written: AtomicU64::new(0) });
        let watch = child.id().map(|id| tokio::spawn(watch(id, writer.clone(), wire.clone())));
        Ok(Self {
            lines: BoundedLines::new(stdout, wire.max_message),
            writer,
            child: Some(child),
            talk: Some(tokio::spawn(drain(stderr, wire.clone()))),
            watch,
            wire: wire.clone(),
            has_ended: false,
            _watched: watched,
        })
    }

    /// Determines why the server closed its output, while that is still possible.
    async fn inquire(&mut self) {
        if let Some(child) = &mut self.child
            && let Ok(Ok(status)) = tokio::time::timeout(limits::LAST_WORDS, child.wait()).await
        {
            self.wire.reason.lock().get_or_insert_with(|| format!("the server ended ({status})"));
            self.writer.find_unread(&self.wire);
        }
        if let Some(mut talk) = self.talk.take()
            && tokio::time::timeout(limits::LAST_WORDS, &mut talk).await.is_err()
        {
            // A process that the server started still holds its standard error.
            self.talk = Some(talk);
        }
    }

    /// Ends the process and everything it started.
    async fn end(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        if !self.has_ended {
            // Closing its input asks a server to exit, then a signal does. One that closed its output has exited.
            if tokio::time::timeout(limits::EXIT_GRACE, child.wait()).await.is_err() {
                #[cfg(unix)]
                let _ = child.signal(rustix::process::Signal::TERM.as_raw());
                let _ = tokio::time::timeout(limits::EXIT_GRACE, child.wait()).await;
            }
        }
        // Also if the leader exited by itself: its children may still run. A missing group is not an error.
        let _ = child.start_kill();
        let _ = tokio::time::timeout(limits::REAP, child.wait()).await;
    }
}

impl Drop for ChildTransport {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.start_kill();
        }
        for task in self.talk.iter().chain(&self.watch) {
            task.abort();
        }
    }
}

impl Transport<RoleClient> for ChildTransport {
    type Error = io::Error;

    fn send(
        &mut self,
        mut item: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let link = match &mut item {
            JsonRpcMessage::Request(request) => request.request.extensions_mut().remove::<LinkExtension>(),
            _ => None,
        };
        let writer = self.writer.clone();
        let mut writing = Box::pin(async move {
            let line = messages::write(&item)?;
            writer.write(&line, link.map(|LinkExtension(link)| link)).await
        });
        // A pipe nearly always has room: writing here saves a task per request.
        match (&mut writing).now_or_never() {
            Some(written) => Either::Left(std::future::ready(written)),
            None => Either::Right(writing),
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            match self.lines.next().await {
                Line::Whole(line) => {
                    let message = messages::read(line, &self.wire);
                    if message.is_some() {
                        return message;
                    }
                    continue;
                }
                // A line that is too long must not be read in part.
                Line::TooLong(_) => {
                    self.wire.too_long();
                }
                Line::End(_) => {}
            }
            self.has_ended = true;
            self.inquire().await;
            return None;
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        // A writer stuck on a full pipe holds the lock that closing needs: then the kill comes first.
        let closing = async { self.writer.stdin.lock().await.take() };
        let _ = tokio::time::timeout(limits::EXIT_GRACE, closing).await;
        self.end().await;
        Ok(())
    }
}

impl Writer {
    async fn write(&self, line: &[u8], link: Option<Arc<CallLink>>) -> io::Result<()> {
        let mut stdin = self.stdin.lock().await;
        let stdin = stdin.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        if let Some(link) = link {
            link.hand_over(self.written.load(Ordering::Acquire));
        }
        stdin.write_all(line).await?;
        self.written.fetch_add(line.len() as u64, Ordering::AcqRel);
        Ok(())
    }

    /// After the process has ended: marks the calls whose requests are still in the pipe as unread.
    fn find_unread(&self, wire: &Wire) {
        let Ok(stdin) = self.stdin.try_lock() else { return };
        if let Some(left) = stdin.as_ref().and_then(unread) {
            wire.calls.never_read_from(self.written.load(Ordering::Acquire).saturating_sub(left));
        }
    }

    /// After the process has ended: whether no other process reads its input. Such a reader ignores the empty line.
    async fn is_deserted(&self) -> bool {
        let mut stdin = self.stdin.lock().await;
        match stdin.as_mut() {
            Some(stdin) => stdin.write_all(b"\n").await.is_err(),
            None => true,
        }
    }
}

/// Notices the end of a process whose output stays open because a process that it started still holds it.
async fn watch(process: u32, writer: Arc<Writer>, wire: Arc<Wire>) {
    exited(process).await;
    // Usually its output ends too, and gives a better reason.
    tokio::time::sleep(limits::LAST_WORDS).await;
    if wire.closed.is_cancelled() {
        return;
    }
    if tokio::time::timeout(limits::LAST_WORDS, writer.is_deserted()).await.unwrap_or(false) {
        writer.find_unread(&wire);
        wire.reason.lock().get_or_insert_with(|| "the server ended, and what it started did not".to_owned());
        wire.closed.cancel();
    }
}

/// Waits until a child process has ended; forever if the system cannot report it.
#[cfg_attr(
    target_os = "linux",
    expect(deprecated, reason = "the handle owns its descriptor; the other way to register it is unsafe code")
)]
async fn exited(process: u32) {
    #[cfg(target_os = "linux")]
    if let Some(id) = i32::try_from(process).ok().and_then(rustix::process::Pid::from_raw)
        && let Ok(handle) = rustix::process::pidfd_open(id, rustix::process::PidfdFlags::NONBLOCK)
        && let Ok(handle) = tokio::io::unix::AsyncFd::with_interest(handle, tokio::io::Interest::READABLE)
        && handle.readable().await.is_ok()
    {
        return;
    }
    tracing::debug!(process, "the end of a process can't be waited for");
    std::future::pending::<()>().await;
}

/// Reads standard error to its end, whatever it contains, so that the child never blocks on it. Some of it is logged.
async fn drain(stderr: ChildStderr, wire: Arc<Wire>) {
    let mut gate = Gate::new(limits::STDERR_LINES, limits::STDERR_WINDOW);
    let mut lines = BoundedLines::new(stderr, limits::STDERR_LINE_BYTES);
    loop {
        match lines.next().await {
            Line::Whole(line) | Line::TooLong(line) => say(&wire, &mut gate, line),
            Line::End(rest) => return say(&wire, &mut gate, rest),
        }
    }
}

fn say(wire: &Wire, gate: &mut Gate, line: &[u8]) {
    if line.iter().all(u8::is_ascii_whitespace) {
        return;
    }
    let Some(held_back) = gate.pass() else { return };
    let text = wire.redactor.show(&String::from_utf8_lossy(line), limits::STDERR_LINE_BYTES);
    tracing::debug!(target: SERVER_LOG_TARGET, server = wire.server, held_back, "{text}");
    wire.said(text);
}
