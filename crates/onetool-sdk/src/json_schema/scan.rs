//! Scans a schema document before it is compiled: checks that every keyword has a value that its draft allows, and
//! collects the names that references may use (`$id`, `$anchor`, `$dynamicAnchor`).
//!
//! Keywords that a draft does not define are ignored.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::{Map, Value as Json};

use super::node::{ResourceId, Types};
use super::pattern::Pattern;
use super::{Draft, Invalid, uri};

/// The base URI of a document without an `$id`.
pub(super) const DEFAULT_BASE: &str = "json-schema:///";

/// Up to this many texts are compared one by one; more are hashed.
const FEW_TEXTS: usize = 8;

/// The properties of a schema that depend on its location.
#[derive(Debug, Clone, Copy)]
pub(super) struct Context {
    pub(super) draft: Draft,
    pub(super) resource: ResourceId,
}

/// A schema with an `$id`, or the document itself.
pub(super) struct Resource<'s> {
    pub(super) uri: String,
    pub(super) root: &'s Json,
    pub(super) context: Context,
}

pub(super) struct Anchor<'s> {
    pub(super) schema: &'s Json,
    pub(super) context: Context,
    pub(super) is_dynamic: bool,
}

/// The contents of a document.
#[derive(Default)]
pub(super) struct Document<'s> {
    pub(super) resources: Vec<Resource<'s>>,
    pub(super) by_uri: HashMap<String, ResourceId>,
    pub(super) anchors: HashMap<(ResourceId, &'s str), Anchor<'s>>,
    /// The schemas already checked, by address.
    pub(super) places: HashMap<usize, Context>,
    /// References that name a resource, each with its location.
    pub(super) outward: Vec<(&'s str, Context, String)>,
    patterns: HashMap<&'s str, Arc<Pattern>>,
    /// Whether any schema has `unevaluatedProperties` or `unevaluatedItems`.
    pub(super) has_unevaluated: bool,
}

/// Appends a step to a pointer.
pub(super) fn push_step(pointer: &mut String, step: &str) {
    pointer.push('/');
    if step.contains(['~', '/']) {
        pointer.push_str(&crate::validation::escape(step));
    } else {
        pointer.push_str(step);
    }
}

pub(super) fn address(schema: &Json) -> usize {
    std::ptr::from_ref(schema) as usize
}

impl<'s> Document<'s> {
    pub(super) fn scan(root: &'s Json, draft: Draft) -> Result<Self, Invalid> {
        let mut document = Self::default();
        let context = Context { draft, resource: 0 };
        let uri = match own_id(root, draft) {
            Some(id) => uri::resolve(DEFAULT_BASE, id),
            None => DEFAULT_BASE.to_owned(),
        };
        document.by_uri.insert(uri.clone(), 0);
        document.resources.push(Resource { uri, root, context });
        Scan { document: &mut document, path: String::new() }.object(root, context)?;
        Ok(document)
    }

    /// Compiles a pattern or returns the cached one; fails with a reason.
    pub(super) fn pattern(&mut self, source: &'s str) -> Result<Arc<Pattern>, String> {
        if let Some(pattern) = self.patterns.get(source) {
            return Ok(pattern.clone());
        }
        let pattern = Pattern::new(source).ok_or_else(|| format!(r#"{} is not a "regex""#, Json::from(source)))?;
        let pattern = Arc::new(pattern);
        self.patterns.insert(source, pattern.clone());
        Ok(pattern)
    }

    /// Checks a schema at a location where none is expected, because a reference points to it.
    pub(super) fn scan_target(&mut self, schema: &'s Json, context: Context) -> Result<(), Invalid> {
        let context = Context { draft: nested_draft(schema, context.draft), ..context };
        Scan { document: self, path: String::new() }.object(schema, context)
    }
}

/// Returns the `$id` of a schema, if that makes it a resource.
fn own_id(schema: &Json, draft: Draft) -> Option<&str> {
    let object = schema.as_object()?;
    let id = object.get(draft.id_keyword())?.as_str()?;
    let is_hidden = draft.is_classic() && (id.starts_with('#') || object.contains_key("$ref"));
    (!is_hidden).then_some(id)
}

/// Whether a schema may have a name, a draft or a reference; most have none of these.
fn has_names(schema: &Json) -> bool {
    schema.as_object().is_some_and(|object| object.keys().any(|key| key.starts_with('$') || key == "id"))
}

/// Returns the draft of a nested schema, which may name its own.
fn nested_draft(schema: &Json, draft: Draft) -> Draft {
    schema.get("$schema").and_then(Json::as_str).and_then(Draft::named).unwrap_or(draft)
}

/// The expected form of a keyword's value.
#[derive(Clone, Copy)]
enum Shape {
    Text,
    Flag,
    List,
    Number,
    PositiveNumber,
    Count,
    Types,
    Pattern,
    Id,
    Reference,
    Anchor,
    FlagMap,
    Texts,
    TextsMap,
    Schema,
    /// For draft 4, where booleans are not schemas.
    SchemaOrFlag,
    Schemas,
    SchemaOrSchemas,
    SchemaMap,
    /// `dependencies`: schemas or lists of keys.
    Dependencies,
}

/// Returns the form that `draft` requires of a keyword; `None` if it defines no such keyword.
fn shape(keyword: &str, draft: Draft) -> Option<Shape> {
    use Draft::{Draft4, Draft6, Draft7, Draft201909, Draft202012};
    let (shape, since) = match keyword {
        "type" => (Shape::Types, Draft4),
        "properties" | "patternProperties" | "definitions" => (Shape::SchemaMap, Draft4),
        "description" | "title" | "format" | "$schema" => (Shape::Text, Draft4),
        "required" => (Shape::Texts, Draft4),
        "enum" => (Shape::List, Draft4),
        "items" if draft == Draft202012 => (Shape::Schema, Draft4),
        "items" => (Shape::SchemaOrSchemas, Draft4),
        "additionalProperties" | "additionalItems" if draft == Draft4 => (Shape::SchemaOrFlag, Draft4),
        "additionalItems" if draft == Draft202012 => return None,
        "additionalProperties" | "additionalItems" | "not" => (Shape::Schema, Draft4),
        "allOf" | "anyOf" | "oneOf" => (Shape::Schemas, Draft4),
        "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" => {
            (Shape::Count, Draft4)
        }
        "minimum" | "maximum" => (Shape::Number, Draft4),
        "exclusiveMinimum" | "exclusiveMaximum" if draft == Draft4 => (Shape::Flag, Draft4),
        "exclusiveMinimum" | "exclusiveMaximum" => (Shape::Number, Draft6),
        "multipleOf" => (Shape::PositiveNumber, Draft4),
        "pattern" => (Shape::Pattern, Draft4),
        "uniqueItems" => (Shape::Flag, Draft4),
        "dependencies" => (Shape::Dependencies, Draft4),
        "$ref" => (Shape::Reference, Draft4),
        "id" if draft == Draft4 => (Shape::Id, Draft4),
        "$id" => (Shape::Id, Draft6),
        "contains" | "propertyNames" => (Shape::Schema, Draft6),
        "examples" => (Shape::List, Draft6),
        "contentMediaType" | "contentEncoding" => (Shape::Text, Draft6),
        "$comment" => (Shape::Text, Draft7),
        "readOnly" | "writeOnly" => (Shape::Flag, Draft7),
        "if" | "then" | "else" => (Shape::Schema, Draft7),
        "$defs" | "dependentSchemas" => (Shape::SchemaMap, Draft201909),
        "dependentRequired" => (Shape::TextsMap, Draft201909),
        "minContains" | "maxContains" => (Shape::Count, Draft201909),
        "unevaluatedItems" | "unevaluatedProperties" | "contentSchema" => (Shape::Schema, Draft201909),
        "$anchor" => (Shape::Anchor, Draft201909),
        "$recursiveRef" => (Shape::Reference, Draft201909),
        "$recursiveAnchor" if draft == Draft202012 => (Shape::Anchor, Draft202012),
        "$recursiveAnchor" | "deprecated" => (Shape::Flag, Draft201909),
        "$vocabulary" => (Shape::FlagMap, Draft201909),
        "prefixItems" => (Shape::Schemas, Draft202012),
        "$dynamicRef" => (Shape::Reference, Draft202012),
        "$dynamicAnchor" => (Shape::Anchor, Draft202012),
        _ => return None,
    };
    (draft >= since).then_some(shape)
}

struct Scan<'d, 's> {
    document: &'d mut Document<'s>,
    /// The pointer to the current location.
    path: String,
}

impl<'s> Scan<'_, 's> {
    fn fail<T>(&self, reason: String) -> Result<T, Invalid> {
        Err(Invalid { pointer: self.path.clone(), reason })
    }

    fn expect(&self, holds: bool, value: &Json, expected: &str) -> Result<(), Invalid> {
        if holds { Ok(()) } else { self.fail(format!("{value} is not {expected}")) }
    }

    fn expect_type(&self, holds: bool, value: &Json, name: &str) -> Result<(), Invalid> {
        if holds { Ok(()) } else { self.fail(format!(r#"{value} is not of type "{name}""#)) }
    }

    /// Runs `read` with the path extended by one step.
    fn within(&mut self, step: &str, read: impl FnOnce(&mut Self) -> Result<(), Invalid>) -> Result<(), Invalid> {
        let length = self.path.len();
        push_step(&mut self.path, step);
        let outcome = read(self);
        self.path.truncate(length);
        outcome
    }

    /// Scans a nested schema.
    fn schema(&mut self, schema: &'s Json, parent: Context) -> Result<(), Invalid> {
        match schema {
            Json::Object(_) => {}
            Json::Bool(_) if parent.draft > Draft::Draft4 => return Ok(()),
            _ if parent.draft == Draft::Draft4 => return self.expect_type(false, schema, "object"),
            _ => return self.fail(format!(r#"{schema} is not of types "boolean", "object""#)),
        }
        if !has_names(schema) {
            return self.object(schema, parent);
        }
        let draft = nested_draft(schema, parent.draft);
        let mut context = Context { draft, ..parent };
        if let Some(id) = own_id(schema, draft) {
            let base = &self.document.resources[parent.resource as usize].uri;
            let uri = uri::resolve(base, id);
            context.resource = self.document.resources.len() as ResourceId;
            self.document.by_uri.entry(uri.clone()).or_insert(context.resource);
            self.document.resources.push(Resource { uri, root: schema, context });
        }
        self.object(schema, context)
    }

    fn object(&mut self, schema: &'s Json, context: Context) -> Result<(), Invalid> {
        let object = match schema {
            Json::Object(object) => object,
            Json::Bool(_) => return Ok(()),
            _ => return self.fail(format!(r#"{schema} is not of types "boolean", "object""#)),
        };
        self.document.places.insert(address(schema), context);
        if has_names(schema) {
            self.names(schema, object, context);
        }
        for (keyword, value) in object {
            if let Some(shape) = shape(keyword, context.draft) {
                self.within(keyword, |scan| scan.keyword(keyword, value, shape, context))?;
            }
        }
        if context.draft == Draft::Draft4 {
            for (keyword, other) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
                if object.contains_key(keyword) && !object.contains_key(other) {
                    self.fail(format!("\"{other}\" is a required property"))?;
                }
            }
        }
        Ok(())
    }

    /// Records the names of a schema, and the resource it refers to.
    fn names(&mut self, schema: &'s Json, object: &'s Map<String, Json>, context: Context) {
        let text = |keyword: &str| object.get(keyword).and_then(Json::as_str);
        let classic = text(context.draft.id_keyword()).and_then(|id| id.strip_prefix('#'));
        if let Some(reference) = text("$ref").filter(|reference| !reference.starts_with('#')) {
            self.document.outward.push((reference, context, format!("{}/$ref", self.path)));
        }
        let names = [
            (classic.filter(|_| context.draft.is_classic()), false),
            (text("$anchor").filter(|_| !context.draft.is_classic()), false),
            (text("$dynamicAnchor").filter(|_| context.draft == Draft::Draft202012), true),
        ];
        for (name, is_dynamic) in names {
            if let Some(name) = name {
                let anchor = Anchor { schema, context, is_dynamic };
                self.document.anchors.entry((context.resource, name)).or_insert(anchor);
            }
        }
    }

    fn keyword(&mut self, keyword: &str, value: &'s Json, shape: Shape, context: Context) -> Result<(), Invalid> {
        let draft = context.draft;
        self.document.has_unevaluated |= keyword.starts_with("unevaluated");
        match shape {
            Shape::Text => self.expect_type(value.is_string(), value, "string"),
            Shape::Flag => self.expect_type(value.is_boolean(), value, "boolean"),
            Shape::List => self.expect_type(value.is_array(), value, "array"),
            Shape::Number => self.expect_type(value.is_number(), value, "number"),
            Shape::PositiveNumber => {
                self.expect_type(value.is_number(), value, "number")?;
                self.expect(value.as_f64().is_some_and(|number| number > 0.0), value, "greater than 0")
            }
            Shape::Count => {
                let is_integer = Types::none(draft).with("integer").is_some_and(|types| types.contains(value));
                self.expect_type(is_integer, value, "integer")?;
                self.expect(value.as_f64().is_some_and(|number| number >= 0.0), value, "0 or more")
            }
            Shape::Types => {
                let mut types = Types::none(draft);
                let names = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
                self.expect(!names.is_empty(), value, "a type")?;
                for name in names {
                    match name.as_str().and_then(|name| types.with(name)) {
                        Some(more) if more != types => types = more,
                        Some(_) => self.fail(format!("{value} has non-unique elements"))?,
                        None => self.fail({
                            format!(
                                "{name} is not one of the types null, boolean, integer, number, string, array, object"
                            )
                        })?,
                    }
                }
                Ok(())
            }
            Shape::Pattern => match value {
                Json::String(source) => self.pattern(source, draft),
                _ => self.expect_type(false, value, "string"),
            },
            Shape::Id => {
                self.expect_type(value.is_string(), value, "string")?;
                let id = value.as_str().unwrap_or_default();
                let has_fragment = !draft.is_classic() && id.trim_end_matches('#').contains('#');
                self.expect(!has_fragment, value, "an identifier without a fragment")?;
                self.expect(uri::is_valid(id, uri::Kind::Reference), value, "a URI reference")
            }
            Shape::Reference => {
                self.expect_type(value.is_string(), value, "string")?;
                let reference = value.as_str().unwrap_or_default();
                self.expect(uri::is_valid(reference, uri::Kind::Reference), value, "a URI reference")
            }
            Shape::Anchor => self.expect(value.as_str().is_some_and(|name| is_anchor(name, draft)), value, "an anchor"),
            Shape::FlagMap => {
                self.expect_type(value.is_object(), value, "object")?;
                let mut flags = value.as_object().into_iter().flat_map(Map::values);
                self.expect(flags.all(Json::is_boolean), value, "a map of booleans")
            }
            Shape::Texts => self.texts(value, draft),
            Shape::TextsMap => {
                self.expect_type(value.is_object(), value, "object")?;
                for (key, texts) in value.as_object().into_iter().flatten() {
                    self.within(key, |scan| scan.texts(texts, draft))?;
                }
                Ok(())
            }
            Shape::SchemaOrFlag if value.is_boolean() => Ok(()),
            Shape::Schema | Shape::SchemaOrFlag => self.schema(value, context),
            Shape::SchemaOrSchemas if !value.is_array() => self.schema(value, context),
            Shape::Schemas | Shape::SchemaOrSchemas => {
                self.expect_type(value.is_array(), value, "array")?;
                let schemas = value.as_array().map(Vec::as_slice).unwrap_or_default();
                if schemas.is_empty() {
                    self.fail(format!("{value} has less than 1 item"))?;
                }
                for (at, schema) in schemas.iter().enumerate() {
                    self.within(&at.to_string(), |scan| scan.schema(schema, context))?;
                }
                Ok(())
            }
            Shape::SchemaMap | Shape::Dependencies => {
                self.expect_type(value.is_object(), value, "object")?;
                for (key, schema) in value.as_object().into_iter().flatten() {
                    if keyword == "patternProperties" && draft > Draft::Draft4 {
                        self.pattern(key, draft)?;
                    }
                    self.within(key, |scan| match schema {
                        Json::Array(_) if keyword == "dependencies" => scan.texts(schema, draft),
                        _ => scan.schema(schema, context),
                    })?;
                }
                Ok(())
            }
        }
    }

    /// Up to draft 7, patterns must be valid even if nothing needs them.
    fn pattern(&mut self, source: &'s str, draft: Draft) -> Result<(), Invalid> {
        if !draft.is_classic() {
            return Ok(());
        }
        self.document.pattern(source).map(drop).or_else(|reason| self.fail(reason))
    }

    fn texts(&self, value: &Json, draft: Draft) -> Result<(), Invalid> {
        self.expect_type(value.is_array(), value, "array")?;
        let texts = value.as_array().map(Vec::as_slice).unwrap_or_default();
        if texts.is_empty() && draft == Draft::Draft4 {
            self.fail(format!("{value} has less than 1 item"))?;
        }
        let mut seen = HashSet::new();
        for (at, text) in texts.iter().enumerate() {
            let Some(name) = text.as_str() else {
                self.expect_type(false, text, "string")?;
                continue;
            };
            let is_new = if texts.len() <= FEW_TEXTS { !texts[..at].contains(text) } else { seen.insert(name) };
            if !is_new {
                self.fail(format!("{value} has non-unique elements"))?;
            }
        }
        Ok(())
    }
}

fn is_anchor(name: &str, draft: Draft) -> bool {
    let more = if draft == Draft::Draft201909 { ":" } else { "" };
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_' && draft == Draft::Draft202012)
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c) || more.contains(c))
}

/// Whether a value is a valid schema according to the meta-schema of `draft`.
pub(super) fn is_schema(value: &Json, draft: Draft) -> bool {
    match value {
        Json::Object(_) => Document::scan(value, draft).is_ok(),
        Json::Bool(_) => draft > Draft::Draft4,
        _ => false,
    }
}
