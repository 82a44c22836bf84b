//! Checks whether a schema is valid without building its validator.
//!
//! Building one costs many times what reading the schema costs, and an import of thousands of tools needs none of them:
//! a validator is built when its tool is called. Only definite answers are given here.
//!
//! **Invariant:** a schema that is certainly valid builds. Anything unknown to this module is left to
//! [`validator_for`].

use std::collections::HashSet;

use onetool_sdk::{SchemaError, Validator};
use parking_lot::Mutex;
use serde_json::{Map, Value as Json, json};

/// Deeper schemas are left to [`validator_for`].
const MAX_DEPTH: usize = 64;
/// Maximum number of valid patterns that are cached, and their maximum length.
const REMEMBERED_PATTERNS: usize = 1000;
const PATTERN_BYTES: usize = 300;

const TYPES: &[&str] = &["array", "boolean", "integer", "null", "number", "object", "string"];
const DEFINITIONS: &str = "#/$defs/";

/// Returns why a schema is invalid.
pub(crate) fn check_schema(schema: &Json) -> Result<(), String> {
    if is_certainly_valid(schema) {
        return Ok(());
    }
    validator_for(schema).map(drop)
}

/// Builds the validator of a schema.
pub(crate) fn validator_for(schema: &Json) -> Result<Validator, String> {
    Validator::exact(schema).map_err(|error| match error {
        SchemaError::Invalid { pointer, reason } if pointer.is_empty() => reason,
        SchemaError::Invalid { pointer, reason } => format!("{reason} (at {pointer})"),
        SchemaError::TooDeep | SchemaError::TooComplex => error.to_string(),
    })
}

/// `false` means unknown, not invalid.
fn is_certainly_valid(schema: &Json) -> bool {
    let definitions = schema.get("$defs").and_then(Json::as_object);
    Walk { definitions }.schema(schema, 0)
}

struct Walk<'a> {
    /// Possible targets of references.
    definitions: Option<&'a Map<String, Json>>,
}

impl Walk<'_> {
    fn schema(&self, schema: &Json, depth: usize) -> bool {
        match schema {
            Json::Bool(_) => true,
            Json::Object(object) if depth < MAX_DEPTH => {
                object.iter().all(|(key, value)| self.keyword(key, value, depth + 1))
            }
            _ => false,
        }
    }

    fn keyword(&self, key: &str, value: &Json, depth: usize) -> bool {
        match key {
            "type" => is_type(value),
            "description" | "title" | "format" => value.is_string(),
            "default" | "const" => true,
            "properties" | "dependentSchemas" => self.members(value, depth),
            // Only the definitions of the root can be referenced.
            "$defs" => depth == 1 && self.members(value, depth),
            "items" | "additionalProperties" | "not" | "contains" | "propertyNames" | "if" | "then" | "else" => {
                self.schema(value, depth)
            }
            "allOf" | "anyOf" | "oneOf" | "prefixItems" => value
                .as_array()
                .is_some_and(|items| !items.is_empty() && items.iter().all(|item| self.schema(item, depth))),
            "enum" => value.as_array().is_some_and(|values| !values.is_empty()),
            "required" => value.as_array().is_some_and(|names| are_unique_texts(names)),
            "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => value.is_i64() || value.is_u64(),
            "multipleOf" => value.as_u64().is_some_and(|number| number > 0),
            "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" => value.is_u64(),
            "uniqueItems" => value.is_boolean(),
            "pattern" => value.as_str().is_some_and(is_pattern),
            "$ref" => value.as_str().is_some_and(|reference| self.is_known(reference)),
            _ => false,
        }
    }

    fn members(&self, value: &Json, depth: usize) -> bool {
        value.as_object().is_some_and(|members| members.values().all(|member| self.schema(member, depth)))
    }

    /// Whether a reference targets a known definition. References with escapes are left to [`validator_for`].
    fn is_known(&self, reference: &str) -> bool {
        let name = reference.strip_prefix(DEFINITIONS).filter(|name| {
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
        });
        name.is_some_and(|name| self.definitions.is_some_and(|definitions| definitions.contains_key(name)))
    }
}

fn is_type(value: &Json) -> bool {
    let is_one = |value: &Json| value.as_str().is_some_and(|kind| TYPES.contains(&kind));
    match value {
        Json::Array(kinds) => !kinds.is_empty() && kinds.iter().all(is_one) && are_unique_texts(kinds),
        one => is_one(one),
    }
}

