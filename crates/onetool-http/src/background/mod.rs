//! Background runs: MCP tasks, runs with an idempotency key and `POST /runs`.
//!
//! A run is recorded before it is announced, executed here as a task of its own if this server has capacity and
//! everything that the run needs, and its reply is kept until it expires. Records are behind the state's interfaces, so
//! that a run can be inspected, cancelled and fetched through every process that shares the state, and is taken over by
//! another when its own ends ([`onetool_run::durable`]); only questions and progress need the one that executes it.

pub(crate) mod key;
mod live;
mod queue;

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use onetool_run::durable::{self, Durable, End, NewCommand, Unknown};
use onetool_run::{Admission, Refusal, RunOptions, RunReply};
use onetool_sdk::{CallContext, Caller, Requester, TraceContext};
use onetool_state::StateError;
use onetool_state::interface::Backlog;
use onetool_state::runs::{
    ApprovalStore, Created, NewRun, Owner, RunId, RunOrigin, RunPage, RunRecord, RunStatus, RunStore, RunStoreError,
    Taken,
};
use parking_lot::Mutex;
use rmcp::model::{ClientCapabilities, InputRequests, InputResponses};
use tokio_util::sync::CancellationToken;

pub(crate) use live::{LiveRun, LiveStep};

use crate::mcp::{AskedClient, ReplyPreferences};
use crate::{BackgroundSettings, Principal, Service};
use live::{LiveClient, LiveProgress, Recording};

/// Poll interval for a run that another process executes.
const LOOK: Duration = Duration::from_millis(200);
/// How long one wait for a run of another process lasts.
const PATIENCE: Duration = Duration::from_mins(1);

/// A run to start.
pub(crate) struct StartRun {
    pub(crate) owner: Owner,
    pub(crate) command: String,
    pub(crate) origin: RunOrigin,
    pub(crate) client: RunClient,
    /// Idempotency key; repeated requests with it refer to the same run.
    pub(crate) key: Option<String>,
    pub(crate) ttl: Option<Duration>,
    /// Tags that the server that executes it must have.
    pub(crate) tags: Vec<String>,
}

/// The client of a run, as its tools see it.
pub(crate) struct RunClient {
    pub(crate) caller: Caller,
    /// The owner of the run sessions that it may use.
    pub(crate) owner: Arc<str>,
    /// The requester, for policies and records.
    pub(crate) requester: Arc<Requester>,
    /// What its client can be asked, if it has one.
    pub(crate) capabilities: Option<ClientCapabilities>,
    /// The form in which it wants the reply.
    pub(crate) reply: ReplyPreferences,
    /// The trace that its request belongs to.
    pub(crate) trace: Option<TraceContext>,
}

impl RunClient {
    fn context(&self) -> CallContext {
        CallContext { owner: self.owner.clone(), requester: self.requester.clone(), ..CallContext::new(self.caller) }
    }
}

/// The outcome of starting a run.
pub(crate) enum Started {
    New(Arc<LiveRun>, RunRecord),
    /// It was started before.
    Before(RunRecord),
    /// It waits for another server.
    Queued(RunRecord),
}

/// Why a run was not started.
pub(crate) enum StartError {
    /// The requester has reached a limit. Nothing is recorded: a repeated request may be admitted.
    Refused(Box<Refusal>),
    Store(RunStoreError),
}

impl From<RunStoreError> for StartError {
    fn from(error: RunStoreError) -> Self {
        Self::Store(error)
    }
}

/// A run as its owner sees it.
pub(crate) struct RunView {
    pub(crate) record: RunRecord,
    pub(crate) questions: InputRequests,
}

/// A run that starts here.
struct Begin {
    client: RunClient,
    admission: Option<Admission>,
}

pub(crate) struct Background {
    service: Arc<dyn Service>,
    live: Mutex<HashMap<(Owner, RunId), Arc<LiveRun>>>,
    durable: Arc<Durable>,
    /// The process is ending: no run starts here.
    is_ending: AtomicBool,
    /// The backlog when last counted; `None` while the shared state is unavailable.
    backlog: Mutex<Option<Backlog>>,
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, RunStoreError> + Send + 'static,
) -> Result<T, RunStoreError> {
    crate::task::blocking(work)
        .await
        .unwrap_or_else(|error| Err(StateError::Invalid(format!("the shared state failed inside: {error}")).into()))
}

