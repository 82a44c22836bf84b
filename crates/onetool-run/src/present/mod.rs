//! Presents a value to the client: formats and sanitises it, and bounds its size.

mod integers;
pub mod json;
mod sanitise;
mod yaml;

pub use integers::abbreviate_integers;
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
    /// The format of `ot.*` results.
    Overview,
}

impl Format {
    /// Returns the format with this name, or the default if it is unknown.
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

/// Writes a value. Text is unchanged; top-level numbers, booleans and `None` are written as Python prints them.
pub fn format(value: &Value, format: Format) -> String {
    match value {
        Value::Str(text) | Value::Part(Part::Text(text)) | Value::Path(text) | Value::Opaque(text) => {
            return text.clone();
        }
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

/// Extracts the parts of a value that are separate content, such as images, at any depth.
///
/// A value that consists only of parts leaves its text, or nothing. In any other value a placeholder remains in place
/// of each part, so that the shape is kept.
pub fn split_parts(value: Value) -> (Option<Value>, Vec<Part>) {
    match with_images(value) {
        Value::Part(Part::Text(text)) => (Some(Value::Str(text)), Vec::new()),
        Value::Part(part) => (None, vec![part]),
        Value::List(items) | Value::Tuple(items)
            if !items.is_empty() && items.iter().all(|item| matches!(item, Value::Part(_))) =>
        {
            split_content(items)
        }
        other => {
            let mut parts = Vec::new();
            collect_parts(&other, &mut parts);
            (Some(other), parts)
        }
    }
}

/// Minimum bytes that a part counts for: clients pay for each of them.
const LEAST_PART: usize = 16 << 10;
/// Maximum number of omitted parts with a note of their own.
const MAX_NOTES: usize = 20;

/// Keeps the parts that fit into `limit` bytes together, and replaces the others with notes.
pub fn bounded_parts(parts: Vec<Part>, limit: usize) -> Vec<Part> {
    let (mut left, mut notes) = (limit, 0_usize);
    let mut kept = Vec::new();
    for part in parts {
        let (what, size) = match &part {
            Part::Text(text) => ("text".to_owned(), text.len()),
            Part::Image { media_type, data } => (media_type.chars().take(40).collect(), data.len()),
            Part::Other(json) => {
                let kind = json.get("type").and_then(serde_json::Value::as_str).unwrap_or("content");
                (kind.chars().take(40).collect(), json.to_string().len())
            }
        };
        if size <= left && left > 0 {
            left = left.saturating_sub(size.max(LEAST_PART));
            kept.push(part);
            continue;
        }
        notes += 1;
        if notes <= MAX_NOTES {
            kept.push(Part::Text(format!(
                "[{what} of {size} bytes left out: output.max_media_kb allows {} kB a reply]",
                limit / 1024
            )));
        }
    }
    if notes > MAX_NOTES {
        let more = notes - MAX_NOTES;
        kept.push(Part::Text(format!("[{more} more left out: each part of a reply counts for at least 16 kB]")));
    }
    kept
}

/// Converts bytes that are an image to an image part.
fn with_images(value: Value) -> Value {
    let all = |items: Vec<Value>| items.into_iter().map(with_images).collect();
    match value {
        Value::Bytes(data) => match image_type(&data) {
            Some(media_type) => Value::Part(Part::Image { media_type: media_type.to_owned(), data }),
            None => Value::Bytes(data),
        },
        Value::List(items) => Value::List(all(items)),
        Value::Tuple(items) => Value::Tuple(all(items)),
        Value::Dict(pairs) => Value::Dict(pairs.into_iter().map(|(key, value)| (key, with_images(value))).collect()),
        other => other,
    }
}

/// Detects the media type from the first bytes.
fn image_type(data: &[u8]) -> Option<&'static str> {
    if data.starts_with(b"\x89PNG\r\n\x1a\n") {
        Some("image/png")
    } else if data.starts_with(b"\xff\xd8\xff") {
        Some("image/jpeg")
    } else if data.starts_with(b"GIF87a") || data.starts_with(b"GIF89a") {
        Some("image/gif")
    } else if data.starts_with(b"RIFF") && data.get(8..12) == Some(b"WEBP") {
        Some("image/webp")
    } else {
        None
    }
}

/// Splits the content of a tool's result: joins its texts, keeps its other parts.
fn split_content(items: Vec<Value>) -> (Option<Value>, Vec<Part>) {
    let mut texts = Vec::new();
    let mut parts = Vec::new();
    for item in items {
        match item {
            Value::Part(Part::Text(text)) => texts.push(text),
            Value::Part(part) => parts.push(part),
            _ => {}
        }
    }
    ((!texts.is_empty()).then(|| Value::Str(texts.join("\n"))), parts)
}

fn collect_parts(value: &Value, parts: &mut Vec<Part>) {
    match value {
        Value::Part(Part::Text(_)) => {}
        Value::Part(part) => parts.push(part.clone()),
        Value::List(items) | Value::Tuple(items) => items.iter().for_each(|item| collect_parts(item, parts)),
        Value::Dict(pairs) => pairs.iter().for_each(|(_, value)| collect_parts(value, parts)),
        Value::Record { fields, .. } => fields.iter().for_each(|(_, value)| collect_parts(value, parts)),
        _ => {}
    }
}
