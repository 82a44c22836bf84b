//! Formats an event as one JSON object on one line of the log file.

use std::fmt::Debug;

use onetool_run::LoggedCall;
use onetool_state::logs::LogWriter;
use serde_json::Value as Json;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

/// Maximum length of a field.
const MAX_FIELD: usize = 4 << 10;
/// Initial capacity, enough for most lines.
const LINE_BYTES: usize = 512;

pub(super) struct JsonLines {
    pub(super) writer: &'static LogWriter,
}

struct SpanFields(Vec<(&'static str, Json)>);

/// Stores the fields of a new span.
pub(super) fn begin<S: Subscriber + for<'a> LookupSpan<'a>>(
    attributes: &Attributes<'_>,
    id: &Id,
    ctx: &Context<'_, S>,
) {
    if let Some(span) = ctx.span(id) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        // Two layers may store the same fields.
        span.extensions_mut().replace(SpanFields(fields.0));
    }
}

/// Stores fields that a span records later.
pub(super) fn add<S: Subscriber + for<'a> LookupSpan<'a>>(id: &Id, values: &Record<'_>, ctx: &Context<'_, S>) {
    if let Some(span) = ctx.span(id)
        && let Some(SpanFields(known)) = span.extensions_mut().get_mut::<SpanFields>()
    {
        let mut fields = Fields::default();
        values.record(&mut fields);
        for (name, value) in fields.0 {
            put(known, name, value);
        }
    }
}

/// Sets a field; a repeated name replaces the value in place. There are only a few.
fn put(fields: &mut Vec<(&'static str, Json)>, name: &'static str, value: Json) {
    match fields.iter_mut().find(|(known, _)| *known == name) {
        Some(field) => field.1 = value,
        None => fields.push((name, value)),
    }
}

/// Formats the event as JSON, without secrets.
pub(super) fn line<S: Subscriber + for<'a> LookupSpan<'a>>(event: &Event<'_>, ctx: &Context<'_, S>) -> String {
    let mut fields = Fields(Vec::with_capacity(16));
    let now = chrono::Utc::now().to_rfc3339_opts(chrono::SecondsFormat::Millis, true);
    fields.0.push(("ts", now.into()));
    fields.0.push(("level", level(event).into()));
    // The `ot` pack has its own spans, with the query.
    let is_told = LoggedCall::with_current(|call| {
        if call.tool.pack == "ot" {
            return false;
        }
        fields.0.push(("span", "call".into()));
        fields.0.push(("run", (*call.run).into()));
        fields.0.push(("tool", call.tool.to_string().into()));
        true
    });
    if is_told != Some(true)
        && let Some(span) = ctx.event_span(event)
    {
        put(&mut fields.0, "span", span.name().into());
        if let Some(SpanFields(known)) = span.extensions().get::<SpanFields>() {
            for (name, value) in known {
                put(&mut fields.0, name, value.clone());
            }
        }
    }
    event.record(&mut fields);
    let redactor = super::redactor();
    let mut line = String::with_capacity(LINE_BYTES);
    for (name, value) in fields.0 {
        line.push(if line.is_empty() { '{' } else { ',' });
        // Field names are ours, and need no escaping.
        line.extend(["\"", name, "\":"]);
        match redactor.json(value) {
            Json::String(text) => push_text(&mut line, &text),
            other => line.push_str(&other.to_string()),
        }
    }
    line.push('}');
    line
}

fn level(event: &Event<'_>) -> &'static str {
    match *event.metadata().level() {
        Level::ERROR => "error",
        Level::WARN => "warn",
        Level::INFO => "info",
        Level::DEBUG => "debug",
        Level::TRACE => "trace",
    }
}

/// Appends text as JSON.
fn push_text(line: &mut String, text: &str) {
    if text.bytes().all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\') {
        line.extend(["\"", text, "\""]);
    } else {
        line.push_str(&Json::from(text).to_string());
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for JsonLines {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, ctx: Context<'_, S>) {
        begin(attributes, id, &ctx);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, ctx: Context<'_, S>) {
        add(id, values, &ctx);
    }

    fn on_event(&self, event: &Event<'_>, ctx: Context<'_, S>) {
        let mut text = line(event, &ctx);
        text.push('\n');
        self.writer.line(&text);
    }
}

#[derive(Default)]
struct Fields(Vec<(&'static str, Json)>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.record_str(field, &format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        let end = if value.len() <= MAX_FIELD { value.len() } else { value.floor_char_boundary(MAX_FIELD) };
        put(&mut self.0, field.name(), value[..end].into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        put(&mut self.0, field.name(), value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        put(&mut self.0, field.name(), value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        put(&mut self.0, field.name(), ((value * 1000.0).round() / 1000.0).into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        put(&mut self.0, field.name(), value.into());
    }
}
