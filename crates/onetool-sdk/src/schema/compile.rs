//! Compiles a tool's schema into a provider's dialect.
//!
//! One walk, controlled by a [`Dialect`]. A constraint that the provider does not support is described in words and
//! recorded; anything that strict mode cannot express makes the result not strict, and then the schema keeps its own
//! form.

use serde_json::{Map, Value as Json, json};

use super::composition::{ANNOTATIONS, constants_as_enum, is_recursive, joined_objects, merged, target};
use super::dialect::{Dialect, Optional, Provider, References, Spelling};
use super::limits;
use super::strip::{Strip, accepts_null};
use crate::schema_cost::is_excessive;
use crate::validation::{escape, exceeds_depth};

/// Maximum nesting depth of a compiled schema; deeper levels are cut.
const MAX_LEVELS: usize = 64;
/// Maximum number of nodes in a compiled schema: inlined references could multiply without end.
const MAX_NODES: usize = 20_000;
/// Maximum nesting depth of a schema that is compiled at all.
const MAX_SCHEMA_DEPTH: usize = 200;

/// A part of a schema that cannot be expressed for a provider, and where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenUp {
    /// A JSON pointer into the tool's own schema.
    pub pointer: String,
    pub what: String,
}

/// A schema in a provider's dialect.
#[derive(Debug, Clone)]
pub struct CompiledSchema {
    pub provider: Provider,
    /// The schema to send; `None` if the field must be omitted because the tool takes no arguments.
    pub parameters: Option<Json>,
    /// Whether the provider may be asked to enforce the schema.
    pub strict: bool,
    pub given_up: Vec<GivenUp>,
    strip: Strip,
}

impl CompiledSchema {
    /// Removes every `null` that means an omitted optional argument.
    pub fn strip_nulls(&self, arguments: Json) -> Json {
        self.strip.apply(arguments)
    }
}

/// Compiles the schema of a tool's arguments for a provider.
///
/// ```
/// use onetool_sdk::{Provider, compile_schema};
/// use serde_json::json;
///
/// let schema = json!({
///     "type": "object",
///     "properties": {"query": {"type": "string", "minLength": 1}, "count": {"type": "integer"}},
///     "required": ["query"],
///     "additionalProperties": false
/// });
/// let compiled = compile_schema(&schema, Provider::OpenAi);
/// assert!(compiled.strict);
/// assert_eq!(compiled.given_up[0].pointer, "/properties/query");
/// assert_eq!(compiled.parameters.as_ref().unwrap()["properties"]["count"], json!({"type": ["integer", "null"]}));
/// assert_eq!(compiled.strip_nulls(json!({"query": "a", "count": null})), json!({"query": "a"}));
/// ```
pub fn compile_schema(schema: &Json, provider: Provider) -> CompiledSchema {
    let excessive = exceeds_depth(schema, MAX_SCHEMA_DEPTH) || is_excessive(schema);
    let strip = if excessive { Strip::none() } else { Strip::new(schema) };
    let Some(dialect) = provider.dialect() else {
        return CompiledSchema { provider, parameters: Some(schema.clone()), strict: false, given_up: vec![], strip };
    };
    if excessive {
        let given_up = vec![note("", "everything: the schema nests too deep or refers too often")];
        return CompiledSchema {
            provider,
            parameters: Some(json!({"type": "object"})),
            strict: false,
            given_up,
            strip,
        };
    }
    // No provider accepts a union as the root.
    let mut given_up = Vec::new();
    let joined = joined_objects(schema, schema);
    if joined.is_some() {
        given_up.push(note("", "which keys belong together"));
    }
    let root = joined.as_ref().unwrap_or(schema);

    let mut compiler =
        Compiler { dialect, root, given_up, strict: dialect.can_be_strict, inlining: Vec::new(), nodes: 0 };
    let mut parameters = compiler.root();
    if compiler.strict {
        for breach in limits::breaches(&parameters, provider) {
            compiler.not_strict("", &breach);
        }
    }
    let Compiler { given_up, strict, .. } = compiler;
    if dialect.can_be_strict && !strict {
        parameters = root.clone();
    }
    let empty = parameters.get("properties").and_then(Json::as_object).is_none_or(Map::is_empty);
    let parameters = if empty && dialect.spelling == Spelling::OpenApi { None } else { Some(parameters) };
    CompiledSchema { provider, parameters, strict, given_up, strip }
}

