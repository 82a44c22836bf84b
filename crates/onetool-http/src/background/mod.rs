//! Background runs: MCP tasks, runs with an idempotency key and `POST /runs`.
//!
//! A run is recorded before anybody is told of it, executed here as a task of its own, and its reply is kept until its
//! time is over. What is kept is behind the state's interfaces, so that a run can be looked at, cancelled and fetched
//! through every process that shares the state; only questions and progress need the one that executes it.

pub(crate) mod key;
mod live;
mod reply;

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use onetool_run::{RunOptions, RunReply};
use onetool_sdk::{CallContext, Caller};
use onetool_state::StateError;
use onetool_state::runs::{
    Created, NewRun, Owner, RunId, RunOrigin, RunPage, RunRecord, RunStatus, RunStore, RunStoreError,
};
use parking_lot::Mutex;
use rmcp::model::{ClientCapabilities, InputRequests, InputResponses};
use tokio_util::sync::CancellationToken;

pub(crate) use live::{LiveRun, LiveStep};

use crate::mcp::AskedClient;
use crate::{BackgroundSettings, Principal, Service};
use live::{LiveClient, LiveProgress};

/// How often a process with runs says that it lives and looks whether they were cancelled elsewhere.
const BEAT: Duration = Duration::from_secs(5);
/// Beats between two looks for what has expired.
const BEATS_PER_SWEEP: u32 = 12;
/// How often a run of another process is looked at by whoever waits for it.
const LOOK: Duration = Duration::from_millis(200);
/// How often, and how long apart, a reply is written again that could not be written.
const WRITE_ATTEMPTS: u32 = 5;
const WRITE_PAUSE: Duration = Duration::from_secs(1);

/// A run to start.
pub(crate) struct StartRun {
    pub(crate) owner: Owner,
    pub(crate) command: String,
    pub(crate) origin: RunOrigin,
    pub(crate) client: RunClient,
    /// The run that a repeated request means.
    pub(crate) key: Option<String>,
    pub(crate) ttl: Option<Duration>,
}

/// Who a run is for, as its tools see it.
pub(crate) struct RunClient {
    pub(crate) caller: Caller,
    /// Whose sessions of runs it may use.
    pub(crate) owner: Arc<str>,
    /// What its client can be asked, if there is one.
    pub(crate) capabilities: Option<ClientCapabilities>,
}

/// What came of it.
pub(crate) enum Started {
    New(Arc<LiveRun>, RunRecord),
    /// It was started before.
    Before(RunRecord),
}

/// A run as its owner sees it.
pub(crate) struct RunView {
    pub(crate) record: RunRecord,
    pub(crate) questions: InputRequests,
}

pub(crate) struct Background {
    service: Arc<dyn Service>,
    live: Mutex<HashMap<(Owner, RunId), Arc<LiveRun>>>,
    /// Runs that are being recorded.
    starting: AtomicUsize,
    /// There may be something to give back.
    has_been_active: AtomicBool,
}

/// How a run ended, as it is kept.
struct End {
    status: RunStatus,
    reply: Vec<u8>,
}

impl End {
    fn of(live: &LiveRun, reply: &RunReply) -> Self {
        Self { status: live.ends_as(reply), reply: reply::write(reply) }
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, RunStoreError> + Send + 'static,
) -> Result<T, RunStoreError> {
    crate::task::blocking(work)
        .await
        .unwrap_or_else(|error| Err(StateError::Invalid(format!("the shared state failed inside: {error}")).into()))
}

/// The outcome of a task that goes on when nobody waits for it.
async fn joined<T>(task: tokio::task::JoinHandle<Result<T, RunStoreError>>) -> Result<T, RunStoreError> {
    task.await.unwrap_or_else(|error| Err(StateError::Invalid(format!("the server failed inside: {error}")).into()))
}

impl Background {
    pub(crate) fn start(service: &Arc<dyn Service>, stop: &CancellationToken) -> Arc<Self> {
        let background = Arc::new(Self {
            service: service.clone(),
            live: Mutex::default(),
            starting: AtomicUsize::new(0),
            has_been_active: AtomicBool::new(false),
        });
        crate::task::spawn(keep(Arc::downgrade(&background), stop.clone()));
        background
    }

    fn store(&self) -> RunStore {
        self.service.served().runs.clone()
    }

