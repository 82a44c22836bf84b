//! The workers: at most one per pack, started at the first call, replaced when its file has changed, and ended when it
//! is idle or when another one needs its slot. If the changed file cannot be imported, the existing worker stays.
//!
//! Plain functions of a pack run on a few threads, `async def` functions on an event loop. A call waits for its turn
//! here and holds it until the worker is done with it, so that a worker that dies affects only the calls that it was
//! serving. A call that a function of the same pack waits for takes no turn: it could wait forever.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use onetool_sdk::{Arguments, CallContext, ErrorKind, Progress, ToolError, Value};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::AbortHandle;
use tracing::warn;

use super::environment::Environments;
use super::live::{Launch, Place, Request, RequestFailure, Worker};
use super::settings::{WorkerServices, WorkerSettings};
use super::tool_file::ToolFile;
use super::{protocol, requests};

/// Maximum number of attempts for a call that no worker has read, because each ended just then.
const MAX_ATTEMPTS: usize = 3;
/// Maximum depth of `call_tool` calls among functions of one pack.
const MAX_OWN_CALLS: usize = 16;
/// How long shutting down all workers may take.
const SHUTDOWN_TIME: Duration = Duration::from_secs(5);
/// Interval between checks for a free worker slot while all are busy.
const LOOK_AGAIN: Duration = Duration::from_millis(250);
/// The retry delay reported to a caller when too many wait.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// All workers.
pub(super) struct Pool {
    settings: Arc<WorkerSettings>,
    services: Arc<dyn WorkerServices>,
    environments: Environments,
    slots: Mutex<HashMap<String, Arc<Slot>>>,
    live: Mutex<HashMap<u64, Arc<Worker>>>,
    permits: Arc<Semaphore>,
    idle: Arc<Notify>,
    next_id: AtomicU64,
    closed: AtomicBool,
}

/// The slot of one pack's worker.
struct Slot {
    plain_turns: Mutex<(usize, Arc<Semaphore>)>,
    async_turns: Arc<Semaphore>,
    waiting: AtomicUsize,
    state: Mutex<SlotState>,
}

enum SlotState {
    Empty,
    Starting(Starting),
    Ready(Arc<Worker>),
    Kept(Kept),
}

struct Starting {
    id: u64,
    hash: blake3::Hash,
    /// The worker of the previous version of the file, in case the new one does not start.
    previous: Option<Arc<Worker>>,
    stages: watch::Receiver<Stage>,
    task: AbortHandle,
}

impl Drop for Starting {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The worker of the last good version of a file whose current version cannot be imported.
struct Kept {
    worker: Arc<Worker>,
    broken: blake3::Hash,
    error: ToolError,
}

impl Kept {
    /// Returns the worker, unless the function is new.
    fn serving(&self, function: &str) -> Result<Arc<Worker>, ToolError> {
        let knows = self.worker.file.pack.tools.contains_key(function);
        if knows { Ok(self.worker.clone()) } else { Err(self.error.clone()) }
    }
}

/// The progress of a start.
#[derive(Clone)]
enum Stage {
    Working(Option<String>),
    Done(Result<Arc<Worker>, ToolError>),
}

/// One call, for its worker.
pub(super) struct PoolCall<'a> {
    pub(super) file: Arc<ToolFile>,
    pub(super) function: &'a str,
    pub(super) arguments: &'a Arguments,
}

impl Pool {
    pub(super) fn new(settings: Arc<WorkerSettings>, services: Arc<dyn WorkerServices>) -> Arc<Self> {
        Arc::new(Self {
            environments: Environments::new(settings.clone()),
            permits: Arc::new(Semaphore::new(settings.max_workers.max(1))),
            settings,
            services,
            slots: Mutex::default(),
            live: Mutex::default(),
            idle: Arc::new(Notify::new()),
            next_id: AtomicU64::new(1),
            closed: AtomicBool::new(false),
        })
    }

