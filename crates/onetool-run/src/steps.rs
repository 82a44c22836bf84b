//! How long each step of a run took.

use std::time::{Duration, Instant};

/// The time of each step. A step that a run did not reach took none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Steps {
    /// From the command to code: fence, snippet, parsing, aliases, and whether what it calls exists.
    pub prepare: Duration,
    /// By the type checker, where there was something for it to see.
    pub check: Duration,
    /// In the sandbox, with the calls that the code made.
    pub execute: Duration,
    /// From the value to the text: format, sanitising, storing.
    pub present: Duration,
}

impl Steps {
    pub fn total(&self) -> Duration {
        self.prepare + self.check + self.execute + self.present
    }
}

/// What a run kept away from the model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Unsent {
    /// Bytes of results, and of the definitions of the tools that gave them.
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

    /// The step that `chosen` points out ends here, and the next one begins.
    pub(crate) fn end_of(&mut self, chosen: impl FnOnce(&mut Steps) -> &mut Duration) {
        let now = Instant::now();
        *chosen(&mut self.steps) += now - self.last;
        self.last = now;
    }
}
