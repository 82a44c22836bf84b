//! Random schemas and values: our result must equal the oracle's.
//!
//! `ONETOOL_SCHEMA_CASES=100000 cargo test --release -p onetool-sdk json_schema` runs it longer.

use std::collections::HashSet;

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value as Json, json};

use super::*;

const CASES: u32 = 400;
/// Number of values tried on each schema.
const VALUES: usize = 12;

const KEYS: &[&str] = &["a", "b", "c", "x-a", "ab"];
const TEXTS: &[&str] =
    &["", "a", "b", "ab", "x-a", "äb", "1", "2020-01-01", "10:00:00Z", "a@b.c", "a.b", "1.2.3.4", "http://a/b", "e30="];
const PATTERNS: &[&str] = &["^a", "b$", "^a$", "a|b", r"^\w+$", "^x-", r"\d", "^(?!a)", r"^[^a]", ""];
const FORMATS: &[&str] = &[
    "date",
    "time",
    "date-time",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "uri",
    "uri-reference",
    "json-pointer",
    "regex",
    "x",
];
const TYPES: &[&str] = &["null", "boolean", "integer", "number", "string", "array", "object"];
const REFERENCES: &[&str] = &[
    "#",
    "",
    "#/$defs/a",
    "#/$defs/b",
    "#/definitions/a",
    "#/definitions/b",
    "#/properties/a",
    "#one",
    "#two",
    "item",
    "item#/properties/a",
];

fn key() -> impl Strategy<Value = String> {
    select(KEYS).prop_map(str::to_owned)
}

fn number() -> impl Strategy<Value = Json> {
    prop_oneof![
        8 => (-3i64..6).prop_map(Json::from),
        4 => (-30i64..60).prop_map(|tenths| json!(tenths as f64 / 10.0)),
        1 => select(vec![json!(u64::MAX), json!(i64::MIN), json!(1e20), json!(9_007_199_254_740_993_u64), json!(9_007_199_254_740_992.0)]),
    ]
}

fn scalar() -> BoxedStrategy<Json> {
    prop_oneof![
        1 => Just(Json::Null),
        1 => any::<bool>().prop_map(Json::from),
        4 => number(),
        4 => select(TEXTS).prop_map(Json::from),
    ]
    .boxed()
}

fn value() -> impl Strategy<Value = Json> {
    scalar().prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Json::from),
            prop::collection::vec((key(), inner), 0..4).prop_map(|members| members.into_iter().collect()),
        ]
    })
}

/// A keyword with a value that is mostly valid.
fn keyword(inner: BoxedStrategy<Json>) -> BoxedStrategy<(String, Json)> {
    let schemas = prop::collection::vec(inner.clone(), 1..4).prop_map(Json::from).boxed();
    let map = prop::collection::vec((key(), inner.clone()), 0..4)
        .prop_map(|members| members.into_iter().collect::<Map<_, _>>().into())
        .boxed();
    let patterns = prop::collection::vec((select(PATTERNS), inner.clone()), 0..3)
        .prop_map(|members| {
            members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<Map<_, _>>().into()
        })
        .boxed();
    let names = prop::sample::subsequence(KEYS, 1..4).prop_map(Json::from).boxed();
    let lists = prop::collection::vec((key(), names.clone()), 0..3)
        .prop_map(|members| members.into_iter().collect::<Map<_, _>>().into())
        .boxed();
    let count = prop_oneof![30 => (0i64..4).prop_map(Json::from), 1 => number()].boxed();
    let flag = any::<bool>().prop_map(Json::from).boxed();
    let type_name = select(TYPES).prop_map(Json::from);
    let types = prop_oneof![3 => type_name, 1 => prop::sample::subsequence(TYPES, 1..3).prop_map(Json::from)].boxed();
    let options = prop::collection::vec(value(), 0..5).prop_map(Json::from).boxed();
    let pattern = select(PATTERNS).prop_map(Json::from).boxed();
    let format = select(FORMATS).prop_map(Json::from).boxed();
    let reference = select(REFERENCES).prop_map(Json::from).boxed();
    let items = prop_oneof![3 => inner.clone(), 1 => schemas.clone()].boxed();
    let dependencies = prop_oneof![map.clone(), lists.clone()].boxed();
    let limit = number().boxed();
    let positive = select(vec![json!(1), json!(2), json!(0.5), json!(0.1), json!(1.5), json!(0)]).boxed();
    let of = |names: &'static [&'static str], values: &BoxedStrategy<Json>| {
        (select(names).prop_map(str::to_owned), values.clone()).boxed()
    };
    let well_formed = prop_oneof![
        4 => of(&["type"], &types),
        5 => of(&["properties"], &map),
        2 => of(&["patternProperties"], &patterns),
        3 => of(&["additionalProperties"], &inner),
        3 => of(&["required"], &names),
        3 => of(&["items"], &items),
        6 => of(&["additionalItems", "contains", "propertyNames", "not", "if", "then", "else"], &inner),
        4 => of(&["unevaluatedItems", "unevaluatedProperties"], &inner),
        6 => of(&["allOf", "anyOf", "oneOf", "prefixItems"], &schemas),
        4 => of(&["minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"], &count),
        2 => of(&["minContains", "maxContains"], &count),
        4 => of(&["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"], &limit),
        1 => of(&["multipleOf"], &positive),
        1 => of(&["uniqueItems"], &flag),
        2 => of(&["pattern"], &pattern),
        2 => of(&["format"], &format),
        2 => of(&["enum"], &options),
        2 => (Just("const".to_owned()), value()),
        2 => of(&["dependencies"], &dependencies),
        1 => of(&["dependentRequired"], &lists),
        1 => of(&["dependentSchemas"], &map),
        3 => of(&["$ref"], &reference),
        1 => of(&["$dynamicRef"], &reference),
        1 => (Just("$recursiveRef".to_owned()), Just(json!("#"))),
        1 => (Just("contentEncoding".to_owned()), select(vec![json!("base64"), json!("base16"), json!("x")])),
        1 => (Just("contentMediaType".to_owned()), select(vec![json!("application/json"), json!("x")])),
        1 => of(&["unknown", "then", "title"], &inner),
    ];
    let any_name = select(vec![
        "type",
        "items",
        "required",
        "properties",
        "allOf",
        "enum",
        "minimum",
        "minLength",
        "pattern",
        "$ref",
    ]);
    prop_oneof![200 => well_formed, 1 => (any_name.prop_map(str::to_owned), value())].boxed()
}

