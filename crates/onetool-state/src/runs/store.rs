//! Stores records and contents of runs, through the interfaces of shared state. All methods block.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use chrono::Utc;
use parking_lot::Mutex;

use super::record::{NewRun, Owner, Place, RunId, RunRecord, RunStatus};
use crate::interface::{
    Blobs, Change, Claim, Collection, Condition, Cursor, Documents, Effort, Expect, Guard, Holder, Jobs, Key,
    Retention, Revision, State, StateError,
};
use crate::wait;

/// A process that does not renew its runs for this long loses them to others.
pub const LEASE: Duration = Duration::from_secs(15);
/// A record without a job this long after its last change was never queued.
const SUBMIT_GRACE: chrono::TimeDelta = chrono::TimeDelta::seconds(20);
/// Maximum number of calls shown for each interrupted run.
pub const REPORTED_CALLS: usize = 50;
/// Attempts at a change that conflicts with another one.
const ATTEMPTS: usize = 32;

/// How many runs there may be, and how large.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunLimits {
    /// Maximum number of active runs of one owner.
    pub active: usize,
    /// Maximum number of kept runs of one owner; the oldest finished ones make room.
    pub kept: usize,
    /// Maximum size of one reply.
    pub reply_bytes: usize,
}

/// Why runs could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum RunStoreError {
    #[error("there is no such run")]
    NotFound,
    #[error(
        "{count} background runs are under way\nhint: wait for one to end, cancel one, or raise background.max_active"
    )]
    TooMany { count: usize },
    #[error("the idempotency key was used for another command\nhint: use a new key for every new command")]
    OtherCommand,
    #[error(
        "the reply has {bytes} bytes; at most {limit} are kept\nhint: return less, or raise background.max_result_mb"
    )]
    TooLarge { bytes: usize, limit: usize },
    #[error("the cursor is not valid")]
    Cursor,
    /// Another process holds it now: nothing may be written.
    #[error("another server has taken the run over")]
    Lost,
    #[error("the run is {0}\nhint: only a run that was interrupted can be resumed or abandoned")]
    NotInterrupted(&'static str),
    #[error(transparent)]
    State(#[from] StateError),
}

/// The outcome of recording a run.
#[derive(Debug)]
pub enum Created {
    /// With the claim to execute it, unless it waits for another process.
    New(RunRecord, Option<Claim>),
    /// The same run was started before.
    Existing(RunRecord),
}

/// A page of an owner's runs, newest first.
#[derive(Debug)]
pub struct RunPage {
    pub runs: Vec<RunRecord>,
    /// Where the next page begins.
    pub next: Option<String>,
}

/// The runs in shared state. Clones share their cache.
#[derive(Clone)]
pub struct RunStore {
    documents: Arc<dyn Documents>,
    pub(super) jobs: Arc<dyn Jobs>,
    blobs: Arc<dyn Blobs>,
    /// The name of this process.
    node: Arc<str>,
    known: Arc<Mutex<Known>>,
}

#[derive(Default)]
struct Known {
    cursor: Cursor,
    runs: HashMap<Key, (RunRecord, Revision)>,
    secret: Option<[u8; 32]>,
}

pub(super) fn key(owner: &Owner, id: &RunId) -> Result<Key, StateError> {
    format!("{}/{id}", owner.as_str()).parse()
}

fn content_key(owner: &Owner, id: &RunId, what: &str) -> Result<Key, StateError> {
    format!("{}/{id}.{what}", owner.as_str()).parse()
}

fn json<T: serde::Serialize>(value: &T) -> Result<Vec<u8>, StateError> {
    serde_json::to_vec(value).map_err(|error| StateError::Invalid(error.to_string()))
}

/// The name of a reply. It includes the fence, so that a slow process does not overwrite the reply of its successor.
fn reply_name(fence: u64) -> String {
    if fence <= 1 { "reply".to_owned() } else { format!("reply-{fence}") }
}

/// Maximum number of replies removed with a run, one per holder.
const MAX_REPLIES: u64 = 50;

impl RunStore {
    /// `node` names this process, and must be unique.
    pub fn new(state: &State, node: &str) -> Self {
        Self {
            documents: state.documents(),
            jobs: state.jobs(),
            blobs: state.blobs(Retention::default()),
            node: node.into(),
            known: Arc::default(),
        }
    }

    pub fn node(&self) -> &str {
        &self.node
    }

    pub(super) fn holder(&self) -> Holder<'_> {
        Holder { node: &self.node, ttl: LEASE }
    }

    /// The owner with this token fingerprint. It does not reveal the token.
    pub fn owner(&self, fingerprint: u64) -> Result<Owner, RunStoreError> {
        let known = self.known.lock().secret;
        let secret = match known {
            Some(secret) => secret,
            None => *self.known.lock().secret.insert(wait(self.blobs.secret())?),
        };
        Ok(Owner::of(&secret, fingerprint))
    }

    /// The owner of runs for the owner of a call: a token, or this machine.
    pub fn owner_of(&self, owner: &str) -> Result<Owner, RunStoreError> {
        let token = owner.strip_prefix("token:").and_then(|digits| u64::from_str_radix(digits, 16).ok());
        token.map_or_else(|| Ok(Owner::local()), |fingerprint| self.owner(fingerprint))
    }

    /// Whether both use the same backend.
    pub fn is_same_as(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.jobs, &other.jobs)
    }

    /// Records a run that is about to start: here, or on any server with capacity. A run with the same id is the same
    /// run, if it has the same command.
    pub fn create(&self, new: &NewRun, is_here: bool, limits: RunLimits) -> Result<Created, RunStoreError> {
        let (key, now) = (key(&new.owner, &new.id)?, Utc::now());
        let mut record = RunRecord::new(new, Place { node: &self.node, is_here });
        let bytes = json(&record)?;
        let mut last = None;
        for _ in 0..ATTEMPTS {
            let seen = self.refresh()?;
            let (others, existing) = self.others(&new.owner, &key);
            match existing {
                Some(existing) if existing.is_expired(now) => self.remove_all([&existing])?,
                Some(existing) if existing.is_of(&new.command) => {
                    return Ok(Created::Existing(existing));
                }
                Some(_) => return Err(RunStoreError::OtherCommand),
                None => {}
            }
            let (ended, active): (Vec<_>, Vec<_>) = others.into_iter().partition(|run| run.status.is_final());
            if active.len() >= limits.active {
                return Err(RunStoreError::TooMany { count: active.len() });
            }
            let (old, mut kept): (Vec<_>, Vec<_>) = ended.into_iter().partition(|run| run.is_expired(now));
            self.remove_all(&old)?;
            kept.sort_by_key(|run| run.created_at);
            let excess = (active.len() + kept.len() + 1).saturating_sub(limits.kept.max(1));
            self.remove_all(kept.iter().take(excess))?;
            let seen = if old.is_empty() && excess == 0 { seen } else { self.refresh()? };
            let content = content_key(&new.owner, &new.id, "command")?;
            self.put_content(&content, new.command.as_bytes())?;
            let guard = Guard { prefix: format!("{}/", new.owner.as_str()), seen };
            let condition = Condition { expect: Expect::Absent, guard: Some(guard) };
            match wait(self.documents.put(Collection::RUNS, &key, &bytes, &condition)) {
                Ok(revision) => {
                    self.known.lock().runs.insert(key.clone(), (record.clone(), revision));
                    let claim = wait(self.jobs.submit(&key, &new.tags, is_here.then(|| self.holder())))?;
                    if claim.is_none() {
                        record.status = RunStatus::Queued;
                    }
                    return Ok(Created::New(record, claim));
                }
                Err(error @ (StateError::Conflict(_) | StateError::Stale(_))) => last = Some(error),
                Err(error) => return Err(error.into()),
            }
        }
        Err(last.unwrap_or_else(|| StateError::Conflict(key.to_string())).into())
    }

    /// Returns one run in its current state.
    pub fn get(&self, owner: &Owner, id: &RunId) -> Result<RunRecord, RunStoreError> {
        let now = Utc::now();
        let record = self.read(&key(owner, id)?)?.map(|(record, _)| record).ok_or(RunStoreError::NotFound)?;
        if record.is_expired(now) {
            self.remove_all([&record])?;
            return Err(RunStoreError::NotFound);
        }
        self.settled(record)
    }

    /// Lists an owner's runs, newest first. `after` is the end of the previous page.
    pub fn list(&self, owner: &Owner, after: Option<&str>, limit: usize) -> Result<RunPage, RunStoreError> {
        let now = Utc::now();
        let after = after.map(parse_cursor).transpose()?;
        self.refresh()?;
        let place = |run: &RunRecord| (run.created_at.timestamp_micros(), run.id.as_str().to_owned());
        let mut runs: Vec<RunRecord> = {
            let known = self.known.lock();
            known.runs.values().map(|(run, _)| run).filter(|run| run.owner == *owner).cloned().collect()
        };
        runs.retain(|run| !run.is_expired(now) && after.as_ref().is_none_or(|after| place(run) < *after));
        runs.sort_by_key(|run| std::cmp::Reverse(place(run)));
        let has_more = runs.len() > limit;
        runs.truncate(limit);
        let next = runs.last().filter(|_| has_more).map(|run| {
            let (micros, id) = place(run);
            format!("{micros}-{id}")
        });
        Ok(RunPage { runs, next })
    }

    /// Lists all runs of all owners, newest first. Only for code with access to the state itself.
    pub fn all(&self) -> Result<Vec<RunRecord>, RunStoreError> {
        let now = Utc::now();
        self.refresh()?;
        let mut runs: Vec<RunRecord> = self.known.lock().runs.values().map(|(run, _)| run.clone()).collect();
        runs.retain(|run| !run.is_expired(now));
        runs.sort_by_key(|run| std::cmp::Reverse(run.created_at));
        Ok(runs)
    }

    pub fn command(&self, owner: &Owner, id: &RunId) -> Result<String, RunStoreError> {
        let bytes = self.content(owner, id, "command")?.ok_or(RunStoreError::NotFound)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Returns the reply of a run, if it has one.
    pub fn reply(&self, owner: &Owner, id: &RunId) -> Result<Option<Vec<u8>>, RunStoreError> {
        let fence = self.read(&key(owner, id)?)?.map_or(0, |(record, _)| record.fence);
        self.content(owner, id, &reply_name(fence))
    }

    /// Changes a run that has not ended. `change` returns whether there is anything to write.
    pub fn update(
        &self,
        owner: &Owner,
        id: &RunId,
        change: impl Fn(&mut RunRecord) -> bool,
    ) -> Result<RunRecord, RunStoreError> {
        self.change(&key(owner, id)?, |record| Ok(!record.status.is_final() && change(record)))
    }

    /// Changes a run that this process holds. Fails with [`RunStoreError::Lost`] if it no longer holds it.
    pub(super) fn update_held(
        &self,
        claim: &Claim,
        change: impl Fn(&mut RunRecord),
    ) -> Result<RunRecord, RunStoreError> {
        self.change(&claim.job, |record| {
            if record.status.is_final() {
                return Ok(false);
            }
            // A process that has released a run no longer holds it, even before another one takes it.
            let is_given_back =
                record.fence == claim.fence && matches!(record.status, RunStatus::Queued | RunStatus::Suspended);
            if record.fence > claim.fence || is_given_back {
                return Err(RunStoreError::Lost);
            }
            record.fence = claim.fence;
            record.node.clone_from(&claim.node);
            record.questions = None;
            change(record);
            Ok(true)
        })
    }

    pub(super) fn change(
        &self,
        key: &Key,
        change: impl Fn(&mut RunRecord) -> Result<bool, RunStoreError>,
    ) -> Result<RunRecord, RunStoreError> {
        let mut last = None;
        for _ in 0..ATTEMPTS {
            let (mut record, revision) = self.read(key)?.ok_or(RunStoreError::NotFound)?;
            if !change(&mut record)? {
                return Ok(record);
            }
            record.updated_at = Utc::now();
            record.finished_at = record.status.is_final().then_some(record.updated_at);
            let condition = Expect::Revision(revision).into();
            match wait(self.documents.put(Collection::RUNS, key, &json(&record)?, &condition)) {
                Ok(revision) => {
                    self.known.lock().runs.insert(key.clone(), (record.clone(), revision));
                    return Ok(record);
                }
                Err(error @ StateError::Conflict(_)) => last = Some(error),
                Err(error) => return Err(error.into()),
            }
        }
        Err(last.unwrap_or_else(|| StateError::Conflict(key.to_string())).into())
    }

    /// Ends a run with its reply. A run that has already ended stays as it is.
    pub fn finish(
        &self,
        claim: &Claim,
        status: RunStatus,
        reply: &[u8],
        limits: RunLimits,
    ) -> Result<RunRecord, RunStoreError> {
        if reply.len() > limits.reply_bytes {
            return Err(RunStoreError::TooLarge { bytes: reply.len(), limit: limits.reply_bytes });
        }
        let content: Key = format!("{}.{}", claim.job, reply_name(claim.fence)).parse()?;
        self.put_content(&content, reply)?;
        let record = self.update_held(claim, |record| {
            record.status = status;
            record.message = None;
            record.approval = None;
            record.calls = None;
        })?;
        wait(self.jobs.remove(&claim.job))?;
        Ok(record)
    }

    /// Forgets a run that has ended.
    pub fn remove(&self, owner: &Owner, id: &RunId) -> Result<(), RunStoreError> {
        let (record, _) = self.read(&key(owner, id)?)?.ok_or(RunStoreError::NotFound)?;
        self.remove_all([&record])
    }

    /// Forgets expired runs of all owners.
    pub fn sweep(&self) -> Result<usize, RunStoreError> {
        let now = Utc::now();
        self.refresh()?;
        let expired: Vec<RunRecord> = {
            let known = self.known.lock();
            known.runs.values().map(|(run, _)| run).filter(|run| run.is_expired(now)).cloned().collect()
        };
        self.remove_all(&expired)?;
        let open: Vec<RunRecord> = {
            let known = self.known.lock();
            known.runs.values().map(|(run, _)| run).filter(|run| !run.status.is_final()).cloned().collect()
        };
        for run in open {
            self.settled(run)?;
        }
        Ok(expired.len())
    }

    /// Returns the run, and queues it if the process that recorded it ended before doing so.
    fn settled(&self, run: RunRecord) -> Result<RunRecord, RunStoreError> {
        // Servers of earlier versions keep no jobs.
        let is_foreign = run.fence == 0 && !run.node.is_empty();
        if run.status.is_final() || is_foreign || Utc::now() - run.updated_at < SUBMIT_GRACE {
            return Ok(run);
        }
        let key = key(&run.owner, &run.id)?;
        if wait(self.jobs.state(&key))?.is_none() && !self.is_final(&key)? {
            wait(self.jobs.submit(&key, &run.tags, None))?;
        }
        Ok(run)
    }

    fn is_final(&self, key: &Key) -> Result<bool, RunStoreError> {
        Ok(self.read(key)?.is_none_or(|(record, _)| record.status.is_final()))
    }

    /// The owner's other runs, and the one with this key.
    fn others(&self, owner: &Owner, key: &Key) -> (Vec<RunRecord>, Option<RunRecord>) {
        let known = self.known.lock();
        let existing = known.runs.get(key).map(|(run, _)| run.clone());
        let others = known.runs.iter().filter(|(other, (run, _))| *other != key && run.owner == *owner);
        (others.map(|(_, (run, _))| run.clone()).collect(), existing)
    }

    pub(super) fn read(&self, key: &Key) -> Result<Option<(RunRecord, Revision)>, RunStoreError> {
        let Some(document) = wait(self.documents.get(Collection::RUNS, key))? else { return Ok(None) };
        let record = serde_json::from_slice(&document.content)
            .map_err(|error| StateError::Invalid(format!("the record of run {key} cannot be read: {error}")))?;
        Ok(Some((record, document.revision)))
    }

    /// Applies the changes since the last read, and returns the new cursor.
    fn refresh(&self) -> Result<Cursor, RunStoreError> {
        let since = self.known.lock().cursor;
        let feed = wait(self.documents.changes(Collection::RUNS, since, Effort::Usual))?;
        let mut known = self.known.lock();
        if feed.cursor < known.cursor {
            // Another thread has read further meanwhile.
            return Ok(known.cursor);
        }
        if feed.is_whole {
            known.runs.clear();
        }
        for change in feed.changes {
            match change {
                Change::Put(document) => match serde_json::from_slice(&document.content) {
                    Ok(record) => {
                        known.runs.insert(document.key, (record, document.revision));
                    }
                    Err(error) => tracing::warn!(key = %document.key, %error, "the record of a run cannot be read"),
                },
                Change::Gone(key) => {
                    known.runs.remove(&key);
                }
                Change::Unreadable { place, reason, .. } => {
                    tracing::warn!(%place, %reason, "the record of a run cannot be read");
                }
            }
        }
        known.cursor = feed.cursor;
        Ok(known.cursor)
    }

    fn content(&self, owner: &Owner, id: &RunId, what: &str) -> Result<Option<Vec<u8>>, RunStoreError> {
        let key = content_key(owner, id, what)?;
        let document = wait(self.documents.get(Collection::RUN_CONTENTS, &key))?;
        Ok(document.map(|document| document.content))
    }

    fn put_content(&self, key: &Key, bytes: &[u8]) -> Result<(), StateError> {
        wait(self.documents.put(Collection::RUN_CONTENTS, key, bytes, &Expect::Anything.into())).map(drop)
    }

    fn remove_all<'a>(&self, runs: impl IntoIterator<Item = &'a RunRecord>) -> Result<(), RunStoreError> {
        for run in runs {
            let record = key(&run.owner, &run.id)?;
            wait(self.documents.delete(Collection::RUNS, &record, &Expect::Anything.into()))?;
            self.known.lock().runs.remove(&record);
            wait(self.jobs.remove(&record))?;
            let replies = (1..=run.fence.clamp(1, MAX_REPLIES)).map(reply_name);
            for what in std::iter::once("command".to_owned()).chain(replies) {
                let content = content_key(&run.owner, &run.id, &what)?;
                wait(self.documents.delete(Collection::RUN_CONTENTS, &content, &Expect::Anything.into()))?;
            }
        }
        Ok(())
    }
}

fn parse_cursor(text: &str) -> Result<(i64, String), RunStoreError> {
    let (micros, id) = text.split_once('-').ok_or(RunStoreError::Cursor)?;
    let id: RunId = id.parse().map_err(|_| RunStoreError::Cursor)?;
    Ok((micros.parse().map_err(|_| RunStoreError::Cursor)?, id.as_str().to_owned()))
}
