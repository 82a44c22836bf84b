//! `ot.version`: which OneTool this is.

use onetool_sdk::{Tool, define_tool};
use schemars::JsonSchema;
use serde::Deserialize;
use tracing::info_span;

use super::span::observed;

pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {}

pub(super) fn tool() -> Tool {
    define_tool("version", "The version of OneTool.", |_: Input, _| {
        observed(info_span!("ot.version"), async { Ok(VERSION) })
    })
    .with_returns("str", "the version")
    .with_example("ot.version()")
}
