//! What a run that outlives its process remembers of its calls, as the call path sees it.

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use crate::{Arguments, QualifiedName, ToolError, Value};

/// What a call of a tool does besides giving a value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Effect {
    /// Nobody says: it may do something that must not happen twice.
    #[default]
    Unknown,
    /// To do it twice is to do it once.
    Idempotent,
    /// It changes nothing.
    ReadOnly,
    /// It only calls other tools, and those are what counts.
    Transparent,
}

impl Effect {
    /// Whether a call may be made again of which nobody knows whether it took place.
    pub fn may_repeat(self) -> bool {
        matches!(self, Self::Idempotent | Self::ReadOnly)
    }
}

/// A call that a journal knows of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournaledCall {
    /// In the order of the run's calls.
    pub number: u64,
    /// Of the tool and its arguments.
    pub hash: String,
    /// Which of the run's calls with this hash, from 0.
    pub nth: u64,
    pub effect: Effect,
}

/// What is known of a call before it is made.
#[derive(Debug, Clone)]
pub enum Recall {
    /// It was made before, with this outcome.
    Known(Result<Value, ToolError>),
    /// It is to be made.
    New(JournaledCall),
}

/// A journal of one run's calls.
#[async_trait]
pub trait CallJournal: Send + Sync {
    /// Looks a call up. Fails where the run asks for something else than the first time.
    fn recall(
        &self,
        name: &QualifiedName,
        version: Option<&str>,
        arguments: &Arguments,
        effect: Effect,
    ) -> Result<Recall, ToolError>;

    /// Notes that a call is about to be made, durably where it must not be made twice. `shown` has the arguments for
    /// people. Without success the call must not be made.
    async fn begin(&self, name: &QualifiedName, call: &JournaledCall, shown: String) -> Result<(), ToolError>;

    /// Notes what came of it.
    async fn end(
        &self,
        name: &QualifiedName,
        call: &JournaledCall,
        outcome: &Result<Value, ToolError>,
    ) -> Result<(), ToolError>;

    /// What a person decided about a call.
    fn verdict(&self, call: &JournaledCall) -> Option<bool>;

    /// Whether the run may wait for a person without its process.
    fn can_suspend(&self) -> bool;

    /// Whether it is known to others already: it does not wait in memory then.
    fn is_recorded(&self) -> bool;

    /// Ends the run's process until somebody has decided about this call. The answer is for a run that ends anyway.
    async fn suspend(&self, name: &QualifiedName, call: &JournaledCall, shown: String) -> ToolError;

    /// The time, as the run sees it: the same again when it is run again.
    fn now(&self) -> DateTime<Utc>;

    /// Where the run's random numbers begin.
    fn seed(&self) -> u64;

    /// Whether an earlier process has begun the run.
    fn is_continued(&self) -> bool;

    /// Whether some of what that process has recorded has not been asked for again.
    fn is_repeating(&self) -> bool;
}
