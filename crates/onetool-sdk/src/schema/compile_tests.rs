//! Properties of compiling, and the dialects by example.

use proptest::prelude::*;
use serde_json::{Map, Value as Json, json};

use super::*;
use crate::Validator;
use crate::schema::lint_request;

fn notes(compiled: &CompiledSchema) -> Vec<String> {
    compiled.given_up.iter().map(|note| format!("{}: {}", note.pointer, note.what)).collect()
}

fn parameters(schema: &Json, provider: Provider) -> Json {
    compile_schema(schema, provider).parameters.unwrap()
}

fn example() -> Json {
    json!({
        "type": "object",
        "properties": {
            "query": {"type": "string", "minLength": 1, "description": "What to find."},
            "count": {"type": "integer", "format": "uint8", "minimum": 0, "maximum": 255, "default": 10},
            "sort": {"oneOf": [
                {"type": "string", "const": "stars", "description": "Most loved."},
                {"type": "string", "const": "forks"}
            ]},
            "filter": {"anyOf": [{"$ref": "#/definitions/Filter"}, {"type": "null"}], "default": null},
            "level": {"allOf": [{"$ref": "#/definitions/Level"}], "description": "How deep."}
        },
        "required": ["query"],
        "additionalProperties": false,
        "definitions": {
            "Filter": {"type": "object", "properties": {"language": {"type": "string"}}, "additionalProperties": false},
            "Level": {"type": "integer", "enum": [1, 2]}
        }
    })
}

#[test]
fn openai_strict_requires_every_key_and_says_the_rest_in_words() {
    let compiled = compile_schema(&example(), Provider::OpenAi);
    assert!(compiled.strict);
    assert_eq!(
        compiled.parameters.as_ref().unwrap(),
        &json!({
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "What to find. (minLength 1)"},
                "count": {"type": ["integer", "null"], "minimum": 0, "maximum": 255, "description": "(default 10)"},
                "sort": {"type": ["string", "null"], "enum": ["stars", "forks", null], "description": "- stars: Most loved."},
                "filter": {"anyOf": [{"$ref": "#/$defs/Filter"}, {"type": "null"}]},
                "level": {"type": ["integer", "null"], "enum": [1, 2, null], "description": "How deep."}
            },
            "required": ["query", "count", "sort", "filter", "level"],
            "additionalProperties": false,
            "$defs": {
                "Filter": {"type": "object", "properties": {"language": {"type": ["string", "null"]}},
                           "required": ["language"], "additionalProperties": false},
                "Level": {"type": "integer", "enum": [1, 2]}
            }
        })
    );
    assert_eq!(notes(&compiled), ["/properties/query: the constraint minLength 1"]);
}

#[test]
fn anthropic_strict_leaves_optional_keys_optional() {
    let compiled = compile_schema(&example(), Provider::Anthropic);
    assert!(compiled.strict);
    let schema = compiled.parameters.as_ref().unwrap();
    assert_eq!(schema["required"], json!(["query"]));
    assert_eq!(
        schema["properties"]["count"],
        json!({"type": "integer", "description": "(minimum 0, maximum 255)", "default": 10})
    );
    assert_eq!(
        notes(&compiled),
        [
            "/properties/query: the constraint minLength 1",
            "/properties/count: the constraint minimum 0",
            "/properties/count: the constraint maximum 255",
        ]
    );
}

#[test]
fn gemini_gets_neither_references_nor_null_types() {
    let compiled = compile_schema(&example(), Provider::Gemini);
    assert!(!compiled.strict);
    assert_eq!(
        compiled.parameters.as_ref().unwrap(),
        &json!({
            "type": "object",
            "properties": {
                "query": {"type": "string", "minLength": 1, "description": "What to find."},
                "count": {"type": "integer", "minimum": 0, "maximum": 255, "description": "(default 10)"},
                "sort": {"type": "string", "enum": ["stars", "forks"], "description": "- stars: Most loved."},
                "filter": {"type": "object", "properties": {"language": {"type": "string"}}, "nullable": true},
                "level": {"type": "integer", "description": "How deep. (one of 1, 2)"}
            },
            "required": ["query"]
        })
    );
    let empty = json!({"type": "object", "additionalProperties": false});
    assert_eq!(compile_schema(&empty, Provider::Gemini).parameters, None);
    assert!(compile_schema(&empty, Provider::OpenAi).strict);
}

#[test]
fn plain_is_the_schema_itself() {
    let compiled = compile_schema(&example(), Provider::Plain);
    assert_eq!((compiled.parameters, compiled.strict), (Some(example()), false));
}

