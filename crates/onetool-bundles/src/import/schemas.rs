//! Converts schemas of OpenAPI documents to self-contained schemas.
//!
//! A reference into the document becomes one into `$defs`, which contains only the referenced schemas. A part that
//! exceeds its share becomes a schema that accepts anything. OpenAPI 3.0 keywords are converted to JSON Schema.

use std::collections::{BTreeSet, HashMap, VecDeque};

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value as Json, json};

use super::naming::shortened;
use super::settings::{DEFINITION_BYTES, DEFINITIONS, REMARK_CHARS, SCHEMA_DEPTH};

/// Follows `#/…` in a document; `None` if the target is missing or in another document.
pub(super) fn follow<'a>(document: &'a Json, value: &'a Json) -> Option<&'a Json> {
    let mut value = value;
    for _ in 0..16 {
        match value.get("$ref").and_then(Json::as_str) {
            None => return Some(value),
            Some(reference) => value = document.pointer(&pointer(reference)?)?,
        }
    }
    None
}

fn pointer(reference: &str) -> Option<String> {
    let pointer = reference.strip_prefix('#')?;
    Some(percent_decoded(pointer))
}

pub(super) fn percent_decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// Direction of the described data: `readOnly` properties are not sent, and `writeOnly` ones are not received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Request,
    Response,
}

/// Makes schemas self-contained, within a number of bytes. Parts near the root come first: when the bytes run out, the
/// deepest parts accept anything.
pub(super) struct Standalone<'a> {
    document: &'a Json,
    direction: Direction,
    left: usize,
    /// Maximum number of definitions.
    most: usize,
    /// Maximum length of descriptions.
    remarks: usize,
    /// Reference → name in `$defs`.
    names: HashMap<String, String>,
    definitions: Map<String, Json>,
    /// Definitions that are still to be converted.
    waiting: VecDeque<(String, &'a Json)>,
    was_cut: bool,
    missing: BTreeSet<String>,
}

/// The definitions of converted schemas, and missing references.
pub(super) struct Finished {
    /// The content of `$defs`.
    pub(super) definitions: Map<String, Json>,
    pub(super) was_cut: bool,
    /// References without a target, or to another document.
    pub(super) missing: BTreeSet<String>,
}

impl<'a> Standalone<'a> {
    pub(super) fn new(document: &'a Json, bytes: usize, direction: Direction) -> Self {
        Self {
            document,
            direction,
            left: bytes,
            most: (bytes / DEFINITION_BYTES).clamp(4, DEFINITIONS),
            remarks: (bytes / 50).clamp(60, REMARK_CHARS),
            names: HashMap::new(),
            definitions: Map::new(),
            waiting: VecDeque::new(),
            was_cut: false,
            missing: BTreeSet::new(),
        }
    }

