//! Calls that wait in one of several processes that share state: listed and decided at every one of them.
//!
//! Such a call is recorded beside the suspended runs ([`ApprovalStore`]). Its process renews the record every few
//! seconds while it waits, and checks once a second for a decision ([`Approvals::refresh`]). Whether anybody watches a
//! list is shared in the same way.

use std::sync::Weak;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use onetool_sdk::{CallContext, Caller};
use onetool_state::StateError;
use onetool_state::runs::{ApprovalRecord, ApprovalStore, LIVE, LiveCall, Owner, RunId, RunStoreError, Verdict};

use super::{ApprovalRequest, Approvals};

/// How often a process renews its waiting calls and its watchers; a record is valid for three times as long.
const BEAT: Duration = Duration::from_secs(5);

/// A waiting call that other servers see.
#[derive(Clone)]
pub(super) struct Recorded {
    pub(super) record: ApprovalRecord,
    /// When the record was last renewed.
    told: Instant,
}

impl Approvals {
    /// The store that records calls for other servers, if it is shared.
    pub(super) fn team(&self) -> Option<ApprovalStore> {
        let durable = self.durable.as_ref().and_then(Weak::upgrade)?;
        Some(durable.approvals()).filter(ApprovalStore::is_shared)
    }

    /// Whether anybody watches the list, here or at another server.
    pub(super) async fn is_watched(&self) -> bool {
        if self.watchers.load(Ordering::Acquire) > 0 {
            return true;
        }
        // A decision made elsewhere arrives only where `refresh` is called.
        let Some(store) = self.team().filter(|_| self.is_followed.load(Ordering::Acquire)) else { return false };
        let looked = tokio::task::spawn_blocking(move || store.is_watched()).await;
        matches!(looked, Ok(Ok(true)))
    }

    /// Records a waiting call for other servers. If that fails, only watchers at this server see it.
    pub(super) async fn record(&self, request: &ApprovalRequest, ctx: &CallContext) -> Option<ApprovalStore> {
        let durable = self.durable.as_ref().and_then(Weak::upgrade)?;
        let store = self.team().filter(|_| self.is_followed.load(Ordering::Acquire))?;
        let (runs, owner) = (durable.runs(), ctx.owner.clone());
        let live = LiveCall {
            node: runs.node().to_owned(),
            caller: ctx.caller.name().to_owned(),
            requester: (*ctx.requester).clone(),
        };
        let (hash, nth) = ctx.journaled.as_ref().map_or_else(Default::default, |call| (call.hash.clone(), call.nth));
        let mut record = ApprovalRecord {
            id: request.id.clone(),
            owner: Owner::local(),
            run: RunId::of_run(&ctx.run_id),
            tool: request.tool.to_string(),
            arguments: request.arguments.clone(),
            hash,
            nth,
            at: request.at,
            expires_at: request.at + LIVE,
            live: Some(live),
            verdict: None,
        };
        let asked = store.clone();
        let written = tokio::task::spawn_blocking(move || {
            record.owner = runs.owner_of(&owner)?;
            asked.ask(&record)?;
            Ok::<_, RunStoreError>(record)
        });
        let record = match written.await {
            Ok(Ok(record)) => record,
            Ok(Err(error)) => {
                tracing::warn!(%error, "other servers do not see a call that waits for a permission");
                return None;
            }
            Err(_) => return None,
        };
        if let Some(waiting) = self.waiting.lock().get_mut(&request.id) {
            waiting.recorded = Some(Recorded { record, told: Instant::now() });
        }
        Some(store)
    }

    /// Updates the calls that wait elsewhere, and applies decisions about those that wait here. Blocks.
    pub fn refresh(&self) -> Result<(), RunStoreError> {
        let Some(durable) = self.durable.as_ref().and_then(Weak::upgrade) else { return Ok(()) };
        self.is_followed.store(true, Ordering::Release);
        let (store, node) = (durable.approvals(), durable.runs().node().to_owned());
        if store.is_shared() {
            self.tell_watched(&store, &node)?;
        }
        let is_own = |asked: &ApprovalRecord| asked.live.as_ref().is_some_and(|live| live.node == node);
        let waiting = durable.waiting()?.into_iter().filter(|asked| !is_own(asked));
        let requests: Vec<ApprovalRequest> = waiting.filter_map(request_of).collect();
        self.follow(&store)?;
        let mut suspended = self.suspended.lock();
        if *suspended != requests {
            *suspended = requests;
            drop(suspended);
            self.changed();
        }
        Ok(())
    }

    /// Applies decisions made elsewhere about calls that wait here, and renews the others.
    fn follow(&self, store: &ApprovalStore) -> Result<(), StateError> {
        let recorded: Vec<Recorded> =
            self.waiting.lock().values().filter_map(|waiting| waiting.recorded.clone()).collect();
        for Recorded { record, told } in recorded {
            match store.known(&record.id).map(|known| known.verdict) {
                Some(Some(verdict)) => self.settle(&record.id, &verdict),
                Some(None) if told.elapsed() < BEAT => continue,
                Some(None) => store.renew(&record.id)?,
                // Another server considered this process dead, or the call was recorded after the last refresh.
                None => match store.ask(&ApprovalRecord { expires_at: chrono::Utc::now() + LIVE, ..record.clone() }) {
                    Ok(()) | Err(StateError::Conflict(_)) => {}
                    Err(error) => return Err(error),
                },
            }
            if let Some(recorded) =
                self.waiting.lock().get_mut(&record.id).and_then(|waiting| waiting.recorded.as_mut())
            {
                recorded.told = Instant::now();
            }
        }
        Ok(())
    }

    fn settle(&self, id: &str, verdict: &Verdict) {
        let Some(mut waiting) = self.waiting.lock().shift_remove(id) else { return };
        if verdict.is_allowed && verdict.is_for_session {
            self.session.lock().insert((waiting.owner, waiting.request.tool));
        }
        self.changed();
        if let Some(answer) = waiting.answer.take() {
            let _ = answer.send(verdict.is_allowed);
        }
    }

    fn tell_watched(&self, store: &ApprovalStore, node: &str) -> Result<(), StateError> {
        let is_watched = self.watchers.load(Ordering::Acquire) > 0;
        let mut told = self.told_watched.lock();
        match *told {
            Some(at) if is_watched && at.elapsed() < BEAT => {}
            _ if is_watched => {
                store.tell_watched(node)?;
                *told = Some(Instant::now());
            }
            Some(_) => {
                store.tell_unwatched(node)?;
                *told = None;
            }
            None => {}
        }
        Ok(())
    }
}

fn request_of(asked: ApprovalRecord) -> Option<ApprovalRequest> {
    let caller = asked.live.as_ref().map_or("run", |live| live.caller.as_str());
    Some(ApprovalRequest {
        tool: asked.tool.parse().ok()?,
        caller: Caller::named(caller).unwrap_or(Caller::Run),
        id: asked.id,
        arguments: asked.arguments,
        run_id: asked.run.as_str().into(),
        requester: asked.live.map(|live| live.requester.into()),
        at: asked.at,
    })
}
