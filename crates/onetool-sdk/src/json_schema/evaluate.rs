//! Checks whether a value is valid.
//!
//! The work is limited: every visited node is a step, and so is anything else that may take long. A value whose check
//! takes more than [`MAX_STEPS`] steps, nests more than [`MAX_EVALUATION_DEPTH`] schemas, or has a text that a pattern
//! cannot be matched against, counts as invalid, even below a `not`.

use std::cmp::Ordering;

use serde_json::{Map, Number, Value as Json};

use super::node::{Additional, Contains, Keyword, NodeId, Properties, ResourceId};
use super::pattern::Pattern;
use super::{Schema, number, scan};

/// Maximum number of steps to check one value.
pub(super) const MAX_STEPS: u64 = 10_000_000;
/// Maximum depth of nested schemas during evaluation.
pub(super) const MAX_EVALUATION_DEPTH: usize = 1_000;

/// Cost of a match that may backtrack, in steps.
const BACKTRACKING_STEPS: u64 = 100;
/// The number of bytes of a text, or of values in a list, that cost as much as a node.
const PER_STEP: usize = 16;

pub(super) fn is_valid(schema: &Schema, value: &Json) -> bool {
    let mut run = Run::new(schema);
    run.node(0, value) && !run.is_given_up
}

/// One check of one value.
pub(super) struct Run<'a> {
    pub(super) schema: &'a Schema,
    /// Whether the check exceeded its limits. If so, no result is meaningful.
    pub(super) is_given_up: bool,
    steps: u64,
    depth: usize,
    /// The references being followed, each with the address of the value.
    followed: Vec<(NodeId, usize)>,
    /// The resources that were entered, if references depend on them.
    scope: Vec<ResourceId>,
}

impl<'a> Run<'a> {
    pub(super) fn new(schema: &'a Schema) -> Self {
        Self { schema, is_given_up: false, steps: 0, depth: 0, followed: Vec::new(), scope: Vec::new() }
    }

    pub(super) fn spend(&mut self, steps: u64) {
        self.steps += steps;
        self.is_given_up |= self.steps > MAX_STEPS;
    }

    /// Enters a node, if the limits allow it; pass the result to [`Self::leave`] afterwards.
    pub(super) fn enter(&mut self, id: NodeId) -> Option<Entered> {
        self.spend(1);
        self.is_given_up |= self.depth >= MAX_EVALUATION_DEPTH;
        if self.is_given_up {
            return None;
        }
        self.depth += 1;
        let mut has_scope = false;
        if self.schema.has_dynamic_references {
            let resource = self.schema.nodes[id as usize].resource;
            has_scope = self.scope.last() != Some(&resource);
            if has_scope {
                self.scope.push(resource);
            }
        }
        Some(Entered { has_scope })
    }

    pub(super) fn leave(&mut self, entered: Entered) {
        self.depth -= 1;
        if entered.has_scope {
            self.scope.pop();
        }
    }

    pub(super) fn node(&mut self, id: NodeId, value: &Json) -> bool {
        let schema = self.schema;
        let keywords = &schema.nodes[id as usize].keywords;
        if keywords.is_empty() {
            return true;
        }
        let Some(entered) = self.enter(id) else { return false };
        let is_valid = keywords.iter().all(|keyword| self.keyword(keyword, id, value));
        self.leave(entered);
        is_valid
    }

    /// Whether `value` satisfies a keyword of the node `owner`.
    pub(super) fn keyword(&mut self, keyword: &Keyword, owner: NodeId, value: &Json) -> bool {
        match keyword {
            Keyword::Type(types) => return types.contains(value),
            Keyword::False => return false,
            Keyword::Const(expected, weight) => {
                self.spend(*weight / PER_STEP as u64);
                return !self.is_given_up && number::equal(value, expected);
            }
            Keyword::Enum(options, weight) => {
                self.spend(*weight / PER_STEP as u64);
                return !self.is_given_up && options.iter().any(|option| number::equal(value, option));
            }
            Keyword::Ref(target) => return self.follow(*target, value),
            Keyword::DynamicRef(_) | Keyword::RecursiveRef(_) => {
                let target = self.dynamic_target(keyword);
                return self.follow(target, value);
            }
            Keyword::AllOf(nodes) => return nodes.iter().all(|node| self.node(*node, value)),
            Keyword::AnyOf(nodes) => return nodes.iter().any(|node| self.node(*node, value)),
            Keyword::OneOf(nodes) => return self.count_valid(nodes, value, 2) == 1,
            Keyword::Not(node, _) => return !self.node(*node, value),
            Keyword::If(parts) => {
                let branch = if self.node(parts.condition, value) { parts.then } else { parts.otherwise };
                return branch.is_none_or(|branch| self.node(branch, value));
            }
            Keyword::MetaSchema(draft) => {
                self.spend(number::weight(value));
                return !self.is_given_up && scan::is_schema(value, *draft);
            }
            _ => {}
        }
        match value {
            Json::Number(number) => is_number_valid(keyword, number),
            Json::String(text) => self.is_text_valid(keyword, text),
            Json::Array(items) => self.is_array_valid(keyword, owner, value, items),
            Json::Object(object) => self.is_object_valid(keyword, owner, value, object),
            Json::Null | Json::Bool(_) => true,
        }
    }

