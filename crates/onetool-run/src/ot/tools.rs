//! `ot.tools`: what can be called.

use onetool_sdk::{Pack, Tool, ToolSpec, Value, define_tool};
use schemars::JsonSchema;
use serde::Deserialize;
use tracing::info_span;

use super::span::observed;
use super::{Awaited, Filter, Info, ToolboxHandle, dict, texts};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// Only tools whose name contains this, in any case.
    #[serde(default)]
    pattern: Option<String>,
    /// list: names; min: names and descriptions; full: signatures, arguments, returns, examples and sources too.
    #[serde(default)]
    info: Info,
}

pub(super) fn tool(toolbox: &ToolboxHandle) -> Tool {
    let toolbox = toolbox.clone();
    define_tool("tools", "List the tools that can be called.", move |input: Input, ctx| {
        let toolbox = toolbox.clone();
        observed(info_span!("ot.tools", pattern = input.pattern), async move {
            let state = toolbox.settled(Awaited::Tools, &ctx.call).await?;
            let filter = Filter::new(input.pattern.as_deref());
            let mut listed = Vec::new();
            for (pack, tool) in state.catalog.tools() {
                let name = format!("{}.{}", pack.name, tool.name);
                if filter.accepts(&name) {
                    listed.push(entry(pack, tool, name, input.info));
                }
            }
            Ok(Value::List(listed))
        })
    })
    .with_returns("list", "names, or one dict a tool")
    .with_example("ot.tools(pattern=\"file.\", info=\"full\")")
}

fn entry(pack: &Pack, tool: &ToolSpec, name: String, info: Info) -> Value {
    match info {
        Info::List => Value::Str(name),
        Info::Min => dict([("name", Value::Str(name)), ("description", tool.summary().into())]),
        Info::Full => full(pack, tool, name),
    }
}

fn full(pack: &Pack, tool: &ToolSpec, name: String) -> Value {
    let mut fields = vec![
        ("signature", Value::Str(tool.signature.render(&name))),
        ("description", tool.description.trim().into()),
        ("source", Value::Str(pack.origin.label())),
    ];
    fields.insert(0, ("name", Value::Str(name)));
    let arguments = tool.signature.described_parameters();
    if !arguments.is_empty() {
        fields.push(("args", texts(arguments)));
    }
    if let Some(returns) = tool.returns.clone().or_else(|| tool.signature.returns.clone()) {
        fields.push(("returns", Value::Str(returns)));
    }
    if let Some(example) = &tool.example {
        fields.push(("example", example.as_str().into()));
    }
    dict(fields)
}
