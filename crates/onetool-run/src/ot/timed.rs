//! `ot.timed(fn, **arguments)`: calls a tool and says how long it took.

use std::time::Instant;

use onetool_sdk::{Arguments, ErrorKind, QualifiedName, Tool, ToolError, Value, define_tool};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value as Json};
use tracing::info_span;

use super::span::observed;

/// Maximum characters of a tool name that an error repeats.
const SHOWN_CHARS: usize = 60;

#[derive(Deserialize, JsonSchema)]
struct Input {
    /// The tool, as it is (`file.read`) or by name.
    #[serde(rename = "fn")]
    function: Json,
    /// Its arguments.
    #[serde(flatten)]
    arguments: Map<String, Json>,
}

pub(super) fn tool() -> Tool {
    define_tool("timed", "Call a tool and measure how long it takes.", |input: Input, ctx| {
        observed(info_span!("ot.timed"), async move {
            let name = tool_name(&input.function)?;
            let tools =
                ctx.call.tools.clone().ok_or_else(|| ToolError::unavailable("there is no way to other tools here"))?;
            let started = Instant::now();
            let result = tools.call_tool(&name, Arguments::from_json(input.arguments), &ctx.call.nested()).await?;
            let ms = (started.elapsed().as_secs_f64() * 1e6).round() / 1e3;
            Ok(Value::Dict(vec![("ms".into(), Value::Float(ms)), ("result".into(), result)]))
        })
    })
    .with_returns("dict", "ms and result")
    .with_example("ot.timed(ot.tools, pattern='file')")
}

/// The name of a function that was passed as a value (`<function pack.name>`) or as text.
fn tool_name(function: &Json) -> Result<QualifiedName, ToolError> {
    let text = function.as_str().unwrap_or("");
    let name = text.strip_prefix("<function ").and_then(|rest| rest.strip_suffix('>')).unwrap_or(text);
    name.trim_matches('\'').parse().map_err(|_| {
        let given: String = match function.as_str() {
            Some(text) => text.chars().take(SHOWN_CHARS).collect(),
            None => function.to_string().chars().take(SHOWN_CHARS).collect(),
        };
        ToolError::new(ErrorKind::Arguments, format!("ot.timed() takes a tool to call first, not {given:?}"))
            .with_hint("give the function and its arguments: ot.timed(ot.tools, pattern=\"file\")")
    })
}
