//! Permissions that runs wait for, without a process: a document each, until the run has ended.

use std::collections::HashMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::record::{Owner, RunId};
use crate::interface::{Change, Collection, Cursor, Document, Documents, Effort, Expect, Key, State, StateError};
use crate::wait;

/// How often a decision is written again because somebody else changed the document meanwhile.
const ATTEMPTS: usize = 8;

/// What was decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    pub is_allowed: bool,
    pub at: DateTime<Utc>,
    /// Who decided, for people: `admin page`, `command line`; `nobody` where the time was over.
    pub by: String,
}

/// A call that waits for a permission.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalRecord {
    pub id: String,
    pub owner: Owner,
    pub run: RunId,
    /// `pack.function`
    pub tool: String,
    /// For people: shortened, values with secret names masked.
    pub arguments: String,
    /// Tells this call of the run from others: the hash of tool and arguments.
    pub hash: String,
    /// Which of the run's calls with the same hash, from 0.
    pub nth: u64,
    pub at: DateTime<Utc>,
    /// After that the answer is no.
    pub expires_at: DateTime<Utc>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
}

impl ApprovalRecord {
    pub fn is_waiting(&self) -> bool {
        self.verdict.is_none()
    }
}

/// Permissions, wherever shared state is kept. All methods block.
#[derive(Clone)]
pub struct ApprovalStore {
    documents: Arc<dyn Documents>,
    known: Arc<Mutex<Known>>,
}

/// What there was at the last look.
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
    /// Whether other servers see the same ones.
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

    /// All there are, the oldest first.
    pub fn list(&self) -> Result<Vec<ApprovalRecord>, StateError> {
        let since = self.known.lock().cursor;
        let feed = wait(self.documents.changes(Collection::APPROVALS, since, Effort::Usual))?;
        let mut known = self.known.lock();
        // Otherwise somebody else learned more meanwhile.
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

    /// Those of one run.
    pub fn of(&self, owner: &Owner, run: &RunId) -> Result<Vec<ApprovalRecord>, StateError> {
        let mut records = self.list()?;
        records.retain(|record| record.owner == *owner && record.run == *run);
        Ok(records)
    }

    /// Decides, once. `None` where it was decided already, or its run has ended.
    pub fn decide(&self, id: &str, verdict: &Verdict) -> Result<Option<ApprovalRecord>, StateError> {
        let Ok(key) = id.parse::<Key>() else { return Ok(None) };
        for _ in 0..ATTEMPTS {
            let Some(document) = wait(self.documents.get(Collection::APPROVALS, &key))? else { return Ok(None) };
            let Some(mut record) = read(&document).filter(ApprovalRecord::is_waiting) else { return Ok(None) };
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

    /// Forgets what a run asked.
    pub fn forget(&self, owner: &Owner, run: &RunId) -> Result<(), StateError> {
        for record in self.of(owner, run)? {
            let key: Key = record.id.parse()?;
            wait(self.documents.delete(Collection::APPROVALS, &key, &Expect::Anything.into()))?;
        }
        Ok(())
    }
}
