//! Where our own words go: problems to stderr, everything to a rotated file of JSON lines, and to clients what they ask
//! for. Never to stdout, which belongs to the protocol.
//!
//! A line is one flat object: time, level, `span` (the name of what is going on), the span's fields, the event's fields.
//! Secrets are taken out by value, whoever wrote them.

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

/// Our own crates begin so; what others log is not for clients.
const OURS: &str = "onetool";
/// What servers say.
const SAID: &str = "onetool::said";

/// Every secret that there was since the start.
static SECRETS: LazyLock<RwLock<(BTreeSet<String>, Redactor)>> = LazyLock::new(RwLock::default);
static FILTERS: OnceLock<Filters> = OnceLock::new();
static WRITER: OnceLock<LogWriter> = OnceLock::new();

/// What can be changed while the program runs.
struct Filters {
    file: reload::Handle<Targets, Registry>,
    audience: reload::Handle<Targets, Registry>,
    /// The finest level that any client has asked for.
    asked: Mutex<LevelFilter>,
}

/// Starts logging. A log file that cannot be opened is no reason to stop.
pub fn start(folder: &Path, level: Level) {
    let stderr = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .without_time()
        .with_target(false)
        // What servers say is not a problem of ours, whatever they call it.
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

/// Whether what tools print is shown on stderr as well: in a terminal, where their author looks.
static SHOWS_PRINTS: AtomicBool = AtomicBool::new(false);

/// From now on, what tools print is shown on stderr.
pub fn show_prints() {
    SHOWS_PRINTS.store(true, Ordering::Relaxed);
}

/// Takes a line that a tool printed.
pub fn printed(line: &str) {
    if SHOWS_PRINTS.load(Ordering::Relaxed) {
        // Whoever closed stderr does not want it.
        let _ = writeln!(std::io::stderr().lock(), "{}", redactor().text(line));
    }
}

/// Writes what is still on its way. Called before the process ends.
pub fn flush() {
    if let Some(writer) = WRITER.get() {
        writer.flush();
    }
}

/// The file follows this level from now on.
pub fn set_level(level: Level) {
    if let Some(filters) = FILTERS.get() {
        let _ = filters.file.reload(filter(level));
    }
}

/// From now on none of these is written anywhere. What was secret before stays so.
pub fn hide<'a>(secrets: impl Iterator<Item = &'a str>) {
    let mut known = SECRETS.write();
    let (values, redactor) = &mut *known;
    values.extend(secrets.filter(|secret| secret.len() >= MIN_SECRET).map(str::to_owned));
    *redactor = Redactor::new(values.iter().map(String::as_str));
}

fn redactor() -> Redactor {
    SECRETS.read().1.clone()
}

/// The text without any secret that there was since the start.
pub fn without_secrets(text: String) -> String {
    redactor().owned(text)
}

/// What others log goes to the file from `warn` on.
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
