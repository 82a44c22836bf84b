//! `ot.notify`: leave a message in the file of a topic.

use chrono::{SecondsFormat, Utc};
use onetool_sdk::{Tool, ToolError, Value, define_tool};
use onetool_state::notifications::{self, Route};
use schemars::JsonSchema;
use serde::Deserialize;
use tracing::info_span;

use super::span::observed;
use super::{ToolboxHandle, blocking, dict};
use crate::ToolboxState;
use crate::present::to_yaml_block;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The topic; the first configured pattern that matches says which file gets the message.
    topic: String,
    /// The message.
    message: String,
}

pub(super) fn tool(toolbox: &ToolboxHandle) -> Tool {
    let toolbox = toolbox.clone();
    define_tool("notify", "Publish a message to a configured topic.", move |input: Input, ctx| {
        let toolbox = toolbox.clone();
        observed(info_span!("ot.notify", topic = input.topic), async move {
            let state = toolbox.state(&ctx.call)?;
            blocking(move || publish(&state, &input)).await
        })
    })
    .with_returns("str", "OK and the file, or SKIP where no topic matches")
    .with_example("ot.notify(topic=\"notes\", message=\"Remember to review the change\")")
}

fn publish(state: &ToolboxState, input: &Input) -> Result<String, ToolError> {
    let routes: Vec<Route> =
        state.topics.iter().map(|topic| Route { pattern: topic.pattern.clone(), file: topic.file.clone() }).collect();
    let Some(file) = notifications::route(&routes, &input.topic) else {
        return Ok("SKIP: no matching topic".to_owned());
    };
    let document = dict([
        ("message", Value::from(input.message.as_str())),
        ("topic", input.topic.as_str().into()),
        ("ts", Value::Str(Utc::now().to_rfc3339_opts(SecondsFormat::Millis, true))),
    ]);
    notifications::append(file, &to_yaml_block(&document)).map_err(|error| {
        ToolError::raised("OSError", format!("the message was not written: {error}"))
            .with_hint("check the file of the topic in tools.msg.topics")
    })?;
    let shown = file.strip_prefix(&state.folder).unwrap_or(file);
    Ok(format!("OK: {} -> {}", input.topic, shown.display()))
}
