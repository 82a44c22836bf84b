//! `ot.packs`: the groups that tools come in.

use std::fmt::Write as _;

use onetool_sdk::{Origin, Pack, Tool, Value, define_tool};
use schemars::JsonSchema;
use serde::Deserialize;
use tracing::info_span;

use super::span::observed;
use super::{Awaited, Filter, Info, ToolboxHandle, count, describe, dict, first_line, no_match, texts};
use crate::ToolboxState;

/// Maximum length of a pack's description.
const MAX_ABOUT: usize = 200;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// Only packs whose name contains this, in any case.
    #[serde(default)]
    pattern: Option<String>,
    /// list: names; min: name, source, number of tools and description; sig: a text with the signatures of the tools;
    /// full: a text with instructions and tools.
    #[serde(default)]
    info: Info,
}

pub(super) fn tool(toolbox: &ToolboxHandle) -> Tool {
    let toolbox = toolbox.clone();
    define_tool("packs", "List the packs that tools come in.", move |input: Input, ctx| {
        let toolbox = toolbox.clone();
        observed(info_span!("ot.packs", pattern = input.pattern), async move {
            let state = toolbox.settled(Awaited::Tools, &ctx.call).await?;
            let filter = Filter::new(input.pattern.as_deref());
            let packs: Vec<&Pack> =
                state.catalog.packs().map(AsRef::as_ref).filter(|pack| filter.accepts(&pack.name)).collect();
            Ok(match input.info {
                Info::List => texts(packs.iter().map(|pack| pack.name.as_str())),
                Info::Min => Value::List(packs.iter().map(|pack| brief(&state, pack)).collect()),
                Info::Sig => texts(packs.iter().flat_map(|pack| {
                    let state = &state;
                    pack.tools
                        .values()
                        .map(move |tool| describe::line(state, &format!("{}.{}", pack.name, tool.name), tool))
                })),
                Info::Full if packs.is_empty() => Value::Str(no_match("pack", "ot.packs()", input.pattern.as_deref())),
                Info::Full => {
                    Value::Str(packs.iter().map(|pack| described(&state, pack)).collect::<Vec<_>>().join("\n\n"))
                }
            })
        })
    })
    .with_returns("list | str", "names, one dict per pack, or a text")
    .with_example("ot.packs(pattern=\"file\", info=\"full\")")
}

fn brief(state: &ToolboxState, pack: &Pack) -> Value {
    let mut fields = vec![
        ("name", Value::from(pack.name.as_str())),
        ("source", pack.origin.short_label().into()),
        ("tool_count", count(pack.tools.len())),
    ];
    let description = about(state, pack);
    if !description.is_empty() {
        fields.push(("description", description.into()));
    }
    dict(fields)
}

/// A one-line description of a pack: its own, or the configured one.
pub(super) fn about<'a>(state: &'a ToolboxState, pack: &'a Pack) -> &'a str {
    let said = match &pack.origin {
        // The first line of a server's pack only repeats its name; the server's own description follows.
        Origin::Proxy { .. } => pack.description.split_once('\n').map_or("", |(_, rest)| first_line(rest)),
        _ => "",
    };
    let configured = || state.instructions.get(&pack.name).map_or("", |instructions| first_line(instructions));
    let lines = [said, first_line(&pack.description), configured()];
    let about = lines.into_iter().find(|line| !line.is_empty()).unwrap_or("");
    about.char_indices().nth(MAX_ABOUT).map_or(about, |(at, _)| &about[..at])
}

/// Formats a pack as text: header, instructions, tools.
pub(super) fn described(state: &ToolboxState, pack: &Pack) -> String {
    let mut text = format!("# {}\n\nsource: {}\n", pack.name, pack.origin.short_label());
    if !pack.description.trim().is_empty() {
        let _ = write!(text, "\n{}\n", pack.description.trim());
    }
    if let Some(note) = &pack.note {
        let _ = write!(text, "\nNote: {note}\n");
    }
    if let Some(instructions) = state.instructions.get(&pack.name) {
        let _ = write!(text, "\n## Instructions\n\n{}\n", instructions.trim());
    }
    text.push_str("\n## Tools\n\n");
    for tool in pack.tools.values() {
        let _ = match tool.summary() {
            "" => writeln!(text, "- {}.{}", pack.name, tool.name),
            summary => writeln!(text, "- {}.{}: {summary}", pack.name, tool.name),
        };
    }
    if pack.tools.is_empty() {
        text.push_str("(none)\n");
    }
    text.truncate(text.trim_end().len());
    text
}
