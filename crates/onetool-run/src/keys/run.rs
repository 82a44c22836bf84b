//! `run`: the engine and its limits.

use std::time::Duration;

use onetool_config::{MAX_KB, MAX_MB, Section, Shape, keys};
use onetool_sandbox::{Engine, FileAccess, Limits};

const DEFAULTS: Limits = Limits::DEFAULT;

keys! {
    /// How code runs: the engine and its limits.
    pub struct RunKeys {
        /// Engine: `auto` runs code in Monty and what Monty cannot run in CPython.
        engine: Engine = Engine::Auto, live;
        /// Seconds that the code itself may compute. Waiting for tools does not count.
        timeout: Duration = DEFAULTS.max_compute, live;
        /// Seconds from start to end, tools included.
        total_timeout: Duration = DEFAULTS.timeout, live;
        /// Memory of a run, in megabytes.
        max_memory_mb: usize [Shape::Count(8, MAX_MB)] = DEFAULTS.max_memory >> 20, live;
        /// Tool calls in one run, at most.
        max_calls: usize = DEFAULTS.max_calls, live;
        /// Depth of recursion, at most.
        max_recursion: usize [Shape::Count(10, 10_000)] = DEFAULTS.max_recursion, live;
        /// Size of the code, in kilobytes.
        max_source_kb: usize [Shape::Count(1, MAX_KB)] = DEFAULTS.max_source >> 10, live;
        /// Printed text that is kept, in kilobytes.
        max_printed_kb: usize [Shape::Count(0, MAX_KB)] = DEFAULTS.max_printed >> 10, live;
        /// Length of an error, in kilobytes; longer ones are cut.
        max_error_kb: usize [Shape::Count(1, MAX_KB)] = 16, live;
        /// Refuse calls that cannot work before anything runs.
        type_check: bool = true, live;
        /// Interpreters that are started right away and kept ready.
        prewarm: usize [Shape::Count(0, 64)] = 1, restart;
        /// Interpreters at once, at most.
        max_parallel: usize [Shape::Count(1, 1024)] = 16, restart;
        /// Runs that may wait for an interpreter; more are refused.
        max_waiting: usize [Shape::Count(0, 1_000_000)] = 1024, restart;
        /// Seconds that a run waits for an interpreter.
        max_wait: Duration = Duration::from_mins(1), restart;
        /// Python for code that needs CPython: a file, or a version for uv to find. Without it, the first `python3` in PATH that is new enough.
        python: Option<String> = None, live, example "/usr/bin/python3";
        /// Run CPython where the system cannot confine it.
        allow_unconfined: bool = false, live;
        /// Keep a warm Python that each run forks, instead of starting one per run.
        zygote: bool = true, live;
        /// What code may do with files, through the file pack: `full`, `read` or `off`.
        files: FileAccess = FileAccess::Full, live;
    }
}

pub const RUN: Section<RunKeys> = Section::new("run");

impl RunKeys {
    pub fn limits(&self) -> Limits {
        Limits {
            max_compute: self.timeout,
            timeout: self.total_timeout,
            max_memory: self.max_memory_mb << 20,
            max_calls: self.max_calls,
            max_recursion: self.max_recursion,
            max_printed: self.max_printed_kb << 10,
            max_source: self.max_source_kb << 10,
            ..DEFAULTS
        }
    }
}
