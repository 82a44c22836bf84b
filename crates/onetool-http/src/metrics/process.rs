//! Metrics of this process, as reported by the system.

use std::sync::LazyLock;
use std::time::{SystemTime, UNIX_EPOCH};

use super::{Kind, Metrics};

static STARTED: LazyLock<f64> =
    LazyLock::new(|| SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64());

/// Adds the metrics of the process, including its start time.
pub(crate) fn process(metrics: &mut Metrics) {
    metrics
        .family(Kind::Gauge, "onetool_build_info", "The version that runs; always 1.")
        .add(vec![("version", env!("CARGO_PKG_VERSION").to_owned())], 1.0);
    metrics
        .family(Kind::Gauge, "process_start_time_seconds", "When the server started, in seconds since 1970.")
        .add(Vec::new(), *STARTED);
    if let Some(bytes) = resident() {
        metrics.number(
            Kind::Gauge,
            "process_resident_memory_bytes",
            "Memory of the server without its children.",
            bytes,
        );
    }
    if let Ok(open) = std::fs::read_dir("/proc/self/fd") {
        metrics.number(Kind::Gauge, "process_open_fds", "Open file descriptors.", open.count() as u64);
    }
}

#[cfg(unix)]
fn resident() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

#[cfg(not(unix))]
fn resident() -> Option<u64> {
    None
}

/// Called at the start of the server.
pub(crate) fn started() {
    LazyLock::force(&STARTED);
}
