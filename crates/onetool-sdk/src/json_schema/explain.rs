//! Collects what is invalid, and where.
//!
//! Walks a value like [`super::evaluate`] does, but continues after a keyword that fails. The same limits hold.

use serde_json::{Map, Value as Json};

use super::error::{Detail, Error};
use super::evaluate::Run;
use super::node::{Additional, Keyword, Node, NodeId, Properties};
use super::{Outcome, Schema};
use crate::validation::escape;

/// Maximum number of errors kept per branch of a union.
const MAX_BRANCH_ERRORS: usize = 32;

pub(super) fn check<'a>(schema: &'a Schema, value: &'a Json, limit: usize) -> Outcome<'a> {
    let mut run = Run::new(schema);
    let is_valid = run.node(0, value);
    if run.is_given_up {
        return Outcome::GivenUp;
    }
    if is_valid {
        return Outcome::Valid;
    }
    let mut explanation = Explanation { run: Run::new(schema), path: String::new(), limit };
    let mut errors = Vec::new();
    explanation.node(0, value, &mut errors);
    if errors.is_empty() { Outcome::GivenUp } else { Outcome::Invalid(errors) }
}

struct Explanation<'a> {
    run: Run<'a>,
    /// The pointer to the current value.
    path: String,
    /// Maximum number of errors to collect.
    limit: usize,
}

impl<'a> Explanation<'a> {
    fn node<'v>(&mut self, id: NodeId, value: &'v Json, out: &mut Vec<Error<'v>>)
    where
        'a: 'v,
    {
        let node: &'a Node = &self.run.schema.nodes[id as usize];
        let Some(entered) = self.run.enter(id) else { return };
        for keyword in &node.keywords {
            if out.len() >= self.limit {
                break;
            }
            self.keyword(keyword, id, value, out);
        }
        self.run.leave(entered);
    }

    /// Checks a member or item of the current value.
    fn child<'v>(&mut self, step: &str, id: NodeId, value: &'v Json, out: &mut Vec<Error<'v>>)
    where
        'a: 'v,
    {
        if out.len() >= self.limit || self.run.node(id, value) || self.run.is_given_up {
            return;
        }
        let length = self.path.len();
        self.path.push('/');
        self.path.push_str(&escape(step));
        self.node(id, value, out);
        self.path.truncate(length);
    }

