//! Converts a server's answers to values.
//!
//! Structured content takes precedence; the text beside it says the same and is dropped. A single text that is a JSON
//! object or array becomes that value, unless the configuration says otherwise. Other text stays text: one block or
//! several, joined by newlines, so that a tool's result has the same type however many blocks it takes. Content that is
//! not text is kept as a part, also inside structured content; text and parts together make a list, and so do
//! structured content and parts that it does not contain itself.

use std::collections::HashSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use onetool_sdk::{Part, ToolError, Value, canonical_json};
use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::Value as Json;

use super::settings::limits;
use super::text::clean;

/// Converts a tool's result to a value, or to the exception it represents.
pub(super) fn tool_value(result: CallToolResult, reading: Reading) -> Result<Value, ToolError> {
    let blocks = result.content.into_iter().map(block_value).collect();
    answer(blocks, result.structured_content, Failed(result.is_error.unwrap_or(false)), reading)
}

/// How a tool's results are read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading {
    /// Structured content is an object that wraps the actual result.
    pub(super) wraps_result: bool,
    /// Text that is JSON is parsed.
    pub(super) json: bool,
}

/// Converts a result that does not strictly follow the protocol, e.g. one with blocks of an unknown kind.
pub(super) fn loose_tool_value(result: &Json, reading: Reading) -> Result<Value, ToolError> {
    let failed = Failed(result.get("isError").and_then(Json::as_bool).unwrap_or(false));
    let blocks = result.get("content").and_then(Json::as_array);
    let structured = result.get("structuredContent").cloned();
    if blocks.is_none() && structured.is_none() {
        return Ok(Value::from_json(result.clone()));
    }
    let blocks = blocks.into_iter().flatten().map(|block| loose_block_value(block.clone())).collect();
    answer(blocks, structured, failed, reading)
}

/// Whether the server reports that the tool failed.
struct Failed(bool);

fn answer(
    blocks: Vec<Value>,
    structured: Option<Json>,
    Failed(failed): Failed,
    reading: Reading,
) -> Result<Value, ToolError> {
    if failed {
        return Err(raised(&blocks, structured));
    }
    let Some(structured) = structured.filter(|json| !json.is_null()) else {
        return Ok(gathered(blocks, reading.json));
    };
    let structured = unwrapped(structured, reading.wraps_result);
    let mut held = HashSet::new();
    if blocks.iter().any(|block| matches!(block, Value::Part(_))) {
        blocks_within(&structured, &mut held);
    }
    let is_new = |block: &Value| matches!(block, Value::Part(_)) && !held.contains(&canonical_json(&block.to_json()));
    let parts: Vec<Value> = blocks.into_iter().filter(is_new).collect();
    let value = with_images(structured);
    Ok(if parts.is_empty() { value } else { Value::List(std::iter::once(value).chain(parts).collect()) })
}

/// Blocks that are not text.
const KINDS: &[&str] = &["image", "audio", "resource", "resource_link"];

/// Collects the blocks anywhere in `json` in one pass: a server may send many of them, and much around them.
fn blocks_within(json: &Json, found: &mut HashSet<String>) {
    match json {
        Json::Array(items) => items.iter().for_each(|item| blocks_within(item, found)),
        Json::Object(object) if object.get("type").and_then(Json::as_str).is_some_and(|kind| KINDS.contains(&kind)) => {
            found.insert(canonical_json(json));
        }
        Json::Object(object) => object.values().for_each(|value| blocks_within(value, found)),
        _ => {}
    }
}

/// Converts JSON to a value, with image blocks as image parts.
fn with_images(json: Json) -> Value {
    match json {
        Json::Array(items) => Value::List(items.into_iter().map(with_images).collect()),
        Json::Object(object) if object.get("type").and_then(Json::as_str) == Some("image") && object.len() == 3 => {
            match loose_block_value(Json::Object(object)) {
                image @ Value::Part(Part::Image { .. }) => image,
                other => Value::from_json(other.to_json()),
            }
        }
        Json::Object(object) => {
            Value::Dict(object.into_iter().map(|(key, value)| (Value::Str(key), with_images(value))).collect())
        }
        scalar => Value::from_json(scalar),
    }
}

