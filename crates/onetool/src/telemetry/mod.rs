//! Spans of runs and calls for OpenTelemetry: OTLP over HTTP, as JSON.
//!
//! The run is the trace (its id is the trace's id); a call is a child of the run, or of the call that made it. Nothing
//! waits for the collector: spans are queued, sent in batches in the background, and dropped where there are too many.
//! What was asked and answered is not told, only names, sizes and times.

mod exporter;
mod settings;
mod span;

pub use exporter::Exporter;
pub use settings::{TELEMETRY, TelemetrySettings};
pub use span::Span;
