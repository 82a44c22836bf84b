//! Checks whether arguments fit a tool before it runs: the same rules and the same error for every kind of tool.
//!
//! Arguments already have their full names ([`crate::parameters`]). Each is checked against its own property of the
//! schema; constraints on all arguments together are left to the tool. Most values are checked directly; a value is
//! converted to JSON only if its schema says more than a type. A default of `None` means that `None` is accepted.

use onetool_sdk::{Arguments, Found, Issue, ToolError, ToolSpec, Value, to_python_identifier};
use serde_json::{Map, Value as Json};

use crate::parameters::is_positional_only;
use crate::toolbox::value_size;

/// Maximum number of problems reported at once.
const SHOWN_PROBLEMS: usize = 3;
/// Only the type of a larger value is checked.
const JUDGED_BYTES: usize = 1 << 20;
/// Maximum characters shown of a value that does not fit.
const SHOWN_VALUE: usize = 60;
/// Maximum length of a suggested value.
const SHOWN_FIX: usize = 60;

/// Schema keywords that do not restrict which values fit.
const REMARKS: &[&str] =
    &["type", "description", "title", "default", "examples", "example", "$comment", "format", "deprecated", "nullable"];

/// Checks arguments that are bound to their parameters.
pub(crate) fn check(name: &str, tool: &ToolSpec, arguments: &Arguments) -> Result<(), ToolError> {
    let Some(properties) = tool.input_schema.get("properties").and_then(Json::as_object) else { return Ok(()) };
    let mut doubtful: Map<String, Json> = Map::new();
    for (argument, value) in &arguments.named {
        // The parameter was given by position, so this argument belongs to `**kwargs`.
        if !arguments.positional.is_empty() && is_positional_only(&tool.signature, argument) {
            continue;
        }
        let Some((property, schema)) = property_of(properties, argument) else { continue };
        let is_left_out = matches!(value, Value::None) && schema.get("default").is_some_and(Json::is_null);
        // The content of a large value is left to the tool: checking it here would hold several copies.
        let is_large = value_size(value) > JUDGED_BYTES && !matches!(value, Value::Opaque(_));
        if !is_left_out && is_large {
            if let Some(expected) = other_type(value, schema) {
                let message = format!("{name}() argument '{argument}' must be {expected}, not {}", value.type_name());
                return Err(ToolError::arguments(message)
                    .with_hint(format!("expected {}", tool.signature.render(name)))
                    .at(format!("/{property}")));
            }
            continue;
        }
        if !is_left_out && !matches!(value, Value::Opaque(_)) && !fits(value, schema) {
            doubtful.insert(property.to_owned(), value.to_json());
        }
    }
    if doubtful.is_empty() {
        return Ok(());
    }
    // An invalid schema checks nothing; the tool itself will.
    let Some(validator) = tool.input_schema.argument_validator() else { return Ok(()) };
    let doubtful = Json::Object(doubtful);
    let issues = validator.issues(&doubtful);
    if issues.is_empty() {
        return Ok(());
    }
    let problems: Vec<String> = issues.iter().take(SHOWN_PROBLEMS).map(|issue| problem(issue, &doubtful)).collect();
    let message = match problems.as_slice() {
        [only] => format!("{name}() {only}"),
        _ => format!("{name}():\n- {}", problems.join("\n- ")),
    };
    let place = issues.first().map(|issue| issue.pointer.clone()).unwrap_or_default();
    Err(ToolError::arguments(message).with_hint(format!("expected {}", tool.signature.render(name))).at(place))
}

/// The property of a parameter, whose name may have been converted to a Python identifier.
fn property_of<'a>(properties: &'a Map<String, Json>, argument: &str) -> Option<(&'a str, &'a Json)> {
    let by_name = properties.get_key_value(argument);
    let found = by_name.or_else(|| properties.iter().find(|(name, _)| to_python_identifier(name) == argument));
    found.map(|(name, schema)| (name.as_str(), schema))
}

/// The type that a schema requires, if a value certainly has another one.
fn other_type(value: &Value, schema: &Json) -> Option<String> {
    match schema.get("type")? {
        Json::String(name) if !is_of(value, name) => Some(python_terms(name)),
        _ => None,
    }
}

/// Whether a value certainly fits a schema that specifies only a type.
fn fits(value: &Value, schema: &Json) -> bool {
    let Some(schema) = schema.as_object() else { return schema == &Json::Bool(true) };
    if schema.keys().any(|key| !REMARKS.contains(&key.as_str())) {
        return false;
    }
    match schema.get("type") {
        None => true,
        Some(Json::String(name)) => is_of(value, name),
        Some(Json::Array(names)) => names.iter().filter_map(Json::as_str).any(|name| is_of(value, name)),
        Some(_) => false,
    }
}

