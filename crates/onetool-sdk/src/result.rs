//! The result of a tool, inside the program. Its form for a model is a [`crate::ToolMessage`].

use serde::Serialize;
use serde_json::Value as Json;

use crate::{Part, ToolError, Value};

/// The result of a tool.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolResult {
    Text(String),
    Parts(Vec<Part>),
    Json(Json),
    /// A value that JSON cannot hold.
    Value(Value),
}

impl ToolResult {
    /// Converts any serialisable value to JSON.
    pub fn json(value: impl Serialize) -> Result<Self, ToolError> {
        serde_json::to_value(value)
            .map(Self::Json)
            .map_err(|error| ToolError::internal(format!("the result cannot be written as JSON: {error}")))
    }

    pub fn into_value(self) -> Value {
        match self {
            Self::Text(text) => Value::Str(text),
            Self::Json(json) => Value::from_json(json),
            Self::Value(value) => value,
            Self::Parts(parts) => Value::List(parts.into_iter().map(Value::Part).collect()),
        }
    }
}

impl From<String> for ToolResult {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for ToolResult {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<Json> for ToolResult {
    fn from(json: Json) -> Self {
        Self::Json(json)
    }
}

impl From<Value> for ToolResult {
    fn from(value: Value) -> Self {
        Self::Value(value)
    }
}

impl From<Vec<Part>> for ToolResult {
    fn from(parts: Vec<Part>) -> Self {
        Self::Parts(parts)
    }
}
