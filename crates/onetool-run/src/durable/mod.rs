//! Runs that survive their process: claimed, journaled, suspended, taken over, resumed.
//!
//! [`Durable`] manages them for one process. It executes a run that it has claimed ([`Durable::execute`]): reads what
//! an earlier process left, runs the code, and writes the outcome. A run that only its own request knows begins in
//! memory, and is recorded once it must wait for a person ([`Durable::park`]).

mod journal;
mod keeper;
mod lines;
pub mod reply;

use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::Utc;
use onetool_sdk::{CallContext, Caller, Requester, ToolError};
use onetool_state::StateError;
use onetool_state::runs::{
    ApprovalRecord, ApprovalStore, CallReport, Created, NewRun, Owner, RunId, RunLimits, RunOrigin, RunRecord,
    RunStatus, RunStore, RunStoreError, Taken, Verdict,
};
use parking_lot::RwLock;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use tokio_util::sync::CancellationToken;

use crate::runner::{Admission, RunAdmission, RunOptions, RunReply, Runner};
pub use journal::Journal;
use journal::{JournalState, Question};
use keeper::Keeper;
pub use keeper::Kept;
use lines::Line;
pub use lines::Unknown;

/// A run that was taken over this often is interrupted instead: it may be what crashes its servers.
const MAX_FENCE: u64 = 100;
/// How long a run that is handed over waits for its calls in progress.
const HAND_OVER: Duration = Duration::from_secs(2);
/// Delay between attempts to write the end of a run.
const PAUSE: Duration = Duration::from_millis(500);
/// Maximum characters of arguments in a message.
const SHOWN_ARGUMENTS: usize = 400;
/// A run not woken this long after its decision is woken by [`Durable::waiting`].
const WAKES_WITHIN: chrono::TimeDelta = chrono::TimeDelta::seconds(5);

/// Limits for durable runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DurableSettings {
    pub limits: RunLimits,
    /// How long a run is kept after its start.
    pub ttl: Duration,
    /// How long a run may take.
    pub timeout: Duration,
    /// How long a call waits for a permission.
    pub approval_ttl: Duration,
    /// Maximum bytes of outcomes that a run's journal keeps.
    pub journal_bytes: usize,
    /// Whether every run is durable: `run.durable`.
    pub always: bool,
}

/// A command that has not started.
pub struct NewCommand {
    pub command: String,
    /// Its admission, if it was already admitted.
    pub admission: Option<Admission>,
}

/// The outcome of a run.
#[derive(Debug, Clone)]
pub enum End {
    /// It has a reply, which is stored.
    Finished(RunReply),
    /// It waits for a person; the reply says for what.
    Suspended(RunReply),
    /// A person must decide whether it continues; the reply says why.
    Interrupted(RunReply),
    /// Another process has it now, or it was cancelled.
    Lost,
}

/// On whose behalf a run executes, as recorded.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Client {
    #[serde(default)]
    owner: String,
    #[serde(default)]
    caller: String,
    /// The identity, for policies and records.
    #[serde(default)]
    requester: Requester,
}

/// The durable runs of this process.
pub struct Durable {
    places: RwLock<Places>,
    keeper: Arc<Keeper>,
}

#[derive(Clone)]
struct Places {
    runs: RunStore,
    approvals: ApprovalStore,
    settings: DurableSettings,
    /// Address of the admin page, for display.
    page: Option<String>,
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, RunStoreError> + Send + 'static,
) -> Result<T, RunStoreError> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|error| Err(StateError::Invalid(format!("the shared state failed inside: {error}")).into()))
}

/// The part of a context that a run takes to another process.
pub fn client_of(ctx: &CallContext) -> Json {
    let (owner, requester) = (ctx.owner.to_string(), (*ctx.requester).clone());
    let client = Client { owner, caller: ctx.caller.name().to_owned(), requester };
    serde_json::to_value(client).unwrap_or_default()
}

/// Rebuilds the context of a run that another process began.
pub fn context_of(record: &RunRecord) -> CallContext {
    let client: Client = serde_json::from_value(record.client.clone()).unwrap_or_default();
    let caller = match Caller::named(&client.caller).unwrap_or(Caller::Run) {
        // A run that a tool started resumes as a plain run.
        Caller::Tool => Caller::Run,
        caller => caller,
    };
    let mut ctx = CallContext::new(caller);
    ctx.owner = client.owner.into();
    ctx.requester = client.requester.into();
    ctx.run_id = record.id.as_str().into();
    ctx
}