    /// Executes a call in its pack's worker.
    pub(super) async fn call(self: &Arc<Self>, call: PoolCall<'_>, ctx: &CallContext) -> Result<Value, ToolError> {
        let pack = &call.file.pack.name;
        let label = format!("{pack}.{}", call.function);
        let is_plain = !call.file.asynchronous.contains(call.function);
        let mut waiting = requests::waiting();
        let own_calls = waiting.iter().filter(|waiting| *waiting == pack).count();
        if own_calls >= MAX_OWN_CALLS {
            let text = format!("{label} can't run: {own_calls} functions of its pack are waiting for it already");
            return Err(ToolError::new(ErrorKind::Conflict, text)
                .with_hint("call_tool leads back to the function that calls it; see where it should end"));
        }
        let slot = self.slot(pack);
        let turns = if is_plain { self.plain_turns(&slot, &call.file) } else { slot.async_turns.clone() };
        let mut turn = match own_calls {
            0 => Some(self.turn(&turns, &slot.waiting, &label, ctx).await?),
            _ => None,
        };
        waiting.push(pack.clone());
        let params = protocol::call_params(call.function, call.arguments, ctx.trace_headers());
        for _ in 0..MAX_ATTEMPTS {
            let worker = self.worker(&slot, &call, ctx).await?;
            let latest = Instant::now() + self.settings.call_timeout;
            let request = Request {
                method: "call",
                params: &params,
                label: &label,
                deadline: ctx.deadline.map_or(latest, |deadline| deadline.min(latest)),
                turn: turn.take(),
                place: if is_plain { Place::Thread } else { Place::EventLoop },
                waiting: waiting.clone(),
            };
            match worker.request(request, ctx).await {
                Ok(value) => return Ok(value),
                Err(RequestFailure::Failed(error)) => return Err(error),
                Err(RequestFailure::NotSent(back)) => turn = back,
            }
        }
        Err(ToolError::unavailable(format!("the worker of pack '{pack}' ends before it takes a call"))
            .with_hint("look for what the file does when it is imported"))
    }

    pub(super) fn has_uv(&self) -> bool {
        self.environments.has_uv()
    }

    /// Returns the number of running workers, for health and tests.
    pub(super) fn live(&self) -> usize {
        self.live.lock().values().filter(|worker| worker.is_open()).count()
    }

    /// Returns the packs whose workers are running.
    pub(super) fn running(&self) -> Vec<String> {
        self.live
            .lock()
            .values()
            .filter(|worker| worker.is_open())
            .map(|worker| worker.file.pack.name.clone())
            .collect()
    }

    /// Returns why the current versions of files cannot be imported, for those served by an earlier version.
    pub(super) fn kept(&self, is_still: impl Fn(&ToolFile, &blake3::Hash) -> bool) -> Vec<(PathBuf, String)> {
        let slots: Vec<Arc<Slot>> = self.slots.lock().values().cloned().collect();
        let kept = slots.iter().filter_map(|slot| match &*slot.state.lock() {
            SlotState::Kept(kept) if kept.worker.is_open() && is_still(&kept.worker.file, &kept.broken) => {
                let path = &kept.worker.file.path;
                let reason = kept.error.message.as_str();
                let reason = reason.strip_prefix(&*path.to_string_lossy()).unwrap_or(reason).trim_start();
                Some((path.clone(), reason.to_owned()))
            }
            _ => None,
        });
        kept.collect()
    }

    /// Lets the worker of a pack end; the next call starts a new one.
    pub(super) fn restart(&self, pack: &str) {
        if let Some(slot) = self.slots.lock().get(pack) {
            *slot.state.lock() = SlotState::Empty;
        }
        for worker in self.live.lock().values().filter(|worker| worker.file.pack.name == pack) {
            worker.retire();
        }
    }

    /// Returns the last output of a pack's worker.
    pub(super) fn last_words(&self, pack: &str) -> String {
        let live = self.live.lock();
        let worker = live.values().find(|worker| worker.file.pack.name == pack);
        worker.map(|worker| worker.tail.lock().last_lines()).unwrap_or_default()
    }