#[test]
fn what_strict_mode_cannot_say_makes_it_not_strict_and_is_told() {
    let object =
        |property: Json| json!({"type": "object", "properties": {"x": property}, "additionalProperties": false});
    for (property, what) in [
        (json!(true), "a value of any type"),
        (json!({"type": "object", "additionalProperties": {"type": "string"}}), "keys that are not named"),
        (json!({"type": "array"}), "a value of any type"),
        (json!({"type": "array", "items": [{"type": "string"}]}), "a list whose items each have their own type"),
        (json!({"allOf": [{"type": "string"}, {"type": "integer"}]}), "an 'allOf' whose pieces cannot be merged"),
        (json!({"$ref": "#/definitions/gone"}), "a reference that leads nowhere"),
    ] {
        let schema = object(property);
        for provider in [Provider::OpenAi, Provider::Anthropic] {
            let compiled = compile_schema(&schema, provider);
            assert!(!compiled.strict, "{schema}");
            assert!(notes(&compiled).iter().any(|note| note.contains(what)), "{schema} {:?}", notes(&compiled));
            assert_eq!(compiled.parameters.as_ref(), Some(&schema));
        }
    }
}

#[test]
fn a_tree_is_kept_by_openai_refused_by_anthropic_and_cut_for_gemini() {
    let schema = json!({
        "type": "object", "properties": {"tree": {"$ref": "#/definitions/Tree"}}, "required": ["tree"],
        "additionalProperties": false,
        "definitions": {"Tree": {"type": "object", "additionalProperties": false, "required": ["children"], "properties": {
            "children": {"type": "array", "items": {"$ref": "#/definitions/Tree"}}}}}
    });
    assert!(compile_schema(&schema, Provider::OpenAi).strict);
    assert!(!compile_schema(&schema, Provider::Anthropic).strict);
    let gemini = compile_schema(&schema, Provider::Gemini);
    assert_eq!(
        gemini.parameters.as_ref().unwrap()["properties"]["tree"]["properties"]["children"]["items"],
        json!({"type": "object"})
    );
    assert!(notes(&gemini).iter().any(|note| note.contains("contains its own kind")));
}

#[test]
fn a_union_as_the_root_becomes_one_object() {
    let branch = |kind: &str, key: &str| {
        json!({"type": "object", "properties": {"kind": {"type": "string", "const": kind}, key: {"type": "integer"}},
               "required": ["kind", key]})
    };
    let schema = json!({"oneOf": [branch("a", "x"), branch("b", "y")]});
    for provider in [Provider::OpenAi, Provider::Anthropic, Provider::Gemini] {
        let compiled = parameters(&schema, provider);
        assert_eq!(compiled["type"], "object");
        assert_eq!(compiled["properties"]["kind"]["enum"], json!(["a", "b"]));
        assert!(["anyOf", "oneOf", "allOf"].iter().all(|key| compiled.get(key).is_none()));
    }
}

#[test]
fn limits_are_noticed_before_the_provider_does() {
    let wide = |count: usize| {
        let properties: Map<String, Json> = (0..count).map(|n| (format!("p{n}"), json!({"type": "string"}))).collect();
        json!({"type": "object", "properties": properties, "additionalProperties": false})
    };
    assert!(compile_schema(&wide(5000), Provider::OpenAi).strict);
    assert!(!compile_schema(&wide(5001), Provider::OpenAi).strict);
    assert!(compile_schema(&wide(24), Provider::Anthropic).strict);
    let over = compile_schema(&wide(25), Provider::Anthropic);
    assert_eq!(notes(&over), [": 25 optional arguments: strict mode takes at most 24"]);
    let half = compile_schema(&wide(13), Provider::Anthropic);
    assert_eq!(
        lint_request(Provider::Anthropic, &[&half, &half]),
        ["26 optional arguments in strict tools: one request takes at most 24"]
    );
    let mut deep = json!({"type": "string"});
    for _ in 0..11 {
        deep = json!({"type": "object", "properties": {"x": deep}, "additionalProperties": false, "required": ["x"]});
    }
    assert!(!compile_schema(&deep, Provider::OpenAi).strict);
    for _ in 0..300 {
        deep = json!({"type": "object", "properties": {"x": deep}});
    }
    assert_eq!(
        notes(&compile_schema(&deep, Provider::Gemini)),
        [": everything: the schema nests too deep or refers too often"]
    );
}

/// A schema and a value that matches it.
fn fitting() -> impl Strategy<Value = (Json, Json)> {
    let leaf = prop_oneof![
        "[a-z]{0,6}".prop_map(|text| (json!({"type": "string", "minLength": 0}), json!(text))),
        (0..100_i64).prop_map(|n| (json!({"type": "integer", "minimum": 0}), json!(n))),
        any::<bool>().prop_map(|flag| (json!({"type": "boolean"}), json!(flag))),
        prop::sample::select(vec!["red", "blue"]).prop_map(|c| (json!({"enum": ["red", "blue"]}), json!(c))),
        Just((json!({"type": ["string", "null"]}), Json::Null)),
        Just((json!({"anyOf": [{"type": "integer"}, {"type": "null"}]}), json!(3))),
        Just((json!({"$ref": "#/definitions/Point"}), json!({"x": 1}))),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            (inner.clone(), 0..3_usize).prop_map(|((schema, value), count)| {
                (json!({"type": "array", "items": schema}), Json::Array(vec![value; count]))
            }),
            object(inner.clone()),
            // Alternatives distinguished by a constant.
            (object(inner.clone()), object(inner), any::<bool>()).prop_map(|(first, second, pick)| {
                let tagged = |(mut schema, mut value): (Json, Json), tag: &str| {
                    schema["properties"]["kind"] = json!({"type": "string", "const": tag});
                    schema["required"].as_array_mut().unwrap().push(json!("kind"));
                    value["kind"] = json!(tag);
                    (schema, value)
                };
                let (first, second) = (tagged(first, "first"), tagged(second, "second"));
                (json!({"oneOf": [first.0, second.0]}), if pick { first.1 } else { second.1 })
            }),
        ]
    })
}