    pub(crate) fn settings(&self) -> BackgroundSettings {
        self.service.served().background
    }

    pub(crate) async fn owner(&self, principal: Principal) -> Result<Owner, RunStoreError> {
        let Principal::Token(fingerprint) = principal else { return Ok(Owner::local()) };
        let store = self.store();
        blocking(move || store.owner(fingerprint)).await
    }

    /// Records a run and starts it, unless it was started before. Whoever asks may go away meanwhile.
    pub(crate) async fn run(self: &Arc<Self>, run: StartRun) -> Result<Started, RunStoreError> {
        let background = self.clone();
        joined(crate::task::spawn(async move { background.record_and_run(run).await })).await
    }

    async fn record_and_run(self: &Arc<Self>, run: StartRun) -> Result<Started, RunStoreError> {
        let id = run.key.as_deref().map_or_else(RunId::random, |key| RunId::of_key(&run.owner, key));
        let live = Arc::new(LiveRun::new(id, run.owner, run.command));
        self.starting.fetch_add(1, Ordering::AcqRel);
        self.has_been_active.store(true, Ordering::Release);
        let created = self.create(&live, run.origin, run.ttl).await;
        let started = self.started(live, run.client, created).await;
        self.starting.fetch_sub(1, Ordering::AcqRel);
        started
    }

    async fn started(
        self: &Arc<Self>,
        live: Arc<LiveRun>,
        client: RunClient,
        created: Result<Created, RunStoreError>,
    ) -> Result<Started, RunStoreError> {
        match created? {
            Created::New(record) => {
                *live.is_recorded.lock().await = true;
                self.spawn(&live, client);
                Ok(Started::New(live, record))
            }
            Created::Existing(record) => Ok(Started::Before(record)),
        }
    }

    /// Starts a run that nobody but its request knows of yet.
    pub(crate) fn run_unrecorded(self: &Arc<Self>, owner: Owner, command: String, client: RunClient) -> Arc<LiveRun> {
        let live = Arc::new(LiveRun::new(RunId::random(), owner, command));
        self.spawn(&live, client);
        live
    }

    /// Records such a run, so that it may be told of and outlives its request.
    pub(crate) async fn record(
        self: &Arc<Self>,
        live: &Arc<LiveRun>,
        origin: RunOrigin,
    ) -> Result<RunRecord, RunStoreError> {
        let (background, live) = (self.clone(), live.clone());
        joined(crate::task::spawn(async move { background.record_live(&live, origin).await })).await
    }

    async fn record_live(&self, live: &Arc<LiveRun>, origin: RunOrigin) -> Result<RunRecord, RunStoreError> {
        self.has_been_active.store(true, Ordering::Release);
        let mut is_recorded = live.is_recorded.lock().await;
        let record = match self.create(live, origin, None).await? {
            Created::New(record) | Created::Existing(record) => record,
        };
        *is_recorded = true;
        if live.status().is_final() {
            // It ended meanwhile, and its end was not recorded.
            let mut end = Some(End::of(live, &*live.reply().await));
            self.write(live, &mut end).await?;
        }
        Ok(record)
    }

    async fn create(&self, live: &LiveRun, origin: RunOrigin, ttl: Option<Duration>) -> Result<Created, RunStoreError> {
        let (store, settings) = (self.store(), self.settings());
        let new = NewRun {
            id: live.id.clone(),
            owner: live.owner.clone(),
            command: live.command.clone(),
            origin,
            created_at: live.created_at,
            ttl: ttl.unwrap_or(settings.ttl).min(settings.max_ttl),
        };
        blocking(move || store.create(&new, settings.limits)).await
    }

