//! Jobs as files: the state of each in one small file, its journal beside it, all changed under one lock.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use chrono::Utc;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::LOCK_WAIT;
use crate::atomic::{self, Lock, StoreError};
use crate::interface::{Backlog, Claim, Holder, JobState, Jobs, Key, MAX_BACKLOG_TAGS, Rest, StateError};

/// Poll interval: other processes on this machine may add jobs.
const LOOK_EVERY: Duration = Duration::from_millis(500);

pub(super) struct FlatJobs {
    folder: PathBuf,
    turn: Mutex<()>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Job {
    job: String,
    tags: Vec<String>,
    fence: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    /// When the current hold ends, in microseconds since the epoch.
    until: i64,
    is_parked: bool,
    /// When the job started to wait.
    since: i64,
    /// Number of lines in its journal.
    lines: u64,
    /// Length of its journal in bytes: anything beyond was never acknowledged.
    bytes: u64,
}

fn now() -> i64 {
    Utc::now().timestamp_micros()
}

fn until(ttl: Duration) -> i64 {
    now().saturating_add(i64::try_from(ttl.as_micros()).unwrap_or(i64::MAX))
}

impl Job {
    fn is_held(&self) -> bool {
        self.node.is_some() && self.until > now()
    }

    fn is_of(&self, claim: &Claim) -> bool {
        self.is_held() && self.fence == claim.fence && self.node.as_deref() == Some(&claim.node)
    }

    fn hold(&mut self, holder: &Holder<'_>) {
        self.fence += 1;
        self.node = Some(holder.node.to_owned());
        self.until = until(holder.ttl);
        self.is_parked = false;
    }

    fn state(&self) -> JobState {
        JobState {
            node: self.node.clone().filter(|_| self.is_held()),
            fence: self.fence,
            is_parked: self.is_parked && !self.is_held(),
            tags: self.tags.clone(),
        }
    }
}

impl FlatJobs {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { folder, turn: Mutex::default() }
    }

    /// `~` is unambiguous: keys have at most one `/`, and parts never begin with a dot.
    fn file(&self, job: &Key, extension: &str) -> PathBuf {
        self.folder.join(format!("{}.{extension}", job.as_str().replace('/', "~")))
    }

    fn locked<T>(&self, work: impl FnOnce() -> Result<T, StateError>) -> Result<T, StateError> {
        let _turn = self.turn.lock();
        let _held = Lock::take(&self.folder.join(".lock"), LOCK_WAIT)?;
        work()
    }

    fn read(&self, job: &Key) -> Result<Option<Job>, StateError> {
        let path = self.file(job, "json");
        match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map(Some)
                .map_err(|error| StateError::Invalid(format!("{}: {error}", path.display()))),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StoreError::io(path, error).into()),
        }
    }

    fn write(&self, key: &Key, job: &Job) -> Result<(), StateError> {
        let path = self.file(key, "json");
        let bytes = serde_json::to_vec(job).map_err(|error| StoreError::io(&path, error.into()))?;
        Ok(atomic::write(&path, &bytes)?)
    }

    /// All readable jobs.
    fn all(&self) -> Result<Vec<(Key, Job)>, StateError> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(StoreError::io(&self.folder, error).into()),
        };
        let mut jobs = Vec::new();
        for entry in entries.flatten() {
            let name = entry.file_name();
            let Some(stem) = name.to_str().and_then(|name| name.strip_suffix(".json")) else { continue };
            let Ok(key) = stem.replace('~', "/").parse::<Key>() else { continue };
            match self.read(&key) {
                Ok(Some(job)) => jobs.push((key, job)),
                Ok(None) => {}
                Err(error) => tracing::warn!(%error, "a job cannot be read"),
            }
        }
        Ok(jobs)
    }

    /// Whether there are no jobs. Then neither the lock nor the folder is needed.
    fn is_empty(&self) -> bool {
        fs::read_dir(&self.folder)
            .map_or(true, |mut entries| !entries.any(|entry| entry.is_ok_and(|entry| is_job(&entry.file_name()))))
    }

    /// Changes a job held under this claim.
    fn change(&self, claim: &Claim, work: impl FnOnce(&mut Job) -> Result<(), StateError>) -> Result<(), StateError> {
        self.locked(|| {
            let lost = || StateError::LeaseLost(claim.job.to_string());
            let mut job = self.read(&claim.job)?.filter(|job| job.is_of(claim)).ok_or_else(lost)?;
            work(&mut job)?;
            self.write(&claim.job, &job)
        })
    }
}

fn is_job(name: &std::ffi::OsStr) -> bool {
    name.to_str().is_some_and(|name| name.ends_with(".json") && !name.starts_with('.'))
}

#[async_trait]
impl Jobs for FlatJobs {
    async fn submit(
        &self,
        job: &Key,
        tags: &[String],
        holder: Option<Holder<'_>>,
    ) -> Result<Option<Claim>, StateError> {
        self.locked(|| {
            if self.read(job)?.is_some() {
                return Ok(None);
            }
            let mut new = Job {
                job: job.to_string(),
                tags: tags.to_vec(),
                fence: 0,
                node: None,
                until: 0,
                is_parked: false,
                since: now(),
                lines: 0,
                bytes: 0,
            };
            if let Some(holder) = &holder {
                new.hold(holder);
            }
            let _ = fs::remove_file(self.file(job, "journal"));
            self.write(job, &new)?;
            Ok(holder.map(|holder| Claim { job: job.clone(), node: holder.node.to_owned(), fence: new.fence }))
        })
    }