fn note(pointer: &str, what: &str) -> GivenUp {
    GivenUp { pointer: pointer.to_owned(), what: what.to_owned() }
}

struct Compiler<'a> {
    dialect: &'static Dialect,
    root: &'a Json,
    given_up: Vec<GivenUp>,
    strict: bool,
    /// The references that are being inlined, outermost first.
    inlining: Vec<String>,
    nodes: usize,
}

impl Compiler<'_> {
    fn give_up(&mut self, pointer: &str, what: &str) {
        let note = note(pointer, what);
        if !self.given_up.contains(&note) {
            self.given_up.push(note);
        }
    }

    fn not_strict(&mut self, pointer: &str, what: &str) {
        self.strict = false;
        self.give_up(pointer, what);
    }

    fn root(&mut self) -> Json {
        let root = self.root;
        let mut compiled = self.schema(root, "", 0);
        if self.dialect.references == References::Inline {
            return compiled;
        }
        let mut definitions = Map::new();
        for key in ["definitions", "$defs"] {
            for (name, definition) in root.get(key).and_then(Json::as_object).into_iter().flatten() {
                let pointer = format!("/{key}/{}", escape(name));
                if self.dialect.references == References::KeepAcyclic && is_recursive(&format!("#{pointer}"), root) {
                    self.not_strict(&pointer, "a definition that contains itself");
                }
                definitions.insert(name.clone(), self.schema(definition, &pointer, 1));
            }
        }
        if let (false, Some(object)) = (definitions.is_empty(), compiled.as_object_mut()) {
            object.insert("$defs".into(), Json::Object(definitions));
        }
        compiled
    }

    fn schema(&mut self, schema: &Json, pointer: &str, level: usize) -> Json {
        let Some(object) = schema.as_object() else { return self.untyped(pointer) };
        self.nodes += 1;
        if level > MAX_LEVELS || self.nodes > MAX_NODES {
            self.not_strict(if self.nodes > MAX_NODES { "" } else { pointer }, "what lies deeper");
            return json!({"type": "object"});
        }
        if let Some(reference) = lone_reference(object) {
            return self.reference(reference, object, pointer, level);
        }
        if object.contains_key("allOf") || object.contains_key("$ref") {
            let Some(whole) = merged(schema, self.root) else {
                self.not_strict(pointer, "an 'allOf' whose pieces cannot be merged");
                return self.untyped(pointer);
            };
            return self.schema(&whole, pointer, level + 1);
        }
        if let Some(flat) = constants_as_enum(schema) {
            return self.schema(&flat, pointer, level + 1);
        }
        if let Some(key) = ["anyOf", "oneOf"].into_iter().find(|key| object.contains_key(*key)) {
            return self.union(object, key, pointer, level);
        }
        if let Some(values) = object.get("enum").and_then(Json::as_array) {
            return self.choices(object, values.clone(), pointer);
        }
        if let Some(value) = object.get("const") {
            return self.choices(object, vec![value.clone()], pointer);
        }
        match object.get("type") {
            Some(Json::String(kind)) => self.typed(object, kind, pointer, level),
            Some(Json::Array(kinds)) => {
                let kinds: Vec<&str> = kinds.iter().filter_map(Json::as_str).collect();
                self.several_types(object, &kinds, pointer, level)
            }
            _ if object.contains_key("properties") => self.typed(object, "object", pointer, level),
            _ => {
                let untyped = self.untyped(pointer);
                self.described(object, untyped, &[])
            }
        }
    }

    /// Returns the schema of a value of any type.
    fn untyped(&mut self, pointer: &str) -> Json {
        match self.dialect.spelling {
            Spelling::JsonSchema => {
                self.not_strict(pointer, "a value of any type");
                json!({})
            }
            Spelling::OpenApi => {
                self.give_up(pointer, "a value of any type: only text, numbers and booleans can be expressed");
                json!({"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "boolean"}]})
            }
        }
    }

    fn reference(&mut self, reference: &str, object: &Map<String, Json>, pointer: &str, level: usize) -> Json {
        let Some(definition) = target(reference, self.root) else {
            self.not_strict(pointer, "a reference that leads nowhere");
            return self.untyped(pointer);
        };
        let name = reference.strip_prefix("#/definitions/").or_else(|| reference.strip_prefix("#/$defs/"));
        let described = object.contains_key("description") || object.contains_key("default");
        let recursive = is_recursive(reference, self.root);
        if self.dialect.references != References::Inline {
            // A description is not allowed beside a reference, and it matters more than sharing the definition.
            if described && !recursive {
                return self.inlined(reference, definition, object, pointer, level);
            }
            if described {
                self.give_up(pointer, "the description beside a reference");
            }
            let place = name.map_or_else(|| reference.to_owned(), |name| format!("#/$defs/{name}"));
            if name.is_none() && reference != "#" {
                self.not_strict(pointer, "a reference to a place that is not a definition");
            }
            return json!({ "$ref": place });
        }
        if self.inlining.iter().any(|outer| outer == reference) {
            self.give_up(pointer, "what a value that contains its own kind looks like further inside");
            return json!({"type": "object"});
        }
        self.inlined(reference, definition, object, pointer, level)
    }

    fn inlined(
        &mut self,
        reference: &str,
        definition: &Json,
        object: &Map<String, Json>,
        pointer: &str,
        level: usize,
    ) -> Json {
        let mut whole = definition.clone();
        if let Some(whole) = whole.as_object_mut() {
            for key in ANNOTATIONS {
                if let Some(value) = object.get(*key) {
                    whole.insert((*key).to_owned(), value.clone());
                }
            }
        }
        self.inlining.push(reference.to_owned());
        let compiled = self.schema(&whole, pointer, level + 1);
        self.inlining.pop();
        compiled
    }

    fn union(&mut self, object: &Map<String, Json>, key: &str, pointer: &str, level: usize) -> Json {
        if object.contains_key("properties") {
            // Keys beside a union also belong to every branch.
            let joined = joined_objects(&Json::Object(object.clone()), self.root);
            self.give_up(pointer, "which keys belong together");
            return match joined {
                Some(joined) => self.schema(&joined, pointer, level + 1),
                None => self.untyped(pointer),
            };
        }
        if key == "oneOf" {
            self.give_up(pointer, "that exactly one alternative fits");
        }
        let branches = object.get(key).and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default();
        let openapi = self.dialect.spelling == Spelling::OpenApi;
        let mut nullable = false;
        let mut compiled: Vec<Json> = Vec::new();
        for (index, branch) in branches.iter().enumerate() {
            if openapi && branch.get("type").is_some_and(|kind| kind == "null") {
                nullable = true;
            } else {
                compiled.push(self.schema(branch, &format!("{pointer}/{key}/{index}"), level + 1));
            }
        }
        let mut whole = match <[Json; 1]>::try_from(compiled) {
            Ok([only]) => only,
            Err(branches) => json!({ "anyOf": branches }),
        };
        if let (true, Some(whole)) = (nullable, whole.as_object_mut()) {
            whole.insert("nullable".into(), Json::Bool(true));
        }
        self.described(object, whole, &[])
    }

    fn choices(&mut self, object: &Map<String, Json>, values: Vec<Json>, pointer: &str) -> Json {
        let mut kinds: Vec<&str> = values.iter().map(kind_of).collect();
        kinds.sort_unstable();
        kinds.dedup();
        if kinds.iter().any(|kind| ["array", "object"].contains(kind)) {
            self.not_strict(pointer, "choices that are lists or objects");
        }
        if self.dialect.spelling == Spelling::JsonSchema {
            let kind = if let [only] = kinds.as_slice() { json!(only) } else { json!(kinds) };
            return self.described(object, json!({"type": kind, "enum": values}), &[]);
        }
        let nullable = kinds.contains(&"null");
        kinds.retain(|kind| *kind != "null");
        let mut whole = if kinds == ["string"] {
            let texts: Vec<&Json> = values.iter().filter(|value| value.is_string()).collect();
            self.described(object, json!({"type": "string", "enum": texts}), &[])
        } else {
            self.give_up(pointer, "choices that are not text, except in words");
            let words: Vec<String> = values.iter().map(Json::to_string).collect();
            let kind = kinds.first().copied().unwrap_or("string");
            self.described(object, json!({ "type": kind }), &[format!("one of {}", words.join(", "))])
        };
        if let (true, Some(whole)) = (nullable, whole.as_object_mut()) {
            whole.insert("nullable".into(), Json::Bool(true));
        }
        whole
    }

    fn several_types(&mut self, object: &Map<String, Json>, kinds: &[&str], pointer: &str, level: usize) -> Json {
        let others: Vec<&str> = kinds.iter().copied().filter(|kind| *kind != "null").collect();
        let nullable = others.len() < kinds.len();
        if let [kind] = others.as_slice() {
            let whole = self.typed(object, kind, pointer, level);
            return if nullable { self.nullable(whole) } else { whole };
        }
        let mut bare = object.clone();
        for key in ANNOTATIONS {
            bare.shift_remove(*key);
        }
        let branches: Vec<Json> = others.iter().map(|kind| self.typed(&bare, kind, pointer, level + 1)).collect();
        let whole = match <[Json; 0]>::try_from(branches) {
            Ok([]) => json!({"type": "null"}),
            Err(branches) => json!({ "anyOf": branches }),
        };
        let whole = self.described(object, whole, &[]);
        if nullable { self.nullable(whole) } else { whole }
    }

    fn typed(&mut self, object: &Map<String, Json>, kind: &str, pointer: &str, level: usize) -> Json {
        let mut whole = Map::new();
        whole.insert("type".into(), kind.into());
        let relevant: &[&str] = match kind {
            "string" => &["pattern", "minLength", "maxLength", "contentEncoding", "contentMediaType"],
            "integer" | "number" => &["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"],
            "array" => {
                self.items(object, &mut whole, pointer, level);
                &["minItems", "maxItems", "uniqueItems", "contains"]
            }
            "object" => {
                self.properties(object, &mut whole, pointer, level);
                &["minProperties", "maxProperties", "propertyNames", "dependencies", "dependentRequired"]
            }
            _ => &[],
        };
        let mut words = Vec::new();
        for key in relevant.iter().chain(&["not", "if"]) {
            let Some(value) = object.get(*key) else { continue };
            if self.keeps(key, value) {
                whole.insert((*key).to_owned(), value.clone());
            } else {
                let text = if value.is_object() { (*key).to_owned() } else { format!("{key} {value}") };
                self.give_up(pointer, &format!("the constraint {text}"));
                if !value.is_object() {
                    words.push(text);
                }
            }
        }
        if let Some(format) = object.get("format").and_then(Json::as_str) {
            if self.dialect.formats.contains(&format) {
                whole.insert("format".into(), format.into());
            } else if kind == "string" {
                self.give_up(pointer, &format!("the format {format}"));
                words.push(format!("format {format}"));
            }
        }
        self.described(object, Json::Object(whole), &words)
    }

    fn keeps(&self, key: &str, value: &Json) -> bool {
        if !self.dialect.constraints.contains(&key) {
            return false;
        }
        match (key, self.dialect.references) {
            // Anthropic compiles patterns into a grammar: no look-around, back references or word boundaries.
            ("pattern", References::KeepAcyclic) => {
                let text = value.as_str().unwrap_or_default();
                !["(?", "\\b", "\\B"].iter().any(|part| text.contains(part))
                    && !(1..=9).any(|digit| text.contains(&format!("\\{digit}")))
            }
            ("minItems", References::KeepAcyclic) => value.as_u64().is_some_and(|count| count <= 1),
            _ => true,
        }
    }

    fn items(&mut self, object: &Map<String, Json>, whole: &mut Map<String, Json>, pointer: &str, level: usize) {
        let tuple = object.contains_key("prefixItems") || object.get("items").is_some_and(Json::is_array);
        let items = if tuple {
            self.not_strict(pointer, "a list whose items each have their own type");
            self.untyped(pointer)
        } else if let Some(items) = object.get("items") {
            self.schema(items, &format!("{pointer}/items"), level + 1)
        } else {
            self.untyped(&format!("{pointer}/items"))
        };
        whole.insert("items".into(), items);
    }

    fn properties(&mut self, object: &Map<String, Json>, whole: &mut Map<String, Json>, pointer: &str, level: usize) {
        let empty = Map::new();
        let properties = object.get("properties").and_then(Json::as_object).unwrap_or(&empty);
        let required: Vec<&str> = object
            .get("required")
            .and_then(Json::as_array)
            .map(|names| names.iter().filter_map(Json::as_str).filter(|name| properties.contains_key(*name)).collect())
            .unwrap_or_default();
        let mut compiled = Map::new();
        for (name, property) in properties {
            let place = format!("{pointer}/properties/{}", escape(name));
            let mut schema = self.schema(property, &place, level + 1);
            let optional = !required.contains(&name.as_str());
            if optional && self.dialect.optional == Optional::Nullable && !accepts_null(property, self.root) {
                schema = self.nullable(schema);
            }
            compiled.insert(name.clone(), schema);
        }
        let names: Vec<&str> = match self.dialect.optional {
            Optional::Nullable => properties.keys().map(String::as_str).collect(),
            Optional::Keep => required,
        };
        let closed = object.get("additionalProperties") == Some(&Json::Bool(false));
        let free = object.get("additionalProperties").is_some_and(|rest| rest != &Json::Bool(false))
            || object.contains_key("patternProperties")
            || (properties.is_empty() && !closed);
        if self.dialect.spelling == Spelling::JsonSchema {
            whole.insert("properties".into(), Json::Object(compiled));
            whole.insert("required".into(), json!(names));
            whole.insert("additionalProperties".into(), Json::Bool(false));
            if free {
                self.not_strict(pointer, "keys that are not named");
            } else if !closed {
                self.give_up(pointer, "keys that are not named");
            }
            return;
        }
        if !compiled.is_empty() {
            whole.insert("properties".into(), Json::Object(compiled));
        }
        if !names.is_empty() {
            whole.insert("required".into(), json!(names));
        }
        if free {
            self.give_up(pointer, "what keys that are not named may hold");
        } else if closed && level > 0 {
            self.give_up(pointer, "that no other keys may be sent");
        }
    }

    fn nullable(&self, mut schema: Json) -> Json {
        if self.dialect.spelling == Spelling::OpenApi {
            if let Some(object) = schema.as_object_mut() {
                object.insert("nullable".into(), Json::Bool(true));
            }
            return schema;
        }
        let Some(object) = schema.as_object_mut() else { return schema };
        if let Some(Json::Array(branches)) = object.get_mut("anyOf") {
            if !branches.iter().any(|branch| branch.get("type").is_some_and(|kind| kind == "null")) {
                branches.push(json!({"type": "null"}));
            }
            return schema;
        }
        let kinds = match object.get("type") {
            Some(Json::String(kind)) => json!([kind, "null"]),
            Some(Json::Array(kinds)) if kinds.iter().any(|kind| kind == "null") => return schema,
            Some(Json::Array(kinds)) => kinds.iter().cloned().chain([json!("null")]).collect(),
            _ => return json!({"anyOf": [schema, {"type": "null"}]}),
        };
        object.insert("type".into(), kinds);
        if let Some(Json::Array(values)) = object.get_mut("enum") {
            values.push(Json::Null);
        }
        schema
    }

    /// Copies annotations, and describes in words what could not be expressed otherwise.
    fn described(&self, object: &Map<String, Json>, mut schema: Json, words: &[String]) -> Json {
        let Some(whole) = schema.as_object_mut() else { return schema };
        let mut text = object.get("description").and_then(Json::as_str).unwrap_or_default().to_owned();
        let mut words = words.to_vec();
        if let Some(default) = object.get("default") {
            if self.dialect.keeps_defaults {
                whole.insert("default".into(), default.clone());
            } else if !default.is_null() {
                words.push(format!("default {default}"));
            }
        }
        if !words.is_empty() {
            let separator = if text.is_empty() { "" } else { " " };
            text = format!("{text}{separator}({})", words.join(", "));
        }
        if !text.is_empty() {
            whole.insert("description".into(), text.into());
        }
        schema
    }
}

/// Returns the reference of a node that is only a reference with annotations.
fn lone_reference(object: &Map<String, Json>) -> Option<&str> {
    let is_word = |key: &String| ANNOTATIONS.contains(&key.as_str());
    if let Some(reference) = object.get("$ref").and_then(Json::as_str) {
        // The root may have definitions beside its own reference; it is merged instead.
        return object.keys().all(|key| key == "$ref" || is_word(key)).then_some(reference);
    }
    match object.get("allOf").and_then(Json::as_array).map(Vec::as_slice) {
        Some([Json::Object(only)]) if only.len() == 1 && object.keys().all(|key| key == "allOf" || is_word(key)) => {
            only.get("$ref").and_then(Json::as_str)
        }
        _ => None,
    }
}

fn kind_of(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "boolean",
        Json::Number(number) if number.is_f64() => "number",
        Json::Number(_) => "integer",
        Json::String(_) => "string",
        Json::Array(_) => "array",
        Json::Object(_) => "object",
    }
}

#[cfg(test)]
#[path = "compile_tests.rs"]
mod tests;
