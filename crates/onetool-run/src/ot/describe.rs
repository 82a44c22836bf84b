//! How a tool is shown: signature, return value, one line of description, and policy.

use onetool_sdk::{QualifiedName, ToolSpec};

use super::first_line;
use crate::{Permission, ToolboxState};

/// `pack.function(query: str) -> list[str]`
pub(super) fn signature(_state: &ToolboxState, name: &str, tool: &ToolSpec) -> String {
    tool.signature.render(name)
}

/// What a tool returns beyond its signature: as documented, or as it was seen.
pub(super) fn returns(state: &ToolboxState, name: &str, tool: &ToolSpec) -> Option<String> {
    let seen = state.learned.of(name, tool).map(|seen| {
        let times = if seen.times == 1 { "once".to_owned() } else { format!("{} times", seen.times) };
        format!("returns (seen {times}): {}", seen.shape)
    });
    let told =
        tool.returns.as_deref().map(first_line).filter(|text| !text.is_empty()).map(|text| format!("returns {text}"));
    match (told, seen) {
        (Some(told), Some(seen)) => Some(format!("{told}; {seen}")),
        (told, seen) => told.or(seen),
    }
}

/// The signature, a short sentence and what is returned, in one line.
pub(super) fn line(state: &ToolboxState, name: &str, tool: &ToolSpec) -> String {
    let mut text = signature(state, name, tool);
    let summary = Some(tool.summary().to_owned()).filter(|summary| !summary.is_empty());
    let policy = policy(state, name).map(str::to_owned);
    let about: Vec<String> = [summary, returns(state, name, tool), policy].into_iter().flatten().collect();
    if !about.is_empty() {
        text.push_str("  # ");
        text.push_str(&about.join("; "));
    }
    text
}

/// The policy that restricts calls to the tool.
pub(super) fn policy(state: &ToolboxState, name: &str) -> Option<&'static str> {
    match state.permissions.of(&name.parse::<QualifiedName>().ok()?) {
        Permission::Allow => None,
        Permission::Ask => Some("asks the user"),
        Permission::Deny => Some("denied by policy"),
    }
}
