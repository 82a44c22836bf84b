//! What a function looks like from Python: parameters in order, with types and defaults as Python source text.

use serde_json::Value as Json;

/// How a parameter may be passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParameterKind {
    PositionalOnly,
    PositionalOrKeyword,
    KeywordOnly,
    /// `*args`
    VarPositional,
    /// `**kwargs`
    VarKeyword,
}

/// One parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    pub name: String,
    pub kind: ParameterKind,
    /// The type as Python source, e.g. `list[str] | None`.
    pub annotation: Option<String>,
    /// The default as Python source; `None` if there is none (see `required`).
    pub default: Option<String>,
    pub required: bool,
    pub description: Option<String>,
}

impl Parameter {
    /// Renders the parameter as in a signature.
    pub fn render(&self) -> String {
        let stars = match self.kind {
            ParameterKind::VarPositional => "*",
            ParameterKind::VarKeyword => "**",
            _ => "",
        };
        let mut text = format!("{stars}{}", self.name);
        if let Some(annotation) = &self.annotation {
            text.push_str(": ");
            text.push_str(annotation);
        }
        if stars.is_empty() && !self.required {
            text.push_str(if self.annotation.is_some() { " = " } else { "=" });
            text.push_str(self.default.as_deref().unwrap_or("'...'"));
        }
        text
    }
}

/// Parameters in order, and the return type.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Signature {
    pub parameters: Vec<Parameter>,
    /// The return type as Python source.
    pub returns: Option<String>,
}

impl Signature {
    /// Renders the signature: `pack.function(query: str, count: int = 10) -> list[str]`.
    pub fn render(&self, qualified_name: &str) -> String {
        let mut parts: Vec<String> = Vec::with_capacity(self.parameters.len() + 2);
        let mut keyword_only = false;
        for (index, parameter) in self.parameters.iter().enumerate() {
            match parameter.kind {
                ParameterKind::VarPositional => keyword_only = true,
                ParameterKind::KeywordOnly if !keyword_only => {
                    keyword_only = true;
                    parts.push("*".to_owned());
                }
                _ => {}
            }
            parts.push(parameter.render());
            let next = self.parameters.get(index + 1);
            if parameter.kind == ParameterKind::PositionalOnly
                && next.is_none_or(|next| next.kind != ParameterKind::PositionalOnly)
            {
                parts.push("/".to_owned());
            }
        }
        let returns = self.returns.as_deref().map(|text| format!(" -> {text}")).unwrap_or_default();
        format!("{qualified_name}({}){returns}", parts.join(", "))
    }

    /// Returns `"name: description"` for every parameter that has a description.
    pub fn described_parameters(&self) -> Vec<String> {
        self.parameters
            .iter()
            .filter_map(|parameter| parameter.description.as_ref().map(|text| format!("{}: {text}", parameter.name)))
            .collect()
    }

    /// Derives the signature from a JSON Schema object. Required parameters come first, each group in schema order.
    pub fn from_json_schema(schema: &Json) -> Self {
        let required: Vec<&str> = schema
            .get("required")
            .and_then(Json::as_array)
            .map(|names| names.iter().filter_map(Json::as_str).collect())
            .unwrap_or_default();
        let mut parameters: Vec<Parameter> = schema
            .get("properties")
            .and_then(Json::as_object)
            .map(|properties| {
                properties
                    .iter()
                    .map(|(name, property)| {
                        let default = property.get("default").map(python_literal);
                        let mut annotation = python_type(property, schema);
                        // A default of null implies that null is accepted, even if the type does not say so.
                        if default.as_deref() == Some("None") && !takes_none(&annotation) {
                            annotation.push_str(" | None");
                        }
                        Parameter {
                            name: name.clone(),
                            kind: ParameterKind::PositionalOrKeyword,
                            annotation: Some(annotation),
                            required: required.contains(&name.as_str()) && default.is_none(),
                            default,
                            description: property.get("description").and_then(Json::as_str).map(one_line),
                        }
                    })
                    .collect()
            })
            .unwrap_or_default();
        parameters.sort_by_key(|parameter| !parameter.required);
        Self { parameters, returns: None }
    }
}