    fn spawn(self: &Arc<Self>, live: &Arc<LiveRun>, client: RunClient) {
        let (background, live) = (self.clone(), live.clone());
        self.live.lock().insert((live.owner.clone(), live.id.clone()), live.clone());
        let mut ctx = CallContext::new(client.caller);
        ctx.owner = client.owner;
        ctx.run_id = live.id.as_str().into();
        ctx.cancel = live.cancel.clone();
        ctx.progress = Arc::new(LiveProgress(live.clone()));
        if let Some(capabilities) = client.capabilities {
            let patience = self.service.served().server.mcp.input_timeout;
            let questions = LiveClient { run: live.clone(), patience };
            ctx.client = Some(Arc::new(AskedClient::new(capabilities, questions)));
        }
        crate::task::spawn(async move {
            let timeout = background.settings().timeout;
            let runner = background.service.runner().clone();
            let options = RunOptions { timeout: Some(timeout), ..RunOptions::default() };
            let run = AssertUnwindSafe(runner.run_with_options(&live.command, ctx, options)).catch_unwind();
            let reply = Arc::new(run.await.unwrap_or_else(|_| failed_inside()));
            // Whoever hears of the end finds it in the record.
            let is_recorded = live.is_recorded.lock().await;
            let mut end = is_recorded.then(|| End::of(&live, &reply));
            let written = background.write(&live, &mut end).await;
            live.finish(reply);
            drop(is_recorded);
            if let Err(error) = written {
                background.write_again(&live, end, error).await;
            }
            background.live.lock().remove(&(live.owner.clone(), live.id.clone()));
        });
    }

