//! Compares the validator with the crate `jsonschema`, which is used only as an oracle.

mod differential;
mod limits;
mod table;

use jsonschema::PatternOptions;
use serde_json::{Value as Json, json};

use super::{Draft, Outcome, Schema};

const DRAFTS: [Draft; 5] = [Draft::Draft4, Draft::Draft6, Draft::Draft7, Draft::Draft201909, Draft::Draft202012];

fn oracle(schema: &Json, draft: Draft) -> Result<jsonschema::Validator, String> {
    let draft = match draft {
        Draft::Draft4 => jsonschema::Draft::Draft4,
        Draft::Draft6 => jsonschema::Draft::Draft6,
        Draft::Draft7 => jsonschema::Draft::Draft7,
        Draft::Draft201909 => jsonschema::Draft::Draft201909,
        Draft::Draft202012 => jsonschema::Draft::Draft202012,
    };
    let patterns = PatternOptions::fancy_regex().backtrack_limit(100_000).size_limit(1 << 20);
    let options = jsonschema::options().offline().with_pattern_options(patterns).with_draft(draft);
    options.build(schema).map_err(|error| format!("{error} at {}", error.instance_path()))
}

/// Returns the message and location of the first error.
fn first_error(schema: &Schema, value: &Json) -> Option<(String, String)> {
    match schema.check(value, 1) {
        Outcome::Valid => None,
        Outcome::Invalid(errors) => errors.first().map(|error| (error.pointer.clone(), error.to_string())),
        Outcome::GivenUp => Some((String::new(), "given up".to_owned())),
    }
}

fn first_error_of_oracle(oracle: &jsonschema::Validator, value: &Json) -> Option<(String, String)> {
    oracle.validate(value).err().map(|error| (error.instance_path().to_string(), error.to_string()))
}

/// Values of every kind, tried on every schema.
fn samples() -> Vec<Json> {
    vec![
        json!(null),
        json!(true),
        json!(0),
        json!(1),
        json!(1.0),
        json!(2.5),
        json!(-3),
        json!(0.3),
        json!(u64::MAX),
        json!(1e20),
        json!(""),
        json!("a"),
        json!("ab"),
        json!("äöü"),
        json!([]),
        json!([1]),
        json!([1, 1.0]),
        json!(["a", "b"]),
        json!([1, "a", null, {"a": 1}]),
        json!([[1], [1]]),
        json!({}),
        json!({"a": 1}),
        json!({"a": "x", "b": 2}),
        json!({"a": {"a": {"a": 1}}}),
        json!({"x-a": 1, "b": [1, 2, 3]}),
        json!({"a": 1, "b": 2, "c": 3}),
    ]
}
