//! Lists of calls that a configuration forbids or frowns upon. An extra gate: the sandbox is the boundary.

use globset::{Glob, GlobSet, GlobSetBuilder};

/// Patterns of dotted names.
#[derive(Debug, Clone, Default)]
pub struct Gate {
    blocked: GlobSet,
    warned: GlobSet,
    allowed: GlobSet,
}

/// What the gate says of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Pass,
    Warn,
    Block,
}

impl Gate {
    /// A gate from lists of patterns. Patterns that are none are returned beside it.
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
        let gate = Self { blocked: set(blocked), warned: set(warned), allowed: set(allowed) };
        (gate, bad)
    }

    pub fn is_open(&self) -> bool {
        self.blocked.is_empty() && self.warned.is_empty()
    }

    pub fn verdict(&self, name: &str) -> Verdict {
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
