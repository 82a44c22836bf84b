//! Determines which properties and items a schema has evaluated, for `unevaluatedProperties` and `unevaluatedItems`.
//!
//! Walks the schemas that apply to the same value: those that match contribute what they evaluate.

use serde_json::{Map, Value as Json};

use super::evaluate::Run;
use super::node::{Keyword, NodeId};

/// Distinguishes references followed for marking from those followed for checking.
const MARKING: NodeId = 1 << 31;

/// What has been evaluated of one value: one mark per property or item, in order.
type Marks = Vec<bool>;

impl Run<'_> {
    /// Returns the positions of properties that nothing else has evaluated and that do not match `node`.
    pub(super) fn unevaluated_properties(
        &mut self,
        owner: NodeId,
        node: NodeId,
        value: &Json,
        object: &Map<String, Json>,
    ) -> Vec<usize> {
        let mut marks = vec![false; object.len()];
        self.mark(owner, value, &mut marks, IsOwner(true));
        let values = object.values().enumerate();
        values.filter(|(at, value)| !marks[*at] && !self.node(node, value)).map(|(at, _)| at).collect()
    }

    /// Returns the positions of items that nothing else has evaluated and that do not match `node`.
    pub(super) fn unevaluated_items(
        &mut self,
        owner: NodeId,
        node: NodeId,
        value: &Json,
        items: &[Json],
    ) -> Vec<usize> {
        let mut marks = vec![false; items.len()];
        self.mark(owner, value, &mut marks, IsOwner(true));
        let items = items.iter().enumerate();
        items.filter(|(at, item)| !marks[*at] && !self.node(node, item)).map(|(at, _)| at).collect()
    }

    fn mark(&mut self, id: NodeId, value: &Json, marks: &mut Marks, is_owner: IsOwner) {
        let schema = self.schema;
        let Some(entered) = self.enter(id) else { return };
        for keyword in &schema.nodes[id as usize].keywords {
            if marks.iter().all(|mark| *mark) {
                break;
            }
            match value {
                Json::Object(object) => self.mark_properties(keyword, object, marks, is_owner),
                Json::Array(items) => self.mark_items(keyword, items, marks, is_owner),
                _ => {}
            }
            self.mark_in_place(keyword, value, marks);
        }
        self.leave(entered);
    }

    /// Marks what is evaluated by the schemas that a keyword applies to the same value.
    fn mark_in_place(&mut self, keyword: &Keyword, value: &Json, marks: &mut Marks) {
        match keyword {
            Keyword::Ref(target) => self.mark_target(*target, value, marks),
            Keyword::DynamicRef(_) | Keyword::RecursiveRef(_) => {
                let target = self.dynamic_target(keyword);
                self.mark_target(target, value, marks);
            }
            Keyword::AllOf(nodes) | Keyword::AnyOf(nodes) => {
                for node in nodes {
                    self.mark_if_valid(*node, value, marks);
                }
            }
            Keyword::OneOf(nodes) if self.count_valid(nodes, value, 2) == 1 => {
                for node in nodes {
                    self.mark_if_valid(*node, value, marks);
                }
            }
            Keyword::If(parts) => {
                let branch = if self.node(parts.condition, value) {
                    self.mark(parts.condition, value, marks, IsOwner(false));
                    parts.then
                } else {
                    parts.otherwise
                };
                if let Some(branch) = branch {
                    self.mark(branch, value, marks, IsOwner(false));
                }
            }
            Keyword::DependentSchemas(dependencies) => {
                for (key, node) in dependencies {
                    if value.get(&**key).is_some() {
                        self.mark(*node, value, marks, IsOwner(false));
                    }
                }
            }
            _ => {}
        }
    }

    fn mark_target(&mut self, target: NodeId, value: &Json, marks: &mut Marks) {
        // Marking what a schema evaluates is different from checking a value against it.
        if let Some(step) = self.start_following(target | MARKING, value) {
            self.mark(target, value, marks, IsOwner(false));
            self.stop_following(step);
        }
    }

    fn mark_if_valid(&mut self, node: NodeId, value: &Json, marks: &mut Marks) {
        if self.node(node, value) {
            self.mark(node, value, marks, IsOwner(false));
        }
    }

    fn mark_properties(&mut self, keyword: &Keyword, object: &Map<String, Json>, marks: &mut Marks, is_owner: IsOwner) {
        match keyword {
            Keyword::Properties(properties) => {
                self.spend(object.len() as u64);
                for ((name, _), mark) in object.iter().zip(marks) {
                    *mark = *mark
                        || properties.evaluates_all
                        || properties.get(name).is_some()
                        || properties.patterns.iter().any(|(pattern, _)| self.matches(pattern, name));
                }
            }
            Keyword::UnevaluatedProperties(node) if !is_owner.0 => {
                for (value, mark) in object.values().zip(marks) {
                    *mark = *mark || self.node(*node, value);
                }
            }
            _ => {}
        }
    }

    fn mark_items(&mut self, keyword: &Keyword, items: &[Json], marks: &mut Marks, is_owner: IsOwner) {
        match keyword {
            Keyword::Prefix(nodes) => marks.iter_mut().take(nodes.len()).for_each(|mark| *mark = true),
            Keyword::Rest(..) | Keyword::NoItemsAfter(_) => marks.fill(true),
            Keyword::Contains(contains) => {
                for (item, mark) in items.iter().zip(marks) {
                    *mark = *mark || self.node(contains.node, item);
                }
            }
            Keyword::UnevaluatedItems(node) if !is_owner.0 => {
                for (item, mark) in items.iter().zip(marks) {
                    *mark = *mark || self.node(*node, item);
                }
            }
            _ => {}
        }
    }
}

/// Whether the node is the one whose `unevaluated…` is being checked.
#[derive(Clone, Copy)]
struct IsOwner(bool);
