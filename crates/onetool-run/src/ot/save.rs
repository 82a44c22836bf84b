//! `ot.save`: saves the code of this run under a name.

use chrono::Utc;
use indexmap::IndexMap;
use onetool_sdk::{Tool, ToolError, Value, define_tool};
use schemars::JsonSchema;
use serde::Deserialize;
use tracing::info_span;

use super::span::observed;
use super::{ToolboxHandle, blocking, dict};
use crate::ToolboxState;
use crate::saved::{PACK, Replace, SavedEntry};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// A name for the code: letters, digits and _.
    name: String,
    /// What it does, for whoever looks for it later.
    description: String,
    /// Variables of the code that callers may set; each is assigned a literal at its top level, which is the default.
    #[serde(default)]
    parameters: Vec<String>,
    /// Replace what is saved under this name.
    #[serde(default)]
    replace: bool,
}

pub(super) fn tool(toolbox: &ToolboxHandle) -> Tool {
    let toolbox = toolbox.clone();
    define_tool(
        "save",
        "Keep the code of this run, to run it again as $name or saved.name(...).",
        move |input: Input, ctx| {
            let toolbox = toolbox.clone();
            observed(info_span!("ot.save", name = input.name), async move {
                let code = ctx.call.code.clone().ok_or_else(|| {
                    ToolError::value_error("there is no code here to keep: ot.save is called within run(...)")
                })?;
                let state = toolbox.state(&ctx.call)?;
                blocking(move || keep(&state, input, &code)).await
            })
        },
    )
    .with_returns("dict", "name, and how to run it")
    .with_example("ot.save(\"open_issues\", \"Titles of the open issues of a repository\", parameters=[\"repo\"])")
}

fn keep(state: &ToolboxState, input: Input, code: &str) -> Result<Value, ToolError> {
    let name = input.name.trim().to_owned();
    let is_configured = state.snippets.get(&name).is_some_and(|snippet| !snippet.is_saved);
    if is_configured || state.aliases.contains_key(&name) {
        return Err(ToolError::value_error(format!("'{name}' is a name of the configuration"))
            .with_hint("choose another name; what the configuration says stays as it is"));
    }
    let kept = crate::code::keep(code, &input.parameters).map_err(ToolError::value_error)?;
    let parameters: IndexMap<_, _> =
        kept.defaults.iter().map(|(name, value)| (name.clone(), value.to_json())).collect();
    let shown: Vec<String> = kept.defaults.iter().map(|(name, value)| format!("{name}={}", value.repr())).collect();
    let entry = SavedEntry {
        name: name.clone(),
        description: input.description.trim().to_owned(),
        code: kept.text,
        parameters,
        at: Utc::now(),
    };
    state.saved.put(entry, if input.replace { Replace::Yes } else { Replace::No })?;
    Ok(dict([
        ("saved", Value::from(name.as_str())),
        ("run", Value::Str(format!("${name}"))),
        ("call", Value::Str(format!("{PACK}.{name}({})", shown.join(", ")))),
    ]))
}
