//! One running worker: its process, the calls in flight, and the task that looks after both.
//!
//! A caller writes its own message and waits; the supervisor reads whatever comes back, answers what the tool asks for,
//! interrupts calls that were given up, ends a worker that is idle, and tells everyone when the process has ended.
//! **Invariant:** every call in flight gets exactly one answer, and no process of the group outlives the supervisor.

use std::collections::HashMap;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use onetool_sdk::{CallContext, ErrorKind, ToolError, Value};
use parking_lot::Mutex;
use serde_json::{Value as Json, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::{Notify, OwnedSemaphorePermit, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::protocol::{self, Incoming};
use super::requests;
use super::settings::{WorkerServices, WorkerSettings};
use super::stderr::Tail;
use super::tool_file::ToolFile;
use crate::process::{self, ChildCommand, Group};

const HOST: &str = concat!(include_str!("wire.py"), "\n", include_str!("worker_host.py"));
/// Requests of one worker that are answered at once; while there are more, nothing further is read from it.
const MAX_REQUESTS: usize = 64;
/// How long a worker may take to end by itself after its input has ended.
const EXIT_GRACE: Duration = Duration::from_secs(2);
/// How long what a dead worker wrote last may take to arrive.
const DRAIN_TIME: Duration = Duration::from_millis(100);
/// How long a new worker is kept for the call that it was started for.
const RESERVED_TIME: Duration = Duration::from_secs(2);
const READ_CHUNK: usize = 64 << 10;

/// What a worker is started with.
pub(super) struct Launch<'a> {
    pub(super) file: &'a Arc<ToolFile>,
    pub(super) interpreter: &'a Path,
    pub(super) settings: &'a Arc<WorkerSettings>,
    pub(super) services: &'a Arc<dyn WorkerServices>,
    /// Told whenever the worker has nothing to do, and when it has ended.
    pub(super) idle: &'a Arc<Notify>,
    /// Given back when the process has ended.
    pub(super) permit: OwnedSemaphorePermit,
}

/// A running worker.
pub(super) struct Worker {
    pub(super) file: Arc<ToolFile>,
    settings: Arc<WorkerSettings>,
    pub(super) services: Arc<dyn WorkerServices>,
    idle: Arc<Notify>,
    group: Group,
    state: Mutex<State>,
    writer: tokio::sync::Mutex<Option<ChildStdin>>,
    control: mpsc::UnboundedSender<Control>,
    tail: Mutex<Tail>,
    /// Secrets that the tool was given: they are taken out of whatever it says.
    secrets: Mutex<Vec<String>>,
}

struct State {
    /// No new calls: the worker ends as soon as the calls in flight are done.
    closing: bool,
    ended: bool,
    /// Why we killed it, if we did.
    killed_because: Option<String>,
    next_id: u64,
    /// Whether it has had a call, other than `start`.
    used: bool,
    last_used: Instant,
    pending: HashMap<u64, Pending>,
}

struct Pending {
    reply: oneshot::Sender<Result<Value, ToolError>>,
    ctx: CallContext,
    /// Held until the worker is done with the call, even when the caller has left.
    turn: Option<OwnedSemaphorePermit>,
    waiting: Vec<String>,
}

enum Control {
    Cancel(u64),
    Close,
}

/// A call for a worker.
pub(super) struct Request<'a> {
    pub(super) method: &'static str,
    pub(super) params: Json,
    /// What is called, for messages.
    pub(super) label: &'a str,
    pub(super) deadline: Instant,
    pub(super) turn: Option<OwnedSemaphorePermit>,
    /// The packs that can't serve plain functions until this request is done.
    pub(super) waiting: Vec<String>,
}

/// Why a request gave no value.
pub(super) enum RequestFailure {
    /// The worker was gone before it got the request: nothing has happened.
    NotSent(Option<OwnedSemaphorePermit>),
    Failed(ToolError),
}

