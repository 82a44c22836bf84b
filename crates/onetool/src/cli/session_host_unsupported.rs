//! Replaces the session host where full Python is not supported.

use std::process::ExitCode;

use onetool_run::RunReply;
use onetool_sdk::ProgressSink;

use super::Location;

#[expect(clippy::unused_async, reason = "the same signature as where it is supported")]
pub async fn ask(_: Location, _: &str, _: &str, _: &dyn ProgressSink) -> anyhow::Result<Option<RunReply>> {
    anyhow::bail!("--session needs full Python, which is not supported on this system")
}

#[expect(clippy::unused_async, reason = "the same signature as where it is supported")]
pub async fn serve(_: Location) -> anyhow::Result<ExitCode> {
    anyhow::bail!("--session needs full Python, which is not supported on this system")
}
