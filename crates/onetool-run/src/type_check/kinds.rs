//! The few kinds of value that a schema distinguishes, and which of them a parameter cannot accept.

use onetool_sdk::{ToolError, ToolSpec};
use serde_json::Value as Json;

use crate::precheck::Target;

/// What a value becomes when it is passed to a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Text,
    Integer,
    Float,
    Truth,
    /// A list, a tuple or a set.
    List,
    Dict,
}

impl Kind {
    /// The kind of a declared return type; `None` for a union and for anything that is not one of the kinds.
    pub(crate) fn of_annotation(annotation: &str) -> Option<Self> {
        match annotation {
            "str" => Some(Self::Text),
            "int" => Some(Self::Integer),
            "float" => Some(Self::Float),
            "bool" => Some(Self::Truth),
            "list" => Some(Self::List),
            "dict" => Some(Self::Dict),
            _ => None,
        }
    }

    pub(crate) fn python_name(self) -> &'static str {
        match self {
            Self::Text => "str",
            Self::Integer => "int",
            Self::Float => "float",
            Self::Truth => "bool",
            Self::List => "list",
            Self::Dict => "dict",
        }
    }
}

/// What a parameter accepts, if its schema names one type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Expected {
    kind: Kind,
    /// Whether `None` is accepted too.
    nullable: bool,
}

impl Expected {
    pub(crate) fn by(tool: &ToolSpec, parameter: &str) -> Option<Self> {
        let property = tool.input_schema.get("properties")?.get(parameter)?;
        let (name, nullable) = match property.get("type")? {
            Json::String(name) => (name.as_str(), property.get("nullable") == Some(&Json::Bool(true))),
            Json::Array(names) => {
                let mut others = names.iter().filter_map(Json::as_str).filter(|name| *name != "null");
                let (Some(only), None) = (others.next(), others.next()) else { return None };
                (only, names.len() > 1)
            }
            _ => return None,
        };
        let kind = match name {
            "string" => Kind::Text,
            "integer" => Kind::Integer,
            "number" => Kind::Float,
            "boolean" => Kind::Truth,
            "array" => Kind::List,
            "object" => Kind::Dict,
            _ => return None,
        };
        Some(Self { kind, nullable })
    }

    /// Whether no value of this kind is accepted.
    pub(crate) fn refuses(&self, given: Kind) -> bool {
        match (self.kind, given) {
            (expected, given) if expected == given => false,
            (_, Kind::Text) => true,
            // NaN becomes null.
            (_, Kind::Float) if self.nullable => false,
            // A float may be integral, and Python's booleans are integers.
            (Kind::Integer | Kind::Float, given) => matches!(given, Kind::List | Kind::Dict),
            _ => true,
        }
    }

    /// The error for a refused argument; `given` describes it.
    pub(crate) fn mistaken(&self, target: &Target<'_>, parameter: &str, given: &str) -> ToolError {
        let name = &target.name;
        let expected = self.kind.python_name();
        ToolError::arguments(format!("{name}() argument '{parameter}' must be {expected}, not {given}"))
            .with_hint(format!("expected {}", target.tool.signature.render(&name.to_string())))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ALL: [Kind; 6] = [Kind::Text, Kind::Integer, Kind::Float, Kind::Truth, Kind::List, Kind::Dict];

    fn refused(property: Json) -> Vec<&'static str> {
        let schema = json!({"properties": {"p": property}});
        let tool = ToolSpec::from_schema("f", "", schema);
        let expected = Expected::by(&tool, "p");
        ALL.into_iter()
            .filter(|kind| expected.as_ref().is_some_and(|expected| expected.refuses(*kind)))
            .map(Kind::python_name)
            .collect()
    }

    #[test]
    fn only_what_no_schema_would_take_is_refused() {
        let ours = refused;
        assert_eq!(ours(json!({"type": "string"})), ["int", "float", "bool", "list", "dict"]);
        assert_eq!(ours(json!({"type": ["string", "null"]})), ["int", "bool", "list", "dict"]);
        assert_eq!(ours(json!({"type": "integer"})), ["str", "list", "dict"]);
        assert_eq!(ours(json!({"type": "number"})), ["str", "list", "dict"]);
        assert_eq!(ours(json!({"type": "boolean"})), ["str", "int", "float", "list", "dict"]);
        assert_eq!(ours(json!({"type": "array"})), ["str", "int", "float", "bool", "dict"]);
        assert_eq!(ours(json!({"type": "object"})), ["str", "int", "float", "bool", "list"]);
    }

    #[test]
    fn unions_and_types_that_are_not_told_take_anything() {
        for property in [
            json!({}),
            json!({"type": ["string", "integer"]}),
            json!({"anyOf": [{"type": "string"}, {"type": "integer"}]}),
            json!({"$ref": "#/$defs/T"}),
            json!({"enum": ["a", 1]}),
            json!({"type": "null"}),
        ] {
            assert_eq!(refused(property), [""; 0]);
        }
    }
}