fn takes_none(annotation: &str) -> bool {
    annotation == "Any" || annotation == "None" || annotation.ends_with("| None") || annotation.contains("None]")
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Maximum number of enum values listed in a type.
const MAX_LITERALS: usize = 32;
/// Maximum depth of nested types; deeper ones become `dict` or `list`.
const TYPE_DEPTH: usize = 6;
/// Maximum number of object keys listed in a type.
const MAX_KEYS: usize = 16;
/// A longer type is rendered with fewer levels.
const MAX_TYPE_CHARS: usize = 400;

/// The Python type that a JSON Schema describes, as text: `list[{path: str, line?: int}]`, where `?` marks keys that may
/// be missing. References are looked up in `root`.
pub(crate) fn python_type(schema: &Json, root: &Json) -> String {
    (1..=TYPE_DEPTH)
        .rev()
        .map(|depth| nested_type(schema, root, depth))
        .find(|text| text.len() <= MAX_TYPE_CHARS)
        .unwrap_or_else(|| nested_type(schema, root, 0))
}

/// Renders the type with at most `depth` levels.
fn nested_type(schema: &Json, root: &Json, depth: usize) -> String {
    if let Some(reference) = schema.get("$ref").and_then(Json::as_str) {
        let target = reference.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
        return match target {
            Some(target) if depth > 0 => nested_type(target, root, depth - 1),
            _ => "Any".to_owned(),
        };
    }
    if let Some(values) = schema.get("enum").and_then(Json::as_array) {
        return literal_type(values);
    }
    if let Some(value) = schema.get("const") {
        return literal_type(std::slice::from_ref(value));
    }
    for key in ["anyOf", "oneOf"] {
        if let Some(options) = schema.get(key).and_then(Json::as_array) {
            if depth == 0 {
                return "Any".to_owned();
            }
            return union(options.iter().map(|option| nested_type(option, root, depth - 1)));
        }
    }
    if let Some([only]) = schema.get("allOf").and_then(Json::as_array).map(Vec::as_slice) {
        return if depth == 0 { "Any".to_owned() } else { nested_type(only, root, depth - 1) };
    }
    match schema.get("type") {
        Some(Json::String(name)) if schema.get("nullable") == Some(&Json::Bool(true)) => {
            union([named_type(name, schema, root, depth), "None".to_owned()].into_iter())
        }
        Some(Json::String(name)) => named_type(name, schema, root, depth),
        Some(Json::Array(names)) => {
            union(names.iter().filter_map(Json::as_str).map(|name| named_type(name, schema, root, depth)))
        }
        _ if schema.get("properties").is_some() => object_type(schema, root, depth),
        _ => "Any".to_owned(),
    }
}

/// Returns `{path: str, line?: int}`, or `dict` if its keys are unknown.
fn object_type(schema: &Json, root: &Json, depth: usize) -> String {
    let properties = schema.get("properties").and_then(Json::as_object).filter(|properties| !properties.is_empty());
    let Some(properties) = properties else {
        return match schema.get("additionalProperties") {
            Some(values) if values.is_object() && depth > 0 => {
                format!("dict[str, {}]", nested_type(values, root, depth - 1))
            }
            _ => "dict".to_owned(),
        };
    };
    if depth == 0 {
        return "dict".to_owned();
    }
    let required = schema.get("required").and_then(Json::as_array);
    let is_required = |name: &String| required.is_some_and(|names| names.iter().any(|other| other == name));
    let mut keys: Vec<String> = properties
        .iter()
        .take(MAX_KEYS)
        .map(|(name, property)| {
            let optional = if is_required(name) { "" } else { "?" };
            format!("{}{optional}: {}", one_line(name), nested_type(property, root, depth - 1))
        })
        .collect();
    if properties.len() > MAX_KEYS {
        keys.push("...".to_owned());
    }
    format!("{{{}}}", keys.join(", "))
}

/// Returns `Literal[…]` if Python supports it for these values and they are few enough to read; otherwise their types.
fn literal_type(values: &[Json]) -> String {
    let has_literal = |value: &Json| match value {
        Json::Null | Json::Bool(_) | Json::String(_) => true,
        Json::Number(number) => !number.is_f64(),
        Json::Array(_) | Json::Object(_) => false,
    };
    if !values.is_empty() && values.len() <= MAX_LITERALS && values.iter().all(has_literal) {
        let literals: Vec<String> = values.iter().map(python_literal).collect();
        return format!("Literal[{}]", literals.join(", "));
    }
    union(values.iter().map(|value| match value {
        Json::Array(_) => "list".to_owned(),
        Json::Object(_) => "dict".to_owned(),
        Json::Null => "None".to_owned(),
        other => crate::Value::from_json(other.clone()).type_name().to_owned(),
    }))
}

fn named_type(name: &str, schema: &Json, root: &Json, depth: usize) -> String {
    match name {
        "string" => "str".to_owned(),
        "integer" => "int".to_owned(),
        "number" => "float".to_owned(),
        "boolean" => "bool".to_owned(),
        "null" => "None".to_owned(),
        "array" => match schema.get("items") {
            Some(items) if items.is_object() && depth > 0 => format!("list[{}]", nested_type(items, root, depth - 1)),
            _ => "list".to_owned(),
        },
        "object" => object_type(schema, root, depth),
        _ => "Any".to_owned(),
    }
}

fn union(types: impl Iterator<Item = String>) -> String {
    let mut distinct: Vec<String> = Vec::new();
    for name in types {
        if name == "Any" {
            return name;
        }
        if !distinct.contains(&name) {
            distinct.push(name);
        }
    }
    // `None` reads best at the end.
    distinct.sort_by_key(|name| name == "None");
    if distinct.is_empty() { "Any".to_owned() } else { distinct.join(" | ") }
}

/// Renders a JSON value as a Python literal.
pub(crate) fn python_literal(value: &Json) -> String {
    crate::Value::from_json(value.clone()).repr()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_schema_becomes_a_signature() {
        let schema = json!({
            "type": "object",
            "properties": {
                "repo": {"type": "string"},
                "query": {"type": "string", "description": "what to\n look for"},
                "sort": {"enum": ["stars", "forks"], "default": "stars"},
                "tags": {"type": ["array", "null"], "items": {"$ref": "#/$defs/Tag"}}
            },
            "required": ["query"],
            "$defs": {"Tag": {"type": "string"}}
        });
        let signature = Signature::from_json_schema(&schema);
        assert_eq!(
            signature.render("github.search"),
            "github.search(query: str, repo: str = '...', sort: Literal['stars', 'forks'] = 'stars', \
             tags: list[str] | None = '...')"
        );
        assert_eq!(signature.described_parameters(), ["query: what to look for"]);
    }

    #[test]
    fn types_are_ones_that_python_knows() {
        let many: Vec<String> = (0..100).map(|n| n.to_string()).collect();
        for (schema, expected) in [
            (json!({"enum": [1.5, 2]}), "float | int"),
            (json!({"enum": []}), "Any"),
            (json!({"enum": [["a"], null]}), "list | None"),
            (json!({ "enum": many }), "str"),
            (json!({"const": 1.5}), "float"),
            (json!({"enum": ["a", null]}), "Literal['a', None]"),
            (json!({"type": "string", "nullable": true}), "str | None"),
            (json!({"items": {"type": "string"}}), "Any"),
        ] {
            assert_eq!(python_type(&schema, &schema), expected, "{schema}");
        }
        let schema = json!({"properties": {"a": {"type": "string", "default": null}}});
        assert_eq!(Signature::from_json_schema(&schema).render("f"), "f(a: str | None = None)");
    }

    #[test]
    fn nested_objects_are_spelled_out() {
        let comment = json!({"type": "object", "properties": {
            "path": {"type": "string"}, "line": {"type": "integer"}, "side": {"enum": ["LEFT", "RIGHT"]}},
            "required": ["path", "line"]});
        for (schema, expected) in [
            (
                json!({"type": "array", "items": comment}),
                "list[{path: str, line: int, side?: Literal['LEFT', 'RIGHT']}]",
            ),
            (json!({"type": "object", "additionalProperties": {"type": "integer"}}), "dict[str, int]"),
            (json!({"type": "object", "properties": {}}), "dict"),
            (json!({"anyOf": [{"type": "object", "properties": {"a": {}}}, {"type": "null"}]}), "{a?: Any} | None"),
        ] {
            assert_eq!(python_type(&schema, &schema), expected);
        }
    }

    #[test]
    fn a_type_that_would_be_too_long_is_told_less_deep() {
        let inner: serde_json::Map<String, Json> =
            (0..12).map(|n| (format!("some_long_name_{n}"), json!({"type": "string"}))).collect();
        let outer: serde_json::Map<String, Json> =
            (0..12).map(|n| (format!("part_{n}"), json!({"type": "object", "properties": inner}))).collect();
        let schema = json!({"type": "object", "properties": outer});
        let text = python_type(&schema, &schema);
        assert!(text.starts_with("{part_0?: dict, part_1?: dict") && text.len() <= MAX_TYPE_CHARS, "{text}");
    }

    #[test]
    fn a_schema_that_refers_to_itself_ends() {
        let schema = json!({"properties": {"a": {"$ref": "#/$defs/T"}}, "$defs": {"T": {"type": "array", "items": {"$ref": "#/$defs/T"}}}});
        assert!(Signature::from_json_schema(&schema).render("f").contains("Any"));
    }

    #[test]
    fn markers_separate_the_kinds() {
        let parameter = |name: &str, kind| Parameter {
            name: name.to_owned(),
            kind,
            annotation: None,
            default: None,
            required: true,
            description: None,
        };
        let signature = Signature {
            parameters: vec![
                parameter("a", ParameterKind::PositionalOnly),
                parameter("b", ParameterKind::PositionalOrKeyword),
                parameter("c", ParameterKind::KeywordOnly),
                parameter("rest", ParameterKind::VarKeyword),
            ],
            returns: Some("int".to_owned()),
        };
        assert_eq!(signature.render("f"), "f(a, /, b, *, c, **rest) -> int");
    }
}
