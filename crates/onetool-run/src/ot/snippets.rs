//! `ot.snippets`: templates that `$name key=value` expands.

use std::fmt::Write as _;

use onetool_sdk::{Tool, Value, define_tool};
use schemars::JsonSchema;
use serde::Deserialize;
use tracing::info_span;

use super::span::observed;
use super::{Filter, Info, ToolboxHandle, dict, no_match, texts};
use crate::present::{quoted, to_yaml_block, to_yaml_flow};
use crate::snippets::expand;
use crate::{Snippet, SnippetParameter, ToolboxState};

/// Example values for parameters without a default.
const EXAMPLE_VALUES: &[&str] = &["Python", "Rust", "Go", "Zig"];

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// Only snippets whose name or description contains this, in any case.
    #[serde(default)]
    pattern: Option<String>,
    /// list: names; min: "name: description"; full: definitions with an example, as a text.
    #[serde(default)]
    info: Info,
}

pub(super) fn tool(toolbox: &ToolboxHandle) -> Tool {
    let toolbox = toolbox.clone();
    define_tool("snippets", "List the templates that $name key=value expands.", move |input: Input, ctx| {
        let toolbox = toolbox.clone();
        observed(info_span!("ot.snippets", pattern = input.pattern), async move {
            let state = toolbox.state(&ctx.call)?;
            let filter = Filter::new(input.pattern.as_deref());
            let chosen = state
                .snippets
                .iter()
                .filter(|(name, snippet)| filter.accepts(name) || filter.accepts(&snippet.description));
            Ok(match input.info {
                Info::List => texts(chosen.map(|(name, _)| name.as_str())),
                Info::Min | Info::Sig => {
                    texts(chosen.map(|(name, snippet)| format!("{name}: {}", snippet.description)))
                }
                Info::Full => {
                    let all: Vec<String> = chosen.map(|(name, snippet)| definition(name, snippet, &state)).collect();
                    Value::Str(if all.is_empty() {
                        no_match("snippet", "ot.snippets()", input.pattern.as_deref())
                    } else {
                        all.join("\n\n---\n")
                    })
                }
            })
        })
    })
    .with_returns("list | str", "names, names with descriptions, or a text")
    .with_example("ot.snippets(pattern=\"research\", info=\"full\")")
}

/// Formats a snippet as YAML, with an example of its use.
pub(super) fn definition(name: &str, snippet: &Snippet, state: &ToolboxState) -> String {
    let head = dict([("name", Value::from(name)), ("description", snippet.description.as_str().into())]);
    let mut text = to_yaml_block(&head);
    text.push_str(if snippet.parameters.is_empty() { "\nparams: {}\n" } else { "\nparams:\n" });
    for (name, parameter) in &snippet.parameters {
        let _ = writeln!(text, "  {}: {}", to_yaml_flow(&Value::from(name.as_str())), parameter_line(parameter));
    }
    // A literal block shows the template unchanged, even if it has a single line.
    let body = snippet.body.trim_end_matches('\n');
    if body.is_empty() || body.starts_with([' ', '\t', '\n']) || body.contains(['\r', '\t']) {
        text.push_str(&to_yaml_block(&dict([("body", Value::from(snippet.body.as_str()))])));
        text.push('\n');
    } else {
        text.push_str("body: |\n");
        for line in body.lines() {
            let _ = writeln!(text, "{}{line}", if line.is_empty() { "" } else { "  " });
        }
    }
    let example = invocation(name, snippet);
    let _ = write!(text, "\n# Example with defaults:\n# {example}");
    // A template that fails with the example values is still shown.
    if let Ok(expanded) = expand(&example, &state.snippets) {
        let _ = write!(text, "\n# Expands to:\n{}", expanded.trim_end());
    }
    text
}

fn parameter_line(parameter: &SnippetParameter) -> String {
    let mut parts = Vec::new();
    if let Some(kind) = &parameter.kind {
        parts.push(format!("type: {}", to_yaml_flow(&Value::from(kind.as_str()))));
    }
    if !parameter.required && parameter.default.is_none() {
        parts.push("required: false".to_owned());
    }
    if let Some(default) = &parameter.default {
        parts.push(format!("default: {}", to_yaml_flow(&Value::from_json(default.clone()))));
    }
    if let Some(description) = &parameter.description {
        parts.push(format!("description: {}", quoted(description)));
    }
    format!("{{{}}}", parts.join(", "))
}

/// Example values for the required parameters.
fn example_values(snippet: &Snippet) -> impl Iterator<Item = (&str, &'static str)> {
    snippet
        .parameters
        .iter()
        .filter(|(_, parameter)| parameter.required && parameter.default.is_none())
        .zip(EXAMPLE_VALUES.iter().cycle())
        .map(|((name, _), value)| (name.as_str(), *value))
}

/// `$name topic=Python`
fn invocation(name: &str, snippet: &Snippet) -> String {
    let mut text = format!("${name}");
    for (parameter, value) in example_values(snippet) {
        let _ = write!(text, " {parameter}={value}");
    }
    text
}
