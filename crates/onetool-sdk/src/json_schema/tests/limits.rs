//! Schemas and values that would take too long, or too much stack.

use std::time::{Duration, Instant};

use serde_json::{Map, Value as Json, json};

use super::super::Schema;

#[test]
fn work_that_multiplies_is_given_up() {
    // Each level of the value is checked against both branches, which both check every level below.
    let schema = json!({
        "$ref": "#/$defs/a",
        "$defs": {"a": {"anyOf": [
            {"properties": {"n": {"$ref": "#/$defs/a"}}, "required": ["x"]},
            {"properties": {"n": {"$ref": "#/$defs/a"}}, "required": ["y"]},
        ]}}
    });
    let mut value = json!({});
    for _ in 0..60 {
        value = json!({ "n": value });
    }
    let started = Instant::now();
    let schema = Schema::compile(&schema, None).unwrap();
    assert!(!schema.is_valid(&value));
    assert!(matches!(schema.check(&value, 8), super::Outcome::GivenUp | super::Outcome::Invalid(_)));
    assert!(started.elapsed() < Duration::from_secs(30));
}

#[test]
fn what_is_long_in_both_schema_and_value_is_given_up() {
    let names = |prefix: &str, count: usize| (0..count).map(|n| format!("{prefix}{n}")).collect::<Vec<_>>();
    let map = |keys: Vec<String>| Json::from(keys.into_iter().map(|key| (key, json!(1))).collect::<Map<_, _>>());
    let patterns: Map<_, _> = names("^a", 4_000).into_iter().map(|pattern| (pattern, json!({}))).collect();
    let large = json!(names("v", 20_000));
    for (schema, value) in [
        (json!({"patternProperties": patterns}), map(names("b", 4_000))),
        (json!({"items": {"enum": names("a", 20_000)}}), json!(names("b", 20_000))),
        (json!({"items": {"required": names("a", 20_000)}}), json!(vec![map(names("a", 20_000)); 50])),
        (
            json!({"anyOf": vec![json!({"const": large, "type": "string"}); 10], "items": {"not": {"enum": names("b", 20_000)}}}),
            large.clone(),
        ),
    ] {
        let schema = Schema::compile(&schema, None).unwrap();
        let started = Instant::now();
        let _ = schema.is_valid(&value);
        assert!(started.elapsed() < Duration::from_secs(30));
    }
}

#[test]
fn what_is_given_up_does_not_fit_below_a_negation() {
    let schema = json!({"not": {"pattern": r"^(a+)*\1c$"}});
    assert!(!Schema::compile(&schema, None).unwrap().is_valid(&json!("a".repeat(40))));
}

#[test]
fn references_that_follow_one_another_take_no_stack_to_compile() {
    let mut definitions = Map::new();
    for n in 0..20_000 {
        definitions.insert(format!("d{n}"), json!({"allOf": [{"$ref": format!("#/$defs/d{}", n + 1)}]}));
    }
    definitions.insert("d20000".to_owned(), json!({}));
    let schema = Schema::compile(&json!({"$ref": "#/$defs/d0", "$defs": definitions}), None).unwrap();
    assert!(!schema.is_valid(&json!(1)), "deeper than a check may go");
}

#[test]
fn deep_values_are_followed() {
    let schema = json!({"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"type": "integer"}, {"items": {"$ref": "#/$defs/a"}}]}}});
    let schema = Schema::compile(&schema, None).unwrap();
    let deep = |levels: usize| (0..levels).fold(json!(1), |value, _| Json::Array(vec![value]));
    assert!(schema.is_valid(&deep(200)));
    assert!(schema.check(&deep(200), 8).is_valid());
    let wrong = (0..200).fold(json!("x"), |value, _| Json::Array(vec![value]));
    let strict = json!({"$ref": "#/$defs/a", "$defs": {"a": {
        "anyOf": [{"type": "integer"}, {"type": "array", "items": {"$ref": "#/$defs/a"}}], "unevaluatedItems": false
    }}});
    let strict = Schema::compile(&strict, None).unwrap();
    assert!(!strict.is_valid(&wrong));
    assert!(!strict.check(&wrong, 8).is_valid());
}

#[test]
fn circles_end() {
    for schema in [
        json!({"allOf": [{"$ref": "#"}]}),
        json!({"anyOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"oneOf": [{"$ref": "#"}]}}}),
        json!({"not": {"$ref": "#"}}),
        json!({"if": {"$ref": "#"}, "then": {"$ref": "#"}, "unevaluatedProperties": false}),
        json!({"$dynamicAnchor": "a", "allOf": [{"$dynamicRef": "#a"}], "unevaluatedProperties": {"$ref": "#"}}),
        json!({"propertyNames": {"$ref": "#"}, "contains": {"$ref": "#"}}),
    ] {
        let schema = Schema::compile(&schema, None).unwrap();
        for value in super::samples() {
            let _ = schema.check(&value, 8);
        }
    }
}
