//! Append-only lines: statistics, counts, audit. One line is one JSON object.

use std::fmt;
use std::ops::ControlFlow;

use async_trait::async_trait;

use super::StateError;

/// Lines of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Stream(&'static str);

impl Stream {
    /// Runs and calls, for reports.
    pub const STATS: Self = Self("stats");
    /// How often tools of bundles were called.
    pub const USAGE: Self = Self("usage");
    /// Who did what.
    pub const AUDIT: Self = Self("audit");

    pub const ALL: [Self; 3] = [Self::STATS, Self::USAGE, Self::AUDIT];

    /// Any other stream, for tests and extensions.
    pub const fn named(name: &'static str) -> Self {
        Self(name)
    }

    pub fn as_str(self) -> &'static str {
        self.0
    }
}

impl fmt::Display for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// How far a stream was read. Only valid for the backend that returned it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Position {
    /// Changes when the stream is rewritten.
    pub generation: u64,
    pub offset: u64,
}

/// The outcome of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrailRead {
    pub position: Position,
    /// The stream was rewritten meanwhile: all of it was visited, from the start.
    pub restarted: bool,
}

/// Called with one line after the other.
pub type Visit<'a> = &'a mut (dyn for<'line> FnMut(&'line str) + Send);

/// Called with one line after the other, until it breaks.
pub type VisitBack<'a> = &'a mut (dyn for<'line> FnMut(&'line str) -> ControlFlow<()> + Send);

/// Whether a line at the start of a stream may be removed.
pub type IsOld<'a> = &'a (dyn Fn(&str) -> bool + Send + Sync);

/// Rewrites the lines of a stream that has grown.
pub type Merge<'a> = &'a (dyn Fn(Vec<String>) -> Vec<String> + Send + Sync);

#[async_trait]
pub trait Trail: Send + Sync {
    /// Appends complete lines, without line breaks in them, all or none.
    async fn append(&self, stream: Stream, lines: &[String]) -> Result<(), StateError>;

    /// Visits the lines after `since`, in the order in which they were appended.
    async fn read(&self, stream: Stream, since: Position, visit: Visit<'_>) -> Result<TrailRead, StateError>;

    /// Visits lines in reverse order, starting at the last one, until `visit` breaks.
    async fn read_back(&self, stream: Stream, visit: VisitBack<'_>) -> Result<(), StateError>;

    /// Removes old lines from the start of the stream. A few may stay if removing them would be costly.
    async fn trim(&self, stream: Stream, is_old: IsOld<'_>) -> Result<(), StateError>;

    /// Replaces the lines by the result of `merge`, if they have more than `over_bytes`. Lines appended meanwhile are
    /// kept.
    async fn compact(&self, stream: Stream, over_bytes: u64, merge: Merge<'_>) -> Result<(), StateError>;
}
