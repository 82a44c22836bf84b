//! Removes added `null`s. For a provider that requires every key, optional arguments become nullable; a `null` for such
//! an argument means that it was left out.
//!
//! A `null` is kept if it has a meaning: for a required argument, inside lists, and for an optional one that may be
//! `null` and has another default. In a union, the first alternative that matches afterwards decides.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use serde_json::{Map, Value as Json, json};

use super::composition::target;
use crate::Validator;

/// The places in a tool's arguments where `null` means "left out".
#[derive(Debug, Clone)]
pub struct Strip {
    root: Plan,
    definitions: HashMap<String, Plan>,
}

#[derive(Debug, Clone)]
enum Plan {
    Leave,
    Object {
        properties: HashMap<String, Field>,
        rest: Box<Plan>,
    },
    Items(Box<Plan>),
    /// Alternatives, each with the check that selects it.
    Union(Vec<(Validator, Plan)>),
    All(Vec<Plan>),
    Reference(String),
}

#[derive(Debug, Clone)]
struct Field {
    null: Null,
    plan: Plan,
}

/// What a `null` means for a property.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Null {
    LeftOut,
    Value,
}

impl Strip {
    /// Derives the plan from the tool's own schema.
    pub fn new(schema: &Json) -> Self {
        let mut builder = Builder { root: schema, open: Vec::new() };
        let root = builder.plan(schema);
        let mut definitions = HashMap::new();
        while let Some(reference) = builder.open.pop() {
            if let Entry::Vacant(entry) = definitions.entry(reference) {
                let definition = target(entry.key(), schema);
                let plan = definition.map_or(Plan::Leave, |definition| builder.plan(definition));
                entry.insert(plan);
            }
        }
        for name in circular(&definitions) {
            definitions.insert(name, Plan::Leave);
        }
        Self { root, definitions }
    }

    /// Returns a plan that changes nothing.
    pub(super) fn none() -> Self {
        Self { root: Plan::Leave, definitions: HashMap::new() }
    }

    /// Returns `arguments` without the `null`s that mean "left out".
    pub fn apply(&self, arguments: Json) -> Json {
        self.run(&self.root, arguments)
    }

    fn run(&self, plan: &Plan, value: Json) -> Json {
        match (plan, value) {
            (Plan::Object { properties, rest }, Json::Object(object)) => object
                .into_iter()
                .filter_map(|(name, value)| match properties.get(&name) {
                    Some(field) if value.is_null() && field.null == Null::LeftOut => None,
                    Some(field) => Some((name, self.run(&field.plan, value))),
                    None => Some((name, self.run(rest, value))),
                })
                .collect::<Map<_, _>>()
                .into(),
            (Plan::Items(plan), Json::Array(items)) => items.into_iter().map(|item| self.run(plan, item)).collect(),
            (Plan::Union(branches), value @ (Json::Object(_) | Json::Array(_))) => {
                let mut candidates = branches.iter().map(|(check, plan)| (check, self.run(plan, value.clone())));
                let fitting = candidates.find(|(check, candidate)| check.is_valid(candidate));
                fitting.map_or(value, |(_, candidate)| candidate)
            }
            (Plan::All(plans), value) => plans.iter().fold(value, |value, plan| self.run(plan, value)),
            (Plan::Reference(name), value @ (Json::Object(_) | Json::Array(_))) => match self.definitions.get(name) {
                Some(plan) => self.run(plan, value),
                None => value,
            },
            (_, value) => value,
        }
    }
}

struct Builder<'a> {
    root: &'a Json,
    /// References whose plans have not been made yet.
    open: Vec<String>,
}