fn unwrapped(structured: Json, wraps_result: bool) -> Json {
    match structured {
        Json::Object(mut object) if wraps_result && object.len() == 1 && object.contains_key("result") => {
            object.remove("result").unwrap_or_default()
        }
        other => other,
    }
}

fn gathered(mut blocks: Vec<Value>, json: bool) -> Value {
    if blocks.len() == 1 {
        return match blocks.remove(0) {
            Value::Str(text) if json => parsed(text),
            other => other,
        };
    }
    if blocks.is_empty() {
        return Value::None;
    }
    if blocks.iter().all(|block| matches!(block, Value::Str(_))) {
        let texts: Vec<&str> = blocks.iter().filter_map(Value::as_str).collect();
        return Value::Str(texts.join("\n"));
    }
    Value::List(blocks)
}

/// Parses text that is one JSON object or array; returns other text unchanged.
fn parsed(text: String) -> Value {
    let trimmed = text.trim();
    let is_json_like =
        (trimmed.starts_with('{') && trimmed.ends_with('}')) || (trimmed.starts_with('[') && trimmed.ends_with(']'));
    if !is_json_like {
        return Value::Str(text);
    }
    match serde_json::from_str::<Json>(trimmed) {
        Ok(json) => Value::from_json(json),
        Err(_) => Value::Str(text),
    }
}

fn raised(blocks: &[Value], structured: Option<Json>) -> ToolError {
    let mut texts: Vec<&str> = blocks.iter().filter_map(Value::as_str).filter(|text| !text.is_empty()).collect();
    let otherwise = structured.map(|json| json.to_string());
    if texts.is_empty() {
        texts.push(otherwise.as_deref().unwrap_or("the tool failed without saying why"));
    }
    ToolError::raised("RuntimeError", clean(&texts.join("\n"), limits::ERROR_CHARS))
}

/// Converts one content block, as used by prompts and tools.
pub(super) fn block_value(block: ContentBlock) -> Value {
    match block {
        ContentBlock::Text(text) => Value::Str(text.text),
        ContentBlock::Image(image) => match STANDARD.decode(image.data.as_bytes()) {
            Ok(data) => Value::Part(Part::Image { media_type: image.mime_type, data }),
            Err(_) => other_part(&ContentBlock::Image(image)),
        },
        other => other_part(&other),
    }
}

fn other_part(block: &ContentBlock) -> Value {
    Value::Part(Part::Other(serde_json::to_value(block).unwrap_or_default()))
}

pub(super) fn loose_block_value(block: Json) -> Value {
    match serde_json::from_value::<ContentBlock>(block.clone()) {
        Ok(block) => block_value(block),
        Err(_) => Value::Part(Part::Other(block)),
    }
}

/// Converts the answer to `resources/read`: text as text, images as parts, other data as bytes.
pub(super) fn resource_value(result: &Json) -> Value {
    let contents = result.get("contents").and_then(Json::as_array);
    let mut values: Vec<Value> = contents.into_iter().flatten().map(resource_content).collect();
    match values.len() {
        0 => Value::None,
        1 => values.remove(0),
        _ => Value::List(values),
    }
}

fn resource_content(content: &Json) -> Value {
    if let Some(text) = content.get("text").and_then(Json::as_str) {
        return Value::Str(text.to_owned());
    }
    let media_type = content.get("mimeType").and_then(Json::as_str).unwrap_or_default();
    let data = content.get("blob").and_then(Json::as_str).and_then(|blob| STANDARD.decode(blob).ok());
    match data {
        Some(data) if media_type.starts_with("image/") => {
            Value::Part(Part::Image { media_type: media_type.to_owned(), data })
        }
        Some(data) => Value::Bytes(data),
        None => Value::from_json(content.clone()),
    }
}

