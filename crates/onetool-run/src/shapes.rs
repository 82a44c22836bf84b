//! The shapes of results: the shape of a value, never the value.
//!
//! A shape is a Python type as one would write it down after seeing a result: `{title: str, tags: list[str]}`. Shapes
//! of several results are merged: a field that is not always present gets a `?`, several types become a union, and a
//! dict whose keys look like data becomes `dict[str, …]`. Everything is bounded: depth, keys, items examined, text.

use std::collections::BTreeSet;

use onetool_sdk::Value;
use serde::{Deserialize, Serialize};

/// Maximum depth to examine.
const MAX_DEPTH: usize = 5;
/// Maximum number of items examined per list.
const MAX_ITEMS: usize = 20;
/// Maximum number of nodes examined per value.
const MAX_NODES: usize = 2_000;
/// A dict with more keys than this is treated as a map, whose keys are data.
const MAX_KEYS: usize = 24;
/// Keys longer than this are treated as data.
const MAX_KEY: usize = 40;
/// Maximum length of a shape's text.
pub const MAX_TEXT: usize = 600;
/// A union of more types than this becomes `Any`.
const MAX_UNION: usize = 4;

/// The shape of one value, or of several merged.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Shape {
    /// Python names of types without parts: `str`, `int`, `None`.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    plain: BTreeSet<String>,
    /// Shape of list items.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    list: Option<Box<Shape>>,
    /// Fields of dicts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    object: Option<Fields>,
    /// Shape of the values of dicts whose keys are data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    map: Option<Box<Shape>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
struct Fields {
    /// Number of dicts merged.
    seen: u64,
    /// In the order in which they were first seen.
    fields: Vec<Field>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Field {
    name: String,
    /// Number of dicts that contain it.
    seen: u64,
    shape: Shape,
}

impl Shape {
    /// The shape of a value.
    pub fn of(value: &Value) -> Self {
        Self::at(value, 0, &mut MAX_NODES.clone())
    }

    fn at(value: &Value, depth: usize, nodes: &mut usize) -> Self {
        let mut shape = Self::default();
        *nodes = nodes.saturating_sub(1);
        let depth = if *nodes == 0 { MAX_DEPTH } else { depth };
        match value {
            Value::List(items) | Value::Tuple(items) | Value::Set(items) | Value::FrozenSet(items) => {
                let mut inner = Self::default();
                if depth < MAX_DEPTH {
                    for item in items.iter().take(MAX_ITEMS) {
                        inner.merge(Self::at(item, depth + 1, nodes));
                    }
                }
                shape.list = Some(Box::new(inner));
            }
            Value::Dict(pairs) => {
                let fields = pairs.iter().map(|(key, value)| (key.as_str(), value));
                shape.fill(fields, pairs.len(), depth, nodes);
            }
            Value::Record { fields, .. } => {
                shape.fill(fields.iter().map(|(key, value)| (Some(key.as_str()), value)), fields.len(), depth, nodes);
            }
            Value::None => {
                shape.plain.insert("None".to_owned());
            }
            plain => {
                shape.plain.insert(plain.type_name().to_owned());
            }
        }
        shape
    }

    /// Adds the pairs of a dict; the name of a non-text key is `None`.
    fn fill<'a>(
        &mut self,
        pairs: impl Iterator<Item = (Option<&'a str>, &'a Value)> + Clone,
        count: usize,
        depth: usize,
        nodes: &mut usize,
    ) {
        let is_data = count > MAX_KEYS || pairs.clone().any(|(key, _)| key.is_none_or(looks_like_data));
        if is_data || depth >= MAX_DEPTH {
            let mut inner = Self::default();
            if depth < MAX_DEPTH {
                for (_, value) in pairs.take(MAX_ITEMS) {
                    inner.merge(Self::at(value, depth + 1, nodes));
                }
            }
            self.map = Some(Box::new(inner));
            return;
        }
        let mut field = |(key, value): (Option<&str>, &Value)| Field {
            name: key.unwrap_or_default().to_owned(),
            seen: 1,
            shape: Self::at(value, depth + 1, nodes),
        };
        self.object = Some(Fields { seen: 1, fields: pairs.map(&mut field).collect() });
    }

    /// Merges the shape of another result.
    pub fn merge(&mut self, other: Self) {
        self.plain.extend(other.plain);
        merge_boxed(&mut self.list, other.list);
        merge_boxed(&mut self.map, other.map);
        if let Some(other) = other.object {
            match &mut self.object {
                Some(fields) => fields.merge(other),
                None => self.object = Some(other),
            }
        }
        // Keys that vary are data, and so are those of dicts merged with a map.
        if let Some(fields) = self.object.take_if(|fields| self.map.is_some() || fields.are_data()) {
            let mut inner = Self::default();
            for field in fields.fields {
                inner.merge(field.shape);
            }
            merge_boxed(&mut self.map, Some(Box::new(inner)));
        }
    }

    /// Formats the shape as a Python type, cut where it would be too long.
    pub fn text(&self) -> String {
        for depth in (1..=MAX_DEPTH + 1).rev() {
            let text = self.rendered(depth);
            if text.chars().count() <= MAX_TEXT {
                return text;
            }
        }
        "Any".to_owned()
    }

