//! Calls that wait for a person: the policy says to ask, and the first answer decides.
//!
//! The user may be asked through the client; the admin page shows the same request. `ask` fails closed. If nobody can
//! answer, and at the run's deadline, the run is suspended where possible: it ends here, and resumes once somebody has
//! decided ([`crate::durable`]). Otherwise the call is refused. Where several servers share state, a run is suspended
//! at once instead of waiting for watchers, and calls that wait in a process are listed and decided at every server
//! (`team`).

mod team;

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;

use chrono::{DateTime, Utc};
use indexmap::IndexMap;
use onetool_sdk::{Arguments, CallContext, Caller, QualifiedName, Requester, ToolError};
use onetool_state::runs::{ApprovalRecord, ApprovalStore, Owner, RunStoreError, Verdict};
use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};

use crate::activity::asked_arguments;
use crate::durable::Durable;
use team::Recorded;

/// Maximum number of waiting requests; further ones are refused.
const MAX_WAITING: usize = 256;
/// A run that can be suspended stops this long before its deadline.
const BEFORE_DEADLINE: std::time::Duration = std::time::Duration::from_secs(1);

/// A call that waits for approval.
#[derive(Debug, Clone, PartialEq)]
pub struct ApprovalRequest {
    pub id: String,
    pub tool: QualifiedName,
    /// As JSON, each argument shortened separately, values with secret names masked.
    pub arguments: String,
    pub run_id: Arc<str>,
    pub caller: Caller,
    /// Who made the call; unknown for a suspended run.
    pub requester: Option<Arc<Requester>>,
    pub at: DateTime<Utc>,
}

/// A person's decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Allows this call only.
    Once,
    /// Allows the tool until this process ends.
    Session,
    /// Allows the tool permanently; [`StandingApprovals`] stores the rule.
    Always,
    Deny,
}

impl Decision {
    fn verdict(self) -> Verdict {
        let is_for_session = matches!(self, Self::Session | Self::Always);
        Verdict { is_for_session, ..Verdict::new(self != Self::Deny, "admin page") }
    }
}

/// Storage of permanent approvals.
pub trait StandingApprovals: Send + Sync {
    fn is_allowed(&self, tool: &QualifiedName) -> bool;
    fn allow(&self, tool: &QualifiedName) -> Result<(), String>;
}

/// Why a decision could not be applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecisionError {
    #[error("no call waits under this id: it was decided already, or its run has ended")]
    NotWaiting,
    #[error("the approval cannot be kept: {0}")]
    NotKept(String),
}

/// All calls that wait for approval.
pub struct Approvals {
    waiting: Mutex<IndexMap<String, Waiting>>,
    /// Tools allowed until this process ends, by owner.
    session: Mutex<HashSet<(String, QualifiedName)>>,
    standing: Option<Arc<dyn StandingApprovals>>,
    /// Suspended runs and calls waiting at other servers, with the last known list of them.
    durable: Option<Weak<Durable>>,
    suspended: Mutex<Vec<ApprovalRequest>>,
    /// Whether [`Self::refresh`] is called regularly.
    is_followed: AtomicBool,
    /// When other servers were last told that somebody watches here.
    told_watched: Mutex<Option<Instant>>,
    /// Number of people watching the list.
    watchers: AtomicUsize,
    changes: watch::Sender<u64>,
}

struct Waiting {
    request: ApprovalRequest,
    /// The call's owner; empty without authentication.
    owner: String,
    answer: Option<oneshot::Sender<bool>>,
    /// The record that other servers see.
    recorded: Option<Recorded>,
}

impl Default for Approvals {
    fn default() -> Self {
        Self::new(None)
    }
}

impl std::fmt::Debug for Approvals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Approvals").field("waiting", &self.waiting.lock().len()).finish_non_exhaustive()
    }
}

impl Approvals {
    pub fn new(standing: Option<Arc<dyn StandingApprovals>>) -> Self {
        Self {
            waiting: Mutex::default(),
            session: Mutex::default(),
            standing,
            durable: None,
            suspended: Mutex::default(),
            is_followed: AtomicBool::new(false),
            told_watched: Mutex::default(),
            watchers: AtomicUsize::new(0),
            changes: watch::Sender::new(0),
        }
    }

