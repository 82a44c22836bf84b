//! Spans of runs and calls, and metrics, for OpenTelemetry: OTLP over HTTP, as JSON.
//!
//! A run is a trace with the same id, unless the request is already part of one; a call is a child of the run, or of
//! the call that made it. Nothing waits for the collector: spans are queued, sent in batches in the background, and
//! dropped if there are too many. Spans contain names, sizes and times, but no inputs or outputs.
//!
//! The exporter is our own: it needs only a few JSON objects and the HTTP client that is already there, while
//! `opentelemetry-otlp` adds some forty crates to every build and a second metrics registry.

mod exporter;
mod metrics;
mod settings;
mod span;

pub use exporter::Exporter;
pub use settings::{TELEMETRY, TelemetrySettings};
pub use span::Span;
