//! Metrics of runs, calls and the parts behind them, for `/metrics` and for collectors.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use onetool_http::metrics::{Histogram, Kind, MAX_LABELS, Metrics, OTHER};
use onetool_run::{CallOutcome, RunOutcome};
use onetool_sandbox::Census;
use onetool_sdk::{ErrorKind, ToolSource as _};
use parking_lot::RwLock;

use crate::assemble::App;

/// Counts runs and calls since the start of the process; survives a reload.
#[derive(Default)]
pub struct Measures {
    runs: [AtomicU64; 2],
    run_time: Histogram,
    packs: RwLock<HashMap<String, Arc<PackMeasures>>>,
}

/// The calls of one pack.
#[derive(Default)]
struct PackMeasures {
    /// By outcome, in the order of [`OUTCOMES`].
    outcomes: [AtomicU64; OUTCOMES.len()],
    time: Histogram,
}

const OUTCOMES: [&str; 14] = [
    "ok",
    "not_found",
    "arguments",
    "denied",
    "rate_limited",
    "timeout",
    "cancelled",
    "unavailable",
    "upstream",
    "raised",
    "output",
    "too_large",
    "conflict",
    "internal",
];

fn outcome(kind: &ErrorKind) -> usize {
    match kind {
        ErrorKind::NotFound => 1,
        ErrorKind::Arguments => 2,
        ErrorKind::Denied => 3,
        ErrorKind::RateLimited { .. } => 4,
        ErrorKind::Timeout => 5,
        ErrorKind::Cancelled => 6,
        ErrorKind::Unavailable => 7,
        ErrorKind::Upstream { .. } => 8,
        ErrorKind::Raised { .. } => 9,
        ErrorKind::Output => 10,
        ErrorKind::TooLarge => 11,
        ErrorKind::Conflict => 12,
        ErrorKind::Internal => 13,
    }
}

impl Measures {
    pub fn run(&self, run: &RunOutcome<'_>) {
        self.runs[usize::from(run.is_error)].fetch_add(1, Ordering::Relaxed);
        self.run_time.add(run.duration);
    }

    pub fn call(&self, call: &CallOutcome<'_>) {
        // Code may call packs that do not exist, which must not fill the table.
        let is_unknown = call.failure.is_some_and(|failure| failure.kind == ErrorKind::NotFound);
        let pack = self.pack(&call.name.pack, is_unknown);
        pack.outcomes[call.failure.map_or(0, |failure| outcome(&failure.kind))].fetch_add(1, Ordering::Relaxed);
        pack.time.add(call.duration);
    }

    fn pack(&self, name: &str, is_unknown: bool) -> Arc<PackMeasures> {
        if let Some(pack) = self.packs.read().get(name) {
            return pack.clone();
        }
        let mut packs = self.packs.write();
        let name = if is_unknown || packs.len() >= MAX_LABELS { OTHER } else { name };
        packs.entry(name.to_owned()).or_default().clone()
    }

    #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
    fn measure(&self, metrics: &mut Metrics) {
        let mut runs = metrics.family(Kind::Counter, "onetool_runs_total", "Runs that have ended, by outcome.");
        for (outcome, count) in ["ok", "error"].iter().zip(&self.runs) {
            runs.count("outcome", outcome, count.load(Ordering::Relaxed));
        }
        metrics
            .family(Kind::Histogram, "onetool_run_duration_seconds", "Time of runs, from the command to the reply.")
            .distribution(Vec::new(), &self.run_time);
        let mut packs: Vec<_> = self.packs.read().iter().map(|(name, pack)| (name.clone(), pack.clone())).collect();
        packs.sort_by(|(a, _), (b, _)| a.cmp(b));
        let mut calls = metrics.family(Kind::Counter, "onetool_calls_total", "Calls of tools, by pack and outcome.");
        let mut errors = 0;
        for (name, pack) in &packs {
            for (outcome, count) in OUTCOMES.iter().zip(&pack.outcomes) {
                let count = count.load(Ordering::Relaxed);
                errors += if *outcome == "ok" { 0 } else { count };
                // Outcomes that never happened are left out, except `ok`.
                if count > 0 || *outcome == "ok" {
                    calls.add(vec![("outcome", (*outcome).to_owned()), ("pack", name.clone())], count as f64);
                }
            }
        }
        metrics.number(Kind::Counter, "onetool_call_errors_total", "Calls of tools that failed.", errors);
        let mut times =
            metrics.family(Kind::Histogram, "onetool_call_duration_seconds", "Time of calls of tools, by pack.");
        for (name, pack) in &packs {
            times.distribution(vec![("pack", name.clone())], &pack.time);
        }
    }
}

impl App {
    /// Adds all metrics of this program.
    pub(crate) fn add_measures(&self, metrics: &mut Metrics) {
        self.measures().measure(metrics);
        let mut children =
            metrics.family(Kind::Gauge, "onetool_sandbox_children", "Processes that run code, by engine and state.");
        let census = self.runner.sandbox().census();
        for (engine, Census { busy, idle, zygotes, sessions, .. }) in &census {
            for (state, count) in [("busy", busy), ("idle", idle), ("zygote", zygotes), ("session", sessions)] {
                let labels = vec![("engine", (*engine).to_owned()), ("state", state.to_owned())];
                #[expect(clippy::cast_precision_loss, reason = "there are few processes")]
                children.add(labels, *count as f64);
            }
        }
        let mut waiting = metrics.family(Kind::Gauge, "onetool_sandbox_waiting", "Runs that wait for a sandbox.");
        for (engine, census) in &census {
            waiting.count("engine", engine, census.waiting as u64);
        }
        let workers = self.workers();
        let running = workers.running().len();
        let mut family = metrics.family(Kind::Gauge, "onetool_workers", "Packs of Python tools, by state.");
        family.count("state", "running", running as u64);
        family.count("state", "idle", workers.packs().len().saturating_sub(running) as u64);
        let servers = self.servers().status();
        let mut family =
            metrics.family(Kind::Gauge, "onetool_upstream_servers", "MCP servers behind this one, by state.");
        for state in ["connected", "connecting", "disconnected", "disabled"] {
            family.count("state", state, servers.iter().filter(|server| server.state.as_str() == state).count() as u64);
        }
        self.add_state(metrics);
    }

    fn add_state(&self, metrics: &mut Metrics) {
        let bundles = self.bundles();
        let is_up = u64::from(!bundles.store.is_cut_off());
        metrics.number(Kind::Gauge, "onetool_state_up", "Whether the shared state can be reached.", is_up);
        let Some(pool) = self.state_pool() else { return };
        let mut family =
            metrics.family(Kind::Gauge, "onetool_state_pool_connections", "Connections to PostgreSQL, by state.");
        family.count("state", "open", pool.open as u64);
        family.count("state", "idle", pool.idle as u64);
        family.count("state", "max", pool.max as u64);
        metrics.number(
            Kind::Gauge,
            "onetool_state_pool_waiting",
            "Calls that wait for a connection to PostgreSQL.",
            pool.waiting as u64,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packs_beyond_the_limit_and_unknown_ones_count_together() {
        let measures = Measures::default();
        for n in 0..2 * MAX_LABELS {
            measures.pack(&format!("pack{n}"), false);
            measures.pack(&format!("typo{n}"), true);
        }
        let packs = measures.packs.read();
        assert!(packs.contains_key(OTHER) && packs.contains_key("pack0") && !packs.contains_key("typo0"));
        assert_eq!(packs.len(), MAX_LABELS);
    }
}
