//! Resolves compositions: follows references, merges `allOf`, joins the branches of a union.

use serde_json::{Map, Value as Json, json};

/// Maximum number of references in a chain before it counts as a cycle.
const MAX_HOPS: usize = 32;
/// Maximum nesting depth of alternatives within alternatives.
const MAX_UNIONS: usize = 8;

/// Keywords that only describe and never affect validation.
pub(super) const ANNOTATIONS: &[&str] = &[
    "title",
    "description",
    "default",
    "examples",
    "example",
    "$comment",
    "$schema",
    "$id",
    "deprecated",
    "readOnly",
    "writeOnly",
    "format",
];

/// Returns the schema that `reference` names inside `root`.
pub(super) fn target<'a>(reference: &str, root: &'a Json) -> Option<&'a Json> {
    root.pointer(reference.strip_prefix('#')?)
}

/// Whether following `reference` leads back to it.
pub(super) fn is_recursive(reference: &str, root: &Json) -> bool {
    fn references<'a>(schema: &'a Json, found: &mut Vec<&'a str>) {
        match schema {
            Json::Array(items) => items.iter().for_each(|item| references(item, found)),
            Json::Object(object) => {
                if let Some(reference) = object.get("$ref").and_then(Json::as_str) {
                    found.push(reference);
                }
                // Definitions beside a node are not part of it; they count where they are referenced.
                let parts = object.iter().filter(|(key, _)| *key != "definitions" && *key != "$defs");
                parts.for_each(|(_, part)| references(part, found));
            }
            _ => {}
        }
    }
    let mut seen: Vec<&str> = Vec::new();
    let mut open: Vec<&str> = Vec::new();
    if let Some(schema) = target(reference, root) {
        references(schema, &mut open);
    }
    while let Some(next) = open.pop() {
        if next == reference {
            return true;
        }
        if !seen.contains(&next) {
            seen.push(next);
            if let Some(schema) = target(next, root) {
                references(schema, &mut open);
            }
        }
    }
    false
}

/// Returns `schema` with its own reference followed and its `allOf` merged into it; `None` if parts contradict each
/// other or refer to each other in a cycle.
pub(super) fn merged(schema: &Json, root: &Json) -> Option<Json> {
    merge_at(schema, root, &mut Vec::new())
}

fn merge_at(schema: &Json, root: &Json, following: &mut Vec<String>) -> Option<Json> {
    let Some(object) = schema.as_object() else { return Some(schema.clone()) };
    let mut pieces: Vec<Json> = Vec::new();
    let mut own = object.clone();
    if let Some(Json::String(reference)) = own.shift_remove("$ref") {
        if following.len() >= MAX_HOPS || following.contains(&reference) {
            return None;
        }
        following.push(reference.clone());
        pieces.push(merge_at(target(&reference, root)?, root, following)?);
        following.pop();
    }
    if let Some(Json::Array(branches)) = own.shift_remove("allOf") {
        for branch in &branches {
            pieces.push(merge_at(branch, root, following)?);
        }
    }
    pieces.into_iter().try_fold(Json::Object(own), both)
}

/// Returns the schema of values that match both `first` and `second`. Descriptions of `first` win.
pub(super) fn both(first: Json, second: Json) -> Option<Json> {
    let (mut whole, piece) = match (first, second) {
        (first, Json::Bool(true)) => return Some(first),
        (Json::Bool(true), second) => return Some(second),
        (Json::Object(first), Json::Object(second)) => (first, second),
        _ => return None,
    };
    for (key, value) in piece {
        let Some(own) = whole.get_mut(&key) else {
            whole.insert(key, value);
            continue;
        };
        match (key.as_str(), own, value) {
            ("properties", Json::Object(own), Json::Object(more)) => {
                for (name, property) in more {
                    match own.get(&name).cloned() {
                        Some(known) => own.insert(name, both(known, property)?),
                        None => own.insert(name, property),
                    };
                }
            }
            ("required", Json::Array(own), Json::Array(more)) => {
                let new: Vec<Json> = more.into_iter().filter(|name| !own.contains(name)).collect();
                own.extend(new);
            }
            (key, own, value) if *own == value || ANNOTATIONS.contains(&key) => {}
            _ => return None,
        }
    }
    Some(Json::Object(whole))
}

