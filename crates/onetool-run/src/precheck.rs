//! Calls that cannot work, found before anything runs: a name that is no parameter, an argument that is missing, a
//! literal of the wrong type. Half a run with half its effects is worse than none.
//!
//! Only what is certain is refused. Prefixes count as the names they stand for; values that the text does not tell are
//! taken as right; Python files do not enforce their annotations, so only their names and counts are checked.

use onetool_sdk::{Arguments, Origin, QualifiedName, ToolError, ToolSpec, Value};

use crate::code::{CallSite, PreparedCode};
use crate::parameters;
use crate::toolbox::Shared;

/// Stands for a value that only the run knows.
const UNKNOWN: &str = "\u{1}";

/// A call that cannot work.
pub(crate) struct Refusal {
    pub(crate) line: u32,
    pub(crate) error: ToolError,
}

/// The first call that cannot work. A single call is not checked here: the call path does it before anything happens.
pub(crate) fn check(code: &PreparedCode, shared: &Shared) -> Option<Refusal> {
    if code.calls.len() < 2 {
        return None;
    }
    code.calls.iter().find_map(|site| check_site(site, shared).map(|error| Refusal { line: site.line, error }))
}

fn check_site(site: &CallSite, shared: &Shared) -> Option<ToolError> {
    let (pack, function) = match &site.function {
        Some(function) => {
            let pack = shared.resolve_alias(&site.pack).ok().flatten().unwrap_or_else(|| site.pack.clone());
            (pack, function.clone())
        }
        None => {
            let target = shared.resolve_alias(&site.pack).ok().flatten()?;
            let (pack, function) = target.split_once('.')?;
            (pack.to_owned(), function.to_owned())
        }
    };
    let name = QualifiedName::new(pack, function);
    let entry = shared.state.catalog.pack(&name.pack)?;
    let tool = entry.pack.tools.get(&name.function)?;
    let value = |given: &Option<Value>| given.clone().unwrap_or_else(|| Value::Opaque(UNKNOWN.to_owned()));
    let arguments = Arguments {
        positional: site.positional.iter().map(value).collect(),
        named: site.named.iter().map(|(name, given)| (name.clone(), value(given))).collect(),
    };
    let bound = match parameters::bind(&name.to_string(), tool, arguments) {
        Ok(bound) => bound,
        Err(error) => return Some(error),
    };
    if matches!(entry.pack.origin, Origin::Worker { .. }) || !tool.checkable {
        return None;
    }
    bound.named.iter().find_map(|(parameter, value)| wrong_type(&name, tool, parameter, value))
}

/// A literal whose type its parameter cannot take.
fn wrong_type(name: &QualifiedName, tool: &ToolSpec, parameter: &str, value: &Value) -> Option<ToolError> {
    let expected = tool.input_schema.get("properties")?.get(parameter)?.get("type")?.as_str()?;
    let fits = match (expected, value) {
        ("string", Value::Int(_) | Value::Float(_) | Value::Bool(_)) => false,
        ("integer" | "number" | "boolean" | "array" | "object", Value::Str(_)) => false,
        ("array" | "object", Value::Int(_) | Value::Float(_) | Value::Bool(_)) => false,
        ("boolean", Value::Int(_) | Value::Float(_)) => false,
        _ => true,
    };
    (!fits).then(|| {
        ToolError::arguments(format!(
            "{name}() argument '{parameter}' must be {}, not {} {}",
            python_name(expected),
            value.type_name(),
            value.repr()
        ))
        .with_hint(format!("expected {}", tool.signature.render(&name.to_string())))
    })
}

fn python_name(schema_type: &str) -> &str {
    match schema_type {
        "string" => "str",
        "integer" => "int",
        "number" => "float",
        "boolean" => "bool",
        "array" => "list",
        "object" => "dict",
        other => other,
    }
}