    /// Calls that wait here and at other servers, the oldest first.
    pub fn waiting(&self) -> Vec<ApprovalRequest> {
        let mut all = self.suspended.lock().clone();
        all.extend(self.waiting.lock().values().map(|waiting| waiting.request.clone()));
        all.sort_by_key(|request| request.at);
        all
    }

    /// Also lists and decides the calls of suspended runs.
    pub fn with_durable(self, durable: &Arc<Durable>) -> Self {
        Self { durable: Some(Arc::downgrade(durable)), ..self }
    }

    fn decide_suspended(&self, id: &str, decision: Decision) -> Result<(), DecisionError> {
        let durable = self.durable.as_ref().and_then(Weak::upgrade).ok_or(DecisionError::NotWaiting)?;
        let failed = |error: RunStoreError| DecisionError::NotKept(error.to_string());
        let asked = durable.approvals().get(id).map_err(|error| failed(error.into()))?;
        let asked = asked.filter(ApprovalRecord::is_waiting).ok_or(DecisionError::NotWaiting)?;
        if let Ok(tool) = asked.tool.parse() {
            // A named owner is known here only by its hash, so the decision covers this call only.
            let owner = (asked.owner == Owner::local()).then_some("");
            self.remember(owner, &tool, decision)?;
        }
        let decided = durable.decide(id, &decision.verdict()).map_err(failed)?;
        self.suspended.lock().retain(|request| request.id != id);
        self.changed();
        decided.map(drop).ok_or(DecisionError::NotWaiting)
    }

    /// Stores a decision that covers more than one call.
    fn remember(&self, owner: Option<&str>, tool: &QualifiedName, decision: Decision) -> Result<(), DecisionError> {
        if decision == Decision::Always {
            let standing = self.standing.as_ref().ok_or_else(|| {
                DecisionError::NotKept("there is no user folder; set HOME, or allow it in security.policy".to_owned())
            })?;
            standing.allow(tool).map_err(DecisionError::NotKept)?;
        }
        if matches!(decision, Decision::Session | Decision::Always)
            && let Some(owner) = owner
        {
            self.session.lock().insert((owner.to_owned(), tool.clone()));
        }
        Ok(())
    }

    /// Counts as somebody watching the list until the guard is dropped; calls may wait for them.
    pub fn watch(self: &Arc<Self>) -> ApprovalWatch {
        self.watchers.fetch_add(1, Ordering::AcqRel);
        ApprovalWatch { approvals: self.clone(), changes: self.changes.subscribe() }
    }

    /// Decides a waiting call.
    pub fn decide(&self, id: &str, decision: Decision) -> Result<(), DecisionError> {
        let found = self
            .waiting
            .lock()
            .get(id)
            .map(|waiting| (waiting.request.tool.clone(), waiting.owner.clone(), waiting.recorded.is_some()));
        let Some((tool, owner, is_recorded)) = found else { return self.decide_suspended(id, decision) };
        self.remember(Some(&owner), &tool, decision)?;
        if let Some(store) = self.team().filter(|_| is_recorded) {
            // Somebody may decide at another server at the same time: the first one wins.
            let decided = store.decide(id, &decision.verdict());
            decided.map_err(|error| DecisionError::NotKept(error.to_string()))?.ok_or(DecisionError::NotWaiting)?;
        }
        let answer = self.waiting.lock().shift_remove(id).and_then(|mut waiting| waiting.answer.take());
        self.changed();
        // The run may have just ended.
        answer.and_then(|answer| answer.send(decision != Decision::Deny).ok()).ok_or(DecisionError::NotWaiting)
    }

