//! Where our own words go: problems to stderr, everything to a rotated file of JSON lines. Never to stdout, which
//! belongs to the protocol.

use std::path::Path;
use std::sync::Mutex;

use onetool_store::logs::RotatingFile;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _};

/// Starts logging. A log file that cannot be opened is no reason to stop.
pub fn start(folder: &Path, level: &str) {
    let filter = |level: &str| {
        EnvFilter::try_new(format!("warn,onetool={level},onetool_run={level},onetool_sources={level},onetool_store={level}"))
            .unwrap_or_else(|_| EnvFilter::new("warn"))
    };
    let level = match level {
        "debug" | "trace" | "info" | "warn" | "error" => level,
        "warning" => "warn",
        "critical" => "error",
        _ => "info",
    };
    let stderr = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .without_time()
        .with_target(false)
        .with_filter(EnvFilter::new("error"));
    let file = RotatingFile::open(folder, "onetool.log").ok().map(|file| {
        tracing_subscriber::fmt::layer()
            .json()
            .flatten_event(true)
            .with_current_span(false)
            .with_span_list(false)
            .with_writer(Mutex::new(file))
            .with_filter(filter(level))
    });
    let _ = tracing_subscriber::registry().with(stderr).with(file).try_init();
}
