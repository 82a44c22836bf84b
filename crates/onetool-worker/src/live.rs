//! A running worker as its callers see it: its process and the calls in flight.
//!
//! A caller writes its own message and waits; the worker's [`Supervisor`] reads the answers.
//! **Invariant:** every call in flight gets exactly one answer, and holds its turn until the worker is done with it.

use std::collections::HashMap;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use onetool_sdk::{CallContext, ErrorKind, Redactor, ToolError, Value};
use parking_lot::Mutex;
use tokio::io::AsyncWriteExt as _;
use tokio::process::ChildStdin;
use tokio::sync::{Notify, OwnedSemaphorePermit, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::log_budget::{Admission, LogBudget};
use super::protocol;
use super::settings::{WorkerServices, WorkerSettings};
use super::stderr::Tail;
use super::supervisor::Supervisor;
use super::tool_file::ToolFile;
use onetool_process::{self as process, ChildCommand, Group};

const HOST: &str =
    concat!(include_str!("wire.py"), "\n", include_str!("offered.py"), "\n", include_str!("worker_host.py"));
/// How long a new worker is reserved for the call that it was started for.
const RESERVED_TIME: Duration = Duration::from_secs(2);

/// How long a write to a worker that has ended may take to fail.
const LAST_WRITE: Duration = Duration::from_millis(100);

/// The data a worker is started with.
pub(super) struct Launch<'a> {
    pub(super) file: &'a Arc<ToolFile>,
    pub(super) interpreter: &'a Path,
    pub(super) settings: &'a Arc<WorkerSettings>,
    pub(super) services: &'a Arc<dyn WorkerServices>,
    /// Notified whenever the worker becomes idle, and when it has ended.
    pub(super) idle: &'a Arc<Notify>,
    /// Released when the process has ended.
    pub(super) permit: OwnedSemaphorePermit,
}

/// A running worker.
pub(super) struct Worker {
    pub(super) file: Arc<ToolFile>,
    pub(super) settings: Arc<WorkerSettings>,
    pub(super) services: Arc<dyn WorkerServices>,
    pub(super) idle: Arc<Notify>,
    pub(super) group: Group,
    pub(super) state: Mutex<State>,
    pub(super) writer: tokio::sync::Mutex<Option<ChildStdin>>,
    /// Total bytes of the lines written so far.
    written: AtomicU64,
    control: mpsc::UnboundedSender<Control>,
    pub(super) tail: Mutex<Tail>,
    log: Mutex<LogBudget>,
    /// Secrets given to the tool: they are redacted from its output.
    secrets: Mutex<KnownSecrets>,
}

pub(super) struct State {
    /// Accepts no new calls: the worker ends as soon as the calls in flight are done.
    pub(super) closing: bool,
    pub(super) ended: bool,
    /// Why we killed it, if we did.
    pub(super) killed_because: Option<String>,
    next_id: u64,
    /// Whether it has received a call other than `start`.
    used: bool,
    pub(super) last_used: Instant,
    pub(super) pending: HashMap<u64, Pending>,
}

pub(super) struct Pending {
    pub(super) reply: oneshot::Sender<Answer>,
    pub(super) ctx: CallContext,
    /// How many bytes were written before it; `None` until it is written itself.
    start: Option<u64>,
    /// Whether another worker may run it if this one never read it.
    may_move: bool,
    /// Where it runs.
    pub(super) place: Place,
    /// Held until the worker is done with the call, even when the caller has left.
    turn: Option<OwnedSemaphorePermit>,
    waiting: Vec<String>,
}

/// Where a worker runs a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// A separate thread: if the call does not stop, the others are not affected.
    Thread,
    /// The event loop, which may be blocked by a call that does not stop.
    EventLoop,
    /// The start call: the worker is not ready until it is done.
    Start,
}

/// The answer to a caller.
pub(super) enum Answer {
    Done(Result<Value, ToolError>),
    /// The worker ended and never read the request.
    Unread(Option<OwnedSemaphorePermit>),
}

/// The secrets that a worker has requested, and the redactor that keeps them out of its output.
#[derive(Default)]
struct KnownSecrets {
    values: Vec<String>,
    redactor: Redactor,
}

pub(super) enum Control {
    Cancel(u64),
    Close,
}

/// A call for a worker.
pub(super) struct Request<'a> {
    pub(super) method: &'static str,
    /// As JSON.
    pub(super) params: &'a str,
    /// The name of the called function, for messages.
    pub(super) label: &'a str,
    pub(super) deadline: Instant,
    pub(super) turn: Option<OwnedSemaphorePermit>,
    pub(super) place: Place,
    /// The packs whose plain functions wait for this request.
    pub(super) waiting: Vec<String>,
}

