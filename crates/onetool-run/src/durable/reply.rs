//! The stored form of a reply.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use onetool_sdk::Part;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::runner::RunReply;

#[derive(Serialize, Deserialize)]
struct KeptReply {
    text: String,
    is_error: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    parts: Vec<KeptPart>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum KeptPart {
    Text(String),
    Image { media_type: String, data: String },
    Other(Json),
}

/// Serialises a reply.
pub fn write(reply: &RunReply) -> Vec<u8> {
    let part = |part: &Part| match part {
        Part::Text(text) => KeptPart::Text(text.clone()),
        Part::Image { media_type, data } => {
            KeptPart::Image { media_type: media_type.clone(), data: STANDARD.encode(data) }
        }
        Part::Other(json) => KeptPart::Other(json.clone()),
    };
    let kept =
        KeptReply { text: reply.text.clone(), is_error: reply.is_error, parts: reply.parts.iter().map(part).collect() };
    serde_json::to_vec(&kept).unwrap_or_default()
}

/// Deserialises a reply; `None` if the bytes are not one.
pub fn read(bytes: &[u8]) -> Option<RunReply> {
    let kept: KeptReply = serde_json::from_slice(bytes).ok()?;
    let part = |part: KeptPart| match part {
        KeptPart::Text(text) => Part::Text(text),
        KeptPart::Image { media_type, data } => {
            Part::Image { media_type, data: STANDARD.decode(data).unwrap_or_default() }
        }
        KeptPart::Other(json) => Part::Other(json),
    };
    Some(RunReply { text: kept.text, is_error: kept.is_error, parts: kept.parts.into_iter().map(part).collect() })
}