/// Returns the outcome of a task that continues when nobody waits for it.
async fn joined<T, E: From<RunStoreError>>(task: tokio::task::JoinHandle<Result<T, E>>) -> Result<T, E> {
    task.await.unwrap_or_else(|error| {
        let error = StateError::Invalid(format!("the server failed inside: {error}"));
        Err(RunStoreError::from(error).into())
    })
}

impl Background {
    pub(crate) fn start(service: &Arc<dyn Service>, stop: &CancellationToken) -> Arc<Self> {
        let durable = service.runner().durable().cloned().unwrap_or_else(|| {
            let served = service.served();
            let settings = served.background.durable(false);
            Arc::new(Durable::new(served.runs.clone(), ApprovalStore::new(&served.state), settings))
        });
        let background = Arc::new(Self {
            service: service.clone(),
            live: Mutex::default(),
            durable,
            is_ending: AtomicBool::new(false),
            backlog: Mutex::default(),
        });
        crate::task::spawn(queue::watch(Arc::downgrade(&background), stop.clone()));
        background
    }

    fn store(&self) -> RunStore {
        self.durable.runs()
    }

    pub(crate) fn settings(&self) -> BackgroundSettings {
        self.service.served().background
    }

    pub(crate) async fn owner(&self, principal: Principal) -> Result<Owner, RunStoreError> {
        let Principal::Token(fingerprint) = principal else { return Ok(Owner::local()) };
        let store = self.store();
        blocking(move || store.owner(fingerprint)).await
    }

    /// Whether this server has capacity for another run.
    fn has_time(&self) -> bool {
        !self.is_ending.load(Ordering::Acquire) && self.live.lock().len() < self.settings().max_running
    }

    /// Admits a run, records it and starts it, unless it was started before. Continues if the caller is dropped.
    pub(crate) async fn run(self: &Arc<Self>, run: StartRun) -> Result<Started, StartError> {
        let background = self.clone();
        joined(crate::task::spawn(async move { background.record_and_run(run).await })).await
    }

    async fn record_and_run(self: &Arc<Self>, run: StartRun) -> Result<Started, StartError> {
        let id = run.key.as_deref().map_or_else(RunId::random, |key| RunId::of_key(&run.owner, key));
        let admission = self.admission(&run, &id).await?;
        let own = self.service.tags();
        let is_here = self.has_time() && run.tags.iter().all(|tag| own.contains(tag));
        let live = Arc::new(LiveRun::new(id, run.owner, run.command));
        let asked = Instant::now();
        let created = self.create(&live, run.origin, run.ttl, (&run.client, run.tags), is_here).await;
        if let Ok(Created::New(record, Some(claim))) = created {
            let taken = Taken { record: record.clone(), claim };
            *live.recording.lock().await = Recording::Before;
            let begin = Begin { client: run.client, admission };
            self.spawn_recorded(&live, taken, asked, Some(begin));
            return Ok(Started::New(live, record));
        }
        // The server that executes it admits it again.
        if let Some(admission) = admission {
            admission.end().await;
        }
        match created? {
            Created::New(record, _) => Ok(Started::Queued(record)),
            Created::Existing(record) => Ok(Started::Before(record)),
        }
    }

    /// Admits a run; a repeated request needs no admission of its own.
    async fn admission(&self, run: &StartRun, id: &RunId) -> Result<Option<Admission>, StartError> {
        let (runner, mut ctx) = (self.service.runner(), run.client.context());
        ctx.run_id = id.as_str().into();
        if !runner.is_limited(&ctx) || self.is_repeated(run, id).await {
            return Ok(None);
        }
        let refusal = match runner.admit(&run.command, &ctx).await {
            Ok(admission) => return Ok(Some(admission)),
            Err(refusal) => refusal,
        };
        // The first request may have started it meanwhile, and hold the admission.
        if self.is_repeated(run, id).await { Ok(None) } else { Err(StartError::Refused(Box::new(refusal))) }
    }

