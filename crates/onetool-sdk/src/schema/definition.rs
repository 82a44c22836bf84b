//! The schema of a tool's definition: draft-07, generated from a Rust type, closed against unknown keys.
//!
//! An object that is one part of a composition (`allOf`, a tagged enum's newtype variant) also sees the keys of the
//! other parts, so it stays open wherever it is used; a root that is a composition lists all its keys instead.

use std::collections::{BTreeSet, HashSet};

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value as Json, json};

/// The keywords that combine schemas.
const COMBINATORS: [&str; 3] = ["allOf", "anyOf", "oneOf"];
/// Keywords whose value maps names to subschemas.
const MAPS: [&str; 2] = ["properties", "patternProperties"];
/// Keywords whose value is a subschema.
const PARTS: [&str; 3] = ["items", "additionalProperties", "contains"];

/// Generates the schema of the arguments that deserialise into `T`.
pub(crate) fn definition_schema<T: JsonSchema>() -> Json {
    let generator = SchemaSettings::draft07().for_deserialize().into_generator();
    let mut schema = generator.into_root_schema_for::<T>().to_value();
    if let Some(object) = schema.as_object_mut() {
        object.remove("title");
        object.remove("$schema");
        // A tool's arguments are always an object, even those of the unit type.
        if object.get("type").is_none_or(|kind| kind == "null")
            && !COMBINATORS.iter().any(|key| object.contains_key(*key))
        {
            object.insert("type".into(), "object".into());
        }
    }
    close(&mut schema);
    schema
}

/// Adds `additionalProperties: false` wherever that only rejects keys that no part of the schema knows.
fn close(schema: &mut Json) {
    let mut composed = HashSet::new();
    // A composed definition may itself compose others: repeat until no more are found.
    loop {
        let before = composed.len();
        collect_composed(schema, Position::Whole, &mut composed);
        if let Some(definitions) = schema.get("definitions").and_then(Json::as_object) {
            for (name, definition) in definitions {
                let position = if composed.contains(name) { Position::Piece } else { Position::Whole };
                collect_composed(definition, position, &mut composed);
            }
        }
        if composed.len() == before {
            break;
        }
    }
    let definitions = schema.as_object_mut().and_then(|object| object.remove("definitions"));
    close_node(schema, Position::Whole);
    if is_composition(schema) {
        name_keys(schema, definitions.as_ref());
    }
    if let (Some(mut definitions), Some(object)) = (definitions, schema.as_object_mut()) {
        if let Some(definitions) = definitions.as_object_mut() {
            for (name, definition) in definitions.iter_mut() {
                close_node(definition, if composed.contains(name) { Position::Piece } else { Position::Whole });
            }
        }
        object.insert("definitions".into(), definitions);
    }
}

/// Whether a schema describes its object alone or together with others.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Position {
    Whole,
    Piece,
}

fn is_composition(schema: &Json) -> bool {
    COMBINATORS.iter().any(|key| schema.get(key).is_some()) || schema.get("$ref").is_some()
}

/// The position of the branches of `schema`'s combinators.
fn branch_position(schema: &Json, position: Position) -> Position {
    let pieces = schema.get("properties").is_some()
        || schema.get("allOf").and_then(Json::as_array).is_some_and(|all| all.len() > 1)
        || COMBINATORS.iter().filter(|key| schema.get(**key).is_some()).count() > 1;
    if pieces { Position::Piece } else { position }
}

fn collect_composed(schema: &Json, position: Position, composed: &mut HashSet<String>) {
    if let Some(name) = schema.get("$ref").and_then(Json::as_str).and_then(|text| text.strip_prefix("#/definitions/"))
        && position == Position::Piece
    {
        composed.insert(name.to_owned());
    }
    let inner = branch_position(schema, position);
    for key in COMBINATORS {
        for branch in schema.get(key).and_then(Json::as_array).into_iter().flatten() {
            collect_composed(branch, inner, composed);
        }
    }
    for key in MAPS {
        for property in schema.get(key).and_then(Json::as_object).into_iter().flat_map(Map::values) {
            collect_composed(property, Position::Whole, composed);
        }
    }
    for key in PARTS {
        match schema.get(key) {
            Some(Json::Array(items)) => {
                for item in items {
                    collect_composed(item, Position::Whole, composed);
                }
            }
            Some(part) => collect_composed(part, Position::Whole, composed),
            None => {}
        }
    }
}

fn close_node(schema: &mut Json, position: Position) {
    let inner = branch_position(schema, position);
    let composition = is_composition(schema);
    let Some(object) = schema.as_object_mut() else { return };
    for key in COMBINATORS {
        for branch in object.get_mut(key).and_then(Json::as_array_mut).into_iter().flatten() {
            close_node(branch, inner);
        }
    }
    for key in MAPS {
        for (_, property) in object.get_mut(key).and_then(Json::as_object_mut).into_iter().flatten() {
            close_node(property, Position::Whole);
        }
    }
    for key in PARTS {
        match object.get_mut(key) {
            Some(Json::Array(items)) => items.iter_mut().for_each(|item| close_node(item, Position::Whole)),
            Some(part) => close_node(part, Position::Whole),
            None => {}
        }
    }
    let lists_keys = object.contains_key("properties")
        || (object.get("type").is_some_and(|kind| kind == "object") && object.get("required").is_none());
    let open = object.contains_key("additionalProperties") || object.contains_key("patternProperties");
    if lists_keys && !open && !composition && position == Position::Whole {
        object.insert("additionalProperties".into(), Json::Bool(false));
    }
}