fn is_of(value: &Value, name: &str) -> bool {
    match name {
        "string" => matches!(
            value,
            Value::Str(_) | Value::Path(_) | Value::Bytes(_) | Value::Date(_) | Value::DateTime(_) | Value::Time(_)
        ),
        "integer" => matches!(value, Value::Int(_) | Value::BigInt(_)),
        "number" => matches!(value, Value::Int(_) | Value::BigInt(_) | Value::Float(_)),
        "boolean" => matches!(value, Value::Bool(_)),
        "array" => matches!(value, Value::List(_) | Value::Tuple(_) | Value::Set(_) | Value::FrozenSet(_)),
        "object" => matches!(value, Value::Dict(_) | Value::Record { .. }),
        "null" => matches!(value, Value::None),
        _ => false,
    }
}

fn problem(issue: &Issue, arguments: &Json) -> String {
    let (parent, key) = issue.pointer.rsplit_once('/').unwrap_or(("", ""));
    let mut text = match &issue.found {
        Found::Missing => format!("{} lacks the key '{}'", place(parent), unescaped(key)),
        Found::UnknownKey(key) => format!("{} has no key '{key}'", place(parent)),
        Found::Value(found) => {
            let found = arguments.pointer(&issue.pointer).map_or_else(|| python_terms(found), described);
            format!("{} must be {}, not {found}", place(&issue.pointer), python_terms(&issue.expected))
        }
    };
    if let Some(near) = &issue.nearest {
        text.push_str(&format!("; did you mean '{near}'?"));
    } else if let Some(fix) = arguments.pointer(&issue.pointer).and_then(|value| fix(value, &issue.expected)) {
        // For a whole argument suggest `name=value`; for a value inside one, only the value.
        match issue.pointer.strip_prefix('/') {
            Some(argument) if !argument.contains('/') => {
                text.push_str(&format!("; write {}={fix}", unescaped(argument)));
            }
            _ => text.push_str(&format!("; write {fix}")),
        }
    }
    text
}

/// `argument 'comments'`, `argument 'comments' at [0]['line']`
fn place(pointer: &str) -> String {
    let mut parts = pointer.split('/').skip(1).map(unescaped);
    let argument = parts.next().unwrap_or_default();
    let inside: String = parts
        .map(|part| if part.parse::<usize>().is_ok() { format!("[{part}]") } else { format!("['{part}']") })
        .collect();
    if inside.is_empty() { format!("argument '{argument}'") } else { format!("argument '{argument}' at {inside}") }
}

fn unescaped(part: &str) -> String {
    part.replace("~1", "/").replace("~0", "~")
}

/// `str '5'`
fn described(value: &Json) -> String {
    let value = Value::from_json(value.clone());
    let repr = value.repr();
    let shown: String = repr.chars().take(SHOWN_VALUE).collect();
    let cut = if shown.len() < repr.len() { "…" } else { "" };
    match value {
        Value::None => repr,
        _ => format!("{} {shown}{cut}", value.type_name()),
    }
}

/// Replaces JSON's type names with Python's, if a text begins with them or lists them.
fn python_terms(text: &str) -> String {
    let (listed, rest) = match text.find(['"', '{', '[', '\'']) {
        Some(at) => text.split_at(at),
        None => (text, ""),
    };
    let words: Vec<&str> = listed
        .split(' ')
        .map(|word| match word {
            "string" => "str",
            "integer" => "int",
            "number" => "float",
            "boolean" => "bool",
            "array" => "list",
            "object" => "dict",
            "null" => "None",
            other => other,
        })
        .collect();
    let words = words.join(" ");
    // `None` reads best at the end.
    match words.strip_prefix("None or ") {
        Some(others) if rest.is_empty() => format!("{others} or None"),
        _ => format!("{words}{rest}"),
    }
}