fn are_unique_texts(values: &[Json]) -> bool {
    const FEW: usize = 8;
    let texts: Option<Vec<&str>> = values.iter().map(Json::as_str).collect();
    texts.is_some_and(|texts| {
        if texts.len() <= FEW {
            return texts.iter().enumerate().all(|(at, text)| !texts[..at].contains(text));
        }
        let mut seen = HashSet::with_capacity(texts.len());
        texts.into_iter().all(|text| seen.insert(text))
    })
}

/// Cached: a document repeats the same few patterns, and checking one takes longer than the rest of its schema.
fn is_pattern(pattern: &str) -> bool {
    static VALID: Mutex<Option<HashSet<Box<str>>>> = Mutex::new(None);
    if pattern.len() > PATTERN_BYTES {
        return false;
    }
    if VALID.lock().as_ref().is_some_and(|valid| valid.contains(pattern)) {
        return true;
    }
    if validator_for(&json!({ "pattern": pattern })).is_err() {
        return false;
    }
    let mut valid = VALID.lock();
    let valid = valid.get_or_insert_default();
    if valid.len() >= REMEMBERED_PATTERNS {
        valid.clear();
    }
    valid.insert(pattern.into());
    true
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_imports_write_is_certain() {
        let schema = json!({
            "type": "object",
            "description": "x",
            "properties": {
                "a": {"type": ["string", "null"], "pattern": "^[a-z]+$", "maxLength": 5, "format": "uri", "default": "b"},
                "b": {"anyOf": [{"$ref": "#/$defs/one_2"}, {"type": "null"}]},
                "c": {"type": "array", "items": {"enum": ["x", 1, null]}, "uniqueItems": true, "minItems": 1},
                "d": {"type": "integer", "minimum": -3, "maximum": 4, "multipleOf": 2},
            },
            "required": ["a"],
            "additionalProperties": false,
            "$defs": {"one_2": {"type": "object", "properties": {"again": {"$ref": "#/$defs/one_2"}}}},
        });
        assert!(is_certainly_valid(&schema));
        check_schema(&schema).unwrap();
    }

    #[test]
    fn what_is_wrong_is_still_said() {
        for bad in [
            json!({"type": "text"}),
            json!({"properties": {"a": {"$ref": "#/$defs/none"}}}),
            json!({"properties": {"a": {"pattern": "("}}}),
            json!({"required": ["a", "a"]}),
            json!({"minLength": -1}),
            json!({"anyOf": []}),
            json!({"$schema": "https://example.org/unknown"}),
        ] {
            assert!(check_schema(&bad).is_err(), "{bad}");
        }
        // Not certainly valid, but valid.
        check_schema(&json!({"patternProperties": {"^a": {"type": "string"}}, "minimum": 0.5})).unwrap();
    }

    /// Schemas that are often valid, or nearly so.
    fn schemas() -> impl Strategy<Value = Json> {
        let scalar = prop_oneof![
            Just(json!(null)),
            any::<bool>().prop_map(Json::from),
            (-3i64..5).prop_map(Json::from),
            (-2.0..3.0f64).prop_map(|number| json!(number)),
            prop::sample::select(vec!["string", "object", "a", "#/$defs/a", "#/$defs/z", "#", "^[a-z]{2}$", "(", ""])
                .prop_map(Json::from),
        ];
        let key = prop::sample::select(vec![
            "type",
            "description",
            "default",
            "const",
            "properties",
            "$defs",
            "items",
            "additionalProperties",
            "not",
            "if",
            "then",
            "allOf",
            "anyOf",
            "oneOf",
            "prefixItems",
            "enum",
            "required",
            "minimum",
            "exclusiveMaximum",
            "multipleOf",
            "minLength",
            "maxItems",
            "uniqueItems",
            "pattern",
            "$ref",
            "a",
            "contains",
            "propertyNames",
            "dependentSchemas",
            "format",
            "$id",
            "$schema",
            "patternProperties",
        ]);
        scalar.prop_recursive(4, 40, 5, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Json::from),
                prop::collection::vec((key.clone(), inner), 0..5)
                    .prop_map(|members| members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(3000))]
        #[test]
        fn what_is_certain_builds(part in schemas(), whole in any::<bool>()) {
            let schema = if whole { part } else { json!({"type": "object", "properties": {"p": part}, "$defs": {"a": {}}}) };
            if is_certainly_valid(&schema) {
                prop_assert!(validator_for(&schema).is_ok(), "{schema}");
            }
        }
    }
}