fn schema() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        1 => any::<bool>().prop_map(Json::from),
        6 => prop::collection::vec(keyword(Just(json!({})).boxed()), 0..3).prop_map(|members| members.into_iter().collect()),
    ];
    leaf.boxed().prop_recursive(3, 24, 4, |inner| {
        prop::collection::vec(keyword(inner), 1..5).prop_map(|members| members.into_iter().collect())
    })
}

/// A schema with definitions that are targets of all kinds of references.
fn document() -> impl Strategy<Value = (Draft, Json)> {
    let parts = (select(DRAFTS.to_vec()), schema(), prop::collection::vec(schema(), 4));
    parts.prop_map(|(draft, mut root, mut definitions)| {
        let Json::Object(object) = &mut root else { return (draft, root) };
        let id = draft.id_keyword();
        let fourth = if draft.is_classic() { (id, "#one") } else { ("title", "") };
        let names = [("$anchor", "one"), ("$dynamicAnchor", "two"), (id, "item"), fourth];
        for ((name, value), definition) in names.into_iter().zip(&mut definitions) {
            if let Json::Object(definition) = definition {
                definition.insert(name.to_owned(), json!(value));
            }
        }
        // Mostly, every location that references name exists.
        object.entry("properties").or_insert_with(|| json!({"a": {"type": "integer"}}));
        if let Some(properties) = definitions[2].as_object_mut() {
            properties.entry("properties").or_insert_with(|| json!({"a": {"minimum": 1}}));
        }
        let [a, b, c, d] = definitions.try_into().unwrap();
        object.insert("$defs".to_owned(), json!({"a": a, "b": b}));
        object.insert("definitions".to_owned(), json!({"a": c, "b": d}));
        adapt(&mut root, draft);
        (draft, root)
    })
}

/// Removes most of what the draft does not allow, and references of other drafts, which the oracle follows in some
/// places.
fn adapt(value: &mut Json, draft: Draft) {
    match value {
        Json::Object(object) => {
            if draft != Draft::Draft202012 {
                object.remove("$dynamicRef");
            }
            if draft != Draft::Draft201909 {
                object.remove("$recursiveRef");
            }
            if draft == Draft::Draft202012 && object.get("items").is_some_and(Json::is_array) {
                object.remove("items");
            }
            if draft == Draft::Draft4 {
                for (keyword, other) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
                    if object.contains_key(keyword) {
                        object.entry(other).or_insert(json!(1));
                        object.insert(keyword.to_owned(), json!(object.len() % 2 == 0));
                    }
                }
                // Booleans are not schemas yet.
                for (keyword, value) in object.iter_mut() {
                    if value.is_boolean()
                        && !keyword.starts_with("additional")
                        && !keyword.starts_with("exclusive")
                        && keyword != "uniqueItems"
                        && keyword != "const"
                    {
                        *value = if *value == json!(true) { json!({}) } else { json!({"not": {}}) };
                    }
                }
            }
            object.values_mut().for_each(|value| adapt(value, draft));
        }
        Json::Array(items) => {
            for item in items {
                if draft == Draft::Draft4 && item.is_boolean() {
                    *item = json!({});
                }
                adapt(item, draft);
            }
        }
        _ => {}
    }
}