    /// Writes how a run ended. A reply that is too large is replaced by an error that says so.
    async fn write(&self, live: &Arc<LiveRun>, end: &mut Option<End>) -> Result<(), RunStoreError> {
        while let Some(End { status, reply }) = end {
            let (store, limits, status) = (self.store(), self.settings().limits, *status);
            let (run, content) = (live.clone(), reply.clone());
            match blocking(move || store.finish((&run.owner, &run.id), status, &content, limits)).await {
                Ok(_) | Err(RunStoreError::NotFound) => *end = None,
                Err(error @ RunStoreError::TooLarge { .. }) => {
                    let text = format!("ValueError: {error}");
                    let reply = reply::write(&RunReply { text, parts: Vec::new(), is_error: true });
                    *end = Some(End { status: RunStatus::Failed, reply });
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Tries for a while to write what could not be written.
    async fn write_again(&self, live: &Arc<LiveRun>, mut end: Option<End>, mut error: RunStoreError) {
        for attempt in 1..=WRITE_ATTEMPTS {
            tracing::warn!(run = %live.id, %error, attempt, "the reply of a run could not be kept");
            tokio::time::sleep(WRITE_PAUSE * attempt).await;
            match self.write(live, &mut end).await {
                Ok(()) => return,
                Err(again) => error = again,
            }
        }
    }

    fn live(&self, owner: &Owner, id: &RunId) -> Option<Arc<LiveRun>> {
        self.live.lock().get(&(owner.clone(), id.clone())).cloned()
    }

    /// The run itself, if this process executes it.
    pub(crate) fn find(&self, owner: &Owner, id: &RunId) -> Option<Arc<LiveRun>> {
        self.live(owner, id)
    }

    pub(crate) async fn get(&self, owner: &Owner, id: &RunId) -> Result<RunView, RunStoreError> {
        let (store, of, which) = (self.store(), owner.clone(), id.clone());
        let record = blocking(move || store.get(&of, &which)).await?;
        let is_lost = |record: &RunRecord| {
            !record.status.is_final()
                && self.store().is_ours(record)
                && self.live(owner, id).is_none()
                && self.starting.load(Ordering::Acquire) == 0
        };
        if is_lost(&record) {
            // It ended between the two looks, or its end could not be written.
            let (store, of, which) = (self.store(), owner.clone(), id.clone());
            let record = blocking(move || store.interrupt(&of, &which, "its reply was lost")).await?;
            return Ok(self.view(record));
        }
        Ok(self.view(record))
    }

    fn view(&self, mut record: RunRecord) -> RunView {
        let Some(live) = self.live(&record.owner, &record.id).filter(|_| !record.status.is_final()) else {
            return RunView { record, questions: InputRequests::default() };
        };
        record.message = live.message().or(record.message);
        let questions = live.questions();
        if !questions.is_empty() {
            record.status = RunStatus::InputRequired;
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

    /// The reply of a run, if it has one.
    pub(crate) async fn reply(&self, owner: &Owner, id: &RunId) -> Result<Option<RunReply>, RunStoreError> {
        let (store, owner, id) = (self.store(), owner.clone(), id.clone());
        let bytes = blocking(move || store.reply(&owner, &id)).await?;
        Ok(bytes.and_then(|bytes| reply::read(&bytes)))
    }

    /// Waits until a run has ended or asks something, at most this long.
    pub(crate) async fn wait(&self, owner: &Owner, id: &RunId, patience: Duration) -> Result<RunView, RunStoreError> {
        let deadline = tokio::time::Instant::now() + patience;
        loop {
            let view = self.get(owner, id).await?;
            let left = deadline.saturating_duration_since(tokio::time::Instant::now());
            if view.record.status != RunStatus::Working || left.is_zero() {
                return Ok(view);
            }
            match self.live(owner, id) {
                Some(live) if !live.status().is_final() => {
                    let none = std::collections::BTreeSet::new();
                    let _ = tokio::time::timeout(left, live.advance(&none)).await;
                }
                // Its end is being written, or another process has it.
                _ => tokio::time::sleep(LOOK.min(left)).await,
            }
        }
    }

    /// Ends a run. One that has ended stays as it is; the record says which.
    pub(crate) async fn cancel(&self, owner: &Owner, id: &RunId) -> Result<RunRecord, RunStoreError> {
        let live = self.live(owner, id);
        let (store, of, which) = (self.store(), owner.clone(), id.clone());
        let record = blocking(move || {
            store.update(&of, &which, |record| {
                record.status = RunStatus::Cancelled;
                record.message = Some("cancelled".to_owned());
                true
            })
        })
        .await?;
        // Another process that has it looks at the record.
        if let Some(live) = live {
            live.cancel.cancel();
        }
        Ok(record)
    }

    /// Ends a run and forgets it.
    pub(crate) async fn remove(&self, owner: &Owner, id: &RunId) -> Result<(), RunStoreError> {
        self.cancel(owner, id).await?;
        let (store, owner, id) = (self.store(), owner.clone(), id.clone());
        blocking(move || store.remove(&owner, &id)).await
    }

    /// Hands answers to a run of this process.
    pub(crate) fn answer(&self, owner: &Owner, id: &RunId, answers: InputResponses) -> bool {
        match self.live(owner, id) {
            Some(live) => {
                live.answer(answers);
                true
            }
            None => false,
        }
    }

    /// Ends all runs: the process does.
    pub(crate) async fn shutdown(&self) {
        let live: Vec<Arc<LiveRun>> = self.live.lock().values().cloned().collect();
        let store = self.store();
        let runs: Vec<(Owner, RunId)> = live.iter().map(|live| (live.owner.clone(), live.id.clone())).collect();
        let _ = blocking(move || {
            for (owner, id) in runs {
                if let Err(error) = store.interrupt(&owner, &id, "the server was stopped")
                    && !matches!(error, RunStoreError::NotFound)
                {
                    tracing::warn!(%error, "a run was not marked as interrupted");
                }
            }
            store.leave();
            Ok(())
        })
        .await;
        for live in live {
            live.cancel.cancel();
        }
    }

    /// Says that this process lives, and ends what was cancelled elsewhere.
    async fn beat(&self) {
        let live: Vec<Arc<LiveRun>> = self.live.lock().values().cloned().collect();
        let is_idle = live.is_empty() && self.starting.load(Ordering::Acquire) == 0;
        if is_idle && !self.has_been_active.swap(false, Ordering::AcqRel) {
            return;
        }
        let store = self.store();
        let _ = blocking(move || {
            if is_idle {
                store.leave();
                return Ok(());
            }
            store.beat()?;
            for run in live {
                if run.is_recorded.try_lock().is_ok_and(|is_recorded| *is_recorded) {
                    match store.get(&run.owner, &run.id) {
                        Ok(record) if !record.status.is_final() => {}
                        Ok(_) | Err(RunStoreError::NotFound) => run.cancel.cancel(),
                        Err(error) => return Err(error),
                    }
                }
            }
            Ok(())
        })
        .await
        .inspect_err(|error| tracing::warn!(%error, "background runs could not be looked after"));
    }
}

async fn keep(background: std::sync::Weak<Background>, stop: CancellationToken) {
    for count in 1_u32.. {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(BEAT) => {}
        }
        let Some(background) = background.upgrade() else { return };
        background.beat().await;
        if count % BEATS_PER_SWEEP == 0 {
            let store = background.store();
            let _ = blocking(move || store.sweep()).await;
        }
    }
}

fn failed_inside() -> RunReply {
    tracing::error!("a background run panicked");
    RunReply {
        text: "RuntimeError: the server failed inside; the log has the details".to_owned(),
        parts: Vec::new(),
        is_error: true,
    }
}
