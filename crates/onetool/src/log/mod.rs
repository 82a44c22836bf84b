//! Logging: problems to stderr, everything to a rotated file of JSON lines, and to clients what they request. Never to
//! stdout, which is reserved for the protocol.
//!
//! A line is one flat object: time, level, `span` (the name of the operation), the span's fields, the event's fields.
//! Secrets are redacted by value, whoever logs them.

mod audience;
mod lines;

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, OnceLock};

use onetool_config::{Effect, Section, choices};
use onetool_sdk::Redactor;
use onetool_state::logs::LogWriter;
use parking_lot::{Mutex, RwLock};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer as _, Registry, reload};

pub use audience::listen;

use audience::Audience;
use lines::JsonLines;

/// How much is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Level {
    Trace,
    Debug,
    #[default]
    Info,
    Warn,
    Error,
}

choices!(Level {
    "trace" => Trace,
    "debug" => Debug,
    "info" => Info,
    "warn" => Warn,
    "error" => Error,
    "warning" => Warn,
    "critical" => Error,
});

pub const LOG_LEVEL: Section<Level> = Section::new("log_level").with_doc("Least severity that is logged.");

pub const LOG_DIR: Section<String> = Section::new_or("log_dir", || "logs".to_owned())
    .with_doc("Folder of the logs, relative to .onetool.")
    .with_effect(Effect::Restart);

/// Secrets shorter than this would redact ordinary text.
const MIN_SECRET: usize = 6;

/// Prefix of our own crates; messages of others are not for clients.
const OURS: &str = "onetool";
/// Target of messages from servers.
const SAID: &str = "onetool::said";

/// Every secret since the start.
static SECRETS: LazyLock<RwLock<(BTreeSet<String>, Redactor)>> = LazyLock::new(RwLock::default);
static FILTERS: OnceLock<Filters> = OnceLock::new();
static WRITER: OnceLock<LogWriter> = OnceLock::new();

/// Filters that can be changed while the program runs.
struct Filters {
    file: reload::Handle<Targets, Registry>,
    audience: reload::Handle<Targets, Registry>,
    /// The most detailed level that any client has requested.
    asked: Mutex<LevelFilter>,
}

/// Starts logging. A log file that cannot be opened is not fatal.
pub fn start(folder: &Path, level: Level) {
    let stderr = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .without_time()
        .with_target(false)
        // Messages of servers are not our problems, whatever their level.
        .with_filter(Targets::new().with_target(OURS, LevelFilter::ERROR).with_target(SAID, LevelFilter::OFF));
    let (file_filter, file_handle) = reload::Layer::new(filter(level));
    let (audience_filter, audience_handle) = reload::Layer::new(Targets::new());
    let mut layers = vec![stderr.boxed(), Audience.with_filter(audience_filter).boxed()];
    if let Ok(writer) = LogWriter::start(folder, "onetool.log") {
        layers.push(JsonLines { writer: WRITER.get_or_init(|| writer) }.with_filter(file_filter).boxed());
    }
    let started = tracing_subscriber::registry().with(layers).try_init().is_ok();
    if started {
        let _ =
            FILTERS.set(Filters { file: file_handle, audience: audience_handle, asked: Mutex::new(LevelFilter::OFF) });
    }
}

/// Whether output of tools is shown on stderr as well, for their author in a terminal.
static SHOWS_PRINTS: AtomicBool = AtomicBool::new(false);

/// Shows output of tools on stderr from now on.
pub fn show_prints() {
    SHOWS_PRINTS.store(true, Ordering::Relaxed);
}

/// Handles a line that a tool printed.
pub fn printed(line: &str) {
    if SHOWS_PRINTS.load(Ordering::Relaxed) {
        // Ignored if stderr is closed.
        let _ = writeln!(std::io::stderr().lock(), "{}", redactor().text(line));
    }
}

/// Writes pending lines. Called before the process ends.
pub fn flush() {
    if let Some(writer) = WRITER.get() {
        writer.flush();
    }
}

/// Sets the level of the log file.
pub fn set_level(level: Level) {
    if let Some(filters) = FILTERS.get() {
        let _ = filters.file.reload(filter(level));
    }
}

/// Redacts these secrets from now on. Earlier ones stay redacted.
pub fn hide<'a>(secrets: impl Iterator<Item = &'a str>) {
    let mut known = SECRETS.write();
    let (values, redactor) = &mut *known;
    values.extend(secrets.filter(|secret| secret.len() >= MIN_SECRET).map(str::to_owned));
    *redactor = Redactor::new(values.iter().map(String::as_str));
}

fn redactor() -> Redactor {
    SECRETS.read().1.clone()
}

/// Redacts every secret since the start.
pub fn without_secrets(text: String) -> String {
    redactor().owned(text)
}

/// Messages of other crates go to the file from `warn` on.
fn filter(level: Level) -> Targets {
    let level = match level {
        Level::Trace => LevelFilter::TRACE,
        Level::Debug => LevelFilter::DEBUG,
        Level::Info => LevelFilter::INFO,
        Level::Warn => LevelFilter::WARN,
        Level::Error => LevelFilter::ERROR,
    };
    Targets::new().with_default(LevelFilter::WARN).with_target(OURS, level)
}