impl Durable {
    pub fn new(runs: RunStore, approvals: ApprovalStore, settings: DurableSettings) -> Self {
        let places = Places { runs, approvals, settings, page: None };
        Self { places: RwLock::new(places), keeper: Arc::default() }
    }

    /// Replaces the stores and settings after a reload. Runs in progress keep the old ones.
    pub fn replace(&self, runs: RunStore, approvals: ApprovalStore, settings: DurableSettings) {
        let mut places = self.places.write();
        *places = Places { runs, approvals, settings, page: places.page.take() };
    }

    /// Sets the address of the admin page, where people decide.
    pub fn set_page(&self, address: Option<String>) {
        self.places.write().page = address;
    }

    pub fn runs(&self) -> RunStore {
        self.places.read().runs.clone()
    }

    pub fn approvals(&self) -> ApprovalStore {
        self.places.read().approvals.clone()
    }

    pub fn settings(&self) -> DurableSettings {
        self.places.read().settings
    }

    /// Gives a run a journal in memory, because it may have to wait for a person or be recorded while it runs.
    pub fn begin(&self, ctx: &mut CallContext) -> Arc<Journal> {
        let stop = ctx.cancel.child_token();
        let journal = Arc::new(Journal::new(&ctx.run_id, self.settings().journal_bytes, stop.clone()));
        ctx.cancel = stop;
        ctx.journal = Some(journal.clone());
        journal
    }

    /// Writes the journal of a run that began in memory and was then recorded, and renews the run.
    pub async fn adopt(&self, taken: &Taken, journal: &Arc<Journal>, asked: Instant) -> Kept {
        let store = self.runs();
        let kept = self.keeper.keep(&store, &taken.claim, journal, asked);
        // If the journal cannot be written, it stops the run itself.
        let _ = journal.attach(&store, &taken.claim).await;
        kept
    }

    /// Ends a run after an internal error.
    pub async fn fail(&self, taken: &Taken, reply: &RunReply) {
        let (store, claim, bytes) = (self.runs(), taken.claim.clone(), reply::write(reply));
        let limits = self.settings().limits;
        let _ = blocking(move || store.finish(&claim, RunStatus::Failed, &bytes, limits)).await;
    }

    /// The owner of a run, by the owner of its calls.
    pub fn owner_of(&self, ctx: &CallContext) -> Result<Owner, RunStoreError> {
        self.places.read().runs.owner_of(&ctx.owner)
    }

    /// Executes a run that this process has claimed. `adjust` adds to its context what only this process has.
    pub async fn execute(
        &self,
        runner: &Runner,
        taken: &Taken,
        asked: Instant,
        adjust: impl FnOnce(&mut CallContext),
    ) -> End {
        match self.prepared(taken, asked).await {
            Ok(Prepared::Ready { journal, command, kept }) => {
                let running = Running { journal, command, kept, entrance: RunAdmission::Ask };
                self.run(runner, taken, running, adjust).await
            }
            Ok(Prepared::Interrupted(reply)) => End::Interrupted(reply),
            Err(RunStoreError::NotFound) => {
                let text = "RuntimeError: the command of the run is gone".to_owned();
                let reply = RunReply { text, parts: Vec::new(), is_error: true };
                self.fail(taken, &reply).await;
                End::Finished(reply)
            }
            Err(error) => {
                tracing::warn!(run = %taken.record.id, %error, "a run that was taken could not be begun");
                let (store, claim) = (self.runs(), taken.claim.clone());
                let _ = blocking(move || store.give_back(&claim, onetool_state::interface::Rest::Waiting)).await;
                End::Lost
            }
        }
    }

    /// Executes a run that this process has just recorded, so there is no earlier state to read.
    pub async fn execute_new(
        &self,
        runner: &Runner,
        taken: &Taken,
        new: NewCommand,
        asked: Instant,
        adjust: impl FnOnce(&mut CallContext),
    ) -> End {
        let journal =
            Arc::new(Journal::new(taken.record.id.as_str(), self.settings().journal_bytes, CancellationToken::new()));
        let store = self.runs();
        let kept = self.keeper.keep(&store, &taken.claim, &journal, asked);
        let _ = journal.attach(&store, &taken.claim).await;
        let entrance = new.admission.map_or(RunAdmission::Ask, RunAdmission::Admitted);
        self.run(runner, taken, Running { journal, command: new.command, kept, entrance }, adjust).await
    }

