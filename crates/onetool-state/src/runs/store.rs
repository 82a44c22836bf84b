//! Keeps records and contents of runs, through the interfaces of shared state. All methods block.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::Utc;
use parking_lot::Mutex;

use super::record::{NewRun, Owner, RunId, RunRecord, RunStatus};
use crate::interface::{
    Blobs, Change, Collection, Condition, Cursor, Documents, Effort, Expect, Guard, Key, Lease, Leases, Retention,
    Revision, State, StateError,
};
use crate::wait;

/// A process that does not say for this long that it lives has ended.
const LEASE: Duration = Duration::from_secs(15);
/// How often a change is decided anew because something else changed meanwhile.
const ATTEMPTS: usize = 32;

/// How many runs there may be, and how large.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunLimits {
    /// Under way at one time, of one owner.
    pub active: usize,
    /// Kept, of one owner; the oldest that have ended make room.
    pub kept: usize,
    /// Bytes of one reply.
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
    #[error(transparent)]
    State(#[from] StateError),
}

/// What came of a wish to record a run.
#[derive(Debug)]
pub enum Created {
    New(RunRecord),
    /// The same run was started before.
    Existing(RunRecord),
}

/// Some of an owner's runs, the newest first.
#[derive(Debug)]
pub struct RunPage {
    pub runs: Vec<RunRecord>,
    /// Where the next page begins.
    pub next: Option<String>,
}

/// Runs, wherever shared state is kept. Clones share what they know.
#[derive(Clone)]
pub struct RunStore {
    documents: Arc<dyn Documents>,
    leases: Arc<dyn Leases>,
    blobs: Arc<dyn Blobs>,
    /// This process.
    node: Arc<str>,
    known: Arc<Mutex<Known>>,
}

#[derive(Default)]
struct Known {
    cursor: Cursor,
    runs: HashMap<Key, (RunRecord, Revision)>,
    /// Until when other processes certainly live.
    alive: HashMap<String, Instant>,
    lease: Option<(Lease, Instant)>,
    secret: Option<[u8; 32]>,
}

fn key(owner: &Owner, id: &RunId) -> Result<Key, StateError> {
    format!("{}/{id}", owner.as_str()).parse()
}

fn content_key(owner: &Owner, id: &RunId, what: &str) -> Result<Key, StateError> {
    format!("{}/{id}.{what}", owner.as_str()).parse()
}

fn json<T: serde::Serialize>(value: &T) -> Result<Vec<u8>, StateError> {
    serde_json::to_vec(value).map_err(|error| StateError::Invalid(error.to_string()))
}

fn lease_name(node: &str) -> String {
    format!("runs-{node}")
}

impl RunStore {
    /// `node` names this process; another one must have another name.
    pub fn new(state: &State, node: &str) -> Self {
        Self {
            documents: state.documents(),
            leases: state.leases(),
            blobs: state.blobs(Retention::default()),
            node: node.into(),
            known: Arc::default(),
        }
    }

    /// Whether this process executes a run, as far as its record says.
    pub fn is_ours(&self, run: &RunRecord) -> bool {
        *run.node == *self.node
    }

    /// The owner behind a token's fingerprint. Nobody learns the token from it.
    pub fn owner(&self, fingerprint: u64) -> Result<Owner, RunStoreError> {
        let known = self.known.lock().secret;
        let secret = match known {
            Some(secret) => secret,
            None => *self.known.lock().secret.insert(wait(self.blobs.secret())?),
        };
        Ok(Owner::of(&secret, fingerprint))
    }