impl Worker {
    /// Starts the process. It serves nothing until it has answered `start`.
    pub(super) fn spawn(launch: Launch<'_>) -> Result<Arc<Self>, ToolError> {
        let mut command = process::command(&ChildCommand {
            program: launch.interpreter.as_os_str(),
            args: ["-I", "-X", "utf8", "-c", HOST].map(AsRef::as_ref).to_vec(),
            folder: Some(&launch.settings.folder),
            environment: &launch.settings.environment,
            inherit_prefixes: &[],
        });
        command.command_mut().stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| {
            ToolError::unavailable(format!("python ({}) could not be started: {error}", launch.interpreter.display()))
                .with_hint("install Python 3, or uv, and see that it is in PATH")
        })?;
        let group = Group::of(child.id());
        let (Some(stdin), Some(stdout), Some(stderr)) =
            (child.stdin().take(), child.stdout().take(), child.stderr().take())
        else {
            return Err(ToolError::internal("a worker was started without its streams"));
        };
        let (control, commands) = mpsc::unbounded_channel();
        let worker = Arc::new(Self {
            file: launch.file.clone(),
            settings: launch.settings.clone(),
            services: launch.services.clone(),
            idle: launch.idle.clone(),
            group,
            state: Mutex::new(State {
                closing: false,
                ended: false,
                killed_because: None,
                next_id: 1,
                used: false,
                last_used: Instant::now(),
                pending: HashMap::new(),
            }),
            writer: tokio::sync::Mutex::new(Some(stdin)),
            control,
            tail: Mutex::default(),
            secrets: Mutex::default(),
        });
        let (told, exited) = oneshot::channel();
        tokio::spawn(async move {
            let status = child.wait().await.ok();
            let _ = told.send(status);
        });
        let permit = launch.permit;
        let supervisor = Supervisor {
            worker: worker.clone(),
            stdout,
            exited,
            commands,
            status: Exit::NotYet,
            buffer: BytesMut::with_capacity(READ_CHUNK),
            scanned: 0,
            requests: JoinSet::new(),
            graces: Vec::new(),
        };
        tokio::spawn(async move {
            supervisor.run(stderr).await;
            drop(permit);
        });
        Ok(worker)
    }

    pub(super) fn pack(&self) -> &str {
        &self.file.pack.name
    }

    /// Whether it takes calls.
    pub(super) fn is_open(&self) -> bool {
        let state = self.state.lock();
        !state.closing && !state.ended
    }

    /// Since when it has had nothing to do; `None` while it is busy, awaits its first call, or is on its way out.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        let state = self.state.lock();
        let is_reserved = !state.used && state.last_used.elapsed() < RESERVED_TIME;
        (state.pending.is_empty() && !is_reserved && !state.closing && !state.ended).then_some(state.last_used)
    }

    /// Takes no more calls, and ends when those in flight are done.
    pub(super) fn retire(&self) {
        self.state.lock().closing = true;
        let _ = self.control.send(Control::Close);
    }

    /// Ends it and everything it started, now.
    pub(super) fn kill(&self, reason: &str) {
        let mut state = self.state.lock();
        state.closing = true;
        if !state.ended {
            state.killed_because.get_or_insert_with(|| reason.to_owned());
            self.group.kill();
        }
    }

    /// The context of a call in flight.
    pub(super) fn context_of(&self, id: u64) -> Option<CallContext> {
        self.state.lock().pending.get(&id).map(|pending| pending.ctx.clone())
    }

    /// The packs that wait for a call in flight.
    pub(super) fn waiting_for(&self, id: u64) -> Vec<String> {
        self.state.lock().pending.get(&id).map(|pending| pending.waiting.clone()).unwrap_or_default()
    }

    pub(super) fn remember_secret(&self, value: &str) {
        let mut secrets = self.secrets.lock();
        if value.len() >= 4 && !secrets.iter().any(|known| known == value) {
            secrets.push(value.to_owned());
        }
    }

    pub(super) fn redact(&self, text: &str) -> String {
        self.secrets.lock().iter().fold(text.to_owned(), |text, secret| text.replace(secret, "[secret]"))
    }

    /// Sends a request and waits for its answer, its deadline, or its cancellation.
    pub(super) async fn request(&self, request: Request<'_>, ctx: &CallContext) -> Result<Value, RequestFailure> {
        let failed = |error| Err(RequestFailure::Failed(error));
        let (reply, mut answer) = oneshot::channel();
        let own = CallContext {
            cancel: ctx.cancel.child_token(),
            deadline: Some(request.deadline),
            ..ctx.clone()
        };
        let cancel = own.cancel.clone();
        let id = {
            let mut state = self.state.lock();
            if state.closing || state.ended {
                return Err(RequestFailure::NotSent(request.turn));
            }
            let id = state.next_id;
            state.next_id += 1;
            state.last_used = Instant::now();
            state.used |= request.method == "call";
            state.pending.insert(id, Pending { reply, ctx: own, turn: request.turn, waiting: request.waiting });
            id
        };
        let mut in_flight = InFlight { worker: self, id, cancel: &cancel, done: false };
        let line = protocol::request(id, request.method, &request.params);
        if line.len() > self.settings.max_message_bytes {
            let text = format!("the arguments of {} are larger than a worker may get ({} bytes)", request.label, line.len());
            in_flight.forget();
            return failed(ToolError::new(ErrorKind::TooLarge, text));
        }
        let late = tokio::time::sleep_until(request.deadline.into());
        tokio::pin!(late);
        tokio::select! {
            written = self.write(&line) => {
                if written.is_err() {
                    // The supervisor may have answered already; if it has not, the worker never saw the request.
                    return match in_flight.forget() {
                        Some(pending) => Err(RequestFailure::NotSent(pending.turn)),
                        None => failed(flatten(answer.await).err().unwrap_or_else(|| self.gone(request.label))),
                    };
                }
            }
            () = ctx.cancel.cancelled() => return failed(cancelled(request.label)),
            () = &mut late => return failed(self.too_late(request.label)),
        }
        tokio::select! {
            biased;
            answer = &mut answer => {
                in_flight.done = true;
                match flatten(answer) {
                    Ok(value) => Ok(value),
                    Err(error) => failed(ToolError {
                        message: self.redact(&error.message),
                        traceback: error.traceback.as_deref().map(|text| self.redact(text)),
                        ..error
                    }),
                }
            }
            () = ctx.cancel.cancelled() => failed(cancelled(request.label)),
            () = &mut late => failed(self.too_late(request.label)),
        }
    }

    fn too_late(&self, label: &str) -> ToolError {
        ToolError::new(ErrorKind::Timeout, format!("{label} did not finish in time and was stopped"))
            .with_hint(format!("a call may take {} s (workers.call_timeout)", self.settings.call_timeout.as_secs()))
    }

    fn gone(&self, label: &str) -> ToolError {
        ToolError::unavailable(format!("the worker of pack '{}' ended during {label}", self.pack()))
    }

    /// Writes one line. A line that is given up in the middle takes the worker with it.
    pub(super) async fn write(&self, line: &[u8]) -> std::io::Result<()> {
        let mut writer = self.writer.lock().await;
        let Some(stdin) = writer.as_mut() else { return Err(std::io::ErrorKind::BrokenPipe.into()) };
        let mut half_written = HalfWritten(Some(self));
        let written = stdin.write_all(line).await;
        half_written.0 = None;
        written
    }

    fn finish(&self, id: u64, outcome: Result<Value, ToolError>) {
        let (pending, is_idle) = {
            let mut state = self.state.lock();
            state.last_used = Instant::now();
            let pending = state.pending.remove(&id);
            (pending, state.pending.is_empty())
        };
        if let Some(pending) = pending {
            // A caller that has left does not want it.
            let _ = pending.reply.send(outcome);
        }
        if is_idle {
            self.idle.notify_waiters();
        }
    }
}

