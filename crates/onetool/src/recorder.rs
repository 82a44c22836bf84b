//! Every call and every run, in the log and in the statistics.

use std::sync::Arc;

use chrono::Utc;
use onetool_run::{CallOutcome, Recorder, RunOutcome};
use onetool_store::stats::{Outcome, Record, StatsRecorder};

/// Writes calls and runs down. Neither waits for a disk.
pub struct CallRecorder {
    stats: Arc<StatsRecorder>,
}

impl CallRecorder {
    pub fn new(stats: Arc<StatsRecorder>) -> Self {
        Self { stats }
    }
}

impl Recorder for CallRecorder {
    fn call(&self, outcome: &CallOutcome<'_>) {
        let name = outcome.name.to_string();
        let ms = outcome.duration.as_secs_f64() * 1e3;
        // The `ot` pack logs its own spans, with what was asked.
        if outcome.name.pack != "ot" {
            tracing::info!(span = name, run = %outcome.ctx.run_id, duration_ms = ms, outcome = outcome.error.unwrap_or("ok"));
        }
        self.stats.record(Record::call(
            Utc::now(),
            &name,
            Outcome {
                chars_in: outcome.chars_in as u64,
                chars_out: outcome.chars_out as u64,
                ms,
                error: outcome.error.map(str::to_owned),
            },
        ));
    }

    fn run(&self, outcome: &RunOutcome<'_>) {
        let ms = outcome.duration.as_secs_f64() * 1e3;
        let error = outcome.is_error.then(|| "error".to_owned());
        tracing::info!(
            span = "run",
            run = %outcome.ctx.run_id,
            duration_ms = ms,
            outcome = error.as_deref().unwrap_or("ok"),
            chars_in = outcome.command.len(),
            chars_out = outcome.chars_out,
        );
        self.stats.record(Record::run(
            Utc::now(),
            Outcome { chars_in: outcome.command.len() as u64, chars_out: outcome.chars_out as u64, ms, error },
        ));
    }
}
