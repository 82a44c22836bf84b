//! Schemas by keyword, each in every draft and against every sample: whether they compile, whether the samples are
//! valid, and the text of the first error.

use serde_json::{Value as Json, json};

use super::*;

fn compare(schema: &Json, draft: Draft, values: &[Json]) {
    let (ours, theirs) = (Schema::compile(schema, Some(draft)), oracle(schema, draft));
    let (ours, theirs) = match (ours, theirs) {
        (Ok(ours), Ok(theirs)) => (ours, theirs),
        (Err(_), Err(_)) => return,
        (ours, theirs) => panic!("{draft:?} {schema}: {:?}, but {:?}", ours.map(drop), theirs.map(drop)),
    };
    for value in values {
        assert_eq!(ours.is_valid(value), theirs.is_valid(value), "{draft:?} {schema} {value}");
        let (ours, theirs) = (first_error(&ours, value), first_error_of_oracle(&theirs, value));
        // If a key is rejected only by `additionalProperties`, we name the key.
        if !theirs.as_ref().is_some_and(|(_, text)| text.starts_with("False schema")) {
            assert_eq!(ours, theirs, "{draft:?} {schema} {value}");
        }
    }
}

fn compare_all(schemas: Json) {
    for schema in schemas.as_array().unwrap() {
        for draft in DRAFTS {
            compare(schema, draft, &samples());
        }
    }
}

#[test]
fn assertions() {
    compare_all(json!([
        true, false, {}, {"type": "integer"}, {"type": "number"}, {"type": ["string", "null"]}, {"type": ["object"]},
        {"type": "array", "maxItems": 1}, {"const": 1.0}, {"const": {"a": 1}}, {"const": null}, {"enum": [1]},
        {"enum": ["a", [1], null]}, {"enum": [1, 2, 3, 4, 5]}, {"enum": []}, {"minimum": 1}, {"minimum": 1.5},
        {"maximum": 1}, {"maximum": 18_446_744_073_709_551_614_u64}, {"exclusiveMinimum": 1}, {"exclusiveMaximum": 1.0},
        {"minimum": 1, "exclusiveMinimum": true}, {"maximum": 1, "exclusiveMaximum": true},
        {"maximum": 1, "exclusiveMaximum": false}, {"exclusiveMinimum": true}, {"multipleOf": 2}, {"multipleOf": 0.1},
        {"multipleOf": 1e-8}, {"multipleOf": 1.5}, {"minLength": 1}, {"minLength": 3}, {"maxLength": 1}, {"maxLength": 2.0},
        {"minItems": 1}, {"minItems": 2}, {"maxItems": 0}, {"minProperties": 1}, {"maxProperties": 2},
        {"required": ["a"]}, {"required": ["a", "b"]}, {"required": []}, {"pattern": "^a"}, {"pattern": "b$"},
        {"pattern": "^(?!a)"}, {"uniqueItems": true}, {"uniqueItems": false}, {"format": "date"}, {"format": "unknown"},
        {"contentEncoding": "base64"}, {"contentMediaType": "application/json"},
        {"contentMediaType": "application/json", "contentEncoding": "base64"},
        {"contentMediaType": "application/json", "contentEncoding": "rot13"}, {"contentMediaType": "text/plain"},
    ]));
}