fn flatten(answer: Result<Result<Value, ToolError>, oneshot::error::RecvError>) -> Result<Value, ToolError> {
    answer.unwrap_or_else(|_| Err(ToolError::internal("a call to a worker was lost")))
}

fn cancelled(label: &str) -> ToolError {
    ToolError::new(ErrorKind::Cancelled, format!("{label} was cancelled"))
}

/// Kills the worker when a message was written only in part: what follows could not be understood.
struct HalfWritten<'a>(Option<&'a Worker>);

impl Drop for HalfWritten<'_> {
    fn drop(&mut self) {
        if let Some(worker) = self.0 {
            worker.kill("it did not take a message in time");
        }
    }
}

/// A call in flight. Dropped before its answer, the call is cancelled.
struct InFlight<'a> {
    worker: &'a Worker,
    id: u64,
    cancel: &'a CancellationToken,
    done: bool,
}

impl InFlight<'_> {
    /// The call never began.
    fn forget(&mut self) -> Option<Pending> {
        self.done = true;
        self.worker.state.lock().pending.remove(&self.id)
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        if !self.done {
            self.cancel.cancel();
            let _ = self.worker.control.send(Control::Cancel(self.id));
        }
    }
}

/// How the process ended.
#[derive(Debug, Clone, Copy)]
enum Exit {
    NotYet,
    /// `None` when it could not be found out.
    Known(Option<ExitStatus>),
}

