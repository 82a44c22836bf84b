//! Lines that are only appended: statistics, counts, audit. One line is one JSON object.

use std::fmt;

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

    pub const ALL: [Self; 2] = [Self::STATS, Self::USAGE];

    /// A stream of its own, for tests and extensions.
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

/// How far a stream was read. Means something only to the backend that gave it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Position {
    /// Changes when the stream was rewritten.
    pub generation: u64,
    pub offset: u64,
}

/// What reading came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrailRead {
    pub position: Position,
    /// The stream was rewritten since: what was visited is all of it, from the start.
    pub restarted: bool,
}

/// Is given one line after the other.
pub type Visit<'a> = &'a mut (dyn for<'line> FnMut(&'line str) + Send);

/// Rewrites the lines of a stream that has grown.
pub type Merge<'a> = &'a (dyn Fn(Vec<String>) -> Vec<String> + Send + Sync);

#[async_trait]
pub trait Trail: Send + Sync {
    /// Appends whole lines, without line breaks in them, all or none.
    async fn append(&self, stream: Stream, lines: &[String]) -> Result<(), StateError>;

    /// Visits the lines after `since`, in the order in which they were appended.
    async fn read(&self, stream: Stream, since: Position, visit: Visit<'_>) -> Result<TrailRead, StateError>;

    /// Replaces the lines by what `merge` makes of them, where they have more than `over_bytes`. Nothing that is
    /// appended meanwhile is lost.
    async fn compact(&self, stream: Stream, over_bytes: u64, merge: Merge<'_>) -> Result<(), StateError>;
}
