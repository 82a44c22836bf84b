//! `ot.aliases`: short names for tools.

use onetool_sdk::{Tool, Value, define_tool};
use schemars::JsonSchema;
use serde::Deserialize;
use tracing::info_span;

use super::span::observed;
use super::{Filter, Info, ToolboxHandle, dict};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// Only aliases whose name or target contains this, in any case.
    #[serde(default)]
    pattern: Option<String>,
    /// list: names; min: "name -> target"; full: dicts of name and target.
    #[serde(default)]
    info: Info,
}

pub(super) fn tool(toolbox: &ToolboxHandle) -> Tool {
    let toolbox = toolbox.clone();
    define_tool("aliases", "List the short names for tools.", move |input: Input, ctx| {
        let toolbox = toolbox.clone();
        observed(info_span!("ot.aliases", pattern = input.pattern), async move {
            let state = toolbox.state(&ctx.call)?;
            let filter = Filter::new(input.pattern.as_deref());
            let listed =
                state.aliases.iter().filter(|(name, target)| filter.accepts(name) || filter.accepts(target)).map(
                    |(name, target)| match input.info {
                        Info::List => Value::from(name.as_str()),
                        Info::Min | Info::Sig => Value::Str(format!("{name} -> {target}")),
                        Info::Full => dict([("name", Value::from(name.as_str())), ("target", target.as_str().into())]),
                    },
                );
            Ok(Value::List(listed.collect()))
        })
    })
    .with_returns("list", "names, mappings, or one dict per alias")
    .with_example("ot.aliases(pattern=\"search\")")
}
