//! The limits of sequences.

use std::time::Duration;

use onetool_config::{MAX_MB, Reader, Section, Shape, keys};

keys! {
    /// Sequences: tools whose steps call other tools.
    pub struct SequenceKeys {
        /// Steps of a sequence, at most.
        max_steps: usize [Shape::Count(1, 1000)] = 100, live;
        /// Sequences within sequences, this deep at most.
        max_depth: u32 [Shape::Count(1, 16)] = 5, live;
        /// Items that one `forEach` may go over.
        max_items: usize [Shape::Count(1, 100_000)] = 1000, live;
        /// Calls of one sequence at once, at most.
        max_parallel: usize [Shape::Count(1, 1000)] = 50, live;
        /// Seconds that any sequence's own timeout is limited to.
        max_timeout: Duration = Duration::from_mins(10), live;
        /// What all steps of a call give together, in megabytes.
        max_result_mb: usize [Shape::Count(1, MAX_MB)] = 64, live;
    }
}

pub const SEQUENCES: Section<SequenceKeys> = Section::new("sequences");

/// The section `sequences` of a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SequenceSettings {
    pub max_steps: usize,
    pub max_depth: u32,
    pub max_items: usize,
    pub max_parallel: usize,
    pub max_timeout: Duration,
    pub max_result_bytes: usize,
}

impl SequenceSettings {
    /// Reads the section `sequences`.
    pub fn read(reader: &mut Reader) -> Self {
        Self::from(reader.read(&SEQUENCES))
    }
}

impl From<SequenceKeys> for SequenceSettings {
    fn from(keys: SequenceKeys) -> Self {
        Self {
            max_steps: keys.max_steps,
            max_depth: keys.max_depth,
            max_items: keys.max_items,
            max_parallel: keys.max_parallel,
            max_timeout: keys.max_timeout,
            max_result_bytes: keys.max_result_mb << 20,
        }
    }
}

impl Default for SequenceSettings {
    fn default() -> Self {
        Self::from(SequenceKeys::default())
    }
}

/// Maximum number of retries of one step.
pub(super) const MAX_RETRIES: u32 = 10;
/// Maximum wait between two attempts.
pub(super) const LONGEST_WAIT: Duration = Duration::from_mins(1);
/// How much of a cause an error quotes.
pub(super) const CAUSE_CHARS: usize = 2000;
