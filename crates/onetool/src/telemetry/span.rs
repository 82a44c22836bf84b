//! A run or a call as a span in OTLP's JSON encoding.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use onetool_run::{CallOutcome, RunOutcome};
use onetool_sdk::CallContext;
use serde_json::{Value as Json, json};

/// OTLP's numbers for kinds of spans.
const INTERNAL: u8 = 1;
const SERVER: u8 = 2;
/// OTLP's number for a failed span.
const FAILED: u8 = 2;
/// OTLP's number for a span without a known error.
const UNSET: u8 = 0;

/// A finished run or call.
#[derive(Debug, Clone)]
pub struct Span {
    trace: Arc<str>,
    id: Option<NonZeroU64>,
    parent: Option<NonZeroU64>,
    name: String,
    kind: u8,
    end: SystemTime,
    duration: Duration,
    error: Option<String>,
    attributes: Vec<(&'static str, Attribute)>,
}

#[derive(Debug, Clone)]
enum Attribute {
    Text(String),
    Count(usize),
}

impl Span {
    pub fn of_run(outcome: &RunOutcome<'_>) -> Self {
        Self {
            error: outcome.is_error.then(|| "error".to_owned()),
            ..Self::new("run".to_owned(), SERVER, outcome.duration, outcome.ctx)
        }
        .with(sizes(outcome.command.len(), outcome.chars_out))
    }

    pub fn of_call(outcome: &CallOutcome<'_>) -> Self {
        let name = outcome.name.to_string();
        let mut attributes = sizes(outcome.chars_in, outcome.chars_out);
        attributes.push(("gen_ai.operation.name", Attribute::Text("execute_tool".to_owned())));
        attributes.push(("gen_ai.tool.name", Attribute::Text(name.clone())));
        Self { error: outcome.error.map(str::to_owned), ..Self::new(name, INTERNAL, outcome.duration, outcome.ctx) }
            .with(attributes)
    }

    fn new(name: String, kind: u8, duration: Duration, ctx: &CallContext) -> Self {
        Self {
            trace: ctx.trace.as_ref().map_or_else(|| ctx.run_id.clone(), |trace| trace.trace_id().clone()),
            id: ctx.span.id,
            parent: ctx.span.parent,
            name,
            kind,
            end: SystemTime::now(),
            duration,
            error: None,
            attributes: vec![("onetool.run_id", Attribute::Text(ctx.run_id.to_string()))],
        }
    }

    fn with(mut self, more: Vec<(&'static str, Attribute)>) -> Self {
        self.attributes.extend(more);
        self
    }

    pub(super) fn to_json(&self) -> Json {
        let end = self.end.duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut attributes: Vec<Json> = self
            .attributes
            .iter()
            .map(|(key, value)| match value {
                Attribute::Text(text) => attribute(key, text),
                Attribute::Count(count) => json!({"key": key, "value": {"intValue": count.to_string()}}),
            })
            .collect();
        attributes.extend(self.error.iter().map(|error| attribute("error.type", error)));
        let mut span = json!({
            "traceId": &*self.trace,
            "spanId": hex(self.id),
            "name": self.name,
            "kind": self.kind,
            "startTimeUnixNano": end.saturating_sub(self.duration).as_nanos().to_string(),
            "endTimeUnixNano": end.as_nanos().to_string(),
            "attributes": attributes,
            "status": {"code": if self.error.is_some() { FAILED } else { UNSET }},
        });
        if self.parent.is_some() {
            span["parentSpanId"] = hex(self.parent).into();
        }
        span
    }
}

fn sizes(chars_in: usize, chars_out: usize) -> Vec<(&'static str, Attribute)> {
    vec![("onetool.chars_in", Attribute::Count(chars_in)), ("onetool.chars_out", Attribute::Count(chars_out))]
}

pub(super) fn attribute(key: &str, text: &str) -> Json {
    json!({"key": key, "value": {"stringValue": text}})
}

fn hex(id: Option<NonZeroU64>) -> String {
    format!("{:016x}", id.map_or(0, NonZeroU64::get))
}
