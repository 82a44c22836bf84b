//! The result of a tool call as a model reads it.
//!
//! Text stays text, JSON becomes its canonical text (keys sorted, so that the same value is always the same text, and a
//! provider's prompt cache stays warm), parts stay parts. A failure is a message too: `Error executing tool: …`.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value as Json};

use crate::{Part, ToolError, ToolResult, Value};

/// The role of every tool message.
const ROLE: &str = "tool";

/// The content of a message: one text, or parts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum MessageContent {
    Text(String),
    Parts(Vec<Part>),
}

impl MessageContent {
    /// Returns its size in a conversation, in bytes; image data counts as base64, because that is how it is sent.
    pub fn size(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Parts(parts) => parts.iter().map(Part::size).sum(),
        }
    }

    /// Returns the content as text; anything that is not text is represented by a line.
    pub fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Parts(parts) => parts.iter().map(Part::placeholder).collect::<Vec<_>>().join("\n"),
        }
    }
}

/// The result of one tool call.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolMessage {
    pub tool_call_id: String,
    pub tool_name: String,
    pub content: MessageContent,
    pub is_error: bool,
    /// Reference to the whole output, once a cache holds it.
    pub output_ref: Option<String>,
}

impl ToolMessage {
    /// Creates the message for a tool's result.
    ///
    /// ```
    /// use onetool_sdk::{MessageContent, ToolError, ToolMessage, ToolResult};
    /// use serde_json::json;
    ///
    /// let message = ToolMessage::new("call_1", "add", Ok(ToolResult::Json(json!({"b": 1, "a": 2}))));
    /// assert_eq!(message.content, MessageContent::Text(r#"{"a":2,"b":1}"#.to_owned()));
    ///
    /// let message = ToolMessage::new("call_2", "add", Err(ToolError::value_error("too large")));
    /// assert_eq!(message.content, MessageContent::Text("Error executing tool: too large".to_owned()));
    /// assert!(message.is_error);
    /// ```
    pub fn new(
        tool_call_id: impl Into<String>,
        tool_name: impl Into<String>,
        outcome: Result<ToolResult, ToolError>,
    ) -> Self {
        let (content, is_error) = match outcome {
            Ok(result) => (content(result), false),
            Err(error) => (MessageContent::Text(format!("Error executing tool: {}", error.text())), true),
        };
        Self { tool_call_id: tool_call_id.into(), tool_name: tool_name.into(), content, is_error, output_ref: None }
    }
}

fn content(result: ToolResult) -> MessageContent {
    match result {
        ToolResult::Text(text) | ToolResult::Value(Value::Str(text)) => MessageContent::Text(text),
        ToolResult::Json(json) => MessageContent::Text(canonical_json(&json)),
        ToolResult::Parts(parts) => MessageContent::Parts(parts),
        ToolResult::Value(Value::Part(part)) => MessageContent::Parts(vec![part]),
        ToolResult::Value(Value::List(items))
            if !items.is_empty() && items.iter().all(|item| matches!(item, Value::Part(_))) =>
        {
            let parts = items.into_iter().filter_map(|item| match item {
                Value::Part(part) => Some(part),
                _ => None,
            });
            MessageContent::Parts(parts.collect())
        }
        ToolResult::Value(value) => MessageContent::Text(canonical_json(&value.to_json())),
    }
}

/// Returns JSON as compact text with sorted keys: equal values give equal texts.
pub fn canonical_json(value: &Json) -> String {
    let mut sorted = value.clone();
    sorted.sort_all_objects();
    sorted.to_string()
}

impl Serialize for ToolMessage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct as _;
        let fields = if self.output_ref.is_some() { 6 } else { 5 };
        let mut message = serializer.serialize_struct("ToolMessage", fields)?;
        message.serialize_field("role", ROLE)?;
        message.serialize_field("tool_call_id", &self.tool_call_id)?;
        message.serialize_field("tool_name", &self.tool_name)?;
        message.serialize_field("content", &self.content)?;
        message.serialize_field("is_error", &self.is_error)?;
        match &self.output_ref {
            Some(reference) => message.serialize_field("output_ref", reference)?,
            None => message.skip_field("output_ref")?,
        }
        message.end()
    }
}