    /// Converts the definitions that the schemas converted so far, `roots`, refer to.
    pub(super) fn finish<'r>(mut self, roots: impl IntoIterator<Item = &'r mut Json>) -> Finished {
        while let Some((name, target)) = self.waiting.pop_front() {
            let made = self.convert(target, 0);
            self.definitions.insert(name, made);
        }
        let Self { mut definitions, was_cut, missing, .. } = self;
        if was_cut || !missing.is_empty() {
            roots.into_iter().for_each(loosen);
            definitions.values_mut().for_each(loosen);
        }
        Finished { definitions, was_cut, missing }
    }

    pub(super) fn convert(&mut self, schema: &Json, depth: usize) -> Json {
        let Some(object) = schema.as_object() else {
            return if schema.is_boolean() { schema.clone() } else { json!({}) };
        };
        if depth > SCHEMA_DEPTH || self.left == 0 {
            self.was_cut = true;
            return json!({});
        }
        if let Some(reference) = object.get("$ref").and_then(Json::as_str) {
            return self.reference(reference, object);
        }
        let mut made = Map::new();
        for (key, value) in object {
            let value = match key.as_str() {
                "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas" => {
                    self.each(value, depth)
                }
                "allOf" | "anyOf" | "oneOf" | "prefixItems" => match value.as_array() {
                    Some(items) => Json::Array(items.iter().map(|item| self.convert(item, depth + 1)).collect()),
                    None => continue,
                },
                "items"
                | "additionalProperties"
                | "not"
                | "contains"
                | "propertyNames"
                | "if"
                | "then"
                | "else"
                | "unevaluatedProperties"
                | "unevaluatedItems" => self.convert(value, depth + 1),
                "description" | "title" => match value.as_str() {
                    Some(text) => Json::from(shortened(text, self.remarks)),
                    None => continue,
                },
                "type" | "enum" | "const" | "default" | "format" | "pattern" | "minimum" | "maximum" | "multipleOf"
                | "minLength" | "maxLength" | "minItems" | "maxItems" | "uniqueItems" | "minProperties"
                | "maxProperties" | "required" | "exclusiveMinimum" | "exclusiveMaximum" | "dependentRequired"
                | "minContains" | "maxContains" => value.clone(),
                // Annotations and extensions, which do not affect validation.
                _ => continue,
            };
            made.insert(key.clone(), value);
        }
        in_current_words(&mut made, object);
        self.require_only_what_goes(&mut made, object);
        let bytes: usize = made.iter().map(|(key, value)| key.len() + scalar_size(value)).sum();
        self.left = self.left.saturating_sub(bytes);
        Json::Object(made)
    }

    /// Drops properties of the other direction from `required`.
    fn require_only_what_goes(&self, made: &mut Map<String, Json>, schema: &Map<String, Json>) {
        let (Some(Json::Array(required)), Some(properties)) = (made.get_mut("required"), schema.get("properties"))
        else {
            return;
        };
        let mark = match self.direction {
            Direction::Request => "readOnly",
            Direction::Response => "writeOnly",
        };
        required.retain(|name| {
            let property = name.as_str().and_then(|name| properties.get(name));
            let property = property.and_then(|property| follow(self.document, property));
            property.and_then(|property| property.get(mark)) != Some(&Json::Bool(true))
        });
    }

    fn each(&mut self, value: &Json, depth: usize) -> Json {
        let members = value.as_object().into_iter().flatten();
        Json::Object(members.map(|(key, value)| (key.clone(), self.convert(value, depth + 1))).collect())
    }

    fn reference(&mut self, reference: &str, around: &Map<String, Json>) -> Json {
        if let Some(name) = self.names.get(reference) {
            return named(name, around);
        }
        let target = pointer(reference).and_then(|pointer| self.document.pointer(&pointer));
        let Some(target) = target else {
            self.missing.insert(reference.to_owned());
            return json!({});
        };
        if self.names.len() >= self.most || self.left == 0 {
            self.was_cut = true;
            return json!({});
        }
        let name = self.name(reference);
        self.names.insert(reference.to_owned(), name.clone());
        // Inserted before it is converted: others may refer to it, and it may refer to itself.
        self.definitions.insert(name.clone(), json!({}));
        self.left = self.left.saturating_sub(2 * name.len());
        self.waiting.push_back((name.clone(), target));
        named(&name, around)
    }

    fn name(&self, reference: &str) -> String {
        let last = reference.rsplit('/').next().unwrap_or_default();
        let plain: String = last.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).take(60).collect();
        let plain = if plain.is_empty() { "schema".to_owned() } else { plain };
        if !self.definitions.contains_key(&plain) {
            return plain;
        }
        let numbered = |number: usize| format!("{plain}_{number}");
        (2..).map(numbered).find(|name| !self.definitions.contains_key(name)).unwrap_or(plain)
    }
}

fn named(name: &str, around: &Map<String, Json>) -> Json {
    let mut made = json!({"$ref": format!("#/$defs/{name}")});
    if around.get("nullable") == Some(&Json::Bool(true)) {
        made = json!({"anyOf": [made, {"type": "null"}]});
    }
    if let Some(text) = around.get("description").and_then(Json::as_str) {
        made["description"] = Json::from(shortened(text, REMARK_CHARS));
    }
    if let Some(default) = around.get("default") {
        made["default"] = default.clone();
    }
    made
}