    /// Ends all workers and starts no more.
    pub(super) async fn shutdown(&self) {
        self.closed.store(true, Ordering::Release);
        self.clear_slots();
        for worker in self.live.lock().values() {
            worker.retire();
        }
        let all = u32::try_from(self.settings.max_workers.max(1)).unwrap_or(u32::MAX);
        if tokio::time::timeout(SHUTDOWN_TIME, self.permits.acquire_many(all)).await.is_err() {
            self.kill_all();
        }
    }

    /// Kills all workers and starts no more.
    pub(super) fn kill_all(&self) {
        self.closed.store(true, Ordering::Release);
        self.clear_slots();
        for (_, worker) in self.live.lock().drain() {
            worker.kill("the server ends");
        }
    }

    /// Aborts all starts. Tasks and callers may hold a slot for longer, so it is emptied, not only dropped.
    fn clear_slots(&self) {
        let slots: Vec<Arc<Slot>> = self.slots.lock().drain().map(|(_, slot)| slot).collect();
        for slot in slots {
            *slot.state.lock() = SlotState::Empty;
        }
    }

    fn slot(&self, pack: &str) -> Arc<Slot> {
        let mut slots = self.slots.lock();
        if let Some(slot) = slots.get(pack) {
            return slot.clone();
        }
        let slot = Arc::new(Slot {
            plain_turns: Mutex::new((0, Arc::new(Semaphore::new(0)))),
            async_turns: Arc::new(Semaphore::new(self.settings.max_concurrent.max(1))),
            waiting: AtomicUsize::new(0),
            state: Mutex::new(SlotState::Empty),
        });
        slots.insert(pack.to_owned(), slot.clone());
        slot
    }

    /// Returns the semaphore for plain functions, with as many permits as the current file allows.
    fn plain_turns(&self, slot: &Slot, file: &ToolFile) -> Arc<Semaphore> {
        let said = file.metadata.as_ref().and_then(|metadata| metadata.threads);
        let threads = said.map_or(self.settings.threads, |said| said.get().min(self.settings.threads)).max(1);
        let mut turns = slot.plain_turns.lock();
        if turns.0 != threads {
            *turns = (threads, Arc::new(Semaphore::new(threads)));
        }
        turns.1.clone()
    }

    async fn turn(
        &self,
        turns: &Arc<Semaphore>,
        waiting: &AtomicUsize,
        label: &str,
        ctx: &CallContext,
    ) -> Result<OwnedSemaphorePermit, ToolError> {
        if let Ok(turn) = turns.clone().try_acquire_owned() {
            return Ok(turn);
        }
        let _waiting = Waiting::enter(waiting, self.settings.max_queue).ok_or_else(|| {
            let text = format!("{} calls are waiting for the pack of {label} already", self.settings.max_queue);
            ToolError::new(ErrorKind::RateLimited { retry_after: RETRY_AFTER }, text)
        })?;
        tokio::select! {
            turn = turns.clone().acquire_owned() => turn.map_err(|_| ToolError::unavailable("workers are shut down")),
            stopped = stop(ctx, label) => Err(stopped),
        }
    }

