//! From a value to what the client gets: format, sanitise, store what is too large.

pub mod json;
mod sanitise;
mod yaml;

pub use sanitise::sanitise;
pub(crate) use yaml::quoted;
pub use yaml::{to_ot_display, to_yaml_block, to_yaml_flow};

use onetool_sdk::{Part, Value};

/// How a value is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// Compact JSON.
    #[default]
    Json,
    /// JSON with two spaces of indentation.
    JsonHuman,
    /// YAML, flow style.
    Yaml,
    /// YAML, block style.
    YamlHuman,
    /// Python's `str()`.
    Raw,
    /// What `ot.*` calls are shown in.
    Overview,
}

impl Format {
    /// The format of that name; an unknown one is the default.
    pub fn named(name: &str) -> Self {
        match name {
            "json_h" => Self::JsonHuman,
            "yml" | "yaml" => Self::Yaml,
            "yml_h" | "yaml_h" => Self::YamlHuman,
            "raw" => Self::Raw,
            _ => Self::Json,
        }
    }
}

/// Writes a value. Text is never changed; numbers, booleans and `None` at the top are as Python prints them.
pub fn format(value: &Value, format: Format) -> String {
    match value {
        Value::Str(text) | Value::Part(Part::Text(text)) => return text.clone(),
        Value::None | Value::Bool(_) | Value::Int(_) | Value::BigInt(_) | Value::Float(_) => return value.str(),
        _ => {}
    }
    match format {
        Format::Json => json::compact(value),
        Format::JsonHuman => json::indented(value),
        Format::Yaml => to_yaml_flow(value),
        Format::YamlHuman => to_yaml_block(value),
        Format::Overview => to_ot_display(value),
        Format::Raw => value.str(),
    }
}

/// Takes the parts out of a value that are content of their own: images and the like, at the top or in a list.
/// What remains is `None` where nothing but parts was there.
pub fn split_parts(value: Value) -> (Option<Value>, Vec<Part>) {
    match value {
        Value::Part(Part::Text(text)) => (Some(Value::Str(text)), Vec::new()),
        Value::Part(part) => (None, vec![part]),
        Value::List(items) => split_items(items, Value::List),
        Value::Tuple(items) => split_items(items, Value::Tuple),
        other => (Some(other), Vec::new()),
    }
}

fn split_items(items: Vec<Value>, wrap: fn(Vec<Value>) -> Value) -> (Option<Value>, Vec<Part>) {
    if !items.iter().any(has_parts) {
        return (Some(wrap(items)), Vec::new());
    }
    let mut parts = Vec::new();
    let mut texts = Vec::new();
    let mut only_text = true;
    for item in items {
        match item {
            Value::Part(Part::Text(text)) => texts.push(Value::Str(text)),
            Value::Part(part) => parts.push(part),
            other => {
                let (rest, more) = split_parts(other);
                parts.extend(more);
                if let Some(rest) = rest {
                    only_text &= matches!(rest, Value::Str(_));
                    texts.push(rest);
                }
            }
        }
    }
    let rest = match texts.len() {
        0 => None,
        1 => texts.pop(),
        _ if only_text => {
            Some(Value::Str(texts.iter().map(Value::str).collect::<Vec<_>>().join("\n")))
        }
        _ => Some(wrap(texts)),
    };
    (rest, parts)
}

fn has_parts(value: &Value) -> bool {
    match value {
        Value::Part(_) => true,
        Value::List(items) | Value::Tuple(items) => items.iter().any(has_parts),
        _ => false,
    }
}