impl<'de> Deserialize<'de> for ToolMessage {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Raw {
            role: String,
            tool_call_id: String,
            tool_name: String,
            content: MessageContent,
            #[serde(default)]
            is_error: bool,
            #[serde(default)]
            output_ref: Option<String>,
        }
        let raw = Raw::deserialize(deserializer)?;
        if raw.role != ROLE {
            return Err(D::Error::custom(format!("a tool message has the role 'tool', not '{}'", raw.role)));
        }
        Ok(Self {
            tool_call_id: raw.tool_call_id,
            tool_name: raw.tool_name,
            content: raw.content,
            is_error: raw.is_error,
            output_ref: raw.output_ref,
        })
    }
}

impl Part {
    /// Returns its size in a conversation, in bytes.
    pub fn size(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Image { data, .. } => data.len().div_ceil(3) * 4,
            Self::Other(json) => json.to_string().len(),
        }
    }

    /// The part as an MCP content block.
    pub fn to_block(&self) -> Json {
        match self {
            Self::Text(text) => {
                let mut block = Map::new();
                block.insert("type".into(), "text".into());
                block.insert("text".into(), text.clone().into());
                Json::Object(block)
            }
            other => Value::Part(other.clone()).to_json(),
        }
    }

    /// Converts an MCP content block. A block that is neither text nor an image is kept unchanged.
    pub fn from_block(block: Json) -> Self {
        use base64::Engine as _;
        let field = |name: &str| block.get(name).and_then(Json::as_str);
        // A block with additional fields (such as annotations) is not reduced to text or image.
        let plain = |fields: usize| block.as_object().is_some_and(|object| object.len() == fields);
        match field("type") {
            Some("text") if plain(2) => {
                if let Some(text) = field("text") {
                    return Self::Text(text.to_owned());
                }
            }
            Some("image") if plain(3) => {
                if let (Some(media_type), Some(data)) = (field("mimeType"), field("data"))
                    && let Ok(data) = base64::engine::general_purpose::STANDARD.decode(data)
                {
                    return Self::Image { media_type: media_type.to_owned(), data };
                }
            }
            _ => {}
        }
        Self::Other(block)
    }
}

impl Serialize for Part {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_block().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Part {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Json::deserialize(deserializer).map(Self::from_block)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_message_goes_to_json_and_back() {
        let parts = vec![
            Part::Text("see".into()),
            Part::Image { media_type: "image/png".into(), data: vec![0, 255] },
            Part::Other(json!({"type": "resource_link", "uri": "x:y"})),
            Part::Other(json!({"type": "text", "text": "t", "annotations": {"audience": ["user"]}})),
        ];
        let mut message = ToolMessage::new("c1", "look", Ok(ToolResult::Parts(parts)));
        message.output_ref = Some("abc".into());
        let json = serde_json::to_value(&message).unwrap();
        assert_eq!(json["role"], "tool");
        assert_eq!(json["content"][1], json!({"type": "image", "mimeType": "image/png", "data": "AP8="}));
        assert_eq!(serde_json::from_value::<ToolMessage>(json).unwrap(), message);
        assert!(
            serde_json::from_value::<ToolMessage>(json!({"role": "user", "tool_call_id": "", "tool_name": "",
            "content": ""}))
            .is_err()
        );
    }

    #[test]
    fn what_json_lacks_is_written_as_the_nearest_json() {
        let message = ToolMessage::new("c", "t", Ok(Value::Set(vec![Value::Int(2), Value::Int(1)]).into()));
        assert_eq!(message.content, MessageContent::Text("[1,2]".into()));
        let image = Part::Image { media_type: "image/png".into(), data: vec![1] };
        let message = ToolMessage::new("c", "t", Ok(Value::List(vec![Value::Part(image.clone())]).into()));
        assert_eq!(message.content, MessageContent::Parts(vec![image]));
    }

    #[test]
    fn a_hint_reaches_the_model() {
        let error = ToolError::not_found("no file 'a'").with_hint("list the folder first");
        let message = ToolMessage::new("c", "t", Err(error));
        assert_eq!(
            message.content,
            MessageContent::Text("Error executing tool: no file 'a'\nhint: list the folder first".into())
        );
    }
}
