//! Renews the leases of this process's runs, and stops runs in time when it cannot.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use onetool_state::interface::{Claim, Key};
use onetool_state::runs::RunStore;
use parking_lot::Mutex;

use super::journal::Journal;

/// How often runs are renewed; the lease lasts three times as long ([`onetool_state::runs::LEASE`]).
const BEAT: Duration = Duration::from_secs(5);
/// A process that could not renew a run for this long stops it, before others may take it over.
const GIVE_UP: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(500);

/// The runs that this process holds.
#[derive(Default)]
pub(super) struct Keeper {
    held: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    runs: HashMap<Key, Held>,
    is_watched: bool,
}

struct Held {
    store: RunStore,
    claim: Claim,
    journal: Arc<Journal>,
    /// When it was last known to be held by this process.
    since: Instant,
    /// When renewal was last attempted.
    tried: Instant,
}

/// Renews a run until dropped.
pub struct Kept {
    keeper: Arc<Keeper>,
    job: Key,
    fence: u64,
}

impl Drop for Kept {
    fn drop(&mut self) {
        let mut table = self.keeper.held.lock();
        if table.runs.get(&self.job).is_some_and(|held| held.claim.fence == self.fence) {
            table.runs.remove(&self.job);
        }
    }
}

impl Keeper {
    /// Starts renewing a run. `since` is when it was claimed.
    pub(super) fn keep(
        self: &Arc<Self>,
        store: &RunStore,
        claim: &Claim,
        journal: &Arc<Journal>,
        since: Instant,
    ) -> Kept {
        let held = Held { store: store.clone(), claim: claim.clone(), journal: journal.clone(), since, tried: since };
        let mut table = self.held.lock();
        table.runs.insert(claim.job.clone(), held);
        if !std::mem::replace(&mut table.is_watched, true) {
            tokio::spawn(self.clone().watch());
        }
        drop(table);
        Kept { keeper: self.clone(), job: claim.job.clone(), fence: claim.fence }
    }

    pub(super) fn journals(&self) -> Vec<(RunStore, Claim, Arc<Journal>)> {
        let table = self.held.lock();
        table.runs.values().map(|held| (held.store.clone(), held.claim.clone(), held.journal.clone())).collect()
    }

    /// Renews runs until none is left.
    async fn watch(self: Arc<Self>) {
        loop {
            tokio::time::sleep(LOOK).await;
            let now = Instant::now();
            let mut due: Vec<(RunStore, Claim)> = Vec::new();
            {
                let mut table = self.held.lock();
                if table.runs.is_empty() {
                    table.is_watched = false;
                    return;
                }
                table.runs.retain(|job, held| {
                    let is_held = now.duration_since(held.since) < GIVE_UP;
                    if !is_held {
                        tracing::warn!(run = %job, "the run could not be renewed in time; it is stopped here");
                        held.journal.lose();
                    }
                    is_held
                });
                for held in table.runs.values_mut() {
                    if now.duration_since(held.tried) >= BEAT {
                        held.tried = now;
                        due.push((held.store.clone(), held.claim.clone()));
                    }
                }
            }
            while let Some((store, claim)) = due.pop() {
                let (same, others): (Vec<_>, Vec<_>) = due.drain(..).partition(|(other, _)| other.is_same_as(&store));
                due = others;
                let claims = std::iter::once(claim).chain(same.into_iter().map(|(_, claim)| claim)).collect();
                tokio::spawn(self.clone().renew(store, claims));
            }
        }
    }

    async fn renew(self: Arc<Self>, store: RunStore, claims: Vec<Claim>) {
        let asked = Instant::now();
        let renewing = claims.clone();
        let outcome = tokio::task::spawn_blocking(move || store.renew(&renewing)).await;
        let lost = match outcome {
            Ok(Ok(lost)) => lost,
            Ok(Err(error)) => {
                tracing::warn!(%error, "runs could not be renewed");
                // Retried soon.
                let mut table = self.held.lock();
                for claim in &claims {
                    if let Some(held) = table.runs.get_mut(&claim.job) {
                        held.tried = asked.checked_sub(BEAT).unwrap_or(asked);
                    }
                }
                return;
            }
            Err(_) => return,
        };
        let mut table = self.held.lock();
        for claim in claims {
            let Some(held) = table.runs.get_mut(&claim.job).filter(|held| held.claim.fence == claim.fence) else {
                continue;
            };
            if lost.contains(&claim.job) {
                held.journal.lose();
                table.runs.remove(&claim.job);
            } else {
                held.since = asked;
            }
        }
    }
}
