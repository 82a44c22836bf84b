//! The task behind a running worker: reads the worker's messages, answers the tool's requests, interrupts abandoned
//! calls, ends an idle worker, and notifies everyone when the process has ended.
//!
//! **Invariant:** no process of the worker's group outlives its supervisor.

use std::process::ExitStatus;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use onetool_process as process;
use onetool_sdk::{ErrorKind, ToolError, Value};
use serde_json::json;
use tokio::io::AsyncReadExt as _;
use tokio::process::{ChildStderr, ChildStdout};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::live::{Control, Worker};
use super::protocol::{self, Incoming};
use super::requests;
use super::stderr::Lines;

/// Maximum number of concurrent requests of one worker; at this number, nothing further is read from it.
const MAX_REQUESTS: usize = 64;
/// How long a worker may take to exit after its input has ended.
const EXIT_GRACE: Duration = Duration::from_secs(2);
/// How long the last output of a dead worker may take to arrive.
const DRAIN_TIME: Duration = Duration::from_millis(100);
const READ_CHUNK: usize = 64 << 10;
/// A message may hold one value per this many bytes of the message size limit: values take more memory than text.
const BYTES_PER_VALUE: usize = 32;

/// How the process ended.
#[derive(Debug, Clone, Copy)]
enum Exit {
    NotYet,
    /// `None` if it is unknown.
    Known(Option<ExitStatus>),
}

/// The task behind a worker.
pub(super) struct Supervisor {
    worker: Arc<Worker>,
    stdout: ChildStdout,
    exited: oneshot::Receiver<Option<ExitStatus>>,
    status: Exit,
    commands: mpsc::UnboundedReceiver<Control>,
    buffer: BytesMut,
    /// How many bytes of the buffer are known to contain no newline.
    scanned: usize,
    requests: JoinSet<()>,
    /// Cancelled calls, and the time by which they must have ended.
    graces: Vec<(Instant, u64)>,
}

impl Supervisor {
    pub(super) fn new(
        worker: Arc<Worker>,
        stdout: ChildStdout,
        exited: oneshot::Receiver<Option<ExitStatus>>,
        commands: mpsc::UnboundedReceiver<Control>,
    ) -> Self {
        Self {
            worker,
            stdout,
            exited,
            status: Exit::NotYet,
            commands,
            buffer: BytesMut::with_capacity(READ_CHUNK),
            scanned: 0,
            requests: JoinSet::new(),
            graces: Vec::new(),
        }
    }

    /// Supervises the worker until nothing of it is left.
    pub(super) async fn run(mut self, stderr: ChildStderr) {
        let listener = tokio::spawn(listen(self.worker.clone(), stderr));
        self.serve().await;
        self.worker.group.kill();
        self.await_exit().await;
        self.worker.group.end();
        // The last output may still be on its way; a grandchild may hold the stream open forever.
        if tokio::time::timeout(DRAIN_TIME, &mut { listener }).await.is_err() {
            tracing::debug!(pack = self.worker.pack(), "standard error of a worker is still open");
        }
        let read = self.worker.read_bytes().await;
        self.end(read);
    }

    async fn await_exit(&mut self) {
        if matches!(self.status, Exit::NotYet)
            && let Ok(status) = tokio::time::timeout(EXIT_GRACE, &mut self.exited).await
        {
            self.status = Exit::Known(status.ok().flatten());
        }
    }

    /// Serves until the process has ended, or must end.
    async fn serve(&mut self) {
        let worker = self.worker.clone();
        let timer = tokio::time::sleep(worker.settings.idle_timeout);
        tokio::pin!(timer);
        loop {
            tokio::select! {
                read = self.stdout.read_buf(&mut self.buffer), if self.requests.len() < MAX_REQUESTS => match read {
                    Ok(1..) => self.take_lines(),
                    Ok(0) | Err(_) => return,
                },
                Some(command) = self.commands.recv() => match command {
                    Control::Cancel(id) => {
                        self.cancel(id);
                        timer.as_mut().reset(self.next_wake().into());
                    }
                    Control::Close => {}
                },
                Some(_) = self.requests.join_next() => {}
                status = &mut self.exited => {
                    self.status = Exit::Known(status.ok().flatten());
                    self.drain().await;
                    return;
                }
                () = &mut timer => {
                    self.enforce_graces();
                    self.retire_if_idle();
                    timer.as_mut().reset(self.next_wake().into());
                }
            }
            let must_close = {
                let state = worker.state.lock();
                state.closing && state.pending.is_empty()
            };
            if must_close {
                return self.close().await;
            }
        }
    }

    fn next_wake(&self) -> Instant {
        let limit = self.worker.settings.idle_timeout;
        let idle = {
            let state = self.worker.state.lock();
            // The idle time does not begin while calls are in flight.
            if state.pending.is_empty() { state.last_used + limit } else { Instant::now() + limit }
        };
        self.graces.iter().map(|(at, _)| *at).fold(idle, Instant::min)
    }

    fn retire_if_idle(&mut self) {
        let mut state = self.worker.state.lock();
        if state.pending.is_empty() && state.last_used.elapsed() >= self.worker.settings.idle_timeout {
            state.closing = true;
        }
    }

