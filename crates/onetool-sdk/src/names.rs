//! Names of packs and functions. A qualified name is `pack.function`; both halves are Python identifiers.

use std::fmt;
use std::str::FromStr;

use crate::ToolError;

/// `pack.function`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QualifiedName {
    pub pack: String,
    pub function: String,
}

impl QualifiedName {
    pub fn new(pack: impl Into<String>, function: impl Into<String>) -> Self {
        Self { pack: pack.into(), function: function.into() }
    }
}

impl fmt::Display for QualifiedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.pack, self.function)
    }
}

impl FromStr for QualifiedName {
    type Err = ToolError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('.') {
            Some((pack, function)) if is_python_identifier(pack) && is_python_identifier(function) => {
                Ok(Self::new(pack, function))
            }
            _ => Err(ToolError::arguments(format!("'{text}' is not a tool name"))
                .with_hint("a tool is named pack.function, for example ot.tools")),
        }
    }
}

/// Packs that nothing else may replace.
pub const RESERVED_PACKS: &[&str] = &["ot", "std", "file", "proj"];

const KEYWORDS: &[&str] = &[
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del",
    "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is", "lambda", "nonlocal",
    "not", "or", "pass", "raise", "return", "try", "while", "with", "yield",
];

/// Whether Python accepts `text` as a name.
pub fn is_python_identifier(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(is_start) && chars.all(is_inner) && !KEYWORDS.contains(&text)
}

fn is_start(c: char) -> bool {
    c == '_' || c.is_alphabetic()
}

/// Only ASCII digits: most other numeric characters (`²`, `½`) are not allowed in Python names.
fn is_inner(c: char) -> bool {
    is_start(c) || c.is_ascii_digit()
}

/// Returns the nearest Python identifier: invalid characters become `_`, a leading digit or a keyword gets an extra
/// `_`.
pub fn to_python_identifier(text: &str) -> String {
    let mut name: String = text.chars().map(|c| if is_inner(c) { c } else { '_' }).collect();
    if !name.starts_with(is_start) {
        name.insert(0, '_');
    }
    if KEYWORDS.contains(&name.as_str()) {
        name.push('_');
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_made_and_recognised() {
        assert_eq!(to_python_identifier("search-repos"), "search_repos");
        assert_eq!(to_python_identifier("2nd"), "_2nd");
        assert_eq!(to_python_identifier("import"), "import_");
        assert!(is_python_identifier("größe"));
        assert!(!is_python_identifier("a b"));
        assert!(!is_python_identifier("x²"));
        assert_eq!(to_python_identifier("x²"), "x_");
        assert_eq!(to_python_identifier(""), "_");
        assert!(!is_python_identifier(""));
    }

    #[test]
    fn a_qualified_name_has_exactly_two_halves() {
        assert_eq!("ot.tools".parse::<QualifiedName>().unwrap(), QualifiedName::new("ot", "tools"));
        assert!("ot".parse::<QualifiedName>().is_err());
        assert!("a.b.c".parse::<QualifiedName>().is_err());
    }
}
