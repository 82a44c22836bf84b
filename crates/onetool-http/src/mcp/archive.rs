//! What clients said in `initialize`, kept with the shared state: a session survives a restart of its server, and works on
//! every server that shares the state.
//!
//! A document is named by the session's id together with whoever opened it, hashed: nobody learns a session's id from
//! what is kept, and with another token there is nothing to find.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use chrono::{DateTime, Utc};
use onetool_state::interface::{Change, Collection, Cursor, Documents, Effort, Expect, Key};
use onetool_state::{State, StateError, wait};
use rmcp::transport::streamable_http_server::session::SessionState;
use serde::{Deserialize, Serialize};

use crate::access::Principal;

/// Sessions that are kept; the oldest go.
const MAX_KEPT: usize = 4096;
/// Sessions that are written between two looks for old ones.
const WRITES_PER_SWEEP: u32 = 64;

/// What is in force now: where sessions are kept, and for how long.
pub(super) type Place = Box<dyn Fn() -> (State, Duration) + Send + Sync>;

pub(super) struct Archive {
    place: Place,
    writes: AtomicU32,
}

#[derive(Serialize, Deserialize)]
struct Kept {
    at: DateTime<Utc>,
    state: SessionState,
}

fn key(id: &str, principal: Principal) -> Result<Key, StateError> {
    let mut hasher = blake3::Hasher::new_derive_key("onetool session");
    hasher.update(&principal.fingerprint().to_le_bytes());
    hasher.update(id.as_bytes());
    hasher.finalize().to_hex()[..32].parse()
}

impl Archive {
    pub(super) fn new(place: Place) -> Self {
        Self { place, writes: AtomicU32::new(0) }
    }

    /// What is kept of a session of `principal`.
    pub(super) async fn read(&self, id: &str, principal: Principal) -> Option<SessionState> {
        let (state, kept_for) = (self.place)();
        let key = key(id, principal).ok()?;
        let documents = state.documents();
        let found = blocking(move || wait(documents.get(Collection::SESSIONS, &key))).await?;
        let kept: Kept = serde_json::from_slice(&found?.content).ok()?;
        (!is_old(kept.at, kept_for)).then_some(kept.state)
    }

    /// Keeps a session. Its client does not wait for that.
    pub(super) fn write(&self, id: &str, principal: Principal, state: SessionState) {
        let (shared, kept_for) = (self.place)();
        let Ok(key) = key(id, principal) else { return };
        let sweeps = self.writes.fetch_add(1, Ordering::Relaxed).is_multiple_of(WRITES_PER_SWEEP);
        crate::task::spawn(blocking(move || {
            let documents = shared.documents();
            let kept = Kept { at: Utc::now(), state };
            let content = serde_json::to_vec(&kept).map_err(|error| StateError::Invalid(error.to_string()))?;
            wait(documents.put(Collection::SESSIONS, &key, &content, &Expect::Anything.into()))?;
            if sweeps { sweep(&documents, kept_for) } else { Ok(()) }
        }));
    }

    /// Forgets a session that its client has ended.
    pub(super) async fn forget(&self, id: &str, principal: Principal) {
        let (state, _) = (self.place)();
        let Ok(key) = key(id, principal) else { return };
        let documents = state.documents();
        blocking(move || wait(documents.delete(Collection::SESSIONS, &key, &Expect::Anything.into()))).await;
    }
}

fn is_old(at: DateTime<Utc>, kept_for: Duration) -> bool {
    (Utc::now() - at).to_std().is_ok_and(|age| age > kept_for)
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, StateError> + Send + 'static) -> Option<T> {
    let outcome = crate::task::blocking(work).await.ok()?;
    outcome.inspect_err(|error| tracing::debug!(%error, "sessions could not be kept or read")).ok()
}

fn sweep(documents: &Arc<dyn Documents>, kept_for: Duration) -> Result<(), StateError> {
    let all = wait(documents.changes(Collection::SESSIONS, Cursor::START, Effort::Usual))?;
    let mut kept: Vec<(Option<DateTime<Utc>>, Key)> = all
        .changes
        .into_iter()
        .filter_map(|change| match change {
            Change::Put(document) => {
                let at = serde_json::from_slice::<Kept>(&document.content).ok().map(|kept| kept.at);
                Some((at, document.key))
            }
            _ => None,
        })
        .collect();
    kept.sort_by(|a, b| b.cmp(a));
    for (index, (at, key)) in kept.iter().enumerate() {
        if index >= MAX_KEPT || at.is_none_or(|at| is_old(at, kept_for)) {
            wait(documents.delete(Collection::SESSIONS, key, &Expect::Anything.into()))?;
        }
    }
    Ok(())
}
