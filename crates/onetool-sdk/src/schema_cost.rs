//! Estimates the cost of following a schema before anything follows it.
//!
//! A small schema can mean a lot of work: definitions that each refer to the next one twice double with every step, and
//! a long chain of definitions is walked recursively. Schemas come from untrusted servers and bundles.

use std::collections::HashMap;

use serde_json::Value as Json;

/// Maximum number of schemas that one value may be checked against in place.
const MAX_EXPANSIONS: u64 = 100_000;
/// Maximum length of a chain of nested references.
const MAX_CHAIN: usize = 200;

/// Keywords whose schemas apply to the same value.
const IN_PLACE: &[&str] = &["allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"];

/// Whether `schema` is too costly to follow.
pub(crate) fn is_excessive(schema: &Json) -> bool {
    let mut costs = Costs { root: schema, known: HashMap::new(), excessive: false };
    costs.visit(schema, 0);
    costs.excessive
}

struct Costs<'a> {
    root: &'a Json,
    /// The cost of each reference; 1 while it is being computed, because code that follows a cycle cuts it.
    known: HashMap<&'a str, u64>,
    excessive: bool,
}

impl<'a> Costs<'a> {
    /// Counts the schemas that a value is checked against in place of `schema`.
    fn visit(&mut self, schema: &'a Json, chain: usize) -> u64 {
        if self.excessive {
            return 0;
        }
        let children: Box<dyn Iterator<Item = (Option<&'a str>, &'a Json)>> = match schema {
            Json::Object(object) => Box::new(object.iter().map(|(key, child)| (Some(key.as_str()), child))),
            Json::Array(items) => Box::new(items.iter().map(|child| (None, child))),
            _ => return 0,
        };
        let mut cost: u64 = 1;
        for (key, child) in children {
            let (key, reference) = (key.unwrap_or_default(), child.as_str());
            let more = match reference {
                Some(reference) if key == "$ref" => self.follow(reference, chain),
                _ => self.visit(child, chain),
            };
            // The items of an array apply in place: `allOf` adds up its branches.
            if schema.is_array() || key == "$ref" || IN_PLACE.contains(&key) {
                cost = cost.saturating_add(more);
            }
        }
        self.excessive |= cost > MAX_EXPANSIONS;
        cost
    }

    fn follow(&mut self, reference: &'a str, chain: usize) -> u64 {
        if let Some(cost) = self.known.get(reference) {
            return *cost;
        }
        self.known.insert(reference, 1);
        if chain >= MAX_CHAIN {
            self.excessive = true;
            return 0;
        }
        let root = self.root;
        let target = reference.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
        let cost = target.map_or(1, |target| self.visit(target, chain + 1));
        self.known.insert(reference, cost);
        cost
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::{Map, json};

    use super::*;

    /// Definitions that each refer to the next `width` times, by `key`.
    pub(crate) fn chain(length: usize, width: usize, key: &str) -> Json {
        let mut definitions = Map::new();
        for n in 0..length {
            let next = json!({"$ref": format!("#/definitions/d{}", n + 1)});
            definitions.insert(format!("d{n}"), json!({ key: vec![next; width] }));
        }
        definitions.insert(format!("d{length}"), json!({"type": "object"}));
        json!({"$ref": "#/definitions/d0", "definitions": definitions})
    }

    #[test]
    fn work_that_doubles_with_every_step_is_excessive() {
        assert!(!is_excessive(&chain(10, 2, "allOf")));
        assert!(is_excessive(&chain(40, 2, "anyOf")));
        assert!(!is_excessive(&chain(MAX_CHAIN - 2, 1, "allOf")));
        assert!(is_excessive(&chain(MAX_CHAIN + 2, 1, "allOf")));
        assert!(!is_excessive(&json!({"$ref": "#"})));
    }
}
