//! Limits how much of a worker's output is logged: endless output must not fill a disk or slow down others.

use std::time::{Duration, Instant};

/// Maximum number of bytes logged per worker and window.
const LOGGED_BYTES: usize = 64 << 10;
const WINDOW: Duration = Duration::from_secs(10);

/// The used part of the current window.
#[derive(Debug)]
pub(super) struct LogBudget {
    since: Instant,
    logged: usize,
}

/// Whether a line is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Admission {
    Logged,
    /// The first line that is not logged.
    FirstLeftOut,
    LeftOut,
}

impl Default for LogBudget {
    fn default() -> Self {
        Self { since: Instant::now(), logged: 0 }
    }
}

impl LogBudget {
    pub(super) fn admit(&mut self, bytes: usize, now: Instant) -> Admission {
        if now.duration_since(self.since) > WINDOW {
            *self = Self { since: now, logged: 0 };
        }
        if self.logged > LOGGED_BYTES {
            return Admission::LeftOut;
        }
        self.logged += bytes + 1;
        if self.logged > LOGGED_BYTES { Admission::FirstLeftOut } else { Admission::Logged }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_takes_so_much_and_the_next_one_again() {
        let mut budget = LogBudget::default();
        let start = Instant::now();
        for _ in 0..LOGGED_BYTES / 128 {
            assert_eq!(budget.admit(127, start), Admission::Logged);
        }
        assert_eq!(budget.admit(1, start), Admission::FirstLeftOut);
        assert_eq!(budget.admit(1, start + WINDOW / 2), Admission::LeftOut);
        assert_eq!(budget.admit(1, start + WINDOW * 2), Admission::Logged);
        assert_eq!(budget.admit(LOGGED_BYTES * 2, start + WINDOW * 2), Admission::FirstLeftOut);
        assert_eq!(budget.admit(0, start + WINDOW * 2), Admission::LeftOut);
    }
}