    /// Records a run that is about to start. One with the same id is the same run, if it has the same command.
    pub fn create(&self, new: &NewRun, limits: RunLimits) -> Result<Created, RunStoreError> {
        let (key, now) = (key(&new.owner, &new.id)?, Utc::now());
        self.beat()?;
        let record = RunRecord::new(new, &self.node);
        let bytes = json(&record)?;
        let mut last = None;
        for _ in 0..ATTEMPTS {
            let seen = self.refresh()?;
            let (others, existing) = self.others(&new.owner, &key);
            match existing {
                Some(existing) if existing.is_expired(now) => self.remove_all([&existing])?,
                Some(existing) if existing.is_of(&new.command) => {
                    return Ok(Created::Existing(self.settled(existing)?));
                }
                Some(_) => return Err(RunStoreError::OtherCommand),
                None => {}
            }
            let others = others.into_iter().map(|run| self.settled(run)).collect::<Result<Vec<_>, _>>()?;
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
                    self.known.lock().runs.insert(key, (record.clone(), revision));
                    return Ok(Created::New(record));
                }
                Err(error @ (StateError::Conflict(_) | StateError::Stale(_))) => last = Some(error),
                Err(error) => return Err(error.into()),
            }
        }
        Err(last.unwrap_or_else(|| StateError::Conflict(key.to_string())).into())
    }

    /// One run as it is now.
    pub fn get(&self, owner: &Owner, id: &RunId) -> Result<RunRecord, RunStoreError> {
        let now = Utc::now();
        let record = self.read(&key(owner, id)?)?.map(|(record, _)| record).ok_or(RunStoreError::NotFound)?;
        if record.is_expired(now) {
            self.remove_all([&record])?;
            return Err(RunStoreError::NotFound);
        }
        self.settled(record)
    }

    /// An owner's runs, the newest first. `after` is the end of the page before.
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
        let runs = runs.into_iter().map(|run| self.settled(run)).collect::<Result<_, _>>()?;
        Ok(RunPage { runs, next })
    }

    pub fn command(&self, owner: &Owner, id: &RunId) -> Result<String, RunStoreError> {
        let bytes = self.content(owner, id, "command")?.ok_or(RunStoreError::NotFound)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The reply of a run that has one.
    pub fn reply(&self, owner: &Owner, id: &RunId) -> Result<Option<Vec<u8>>, RunStoreError> {
        self.content(owner, id, "reply")
    }

    /// Changes a run that has not ended. `change` says whether there is anything to write.
    pub fn update(
        &self,
        owner: &Owner,
        id: &RunId,
        change: impl Fn(&mut RunRecord) -> bool,
    ) -> Result<RunRecord, RunStoreError> {
        let key = key(owner, id)?;
        let mut last = None;
        for _ in 0..ATTEMPTS {
            let (mut record, revision) = self.read(&key)?.ok_or(RunStoreError::NotFound)?;
            if record.status.is_final() || !change(&mut record) {
                return Ok(record);
            }
            record.updated_at = Utc::now();
            if record.status.is_final() {
                record.finished_at = Some(record.updated_at);
            }
            let condition = Expect::Revision(revision).into();
            match wait(self.documents.put(Collection::RUNS, &key, &json(&record)?, &condition)) {
                Ok(revision) => {
                    self.known.lock().runs.insert(key, (record.clone(), revision));
                    return Ok(record);
                }
                Err(error @ StateError::Conflict(_)) => last = Some(error),
                Err(error) => return Err(error.into()),
            }
        }
        Err(last.unwrap_or_else(|| StateError::Conflict(key.to_string())).into())
    }

    /// Ends a run with its reply. A run that ended already stays as it is.
    pub fn finish(
        &self,
        run: (&Owner, &RunId),
        status: RunStatus,
        reply: &[u8],
        limits: RunLimits,
    ) -> Result<RunRecord, RunStoreError> {
        let (owner, id) = run;
        if reply.len() > limits.reply_bytes {
            return Err(RunStoreError::TooLarge { bytes: reply.len(), limit: limits.reply_bytes });
        }
        self.put_content(&content_key(owner, id, "reply")?, reply)?;
        self.update(owner, id, |record| {
            record.status = status;
            true
        })
    }

    /// Forgets a run that has ended.
    pub fn remove(&self, owner: &Owner, id: &RunId) -> Result<(), RunStoreError> {
        let (record, _) = self.read(&key(owner, id)?)?.ok_or(RunStoreError::NotFound)?;
        self.remove_all([&record])
    }

    /// Forgets what has expired, whoever owns it.
    pub fn sweep(&self) -> Result<usize, RunStoreError> {
        let now = Utc::now();
        self.refresh()?;
        let expired: Vec<RunRecord> = {
            let known = self.known.lock();
            known.runs.values().map(|(run, _)| run).filter(|run| run.is_expired(now)).cloned().collect()
        };
        self.remove_all(&expired)?;
        Ok(expired.len())
    }

    /// Says that this process lives. To be repeated every few seconds while it has runs.
    pub fn beat(&self) -> Result<(), RunStoreError> {
        const FRESH: Duration = Duration::from_secs(4);
        let held = self.known.lock().lease.clone();
        let lease = match held {
            Some((_, since)) if since.elapsed() < FRESH => return Ok(()),
            Some((lease, _)) => match wait(self.leases.renew(&lease, LEASE)) {
                Ok(()) => Some(lease),
                Err(StateError::LeaseLost(_)) => self.acquire()?,
                Err(error) => return Err(error.into()),
            },
            None => self.acquire()?,
        };
        self.known.lock().lease = lease.map(|lease| (lease, Instant::now()));
        Ok(())
    }

    /// Says that this process has no runs any more.
    pub fn leave(&self) {
        let lease = self.known.lock().lease.take();
        if let Some((lease, _)) = lease
            && let Err(error) = wait(self.leases.release(&lease))
        {
            tracing::debug!(%error, "a lease was not given back");
        }
    }

    fn acquire(&self) -> Result<Option<Lease>, StateError> {
        wait(self.leases.acquire(&lease_name(&self.node), &self.node, LEASE))
    }

    /// Whether the process of a run lives.
    fn is_alive(&self, node: &str) -> Result<bool, StateError> {
        if *node == *self.node || self.known.lock().alive.get(node).is_some_and(|until| *until > Instant::now()) {
            return Ok(true);
        }
        // Whoever can take a process's lease knows that it does not hold it any more.
        match wait(self.leases.acquire(&lease_name(node), &self.node, Duration::from_millis(1)))? {
            Some(lease) => {
                wait(self.leases.release(&lease))?;
                self.known.lock().alive.remove(node);
                Ok(false)
            }
            None => {
                self.known.lock().alive.insert(node.to_owned(), Instant::now() + LEASE / 5);
                Ok(true)
            }
        }
    }

    /// The same run, ended if its process did.
    fn settled(&self, run: RunRecord) -> Result<RunRecord, RunStoreError> {
        if run.status.is_final() || self.is_alive(&run.node)? {
            return Ok(run);
        }
        self.interrupt(&run.owner, &run.id, "the server that ran it ended")
    }

    /// Ends a run that nobody executes any more.
    pub fn interrupt(&self, owner: &Owner, id: &RunId, reason: &str) -> Result<RunRecord, RunStoreError> {
        self.update(owner, id, |record| {
            record.status = RunStatus::Failed;
            record.message = Some(format!("interrupted: {reason}"));
            true
        })
    }

    /// The owner's other runs, and the one with this key.
    fn others(&self, owner: &Owner, key: &Key) -> (Vec<RunRecord>, Option<RunRecord>) {
        let known = self.known.lock();
        let existing = known.runs.get(key).map(|(run, _)| run.clone());
        let others = known.runs.iter().filter(|(other, (run, _))| *other != key && run.owner == *owner);
        (others.map(|(_, (run, _))| run.clone()).collect(), existing)
    }

    fn read(&self, key: &Key) -> Result<Option<(RunRecord, Revision)>, RunStoreError> {
        let Some(document) = wait(self.documents.get(Collection::RUNS, key))? else { return Ok(None) };
        let record = serde_json::from_slice(&document.content)
            .map_err(|error| StateError::Invalid(format!("the record of run {key} cannot be read: {error}")))?;
        Ok(Some((record, document.revision)))
    }

    /// Learns what changed, and up to where.
    fn refresh(&self) -> Result<Cursor, RunStoreError> {
        let since = self.known.lock().cursor;
        let feed = wait(self.documents.changes(Collection::RUNS, since, Effort::Usual))?;
        let mut known = self.known.lock();
        if feed.cursor < known.cursor {
            // Somebody else learned more meanwhile.
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
            for what in ["command", "reply"] {
                let content = content_key(&run.owner, &run.id, what)?;
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
