//! Approvals that calls wait for: one document each, until it is decided or the run has ended.
//!
//! A run waits without a process. A call that cannot, or whose client is asked meanwhile, waits in its process, which
//! renews the record regularly ([`LiveCall`]), so that it is soon removed if the process dies. Viewers of the list are
//! tracked in the same way.

use std::collections::HashMap;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use onetool_sdk::Requester;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::record::{Owner, RunId};
use crate::interface::{Change, Collection, Cursor, Document, Documents, Effort, Expect, Key, State, StateError};
use crate::wait;

/// Records which processes have people viewing the list.
const WATCHERS: Collection = Collection::named("watchers");
/// A process that does not renew its waiting call or its viewer for this long has ended.
pub const LIVE: TimeDelta = TimeDelta::seconds(15);
/// Records left by such a process are removed after this.
const LEFT: TimeDelta = TimeDelta::minutes(1);
/// Attempts at writing a decision when the document changes meanwhile.
const ATTEMPTS: usize = 8;

/// A decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    pub is_allowed: bool,
    pub at: DateTime<Utc>,
    /// Who decided, for display: `admin page`, `command line`; `nobody` if the time ran out.
    pub by: String,
    /// Also applies to further calls of this tool, for as long as the waiting process lives.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_for_session: bool,
}

impl Verdict {
    /// A decision about one call, made now.
    pub fn new(is_allowed: bool, by: &str) -> Self {
        Self { is_allowed, at: Utc::now(), by: by.to_owned(), is_for_session: false }
    }
}

/// A call whose process waits for the decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveCall {
    /// The waiting process.
    pub node: String,
    /// The entry point, as one word.
    pub caller: String,
    /// Who the call is made for.
    pub requester: Requester,
}

/// A call that waits for approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalRecord {
    pub id: String,
    pub owner: Owner,
    pub run: RunId,
    /// `pack.function`
    pub tool: String,
    /// For display: shortened, values with secret names masked.
    pub arguments: String,
    /// Distinguishes this call of the run from others: the hash of tool and arguments.
    pub hash: String,
    /// Which of the run's calls with the same hash, from 0.
    pub nth: u64,
    pub at: DateTime<Utc>,
    /// When the approval is refused by default. For a call whose process waits: when the process is considered gone.
    pub expires_at: DateTime<Utc>,
    /// The waiting process; `None` for a run that waits without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<LiveCall>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
}

impl ApprovalRecord {
    pub fn is_waiting(&self) -> bool {
        self.verdict.is_none()
    }

    /// Whether the process that waited for it has died.
    pub fn is_left(&self, now: DateTime<Utc>) -> bool {
        self.live.is_some() && self.expires_at <= now
    }
}

/// Records that someone is viewing the list of a process.
#[derive(Serialize, Deserialize)]
struct Watched {
    until: DateTime<Utc>,
}

/// The approvals in shared state. All methods block.
#[derive(Clone)]
pub struct ApprovalStore {
    documents: Arc<dyn Documents>,
    known: Arc<Mutex<Known>>,
}

/// What the last read found.
#[derive(Default)]
struct Known {
    cursor: Cursor,
    records: HashMap<Key, ApprovalRecord>,
}

fn read(document: &Document) -> Option<ApprovalRecord> {
    serde_json::from_slice(&document.content)
        .inspect_err(|error| tracing::warn!(key = %document.key, %error, "a permission cannot be read"))
        .ok()
}

fn json(record: &ApprovalRecord) -> Result<Vec<u8>, StateError> {
    serde_json::to_vec(record).map_err(|error| StateError::Invalid(error.to_string()))
}

impl ApprovalStore {
    /// Whether other servers see the same approvals.
    pub fn is_shared(&self) -> bool {
        self.documents.poll_every().is_some()
    }

    pub fn new(state: &State) -> Self {
        Self { documents: state.documents(), known: Arc::default() }
    }

    pub fn ask(&self, record: &ApprovalRecord) -> Result<(), StateError> {
        let key: Key = record.id.parse()?;
        wait(self.documents.put(Collection::APPROVALS, &key, &json(record)?, &Expect::Absent.into())).map(drop)
    }

    pub fn get(&self, id: &str) -> Result<Option<ApprovalRecord>, StateError> {
        let Ok(key) = id.parse::<Key>() else { return Ok(None) };
        Ok(wait(self.documents.get(Collection::APPROVALS, &key))?.as_ref().and_then(read))
    }

