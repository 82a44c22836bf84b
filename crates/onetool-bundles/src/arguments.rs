//! Validates arguments against their schema.

use indexmap::IndexMap;
use onetool_sdk::{ToolError, Validator, Value};
use onetool_state::bundles::{Implementation, Tool};
use serde_json::Value as Json;

/// Validates the arguments. An optional argument that is `null` and does not fit the schema counts as not given.
pub(crate) fn fitting(
    validator: &Validator,
    mut arguments: IndexMap<String, Value>,
    schema: &Json,
) -> Result<IndexMap<String, Value>, ToolError> {
    if check_arguments(validator, &arguments).is_ok() {
        return Ok(arguments);
    }
    let required = schema.get("required").and_then(Json::as_array);
    let is_required = |name: &str| required.is_some_and(|names| names.iter().any(|one| one == name));
    arguments.retain(|name, value| *value != Value::None || is_required(name));
    check_arguments(validator, &arguments)?;
    Ok(arguments)
}

fn check_arguments(validator: &Validator, arguments: &IndexMap<String, Value>) -> Result<(), ToolError> {
    let json = Json::Object(arguments.iter().map(|(name, value)| (name.clone(), value.to_json())).collect());
    validator.validate(&json).map_err(|violation| {
        let pointer = violation.pointer;
        let place = if pointer.is_empty() { String::new() } else { format!("{}: ", pointer.trim_start_matches('/')) };
        ToolError::arguments(format!("{place}{}", violation.message)).at(pointer)
    })
}

/// Returns the tool with every path variable required, if its schema does not require all of them already.
pub(crate) fn with_path_variables(tool: &Tool) -> Option<Tool> {
    let Implementation::Http(http) = &tool.implementation else { return None };
    let properties = tool.arg_schema.get("properties").and_then(Json::as_object)?;
    let listed = tool.arg_schema.get("required").and_then(Json::as_array);
    let missing: Vec<Json> = path_variables(&http.url_template)
        .into_iter()
        .filter(|name| properties.get(*name).is_some_and(|property| property.get("default").is_none()))
        .filter(|name| !listed.is_some_and(|listed| listed.iter().any(|one| one == name)))
        .map(Json::from)
        .collect();
    if missing.is_empty() {
        return None;
    }
    let mut completed = tool.clone();
    let mut required = listed.cloned().unwrap_or_default();
    required.extend(missing);
    completed.arg_schema["required"] = Json::Array(required);
    Some(completed)
}

/// The path variables of a URL template that have no default of their own.
fn path_variables(template: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut rest = template;
    while let Some(at) = rest.find(['$', '?']) {
        if rest[at..].starts_with('?') {
            break;
        }
        let is_literal = rest[at..].starts_with("$${");
        match rest[at..].strip_prefix("${").and_then(|after| after.split_once('}')) {
            Some((inner, after)) => {
                if !inner.contains(":-") && !names.contains(&inner) {
                    names.push(inner);
                }
                rest = after;
            }
            None => rest = &rest[at + if is_literal { 3 } else { 1 }..],
        }
    }
    names
}