#[test]
fn objects() {
    compare_all(json!([
        {"properties": {"a": {"type": "integer"}}}, {"properties": {"a": false, "b": true}},
        {"properties": {"a": {"type": "integer"}}, "additionalProperties": false},
        {"properties": {"a": {}}, "additionalProperties": {"type": "string"}},
        {"properties": {"a": {"type": "integer"}}, "required": ["b"], "additionalProperties": false},
        {"properties": {"a": {"type": "integer"}}, "required": ["b", "c"], "additionalProperties": false},
        {"properties": {"a": {"type": "integer"}, "b": {"type": "array"}}, "required": ["b", "c"]},
        {"patternProperties": {"^x-": {"type": "string"}}}, {"patternProperties": {"a": false}},
        {"patternProperties": {"^x-": {"type": "integer"}}, "additionalProperties": false},
        {"properties": {"a": {}}, "patternProperties": {"^x-": {"type": "integer"}}, "additionalProperties": false},
        {"properties": {"a": {}}, "patternProperties": {"b": {}}, "additionalProperties": {"type": "null"}},
        {"additionalProperties": false}, {"additionalProperties": {"type": "integer"}},
        {"propertyNames": {"maxLength": 1}}, {"propertyNames": false}, {"propertyNames": true},
        {"propertyNames": {"enum": ["a", "b"]}},
        {"dependencies": {"a": ["b"]}}, {"dependencies": {"a": {"required": ["c"]}}}, {"dependencies": {"a": []}},
        {"dependencies": {"a": false}}, {"dependentRequired": {"a": ["b", "c"]}},
        {"dependentSchemas": {"a": {"properties": {"b": {"type": "string"}}}}},
        {"properties": {"a": {}}, "unevaluatedProperties": false}, {"unevaluatedProperties": {"type": "integer"}},
        {"allOf": [{"properties": {"a": {}}}], "unevaluatedProperties": false},
        {"anyOf": [{"properties": {"a": {"type": "integer"}}}, {"properties": {"b": {}}}], "unevaluatedProperties": false},
        {"oneOf": [{"required": ["a"], "properties": {"a": {}}}, {"required": ["x-a"]}], "unevaluatedProperties": false},
        {"if": {"required": ["a"], "properties": {"a": {}}}, "then": {"properties": {"b": {}}}, "unevaluatedProperties": false},
        {"dependentSchemas": {"a": {"properties": {"a": {}, "b": {}}}}, "unevaluatedProperties": false},
        {"$ref": "#/$defs/a", "unevaluatedProperties": false, "$defs": {"a": {"properties": {"a": {}}}}},
        {"dependencies": {"a": {"properties": {"a": {}}}}, "unevaluatedProperties": false},
        {"patternProperties": {"^x-": true}, "unevaluatedProperties": false},
        {"additionalProperties": true, "unevaluatedProperties": false},
        {"not": {"properties": {"a": {}}}, "unevaluatedProperties": false},
        {"allOf": [{"unevaluatedProperties": {"type": "integer"}}], "unevaluatedProperties": false},
    ]));
}

#[test]
fn arrays() {
    compare_all(json!([
        {"items": {"type": "integer"}}, {"items": false}, {"items": true}, {"items": [{"type": "integer"}]}, {"items": []},
        {"items": [{"type": "integer"}], "additionalItems": false},
        {"items": [{"type": "integer"}], "additionalItems": {"type": "integer"}}, {"additionalItems": false},
        {"items": {"type": "string"}, "additionalItems": false}, {"prefixItems": [{"type": "integer"}, {"type": "string"}]},
        {"prefixItems": [{}], "items": false}, {"prefixItems": [{}], "items": {"type": "integer"}},
        {"contains": {"type": "integer"}}, {"contains": false}, {"contains": {"type": "integer"}, "minContains": 2},
        {"contains": {"type": "integer"}, "maxContains": 1}, {"contains": {"type": "integer"}, "minContains": 0},
        {"contains": {"type": "integer"}, "minContains": 1, "maxContains": 1}, {"minContains": 2},
        {"unevaluatedItems": false}, {"prefixItems": [{}], "unevaluatedItems": false},
        {"items": [{}], "unevaluatedItems": false}, {"items": [{}], "additionalItems": {}, "unevaluatedItems": false},
        {"contains": {"type": "integer"}, "unevaluatedItems": {"type": "string"}},
        {"anyOf": [{"prefixItems": [{"type": "integer"}]}, {"prefixItems": [{}, {}]}], "unevaluatedItems": false},
        {"allOf": [{"items": {}}], "unevaluatedItems": false},
    ]));
}