/// Ensures that a part that accepts anything does not make the whole stricter: any alternative may match, and nothing
/// is excluded.
fn loosen(schema: &mut Json) {
    let Some(object) = schema.as_object_mut() else { return };
    for key in ["not", "if", "then", "else"] {
        object.remove(key);
    }
    if let Some(alternatives) = object.remove("oneOf")
        && !object.contains_key("anyOf")
    {
        object.insert("anyOf".to_owned(), alternatives);
    }
    for (key, value) in object.iter_mut() {
        match key.as_str() {
            "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas" => {
                value.as_object_mut().into_iter().flat_map(Map::values_mut).for_each(loosen);
            }
            "allOf" | "anyOf" | "prefixItems" => value.as_array_mut().into_iter().flatten().for_each(loosen),
            "items"
            | "additionalProperties"
            | "contains"
            | "propertyNames"
            | "unevaluatedProperties"
            | "unevaluatedItems" => loosen(value),
            _ => {}
        }
    }
}

fn scalar_size(value: &Json) -> usize {
    match value {
        Json::String(text) => text.len() + 4,
        Json::Array(items) => items.iter().map(scalar_size).sum(),
        // Counted when it was converted.
        Json::Object(_) => 2,
        _ => 8,
    }
}

/// Converts `nullable` and boolean `exclusiveMinimum` and `exclusiveMaximum`.
fn in_current_words(made: &mut Map<String, Json>, old: &Map<String, Json>) {
    if old.get("nullable") == Some(&Json::Bool(true)) {
        match made.get("type").cloned() {
            Some(Json::String(kind)) => {
                made.insert("type".to_owned(), json!([kind, "null"]));
                if let Some(Json::Array(values)) = made.get_mut("enum")
                    && !values.contains(&Json::Null)
                {
                    values.push(Json::Null);
                }
            }
            Some(_) => {}
            None if !made.is_empty() => {
                let inner = std::mem::take(made);
                made.insert("anyOf".to_owned(), json!([inner, {"type": "null"}]));
            }
            None => {}
        }
    }
    for (exclusive, bound) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
        match made.get(exclusive) {
            Some(Json::Bool(true)) => match made.remove(bound) {
                Some(value) => drop(made.insert(exclusive.to_owned(), value)),
                None => drop(made.remove(exclusive)),
            },
            Some(Json::Bool(false)) => drop(made.remove(exclusive)),
            _ => {}
        }
    }
    // `required: true` of a property is not a list of names.
    if made.get("required").is_some_and(|required| !required.is_array()) {
        made.remove("required");
    }
}

/// The properties of an object schema, including those of its `allOf`, and which of them are required. `None` for
/// anything other than an object with known members.
pub(super) fn members<'a>(document: &'a Json, schema: &'a Json) -> Option<(Vec<(&'a str, &'a Json)>, Vec<&'a str>)> {
    let (mut properties, mut required) = (Vec::new(), Vec::new());
    gather(document, schema, 0, &mut properties, &mut required)?;
    (!properties.is_empty()).then_some((properties, required))
}

fn gather<'a>(
    document: &'a Json,
    schema: &'a Json,
    depth: usize,
    properties: &mut Vec<(&'a str, &'a Json)>,
    required: &mut Vec<&'a str>,
) -> Option<()> {
    const DEEPEST: usize = 8;
    const MOST: usize = 100;
    let schema = follow(document, schema)?.as_object()?;
    if depth > DEEPEST
        || ["oneOf", "anyOf", "not", "if", "patternProperties"].iter().any(|key| schema.contains_key(*key))
    {
        return None;
    }
    let is_object = match schema.get("type") {
        None => true,
        Some(kind) => kind == "object" || kind.as_array().is_some_and(|kinds| kinds.iter().any(|one| one == "object")),
    };
    let is_open = schema.get("additionalProperties").is_some_and(|more| more.is_object() || more == &Json::Bool(true));
    if !is_object || is_open {
        return None;
    }
    for part in schema.get("allOf").and_then(Json::as_array).into_iter().flatten() {
        gather(document, part, depth + 1, properties, required)?;
    }
    for (name, property) in schema.get("properties").and_then(Json::as_object).into_iter().flatten() {
        if follow(document, property).and_then(|property| property.get("readOnly")) == Some(&Json::Bool(true)) {
            continue;
        }
        match properties.iter_mut().find(|(one, _)| one == name) {
            Some(known) => known.1 = property,
            None => properties.push((name, property)),
        }
    }
    let names = schema.get("required").and_then(Json::as_array).into_iter().flatten();
    required.extend(names.filter_map(Json::as_str));
    (properties.len() <= MOST).then_some(())
}