    /// Returns the worker for the current version of a file: the existing one or a new one. If the current version
    /// cannot be imported, returns the worker of the previous version.
    async fn worker(
        self: &Arc<Self>,
        slot: &Arc<Slot>,
        call: &PoolCall<'_>,
        ctx: &CallContext,
    ) -> Result<Arc<Worker>, ToolError> {
        if self.closed.load(Ordering::Acquire) {
            return Err(ToolError::unavailable("workers are shut down"));
        }
        let file = &call.file;
        let mut stages = {
            let mut state = slot.state.lock();
            match &*state {
                SlotState::Ready(worker) if worker.is_open() && worker.file.hash == file.hash => {
                    return Ok(worker.clone());
                }
                SlotState::Kept(kept) if kept.worker.is_open() && kept.broken == file.hash => {
                    return kept.serving(call.function);
                }
                SlotState::Starting(start) if start.hash == file.hash => start.stages.clone(),
                _ => {
                    let previous = match std::mem::replace(&mut *state, SlotState::Empty) {
                        SlotState::Empty => None,
                        SlotState::Starting(mut start) => start.previous.take(),
                        SlotState::Ready(worker) => Some(worker),
                        SlotState::Kept(kept) => Some(kept.worker),
                    };
                    let start = self.start(slot.clone(), file.clone(), previous.filter(|worker| worker.is_open()));
                    let stages = start.stages.clone();
                    *state = SlotState::Starting(start);
                    stages
                }
            }
        };
        let label = format!("the start of pack '{}'", file.pack.name);
        let mut steps = 0.0;
        loop {
            match &*stages.borrow_and_update() {
                Stage::Done(Ok(worker)) => return Ok(worker.clone()),
                Stage::Done(Err(error)) => {
                    return match &*slot.state.lock() {
                        SlotState::Kept(kept) if kept.broken == file.hash => kept.serving(call.function),
                        _ => Err(error.clone()),
                    };
                }
                Stage::Working(Some(text)) => {
                    steps += 1.0;
                    let message = Some(format!("{}: {text}", file.pack.name));
                    ctx.progress.report(Progress { done: steps, total: None, message });
                }
                Stage::Working(None) => {}
            }
            tokio::select! {
                changed = stages.changed() => {
                    if changed.is_err() && !matches!(&*stages.borrow(), Stage::Done(_)) {
                        return Err(ToolError::unavailable(format!("{label} was given up, because the file changed or the server ends")));
                    }
                }
                stopped = stop(ctx, &label) => {
                    return Err(stopped.with_hint("it goes on in the background; try again in a while"));
                }
            }
        }
    }

    /// Starts a worker in a separate task, so that a caller who leaves does not undo the work for the next one.
    fn start(self: &Arc<Self>, slot: Arc<Slot>, file: Arc<ToolFile>, previous: Option<Arc<Worker>>) -> Starting {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (stage, stages) = watch::channel(Stage::Working(None));
        let hash = file.hash;
        let pool = self.clone();
        let task = tokio::spawn(async move {
            let limit = pool.settings.startup_timeout;
            let outcome = tokio::time::timeout(limit, pool.launch(id, &file, &stage)).await.unwrap_or_else(|_| {
                let text =
                    format!("the worker of pack '{}' was not ready within {} s", file.pack.name, limit.as_secs());
                Err(ToolError::new(ErrorKind::Timeout, text)
                    .with_hint("workers.startup_timeout sets how long it may take"))
            });
            // The slot comes first: a caller that learns of the failed start may retry at once.
            {
                let mut state = slot.state.lock();
                let previous = match &mut *state {
                    SlotState::Starting(start) if start.id == id => Some(start.previous.take()),
                    _ => None,
                };
                match (&outcome, previous) {
                    (Ok(worker), Some(previous)) if !pool.closed.load(Ordering::Acquire) => {
                        if let Some(previous) = previous {
                            previous.retire();
                        }
                        *state = SlotState::Ready(worker.clone());
                    }
                    (Ok(worker), _) => worker.retire(),
                    (Err(error), Some(Some(worker))) if worker.is_open() => {
                        let path = file.path.display();
                        warn!(file = %path, error = %error.message, "the last good version of a tool file is used");
                        *state = SlotState::Kept(Kept { worker, broken: file.hash, error: error.clone() });
                    }
                    (Err(_), Some(_)) => *state = SlotState::Empty,
                    (Err(_), None) => {}
                }
            }
            stage.send_replace(Stage::Done(outcome));
        });
        Starting { id, hash, previous, stages, task: task.abort_handle() }
    }