    /// Counts the nodes that accept `value`, stopping at `enough`.
    pub(super) fn count_valid(&mut self, nodes: &[NodeId], value: &Json, enough: usize) -> usize {
        nodes.iter().filter(|node| self.node(**node, value)).take(enough).count()
    }

    /// A reference that leads back to itself with the same value adds nothing to the check in progress.
    fn follow(&mut self, target: NodeId, value: &Json) -> bool {
        let Some(step) = self.start_following(target, value) else { return true };
        let is_valid = self.node(target, value);
        self.stop_following(step);
        is_valid
    }

    /// Returns `None` if this reference is already being followed.
    pub(super) fn start_following(&mut self, target: NodeId, value: &Json) -> Option<usize> {
        let step = (target, scan::address(value));
        // References for other values are below those for this one.
        let same_value = self.followed.iter().rev().take_while(|(_, place)| *place == step.1);
        let mut count = 0;
        for followed in same_value {
            if *followed == step {
                return None;
            }
            count += 1;
        }
        self.spend((count / PER_STEP) as u64);
        self.followed.push(step);
        Some(self.followed.len())
    }

    pub(super) fn stop_following(&mut self, step: usize) {
        self.followed.truncate(step - 1);
    }

    /// Resolves a reference that depends on the path evaluation took.
    pub(super) fn dynamic_target(&mut self, keyword: &Keyword) -> NodeId {
        self.spend(self.scope.len() as u64);
        let find = |anchors: &[(ResourceId, NodeId)], resource: ResourceId| {
            let at = anchors.binary_search_by_key(&resource, |(known, _)| *known).ok()?;
            Some(anchors[at].1)
        };
        match keyword {
            Keyword::DynamicRef(reference) => {
                let found = self.scope.iter().find_map(|resource| find(&reference.anchors, *resource));
                found.unwrap_or(reference.fallback)
            }
            Keyword::RecursiveRef(reference) => {
                let found = self.scope.iter().rev().map_while(|resource| find(&reference.anchors, *resource)).last();
                found.unwrap_or(reference.own)
            }
            _ => 0,
        }
    }

    pub(super) fn matches(&mut self, pattern: &Pattern, text: &str) -> bool {
        let steps = if pattern.backtracks() { BACKTRACKING_STEPS } else { 1 };
        self.spend(steps + (text.len() / PER_STEP) as u64);
        if self.is_given_up {
            return false;
        }
        match pattern.is_match(text) {
            Ok(is_match) => is_match,
            Err(_) => {
                self.is_given_up = true;
                false
            }
        }
    }

    fn is_text_valid(&mut self, keyword: &Keyword, text: &str) -> bool {
        self.spend((text.len() / PER_STEP) as u64);
        match keyword {
            _ if self.is_given_up => false,
            Keyword::MinLength(limit) => has_at_least(text, *limit),
            Keyword::MaxLength(limit) => text.len() as u64 <= *limit || !has_at_least(text, limit.saturating_add(1)),
            Keyword::Pattern(pattern) => self.matches(pattern, text),
            Keyword::Format(format) => format.is_valid(text),
            Keyword::ContentEncoding(encoding) => encoding.decode(text).is_some(),
            Keyword::ContentJson(None) => is_json(text.as_bytes()),
            Keyword::ContentJson(Some(encoding)) => encoding.decode(text).is_some_and(|decoded| is_json(&decoded)),
            _ => true,
        }
    }

