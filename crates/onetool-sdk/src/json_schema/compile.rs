//! Compiles a document into nodes.
//!
//! Nested schemas are compiled in place; targets of references wait in a queue, so that a long chain of references
//! takes no stack. Every schema becomes one node, regardless of how many references point to it.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Map, Value as Json};

use super::assertions::{Groups, assertions, count, is_required_last, names, required};
use super::content::Encoding;
use super::format::Format;
use super::node::{
    Additional, Anchors, Contains, DynamicRef, If, Keyword, Names, Node, NodeId, Properties, RecursiveRef, ResourceId,
};
use super::pattern::Pattern;
use super::references::{self, Target};
use super::scan::{Context, Document, address, push_step};
use super::{Draft, Invalid, Schema};

pub(super) fn compile(root: &Json, draft: Draft) -> Result<Schema, Invalid> {
    let document = Document::scan(root, draft)?;
    references::check_outward(&document)?;
    let mut compiler = Compiler {
        document,
        nodes: Vec::new(),
        known: HashMap::new(),
        queue: Vec::new(),
        has_dynamic_references: false,
        dynamic_anchors: HashMap::new(),
        recursive_anchors: None,
        path: String::new(),
    };
    compiler.schema(root, Context { draft, resource: 0 })?;
    while let Some((node, schema, context, path)) = compiler.queue.pop() {
        compiler.path = path;
        compiler.fill(node, schema, context)?;
    }
    Ok(Schema { nodes: compiler.nodes, has_dynamic_references: compiler.has_dynamic_references })
}

struct Compiler<'s> {
    document: Document<'s>,
    nodes: Vec<Node>,
    /// The node of each schema, by its address.
    known: HashMap<usize, NodeId>,
    /// Schemas still to be compiled, each with the pointer of the reference that leads to it.
    queue: Vec<(NodeId, &'s Json, Context, String)>,
    has_dynamic_references: bool,
    dynamic_anchors: HashMap<&'s str, Anchors>,
    recursive_anchors: Option<Anchors>,
    /// The pointer to the schema being compiled.
    path: String,
}

/// A schema with its keywords by name.
type Object<'s> = &'s Map<String, Json>;

impl<'s> Compiler<'s> {
    /// Compiles a schema in place and returns its node.
    fn schema(&mut self, schema: &'s Json, context: Context) -> Result<NodeId, Invalid> {
        if let Some(node) = self.known.get(&address(schema)) {
            return Ok(*node);
        }
        let context = self.document.places.get(&address(schema)).copied().unwrap_or(context);
        let node = self.reserve(schema, context);
        self.fill(node, schema, context)?;
        Ok(node)
    }

    /// Adds an empty node, to be filled later.
    fn reserve(&mut self, schema: &'s Json, context: Context) -> NodeId {
        let node = self.nodes.len() as NodeId;
        self.nodes.push(Node { keywords: Box::default(), resource: context.resource });
        self.known.insert(address(schema), node);
        node
    }

    /// Returns the node of a reference's target.
    fn target(&mut self, schema: &'s Json, context: Context) -> Result<NodeId, Invalid> {
        if let Some(node) = self.known.get(&address(schema)) {
            return Ok(*node);
        }
        if !self.document.places.contains_key(&address(schema)) {
            self.document.scan_target(schema, context).map_err(|invalid| self.invalid(invalid.reason))?;
        }
        let context = self.document.places.get(&address(schema)).copied().unwrap_or(context);
        let node = self.reserve(schema, context);
        self.queue.push((node, schema, context, self.path.clone()));
        Ok(node)
    }

    fn fill(&mut self, node: NodeId, schema: &'s Json, context: Context) -> Result<(), Invalid> {
        let mut keywords = Vec::new();
        match schema {
            Json::Bool(false) => keywords.push(Keyword::False),
            Json::Object(object) => self.keywords(schema, object, context, &mut keywords)?,
            _ => {}
        }
        self.nodes[node as usize].keywords = keywords.into();
        Ok(())
    }

    fn invalid(&self, reason: String) -> Invalid {
        Invalid { pointer: self.path.clone(), reason }
    }

    /// Runs `compile` with the path extended by one step.
    fn within<T>(&mut self, step: &str, compile: impl FnOnce(&mut Self) -> Result<T, Invalid>) -> Result<T, Invalid> {
        let length = self.path.len();
        push_step(&mut self.path, step);
        let outcome = compile(self)?;
        self.path.truncate(length);
        Ok(outcome)
    }