    fn cancel(&mut self, id: u64) {
        if self.worker.context_of(id).is_none() {
            return;
        }
        self.graces.push((Instant::now() + self.worker.settings.cancel_grace, id));
        let worker = self.worker.clone();
        self.requests.spawn(async move {
            let line = protocol::notification("cancel", &json!({"id": id}));
            let _ = tokio::time::timeout(worker.settings.cancel_grace, worker.write(&line)).await;
        });
    }

    /// A call that does not end after it was cancelled costs the pack its worker.
    fn enforce_graces(&mut self) {
        let now = Instant::now();
        let worker = &self.worker;
        self.graces.retain(|(at, id)| {
            if *at > now {
                return true;
            }
            worker.abandon(*id);
            false
        });
    }

    /// Closes its input; the host then exits by itself, after its exit handlers.
    async fn close(&mut self) {
        if let Ok(mut writer) = self.worker.writer.try_lock() {
            writer.take();
        }
        self.await_exit().await;
    }

    async fn drain(&mut self) {
        let drained = async {
            while self.stdout.read_buf(&mut self.buffer).await.is_ok_and(|read| read > 0) {
                self.take_lines();
            }
        };
        let _ = tokio::time::timeout(DRAIN_TIME, drained).await;
    }

    fn take_lines(&mut self) {
        while let Some(at) = self.buffer[self.scanned..].iter().position(|byte| *byte == b'\n') {
            let line = self.buffer.split_to(self.scanned + at + 1);
            self.scanned = 0;
            self.take_line(&line);
        }
        self.scanned = self.buffer.len();
        if self.scanned > self.worker.settings.max_message_bytes + READ_CHUNK {
            self.worker.kill("it sent a message larger than it may");
            self.buffer.clear();
            self.scanned = 0;
        }
    }

    fn take_line(&mut self, line: &[u8]) {
        process::heavy_if_large(line.len(), || self.take_message(line));
    }

    fn take_message(&mut self, line: &[u8]) {
        if !onetool_sdk::holds_at_most(line, self.worker.settings.max_message_bytes / BYTES_PER_VALUE) {
            self.worker.kill("it sent a message with more values than it may (workers.max_message_mb)");
            return;
        }
        let Ok(message) = serde_json::from_slice::<Incoming>(line) else {
            self.worker.kill("it wrote something to the channel that is not a message");
            return;
        };
        match (message.method, message.id) {
            (Some(method), Some(id)) => {
                self.requests.spawn(requests::answer(self.worker.clone(), id, method, message.params));
            }
            (Some(method), None) => requests::note(&self.worker, &method, &message.params),
            (None, Some(id)) => {
                let outcome = match message.error {
                    Some(failure) => Err(failure.into_error()),
                    None => Value::from_wire(message.result)
                        .map_err(|error| ToolError::new(ErrorKind::Output, format!("the worker's answer: {error}"))),
                };
                if let Some(id) = id.as_u64() {
                    self.worker.finish(id, outcome);
                }
            }
            (None, None) => {}
        }
    }

    /// Notifies every caller that is still waiting. At most `read` of the written bytes were read.
    fn end(&self, read: u64) {
        let worker = &self.worker;
        let (left, reason) = {
            let mut state = worker.state.lock();
            state.ended = true;
            (std::mem::take(&mut state.pending), state.killed_because.clone())
        };
        let how = reason.map_or_else(|| describe(self.status), |reason| format!("was killed, because {reason}"));
        let last = worker.redact(&worker.tail.lock().last_lines());
        tracing::debug!(pack = worker.pack(), how, "a worker has ended");
        for pending in left.into_values() {
            let said = if last.is_empty() { String::new() } else { format!("; it said last:\n{last}") };
            let message = format!("the worker of pack '{}' {how}{said}", worker.pack());
            pending.end(read, ToolError::unavailable(message).with_hint("the next call starts a new worker"));
        }
        worker.idle.notify_waiters();
    }
}

fn describe(exit: Exit) -> String {
    let Exit::Known(Some(status)) = exit else { return "ended".to_owned() };
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return format!("was killed by signal {signal}");
    }
    status.code().map_or_else(|| "ended".to_owned(), |code| format!("ended with exit status {code}"))
}

/// Reads a worker's printed text: keeps its end for errors, and passes all of it, line by line and within limits, to
/// the log and to observers.
async fn listen(worker: Arc<Worker>, mut stderr: ChildStderr) {
    let mut chunk = vec![0; 8 << 10];
    let mut lines = Lines::default();
    loop {
        let read = stderr.read(&mut chunk).await.unwrap_or(0);
        worker.tail.lock().push(&chunk[..read]);
        let complete = if read == 0 { lines.rest().into_iter().collect() } else { lines.push(&chunk[..read]) };
        for line in complete {
            let text = worker.redact(&line);
            worker.services.printed(worker.pack(), &text);
            if !text.trim().is_empty() && worker.may_log(line.len()) {
                tracing::info!(pack = worker.pack(), output = text.trim_end(), "a tool printed");
            }
        }
        if read == 0 {
            return;
        }
    }
}