    fn rendered(&self, depth: usize) -> String {
        let mut parts: Vec<String> = Vec::new();
        if let Some(fields) = &self.object {
            parts.push(if depth == 0 { "dict".to_owned() } else { fields.rendered(depth) });
        }
        if let Some(inner) = &self.map {
            let inner = if depth == 0 { "Any".to_owned() } else { inner.rendered(depth - 1) };
            parts.push(format!("dict[str, {inner}]"));
        }
        if let Some(inner) = &self.list {
            let inner = if depth == 0 { String::new() } else { inner.rendered(depth - 1) };
            parts.push(if inner.is_empty() || inner == "Any" { "list".to_owned() } else { format!("list[{inner}]") });
        }
        parts.extend(self.plain.iter().filter(|name| *name != "None").cloned());
        if parts.len() > MAX_UNION {
            return "Any".to_owned();
        }
        if self.plain.contains("None") {
            parts.push("None".to_owned());
        }
        if parts.is_empty() { "Any".to_owned() } else { parts.join(" | ") }
    }

    /// Whether it says more than a type name.
    pub fn has_parts(&self) -> bool {
        self.object.is_some() || self.list.is_some() || self.map.is_some()
    }
}

impl Fields {
    fn merge(&mut self, other: Self) {
        self.seen += other.seen;
        for field in other.fields {
            match self.fields.iter_mut().find(|known| known.name == field.name) {
                Some(known) => {
                    known.seen += field.seen;
                    known.shape.merge(field.shape);
                }
                None => self.fields.push(field),
            }
        }
    }

    fn are_data(&self) -> bool {
        let often = self.fields.iter().any(|field| field.seen * 2 > self.seen);
        self.fields.len() > MAX_KEYS || (self.seen > 2 && self.fields.len() > 3 && !often)
    }

    fn rendered(&self, depth: usize) -> String {
        let fields = self.fields.iter().map(|field| {
            let sometimes = if field.seen < self.seen { "?" } else { "" };
            format!("{}{sometimes}: {}", field.name, field.shape.rendered(depth - 1))
        });
        format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
    }
}

fn merge_boxed(known: &mut Option<Box<Shape>>, other: Option<Box<Shape>>) {
    match (known.as_mut(), other) {
        (Some(known), Some(other)) => known.merge(*other),
        (None, Some(other)) => *known = Some(other),
        (_, None) => {}
    }
}

/// Whether a key is data: field names look like identifiers; many digits, an `@` or a slash suggest a value.
fn looks_like_data(key: &str) -> bool {
    let begins_well = key.starts_with(|first: char| first.is_alphabetic() || matches!(first, '_' | '$' | '@'));
    let is_written_well = key
        .chars()
        .skip(1)
        .all(|character| character.is_alphanumeric() || matches!(character, '_' | '-' | '.' | ':' | ' '));
    let digits = key.chars().filter(char::is_ascii_digit).count();
    !begins_well || !is_written_well || digits > 3 || key.len() > MAX_KEY
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::*;

    fn shape(results: &[Json]) -> String {
        let mut shape = Shape::default();
        for result in results {
            shape.merge(Shape::of(&Value::from_json(result.clone())));
        }
        shape.text()
    }

    #[test]
    fn a_shape_reads_like_a_type() {
        assert_eq!(
            shape(&[json!({"results": [{"title": "a", "url": "b"}], "next": null, "n": 1.5})]),
            "{results: list[{title: str, url: str}], next: None, n: float}"
        );
        assert_eq!(shape(&[json!([])]), "list");
        assert_eq!(shape(&[json!("x")]), "str");
        assert_eq!(shape(&[json!({})]), "{}");
    }

    #[test]
    fn shapes_of_several_results_are_merged() {
        assert_eq!(
            shape(&[json!({"a": 1, "next": null}), json!({"a": 2, "next": "x", "b": true})]),
            "{a: int, next: str | None, b?: bool}"
        );
        assert_eq!(shape(&[json!([{"a": 1}, {"a": "x", "b": 1}])]), "list[{a: int | str, b?: int}]");
    }

    #[test]
    fn keys_that_are_data_are_not_kept() {
        for data in [
            json!({"jane@example.com": 1, "tom@example.com": 2}),
            json!({"2024-01-01": 1}),
            json!({"/etc/hosts": 1}),
            json!({"0b3f9a7e-1c2d": 1}),
        ] {
            assert_eq!(shape(&[data]), "dict[str, int]");
        }
        let many: serde_json::Map<String, Json> = (0..30).map(|n| (format!("k{n}"), json!({"x": n}))).collect();
        assert_eq!(shape(&[Json::Object(many)]), "dict[str, {x: int}]");
        let people = [json!({"ann": 1, "bob": 2}), json!({"cid": 3, "dan": 4}), json!({"eve": 5, "fay": 6})];
        assert_eq!(shape(&people), "dict[str, int]");
    }

    #[test]
    fn a_shape_is_bounded() {
        let mut deep = json!(1);
        for _ in 0..40 {
            deep = json!({ "deeper": [deep] });
        }
        assert!(shape(&[deep]).len() <= MAX_TEXT);
        let wide: serde_json::Map<String, Json> = (0..20)
            .map(|n| (format!("{}_{}", "x".repeat(30), char::from(b'a' + n)), json!({"inner": "x".repeat(100)})))
            .collect();
        let text = shape(&[Json::Object(wide)]);
        assert!(text.chars().count() <= MAX_TEXT, "{text}");
    }

    #[test]
    fn a_shape_survives_being_written_down() {
        let mut known = Shape::of(&Value::from_json(json!({"a": [1, null], "b": {"x": {}}})));
        let read: Shape = serde_json::from_str(&serde_json::to_string(&known).unwrap()).unwrap();
        assert_eq!(read, known);
        known.merge(read);
        assert_eq!(known.text(), "{a: list[int | None], b: {x: {}}}");
    }
}