    /// Compiles the keywords of a schema, in the order in which they are checked.
    fn keywords(
        &mut self,
        schema: &'s Json,
        object: Object<'s>,
        context: Context,
        out: &mut Vec<Keyword>,
    ) -> Result<(), Invalid> {
        let draft = context.draft;
        if draft.is_classic() && object.contains_key("$ref") {
            return self.reference(schema, object, context, "$ref", out);
        }
        let groups = Groups::of(object);
        if groups.has(Groups::ASSERTIONS) {
            assertions(object, draft, out);
        }
        let is_required_last = groups.has(Groups::PROPERTIES) && is_required_last(object);
        if groups.has(Groups::ASSERTIONS) && !is_required_last {
            out.extend(required(object));
        }
        if groups.has(Groups::TEXTS) {
            self.texts(object, context, out)?;
        }
        if groups.has(Groups::PROPERTIES) {
            self.properties(object, context, out)?;
        }
        if is_required_last {
            out.extend(required(object));
        }
        if groups.has(Groups::ITEMS) {
            self.items(object, context, out)?;
        }
        if groups.has(Groups::COMBINATIONS) {
            self.dependencies(object, context, out)?;
            self.combinations(object, context, out)?;
        }
        if groups.has(Groups::REFERENCES) {
            self.reference(schema, object, context, "$ref", out)?;
            if draft == Draft::Draft201909 && object.contains_key("$recursiveRef") {
                self.recursive_reference(context, out)?;
            }
            if draft == Draft::Draft202012 {
                self.reference(schema, object, context, "$dynamicRef", out)?;
            }
        }
        Ok(())
    }