/// What was probably meant, as Python source: a number or boolean that was given as text, one item for a list.
fn fix(value: &Json, expected: &str) -> Option<String> {
    let wants = |name: &str| expected.split(' ').any(|word| word == name);
    let text = value.as_str().map(str::trim);
    let fixed = match text {
        Some(text) if wants("integer") && text.parse::<i64>().is_ok() => text.to_owned(),
        Some(text) if wants("number") && text.parse::<f64>().is_ok_and(f64::is_finite) => text.to_owned(),
        Some(text) if wants("boolean") && text.eq_ignore_ascii_case("true") => "True".to_owned(),
        Some(text) if wants("boolean") && text.eq_ignore_ascii_case("false") => "False".to_owned(),
        _ if wants("array") && !value.is_object() && !value.is_null() => {
            format!("[{}]", Value::from_json(value.clone()).repr())
        }
        None if wants("string") && (value.is_number() || value.is_boolean()) => format!("'{value}'"),
        _ => return None,
    };
    (fixed.len() <= SHOWN_FIX).then_some(fixed)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn checked(schema: Json, arguments: Json) -> Result<(), String> {
        let tool = ToolSpec::from_schema("f", "", schema);
        let Json::Object(arguments) = arguments else { panic!("arguments are an object") };
        check("p.f", &tool, &Arguments::from_json(arguments)).map_err(|error| error.message)
    }

    fn property(property: Json, value: Json) -> String {
        checked(json!({"properties": {"a": property}, "required": ["a"]}), json!({"a": value}))
            .err()
            .unwrap_or_default()
    }

    #[test]
    fn of_a_large_value_only_the_type_is_judged() {
        let many = Json::Array(vec![json!("x"); JUDGED_BYTES]);
        let items = json!({"type": "array", "items": {"type": "integer"}});
        assert_eq!(property(items.clone(), many.clone()), "");
        assert_eq!(property(json!({"type": "string"}), many), "p.f() argument 'a' must be str, not list");
        assert!(property(items, json!(["x"])).contains("must be int"));
    }

    #[test]
    fn a_value_of_the_wrong_type_is_refused_with_the_fix() {
        for (schema, value, expected) in [
            (json!({"type": "integer"}), json!("5"), "p.f() argument 'a' must be int, not str '5'; write a=5"),
            (json!({"type": "number"}), json!("1.5"), "p.f() argument 'a' must be float, not str '1.5'; write a=1.5"),
            (
                json!({"type": "boolean"}),
                json!("true"),
                "p.f() argument 'a' must be bool, not str 'true'; write a=True",
            ),
            (json!({"type": "array"}), json!("x"), "p.f() argument 'a' must be list, not str 'x'; write a=['x']"),
            (json!({"type": "string"}), json!(5), "p.f() argument 'a' must be str, not int 5; write a='5'"),
            (json!({"type": ["integer", "null"]}), json!([]), "p.f() argument 'a' must be int or None, not list []"),
            (
                json!({"enum": ["stars", "forks"]}),
                json!("star"),
                "p.f() argument 'a' must be one of \"stars\", \"forks\", not str 'star'; did you mean 'stars'?",
            ),
            (json!({"type": "integer", "minimum": 1}), json!(0), "p.f() argument 'a' must be at least 1, not int 0"),
        ] {
            assert_eq!(property(schema, value), expected);
        }
    }

    #[test]
    fn what_fits_passes() {
        for (schema, value) in [
            (json!({"type": "integer"}), json!(5)),
            (json!({"type": "integer"}), json!(5.0)),
            (json!({"type": "number"}), json!(5)),
            (json!({"type": "string", "description": "x", "format": "uri"}), json!("no uri")),
            (json!({"anyOf": [{"type": "string"}, {"type": "null"}]}), json!(null)),
            (json!({"$ref": "#/$defs/T"}), json!("x")),
            (json!({}), json!([1])),
            (json!(true), json!([1])),
            (json!({"type": "not a type"}), json!(1)),
        ] {
            assert_eq!(property(schema.clone(), value), "", "{schema}");
        }
    }

    #[test]
    fn a_mistake_inside_an_argument_says_where() {
        let schema = json!({"properties": {"comments": {"type": "array", "items": {
            "type": "object",
            "properties": {"path": {"type": "string"}, "line": {"type": "integer"}},
            "required": ["path"],
            "additionalProperties": false
        }}}});
        let of = |value: Json| checked(schema.clone(), json!({"comments": value})).unwrap_err();
        assert_eq!(
            of(json!([{"path": "a", "line": "12"}])),
            "p.f() argument 'comments' at [0]['line'] must be int, not str '12'; write 12"
        );
        assert_eq!(of(json!([{"line": 1}])), "p.f() argument 'comments' at [0] lacks the key 'path'");
        assert_eq!(
            of(json!([{"path": "a", "lin": 1}])),
            "p.f() argument 'comments' at [0] has no key 'lin'; did you mean 'line'?"
        );
    }

    #[test]
    fn several_mistakes_are_told_together_and_a_default_of_none_takes_none() {
        let schema = json!({"properties": {
            "a": {"type": "integer", "default": null}, "b": {"type": "boolean"}, "c": {"type": "string"}}});
        assert_eq!(
            checked(schema.clone(), json!({"a": "x", "b": 1, "c": null})).unwrap_err(),
            "p.f():\n- argument 'a' must be int, not str 'x'\n- argument 'b' must be bool, not int 1\n\
             - argument 'c' must be str, not None"
        );
        assert_eq!(checked(schema, json!({"a": null, "other": 1})), Ok(()));
    }

    #[test]
    fn what_the_schema_says_of_all_arguments_is_left_to_the_tool() {
        let schema = json!({"properties": {"a": {"type": "integer"}}, "required": ["a", "b"], "additionalProperties": false,
            "oneOf": [{"required": ["b"]}]});
        assert_eq!(checked(schema, json!({"a": 1})), Ok(()));
    }
}
