//! One span per call, named `ot.{function}`, closed by one line with duration and outcome.

use std::time::Instant;

use onetool_sdk::ToolError;
use tracing::Instrument as _;

/// Runs a call inside its span and logs how it ended.
pub(super) async fn observed<T>(
    span: tracing::Span,
    call: impl Future<Output = Result<T, ToolError>>,
) -> Result<T, ToolError> {
    async {
        let started = Instant::now();
        let result = call.await;
        let duration_ms = started.elapsed().as_secs_f64() * 1e3;
        match &result {
            Ok(_) => tracing::info!(duration_ms, outcome = "ok", "done"),
            Err(error) => tracing::info!(duration_ms, outcome = "error", error = error.exception(), "failed"),
        }
        result
    }
    .instrument(span)
    .await
}
