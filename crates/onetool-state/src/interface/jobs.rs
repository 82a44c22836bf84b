//! Work held by one process at a time that outlives it: a queue, the holders, and a journal of completed steps.
//!
//! A job waits until a process claims it, and is held for a limited time that its holder renews. Every claim has a
//! higher fence than the last; every write for a job carries the fence, and is refused once a higher one was issued. So
//! a slow process cannot write, and therefore cannot act, after another has taken over.

use std::time::Duration;

use async_trait::async_trait;

use super::{Key, StateError};

/// A held job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    pub job: Key,
    /// The holder.
    pub node: String,
    /// Grows with every holder of the job.
    pub fence: u64,
}

/// The state of a job after its release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rest {
    /// It waits for the next process with capacity.
    Waiting,
    /// It waits until it is woken.
    Parked,
}

/// The state of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobState {
    /// The current holder, by the backend's clock.
    pub node: Option<String>,
    pub fence: u64,
    pub is_parked: bool,
    pub tags: Vec<String>,
}

/// Who holds a job, and for how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder<'a> {
    pub node: &'a str,
    pub ttl: Duration,
}

/// The jobs that wait for a process with capacity.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Backlog {
    pub jobs: u64,
    /// How long the oldest job has waited.
    pub oldest: Option<Duration>,
    /// Jobs by tag, the most frequent first, at most [`MAX_BACKLOG_TAGS`] tags; a job counts once for each of its tags.
    pub by_tag: Vec<(String, u64)>,
}

/// Maximum number of tags in a [`Backlog`].
pub const MAX_BACKLOG_TAGS: usize = 50;

/// Jobs, shared by all users of the same backend.
#[async_trait]
pub trait Jobs: Send + Sync {
    /// Adds a job, held from the start if a holder is given. `None` if it is not held: it waits, or a job of the same
    /// name already exists.
    async fn submit(&self, job: &Key, tags: &[String], holder: Option<Holder<'_>>)
    -> Result<Option<Claim>, StateError>;

    /// Claims the job that has waited longest among those whose tags are all in `tags`. A job whose hold has expired
    /// waits too.
    async fn claim(&self, holder: Holder<'_>, tags: &[String]) -> Result<Option<Claim>, StateError>;

    /// Claims this job unless it is held; a parked one can be claimed too.
    async fn claim_one(&self, job: &Key, holder: Holder<'_>) -> Result<Option<Claim>, StateError>;

    /// Holds jobs for another `ttl` from now. Returns those that are no longer held.
    async fn renew(&self, claims: &[Claim], ttl: Duration) -> Result<Vec<Key>, StateError>;

    /// Releases a job. Fails with [`StateError::LeaseLost`] if it is no longer held.
    async fn release(&self, claim: &Claim, rest: Rest) -> Result<(), StateError>;

    /// Lets a parked job wait for any process with capacity. Returns whether there is such a job.
    async fn wake(&self, job: &Key) -> Result<bool, StateError>;

    /// Writes lines to the journal, durably, starting at number `first`. Lines that already exist stay: a holder that
    /// does not know whether a write succeeded may write again. Fails with [`StateError::LeaseLost`] if the job is no
    /// longer held.
    async fn append(&self, claim: &Claim, first: u64, lines: &[String]) -> Result<(), StateError>;

    /// All lines, in order.
    async fn journal(&self, job: &Key) -> Result<Vec<String>, StateError>;

    /// Returns the state of a job; `None` if it does not exist.
    async fn state(&self, job: &Key) -> Result<Option<JobState>, StateError>;

    /// Forgets a job and its journal. Its holder finds out with the next write or renewal.
    async fn remove(&self, job: &Key) -> Result<(), StateError>;

    /// Returns the jobs that wait for a process with capacity.
    async fn backlog(&self) -> Result<Backlog, StateError>;

    /// Lists every job, for copies.
    async fn list(&self) -> Result<Vec<(Key, JobState)>, StateError>;

    /// Poll interval for waiting jobs.
    fn look_every(&self) -> Duration;
}
