//! Statistics: what was called, how often, how long it took and how it ended.
//!
//! Calls hand a [`Record`] to the [`StatsRecorder`], which never waits; a thread appends batches to one stream of JSON
//! lines that any number of processes share. [`Report`] reads it back. When the stream grows, old lines are merged by hour
//! and by day, so it never grows beyond a cap and its totals stay right.

mod html;
mod merge;
mod recorder;
mod report;

use std::collections::BTreeMap;

use chrono::{DateTime, SubsecRound as _, Utc};
use serde::{Deserialize, Serialize};

pub use html::render_html;
pub use recorder::StatsRecorder;
pub use report::{Assumptions, Bar, Period, Report, ToolStats, Totals};

/// What a record is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RecordKind {
    /// A `run(command)`.
    Run,
    /// A call to a tool.
    Call,
}

/// One finished run or call; in an older part of the stream, several that were merged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// When it ended; for merged records, the beginning of their hour or day.
    #[serde(rename = "ts")]
    pub at: DateTime<Utc>,
    pub kind: RecordKind,
    /// `pack.function`; `run` for runs.
    pub tool: String,
    #[serde(rename = "in")]
    pub chars_in: u64,
    #[serde(rename = "out")]
    pub chars_out: u64,
    /// How long it took; for merged records, the total.
    pub ms: f64,
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub calls: u64,
    /// The slowest, if several were merged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_ms: Option<f64>,
    /// Failures by exception type.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub errors: BTreeMap<String, u64>,
    /// What a run saved.
    #[serde(flatten)]
    pub saved: Saved,
}

/// What a run kept out of a model's context, and what it cost instead.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Saved {
    /// Bytes of results and tool definitions that never reached the model.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub kept: u64,
    /// Bytes of the commands and replies of the runs that kept something.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub cost: u64,
    /// Milliseconds of calls that ran concurrently with others.
    #[serde(default, skip_serializing_if = "is_no_time")]
    pub together_ms: f64,
}

impl Saved {
    fn add(&mut self, other: Self) {
        self.kept += other.kept;
        self.cost += other.cost;
        self.together_ms += other.together_ms;
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_nothing(bytes: &u64) -> bool {
    *bytes == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_no_time(ms: &f64) -> bool {
    *ms <= 0.0
}

fn one() -> u64 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_one(calls: &u64) -> bool {
    *calls == 1
}

/// The outcome of a run or a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    pub chars_in: u64,
    pub chars_out: u64,
    pub ms: f64,
    /// The exception's type, if it failed.
    pub error: Option<String>,
}

impl Record {
    pub fn run(at: DateTime<Utc>, outcome: Outcome) -> Self {
        Self::new(at, RecordKind::Run, "run", outcome)
    }

    pub fn call(at: DateTime<Utc>, tool: &str, outcome: Outcome) -> Self {
        Self::new(at, RecordKind::Call, tool, outcome)
    }

    fn new(at: DateTime<Utc>, kind: RecordKind, tool: &str, outcome: Outcome) -> Self {
        Self {
            at: at.trunc_subsecs(3),
            kind,
            tool: tool.to_owned(),
            chars_in: outcome.chars_in,
            chars_out: outcome.chars_out,
            ms: (outcome.ms * 1000.0).round() / 1000.0,
            calls: 1,
            max_ms: None,
            errors: outcome.error.map(|error| (error, 1)).into_iter().collect(),
            saved: Saved::default(),
        }
    }

    /// Adds what the run saved.
    #[must_use]
    pub fn with_saved(self, saved: Saved) -> Self {
        Self { saved, ..self }
    }

    fn slowest(&self) -> f64 {
        self.max_ms.unwrap_or(self.ms)
    }

    fn failures(&self) -> u64 {
        self.errors.values().sum()
    }

    /// Adds another record of the same tool.
    fn merge(&mut self, other: &Self) {
        self.max_ms = Some(self.slowest().max(other.slowest()));
        self.chars_in += other.chars_in;
        self.chars_out += other.chars_out;
        self.ms += other.ms;
        self.calls += other.calls;
        self.saved.add(other.saved);
        for (error, count) in &other.errors {
            *self.errors.entry(error.clone()).or_default() += count;
        }
    }
}

#[cfg(test)]
mod tests;