#[test]
fn combinations() {
    compare_all(json!([
        {"allOf": [{"type": "integer"}, {"minimum": 1}]}, {"anyOf": [{"type": "integer"}, {"minLength": 2}]},
        {"oneOf": [{"type": "integer"}, {"minimum": 1}]}, {"oneOf": [{"type": "string"}, {"type": "null"}]},
        {"not": {"type": "integer"}}, {"not": {}}, {"not": true}, {"if": {"type": "integer"}, "then": {"minimum": 1}},
        {"if": {"type": "integer"}, "else": {"type": "string"}}, {"if": false, "then": false, "else": true},
        {"then": false}, {"if": {"type": "integer"}}, {"allOf": [true, false]}, {"anyOf": [false]}, {"allOf": []},
    ]));
}

#[test]
fn references() {
    compare_all(json!([
        {"$ref": "#"}, {"$ref": ""}, {"properties": {"a": {"$ref": "#"}}, "additionalProperties": false},
        {"$ref": "#/definitions/a", "definitions": {"a": {"type": "integer"}}},
        {"$ref": "#/$defs/a", "$defs": {"a": {"type": "integer"}}},
        {"$ref": "#/definitions/a", "type": "string", "definitions": {"a": {"type": "integer"}}},
        {"$ref": "#/definitions/a~1b", "definitions": {"a/b": {"type": "integer"}}},
        {"$ref": "#/definitions/a%25b", "definitions": {"a%b": {"type": "integer"}}},
        {"$ref": "#/definitions/a b", "definitions": {"a b": {"type": "integer"}}},
        {"$ref": "#/definitions/a/1", "definitions": {"a": [{}, {"type": "integer"}]}},
        {"$ref": "#/x/y", "x": {"y": {"type": "integer"}}}, {"$ref": "#/x/y", "x": {"y": {"minLength": -1}}},
        {"$ref": "#/x"}, {"$ref": "other.json"}, {"$ref": "http://example.org/x"}, {"$ref": 1}, {"$ref": "#nowhere"},
        {"$ref": "#a", "definitions": {"a": {"$id": "#a", "type": "integer"}}},
        {"$ref": "#a", "definitions": {"a": {"id": "#a", "type": "integer"}}},
        {"$ref": "#a", "$defs": {"a": {"$anchor": "a", "type": "integer"}}},
        {"$ref": "#a", "$defs": {"a": {"$dynamicAnchor": "a", "type": "integer"}}},
        {"$ref": "item", "definitions": {"a": {"$id": "item", "type": "integer"}}},
        {"$ref": "item", "definitions": {"a": {"id": "item", "type": "integer"}}},
        {"$id": "http://x.org/root/", "allOf": [{"$ref": "item#/definitions/b"}],
         "definitions": {"a": {"$id": "item", "definitions": {"b": {"type": "integer"}}}}},
        {"$id": "http://x.org/root", "allOf": [{"$ref": "http://x.org/root"}], "type": "integer"},
        {"$id": "http://x.org/root", "allOf": [{"$ref": "/root#/definitions/a"}], "definitions": {"a": {"type": "string"}}},
        {"definitions": {"a": {"$id": "http://x.org/a", "allOf": [{"$ref": "#/definitions/b"}],
                               "definitions": {"b": {"type": "integer"}}}}, "allOf": [{"$ref": "#/definitions/a"}]},
        {"$dynamicRef": "#a", "$defs": {"a": {"$dynamicAnchor": "a", "type": "integer"}}},
        {"$dynamicRef": "#/$defs/a", "$defs": {"a": {"type": "integer"}}},
        {"$dynamicRef": "#nowhere"},
        {"$recursiveRef": "#"}, {"properties": {"a": {"$recursiveRef": "#"}}, "additionalProperties": false},
        {"$recursiveAnchor": true, "properties": {"a": {"$recursiveRef": "#"}}, "type": "object"},
        {"$ref": "#/definitions/a", "definitions": {"a": {"$ref": "#/definitions/b"}, "b": {"type": "integer"}}},
        {"$ref": "#/definitions/a", "definitions": {"a": {"$ref": "#/definitions/b"}, "b": {"$ref": "#/definitions/a"}}},
        {"properties": {"$ref": {"type": "integer"}}},
        {"definitions": {"a": {"$ref": "#/nowhere"}}}, {"x": {"$ref": "#/nowhere"}}, {"const": {"$ref": "#/nowhere"}},
    ]));
}

