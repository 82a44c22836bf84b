//! Records every call and run in the log, the statistics, the audit log and, if enabled, in traces.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use chrono::Utc;
use onetool_run::activity::{Activity, Beginning, UnderWay};
use onetool_run::{CallOutcome, Recorder, RunOutcome};
use onetool_state::stats::{Outcome, Record, Saved, StatsRecorder};
use parking_lot::Mutex;

use crate::audit::Auditor;
use crate::metrics::Measures;
use crate::telemetry::{Exporter, Span};

/// The savings of a run: the data its calls kept away from the model, and its own cost. A run that failed or made no
/// calls saved nothing.
fn saved(outcome: &RunOutcome<'_>) -> Saved {
    if outcome.is_error || outcome.unsent.bytes == 0 {
        return Saved::default();
    }
    let together = outcome.unsent.call_time.saturating_sub(outcome.steps.execute);
    Saved {
        kept: outcome.unsent.bytes,
        cost: (outcome.command.len() + outcome.chars_out) as u64,
        together_ms: together.as_secs_f64() * 1e3,
    }
}

/// The tool that reads the statistics, which is not counted itself.
const LOOKING: &str = "ot.stats";
/// Maximum number of active runs that have read the statistics.
const MAX_LOOKING: usize = 1_000;

/// Records calls and runs without waiting for a disk.
pub struct CallRecorder {
    stats: Arc<StatsRecorder>,
    /// Active runs that have read the statistics.
    looking: Mutex<HashSet<Arc<str>>>,
    telemetry: Option<Arc<Exporter>>,
    activity: Arc<Activity>,
    measures: Arc<Measures>,
    audit: Auditor,
}

impl CallRecorder {
    pub fn new(
        stats: Arc<StatsRecorder>,
        telemetry: Option<Arc<Exporter>>,
        activity: Arc<Activity>,
        measures: Arc<Measures>,
        audit: Auditor,
    ) -> Self {
        Self { stats, looking: Mutex::default(), telemetry, activity, measures, audit }
    }
}

impl Recorder for CallRecorder {
    fn wants_arguments(&self) -> bool {
        self.activity.is_watched() || self.audit.wants_arguments()
    }

    fn wants_hashes(&self) -> bool {
        self.audit.wants_hashes()
    }

    fn sends_traces(&self) -> bool {
        self.telemetry.is_some()
    }

    fn begin(&self, beginning: &Beginning<'_>) -> Option<UnderWay> {
        self.activity.begin(beginning, crate::log::without_secrets)
    }

    fn call(&self, outcome: &CallOutcome<'_>) {
        let name = outcome.name.to_string();
        let ms = outcome.duration.as_secs_f64() * 1e3;
        // The `ot` pack logs its own spans, with the query.
        if outcome.name.pack != "ot" {
            let trace = outcome.ctx.trace.as_ref().map(|trace| &**trace.trace_id());
            tracing::info!(span = name, run = %outcome.ctx.run_id, trace, duration_ms = ms, outcome = outcome.error.unwrap_or("ok"));
        }
        self.measures.call(outcome);
        self.activity.call(outcome, crate::log::without_secrets);
        self.audit.call(outcome);
        if let Some(telemetry) = &self.telemetry {
            telemetry.record(Span::of_call(outcome));
        }
        if name == LOOKING {
            let mut looking = self.looking.lock();
            // Calls outside a run stay until there are too many.
            if looking.len() >= MAX_LOOKING {
                looking.clear();
            }
            looking.insert(outcome.ctx.run_id.clone());
            return;
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
        let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
        let ms = milliseconds(outcome.duration);
        let steps = &outcome.steps;
        let error = outcome.is_error.then(|| "error".to_owned());
        tracing::info!(
            span = "run",
            run = %outcome.ctx.run_id,
            trace = outcome.ctx.trace.as_ref().map(|trace| &**trace.trace_id()),
            duration_ms = ms,
            prepare_ms = milliseconds(steps.prepare),
            check_ms = milliseconds(steps.check),
            execute_ms = milliseconds(steps.execute),
            present_ms = milliseconds(steps.present),
            outcome = error.as_deref().unwrap_or("ok"),
            chars_in = outcome.command.len(),
            chars_out = outcome.chars_out,
        );
        self.measures.run(outcome);
        self.activity.run(outcome, crate::log::without_secrets);
        self.audit.run(outcome);
        if let Some(telemetry) = &self.telemetry {
            telemetry.record(Span::of_run(outcome));
        }
        let has_looked = self.looking.lock().remove(&outcome.ctx.run_id);
        if has_looked && outcome.unsent.bytes == 0 {
            return;
        }
        self.stats.record(
            Record::run(
                Utc::now(),
                Outcome { chars_in: outcome.command.len() as u64, chars_out: outcome.chars_out as u64, ms, error },
            )
            .with_saved(saved(outcome)),
        );
    }
}