/// Joins an object schema whose keys are chosen by `anyOf` or `oneOf` into one object with all keys, of which only
/// those that every branch requires are required. `None` if it is not a union of objects.
pub(super) fn joined_objects(schema: &Json, root: &Json) -> Option<Json> {
    join_at(schema, root, 0)
}

fn join_at(schema: &Json, root: &Json, depth: usize) -> Option<Json> {
    if depth > MAX_UNIONS {
        return None;
    }
    let schema = merged(schema, root)?;
    let key = ["anyOf", "oneOf"].into_iter().find(|key| schema.get(key).is_some())?;
    let mut base = schema.as_object()?.clone();
    let Some(Json::Array(branches)) = base.shift_remove(key) else { return None };
    let mut properties = Map::new();
    let mut required: Option<Vec<Json>> = None;
    for branch in &branches {
        let branch = merged(branch, root)?;
        let branch = if branch.get("anyOf").or(branch.get("oneOf")).is_some() {
            join_at(&branch, root, depth + 1)?
        } else {
            branch
        };
        let names: Vec<Json> = branch.get("required").and_then(Json::as_array).cloned().unwrap_or_default();
        required = Some(match required {
            Some(all) => all.into_iter().filter(|name| names.contains(name)).collect(),
            None => names,
        });
        for (name, property) in branch.get("properties")?.as_object()? {
            let joined = match properties.get(name) {
                Some(known) => either(known, property),
                None => property.clone(),
            };
            properties.insert(name.clone(), joined);
        }
    }
    let union = json!({"type": "object", "properties": properties, "required": required.unwrap_or_default()});
    base.shift_remove("propertyNames");
    both(Json::Object(base), union)
}

/// Returns the schema of values that match `first` or `second`.
fn either(first: &Json, second: &Json) -> Json {
    if first == second {
        return first.clone();
    }
    let choices = |schema: &Json| -> Option<Vec<Json>> {
        schema.get("const").map(|value| vec![value.clone()]).or_else(|| schema.get("enum")?.as_array().cloned())
    };
    if let (Some(mut values), Some(more)) = (choices(first), choices(second)) {
        values.extend(more.into_iter().filter(|value| !choices(first).is_some_and(|own| own.contains(value))));
        let mut joined = json!({ "enum": values });
        if let (Some(kind), true) = (first.get("type"), first.get("type") == second.get("type")) {
            joined["type"] = kind.clone();
        }
        return joined;
    }
    json!({ "anyOf": [first, second] })
}

/// Converts a union whose branches are all text constants to one enum; the branches' descriptions go into the
/// description. This is how documented unit variants look.
pub(super) fn constants_as_enum(schema: &Json) -> Option<Json> {
    let key = ["anyOf", "oneOf"].into_iter().find(|key| schema.get(key).is_some())?;
    let mut values: Vec<Json> = Vec::new();
    let mut lines: Vec<String> = Vec::new();
    for branch in schema.get(key)?.as_array()? {
        let object = branch.as_object()?;
        if !object.keys().all(|key| ["type", "const", "enum", "description", "title"].contains(&key.as_str())) {
            return None;
        }
        let choices = match (object.get("const"), object.get("enum").and_then(Json::as_array)) {
            (Some(value), None) => vec![value.clone()],
            (None, Some(choices)) => choices.clone(),
            _ => return None,
        };
        if !choices.iter().all(Json::is_string) {
            return None;
        }
        if let (Some(Json::String(text)), [Json::String(value)]) = (object.get("description"), choices.as_slice()) {
            lines.push(format!("- {value}: {text}"));
        }
        values.extend(choices);
    }
    let mut flat = schema.as_object()?.clone();
    flat.shift_remove(key);
    flat.insert("type".into(), "string".into());
    flat.insert("enum".into(), Json::Array(values));
    if !lines.is_empty() {
        let own = flat.get("description").and_then(Json::as_str).map(|text| format!("{text}\n")).unwrap_or_default();
        flat.insert("description".into(), format!("{own}{}", lines.join("\n")).into());
    }
    Some(Json::Object(flat))
}
