//! `ot.timed(fn, **arguments)`: calls a tool and says how long it took.

use std::time::Instant;

use onetool_sdk::{Arguments, QualifiedName, Tool, ToolError, Value, define_tool};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value as Json};

#[derive(Deserialize, JsonSchema)]
struct Input {
    /// The tool, as it is (`brave.web_search`) or by name.
    #[serde(rename = "fn")]
    #[schemars(with = "Json")]
    function: String,
    /// Its arguments.
    #[serde(flatten)]
    arguments: Map<String, Json>,
}

pub(super) fn tool() -> Tool {
    define_tool("timed", "Call a tool and tell how long it took.", |input: Input, ctx| async move {
        let name = tool_name(&input.function)?;
        let tools =
            ctx.call.tools.clone().ok_or_else(|| ToolError::unavailable("there is no way to other tools here"))?;
        let started = Instant::now();
        let result = tools.call_tool(&name, Arguments::from_json(input.arguments), &ctx.call.nested()).await?;
        let ms = (started.elapsed().as_secs_f64() * 1e6).round() / 1e3;
        Ok(Value::Dict(vec![("ms".into(), Value::Float(ms)), ("result".into(), result)]))
    })
    .with_returns("dict", "ms and result")
    .with_example("ot.timed(ot.tools, pattern='search')")
}

/// The name of a function that crossed as a value (`<function pack.name>`), or that was given as text.
fn tool_name(text: &str) -> Result<QualifiedName, ToolError> {
    text.trim_start_matches("<function ").trim_end_matches('>').trim_matches('\'').parse()
}
