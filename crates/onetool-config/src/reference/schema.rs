//! A JSON Schema of the configuration, for editors.

use serde_json::{Map, Value as Json, json};

use super::is_empty;
use crate::section::AnySection;
use crate::shape::{Key, MAX_SECONDS, Shape};

/// The schema of a whole file.
pub fn json_schema(sections: &[&dyn AnySection]) -> Json {
    let mut properties = Map::new();
    for section in sections.iter().filter(|section| !section.path().contains('.')) {
        let mut schema = described(section.shape(), section.doc(), section.default_json());
        let prefix = format!("{}.", section.path());
        let inner: Map<String, Json> = sections
            .iter()
            .filter_map(|inner| Some((inner.path().strip_prefix(&prefix)?.to_owned(), inner)))
            .map(|(name, inner)| (name, described(inner.shape(), inner.doc(), inner.default_json())))
            .collect();
        if !inner.is_empty() {
            schema["properties"] = inner.into();
        }
        properties.insert(section.path().to_owned(), schema);
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "OneTool configuration",
        "type": ["object", "null"],
        "properties": properties,
        "patternProperties": {"^x-": true},
        "additionalProperties": false,
    })
}

/// A key without a value counts as missing, so `null` is accepted everywhere.
fn described(shape: Shape, doc: &str, default: Json) -> Json {
    let mut schema = or_null(of(shape));
    schema["description"] = doc.trim().into();
    // A mapping's defaults are those of its keys.
    if !is_empty(&default) && !matches!(shape, Shape::Keys(_)) {
        schema["default"] = default;
    }
    schema
}

fn or_null(mut schema: Json) -> Json {
    match schema.get("type").cloned() {
        Some(Json::String(kind)) => {
            schema["type"] = json!([kind, "null"]);
            schema
        }
        None if schema.as_object().is_some_and(Map::is_empty) => schema,
        _ => json!({"anyOf": [schema, {"type": "null"}]}),
    }
}

fn of(shape: Shape) -> Json {
    match shape {
        Shape::Any => json!({}),
        Shape::Text => json!({"type": "string"}),
        Shape::Flag => json!({"type": "boolean"}),
        Shape::Count(least, most) => json!({"type": "integer", "minimum": least, "maximum": most}),
        Shape::Number(least, most) => json!({"type": "number", "minimum": least, "maximum": most}),
        Shape::Seconds => json!({"type": "number", "exclusiveMinimum": 0, "maximum": MAX_SECONDS}),
        Shape::Choice(words) if words.contains(&"off") => {
            // In YAML 1.1, `off` means false.
            json!({"enum": words.iter().map(|word| json!(word)).chain([json!(false)]).collect::<Vec<_>>()})
        }
        Shape::Choice(words) => json!({"enum": words}),
        Shape::List(item) => json!({"type": "array", "items": of(*item)}),
        Shape::OneOrMore(item) => json!({"anyOf": [of(*item), {"type": "array", "items": of(*item)}]}),
        Shape::Names(inner) => {
            // A name without a value gets all defaults.
            let inner = if inner.has_keys() { or_null(of(*inner)) } else { of(*inner) };
            json!({"type": "object", "additionalProperties": inner})
        }
        Shape::Keys(keys) => {
            let property = |key: &Key| (key.name.to_owned(), described(key.shape, key.doc, (key.default)()));
            let properties: Map<String, Json> = keys.iter().map(property).collect();
            json!({"type": "object", "properties": properties, "additionalProperties": false})
        }
        Shape::Either(shapes) => json!({"anyOf": shapes.iter().map(|shape| of(*shape)).collect::<Vec<_>>()}),
    }
}