/// A tree whose nodes allow no other keys, through a dynamic reference from the strict schema to the loose one.
#[test]
fn dynamic_scopes() {
    let tree = |anchor: &str, reference: &str| {
        let mut schema = json!({
            "$id": "http://x.org/strict", "$ref": "tree", "additionalProperties": false,
            "properties": {"data": true, "children": true},
            "$defs": {"tree": {
                "$id": "tree", "type": "object",
                "properties": {"data": true, "children": {"type": "array", "items": {}}}
            }}
        });
        let (anchor, value) =
            anchor.split_once('=').map(|(name, value)| (name, json!(value))).unwrap_or((anchor, json!(true)));
        schema[anchor] = value.clone();
        schema["$defs"]["tree"][anchor] = value;
        let target = if reference == "$dynamicRef" { "#node" } else { "#" };
        schema["$defs"]["tree"]["properties"]["children"]["items"] = json!({ reference: target });
        schema
    };
    let values = [
        json!({"children": [{"data": 1}]}),
        json!({"children": [{"daat": 1}]}),
        json!({"children": [{"children": [{"daat": 1}]}]}),
        json!({"children": [1]}),
    ];
    compare(&tree("$dynamicAnchor=node", "$dynamicRef"), Draft::Draft202012, &values);
    compare(&tree("$recursiveAnchor", "$recursiveRef"), Draft::Draft201909, &values);
    let strict = Schema::compile(&tree("$dynamicAnchor=node", "$dynamicRef"), None).unwrap();
    assert_eq!(values.map(|value| strict.is_valid(&value)), [true, false, false, false]);
}

#[test]
fn malformed_schemas() {
    let odd = [
        json!(null),
        json!(true),
        json!(-1),
        json!(0),
        json!(1),
        json!(1.5),
        json!(2.0),
        json!("a"),
        json!("integer"),
        json!("#"),
        json!("("),
        json!([]),
        json!({}),
        json!(["a"]),
        json!(["a", "a"]),
        json!([1]),
        json!([{}]),
        json!([[]]),
        json!([true]),
        json!(["integer", "null"]),
        json!(["integer", "integer"]),
        json!({"a": true}),
        json!({"a": 1}),
        json!({"a": ["b"]}),
        json!({"a": ["b", "b"]}),
        json!({"a": []}),
        json!({"a": {"type": "x"}}),
        json!({"(": {}}),
        json!({"type": "x"}),
    ];
    let keywords = [
        "type",
        "properties",
        "patternProperties",
        "additionalProperties",
        "required",
        "enum",
        "const",
        "items",
        "additionalItems",
        "prefixItems",
        "contains",
        "minContains",
        "maxContains",
        "minItems",
        "maxItems",
        "uniqueItems",
        "minLength",
        "maxLength",
        "pattern",
        "format",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minProperties",
        "maxProperties",
        "propertyNames",
        "dependencies",
        "dependentRequired",
        "dependentSchemas",
        "allOf",
        "anyOf",
        "oneOf",
        "not",
        "if",
        "then",
        "else",
        "unevaluatedItems",
        "unevaluatedProperties",
        "$defs",
        "definitions",
        "$ref",
        "$dynamicRef",
        "$anchor",
        "$dynamicAnchor",
        "$recursiveAnchor",
        "title",
        "description",
        "default",
        "examples",
        "readOnly",
        "deprecated",
        "$comment",
        "contentMediaType",
        "contentEncoding",
        "contentSchema",
        "unknown",
        "$vocabulary",
    ];
    let mut differing = Vec::new();
    for keyword in keywords {
        for value in &odd {
            for schema in [json!({ keyword: value }), json!({"properties": {"p": { keyword: value }}})] {
                for draft in DRAFTS {
                    let (ours, theirs) = (Schema::compile(&schema, Some(draft)), oracle(&schema, draft));
                    if ours.is_ok() != theirs.is_ok() {
                        differing.push(format!("{draft:?} {schema}: {:?}, but {:?}", ours.map(drop), theirs.map(drop)));
                    }
                }
            }
        }
    }
    assert!(differing.is_empty(), "{}\n{}", differing.len(), differing.join("\n"));
}

