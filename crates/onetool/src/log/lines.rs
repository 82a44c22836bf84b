//! One event, one JSON object, one line of the log file.

use std::fmt::Debug;

use onetool_state::logs::LogWriter;
use serde_json::{Map, Value as Json};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

/// A field's text in a line at most.
const MAX_FIELD: usize = 4 << 10;

pub(super) struct JsonLines {
    pub(super) writer: &'static LogWriter,
}

struct SpanFields(Map<String, Json>);

/// Remembers what a new span says.
pub(super) fn begin<S: Subscriber + for<'a> LookupSpan<'a>>(
    attributes: &Attributes<'_>,
    id: &Id,
    ctx: &Context<'_, S>,
) {
    if let Some(span) = ctx.span(id) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        // Two layers may remember the same.
        span.extensions_mut().replace(SpanFields(fields.0));
    }
}

/// Remembers what a span says later.
pub(super) fn add<S: Subscriber + for<'a> LookupSpan<'a>>(id: &Id, values: &Record<'_>, ctx: &Context<'_, S>) {
    if let Some(span) = ctx.span(id)
        && let Some(SpanFields(known)) = span.extensions_mut().get_mut::<SpanFields>()
    {
        let mut fields = Fields::default();
        values.record(&mut fields);
        known.extend(fields.0);
    }
}

/// The event as JSON text, without secrets.
pub(super) fn line<S: Subscriber + for<'a> LookupSpan<'a>>(event: &Event<'_>, ctx: &Context<'_, S>) -> String {
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
    super::redactor().json(Json::Object(line)).to_string()
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