    async fn is_repeated(&self, run: &StartRun, id: &RunId) -> bool {
        run.key.is_some() && self.get(&run.owner, id).await.is_ok()
    }

    /// Starts a run that only its request knows of yet.
    pub(crate) fn run_unrecorded(self: &Arc<Self>, owner: Owner, command: String, client: RunClient) -> Arc<LiveRun> {
        let live = Arc::new(LiveRun::new(RunId::random(), owner, command));
        self.spawn_unrecorded(&live, client);
        live
    }

    /// Records such a run, so that it can be announced and outlives its request.
    pub(crate) async fn record(
        self: &Arc<Self>,
        live: &Arc<LiveRun>,
        origin: RunOrigin,
    ) -> Result<RunRecord, RunStoreError> {
        let (background, live) = (self.clone(), live.clone());
        joined(crate::task::spawn(async move { background.record_live(&live, origin).await })).await
    }

    async fn record_live(&self, live: &Arc<LiveRun>, origin: RunOrigin) -> Result<RunRecord, RunStoreError> {
        let mut recording = live.recording.lock().await;
        let Recording::Memory { journal, ctx, reply } = &*recording else {
            return Err(RunStoreError::NotFound);
        };
        let (journal, ctx) = (journal.clone(), ctx.clone());
        let client = RunClient {
            caller: ctx.caller,
            owner: ctx.owner.clone(),
            requester: ctx.requester.clone(),
            capabilities: None,
            reply: *reply,
            trace: None,
        };
        let asked = Instant::now();
        let created = self.create(live, origin, None, (&client, Vec::new()), true).await?;
        let Created::New(record, Some(claim)) = created else { return Err(RunStoreError::NotFound) };
        let taken = Taken { record: record.clone(), claim };
        let kept = self.durable.adopt(&taken, &journal, asked).await;
        *recording = Recording::Meanwhile { taken: Box::new(taken), kept };
        self.note_questions(live);
        Ok(record)
    }

    async fn create(
        &self,
        live: &LiveRun,
        origin: RunOrigin,
        ttl: Option<Duration>,
        (client, tags): (&RunClient, Vec<String>),
        is_here: bool,
    ) -> Result<Created, RunStoreError> {
        let (store, settings) = (self.store(), self.settings());
        let mut kept = durable::client_of(&client.context());
        client.reply.keep(&mut kept);
        let new = NewRun {
            id: live.id.clone(),
            owner: live.owner.clone(),
            command: live.command.clone(),
            origin,
            created_at: live.created_at,
            ttl: ttl.unwrap_or(settings.ttl).min(settings.max_ttl),
            tags,
            client: kept,
        };
        blocking(move || store.create(&new, is_here, settings.limits)).await
    }

    /// Adds the parts of a run's context that only this process has.
    fn connect(&self, live: &Arc<LiveRun>, client: Option<RunClient>, ctx: &mut CallContext) {
        ctx.cancel = live.cancel.clone();
        ctx.progress = Arc::new(LiveProgress(live.clone()));
        let (capabilities, trace) = client.map_or((None, None), |client| (client.capabilities, client.trace));
        if let Some(trace) = trace {
            ctx.join(trace);
        }
        if let Some(capabilities) = capabilities {
            let patience = self.service.served().server.mcp.input_timeout;
            let questions = LiveClient { run: live.clone(), patience };
            ctx.client = Some(Arc::new(AskedClient::new(capabilities, questions)));
        }
    }

    fn enter(&self, live: &Arc<LiveRun>) {
        self.live.lock().insert((live.owner.clone(), live.id.clone()), live.clone());
    }

    fn leave(&self, live: &LiveRun) {
        self.live.lock().remove(&(live.owner.clone(), live.id.clone()));
    }