/// Converts the answer to `prompts/get`: a list of messages with role and content.
pub(super) fn prompt_value(result: &Json) -> Value {
    let messages = result.get("messages").and_then(Json::as_array).into_iter().flatten().map(|message| {
        let role = message.get("role").and_then(Json::as_str).unwrap_or("user");
        let content = loose_block_value(message.get("content").cloned().unwrap_or_default());
        Value::Dict(vec![("role".into(), role.into()), ("content".into(), content)])
    });
    Value::List(messages.collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn value(result: Json) -> Result<Value, ToolError> {
        tool_value(serde_json::from_value(result).unwrap(), Reading { wraps_result: false, json: false })
    }

    #[test]
    fn text_that_is_json_is_its_value() {
        let read = |text: &str, json: bool| {
            let result = json!({"content": [{"type": "text", "text": text}]});
            tool_value(serde_json::from_value(result).unwrap(), Reading { wraps_result: false, json }).unwrap()
        };
        for text in [" {\"a\": [1, null]}\n", "[]", "[{\"a\": 1}]"] {
            assert_eq!(read(text, true), Value::from_json(serde_json::from_str(text).unwrap()));
            assert_eq!(read(text, false), Value::Str(text.to_owned()));
        }
        for text in ["5", "\"a\"", "{a}", "[1] and [2]", "null", "", "{\"a\": 1} {\"b\": 2}"] {
            assert_eq!(read(text, true), Value::Str(text.to_owned()));
        }
    }

    #[test]
    fn text_is_text_in_one_block_or_several() {
        let one = value(json!({"content": [{"type": "text", "text": "{\"a\": 1}"}]})).unwrap();
        assert_eq!(one, Value::Str("{\"a\": 1}".into()));
        let two = value(json!({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]})).unwrap();
        assert_eq!(two, Value::Str("a\nb".into()));
        assert_eq!(value(json!({"content": []})).unwrap(), Value::None);
    }

    #[test]
    fn structured_content_stands_for_the_text_beside_it() {
        let content = json!([{"type": "text", "text": "{\"a\":1}"}]);
        let result = json!({"content": content, "structuredContent": {"a": 1}});
        assert_eq!(value(result).unwrap(), Value::from_json(json!({"a": 1})));
        let wrapped: CallToolResult =
            serde_json::from_value(json!({"content": [], "structuredContent": {"result": [1]}})).unwrap();
        assert_eq!(
            tool_value(wrapped.clone(), Reading { wraps_result: true, json: true }).unwrap(),
            Value::from_json(json!([1]))
        );
        assert_eq!(
            tool_value(wrapped, Reading { wraps_result: false, json: true }).unwrap(),
            Value::from_json(json!({"result": [1]}))
        );
    }

    #[test]
    fn parts_are_kept() {
        let image = Value::Part(Part::Image { media_type: "image/png".into(), data: vec![1, 2] });
        let block = json!({"type": "image", "mimeType": "image/png", "data": "AQI="});
        assert_eq!(value(json!({"content": [block]})).unwrap(), image);
        let mixed = value(json!({"content": [{"type": "text", "text": "a"}, block]})).unwrap();
        assert_eq!(mixed, Value::List(vec![Value::Str("a".into()), image.clone()]));
        let both = value(json!({"content": [block], "structuredContent": {"n": 1}})).unwrap();
        assert_eq!(both, Value::List(vec![Value::from_json(json!({"n": 1})), image.clone()]));
        let inside = value(json!({"content": [block], "structuredContent": {"content": [block]}})).unwrap();
        assert_eq!(inside, Value::Dict(vec![("content".into(), Value::List(vec![image]))]));
    }

    #[test]
    fn a_failure_is_an_exception_with_the_servers_words() {
        let error = value(json!({"isError": true, "content": [{"type": "text", "text": "no such file"}]})).unwrap_err();
        assert_eq!(error.to_string(), "RuntimeError: no such file");
    }

    #[test]
    fn blocks_of_an_unknown_kind_are_kept_as_they_are() {
        let hologram = json!({"type": "hologram", "x": 1});
        let result = json!({"content": [{"type": "text", "text": "a"}, hologram]});
        let expected = Value::List(vec![Value::Str("a".into()), Value::Part(Part::Other(hologram))]);
        assert_eq!(loose_tool_value(&result, Reading { wraps_result: false, json: false }).unwrap(), expected);
    }

    #[test]
    fn resources_are_text_images_or_bytes() {
        let read = |content: Json| resource_value(&json!({"contents": [content]}));
        assert_eq!(read(json!({"uri": "a", "text": "x"})), Value::Str("x".into()));
        assert_eq!(read(json!({"uri": "a", "blob": "AQI="})), Value::Bytes(vec![1, 2]));
    }
}
