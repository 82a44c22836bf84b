//! A schema that is parsed on first use.
//!
//! A toolbox may hold thousands of tools of which a run calls three. As text, a schema takes one allocation; as a tree
//! it takes dozens, for every tool, before the first request.

use std::ops::Deref;
use std::sync::OnceLock;

use serde::{Serialize, Serializer};
use serde_json::{Map, Value as Json};

use crate::Validator;

/// The keywords that describe single arguments, and the definitions they may refer to.
const ARGUMENT_KEYWORDS: &[&str] = &["$schema", "properties", "$defs", "definitions"];

/// JSON Schema of a tool's arguments. Dereferences to the parsed [`serde_json::Value`].
#[derive(Clone, Default)]
pub struct InputSchema {
    text: Box<str>,
    parsed: OnceLock<Json>,
    arguments: OnceLock<Option<Validator>>,
    length: OnceLock<usize>,
}

impl InputSchema {
    /// Creates a schema from JSON text. Invalid JSON allows everything.
    pub fn from_text(text: impl Into<Box<str>>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// Returns a validator that checks each argument against its own property only, ignoring constraints across
    /// arguments. `None` if the schema cannot be used. Compiled on first use.
    pub fn argument_validator(&self) -> Option<&Validator> {
        let compile = || {
            let parts = self.as_object()?.iter().filter(|(key, _)| ARGUMENT_KEYWORDS.contains(&key.as_str()));
            let parts: Map<String, Json> = parts.map(|(key, value)| (key.clone(), value.clone())).collect();
            Validator::new(&Json::Object(parts)).ok()
        };
        self.arguments.get_or_init(compile).as_ref()
    }

    /// Returns the length of its JSON text, in bytes.
    pub fn bytes(&self) -> usize {
        *self.length.get_or_init(|| if self.text.is_empty() { (**self).to_string().len() } else { self.text.len() })
    }

    /// Returns a copy of the parsed tree.
    pub fn to_json(&self) -> Json {
        (**self).clone()
    }
}

impl Deref for InputSchema {
    type Target = Json;

    fn deref(&self) -> &Json {
        self.parsed.get_or_init(|| serde_json::from_str(&self.text).unwrap_or_else(|_| Json::Object(Map::new())))
    }
}

impl From<Json> for InputSchema {
    fn from(json: Json) -> Self {
        Self { parsed: OnceLock::from(json), ..Self::default() }
    }
}

impl Serialize for InputSchema {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (**self).serialize(serializer)
    }
}

impl PartialEq for InputSchema {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl std::fmt::Debug for InputSchema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn text_and_tree_are_the_same_schema() {
        let tree = json!({"type": "object", "properties": {"ä\n": {"type": "integer"}}});
        let text = InputSchema::from_text(tree.to_string());
        assert_eq!(text, InputSchema::from(tree.clone()));
        assert_eq!(text.pointer("/properties/ä\n/type"), Some(&json!("integer")));
        assert_eq!(json!({"schema": text})["schema"], tree);
    }

    #[test]
    fn what_is_no_json_allows_everything() {
        assert_eq!(*InputSchema::from_text("{"), json!({}));
        assert_eq!(*InputSchema::default(), json!({}));
    }
}
