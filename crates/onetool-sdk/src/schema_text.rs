//! A schema that is parsed when somebody reads it.
//!
//! A toolbox may hold thousands of tools of which a run calls three. As text a schema takes one piece of memory; as a
//! tree it takes dozens, for each tool, before the first question.

use std::ops::Deref;
use std::sync::OnceLock;

use serde::{Serialize, Serializer};
use serde_json::{Map, Value as Json};

/// JSON Schema of a tool's arguments. Reads like the [`serde_json::Value`] that it stands for.
#[derive(Clone, Default)]
pub struct InputSchema {
    text: Box<str>,
    parsed: OnceLock<Json>,
}

impl InputSchema {
    /// A schema written as JSON. What is not JSON allows everything.
    pub fn from_text(text: impl Into<Box<str>>) -> Self {
        Self { text: text.into(), parsed: OnceLock::new() }
    }

    /// The tree by itself.
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
        Self { text: Box::default(), parsed: OnceLock::from(json) }
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
