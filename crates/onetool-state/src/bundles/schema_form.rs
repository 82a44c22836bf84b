//! The in-memory forms of a tool's schemas: JSON, or an outline of it.
//!
//! Lists and searches of thousands of tools need only the argument names of a schema. An outline is parsed without
//! keeping the rest, but as strictly: it rejects everything that is not valid JSON.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value as Json;

/// A form of a tool's schemas in memory.
pub(crate) trait SchemaForm {
    /// The schema of a tool that declares no arguments.
    fn of_no_arguments() -> Self;

    fn argument_names(&self) -> impl Iterator<Item = &str>;
}

impl SchemaForm for Json {
    fn of_no_arguments() -> Self {
        super::model::any_object()
    }

    fn argument_names(&self) -> impl Iterator<Item = &str> {
        let properties = self.get("properties").and_then(Json::as_object);
        properties.into_iter().flat_map(|properties| properties.keys().map(String::as_str))
    }
}

/// The property names of a schema.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Outline(Vec<String>);

impl SchemaForm for Outline {
    fn of_no_arguments() -> Self {
        Self::default()
    }

    fn argument_names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

impl<'de> Deserialize<'de> for Outline {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut names = Vec::new();
        deserializer.deserialize_any(Skim { names: Some(&mut names), depth: Depth::Schema })?;
        Ok(Self(names))
    }
}

/// Which part of a schema is being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Depth {
    Schema,
    Properties,
    Below,
}

/// Reads any JSON, and keeps only the keys of `properties`.
struct Skim<'a> {
    names: Option<&'a mut Vec<String>>,
    depth: Depth,
}

impl<'de> serde::de::DeserializeSeed<'de> for Skim<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        // Not `deserialize_ignored_any`: that accepts text which cannot be parsed later.
        deserializer.deserialize_any(self)
    }
}

const BELOW: Skim<'static> = Skim { names: None, depth: Depth::Below };

impl<'de> Visitor<'de> for Skim<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any JSON")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        if self.depth == Depth::Properties {
            while let Some(key) = map.next_key::<String>()? {
                map.next_value_seed(BELOW)?;
                if let Some(names) = self.names.as_mut().filter(|names| !names.contains(&key)) {
                    names.push(key);
                }
            }
            return Ok(());
        }
        if self.depth == Depth::Below {
            while map.next_key::<IgnoredAny>()?.is_some() {
                map.next_value_seed(BELOW)?;
            }
            return Ok(());
        }
        while let Some(key) = map.next_key::<String>()? {
            match self.names.as_deref_mut().filter(|_| key == "properties") {
                Some(names) => {
                    // If the key is repeated, the last one counts.
                    names.clear();
                    map.next_value_seed(Skim { names: Some(names), depth: Depth::Properties })?;
                }
                None => map.next_value_seed(BELOW)?,
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element_seed(BELOW)?.is_some() {}
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outline_is_read_as_strictly_as_json() {
        let deep = |levels: usize| format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
        let texts = [
            r#"{"type": "object", "properties": {"a": {"properties": {"x": 1}}, "b\u00fc": true}, "items": [1, -2, 0.5, null, "é"]}"#,
            r#"{"properties": {"a": 1}, "properties": {"b": 2, "b": 3}}"#,
            r#"{"properties": ["a"]}"#,
            r#"{"properties": {"a": "\ud800"}}"#,
            r#"{"x": {"\ud800": 1}}"#,
            r#"{"properties": {"a": 1e999}}"#,
            r#"{"properties": {"a": 12345678901234567890123}}"#,
            r#"{"x": [1, {"y": 1e999}]}"#,
            r#"{"properties": {"a": }}"#,
            r#"{"a": "tab	inside"}"#,
            "null",
            "true",
            "3",
            "\"text\"",
            &deep(100),
            &deep(200),
            "{} {}",
        ];
        for text in texts {
            let json = serde_json::from_str::<Json>(text);
            let outline = serde_json::from_str::<Outline>(text);
            assert_eq!(json.is_ok(), outline.is_ok(), "{text}");
            if let (Ok(json), Ok(outline)) = (json, outline) {
                assert!(json.argument_names().eq(outline.argument_names()), "{text}: {outline:?}");
            }
        }
    }
}
