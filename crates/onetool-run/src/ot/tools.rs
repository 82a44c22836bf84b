//! `ot.tools`: what can be called.

use std::sync::Arc;

use onetool_sdk::{Pack, QualifiedName, Tool, ToolSpec, Value, define_tool};
use schemars::JsonSchema;
use serde::Deserialize;
use tracing::info_span;

use super::search::Kind;
use super::span::observed;
use super::{Awaited, Filter, Info, ToolboxHandle, blocking, count, describe, dict, texts};
use crate::ToolboxState;

/// Maximum number of tools that `info="min"` lists with their signatures.
const FEW_TOOLS: usize = 20;
/// Maximum number of tools listed if no name contains the pattern.
const MAX_FOUND: usize = 10;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// Only tools whose name contains this, in any case; where no name does, tools that fit these words.
    #[serde(default)]
    pattern: Option<String>,
    /// list: names; sig: a line per tool with its signature; min: names and descriptions, and signatures where few tools
    /// match; full: signatures, arguments, returns, examples and sources too.
    #[serde(default)]
    info: Info,
}

pub(super) fn tool(toolbox: &ToolboxHandle) -> Tool {
    let toolbox = toolbox.clone();
    define_tool("tools", "List the tools that can be called.", move |input: Input, ctx| {
        let toolbox = toolbox.clone();
        observed(info_span!("ot.tools", pattern = input.pattern), async move {
            let state = toolbox.settled(Awaited::Tools, &ctx.call).await?;
            blocking(move || Ok(answer(&state, input.pattern.as_deref(), input.info))).await
        })
    })
    .with_returns("list", "names, or one dict per tool")
    .with_example("ot.tools(pattern=\"file.\", info=\"full\")")
}

fn answer(state: &ToolboxState, pattern: Option<&str>, info: Info) -> Value {
    let filter = Filter::new(pattern);
    let named = |(pack, tool): (&Arc<Pack>, &Arc<ToolSpec>)| {
        (pack.clone(), tool.clone(), format!("{}.{}", pack.name, tool.name))
    };
    let mut listed: Vec<_> = state.catalog.tools().map(named).filter(|(.., name)| filter.accepts(name)).collect();
    if let Some(words) = pattern.filter(|_| listed.is_empty()) {
        let hits = state.search.search(state, words);
        let tools = hits.iter().filter(|hit| hit.kind == Kind::Tool).take(MAX_FOUND);
        listed.extend(tools.filter_map(|hit| {
            let name: QualifiedName = hit.name.parse().ok()?;
            let pack = state.catalog.pack(&name.pack)?.pack.clone();
            Some((pack, state.catalog.tool(&name)?.clone(), hit.name.clone()))
        }));
    }
    let are_few = listed.len() <= FEW_TOOLS;
    Value::List(listed.into_iter().map(|(pack, tool, name)| entry(state, &pack, &tool, name, info, are_few)).collect())
}

fn entry(state: &ToolboxState, pack: &Pack, tool: &ToolSpec, name: String, info: Info, are_few: bool) -> Value {
    match info {
        Info::List => Value::Str(name),
        Info::Sig => Value::Str(describe::line(state, &name, tool)),
        Info::Min => {
            let mut fields = vec![("description", Value::from(tool.summary()))];
            if are_few {
                fields.push(("signature", Value::Str(describe::signature(state, &name, tool))));
            }
            fields.extend(describe::policy(state, &name).map(|policy| ("policy", policy.into())));
            fields.insert(0, ("name", Value::Str(name)));
            dict(fields)
        }
        Info::Full => full(state, pack, tool, name),
    }
}

fn full(state: &ToolboxState, pack: &Pack, tool: &ToolSpec, name: String) -> Value {
    let mut fields = vec![
        ("signature", Value::Str(describe::signature(state, &name, tool))),
        ("description", tool.description.trim().into()),
        ("source", Value::Str(pack.origin.label())),
    ];
    fields.extend(describe::policy(state, &name).map(|policy| ("policy", policy.into())));
    let arguments = tool.signature.described_parameters();
    if !arguments.is_empty() {
        fields.push(("args", texts(arguments)));
    }
    if let Some(returns) = &tool.returns {
        fields.push(("returns", returns.as_str().into()));
    }
    if let Some(seen) = state.learned.of(&name, tool) {
        fields.push(("seen", dict([("times", count(seen.times as usize)), ("returns", Value::Str(seen.shape))])));
    }
    if let Some(example) = &tool.example {
        fields.push(("example", example.as_str().into()));
    }
    fields.insert(0, ("name", Value::Str(name)));
    dict(fields)
}
