//! Which tools may be called: allow, ask or deny, by pattern.

use std::sync::Arc;

use globset::{Glob, GlobMatcher};
use onetool_sdk::{Arguments, CallContext, QualifiedName, ToolError, Value};

use crate::approvals::Approvals;
use crate::toolbox::value_size;

/// The decision for a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Permission {
    Allow,
    /// A person decides.
    Ask,
    Deny,
}

/// Patterns and their decisions. The first match applies; a tool that matches none is allowed. With several lists, the
/// strictest decision applies.
#[derive(Debug, Clone, Default)]
pub struct Permissions {
    lists: Vec<Vec<(GlobMatcher, Permission)>>,
    approvals: Arc<Approvals>,
}

/// Maximum characters shown of each argument, so that none hides the others.
const SHOWN_VALUE: usize = 200;
/// Arguments beyond this many are shown by name only.
const SHOWN_ARGUMENTS: usize = 40;
/// Values of more bytes are not formatted in full before they are clipped.
const LARGE: usize = 4096;
/// Maximum characters shown of a name.
const SHOWN_NAME: usize = 60;

impl Permissions {
    /// Creates rules in order, e.g. `("github.delete_*", Ask)`. The error names the invalid pattern.
    pub fn new<'a>(rules: impl IntoIterator<Item = (&'a str, Permission)>) -> Result<Self, globset::Error> {
        let rules = rules
            .into_iter()
            .map(|(pattern, permission)| Ok((Glob::new(pattern)?.compile_matcher(), permission)))
            .collect::<Result<_, globset::Error>>()?;
        Ok(Self { lists: vec![rules], approvals: Arc::default() })
    }

    pub fn of(&self, name: &QualifiedName) -> Permission {
        if self.is_empty() {
            return Permission::Allow;
        }
        let name = name.to_string();
        let decided = |rules: &Vec<(GlobMatcher, Permission)>| {
            rules.iter().find(|(pattern, _)| pattern.is_match(&name)).map(|(_, permission)| *permission)
        };
        self.lists.iter().filter_map(decided).max().unwrap_or(Permission::Allow)
    }

    /// Whether any call may need approval.
    pub(crate) fn may_ask(&self) -> bool {
        self.lists.iter().flatten().any(|(_, permission)| *permission == Permission::Ask)
    }

    /// Whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.lists.iter().all(Vec::is_empty)
    }

    /// Combines both lists: a tool that either forbids is forbidden.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.lists.extend(other.lists);
        self
    }

    /// Sets where people decide.
    #[must_use]
    pub fn with_approvals(mut self, approvals: Arc<Approvals>) -> Self {
        self.approvals = approvals;
        self
    }

    /// Asks the user, and anyone watching the list, for permission.
    pub(crate) async fn ask(
        &self,
        name: &QualifiedName,
        arguments: &Arguments,
        ctx: &CallContext,
    ) -> Result<(), ToolError> {
        self.approvals.ask(name, arguments, ctx).await
    }
}

/// Formats every argument by name, each value clipped separately, with a mark where something is left out.
pub(crate) fn shown(arguments: &Arguments) -> String {
    let positional = arguments.positional.iter().map(|value| (None, value));
    let named = arguments.named.iter().map(|(name, value)| (Some(clipped(name, SHOWN_NAME)), value));
    let mut shown = Vec::new();
    for (index, (name, value)) in positional.chain(named).enumerate() {
        let value = if index < SHOWN_ARGUMENTS { shown_value(value) } else { "…".to_owned() };
        shown.push(name.map_or_else(|| value.clone(), |name| format!("{name}={value}")));
    }
    shown.join(", ")
}

/// Formats a value as Python shows it, clipped. Reads no more of a large value than is shown.
fn shown_value(value: &Value) -> String {
    match value {
        Value::Str(text) if text.len() > LARGE => {
            let start: String = text.chars().take(SHOWN_VALUE).collect();
            let kept = clipped(Value::Str(start).repr().trim_end_matches(['\'', '"']), SHOWN_VALUE);
            let kept = kept.split("… [").next().unwrap_or_default();
            format!("{kept}… [{} characters]", text.chars().count())
        }
        value if value_size(value) > LARGE => {
            let start: String = crate::activity::beginning(value, SHOWN_VALUE).chars().map(visible).collect();
            format!("{start}…")
        }
        value => clipped(&value.repr(), SHOWN_VALUE),
    }
}

/// Replaces control, bidirectional and invisible characters, which could change how a question reads.
pub(crate) fn visible(c: char) -> char {
    let is_deceptive = matches!(
        c,
        '\u{ad}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{2800}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{e0000}'..='\u{e007f}'
    );
    if c.is_control() || is_deceptive { '\u{fffd}' } else { c }
}

fn clipped(text: &str, limit: usize) -> String {
    let length = text.chars().count();
    let kept: String = text.chars().take(limit).map(visible).collect();
    if length > limit { format!("{kept}… [{length} characters]") } else { kept }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_argument_does_not_hide_the_others() {
        let arguments = Arguments::named([
            ("comment", Value::Str("x".repeat(10_000))),
            ("repo", Value::Str("prod\u{202e}".to_owned())),
            ("force", Value::Bool(true)),
        ]);
        let shown = shown(&arguments);
        assert!(shown.starts_with("comment='xxx") && shown.contains("x… [10000 characters], "), "{shown}");
        let list =
            Arguments::named([("items", Value::List(vec![Value::from("y\u{202e}"); 100_000])), ("all", Value::None)]);
        let shown_list = super::shown(&list);
        assert!(
            shown_list.starts_with("items=[\"y\u{fffd}\", ") && shown_list.ends_with("…, all=None"),
            "{shown_list}"
        );
        assert!(shown.ends_with("repo='prod\u{fffd}', force=True") || shown.ends_with("force=True"), "{shown}");
        assert!(!shown.contains('\u{202e}'));
        let hidden = Arguments::named([("path", Value::Str("a\u{2028}b\u{e0041}c\u{3164}d\u{1b}".to_owned()))]);
        assert!(!super::shown(&hidden).contains(['\u{2028}', '\u{e0041}', '\u{3164}', '\u{1b}']));
        assert!(shown.len() < 500, "{shown}");
    }
}
