//! `std.done`: reports that the work is finished.

use onetool_sdk::{Tool, ToolResult, define_tool};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct DoneInput {
    /// What was done, or the answer.
    #[serde(default)]
    message: Option<String>,
}

pub(super) fn tool() -> Tool {
    define_tool(
        "done",
        "Say that the task is finished.\n\nA reply without any tool call ends as well; this one can carry a message.",
        |input: DoneInput, _| async move { Ok(ToolResult::Json(json!({"done": true, "message": input.message}))) },
    )
    .with_example("std.done(message=\"All tests pass.\")")
    .with_returns("dict", "done: True, and the message")
}