    fn is_array_valid(&mut self, keyword: &Keyword, owner: NodeId, value: &Json, items: &[Json]) -> bool {
        let count = items.len() as u64;
        match keyword {
            Keyword::MinItems(limit) => count >= *limit,
            Keyword::MaxItems(limit) => count <= *limit,
            Keyword::NoItemsAfter(limit) => items.len() <= *limit,
            Keyword::UniqueItems => {
                self.spend(number::weight(value));
                !self.is_given_up && number::are_unique(items)
            }
            Keyword::Prefix(nodes) => items.iter().zip(nodes).all(|(item, node)| self.node(*node, item)),
            Keyword::Rest(from, node) => items.iter().skip(*from).all(|item| self.node(*node, item)),
            Keyword::Contains(contains) => self.contains(contains, items),
            Keyword::UnevaluatedItems(node) => self.unevaluated_items(owner, *node, value, items).is_empty(),
            _ => true,
        }
    }

    fn contains(&mut self, contains: &Contains, items: &[Json]) -> bool {
        let enough = if contains.max == u64::MAX { contains.min } else { contains.max.saturating_add(1) };
        let mut found = 0;
        for item in items {
            if found >= enough {
                break;
            }
            found += u64::from(self.node(contains.node, item));
        }
        (contains.min..=contains.max).contains(&found)
    }

    fn is_object_valid(&mut self, keyword: &Keyword, owner: NodeId, value: &Json, object: &Map<String, Json>) -> bool {
        let count = object.len() as u64;
        match keyword {
            Keyword::MinProperties(limit) => count >= *limit,
            Keyword::MaxProperties(limit) => count <= *limit,
            Keyword::Required(names) => self.has_all(names, object),
            Keyword::DependentRequired(dependencies) => {
                dependencies.iter().all(|(key, names)| !object.contains_key(&**key) || self.has_all(names, object))
            }
            Keyword::DependentSchemas(dependencies) | Keyword::Dependencies(dependencies) => {
                dependencies.iter().all(|(key, node)| !object.contains_key(&**key) || self.node(*node, value))
            }
            Keyword::Properties(properties) => self.properties(properties, object),
            Keyword::PropertyNames(node) => object.keys().all(|name| self.node(*node, &Json::String(name.clone()))),
            Keyword::UnevaluatedProperties(node) => self.unevaluated_properties(owner, *node, value, object).is_empty(),
            _ => true,
        }
    }

    fn has_all(&mut self, names: &[Box<str>], object: &Map<String, Json>) -> bool {
        self.spend((names.len() / PER_STEP) as u64);
        !self.is_given_up && names.iter().all(|name| object.contains_key(&**name))
    }

    fn properties(&mut self, properties: &Properties, object: &Map<String, Json>) -> bool {
        let has_only_names = properties.patterns.is_empty() && properties.additional == Additional::Any;
        if has_only_names && properties.named.len() < object.len() {
            return properties
                .named
                .iter()
                .all(|(name, node)| object.get(&**name).is_none_or(|value| self.node(*node, value)));
        }
        for (name, value) in object {
            let named = properties.get(name);
            if named.is_some_and(|node| !self.node(node, value)) {
                return false;
            }
            let mut is_known = named.is_some();
            for (pattern, node) in &properties.patterns {
                if self.matches(pattern, name) {
                    is_known = true;
                    if !self.node(*node, value) {
                        return false;
                    }
                }
            }
            if !is_known {
                match properties.additional {
                    Additional::Any => {}
                    Additional::None => return false,
                    Additional::Node(node) => {
                        if !self.node(node, value) {
                            return false;
                        }
                    }
                }
            }
        }
        true
    }
}

/// The state that [`Run::leave`] must undo.
#[must_use]
pub(super) struct Entered {
    has_scope: bool,
}

fn is_number_valid(keyword: &Keyword, number: &Number) -> bool {
    match keyword {
        Keyword::Minimum(limit) => number::compare(number, limit) != Ordering::Less,
        Keyword::Maximum(limit) => number::compare(number, limit) != Ordering::Greater,
        Keyword::ExclusiveMinimum(limit) => number::compare(number, limit) == Ordering::Greater,
        Keyword::ExclusiveMaximum(limit) => number::compare(number, limit) == Ordering::Less,
        Keyword::MultipleOf(divisor) => number::is_multiple_of(number, *divisor),
        _ => true,
    }
}

/// Whether a text has at least `count` characters.
fn has_at_least(text: &str, count: u64) -> bool {
    count == 0 || text.len() as u64 >= count && text.chars().nth(count as usize - 1).is_some()
}

fn is_json(text: &[u8]) -> bool {
    serde_json::from_slice::<serde::de::IgnoredAny>(text).is_ok()
}