fn object(inner: impl Strategy<Value = (Json, Json)>) -> impl Strategy<Value = (Json, Json)> {
    prop::collection::vec((inner, 0..3_u8), 0..4).prop_map(|fields| {
        let (mut properties, mut required, mut value) = (Map::new(), Vec::new(), Map::new());
        for (index, ((schema, example), presence)) in fields.into_iter().enumerate() {
            let name = format!("f{index}");
            if presence == 0 {
                required.push(json!(name));
            }
            // An optional null and an omitted key mean the same, so a normalised value has no such null.
            if presence == 0 || (presence == 1 && !example.is_null()) {
                value.insert(name.clone(), example);
            }
            properties.insert(name, schema);
        }
        let schema = json!({"type": "object", "properties": properties, "required": required,
                            "additionalProperties": false});
        (schema, Json::Object(value))
    })
}

/// Anything that looks like a schema, valid or not.
fn rubbish() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(json!(true)),
        Just(Json::Null),
        prop::sample::select(vec![
            "string",
            "object",
            "null",
            "x",
            "#",
            "#/definitions/a",
            "#/definitions/b",
            "#/$defs/c"
        ])
        .prop_map(|text| json!(text)),
        prop::sample::select(vec!["#", "#/definitions/a", "#/definitions/b"]).prop_map(|text| json!({ "$ref": text })),
        any::<i64>().prop_map(|n| json!(n)),
    ];
    leaf.prop_recursive(5, 60, 5, |inner| {
        let key = prop::sample::select(vec![
            "type",
            "properties",
            "required",
            "items",
            "anyOf",
            "oneOf",
            "allOf",
            "$ref",
            "enum",
            "const",
            "default",
            "a",
            "definitions",
            "b",
            "additionalProperties",
            "nullable",
            "description",
            "minLength",
            "pattern",
            "not",
        ]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Json::Array),
            prop::collection::vec((key, inner), 0..5).prop_map(|pairs| pairs
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value))
                .collect::<Map<_, _>>()
                .into()),
        ]
    })
}

#[test]
fn definitions_that_multiply_or_go_in_circles_end() {
    use crate::schema_cost::tests::chain;
    let circle = json!({"$ref": "#/definitions/a", "definitions": {"a": {"anyOf": [
        {"$ref": "#/definitions/a"}, {"allOf": [{"$ref": "#/definitions/a"}]}]}}});
    for schema in [chain(60, 2, "allOf"), chain(60, 2, "anyOf"), chain(14, 2, "anyOf"), chain(14, 2, "allOf"), circle] {
        for provider in [Provider::OpenAi, Provider::Anthropic, Provider::Gemini, Provider::Plain] {
            let compiled = compile_schema(&schema, provider);
            assert_eq!(compiled.strip_nulls(json!({"a": null})), json!({"a": null}));
        }
    }
}

proptest! {
    #[test]
    fn no_schema_makes_anything_panic(schema in rubbish(), value in rubbish()) {
        for provider in [Provider::OpenAi, Provider::Anthropic, Provider::Gemini, Provider::Plain] {
            let compiled = compile_schema(&schema, provider);
            let _ = compiled.strip_nulls(value.clone());
        }
        let _ = crate::Signature::from_json_schema(&schema).render("f");
        if let Ok(validator) = Validator::new(&schema) {
            prop_assert_eq!(validator.issues(&value).is_empty(), validator.is_valid(&value));
        }
    }

    #[test]
    fn stripping_undoes_compiling((mut schema, value) in object(fitting())) {
        schema["definitions"] = json!({"Point": {"type": "object", "additionalProperties": false, "required": ["x"],
            "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}}}});
        prop_assert!(Validator::draft07(&schema).unwrap().is_valid(&value), "the value fits its schema");
        let compiled = compile_schema(&schema, Provider::OpenAi);
        prop_assert!(compiled.strict, "{:?}", compiled.given_up);
        let sent = compiled.strip.fill(value.clone());
        let issues = Validator::draft07(compiled.parameters.as_ref().unwrap()).unwrap().issues(&sent);
        prop_assert!(issues.is_empty(), "{issues:?}");
        prop_assert_eq!(compiled.strip_nulls(sent), value.clone());
        // If nothing was filled in, there is nothing to strip, for any provider.
        for provider in [Provider::Anthropic, Provider::Gemini, Provider::Plain] {
            prop_assert_eq!(compile_schema(&schema, provider).strip_nulls(value.clone()), value.clone());
        }
        let anthropic = compile_schema(&schema, Provider::Anthropic);
        prop_assert!(Validator::draft07(anthropic.parameters.as_ref().unwrap()).unwrap().is_valid(&value));
    }
}