    /// Executes a run that this process has just recorded, or has taken over.
    fn spawn_recorded(self: &Arc<Self>, live: &Arc<LiveRun>, taken: Taken, asked: Instant, begin: Option<Begin>) {
        let (background, live) = (self.clone(), live.clone());
        self.enter(&live);
        self.note_questions(&live);
        crate::task::spawn(async move {
            let runner = background.service.runner().clone();
            let durable = background.durable.clone();
            let work = async {
                match begin {
                    Some(Begin { client, admission }) => {
                        let connect = |ctx: &mut CallContext| background.connect(&live, Some(client), ctx);
                        let new = NewCommand { command: live.command.clone(), admission };
                        durable.execute_new(&runner, &taken, new, asked, connect).await
                    }
                    None => {
                        let connect = |ctx: &mut CallContext| background.connect(&live, None, ctx);
                        durable.execute(&runner, &taken, asked, connect).await
                    }
                }
            };
            let end = AssertUnwindSafe(work).catch_unwind().await;
            let reply = match end {
                Ok(End::Finished(reply) | End::Suspended(reply) | End::Interrupted(reply)) => reply,
                Ok(End::Lost) => durable::lost_reply(&live.id),
                Err(_) => {
                    let reply = failed_inside();
                    background.durable.fail(&taken, &reply).await;
                    reply
                }
            };
            live.finish(Arc::new(reply));
            background.leave(&live);
        });
    }

    /// Keeps a run's questions in its record, so that every server can forward them to the client.
    fn note_questions(&self, live: &Arc<LiveRun>) {
        if !self.service.served().state.is_shared() {
            return;
        }
        let (store, live) = (self.store(), live.clone());
        crate::task::spawn(async move {
            let mut changes = live.changes();
            let mut noted = None;
            while !live.status().is_final() {
                changes.borrow_and_update();
                let open = live.questions();
                let questions = if open.is_empty() { None } else { serde_json::to_value(&open).ok() };
                if questions != noted {
                    noted.clone_from(&questions);
                    let (store, live) = (store.clone(), live.clone());
                    let written = blocking(move || {
                        store.update(&live.owner, &live.id, |record| {
                            let is_ours = record.node == store.node()
                                && matches!(record.status, RunStatus::Working | RunStatus::InputRequired);
                            if is_ours {
                                let asks = questions.is_some();
                                record.status = if asks { RunStatus::InputRequired } else { RunStatus::Working };
                                record.questions.clone_from(&questions);
                            }
                            is_ours
                        })
                    });
                    if let Err(error) = written.await {
                        tracing::debug!(%error, "what a run asks could not be recorded");
                    }
                }
                if changes.changed().await.is_err() {
                    return;
                }
            }
        });
    }

    fn spawn_unrecorded(self: &Arc<Self>, live: &Arc<LiveRun>, client: RunClient) {
        let (background, live) = (self.clone(), live.clone());
        self.enter(&live);
        let (mut ctx, reply) = (client.context(), client.reply);
        ctx.run_id = live.id.as_str().into();
        background.connect(&live, Some(client), &mut ctx);
        let journal = background.durable.begin(&mut ctx);
        if let Ok(mut recording) = live.recording.try_lock() {
            *recording = Recording::Memory { journal: journal.clone(), ctx: Box::new(ctx.clone()), reply };
        }
        crate::task::spawn(async move {
            let timeout = background.settings().timeout;
            let runner = background.service.runner().clone();
            let options = RunOptions { timeout: Some(timeout), ..reply.options() };
            let run = AssertUnwindSafe(runner.run_with_options(&live.command, ctx.clone(), options)).catch_unwind();
            let reply = run.await.unwrap_or_else(|_| failed_inside());
            // The record must be complete before waiters are notified.
            let mut recording = live.recording.lock().await;
            let is_cancelled = live.cancel.is_cancelled();
            let reply = match std::mem::replace(&mut *recording, Recording::Ended) {
                Recording::Meanwhile { taken, kept } => {
                    let end = background.durable.conclude(&taken, &journal, reply, is_cancelled).await;
                    drop(kept);
                    match end {
                        End::Finished(reply) | End::Suspended(reply) | End::Interrupted(reply) => reply,
                        End::Lost => durable::lost_reply(&live.id),
                    }
                }
                _ if journal.is_suspended() => {
                    let parked = background.durable.park(&live.command, &ctx, &journal).await;
                    parked.unwrap_or(reply)
                }
                _ => reply,
            };
            live.finish(Arc::new(reply));
            drop(recording);
            background.leave(&live);
        });
    }