impl Builder<'_> {
    fn plan(&mut self, schema: &Json) -> Plan {
        let mut plans = Vec::new();
        if let Some(reference) = schema.get("$ref").and_then(Json::as_str) {
            self.open.push(reference.to_owned());
            plans.push(Plan::Reference(reference.to_owned()));
        }
        for branch in schema.get("allOf").and_then(Json::as_array).into_iter().flatten() {
            plans.push(self.plan(branch));
        }
        for key in ["anyOf", "oneOf"] {
            if let Some(branches) = schema.get(key).and_then(Json::as_array) {
                plans.push(self.union(branches));
            }
        }
        if let Some(plan) = self.object(schema) {
            plans.push(plan);
        }
        if let Some(items @ Json::Object(_)) = schema.get("items") {
            plans.push(match self.plan(items) {
                Plan::Leave => Plan::Leave,
                plan => Plan::Items(Box::new(plan)),
            });
        }
        plans.retain(|plan| !matches!(plan, Plan::Leave));
        match plans.len() {
            0 => Plan::Leave,
            1 => plans.swap_remove(0),
            _ => Plan::All(plans),
        }
    }

    fn object(&mut self, schema: &Json) -> Option<Plan> {
        let properties = schema.get("properties").and_then(Json::as_object);
        let rest = match schema.get("additionalProperties") {
            Some(rest @ Json::Object(_)) => self.plan(rest),
            _ => Plan::Leave,
        };
        if properties.is_none() && matches!(rest, Plan::Leave) {
            return None;
        }
        let required = schema.get("required").and_then(Json::as_array);
        let fields = properties.into_iter().flatten().map(|(name, property)| {
            let optional = required.is_none_or(|names| !names.iter().any(|required| required == name));
            let says_nothing = !accepts_null(property, self.root) || property.get("default").is_none_or(Json::is_null);
            let null = if optional && says_nothing { Null::LeftOut } else { Null::Value };
            (name.clone(), Field { null, plan: self.plan(property) })
        });
        Some(Plan::Object { properties: fields.collect(), rest: Box::new(rest) })
    }

    fn union(&mut self, branches: &[Json]) -> Plan {
        let present: Vec<&Json> =
            branches.iter().filter(|branch| branch.get("type").is_none_or(|kind| kind != "null")).collect();
        if let [only] = present.as_slice() {
            return self.plan(only);
        }
        let plans: Vec<(&Json, Plan)> = present.iter().map(|branch| (*branch, self.plan(branch))).collect();
        if plans.iter().all(|(_, plan)| matches!(plan, Plan::Leave)) {
            return Plan::Leave;
        }
        // A branch whose check does not compile could not be validated against either, so it is skipped.
        let checked = plans.into_iter().filter_map(|(branch, plan)| {
            let mut check = json!({ "allOf": [branch] });
            for key in ["definitions", "$defs"] {
                if let Some(definitions) = self.root.get(key) {
                    check[key] = definitions.clone();
                }
            }
            Some((Validator::draft07(&check).ok()?, plan))
        });
        Plan::Union(checked.collect())
    }
}

/// Whether `schema` accepts `null`, judging by its types.
pub(super) fn accepts_null(schema: &Json, root: &Json) -> bool {
    accepts_null_at(schema, root, &mut HashMap::new())
}

fn accepts_null_at<'a>(schema: &'a Json, root: &'a Json, known: &mut HashMap<&'a str, bool>) -> bool {
    let Some(object) = schema.as_object() else { return schema == &Json::Bool(true) };
    if let Some(reference) = object.get("$ref").and_then(Json::as_str) {
        if let Some(accepts) = known.get(reference) {
            return *accepts;
        }
        // A cycle adds nothing of its own.
        known.insert(reference, false);
        let accepts = target(reference, root).is_some_and(|schema| accepts_null_at(schema, root, known));
        known.insert(reference, accepts);
        return accepts;
    }
    let kind_fits = match object.get("type") {
        Some(Json::Array(kinds)) => kinds.iter().any(|kind| kind == "null"),
        Some(kind) => kind == "null",
        None => true,
    };
    let branches = |key: &str| object.get(key).and_then(Json::as_array);
    kind_fits
        && object.get("nullable").is_none_or(|nullable| nullable == &Json::Bool(true))
        && branches("enum").is_none_or(|values| values.contains(&Json::Null))
        && object.get("const").is_none_or(Json::is_null)
        && branches("allOf").is_none_or(|all| all.iter().all(|schema| accepts_null_at(schema, root, known)))
        && ["anyOf", "oneOf"]
            .into_iter()
            .all(|key| branches(key).is_none_or(|any| any.iter().any(|schema| accepts_null_at(schema, root, known))))
}

impl Plan {
    /// Collects the references that apply to the value itself.
    fn references_in_place<'a>(&'a self, found: &mut Vec<&'a str>) {
        match self {
            Self::Reference(name) => found.push(name),
            Self::All(plans) => plans.iter().for_each(|plan| plan.references_in_place(found)),
            Self::Union(branches) => branches.iter().for_each(|(_, plan)| plan.references_in_place(found)),
            Self::Leave | Self::Object { .. } | Self::Items(_) => {}
        }
    }
}