/// Whether a schema refers to itself for the same value. What that means below a `not` is undefined.
fn has_circle(document: &Json) -> bool {
    const IN_PLACE: &[&str] = &[
        "allOf",
        "anyOf",
        "oneOf",
        "not",
        "if",
        "then",
        "else",
        "dependentSchemas",
        "dependencies",
        "unevaluatedItems",
        "unevaluatedProperties",
    ];
    fn all<'a>(value: &'a Json, out: &mut Vec<&'a Json>) {
        out.push(value);
        match value {
            Json::Array(values) => values.iter().for_each(|value| all(value, out)),
            Json::Object(values) => values.values().for_each(|value| all(value, out)),
            _ => {}
        }
    }
    fn targets<'a>(document: &'a Json, reference: &str, out: &mut Vec<&'a Json>) {
        let at = |pointer: &str| document.pointer(pointer);
        match reference {
            "#" => out.push(document),
            // Which one is meant depends on the draft.
            "#one" | "#two" | "item" => {
                out.extend(
                    [at("/$defs/a"), at("/$defs/b"), at("/definitions/a"), at("/definitions/b")].into_iter().flatten(),
                );
            }
            "item#/properties/a" => out.extend(at("/definitions/a/properties/a")),
            _ => out.extend(reference.strip_prefix('#').and_then(at)),
        }
    }
    fn visit(document: &Json, schema: &Json, path: &mut Vec<usize>, done: &mut HashSet<usize>) -> bool {
        let address = std::ptr::from_ref(schema) as usize;
        if path.contains(&address) {
            return true;
        }
        if !done.insert(address) {
            return false;
        }
        path.push(address);
        let mut next: Vec<&Json> = Vec::new();
        if let Json::Object(object) = schema {
            for (key, value) in object {
                if key.ends_with("Ref") || key == "$ref" {
                    targets(document, value.as_str().unwrap_or_default(), &mut next);
                } else if IN_PLACE.contains(&key.as_str()) {
                    next.push(value);
                    match value {
                        Json::Array(values) => next.extend(values),
                        Json::Object(values) => next.extend(values.values()),
                        _ => {}
                    }
                }
            }
        }
        let found = next.into_iter().any(|next| visit(document, next, path, done));
        path.pop();
        found
    }
    let mut roots = vec![document];
    for pointer in ["/$defs/a", "/$defs/b", "/definitions/a", "/definitions/b"] {
        roots.extend(document.pointer(pointer));
    }
    all(document, &mut roots);
    let mut done = HashSet::new();
    roots.into_iter().any(|root| visit(document, root, &mut Vec::new(), &mut done))
}

fn cases() -> u32 {
    std::env::var("ONETOOL_SCHEMA_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(CASES)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn our_answer_is_the_oracles(
        (draft, schema) in document(),
        values in prop::collection::vec(value(), VALUES),
    ) {
        let (ours, theirs) = (Schema::compile(&schema, Some(draft)), oracle(&schema, draft));
        match (ours, theirs) {
            (Ok(ours), Ok(theirs)) => {
                if has_circle(&schema) {
                    return Ok(());
                }
                for value in values {
                    let is_valid = ours.is_valid(&value);
                    prop_assert_eq!(is_valid, theirs.is_valid(&value), "{:?} {} {}", draft, schema, value);
                    prop_assert_eq!(is_valid, ours.check(&value, 8).is_valid(), "{:?} {} {}", draft, schema, value);
                    prop_assert_eq!(is_valid, ours.check(&value, 1).is_valid(), "{:?} {} {}", draft, schema, value);
                }
            }
            (Err(_), Err(_)) => {}
            // The oracle also looks for resources in keywords of later drafts, though no reference points there.
            (Ok(_), Err(reason))
                if draft.is_classic() && (reason.starts_with("Resource") || reason.starts_with("Invalid URI")) => {}
            // The oracle checks fewer keywords of a schema at a location where the draft defines none.
            (Err(ours), Ok(_)) if draft.is_classic() && ours.pointer.ends_with("$ref") && !ours.reason.contains("exist") => {}
            // We look for resources wherever there is a schema, even if no reference points there.
            (Err(ours), Ok(_)) if ours.pointer.contains("/dependencies/") && ours.reason.contains("fetched") => {}
            // We resolve references of a condition even if it has no effect.
            (Err(ours), Ok(_)) if ours.pointer.contains("/if/") && ours.reason.contains("exist") => {}
            (ours, theirs) => {
                prop_assert!(false, "{draft:?} {schema}: {:?}, but {:?}", ours.map(drop), theirs.map(drop));
            }
        }
    }
}
