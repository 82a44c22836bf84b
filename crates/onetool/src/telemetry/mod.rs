//! Spans of runs and calls, and measurements, for OpenTelemetry: OTLP over HTTP, as JSON.
//!
//! The run is the trace (its id is the trace's id), unless the request came with one: then the run is a part of that; a call is a child of the run, or of the call that made it. Nothing
//! waits for the collector: spans are queued, sent in batches in the background, and dropped where there are too many.
//! What was asked and answered is not told, only names, sizes and times.
//!
//! The exporter is our own: all that is needed of the protocol are a few JSON objects and the HTTP client that is there
//! anyway, while `opentelemetry-otlp` brings some forty crates into every build and a second registry of metrics.

mod exporter;
mod metrics;
mod settings;
mod span;

pub use exporter::Exporter;
pub use settings::{TELEMETRY, TelemetrySettings};
pub use span::Span;