    async fn claim(&self, holder: Holder<'_>, tags: &[String]) -> Result<Option<Claim>, StateError> {
        if self.is_empty() {
            return Ok(None);
        }
        self.locked(|| {
            let fits = |job: &Job| !job.is_parked && !job.is_held() && job.tags.iter().all(|tag| tags.contains(tag));
            let waiting = self.all()?.into_iter().filter(|(_, job)| fits(job));
            let Some((key, mut job)) = waiting.min_by_key(|(_, job)| job.since) else { return Ok(None) };
            job.hold(&holder);
            self.write(&key, &job)?;
            Ok(Some(Claim { job: key, node: holder.node.to_owned(), fence: job.fence }))
        })
    }

    async fn claim_one(&self, key: &Key, holder: Holder<'_>) -> Result<Option<Claim>, StateError> {
        self.locked(|| {
            let Some(mut job) = self.read(key)?.filter(|job| !job.is_held()) else { return Ok(None) };
            job.hold(&holder);
            self.write(key, &job)?;
            Ok(Some(Claim { job: key.clone(), node: holder.node.to_owned(), fence: job.fence }))
        })
    }

    async fn renew(&self, claims: &[Claim], ttl: Duration) -> Result<Vec<Key>, StateError> {
        if claims.is_empty() {
            return Ok(Vec::new());
        }
        self.locked(|| {
            let mut lost = Vec::new();
            for claim in claims {
                match self.read(&claim.job)?.filter(|job| job.is_of(claim)) {
                    Some(mut job) => {
                        job.until = until(ttl);
                        self.write(&claim.job, &job)?;
                    }
                    None => lost.push(claim.job.clone()),
                }
            }
            Ok(lost)
        })
    }

    async fn release(&self, claim: &Claim, rest: Rest) -> Result<(), StateError> {
        self.change(claim, |job| {
            job.node = None;
            job.is_parked = rest == Rest::Parked;
            job.since = now();
            Ok(())
        })
    }

    async fn wake(&self, key: &Key) -> Result<bool, StateError> {
        self.locked(|| {
            let Some(mut job) = self.read(key)? else { return Ok(false) };
            if job.is_parked {
                job.is_parked = false;
                job.since = now();
                self.write(key, &job)?;
            }
            Ok(true)
        })
    }

    async fn append(&self, claim: &Claim, first: u64, lines: &[String]) -> Result<(), StateError> {
        self.change(claim, |job| {
            if first > job.lines {
                return Err(StateError::Invalid(format!(
                    "line {} of the journal of {} is missing",
                    job.lines, claim.job
                )));
            }
            let known = usize::try_from(job.lines - first).unwrap_or(usize::MAX);
            let new = lines.get(known..).unwrap_or_default();
            if new.is_empty() {
                return Ok(());
            }
            let path = self.file(&claim.job, "journal");
            let failed = |error| StoreError::io(&path, error);
            let mut file = OpenOptions::new().create(true).append(true).open(&path).map_err(failed)?;
            // Discard what a process that died had begun to write.
            if file.metadata().map_err(failed)?.len() > job.bytes {
                file.set_len(job.bytes).map_err(failed)?;
            }
            let text: String = new.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
            file.write_all(text.as_bytes()).and_then(|()| file.sync_data()).map_err(failed)?;
            job.lines += new.len() as u64;
            job.bytes += text.len() as u64;
            Ok(())
        })
    }

    async fn journal(&self, key: &Key) -> Result<Vec<String>, StateError> {
        if self.is_empty() {
            return Ok(Vec::new());
        }
        self.locked(|| {
            let Some(job) = self.read(key)? else { return Ok(Vec::new()) };
            let path = self.file(key, "journal");
            let mut bytes = match fs::read(&path) {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
                Err(error) => return Err(StoreError::io(path, error).into()),
            };
            bytes.truncate(usize::try_from(job.bytes).unwrap_or(usize::MAX));
            Ok(String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect())
        })
    }

    async fn state(&self, key: &Key) -> Result<Option<JobState>, StateError> {
        // No lock is needed: a file is replaced atomically.
        Ok(self.read(key)?.map(|job| job.state()))
    }

    async fn remove(&self, key: &Key) -> Result<(), StateError> {
        if self.is_empty() {
            return Ok(());
        }
        self.locked(|| {
            for extension in ["json", "journal"] {
                let path = self.file(key, extension);
                match fs::remove_file(&path) {
                    Ok(()) => {}
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                    Err(error) => return Err(StoreError::io(path, error).into()),
                }
            }
            Ok(())
        })
    }

    async fn backlog(&self) -> Result<Backlog, StateError> {
        if self.is_empty() {
            return Ok(Backlog::default());
        }
        let waiting: Vec<Job> =
            self.all()?.into_iter().map(|(_, job)| job).filter(|job| !job.is_parked && !job.is_held()).collect();
        let since = waiting.iter().map(|job| job.since.max(job.until)).min();
        let oldest = since.map(|since| Duration::from_micros(u64::try_from(now() - since).unwrap_or_default()));
        let mut by_tag: BTreeMap<&String, u64> = BTreeMap::new();
        for tag in waiting.iter().flat_map(|job| &job.tags) {
            *by_tag.entry(tag).or_default() += 1;
        }
        let mut by_tag: Vec<(String, u64)> = by_tag.into_iter().map(|(tag, jobs)| (tag.clone(), jobs)).collect();
        by_tag.sort_by_key(|(_, jobs)| std::cmp::Reverse(*jobs));
        by_tag.truncate(MAX_BACKLOG_TAGS);
        Ok(Backlog { jobs: waiting.len() as u64, oldest, by_tag })
    }

    async fn list(&self) -> Result<Vec<(Key, JobState)>, StateError> {
        Ok(self.all()?.into_iter().map(|(key, job)| (key, job.state())).collect())
    }

    fn look_every(&self) -> Duration {
        LOOK_EVERY
    }
}