    /// Returns the node of a keyword whose value is a schema.
    fn child(&mut self, object: Object<'s>, keyword: &str, context: Context) -> Result<Option<NodeId>, Invalid> {
        match object.get(keyword) {
            Some(schema @ (Json::Object(_) | Json::Bool(_))) => {
                self.within(keyword, |compiler| compiler.schema(schema, context)).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Returns the nodes of a keyword whose value is a list of schemas.
    fn children(&mut self, object: Object<'s>, keyword: &str, context: Context) -> Result<Box<[NodeId]>, Invalid> {
        let schemas = object.get(keyword).and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default();
        if schemas.is_empty() {
            return Ok(Box::default());
        }
        self.within(keyword, |compiler| {
            let mut nodes = Vec::with_capacity(schemas.len());
            for (at, schema) in schemas.iter().enumerate() {
                nodes.push(compiler.within(&at.to_string(), |compiler| compiler.schema(schema, context))?);
            }
            Ok(nodes.into())
        })
    }

    /// Returns the nodes of a keyword whose value is a map of schemas.
    fn members(
        &mut self,
        object: Object<'s>,
        keyword: &str,
        context: Context,
    ) -> Result<Vec<(&'s String, NodeId)>, Invalid> {
        let Some(members) = object.get(keyword).and_then(Json::as_object).filter(|members| !members.is_empty()) else {
            return Ok(Vec::new());
        };
        self.within(keyword, |compiler| {
            let mut nodes = Vec::with_capacity(members.len());
            for (key, schema) in members {
                if schema.is_object() || schema.is_boolean() {
                    nodes.push((key, compiler.within(key, |compiler| compiler.schema(schema, context))?));
                }
            }
            Ok(nodes)
        })
    }

    fn pattern(&mut self, source: &'s str) -> Result<Arc<Pattern>, Invalid> {
        self.document.pattern(source).map_err(|reason| self.invalid(reason))
    }

    /// Compiles assertions about strings, and `uniqueItems`.
    fn texts(&mut self, object: Object<'s>, context: Context, out: &mut Vec<Keyword>) -> Result<(), Invalid> {
        let text = |keyword: &str| object.get(keyword).and_then(Json::as_str);
        if let Some(source) = text("pattern") {
            out.push(Keyword::Pattern(self.within("pattern", |compiler| compiler.pattern(source))?));
        }
        out.extend(text("format").and_then(|name| Format::named(name, context.draft)).map(Keyword::Format));
        if matches!(context.draft, Draft::Draft6 | Draft::Draft7) {
            let encoding = text("contentEncoding").and_then(Encoding::named);
            match text("contentMediaType") {
                // With an unknown encoding there is nothing to check.
                Some("application/json") if encoding.is_some() || text("contentEncoding").is_none() => {
                    out.push(Keyword::ContentJson(encoding));
                }
                Some(_) => {}
                None => out.extend(encoding.map(Keyword::ContentEncoding)),
            }
        }
        if object.get("uniqueItems") == Some(&Json::Bool(true)) {
            out.push(Keyword::UniqueItems);
        }
        Ok(())
    }

    fn properties(&mut self, object: Object<'s>, context: Context, out: &mut Vec<Keyword>) -> Result<(), Invalid> {
        let named = self.members(object, "properties", context)?;
        let mut properties =
            Properties::new(named.into_iter().map(|(name, node)| (name.as_str().into(), node)).collect());
        let mut patterns = Vec::new();
        for (source, node) in self.members(object, "patternProperties", context)? {
            let pattern = self.within("patternProperties", |compiler| compiler.pattern(source))?;
            patterns.push((pattern, node));
        }
        properties.patterns = patterns.into();
        properties.additional = match object.get("additionalProperties") {
            None | Some(Json::Bool(true)) => Additional::Any,
            Some(Json::Bool(false)) => Additional::None,
            Some(_) => self.child(object, "additionalProperties", context)?.map_or(Additional::Any, Additional::Node),
        };
        properties.evaluates_all = object.contains_key("additionalProperties");
        if !properties.named.is_empty() || !properties.patterns.is_empty() || properties.evaluates_all {
            out.push(Keyword::Properties(Box::new(properties)));
        }
        if context.draft >= Draft::Draft6 {
            let names = self.child(object, "propertyNames", context)?;
            out.extend(names.map(Keyword::PropertyNames));
        }
        Ok(())
    }

    fn items(&mut self, object: Object<'s>, context: Context, out: &mut Vec<Keyword>) -> Result<(), Invalid> {
        let list = if context.draft == Draft::Draft202012 { "prefixItems" } else { "items" };
        let prefix = self.children(object, list, context)?;
        let after = prefix.len();
        if after > 0 {
            out.push(Keyword::Prefix(prefix));
        }
        if context.draft < Draft::Draft202012 && object.get("items").is_some_and(Json::is_array) {
            match object.get("additionalItems") {
                Some(Json::Bool(false)) => out.push(Keyword::NoItemsAfter(after)),
                _ => {
                    let rest = self.child(object, "additionalItems", context)?;
                    out.extend(rest.map(|rest| Keyword::Rest(after, rest)));
                }
            }
        } else {
            let rest = self.child(object, "items", context)?;
            out.extend(rest.map(|rest| Keyword::Rest(after, rest)));
        }
        if context.draft >= Draft::Draft6
            && let Some(node) = self.child(object, "contains", context)?
        {
            let limit =
                |keyword: &str| object.get(keyword).filter(|_| context.draft >= Draft::Draft201909).and_then(count);
            let (min, max) = (limit("minContains").unwrap_or(1), limit("maxContains").unwrap_or(u64::MAX));
            out.push(Keyword::Contains(Contains { node, min, max }));
        }
        Ok(())
    }

    fn dependencies(&mut self, object: Object<'s>, context: Context, out: &mut Vec<Keyword>) -> Result<(), Invalid> {
        let lists = |keyword: &str| -> Box<[(Box<str>, Names)]> {
            let members = object.get(keyword).and_then(Json::as_object).into_iter().flatten();
            members.filter(|(_, list)| list.is_array()).map(|(key, list)| (key.as_str().into(), names(list))).collect()
        };
        let mut keywords = vec!["dependencies"];
        if context.draft >= Draft::Draft201909 {
            keywords.extend(["dependentRequired", "dependentSchemas"]);
        }
        for keyword in keywords {
            let required = lists(keyword);
            if !required.is_empty() {
                out.push(Keyword::DependentRequired(required));
            }
            let schemas = self.members(object, keyword, context)?;
            if !schemas.is_empty() {
                let schemas = schemas.into_iter().map(|(key, node)| (key.as_str().into(), node)).collect();
                let is_old = keyword == "dependencies";
                out.push(if is_old { Keyword::Dependencies(schemas) } else { Keyword::DependentSchemas(schemas) });
            }
        }
        Ok(())
    }

    fn combinations(&mut self, object: Object<'s>, context: Context, out: &mut Vec<Keyword>) -> Result<(), Invalid> {
        for keyword in ["allOf", "anyOf", "oneOf"] {
            let nodes = self.children(object, keyword, context)?;
            match keyword {
                _ if nodes.is_empty() => {}
                "allOf" => out.push(Keyword::AllOf(nodes)),
                "anyOf" => out.push(Keyword::AnyOf(nodes)),
                _ => out.push(Keyword::OneOf(nodes)),
            }
        }
        if let Some(node) = self.child(object, "not", context)? {
            out.push(Keyword::Not(node, object["not"].clone()));
        }
        let has_branch = object.contains_key("then") || object.contains_key("else");
        if context.draft >= Draft::Draft7
            && (has_branch || self.document.has_unevaluated)
            && let Some(condition) = self.child(object, "if", context)?
        {
            let then = self.child(object, "then", context)?;
            let otherwise = self.child(object, "else", context)?;
            out.push(Keyword::If(If { condition, then, otherwise }));
        }
        if context.draft >= Draft::Draft201909 {
            let properties = self.child(object, "unevaluatedProperties", context)?;
            out.extend(properties.map(Keyword::UnevaluatedProperties));
            let items = self.child(object, "unevaluatedItems", context)?;
            out.extend(items.map(Keyword::UnevaluatedItems));
        }
        Ok(())
    }

    fn reference(
        &mut self,
        schema: &'s Json,
        object: Object<'s>,
        context: Context,
        keyword: &str,
        out: &mut Vec<Keyword>,
    ) -> Result<(), Invalid> {
        let Some(value) = object.get(keyword) else { return Ok(()) };
        self.within(keyword, |compiler| {
            let Some(reference) = value.as_str() else {
                return Err(compiler.invalid(format!(r#"{value} is not of type "string""#)));
            };
            let target = references::resolve(&compiler.document, reference, context);
            match target.map_err(|reason| compiler.invalid(reason))? {
                Target::MetaSchema(draft) => out.push(Keyword::MetaSchema(draft)),
                // A schema that refers to itself asserts nothing.
                Target::Schema { schema: target, .. } if reference.is_empty() || std::ptr::eq(target, schema) => {}
                Target::Schema { schema, context, dynamic_anchor } => {
                    let node = compiler.target(schema, context)?;
                    out.push(match dynamic_anchor {
                        Some(name) if keyword == "$dynamicRef" => compiler.dynamic_reference(node, name)?,
                        _ => Keyword::Ref(node),
                    });
                }
            }
            Ok(())
        })
    }

    fn dynamic_reference(&mut self, fallback: NodeId, name: &'s str) -> Result<Keyword, Invalid> {
        self.has_dynamic_references = true;
        let anchors = match self.dynamic_anchors.get(name) {
            Some(anchors) => anchors.clone(),
            None => {
                let found = self.document.anchors.iter();
                let found = found.filter(|((_, known), anchor)| *known == name && anchor.is_dynamic);
                let found = found.map(|((resource, _), anchor)| (*resource, anchor.schema, anchor.context)).collect();
                let anchors = self.targets(found)?;
                self.dynamic_anchors.insert(name, anchors.clone());
                anchors
            }
        };
        Ok(Keyword::DynamicRef(Box::new(DynamicRef { fallback, anchors })))
    }

    fn recursive_reference(&mut self, context: Context, out: &mut Vec<Keyword>) -> Result<(), Invalid> {
        self.has_dynamic_references = true;
        let own = &self.document.resources[context.resource as usize];
        let (root, root_context) = (own.root, own.context);
        let own = self.target(root, root_context)?;
        let anchors = match &self.recursive_anchors {
            Some(anchors) => anchors.clone(),
            None => {
                let is_recursive = |root: &Json| root.get("$recursiveAnchor") == Some(&Json::Bool(true));
                let found = self.document.resources.iter().enumerate();
                let found = found.filter(|(_, resource)| is_recursive(resource.root));
                let found = found.map(|(at, resource)| (at as ResourceId, resource.root, resource.context)).collect();
                let anchors = self.targets(found)?;
                self.recursive_anchors = Some(anchors.clone());
                anchors
            }
        };
        out.push(Keyword::RecursiveRef(Box::new(RecursiveRef { own, anchors })));
        Ok(())
    }

    fn targets(&mut self, mut schemas: Vec<(ResourceId, &'s Json, Context)>) -> Result<Anchors, Invalid> {
        schemas.sort_unstable_by_key(|(resource, ..)| *resource);
        let mut targets = Vec::with_capacity(schemas.len());
        for (resource, schema, context) in schemas {
            targets.push((resource, self.target(schema, context)?));
        }
        Ok(targets.into())
    }
}