    async fn prepared(&self, taken: &Taken, asked: Instant) -> Result<Prepared, RunStoreError> {
        let Places { runs, approvals, .. } = self.places.read().clone();
        let (store, of) = (runs.clone(), taken.clone());
        let (lines, command, asked_for) = blocking(move || {
            let lines = store.journal(&of.claim)?;
            let command = store.command(&of.record.owner, &of.record.id)?;
            Ok((lines, command, approvals.of(&of.record.owner, &of.record.id)?))
        })
        .await?;
        let run = taken.record.id.as_str();
        let journal =
            match Journal::read(run, &lines, &asked_for, self.settings().journal_bytes, CancellationToken::new()) {
                Ok(journal) => Arc::new(journal),
                Err(reason) => return self.interrupt(taken, &reason, CallReport::default()).await,
            };
        if let Some((reason, report)) = journal.trouble() {
            return self.interrupt(taken, &reason, report).await;
        }
        if taken.claim.fence > MAX_FENCE {
            let reason = format!("{MAX_FENCE} servers have begun it, and none has ended it");
            return self.interrupt(taken, &reason, journal.report()).await;
        }
        let kept = self.keeper.keep(&runs, &taken.claim, &journal, asked);
        if journal.attach(&runs, &taken.claim).await.is_err() {
            return Err(RunStoreError::Lost);
        }
        Ok(Prepared::Ready { journal, command, kept })
    }

    async fn interrupt(&self, taken: &Taken, reason: &str, report: CallReport) -> Result<Prepared, RunStoreError> {
        let (store, claim) = (self.runs(), taken.claim.clone());
        let (why, kept) = (reason.to_owned(), report.clone());
        blocking(move || store.interrupt(&claim, &why, kept)).await?;
        Ok(Prepared::Interrupted(interrupted_reply(&taken.record.id, reason, &report)))
    }

    async fn run(
        &self,
        runner: &Runner,
        taken: &Taken,
        running: Running,
        adjust: impl FnOnce(&mut CallContext),
    ) -> End {
        let Running { journal, command, kept, entrance } = running;
        let mut ctx = context_of(&taken.record);
        adjust(&mut ctx);
        let asked_to_stop = ctx.cancel.clone();
        // Cancelling the context cancels the run; stopping the journal only ends its execution here.
        let stop = journal.stop().clone();
        let guard = stop.clone();
        let watching = tokio::spawn({
            let asked_to_stop = asked_to_stop.clone();
            async move {
                tokio::select! {
                    () = asked_to_stop.cancelled() => guard.cancel(),
                    () = guard.cancelled() => {}
                }
            }
        });
        ctx.cancel = stop.clone();
        ctx.journal = Some(journal.clone());
        let options = RunOptions { timeout: Some(self.settings().timeout), ..RunOptions::default() };
        let reply = runner.run_entering(&command, ctx, options, entrance).await;
        let is_cancelled = asked_to_stop.is_cancelled();
        stop.cancel();
        let _ = watching.await;
        let end = self.conclude(taken, &journal, reply, is_cancelled).await;
        drop(kept);
        end
    }

    /// Writes the outcome of a run.
    pub async fn conclude(&self, taken: &Taken, journal: &Arc<Journal>, reply: RunReply, is_cancelled: bool) -> End {
        let id = &taken.record.id;
        let written = match journal.fate() {
            // A server that shuts down hands its runs back before it cancels them.
            JournalState::Lost => return End::Lost,
            _ if is_cancelled => self.write(taken, journal, RunStatus::Cancelled, reply).await,
            JournalState::Running => {
                let status = if reply.is_error { RunStatus::Failed } else { RunStatus::Completed };
                self.write(taken, journal, status, reply).await
            }
            JournalState::Strayed(how) => {
                let reason = format!("when it was run again it went another way: {how}");
                let report = journal.report();
                let reply = interrupted_reply(id, &reason, &report);
                let (store, claim) = (self.runs(), taken.claim.clone());
                blocking(move || store.interrupt(&claim, &reason, report)).await.map(|_| End::Interrupted(reply))
            }
            JournalState::Suspended(question) => self.suspend(taken, journal, question).await.map(End::Suspended),
        };
        written.unwrap_or_else(|error| {
            tracing::warn!(run = %id, %error, "the end of a run could not be written");
            End::Lost
        })
    }