    fn error<'v>(&self, keyword: &'v Keyword, value: &'v Json, detail: Detail<'v>) -> Error<'v> {
        Error { pointer: self.path.clone(), value, keyword, detail }
    }

    fn keyword<'v>(&mut self, keyword: &'a Keyword, owner: NodeId, value: &'v Json, out: &mut Vec<Error<'v>>)
    where
        'a: 'v,
    {
        match keyword {
            Keyword::AllOf(nodes) => nodes.iter().for_each(|node| self.node(*node, value, out)),
            Keyword::Ref(target) => self.follow(*target, value, out),
            Keyword::DynamicRef(_) | Keyword::RecursiveRef(_) => {
                let target = self.run.dynamic_target(keyword);
                self.follow(target, value, out);
            }
            Keyword::If(parts) => {
                let branch = if self.run.node(parts.condition, value) { parts.then } else { parts.otherwise };
                if let Some(branch) = branch {
                    self.node(branch, value, out);
                }
            }
            Keyword::AnyOf(nodes) | Keyword::OneOf(nodes) => {
                if self.run.keyword(keyword, owner, value) || self.run.is_given_up {
                    return;
                }
                let is_one_too_many = matches!(keyword, Keyword::OneOf(_)) && self.run.count_valid(nodes, value, 1) > 0;
                let detail = if is_one_too_many { Detail::Several } else { self.branches(nodes, value) };
                out.push(self.error(keyword, value, detail));
            }
            _ => match value {
                Json::Object(object) => self.object_keyword(keyword, owner, value, object, out),
                Json::Array(items) => self.array_keyword(keyword, owner, value, items, out),
                _ => self.leaf(keyword, owner, value, out),
            },
        }
    }

    fn leaf<'v>(&mut self, keyword: &'a Keyword, owner: NodeId, value: &'v Json, out: &mut Vec<Error<'v>>)
    where
        'a: 'v,
    {
        if !self.run.keyword(keyword, owner, value) && !self.run.is_given_up {
            out.push(self.error(keyword, value, Detail::None));
        }
    }

    fn follow<'v>(&mut self, target: NodeId, value: &'v Json, out: &mut Vec<Error<'v>>)
    where
        'a: 'v,
    {
        if let Some(step) = self.run.start_following(target, value) {
            self.node(target, value, out);
            self.run.stop_following(step);
        }
    }

    /// Collects the errors of each branch of a union.
    fn branches<'v>(&mut self, nodes: &[NodeId], value: &'v Json) -> Detail<'v>
    where
        'a: 'v,
    {
        if self.limit == 1 {
            return Detail::None;
        }
        let limit = std::mem::replace(&mut self.limit, MAX_BRANCH_ERRORS);
        let mut branches = Vec::with_capacity(nodes.len());
        for node in nodes {
            let mut errors = Vec::new();
            self.node(*node, value, &mut errors);
            branches.push(errors);
        }
        self.limit = limit;
        Detail::Branches(branches)
    }

    fn array_keyword<'v>(
        &mut self,
        keyword: &'a Keyword,
        owner: NodeId,
        value: &'v Json,
        items: &'v [Json],
        out: &mut Vec<Error<'v>>,
    ) where
        'a: 'v,
    {
        match keyword {
            Keyword::Prefix(nodes) => {
                for (at, (item, node)) in items.iter().zip(nodes).enumerate() {
                    self.child(&at.to_string(), *node, item, out);
                }
            }
            Keyword::Rest(from, node) => {
                for (at, item) in items.iter().enumerate().skip(*from) {
                    self.child(&at.to_string(), *node, item, out);
                }
            }
            Keyword::UnevaluatedItems(node) => {
                let unexpected = self.run.unevaluated_items(owner, *node, value, items);
                if !unexpected.is_empty() && !self.run.is_given_up {
                    let unexpected = unexpected.into_iter().map(|at| &items[at]).collect();
                    out.push(self.error(keyword, value, Detail::Items(unexpected)));
                }
            }
            _ => self.leaf(keyword, owner, value, out),
        }
    }

    fn object_keyword<'v>(
        &mut self,
        keyword: &'a Keyword,
        owner: NodeId,
        value: &'v Json,
        object: &'v Map<String, Json>,
        out: &mut Vec<Error<'v>>,
    ) where
        'a: 'v,
    {
        match keyword {
            Keyword::Required(names) => self.required(keyword, names, value, object, out),
            Keyword::DependentRequired(dependencies) => {
                for (key, names) in dependencies {
                    if object.contains_key(&**key) {
                        self.required(keyword, names, value, object, out);
                    }
                }
            }
            Keyword::DependentSchemas(dependencies) | Keyword::Dependencies(dependencies) => {
                for (key, node) in dependencies {
                    if object.contains_key(&**key) {
                        self.node(*node, value, out);
                    }
                }
            }
            Keyword::Properties(properties) => self.properties(keyword, properties, value, object, out),
            Keyword::PropertyNames(node) => self.property_names(keyword, *node, value, object, out),
            Keyword::UnevaluatedProperties(node) => {
                let unexpected = self.run.unevaluated_properties(owner, *node, value, object);
                if !unexpected.is_empty() && !self.run.is_given_up {
                    let keys: Vec<&'v String> = object.keys().collect();
                    let names = unexpected.into_iter().map(|at| keys[at].as_str()).collect();
                    let known = self.known_names(owner);
                    out.push(self.error(keyword, value, Detail::Unexpected { names, known }));
                }
            }
            _ => self.leaf(keyword, owner, value, out),
        }
    }

    /// Returns the properties that a node lists.
    fn known_names(&self, owner: NodeId) -> Vec<&'a str> {
        let node: &'a Node = &self.run.schema.nodes[owner as usize];
        let listed = node.keywords.iter().find_map(|keyword| match keyword {
            Keyword::Properties(properties) => Some(properties.names().collect()),
            _ => None,
        });
        listed.unwrap_or_default()
    }

    fn required<'v>(
        &self,
        keyword: &'a Keyword,
        names: &'a [Box<str>],
        value: &'v Json,
        object: &Map<String, Json>,
        out: &mut Vec<Error<'v>>,
    ) where
        'a: 'v,
    {
        for name in names {
            if out.len() < self.limit && !object.contains_key(&**name) {
                out.push(self.error(keyword, value, Detail::Missing(name)));
            }
        }
    }

    fn properties<'v>(
        &mut self,
        keyword: &'a Keyword,
        properties: &'a Properties,
        value: &'v Json,
        object: &'v Map<String, Json>,
        out: &mut Vec<Error<'v>>,
    ) where
        'a: 'v,
    {
        let has_only_names = properties.patterns.is_empty() && properties.additional == Additional::Any;
        if has_only_names && properties.named.len() < object.len() {
            for (name, node) in &properties.named {
                if let Some(value) = object.get(&**name) {
                    self.child(name, *node, value, out);
                }
            }
            return;
        }
        let mut unexpected: Vec<&'v str> = Vec::new();
        for (name, value) in object {
            let named = properties.get(name);
            if let Some(node) = named {
                self.child(name, node, value, out);
            }
            let mut is_known = named.is_some();
            for (pattern, node) in &properties.patterns {
                if self.run.matches(pattern, name) {
                    is_known = true;
                    self.child(name, *node, value, out);
                }
            }
            match properties.additional {
                Additional::None if !is_known => unexpected.push(name),
                Additional::Node(node) if !is_known => self.child(name, node, value, out),
                _ => {}
            }
            // With a limit of one, only the first error is reported.
            if self.limit == 1 && !(out.is_empty() && unexpected.is_empty()) {
                break;
            }
        }
        if !unexpected.is_empty() && out.len() < self.limit {
            let known = properties.names().collect();
            out.push(self.error(keyword, value, Detail::Unexpected { names: unexpected, known }));
        }
    }

    fn property_names<'v>(
        &mut self,
        keyword: &'a Keyword,
        node: NodeId,
        value: &'v Json,
        object: &'v Map<String, Json>,
        out: &mut Vec<Error<'v>>,
    ) where
        'a: 'v,
    {
        let schema: &'a Node = &self.run.schema.nodes[node as usize];
        if let ([no_value @ Keyword::False], false) = (&*schema.keywords, object.is_empty()) {
            out.push(self.error(no_value, value, Detail::None));
            return;
        }
        for name in object.keys() {
            if out.len() >= self.limit {
                return;
            }
            let text = Json::String(name.clone());
            let mut errors = Vec::new();
            self.node(node, &text, &mut errors);
            if let Some(error) = errors.first() {
                let options = match error.keyword {
                    Keyword::Enum(options, _) => options.iter().filter_map(Json::as_str).map(str::to_owned).collect(),
                    _ => Vec::new(),
                };
                let detail = Detail::PropertyName { name, message: error.to_string(), options };
                out.push(self.error(keyword, value, detail));
            }
        }
    }
}
