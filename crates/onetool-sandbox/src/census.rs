//! Counts of the processes that run code, for monitoring.

/// The processes of one engine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Census {
    /// Children that execute a program.
    pub busy: usize,
    /// Children that are ready for the next one.
    pub idle: usize,
    /// Programs that wait for a child, where that is known.
    pub waiting: usize,
    /// Processes that children are forked from.
    pub zygotes: usize,
    /// Children that keep the names of a session.
    pub sessions: usize,
}
