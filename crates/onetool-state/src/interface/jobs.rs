//! Work that one process has at a time and that outlives it: a queue, who holds what, and a journal of what was done.
//!
//! A job waits until somebody claims it, and is held for a limited time that its holder renews. Every claim has a fence
//! that is higher than the last; whatever is written for a job carries the fence, and is refused once a later one was
//! given out. So a process that was slow cannot write, and so cannot act, after another has taken over.

use std::time::Duration;

use async_trait::async_trait;

use super::{Key, StateError};

/// A job that is held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    pub job: Key,
    /// Who holds it.
    pub node: String,
    /// Grows with every holder of the job.
    pub fence: u64,
}

/// What becomes of a job that is given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rest {
    /// It waits for the next who has time.
    Waiting,
    /// It waits until somebody wakes it.
    Parked,
}

/// How a job stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobState {
    /// Who holds it now, by the backend's clock.
    pub node: Option<String>,
    pub fence: u64,
    pub is_parked: bool,
    pub tags: Vec<String>,
}

/// What a job may have of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder<'a> {
    pub node: &'a str,
    pub ttl: Duration,
}

/// What waits for somebody who has time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Backlog {
    pub jobs: u64,
    /// How long the one has waited that waits longest.
    pub oldest: Option<Duration>,
    /// Jobs by tag, the most first, at most [`MAX_BACKLOG_TAGS`] tags; a job counts once for each of its tags.
    pub by_tag: Vec<(String, u64)>,
}

/// Tags that a [`Backlog`] tells apart.
pub const MAX_BACKLOG_TAGS: usize = 50;

/// Jobs, shared by all who use the same backend.
#[async_trait]
pub trait Jobs: Send + Sync {
    /// Adds a job, held from the start where a holder is named. `None` where it is not held: it waits, or there is one of
    /// the same name already.
    async fn submit(&self, job: &Key, tags: &[String], holder: Option<Holder<'_>>)
    -> Result<Option<Claim>, StateError>;

    /// Takes the job that waits longest among those whose tags are all among `tags`. One whose holder's time is over waits
    /// too.
    async fn claim(&self, holder: Holder<'_>, tags: &[String]) -> Result<Option<Claim>, StateError>;

    /// Takes this job unless somebody holds it, also one that is parked.
    async fn claim_one(&self, job: &Key, holder: Holder<'_>) -> Result<Option<Claim>, StateError>;

    /// Holds jobs for another `ttl` from now. Answers those that are not held any more.
    async fn renew(&self, claims: &[Claim], ttl: Duration) -> Result<Vec<Key>, StateError>;

    /// Gives a job back. Fails with [`StateError::LeaseLost`] where it is not held any more.
    async fn release(&self, claim: &Claim, rest: Rest) -> Result<(), StateError>;

    /// A parked job waits from now on for whoever has time. Says whether there is such a job.
    async fn wake(&self, job: &Key) -> Result<bool, StateError>;

    /// Writes lines to the journal, durably, the first of them with the number `first`. Lines that are there already stay:
    /// a holder that does not know whether it has written may write again. Fails with [`StateError::LeaseLost`] where the
    /// job is not held any more.
    async fn append(&self, claim: &Claim, first: u64, lines: &[String]) -> Result<(), StateError>;

    /// All lines, in order.
    async fn journal(&self, job: &Key) -> Result<Vec<String>, StateError>;

    /// How a job stands; `None` for one that is not there.
    async fn state(&self, job: &Key) -> Result<Option<JobState>, StateError>;

    /// Forgets a job and its journal. Whoever holds it finds out with the next write or renewal.
    async fn remove(&self, job: &Key) -> Result<(), StateError>;

    /// What waits for somebody who has time.
    async fn backlog(&self) -> Result<Backlog, StateError>;

    /// Every job, for copies.
    async fn list(&self) -> Result<Vec<(Key, JobState)>, StateError>;

    /// How often to look for jobs that wait.
    fn look_every(&self) -> Duration;
}