    async fn launch(
        &self,
        id: u64,
        file: &Arc<ToolFile>,
        stage: &watch::Sender<Stage>,
    ) -> Result<Arc<Worker>, ToolError> {
        let permit = self.place().await?;
        let report = |text: String| {
            stage.send_replace(Stage::Working(Some(text)));
        };
        let interpreter = self.environments.prepare(file, &report).await?;
        let worker = Worker::spawn(Launch {
            file,
            interpreter: &interpreter,
            settings: &self.settings,
            services: &self.services,
            idle: &self.idle,
            permit,
        })?;
        let mut unready = Unready(Some(worker.clone()));
        self.live.lock().insert(id, worker.clone());
        let functions: Vec<&String> = file.pack.tools.keys().collect();
        let params = json!({
            "file": file.path.to_string_lossy(),
            "pack": file.pack.name,
            "functions": functions,
            "limits": self.settings.limits.to_json(),
            "max_message": self.settings.max_message_bytes,
        });
        let request = Request {
            method: "start",
            params: &params.to_string(),
            label: "the import of the file",
            deadline: Instant::now() + self.settings.startup_timeout,
            turn: None,
            place: Place::Start,
            waiting: Vec::new(),
        };
        match worker.request(request, &CallContext::default()).await {
            Ok(_) => {
                unready.0 = None;
                Ok(worker)
            }
            Err(RequestFailure::Failed(error)) => Err(import_error(file, error)),
            Err(RequestFailure::NotSent(_)) => {
                Err(ToolError::unavailable(format!("the worker of pack '{}' ended at once", file.pack.name)))
            }
        }
    }

    /// Waits for room for one more worker, retiring the one that has been idle longest if necessary.
    async fn place(&self) -> Result<OwnedSemaphorePermit, ToolError> {
        let mut leaving: Option<Arc<Worker>> = None;
        loop {
            let freed = self.idle.notified();
            tokio::pin!(freed);
            freed.as_mut().enable();
            self.live.lock().retain(|_, worker| !worker.has_ended());
            if let Ok(permit) = self.permits.clone().try_acquire_owned() {
                return Ok(permit);
            }
            // Only one at a time: the slot of the retiring worker is enough.
            if leaving.as_ref().is_none_or(|worker| worker.has_ended()) {
                leaving = self.longest_idle();
                if let Some(worker) = &leaving {
                    worker.retire();
                }
            }
            tokio::select! {
                permit = self.permits.clone().acquire_owned() => {
                    return permit.map_err(|_| ToolError::unavailable("workers are shut down"));
                }
                () = freed => {}
                () = tokio::time::sleep(LOOK_AGAIN) => {}
            }
        }
    }

    fn longest_idle(&self) -> Option<Arc<Worker>> {
        let live = self.live.lock();
        let idle = live.values().filter_map(|worker| Some((worker.idle_since()?, worker)));
        idle.min_by_key(|(since, _)| *since).map(|(_, worker)| worker.clone())
    }
}

/// Waits until the call is cancelled or its deadline has passed.
async fn stop(ctx: &CallContext, label: &str) -> ToolError {
    let deadline = async {
        match ctx.deadline {
            Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = ctx.cancel.cancelled() => ToolError::new(ErrorKind::Cancelled, format!("{label} was cancelled")),
        () = deadline => ToolError::new(ErrorKind::Timeout, format!("{label} did not finish in time")),
    }
}

fn import_error(file: &ToolFile, error: ToolError) -> ToolError {
    let message = match &error.kind {
        ErrorKind::Raised { .. } => format!("{} could not be imported: {error}", file.path.display()),
        _ => error.message.clone(),
    };
    let hint = match &error.kind {
        ErrorKind::Raised { exception } if exception == "ModuleNotFoundError" => {
            Some("name the package in `dependencies` of the file's '# /// script' block".to_owned())
        }
        _ => error.hint.clone(),
    };
    ToolError { message, hint, ..error }
}

/// Kills a worker that did not become ready.
struct Unready(Option<Arc<Worker>>);

impl Drop for Unready {
    fn drop(&mut self) {
        if let Some(worker) = &self.0 {
            worker.kill("it did not become ready");
        }
    }
}

/// One place in a bounded queue.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn enter(count: &'a AtomicUsize, limit: usize) -> Option<Self> {
        let guard = Self(count);
        // The guard gives the place back if the queue is full.
        (count.fetch_add(1, Ordering::AcqRel) < limit).then_some(guard)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}
