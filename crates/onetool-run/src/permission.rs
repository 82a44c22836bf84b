//! Which tools may be called: allow, ask or deny, by pattern.

use globset::{Glob, GlobMatcher};
use onetool_sdk::{Arguments, CallContext, QualifiedName, ToolError, Value};

/// What is decided for a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permission {
    Allow,
    /// The user at the client decides.
    Ask,
    Deny,
}

/// Patterns and what they decide. The first that matches counts; what none matches is allowed.
#[derive(Debug, Clone, Default)]
pub struct Permissions {
    rules: Vec<(GlobMatcher, Permission)>,
}

/// Arguments are shown to the user up to this many characters.
const SHOWN_ARGUMENTS: usize = 500;

impl Permissions {
    /// Rules in order, e.g. `("github.delete_*", Ask)`. A pattern that is no glob is an error that names it.
    pub fn new<'a>(rules: impl IntoIterator<Item = (&'a str, Permission)>) -> Result<Self, globset::Error> {
        let rules = rules
            .into_iter()
            .map(|(pattern, permission)| Ok((Glob::new(pattern)?.compile_matcher(), permission)))
            .collect::<Result<_, globset::Error>>()?;
        Ok(Self { rules })
    }

    pub fn of(&self, name: &QualifiedName) -> Permission {
        if self.rules.is_empty() {
            return Permission::Allow;
        }
        let name = name.to_string();
        self.rules
            .iter()
            .find(|(pattern, _)| pattern.is_match(&name))
            .map_or(Permission::Allow, |(_, permission)| *permission)
    }

    /// Asks the user at the client.
    pub(crate) async fn ask(
        &self,
        name: &QualifiedName,
        arguments: &Arguments,
        ctx: &CallContext,
    ) -> Result<(), ToolError> {
        let refused = |why: &str| {
            ToolError::denied(format!("{name} needs the user's permission: {why}"))
                .with_hint("security.policy in the configuration decides which tools ask")
        };
        let client = ctx.client.as_ref().ok_or_else(|| refused("this client cannot be asked"))?;
        let pairs = arguments.named.iter().map(|(key, value)| (Value::Str(key.clone()), value.clone())).collect();
        let shown: String = Value::Dict(pairs).repr().chars().take(SHOWN_ARGUMENTS).collect();
        let answer = client
            .elicit(serde_json::json!({
                "mode": "form",
                "message": format!("Allow the call {name}({shown})?"),
                "requestedSchema": {
                    "type": "object",
                    "properties": {"allow": {"type": "boolean", "title": "Allow", "default": true}},
                    "required": ["allow"]
                }
            }))
            .await?;
        let accepted = answer.get("action").and_then(serde_json::Value::as_str) == Some("accept")
            && answer.pointer("/content/allow").and_then(serde_json::Value::as_bool).unwrap_or(true);
        if accepted { Ok(()) } else { Err(refused("the user declined")) }
    }
}