/// Why a request returned no value.
pub(super) enum RequestFailure {
    /// The worker had ended before it received the request: nothing has happened.
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
            search_path: &launch.settings.search_path,
        });
        command.command_mut().stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Otherwise a worker that no longer reads its input would outlive us.
        process::Watched::prepare();
        let mut child = command.spawn().map_err(|error| {
            ToolError::unavailable(format!("python ({}) could not be started: {error}", launch.interpreter.display()))
                .with_hint("install Python 3, or uv, and see that it is in PATH")
        })?;
        let group = Group::of(child.id());
        let watched = child.id().map(process::Watched::new);
        process::yield_to_others(child.id());
        let (Some(stdin), Some(stdout), Some(stderr)) =
            (child.stdin().take(), child.stdout().take(), child.stderr().take())
        else {
            return Err(ToolError::internal("a worker was started without its streams"));
        };
        // At most one message per call, and calls are limited; messages are sent on drop, which cannot wait.
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
            written: AtomicU64::new(0),
            control,
            tail: Mutex::default(),
            log: Mutex::default(),
            secrets: Mutex::default(),
        });
        let (told, exited) = oneshot::channel();
        tokio::spawn(async move {
            let status = child.wait().await.ok();
            let _ = told.send(status);
        });
        let permit = launch.permit;
        let supervisor = Supervisor::new(worker.clone(), stdout, exited, commands);
        tokio::spawn(async move {
            supervisor.run(stderr).await;
            drop(watched);
            drop(permit);
        });
        Ok(worker)
    }

    pub(super) fn pack(&self) -> &str {
        &self.file.pack.name
    }

    /// Whether it accepts calls.
    pub(super) fn is_open(&self) -> bool {
        let state = self.state.lock();
        !state.closing && !state.ended
    }

    /// Whether nothing of it is left.
    pub(super) fn has_ended(&self) -> bool {
        self.state.lock().ended
    }

    /// Returns when it became idle; `None` while it is busy, awaits its first call, or is ending.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        let state = self.state.lock();
        let is_reserved = !state.used && state.last_used.elapsed() < RESERVED_TIME;
        (state.pending.is_empty() && !is_reserved && !state.closing && !state.ended).then_some(state.last_used)
    }

    /// Accepts no more calls, and ends when those in flight are done.
    pub(super) fn retire(&self) {
        self.state.lock().closing = true;
        let _ = self.control.send(Control::Close);
    }

    /// Kills it and everything it started, immediately.
    pub(super) fn kill(&self, reason: &str) {
        let mut state = self.state.lock();
        state.closing = true;
        if !state.ended {
            state.killed_because.get_or_insert_with(|| reason.to_owned());
            self.group.kill();
        }
    }

    /// Returns the context of a call in flight.
    pub(super) fn context_of(&self, id: u64) -> Option<CallContext> {
        self.state.lock().pending.get(&id).map(|pending| pending.ctx.clone())
    }

    /// Abandons a call that does not stop, and replaces the worker: the next calls get a new one, those in flight run
    /// to their end. A call that may block the others ends the worker at once.
    pub(super) fn abandon(&self, id: u64) {
        let (place, is_last) = {
            let mut state = self.state.lock();
            let Some(pending) = state.pending.remove(&id) else { return };
            state.closing = true;
            (pending.place, state.pending.is_empty())
        };
        if is_last || place != Place::Thread {
            self.kill("a call did not stop when it was cancelled");
        } else {
            tracing::warn!(pack = self.pack(), "a cancelled call does not stop; the pack gets a new worker");
        }
    }

    /// Returns the packs that wait for a call in flight.
    pub(super) fn waiting_for(&self, id: u64) -> Vec<String> {
        self.state.lock().pending.get(&id).map(|pending| pending.waiting.clone()).unwrap_or_default()
    }

    pub(super) fn remember_secret(&self, value: &str) {
        let mut secrets = self.secrets.lock();
        if !secrets.values.iter().any(|known| known == value) {
            secrets.values.push(value.to_owned());
            secrets.redactor = Redactor::new(secrets.values.iter().map(String::as_str));
        }
    }

    /// Whether a line of this many bytes is logged.
    pub(super) fn may_log(&self, bytes: usize) -> bool {
        let admission = self.log.lock().admit(bytes, Instant::now());
        if admission == Admission::FirstLeftOut {
            tracing::warn!(pack = self.pack(), "a tool says more than is logged; the next lines are left out");
        }
        admission == Admission::Logged
    }

    pub(super) fn redact(&self, text: &str) -> String {
        let redactor = self.secrets.lock().redactor.clone();
        redactor.text(text).into_owned()
    }

    /// Sends a request and waits for its answer, its deadline, or its cancellation.
    pub(super) async fn request(&self, request: Request<'_>, ctx: &CallContext) -> Result<Value, RequestFailure> {
        let failed = |error| Err(RequestFailure::Failed(error));
        let (reply, mut answer) = oneshot::channel();
        let own = CallContext { cancel: ctx.cancel.child_token(), deadline: Some(request.deadline), ..ctx.clone() };
        let cancel = own.cancel.clone();
        let id = {
            let mut state = self.state.lock();
            if state.closing || state.ended {
                return Err(RequestFailure::NotSent(request.turn));
            }
            let id = state.next_id;
            state.next_id += 1;
            state.last_used = Instant::now();
            state.used |= request.place != Place::Start;
            let pending = Pending {
                reply,
                ctx: own,
                start: None,
                may_move: request.place != Place::Start,
                place: request.place,
                turn: request.turn,
                waiting: request.waiting,
            };
            state.pending.insert(id, pending);
            id
        };
        let mut in_flight = InFlight { worker: self, id, cancel: &cancel, done: false };
        let line = protocol::request(id, request.method, request.params);
        if line.len() > self.settings.max_message_bytes {
            let text =
                format!("the arguments of {} are larger than a worker may get ({} bytes)", request.label, line.len());
            in_flight.forget();
            return failed(ToolError::new(ErrorKind::TooLarge, text));
        }
        let late = tokio::time::sleep_until(request.deadline.into());
        tokio::pin!(late);
        tokio::select! {
            written = self.write_request(id, &line) => {
                if written.is_err() {
                    // A retry must get another worker.
                    self.retire();
                    // The supervisor may have answered already; otherwise the worker never saw the request.
                    return match in_flight.forget() {
                        Some(pending) => Err(RequestFailure::NotSent(pending.turn)),
                        None => match answer.await {
                            Ok(Answer::Unread(turn)) => Err(RequestFailure::NotSent(turn)),
                            answer => failed(flatten(answer).err().unwrap_or_else(|| self.gone(request.label))),
                        },
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
                let answer = match answer {
                    Ok(Answer::Unread(turn)) => return Err(RequestFailure::NotSent(turn)),
                    answer => answer,
                };
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

    /// Writes one line. If writing is abandoned halfway, the worker is killed.
    pub(super) async fn write(&self, line: &[u8]) -> std::io::Result<()> {
        self.write_at(line, |_| ()).await
    }

    /// Like [`Self::write`], for a request; records its position in the written bytes.
    async fn write_request(&self, id: u64, line: &[u8]) -> std::io::Result<()> {
        self.write_at(line, |start| {
            if let Some(pending) = self.state.lock().pending.get_mut(&id) {
                pending.start = Some(start);
            }
        })
        .await
    }

    async fn write_at(&self, line: &[u8], note: impl FnOnce(u64)) -> std::io::Result<()> {
        let mut writer = self.writer.lock().await;
        let Some(stdin) = writer.as_mut() else { return Err(std::io::ErrorKind::BrokenPipe.into()) };
        note(self.written.load(Ordering::Acquire));
        let mut half_written = HalfWritten(Some(self));
        let written = stdin.write_all(line).await;
        half_written.0 = None;
        if written.is_ok() {
            self.written.fetch_add(line.len() as u64, Ordering::AcqRel);
        }
        written
    }

    /// Returns how many of the written bytes a process that has ended may have read.
    pub(super) async fn read_bytes(&self) -> u64 {
        // A write to a process that has ended cannot take long.
        let Ok(writer) = tokio::time::timeout(LAST_WRITE, self.writer.lock()).await else { return u64::MAX };
        let left = writer.as_ref().and_then(process::unread).unwrap_or(0);
        self.written.load(Ordering::Acquire).saturating_sub(left)
    }

    /// Answers the call `id`.
    pub(super) fn finish(&self, id: u64, outcome: Result<Value, ToolError>) {
        let (pending, is_idle) = {
            let mut state = self.state.lock();
            state.last_used = Instant::now();
            let pending = state.pending.remove(&id);
            (pending, state.pending.is_empty())
        };
        if let Some(pending) = pending {
            // A caller that has left ignores it.
            let _ = pending.reply.send(Answer::Done(outcome));
        }
        if is_idle {
            self.idle.notify_waiters();
        }
    }
}

fn flatten(answer: Result<Answer, oneshot::error::RecvError>) -> Result<Value, ToolError> {
    match answer {
        Ok(Answer::Done(outcome)) => outcome,
        Ok(Answer::Unread(_)) | Err(_) => Err(ToolError::internal("a call to a worker was lost")),
    }
}

impl Pending {
    /// Tells the caller how its call ended that was in flight when the worker ended. A call that is not among the bytes
    /// that the worker may have read never began.
    pub(super) fn end(self, read: u64, error: ToolError) {
        self.ctx.cancel.cancel();
        let never_began = self.start.is_none_or(|start| start >= read);
        let answer = if never_began && self.may_move { Answer::Unread(self.turn) } else { Answer::Done(Err(error)) };
        // A caller that has left ignores it.
        let _ = self.reply.send(answer);
    }
}

fn cancelled(label: &str) -> ToolError {
    ToolError::new(ErrorKind::Cancelled, format!("{label} was cancelled"))
}

/// Kills the worker if a message was only partially written: the rest could not be parsed.
struct HalfWritten<'a>(Option<&'a Worker>);

impl Drop for HalfWritten<'_> {
    fn drop(&mut self) {
        if let Some(worker) = self.0 {
            worker.kill("it did not take a message in time");
        }
    }
}

/// A call in flight. If dropped before the answer, the call is cancelled.
struct InFlight<'a> {
    worker: &'a Worker,
    id: u64,
    cancel: &'a CancellationToken,
    done: bool,
}

impl InFlight<'_> {
    /// Removes the call, which never began.
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