    /// Asks for permission for a call: the client's user, and anyone watching the list.
    pub(crate) async fn ask(
        self: &Arc<Self>,
        name: &QualifiedName,
        arguments: &Arguments,
        ctx: &CallContext,
    ) -> Result<(), ToolError> {
        let owner = ctx.principal_owner().unwrap_or_default().to_owned();
        if self.session.lock().contains(&(owner.clone(), name.clone()))
            || self.standing.as_ref().is_some_and(|kept| kept.is_allowed(name))
        {
            return Ok(());
        }
        let refused = |why: &str| {
            ToolError::denied(format!("{name} needs the user's permission: {why}"))
                .with_hint("security.policy in the configuration decides which tools ask")
        };
        let shown = asked_arguments(arguments);
        let suspendable = match (&ctx.journal, &ctx.journaled) {
            (Some(journal), Some(call)) => {
                match journal.verdict(call) {
                    Some(true) => return Ok(()),
                    Some(false) => return Err(refused("the user declined, or nobody decided in time")),
                    None => {}
                }
                journal.can_suspend().then_some((journal, call))
            }
            _ => None,
        };
        // Suspends the run until somebody has decided, where that is possible.
        let suspend = async |otherwise: ToolError| match suspendable {
            Some((journal, call)) => journal.suspend(name, call, shown.clone()).await,
            None => otherwise,
        };
        // Where several servers share state, a run that can be suspended is.
        let waits_elsewhere = suspendable.is_some() && self.team().is_some();
        let is_watched = !waits_elsewhere && self.is_watched().await;
        let is_recorded = suspendable.is_some_and(|(journal, _)| journal.is_recorded());
        if ctx.client.is_none() && (!is_watched || is_recorded) {
            return Err(suspend(refused("this client cannot be asked")).await);
        }
        let (answer, decided) = oneshot::channel();
        let request = ApprovalRequest {
            id: uuid::Uuid::new_v4().simple().to_string(),
            tool: name.clone(),
            arguments: shown.clone(),
            run_id: ctx.run_id.clone(),
            caller: ctx.caller,
            requester: Some(ctx.requester.clone()),
            at: Utc::now(),
        };
        let entered = self.enter(request.clone(), owner, answer);
        let mut entry = entered.ok_or_else(|| refused("too many calls wait for an answer"))?;
        entry.recorded = self.record(&request, ctx).await;
        let by_client = async {
            let Some(client) = &ctx.client else { return std::future::pending().await };
            match client.elicit(question(name, &crate::permission::shown(arguments))).await {
                Ok(answer) => Ok(is_accepted(&answer)),
                // If the client cannot ask, those who watch the list decide.
                Err(_) if is_watched && !is_recorded => std::future::pending().await,
                Err(error) => Err(error),
            }
        };
        let deadline = async {
            match ctx.remaining() {
                // A run that can be suspended must stop before its deadline.
                Some(left) if suspendable.is_some() => tokio::time::sleep(left.saturating_sub(BEFORE_DEADLINE)).await,
                Some(left) => tokio::time::sleep(left).await,
                None => std::future::pending().await,
            }
        };
        let is_allowed = tokio::select! {
            answer = by_client => match answer {
                Ok(answer) => answer,
                Err(error) => {
                    drop(entry);
                    return Err(suspend(error).await);
                }
            },
            answer = decided => answer.unwrap_or(false),
            () = ctx.cancel.cancelled() => return Err(refused("the run was cancelled")),
            () = deadline => {
                drop(entry);
                return Err(suspend(refused("nobody answered before the run's deadline")).await);
            }
        };
        if is_allowed { Ok(()) } else { Err(refused("the user declined")) }
    }

    fn enter(
        self: &Arc<Self>,
        request: ApprovalRequest,
        owner: String,
        answer: oneshot::Sender<bool>,
    ) -> Option<Entry> {
        let id = request.id.clone();
        {
            let mut waiting = self.waiting.lock();
            if waiting.len() >= MAX_WAITING {
                return None;
            }
            waiting.insert(id.clone(), Waiting { request, owner, answer: Some(answer), recorded: None });
        }
        self.changed();
        Some(Entry { approvals: self.clone(), id, recorded: None })
    }

    fn changed(&self) {
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
    }
}

/// A call's entry in the list, removed on drop.
struct Entry {
    approvals: Arc<Approvals>,
    id: String,
    /// The store that shows it to other servers.
    recorded: Option<ApprovalStore>,
}

impl Drop for Entry {
    fn drop(&mut self) {
        let was_there = self.approvals.waiting.lock().shift_remove(&self.id).is_some();
        if was_there {
            self.approvals.changed();
        }
        // Without a runtime the process is ending; other servers remove the record.
        if let (Some(store), Ok(runtime)) = (self.recorded.take(), tokio::runtime::Handle::try_current()) {
            let id = std::mem::take(&mut self.id);
            runtime.spawn_blocking(move || {
                if let Err(error) = store.remove(&id) {
                    tracing::debug!(%error, "a call that waits no more is still recorded");
                }
            });
        }
    }
}

