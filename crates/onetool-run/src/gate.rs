//! Lists of calls that the configuration blocks or warns about. An additional gate: the sandbox is the boundary.

use globset::{Glob, GlobSet, GlobSetBuilder};
use onetool_sdk::ToolError;

/// Patterns of dotted names.
#[derive(Debug, Clone, Default)]
pub struct Gate {
    blocked: GlobSet,
    warned: GlobSet,
    allowed: GlobSet,
    /// The user's own gate: neither gate lifts what the other forbids.
    user: Option<Box<Gate>>,
}

/// The gate's decision about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    Pass,
    Warn,
    Block,
}

impl Gate {
    /// Creates a gate from lists of patterns. Invalid patterns are returned beside it.
    pub fn new(blocked: &[String], warned: &[String], allowed: &[String]) -> (Self, Vec<String>) {
        let mut bad = Vec::new();
        let mut set = |patterns: &[String]| {
            let mut builder = GlobSetBuilder::new();
            for pattern in patterns {
                match Glob::new(pattern) {
                    Ok(glob) => {
                        builder.add(glob);
                    }
                    Err(_) => bad.push(pattern.clone()),
                }
            }
            builder.build().unwrap_or_default()
        };
        let gate = Self { blocked: set(blocked), warned: set(warned), allowed: set(allowed), user: None };
        (gate, bad)
    }

    /// Whether nothing is blocked or warned about.
    pub fn is_open(&self) -> bool {
        self.blocked.is_empty() && self.warned.is_empty() && self.user.as_ref().is_none_or(|user| user.is_open())
    }

    /// Combines two gates: a call that either forbids is forbidden.
    #[must_use]
    pub fn and(self, user: Self) -> Self {
        Self { user: Some(Box::new(user)), ..self }
    }

    pub fn verdict(&self, name: &str) -> Verdict {
        let user = self.user.as_ref().map_or(Verdict::Pass, |user| user.verdict(name));
        self.own_verdict(name).max(user)
    }

    fn own_verdict(&self, name: &str) -> Verdict {
        if self.allowed.is_match(name) {
            Verdict::Pass
        } else if self.blocked.is_match(name) {
            Verdict::Block
        } else if self.warned.is_match(name) {
            Verdict::Warn
        } else {
            Verdict::Pass
        }
    }
}

/// The error for a blocked call, on the call path.
pub(crate) fn blocked(name: &str) -> ToolError {
    ToolError::denied(format!("'{name}' is blocked by the configuration"))
        .with_hint("security.blocked and security.allow decide")
}