    /// Lists all approvals, oldest first.
    pub fn list(&self) -> Result<Vec<ApprovalRecord>, StateError> {
        let since = self.known.lock().cursor;
        let feed = wait(self.documents.changes(Collection::APPROVALS, since, Effort::Usual))?;
        let mut known = self.known.lock();
        // Otherwise another thread has read further meanwhile.
        if feed.cursor >= known.cursor {
            if feed.is_whole {
                known.records.clear();
            }
            for change in feed.changes {
                match change {
                    Change::Put(document) => match read(&document) {
                        Some(record) => drop(known.records.insert(document.key, record)),
                        None => drop(known.records.remove(&document.key)),
                    },
                    Change::Gone(key) => drop(known.records.remove(&key)),
                    Change::Unreadable { .. } => {}
                }
            }
            known.cursor = feed.cursor;
        }
        let mut records: Vec<ApprovalRecord> = known.records.values().cloned().collect();
        drop(known);
        records.sort_by(|one, other| (one.at, &one.id).cmp(&(other.at, &other.id)));
        Ok(records)
    }

    /// The approvals of one run.
    pub fn of(&self, owner: &Owner, run: &RunId) -> Result<Vec<ApprovalRecord>, StateError> {
        let mut records = self.list()?;
        records.retain(|record| record.owner == *owner && record.run == *run);
        Ok(records)
    }

    /// Decides, once. `None` if it was already decided, or its run has ended.
    pub fn decide(&self, id: &str, verdict: &Verdict) -> Result<Option<ApprovalRecord>, StateError> {
        let Ok(key) = id.parse::<Key>() else { return Ok(None) };
        for _ in 0..ATTEMPTS {
            let Some(document) = wait(self.documents.get(Collection::APPROVALS, &key))? else { return Ok(None) };
            let now = Utc::now();
            let waiting = read(&document).filter(|record| record.is_waiting() && !record.is_left(now));
            let Some(mut record) = waiting else { return Ok(None) };
            record.verdict = Some(verdict.clone());
            let condition = Expect::Revision(document.revision).into();
            match wait(self.documents.put(Collection::APPROVALS, &key, &json(&record)?, &condition)) {
                Ok(_) => return Ok(Some(record)),
                Err(StateError::Conflict(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Err(StateError::Conflict(id.to_owned()))
    }

    /// The record that the last read found under this id.
    pub fn known(&self, id: &str) -> Option<ApprovalRecord> {
        let key = id.parse::<Key>().ok()?;
        self.known.lock().records.get(&key).cloned()
    }

    /// Records that a process still waits for this.
    pub fn renew(&self, id: &str) -> Result<(), StateError> {
        let key: Key = id.parse()?;
        let Some(document) = wait(self.documents.get(Collection::APPROVALS, &key))? else { return Ok(()) };
        let Some(mut record) = read(&document).filter(ApprovalRecord::is_waiting) else { return Ok(()) };
        record.expires_at = Utc::now() + LIVE;
        let condition = Expect::Revision(document.revision).into();
        match wait(self.documents.put(Collection::APPROVALS, &key, &json(&record)?, &condition)) {
            // On a conflict, it was decided meanwhile.
            Ok(_) | Err(StateError::Conflict(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Removes an approval that no one waits for any more.
    pub fn remove(&self, id: &str) -> Result<(), StateError> {
        let key: Key = id.parse()?;
        wait(self.documents.delete(Collection::APPROVALS, &key, &Expect::Anything.into()))
    }

    /// Removes a record left by a dead process; not immediately, since the process may only be disconnected.
    pub fn remove_left(&self, record: &ApprovalRecord, now: DateTime<Utc>) -> Result<(), StateError> {
        if record.is_left(now - LEFT) { self.remove(&record.id) } else { Ok(()) }
    }

    /// Records that someone is viewing the list of this process, for a while.
    pub fn tell_watched(&self, node: &str) -> Result<(), StateError> {
        let content = serde_json::to_vec(&Watched { until: Utc::now() + LIVE });
        let content = content.map_err(|error| StateError::Invalid(error.to_string()))?;
        wait(self.documents.put(WATCHERS, &node.parse()?, &content, &Expect::Anything.into())).map(drop)
    }

    /// Records that no one is viewing the list any more.
    pub fn tell_unwatched(&self, node: &str) -> Result<(), StateError> {
        wait(self.documents.delete(WATCHERS, &node.parse()?, &Expect::Anything.into()))
    }

    /// Whether someone is viewing the list of any process.
    pub fn is_watched(&self) -> Result<bool, StateError> {
        let now = Utc::now();
        let mut is_watched = false;
        for change in wait(self.documents.changes(WATCHERS, Cursor::START, Effort::Usual))?.changes {
            let Change::Put(document) = change else { continue };
            match serde_json::from_slice::<Watched>(&document.content) {
                Ok(watched) if watched.until > now => is_watched = true,
                Ok(watched) if watched.until + LEFT > now => {}
                // Its process has died.
                _ => wait(self.documents.delete(WATCHERS, &document.key, &Expect::Revision(document.revision).into()))?,
            }
        }
        Ok(is_watched)
    }

    /// Removes the approvals of a run.
    pub fn forget(&self, owner: &Owner, run: &RunId) -> Result<(), StateError> {
        for record in self.of(owner, run)? {
            let key: Key = record.id.parse()?;
            wait(self.documents.delete(Collection::APPROVALS, &key, &Expect::Anything.into()))?;
        }
        Ok(())
    }
}
