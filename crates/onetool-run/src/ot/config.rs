//! `ot.config`: the configuration in short.

use onetool_sdk::{Tool, Value, define_tool};
use schemars::JsonSchema;
use serde::Deserialize;
use tracing::info_span;

use super::span::observed;
use super::{ToolboxHandle, dict, texts};
use crate::ToolboxState;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {}

pub(super) fn tool(toolbox: &ToolboxHandle) -> Tool {
    let toolbox = toolbox.clone();
    define_tool("config", "Show aliases, snippets and servers that are configured.", move |_: Input, ctx| {
        let toolbox = toolbox.clone();
        observed(info_span!("ot.config"), async move { toolbox.state(&ctx.call).map(|state| summary(&state)) })
    })
    .with_returns("dict", "aliases, snippets with their descriptions, names of servers")
    .with_example("ot.config()")
}

fn summary(state: &ToolboxState) -> Value {
    let aliases = state.aliases.iter().map(|(name, target)| (name.as_str(), Value::from(target.as_str())));
    let snippets = state
        .snippets
        .iter()
        .map(|(name, snippet)| (name.as_str(), dict([("description", Value::from(snippet.description.as_str()))])));
    dict([
        ("aliases", dict(aliases)),
        ("snippets", dict(snippets)),
        ("servers", texts(state.servers.iter().map(|server| server.name.as_str()))),
    ])
}
