//! Repairs invalid schemas of imported documents, such as a pattern that is not a regular expression or an unknown
//! type. The invalid part is replaced by a schema that accepts anything; the rest of the tool stays as it is.

use onetool_state::bundles::ToolDraft;
use serde_json::{Map, Value as Json, json};

use super::naming::shortened;
use crate::schema_check::check_schema;

/// How much of a reason is quoted.
const REASON_CHARS: usize = 200;

/// Makes a tool's schemas valid; returns what was changed.
pub(super) fn schemas(draft: &mut ToolDraft) -> Vec<String> {
    let mut changed = Vec::new();
    if let Some(reason) = draft.output_schema.as_ref().and_then(problem) {
        draft.output_schema = None;
        changed.push(format!("the schema of its response is not valid, and is left out: {reason}"));
    }
    if problem(&draft.arg_schema).is_none() {
        return changed;
    }
    let mut definitions = draft.arg_schema.get("$defs").and_then(Json::as_object).cloned().unwrap_or_default();
    let names: Vec<String> = definitions.keys().cloned().collect();
    // Check each definition on its own, with the others accepting anything.
    let anything: Map<String, Json> = names.iter().map(|name| (name.clone(), json!({}))).collect();
    for name in names {
        let Some(reason) = definitions.get(&name).and_then(|schema| problem_among(schema, &anything)) else { continue };
        definitions.insert(name.clone(), json!({}));
        changed.push(format!("the schema '{name}' is not valid, and takes anything: {reason}"));
    }
    let properties = draft.arg_schema.get_mut("properties").and_then(Json::as_object_mut);
    for (name, schema) in properties.into_iter().flatten() {
        let Some(reason) = problem_among(schema, &definitions) else { continue };
        let description = schema.get("description").filter(|text| text.is_string()).cloned();
        *schema = description.map_or_else(|| json!({}), |text| json!({"description": text}));
        changed.push(format!("the schema of '{name}' is not valid, and takes anything: {reason}"));
    }
    if !definitions.is_empty() {
        draft.arg_schema["$defs"] = Json::Object(definitions);
    }
    changed
}

fn problem_among(schema: &Json, definitions: &Map<String, Json>) -> Option<String> {
    problem(&json!({"allOf": [schema], "$defs": definitions}))
}

fn problem(schema: &Json) -> Option<String> {
    check_schema(schema).err().map(|reason| shortened(&reason, REASON_CHARS))
}