/// The task behind a worker.
struct Supervisor {
    worker: Arc<Worker>,
    stdout: ChildStdout,
    exited: oneshot::Receiver<Option<ExitStatus>>,
    status: Exit,
    commands: mpsc::UnboundedReceiver<Control>,
    buffer: BytesMut,
    /// How much of the buffer is known to hold no end of line.
    scanned: usize,
    requests: JoinSet<()>,
    /// Cancelled calls, and when they must have ended.
    graces: Vec<(Instant, u64)>,
}

impl Supervisor {
    async fn run(mut self, stderr: ChildStderr) {
        let listener = tokio::spawn(listen(self.worker.clone(), stderr));
        self.serve().await;
        self.worker.group.kill();
        self.await_exit().await;
        self.worker.group.end();
        // The last words may still be on their way; a grandchild may hold the stream open for ever.
        if tokio::time::timeout(DRAIN_TIME, &mut { listener }).await.is_err() {
            tracing::debug!(pack = self.worker.pack(), "standard error of a worker is still open");
        }
        self.end();
    }

    async fn await_exit(&mut self) {
        if matches!(self.status, Exit::NotYet)
            && let Ok(status) = tokio::time::timeout(EXIT_GRACE, &mut self.exited).await
        {
            self.status = Exit::Known(status.ok().flatten());
        }
    }

    /// Until the process has ended, or must.
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
            // While calls are in flight the idle time has not begun.
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

    /// A call that does not end after it was cancelled takes its worker with it.
    fn enforce_graces(&mut self) {
        let now = Instant::now();
        let worker = &self.worker;
        self.graces.retain(|(at, id)| {
            if *at > now {
                return true;
            }
            if worker.context_of(*id).is_some() {
                worker.kill("a call did not stop when it was cancelled");
            }
            false
        });
    }

    /// Ends its input; the host then ends by itself, after its exit handlers.
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

    /// Tells every caller that is still waiting.
    fn end(&self) {
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
            pending.ctx.cancel.cancel();
            let said = if last.is_empty() { String::new() } else { format!("; it said last:\n{last}") };
            let message = format!("the worker of pack '{}' {how}{said}", worker.pack());
            let _ = pending.reply.send(Err(ToolError::unavailable(message).with_hint("the next call starts a new worker")));
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

async fn listen(worker: Arc<Worker>, mut stderr: ChildStderr) {
    let mut chunk = vec![0; 8 << 10];
    while let Ok(read @ 1..) = stderr.read(&mut chunk).await {
        worker.tail.lock().push(&chunk[..read]);
        if tracing::enabled!(tracing::Level::DEBUG) {
            let text = worker.redact(&String::from_utf8_lossy(&chunk[..read]));
            tracing::debug!(pack = worker.pack(), output = text.trim_end(), "a worker said");
        }
    }
}