    fn live(&self, owner: &Owner, id: &RunId) -> Option<Arc<LiveRun>> {
        self.live.lock().get(&(owner.clone(), id.clone())).cloned()
    }

    /// Returns the run itself, if this process executes it.
    pub(crate) fn find(&self, owner: &Owner, id: &RunId) -> Option<Arc<LiveRun>> {
        self.live(owner, id)
    }

    pub(crate) async fn get(&self, owner: &Owner, id: &RunId) -> Result<RunView, RunStoreError> {
        let (store, of, which) = (self.store(), owner.clone(), id.clone());
        let record = blocking(move || store.get(&of, &which)).await?;
        Ok(self.view(record))
    }

    fn view(&self, mut record: RunRecord) -> RunView {
        let Some(live) = self.live(&record.owner, &record.id).filter(|_| !record.status.is_final()) else {
            let asked = record.questions.take().filter(|_| record.status == RunStatus::InputRequired);
            let questions = asked.and_then(|asked| serde_json::from_value(asked).ok()).unwrap_or_default();
            return RunView { record, questions };
        };
        record.message = live.message().or(record.message);
        let questions = live.questions();
        record.questions = None;
        match (questions.is_empty(), record.status) {
            (false, _) => record.status = RunStatus::InputRequired,
            // It was answered a moment ago, and the record is not updated yet.
            (true, RunStatus::InputRequired) => record.status = RunStatus::Working,
            _ => {}
        }
        RunView { record, questions }
    }

    pub(crate) async fn list(
        &self,
        owner: &Owner,
        after: Option<String>,
        limit: usize,
    ) -> Result<RunPage, RunStoreError> {
        let (store, of) = (self.store(), owner.clone());
        let page = blocking(move || store.list(&of, after.as_deref(), limit)).await?;
        Ok(RunPage { runs: page.runs.into_iter().map(|run| self.view(run).record).collect(), next: page.next })
    }

    pub(crate) async fn command(&self, owner: &Owner, id: &RunId) -> Result<String, RunStoreError> {
        let (store, owner, id) = (self.store(), owner.clone(), id.clone());
        blocking(move || store.command(&owner, &id)).await
    }

    /// Returns the reply of a run, if it has one.
    pub(crate) async fn reply(&self, owner: &Owner, id: &RunId) -> Result<Option<RunReply>, RunStoreError> {
        let (store, owner, id) = (self.store(), owner.clone(), id.clone());
        let bytes = blocking(move || store.reply(&owner, &id)).await?;
        Ok(bytes.and_then(|bytes| durable::reply::read(&bytes)))
    }

    /// Waits until a run has ended or needs input, at most this long.
    pub(crate) async fn wait(&self, owner: &Owner, id: &RunId, patience: Duration) -> Result<RunView, RunStoreError> {
        let deadline = tokio::time::Instant::now() + patience;
        loop {
            let view = self.get(owner, id).await?;
            let left = deadline.saturating_duration_since(tokio::time::Instant::now());
            let goes_on = matches!(view.record.status, RunStatus::Working | RunStatus::Queued);
            if !goes_on || left.is_zero() {
                return Ok(view);
            }
            match self.live(owner, id) {
                Some(live) if !live.status().is_final() => {
                    let none = std::collections::BTreeSet::new();
                    let _ = tokio::time::timeout(left, live.advance(&none)).await;
                }
                // Its end is being written, or another process executes it.
                _ => tokio::time::sleep(LOOK.min(left)).await,
            }
        }
    }