/// Returns the definitions that refer back to themselves without descending into the value. Following them would never
/// end.
fn circular(definitions: &HashMap<String, Plan>) -> Vec<String> {
    let leads_back = |name: &str| {
        let mut open: Vec<&str> = vec![name];
        let mut seen: Vec<&str> = Vec::new();
        while let Some(next) = open.pop() {
            let before = open.len();
            if let Some(plan) = definitions.get(next) {
                plan.references_in_place(&mut open);
            }
            if open[before..].contains(&name) {
                return true;
            }
            seen.push(next);
            open.retain(|name| !seen.contains(name));
        }
        false
    };
    definitions.keys().filter(|name| leads_back(name)).cloned().collect()
}

#[cfg(test)]
impl Strip {
    /// Returns what a model sends if it must send every key: the inverse of [`Self::apply`].
    pub(super) fn fill(&self, arguments: Json) -> Json {
        self.refill(&self.root, arguments)
    }

    fn refill(&self, plan: &Plan, value: Json) -> Json {
        match (plan, value) {
            (Plan::Object { properties, rest }, Json::Object(object)) => {
                let mut full: Map<String, Json> = object
                    .into_iter()
                    .map(|(name, value)| {
                        let plan = properties.get(&name).map_or(&**rest, |field| &field.plan);
                        (name, self.refill(plan, value))
                    })
                    .collect();
                for (name, field) in properties {
                    if field.null == Null::LeftOut && !full.contains_key(name) {
                        full.insert(name.clone(), Json::Null);
                    }
                }
                full.into()
            }
            (Plan::Items(plan), Json::Array(items)) => items.into_iter().map(|item| self.refill(plan, item)).collect(),
            (Plan::Union(branches), value) => match branches.iter().find(|(check, _)| check.is_valid(&value)) {
                Some((_, plan)) => self.refill(plan, value),
                None => value,
            },
            (Plan::All(plans), value) => plans.iter().fold(value, |value, plan| self.refill(plan, value)),
            (Plan::Reference(name), value) => self.refill(&self.definitions[name], value),
            (Plan::Leave | Plan::Object { .. } | Plan::Items(_), value) => value,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_null_goes_only_where_it_says_nothing() {
        let strip = Strip::new(&json!({
            "type": "object",
            "properties": {
                "must": {"type": ["string", "null"]},
                "may": {"type": "string"},
                "option": {"type": ["string", "null"], "default": null},
                "meaningful": {"type": ["integer", "null"], "default": 10},
                "list": {"type": "array", "items": {"type": ["integer", "null"]}},
                "tree": {"$ref": "#/definitions/Tree"},
                "map": {"type": "object", "additionalProperties": {"type": ["string", "null"]}}
            },
            "required": ["must"],
            "definitions": {"Tree": {"type": "object", "properties": {
                "label": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#/definitions/Tree"}}}}}
        }));
        let sent = json!({"must": null, "may": null, "option": null, "meaningful": null, "list": [null], "map": {"k": null},
                          "unknown": null, "tree": {"label": null, "children": [{"label": null, "children": null}]}});
        assert_eq!(
            strip.apply(sent),
            json!({"must": null, "meaningful": null, "list": [null], "map": {"k": null}, "unknown": null,
                   "tree": {"children": [{}]}})
        );
    }

    #[test]
    fn the_alternative_that_fits_decides() {
        let strip = Strip::new(&json!({"properties": {"shape": {"oneOf": [
            {"type": "object", "properties": {"kind": {"const": "a"}, "x": {"type": ["integer", "null"]}},
             "required": ["kind", "x"], "additionalProperties": false},
            {"type": "object", "properties": {"kind": {"const": "b"}, "x": {"type": "integer"}},
             "required": ["kind"], "additionalProperties": false}
        ]}}}));
        for (sent, kept) in [
            (json!({"kind": "a", "x": null}), json!({"kind": "a", "x": null})),
            (json!({"kind": "b", "x": null}), json!({"kind": "b"})),
        ] {
            assert_eq!(strip.apply(json!({ "shape": sent })), json!({ "shape": kept }));
        }
    }
}
