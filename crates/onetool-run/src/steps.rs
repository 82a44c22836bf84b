//! How long each step of a run took.

use std::time::{Duration, Instant};

/// The time of each step; zero for a step that the run did not reach.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Steps {
    /// From the command to code: fence, snippet, parsing, aliases, and whether the called tools exist.
    pub prepare: Duration,
    /// In the type checker.
    pub check: Duration,
    /// In the sandbox, including the calls that the code made.
    pub execute: Duration,
    /// From the value to the text: format, sanitising, storing.
    pub present: Duration,
}

impl Steps {
    pub fn total(&self) -> Duration {
        self.prepare + self.check + self.execute + self.present
    }
}

/// What a run kept out of the model's context.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Unsent {
    /// Bytes of results, and of the definitions of the tools that returned them.
    pub bytes: u64,
    /// The time that all calls took together.
    pub call_time: Duration,
}

/// Measures one step after another.
pub(crate) struct Stopwatch {
    last: Instant,
    pub(crate) steps: Steps,
    pub(crate) unsent: Unsent,
}

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self { last: Instant::now(), steps: Steps::default(), unsent: Unsent::default() }
    }

    /// Ends the step that `chosen` selects, and begins the next one.
    pub(crate) fn end_of(&mut self, chosen: impl FnOnce(&mut Steps) -> &mut Duration) {
        let now = Instant::now();
        *chosen(&mut self.steps) += now - self.last;
        self.last = now;
    }
}
