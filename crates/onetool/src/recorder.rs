//! Every call and every run, in the log and in the statistics.

use onetool_run::{CallOutcome, Recorder, RunOutcome};

/// Writes calls and runs to the log.
pub struct CallLog;

impl Recorder for CallLog {
    fn call(&self, outcome: &CallOutcome<'_>) {
        let span = outcome.name.to_string();
        tracing::info!(
            span,
            run = %outcome.ctx.run_id,
            ms = outcome.duration.as_secs_f64() * 1000.0,
            outcome = outcome.error.unwrap_or("ok"),
            "call"
        );
    }

    fn run(&self, outcome: &RunOutcome<'_>) {
        tracing::info!(
            span = "run",
            run = %outcome.ctx.run_id,
            ms = outcome.duration.as_secs_f64() * 1000.0,
            outcome = if outcome.is_error { "error" } else { "ok" },
            "run"
        );
    }
}
