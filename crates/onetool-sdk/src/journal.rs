//! The call journal of a run that outlives its process, as the call path sees it.

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use crate::{Arguments, QualifiedName, ToolError, Value};

/// The side effects of a tool call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Effect {
    /// Not declared: it may do something that must not happen twice.
    #[default]
    Unknown,
    /// Doing it twice has the same effect as doing it once.
    Idempotent,
    /// It changes nothing.
    ReadOnly,
    /// It only calls other tools, whose effects count instead.
    Transparent,
}

impl Effect {
    /// Whether a call may be repeated when it is unknown whether it took place.
    pub fn may_repeat(self) -> bool {
        matches!(self, Self::Idempotent | Self::ReadOnly)
    }
}

/// A call that is recorded in a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournaledCall {
    /// Position among the run's calls.
    pub number: u64,
    /// Hash of the tool and its arguments.
    pub hash: String,
    /// Index among the run's calls with this hash, from 0.
    pub nth: u64,
    pub effect: Effect,
}

/// What is known of a call before it is made.
#[derive(Debug, Clone)]
pub enum Recall {
    /// It was made before, with this outcome.
    Known(Result<Value, ToolError>),
    /// It has not been made yet.
    New(JournaledCall),
}

/// A journal of one run's calls.
#[async_trait]
pub trait CallJournal: Send + Sync {
    /// Looks up a call. Fails if the run makes a different call than it did the first time.
    fn recall(
        &self,
        name: &QualifiedName,
        version: Option<&str>,
        arguments: &Arguments,
        effect: Effect,
    ) -> Result<Recall, ToolError>;

    /// Records that a call is about to be made, durably if it must not be made twice. `shown` is the readable form of
    /// the arguments. If this fails, the call must not be made.
    async fn begin(&self, name: &QualifiedName, call: &JournaledCall, shown: String) -> Result<(), ToolError>;

    /// Records the outcome of a call.
    async fn end(
        &self,
        name: &QualifiedName,
        call: &JournaledCall,
        outcome: &Result<Value, ToolError>,
    ) -> Result<(), ToolError>;

    /// Returns a person's decision about a call, if there is one.
    fn verdict(&self, call: &JournaledCall) -> Option<bool>;

    /// Whether the run can be suspended while it waits for a person.
    fn can_suspend(&self) -> bool;

    /// Whether the run is already recorded for others to see; if so, it does not wait in memory.
    fn is_recorded(&self) -> bool;

    /// Suspends the run until somebody has decided about this call. The returned error is for the run that ends now.
    async fn suspend(&self, name: &QualifiedName, call: &JournaledCall, shown: String) -> ToolError;

    /// The time as the run sees it: a repeated run gets the same times again.
    fn now(&self) -> DateTime<Utc>;

    /// The seed of the run's random numbers.
    fn seed(&self) -> u64;

    /// Whether an earlier process started the run.
    fn is_continued(&self) -> bool;

    /// Whether some of that process's records have not been replayed yet.
    fn is_repeating(&self) -> bool;
}