    /// Stores a reply while the run is ours. A reply that is too large is replaced by an error that says so.
    async fn write(
        &self,
        taken: &Taken,
        journal: &Journal,
        mut status: RunStatus,
        mut reply: RunReply,
    ) -> Result<End, RunStoreError> {
        let limits = self.settings().limits;
        let has_asked = taken.record.approval.is_some();
        loop {
            let (store, claim, bytes) = (self.runs(), taken.claim.clone(), reply::write(&reply));
            let which = (taken.record.owner.clone(), taken.record.id.clone(), self.approvals());
            let written = blocking(move || {
                store.finish(&claim, status, &bytes, limits)?;
                if has_asked {
                    which.2.forget(&which.0, &which.1)?;
                }
                Ok(())
            });
            match written.await {
                Ok(()) => return Ok(End::Finished(reply)),
                Err(RunStoreError::NotFound) => return Ok(End::Finished(reply)),
                Err(error @ RunStoreError::TooLarge { .. }) => {
                    status = RunStatus::Failed;
                    reply = RunReply { text: format!("ValueError: {error}"), parts: Vec::new(), is_error: true };
                }
                Err(RunStoreError::State(error)) if !matches!(journal.fate(), JournalState::Lost) => {
                    tracing::warn!(run = %taken.record.id, %error, "the reply of a run could not be kept yet");
                    tokio::time::sleep(PAUSE).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn suspend(&self, taken: &Taken, journal: &Journal, question: Question) -> Result<RunReply, RunStoreError> {
        journal.flush().await.map_err(|error| StateError::Invalid(error.to_string()))?;
        let Places { runs, approvals, settings, page } = self.places.read().clone();
        let (record, claim) = (taken.record.clone(), taken.claim.clone());
        blocking(move || {
            let before = approvals.of(&record.owner, &record.id)?;
            let same = |one: &&ApprovalRecord| {
                one.is_waiting() && one.live.is_none() && one.hash == question.hash && one.nth == question.nth
            };
            let now = Utc::now();
            let ttl = chrono::TimeDelta::from_std(settings.approval_ttl).unwrap_or(chrono::TimeDelta::days(365));
            let asked = match before.iter().find(same) {
                Some(asked) => asked.clone(),
                None => {
                    let asked = ApprovalRecord {
                        id: uuid::Uuid::new_v4().simple().to_string()[..16].to_owned(),
                        owner: record.owner.clone(),
                        run: record.id.clone(),
                        tool: question.tool.clone(),
                        arguments: question.arguments.clone(),
                        hash: question.hash.clone(),
                        nth: question.nth,
                        at: now,
                        expires_at: now + ttl,
                        live: None,
                        verdict: None,
                    };
                    approvals.ask(&asked)?;
                    asked
                }
            };
            let message = format!("waits for permission to call {}; approval {}", asked.tool, asked.id);
            runs.suspend(&claim, &asked.id, &message)?;
            // The decision may have been made before the run was suspended.
            if approvals.get(&asked.id)?.is_some_and(|asked| !asked.is_waiting()) {
                runs.wake(&record.owner, &record.id)?;
            }
            Ok(suspended_reply(&asked, page.as_deref()))
        })
        .await
    }

    /// Records an unrecorded run because it must wait for a person. `None` if that is impossible.
    pub async fn park(&self, command: &str, ctx: &CallContext, journal: &Arc<Journal>) -> Option<RunReply> {
        let JournalState::Suspended(question) = journal.fate() else { return None };
        let parked = self.record(command, ctx, RunOrigin::Call, RunId::of_run(&ctx.run_id)).await;
        let taken = match parked {
            Ok(Some(taken)) => taken,
            Ok(None) => return None,
            Err(error) => {
                tracing::warn!(%error, "a run cannot wait for a permission");
                return Some(cannot_wait(&question, &error.to_string()));
            }
        };
        let kept = async {
            journal.attach(&self.runs(), &taken.claim).await?;
            let suspended = self.suspend(&taken, journal, question.clone()).await;
            suspended.map_err(|error| ToolError::unavailable(error.to_string()))
        };
        Some(kept.await.unwrap_or_else(|error| {
            tracing::warn!(%error, "a run cannot wait for a permission");
            cannot_wait(&question, &error.message)
        }))
    }

    async fn record(
        &self,
        command: &str,
        ctx: &CallContext,
        origin: RunOrigin,
        id: RunId,
    ) -> Result<Option<Taken>, RunStoreError> {
        let Places { runs, settings, .. } = self.places.read().clone();
        let (command, owner, client) = (command.to_owned(), ctx.owner.clone(), client_of(ctx));
        blocking(move || {
            let new = NewRun {
                id,
                owner: runs.owner_of(&owner)?,
                command,
                origin,
                created_at: Utc::now(),
                ttl: settings.ttl,
                tags: Vec::new(),
                client,
            };
            Ok(match runs.create(&new, true, settings.limits)? {
                Created::New(record, Some(claim)) => Some(Taken { record, claim }),
                _ => None,
            })
        })
        .await
    }

    /// Executes a command as a durable run from its beginning.
    pub(crate) async fn run_recorded(&self, runner: &Runner, command: &str, ctx: &CallContext) -> Option<RunReply> {
        let asked = Instant::now();
        let id = RunId::of_run(&ctx.run_id);
        let taken = match self.record(command, ctx, RunOrigin::Call, id.clone()).await {
            Ok(taken) => taken?,
            Err(error) => {
                let text = format!("RuntimeError: the run cannot be recorded (run.durable): {error}");
                return Some(RunReply { text, parts: Vec::new(), is_error: true });
            }
        };
        let own = ctx.clone();
        let end = self
            .execute_new(
                runner,
                &taken,
                NewCommand { command: command.to_owned(), admission: None },
                asked,
                move |ctx| {
                    let (run_id, journal) = (ctx.run_id.clone(), ctx.journal.clone());
                    *ctx = CallContext { run_id, journal, ..own };
                },
            )
            .await;
        Some(match end {
            End::Finished(reply) | End::Suspended(reply) | End::Interrupted(reply) => reply,
            End::Lost => lost_reply(&id),
        })
    }

    /// Reopens and claims an interrupted run; the caller must execute it.
    pub async fn reopen(&self, owner: &Owner, id: &RunId, unknown: Unknown) -> Result<Taken, RunStoreError> {
        let (store, owner, id) = (self.runs(), owner.clone(), id.clone());
        blocking(move || {
            let taken = store.reopen(&owner, &id)?;
            let lines = store.journal(&taken.claim)?;
            let journal = Journal::read(id.as_str(), &lines, &[], 0, CancellationToken::new())
                .map_err(|reason| RunStoreError::State(StateError::Invalid(reason)))?;
            let decided = Line::Again { calls: journal.unanswered(), unknown };
            let line = serde_json::to_string(&decided).map_err(|error| StateError::Invalid(error.to_string()))?;
            store.append(&taken.claim, lines.len() as u64, &[line])?;
            Ok(taken)
        })
        .await
    }

    /// Reopens an interrupted run, for any server to execute.
    pub async fn resume(&self, owner: &Owner, id: &RunId, unknown: Unknown) -> Result<RunRecord, RunStoreError> {
        let taken = self.reopen(owner, id, unknown).await?;
        let (store, owner, id) = (self.runs(), owner.clone(), id.clone());
        blocking(move || {
            store.hand_over(&taken.claim)?;
            store.get(&owner, &id)
        })
        .await
    }

    /// Decides a waiting call: its run resumes, or the process that waits for it is notified. `None` if no call waits
    /// under this id.
    pub fn decide(&self, id: &str, verdict: &Verdict) -> Result<Option<ApprovalRecord>, RunStoreError> {
        let Places { runs, approvals, .. } = self.places.read().clone();
        let decided = approvals.decide(id, verdict)?;
        if let Some(asked) = decided.as_ref().filter(|asked| asked.live.is_none()) {
            match runs.wake(&asked.owner, &asked.run) {
                Ok(_) | Err(RunStoreError::NotFound) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(decided)
    }

    /// Calls that wait for a person, the oldest first: those of suspended runs and of live processes. Also refuses
    /// calls that have waited too long, removes those of processes that have died, and wakes runs whose permission was
    /// decided by a process that died before waking them.
    pub fn waiting(&self) -> Result<Vec<ApprovalRecord>, RunStoreError> {
        let approvals = self.approvals();
        let now = Utc::now();
        let (live, mut all): (Vec<_>, Vec<_>) = approvals.list()?.into_iter().partition(|asked| asked.live.is_some());
        for left in live.iter().filter(|asked| asked.is_left(now)) {
            approvals.remove_left(left, now)?;
        }
        let is_overdue = |verdict: &Verdict| verdict.at + WAKES_WITHIN <= now;
        for asked in all.iter().filter(|asked| asked.verdict.as_ref().is_some_and(is_overdue)) {
            self.wake_decided(asked)?;
        }
        for asked in all.iter().filter(|asked| asked.is_waiting() && asked.expires_at <= now) {
            self.decide(&asked.id, &Verdict::new(false, "nobody, in time"))?;
        }
        all.extend(live);
        all.sort_by(|one, other| (one.at, &one.id).cmp(&(other.at, &other.id)));
        all.retain(|asked| asked.is_waiting() && asked.expires_at > now);
        Ok(all)
    }

    fn wake_decided(&self, asked: &ApprovalRecord) -> Result<(), RunStoreError> {
        let runs = self.runs();
        match runs.get(&asked.owner, &asked.run) {
            Ok(run) if run.status == RunStatus::Suspended && run.approval.as_ref() == Some(&asked.id) => {
                tracing::info!(run = %asked.run, "a run goes on whose permission was decided earlier");
                runs.wake(&asked.owner, &asked.run).map(drop)
            }
            Ok(_) | Err(RunStoreError::NotFound) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Hands back all unfinished runs, so that other servers continue them. Calls in progress get a moment to finish;
    /// no further ones begin.
    pub async fn hand_back(&self) -> usize {
        let held = self.keeper.journals();
        let handed = held.into_iter().map(|(store, claim, journal)| async move {
            journal.settle(HAND_OVER).await;
            blocking(move || store.hand_over(&claim)).await.inspect_err(|error| {
                tracing::warn!(%error, "a run could not be given back; others take it over when its time is over");
            })
        });
        futures_util::future::join_all(handed).await.into_iter().filter(Result::is_ok).count()
    }
}

/// A run that is about to be executed.
struct Running {
    journal: Arc<Journal>,
    command: String,
    kept: Kept,
    entrance: RunAdmission,
}

enum Prepared {
    Ready { journal: Arc<Journal>, command: String, kept: Kept },
    Interrupted(RunReply),
}

fn clipped(text: &str) -> String {
    if text.chars().count() <= SHOWN_ARGUMENTS {
        return text.to_owned();
    }
    text.chars().take(SHOWN_ARGUMENTS).chain(['…']).collect()
}

/// The reply of a run that waits for a permission.
fn suspended_reply(asked: &ApprovalRecord, page: Option<&str>) -> RunReply {
    let ApprovalRecord { id, run, tool, arguments, .. } = asked;
    let page = page.map(|page| format!(", or at {page}")).unwrap_or_default();
    let text = format!(
        "PermissionError: {tool} needs the user's permission; the run waits for it and is not lost\n\
         call: {tool}({})\nrun: {run}\ndecide: onetool approve {id}   (or: onetool deny {id}){page}\n\
         hint: once it is approved the run goes on by itself; ot.resume('{run}') gives its result. Do not run it again.",
        clipped(arguments),
    );
    RunReply { text, parts: Vec::new(), is_error: true }
}

/// The reply of a run that would have to wait for a permission, but cannot be recorded.
fn cannot_wait(question: &Question, reason: &str) -> RunReply {
    let Question { tool, arguments, .. } = question;
    let (reason, hint) = onetool_sdk::split_hint(reason);
    let hint = hint.map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
    let text = format!(
        "PermissionError: {tool} needs the user's permission, and the run cannot wait for it: {reason}\n\
         call: {tool}({}), which was not made{hint}",
        clipped(arguments),
    );
    RunReply { text, parts: Vec::new(), is_error: true }
}

/// The reply of an interrupted run, some of whose calls have an unknown effect.
fn interrupted_reply(id: &RunId, reason: &str, report: &CallReport) -> RunReply {
    let list = |calls: &[onetool_state::runs::ReportedCall]| {
        let lines = calls.iter().map(|call| format!("\n  {}({})", call.tool, clipped(&call.arguments)));
        if calls.is_empty() { " none".to_owned() } else { lines.collect::<String>() }
    };
    let text = format!(
        "RuntimeError: the run was interrupted: {reason}\ndone:{}\nunknown:{}\n\
         hint: look whether the unknown calls took place; then ot.resume('{id}') makes them again, and \
         onetool runs abandon {id} gives the run up",
        list(&report.done),
        list(&report.unknown),
    );
    RunReply { text, parts: Vec::new(), is_error: true }
}

/// The reply of a run that another server has taken over.
pub fn lost_reply(id: &RunId) -> RunReply {
    let text = format!("RuntimeError: another server continues the run\nhint: ot.resume('{id}') gives its result");
    RunReply { text, parts: Vec::new(), is_error: true }
}