#[test]
fn formats() {
    let texts = [
        "",
        "a",
        "2020-02-29",
        "2021-02-29",
        "2020-13-01",
        "2020-1-01",
        "٢٠٢٠-01-01",
        "10:00:00Z",
        "10:00:00",
        "24:00:00Z",
        "23:59:60Z",
        "22:59:60Z",
        "00:29:60+00:30",
        "10:00:00.5+01:00",
        "10:00:00.Z",
        "10:00:00+24:00",
        "15:59:60-08:00",
        "2020-01-01T10:00:00Z",
        "2020-01-01t10:00:00z",
        "2020-01-01 10:00:00Z",
        "a@b.c",
        "a@b",
        "a.b@c.d",
        ".a@b.c",
        "a..b@c.d",
        "\"a b\"@c.d",
        "\"a\\\"b\"@c.d",
        "\"\"@c.d",
        "a@[127.0.0.1]",
        "a@[IPv6:::1]",
        "a@[x]",
        "A <a@b.c>",
        "a@-b.c",
        "ä@b.c",
        "a@b@c.d",
        "example.org",
        "-a.b",
        "a-.b",
        "a.b.",
        "a..b",
        "xn--a.b",
        "ab--c.d",
        "a_b",
        "127.0.0.1",
        "127.0.0.256",
        "127.0.0.01",
        "::1",
        "1::2::3",
        "::ffff:1.2.3.4",
        "12345::",
        "/a/b",
        "a/b",
        "/~0~1",
        "/~2",
        "/~",
        "0",
        "0#",
        "1/a",
        "01",
        "0/~",
        "#",
        "http://a.b/c?d#e",
        "http://a.b:80/",
        "http://[::1]/",
        "http://[::1]:80/",
        "http://[x]/",
        "http://a b/",
        "//a/b",
        "a/b?c",
        "a:b",
        "1a:b",
        "mailto:a@b.c",
        "urn:a:b",
        "http://a@b@c/",
        "http://a:b/",
        "/%41",
        "/%4",
        "/%zz",
        "a%20b",
        "http://ä.b/ö",
        "ä",
        "\u{e000}?\u{e000}",
        "a{b}",
        "{",
        "}",
        "{a",
        "{+a,b*}",
        "{a:3}",
        "{a:0}",
        "{a:12345}",
        "{}",
        "{a..b}",
        "{%41}",
        "a b",
        "<a>",
        "\\",
        "[a-z]+",
        "(",
        "(?=a)",
        "a'b",
        "http://\\",
        "http://a/[",
        "v1.x",
        "http://[v1.x]/",
        "?a",
        "#a",
        "http://",
        "http:",
        ":",
        "//",
        "///",
        "http:///a",
        "http://a/b:c",
        "./a:b",
    ];
    let names = [
        "date",
        "time",
        "date-time",
        "email",
        "hostname",
        "ipv4",
        "ipv6",
        "uri",
        "uri-reference",
        "uri-template",
        "iri",
        "iri-reference",
        "json-pointer",
        "relative-json-pointer",
        "regex",
        "uuid",
        "duration",
        "idn-email",
        "idn-hostname",
        "unknown",
    ];
    // Not everything that looks like an encoded label is decoded, and whatever compiles counts as a pattern.
    let on_purpose = [("hostname", "xn--a.b"), ("regex", "}")];
    let mut differing = Vec::new();
    for name in names {
        for draft in DRAFTS {
            let schema = json!({ "format": name });
            let (ours, theirs) = (Schema::compile(&schema, Some(draft)).unwrap(), oracle(&schema, draft).unwrap());
            for text in texts {
                let value = json!(text);
                if ours.is_valid(&value) != theirs.is_valid(&value) && !on_purpose.contains(&(name, text)) {
                    differing.push(format!("{draft:?} {name} {text}: {}", ours.is_valid(&value)));
                }
            }
        }
    }
    assert!(differing.is_empty(), "{}\n{}", differing.len(), differing.join("\n"));
}