    /// Returns the reply of a run that another process executes, or that has ended. A run that waits for a person has
    /// none yet, and a cancelled or interrupted one has none at all: then the reply explains why.
    pub(crate) async fn reply_at_end(&self, owner: &Owner, id: &RunId) -> Result<RunReply, RunStoreError> {
        loop {
            let record = self.wait(owner, id, PATIENCE).await?.record;
            if record.status.is_final() {
                return Ok(self.reply(owner, id).await?.unwrap_or_else(|| without_reply(&record)));
            }
            if record.status == RunStatus::Suspended {
                return Ok(without_reply(&record));
            }
            // Its questions are asked where it runs.
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Cancels a run. One that has ended is not changed; the record tells which.
    pub(crate) async fn cancel(&self, owner: &Owner, id: &RunId) -> Result<RunRecord, RunStoreError> {
        let live = self.live(owner, id);
        let (store, approvals, of, which) = (self.store(), self.durable.approvals(), owner.clone(), id.clone());
        let record = blocking(move || {
            let record = store.cancel(&of, &which)?;
            if record.approval.is_some() {
                approvals.forget(&of, &which)?;
            }
            Ok(record)
        })
        .await?;
        if let Some(live) = live.filter(|_| record.status == RunStatus::Cancelled) {
            live.cancel.cancel();
        }
        Ok(record)
    }

    /// Resumes an interrupted run.
    pub(crate) async fn resume(&self, owner: &Owner, id: &RunId, unknown: Unknown) -> Result<RunRecord, RunStoreError> {
        self.durable.resume(owner, id, unknown).await
    }

    /// Abandons an interrupted run.
    pub(crate) async fn abandon(&self, owner: &Owner, id: &RunId) -> Result<RunRecord, RunStoreError> {
        let (store, approvals, owner, id) = (self.store(), self.durable.approvals(), owner.clone(), id.clone());
        blocking(move || {
            let record = store.abandon(&owner, &id)?;
            if record.approval.is_some() {
                approvals.forget(&owner, &id)?;
            }
            Ok(record)
        })
        .await
    }

    /// Cancels a run and deletes it.
    pub(crate) async fn remove(&self, owner: &Owner, id: &RunId) -> Result<(), RunStoreError> {
        self.cancel(owner, id).await?;
        let (store, owner, id) = (self.store(), owner.clone(), id.clone());
        blocking(move || store.remove(&owner, &id)).await
    }

    /// Delivers answers to a run of this process.
    pub(crate) fn answer(&self, owner: &Owner, id: &RunId, answers: InputResponses) -> bool {
        match self.live(owner, id) {
            Some(live) => {
                live.answer(answers);
                true
            }
            None => false,
        }
    }

    /// Whether this process executes the run with this id.
    pub(crate) fn is_live(&self, id: &str) -> bool {
        self.live.lock().keys().any(|(_, live)| live.as_str() == id)
    }

    /// Whether a run of this process waits for its client's answer.
    pub(crate) fn is_asking(&self) -> bool {
        self.live.lock().values().any(|live| live.status() == RunStatus::InputRequired)
    }

    /// Returns the number of background runs in progress here.
    pub(crate) fn active(&self) -> usize {
        self.live.lock().len()
    }

    /// Returns the runs that wait for a free server, over all servers, as of a few seconds ago.
    pub(crate) fn backlog(&self) -> Option<Backlog> {
        self.backlog.lock().clone()
    }

    /// Takes no further runs from the queue, and starts none: new ones wait for other servers.
    pub(crate) fn stop_taking(&self) {
        self.is_ending.store(true, Ordering::Release);
    }

    /// The process is ending: unfinished runs are handed back, and others resume them.
    pub(crate) async fn shutdown(&self) {
        self.stop_taking();
        let handed = self.durable.hand_back().await;
        if handed > 0 {
            tracing::info!(handed, "runs were given back");
        }
        let live: Vec<Arc<LiveRun>> = self.live.lock().values().cloned().collect();
        for live in live {
            live.cancel.cancel();
        }
    }
}

/// Returns a substitute for the reply of a run that has none.
pub(crate) fn without_reply(record: &RunRecord) -> RunReply {
    let reason = record.message.clone().unwrap_or_else(|| "it has no reply".to_owned());
    let kind = if record.status == RunStatus::Cancelled { "CancelledError" } else { "RuntimeError" };
    RunReply { text: format!("{kind}: the run was not finished: {reason}"), parts: Vec::new(), is_error: true }
}

fn failed_inside() -> RunReply {
    tracing::error!("a background run panicked");
    RunReply { text: "RuntimeError: internal error; see the server log".to_owned(), parts: Vec::new(), is_error: true }
}