/// A watcher of the list.
pub struct ApprovalWatch {
    approvals: Arc<Approvals>,
    changes: watch::Receiver<u64>,
}

impl ApprovalWatch {
    /// Waits until the list changes.
    pub async fn changed(&mut self) {
        if self.changes.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for ApprovalWatch {
    fn drop(&mut self) {
        self.approvals.watchers.fetch_sub(1, Ordering::AcqRel);
    }
}

fn question(name: &QualifiedName, shown: &str) -> serde_json::Value {
    serde_json::json!({
        "mode": "form",
        "message": format!("Allow the call {name}({shown})?"),
        "requestedSchema": {
            "type": "object",
            "properties": {"allow": {"type": "boolean", "title": "Allow", "default": false}},
            "required": ["allow"]
        }
    })
}

/// Whether the answer is an explicit yes; anything else is a no.
fn is_accepted(answer: &serde_json::Value) -> bool {
    answer.get("action").and_then(serde_json::Value::as_str) == Some("accept")
        && answer.pointer("/content/allow") == Some(&serde_json::Value::Bool(true))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn name() -> QualifiedName {
        QualifiedName::new("p", "f")
    }

    fn context() -> CallContext {
        CallContext { deadline: Some(Instant::now() + Duration::from_mins(1)), ..CallContext::new(Caller::Run) }
    }

    async fn asked(approvals: &Arc<Approvals>, ctx: CallContext, decision: Option<Decision>) -> Result<(), ToolError> {
        let mut watch = approvals.watch();
        let asking = approvals.clone();
        let call = tokio::spawn(async move { asking.ask(&name(), &Arguments::default(), &ctx).await });
        if let Some(decision) = decision {
            while approvals.waiting().is_empty() {
                watch.changed().await;
            }
            approvals.decide(&approvals.waiting()[0].id, decision).unwrap();
        }
        let answer = call.await.unwrap();
        assert_eq!(approvals.waiting(), []);
        answer
    }

    #[tokio::test]
    async fn whoever_looks_decides() {
        let approvals = Arc::new(Approvals::default());
        asked(&approvals, context(), Some(Decision::Once)).await.unwrap();
        let refused = asked(&approvals, context(), Some(Decision::Deny)).await.unwrap_err();
        assert!(refused.message.contains("the user declined"), "{refused:?}");
        asked(&approvals, context(), Some(Decision::Session)).await.unwrap();
        // From now on nobody is asked.
        asked(&approvals, context(), None).await.unwrap();
        assert_eq!(approvals.decide("gone", Decision::Once), Err(DecisionError::NotWaiting));
    }

    #[tokio::test]
    async fn without_anyone_to_ask_the_call_is_refused() {
        let approvals = Arc::new(Approvals::default());
        let refused = approvals.ask(&name(), &Arguments::default(), &context()).await.unwrap_err();
        assert!(refused.message.contains("cannot be asked"), "{refused:?}");
        let late = CallContext { deadline: Some(Instant::now()), ..context() };
        let refused = asked(&approvals, late, None).await.unwrap_err();
        assert!(refused.message.contains("deadline"), "{refused:?}");
        let cancelled = context();
        cancelled.cancel.cancel();
        assert!(asked(&approvals, cancelled, None).await.is_err());
    }

    #[tokio::test]
    async fn what_is_allowed_for_good_is_kept() {
        #[derive(Default)]
        struct Kept(Mutex<HashSet<QualifiedName>>);
        impl StandingApprovals for Kept {
            fn is_allowed(&self, tool: &QualifiedName) -> bool {
                self.0.lock().contains(tool)
            }
            fn allow(&self, tool: &QualifiedName) -> Result<(), String> {
                self.0.lock().insert(tool.clone());
                Ok(())
            }
        }
        let kept = Arc::new(Kept::default());
        let approvals = Arc::new(Approvals::new(Some(kept.clone())));
        asked(&approvals, context(), Some(Decision::Always)).await.unwrap();
        let restarted = Arc::new(Approvals::new(Some(kept)));
        restarted.ask(&name(), &Arguments::default(), &context()).await.unwrap();
    }
}
