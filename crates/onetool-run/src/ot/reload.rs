//! `ot.reload`: read the configuration again.

use onetool_sdk::{Tool, define_tool};
use schemars::JsonSchema;
use serde::Deserialize;
use tracing::info_span;

use super::span::observed;
use super::{ToolboxHandle, blocking};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {}

pub(super) fn tool(toolbox: &ToolboxHandle) -> Tool {
    let toolbox = toolbox.clone();
    define_tool("reload", "Read configuration, tools, snippets and prompts again.", move |_: Input, _| {
        let toolbox = toolbox.clone();
        observed(info_span!("ot.reload"), async move {
            let toolbox = toolbox.get()?;
            blocking(move || toolbox.reload()).await?;
            Ok("OK: Configuration reloaded")
        })
    })
    .with_returns("str", "OK, once the new configuration is in effect")
    .with_example("ot.reload()")
}