/// Closes a composition by listing every key that one of its parts knows, unless a part accepts any key.
fn name_keys(schema: &mut Json, definitions: Option<&Json>) {
    let mut names = BTreeSet::new();
    if collect_names(schema, definitions, &mut names, 0)
        && !names.is_empty()
        && let Some(object) = schema.as_object_mut()
    {
        object.entry("propertyNames").or_insert_with(|| json!({ "enum": names }));
    }
}

/// Maximum depth of references followed to collect names.
const MAX_REFERENCES: usize = 16;

/// Adds the keys that `schema` knows; `false` if it accepts any.
fn collect_names(schema: &Json, definitions: Option<&Json>, names: &mut BTreeSet<String>, depth: usize) -> bool {
    if depth > MAX_REFERENCES {
        return false;
    }
    if schema.get("additionalProperties").is_some_and(|rest| rest != &Json::Bool(false))
        || schema.get("patternProperties").is_some()
    {
        return false;
    }
    names.extend(schema.get("properties").and_then(Json::as_object).into_iter().flat_map(Map::keys).cloned());
    if let Some(name) = schema.get("$ref").and_then(Json::as_str).and_then(|text| text.strip_prefix("#/definitions/")) {
        let Some(target) = definitions.and_then(|all| all.get(name)) else { return false };
        if !collect_names(target, definitions, names, depth + 1) {
            return false;
        }
    }
    COMBINATORS.iter().all(|key| {
        let branches = schema.get(key).and_then(Json::as_array).into_iter().flatten();
        branches.into_iter().all(|branch| collect_names(branch, definitions, names, depth + 1))
    })
}

#[cfg(test)]
mod tests {
    #![expect(dead_code, reason = "the types are read by their schema and by deserialising only")]

    use std::collections::HashMap;

    use serde::Deserialize;

    use super::*;
    use crate::Validator;

    #[derive(Deserialize, JsonSchema)]
    struct Inner {
        depth: u8,
    }

    #[derive(Deserialize, JsonSchema)]
    struct Label {
        text: String,
    }

    #[derive(Deserialize, JsonSchema)]
    #[serde(tag = "kind", rename_all = "snake_case")]
    enum Shape {
        Round { radius: f64 },
        Boxed(Inner),
        Empty,
    }

    #[derive(Deserialize, JsonSchema)]
    struct Input {
        query: String,
        #[serde(default)]
        inner: Option<Inner>,
        #[serde(default)]
        shapes: Vec<Shape>,
        #[serde(default)]
        labels: HashMap<String, Label>,
        #[serde(default)]
        anything: Json,
        #[serde(default)]
        pair: Option<(u8, String)>,
    }

    fn accepts<T: JsonSchema + serde::de::DeserializeOwned>(value: &Json) -> bool {
        let fits = Validator::draft07(&definition_schema::<T>()).unwrap().is_valid(value);
        if fits {
            serde_json::from_value::<T>(value.clone()).expect("what the schema takes deserialises");
        }
        fits
    }

    #[test]
    fn unknown_keys_are_refused_at_every_level() {
        assert!(accepts::<Input>(&json!({"query": "a"})));
        assert!(!accepts::<Input>(&json!({"query": "a", "other": 1})));
        assert!(accepts::<Input>(&json!({"query": "a", "inner": {"depth": 1}, "labels": {"x": {"text": "a"}}})));
        assert!(!accepts::<Input>(&json!({"query": "a", "labels": {"x": {"text": "a", "more": 1}}})));
        assert!(accepts::<Input>(&json!({"query": "a", "anything": {"x": [1]}, "pair": [1, "x"]})));
    }

    #[test]
    fn a_piece_of_a_composition_leaves_the_other_pieces_their_keys() {
        assert!(accepts::<Input>(&json!({"query": "a", "shapes": [
            {"kind": "round", "radius": 1.0}, {"kind": "boxed", "depth": 3}, {"kind": "empty"}]})));
        assert!(!accepts::<Input>(&json!({"query": "a", "shapes": [{"kind": "round", "radius": 1.0, "more": 1}]})));
        assert!(!accepts::<Input>(&json!({"query": "a", "shapes": [{"kind": "square"}]})));
    }

    #[derive(Deserialize, JsonSchema)]
    struct Flat {
        id: u8,
        #[serde(flatten)]
        shape: Shape,
    }

    #[derive(Deserialize, JsonSchema)]
    struct FlatMap {
        id: u8,
        #[serde(flatten)]
        rest: HashMap<String, Json>,
    }

    #[test]
    fn flattened_fields_are_known_and_others_are_not() {
        assert!(accepts::<Flat>(&json!({"id": 1, "kind": "boxed", "depth": 3})));
        assert!(!accepts::<Flat>(&json!({"id": 1, "kind": "boxed", "depth": 3, "more": 1})));
        assert!(accepts::<FlatMap>(&json!({"id": 1, "more": {"x": 1}})));
    }

    #[derive(Deserialize, JsonSchema)]
    struct Nothing {}

    #[test]
    fn a_tool_without_parameters_takes_an_empty_object() {
        assert_eq!(definition_schema::<Nothing>(), json!({"type": "object", "additionalProperties": false}));
        assert!(!accepts::<Nothing>(&json!({"x": 1})));
    }
}
