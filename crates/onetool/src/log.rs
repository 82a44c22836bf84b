//! Where our own words go: problems to stderr, everything to a rotated file of JSON lines. Never to stdout, which
//! belongs to the protocol.
//!
//! A line is one flat object: time, level, `span` (the name of what is going on), the span's fields, the event's fields.
//! Secrets are taken out by value, whoever wrote them.

use std::fmt::Debug;
use std::path::Path;
use std::sync::OnceLock;

use onetool_store::logs::LogWriter;
use serde_json::{Map, Value as Json};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer};

/// A field's text in a line at the most.
const MAX_FIELD: usize = 4 << 10;
/// Secrets shorter than this would redact ordinary text.
const MIN_SECRET: usize = 6;

/// Starts logging. A log file that cannot be opened is no reason to stop.
pub fn start<'a>(folder: &Path, level: &str, secrets: impl Iterator<Item = &'a str>) {
    let level = match level {
        "debug" | "trace" | "info" | "warn" | "error" => level,
        "warning" => "warn",
        "critical" => "error",
        _ => "info",
    };
    let filter = EnvFilter::try_new(format!(
        "warn,onetool={level},onetool_run={level},onetool_sources={level},onetool_store={level},onetool_sandbox={level}"
    ))
    .unwrap_or_else(|_| EnvFilter::new("warn"));
    let stderr = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .without_time()
        .with_target(false)
        .with_filter(EnvFilter::new("onetool=error"));
    let file = LogWriter::start(folder, "onetool.log").ok().map(|writer| {
        let writer = WRITER.get_or_init(|| writer);
        let secrets = secrets.filter(|secret| secret.len() >= MIN_SECRET).map(str::to_owned).collect();
        JsonLines { writer, secrets }.with_filter(filter)
    });
    let _ = tracing_subscriber::registry().with(stderr).with(file).try_init();
}

static WRITER: OnceLock<LogWriter> = OnceLock::new();

/// Writes what is still on its way. Called before the process ends.
pub fn flush() {
    if let Some(writer) = WRITER.get() {
        writer.flush();
    }
}

struct JsonLines {
    writer: &'static LogWriter,
    secrets: Vec<String>,
}

struct SpanFields(Map<String, Json>);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for JsonLines {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, ctx: Context<'_, S>) {
        if let Some(span) = ctx.span(id) {
            let mut fields = Fields::default();
            attributes.record(&mut fields);
            span.extensions_mut().insert(SpanFields(fields.0));
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, ctx: Context<'_, S>) {
        if let Some(span) = ctx.span(id)
            && let Some(SpanFields(known)) = span.extensions_mut().get_mut::<SpanFields>()
        {
            let mut fields = Fields::default();
            values.record(&mut fields);
            known.extend(fields.0);
        }
    }

    fn on_event(&self, event: &Event<'_>, ctx: Context<'_, S>) {
        let mut line = Map::new();
        let now = chrono::Utc::now().to_rfc3339_opts(chrono::SecondsFormat::Millis, true);
        line.insert("ts".to_owned(), now.into());
        line.insert("level".to_owned(), event.metadata().level().as_str().to_lowercase().into());
        if let Some(span) = ctx.event_span(event) {
            line.insert("span".to_owned(), span.name().into());
            if let Some(SpanFields(fields)) = span.extensions().get::<SpanFields>() {
                line.extend(fields.clone());
            }
        }
        let mut fields = Fields::default();
        event.record(&mut fields);
        line.extend(fields.0);
        let mut text = Json::Object(line).to_string();
        for secret in &self.secrets {
            if text.contains(secret.as_str()) {
                text = text.replace(secret.as_str(), "[REDACTED]");
            }
        }
        text.push('\n');
        self.writer.line(text);
    }
}

#[derive(Default)]
struct Fields(Map<String, Json>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.record_str(field, &format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        let text: String = value.chars().take(MAX_FIELD).collect();
        self.0.insert(field.name().to_owned(), text.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.0.insert(field.name().to_owned(), ((value * 1000.0).round() / 1000.0).into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}
