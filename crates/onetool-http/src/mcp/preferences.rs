//! What a call may ask for in its `_meta`.
//!
//! `anthropic/maxResultSizeChars` (the key that tells clients our own limit) is the most that the client takes: a larger
//! result is stored, and the reply is its summary. `onetool/structuredContent` asks for the value as `structuredContent`
//! *instead of* text, so that nobody pays for it twice.

use onetool_run::RunOptions;
use rmcp::RoleServer;
use rmcp::model::{CallToolResponse, CallToolResult};
use rmcp::service::RequestContext;
use serde_json::{Value as Json, json};

/// Tells clients that cut results by themselves how long ours may be, and us how long theirs may be.
pub(super) const MAX_RESULT_KEY: &str = "anthropic/maxResultSizeChars";
const STRUCTURED_KEY: &str = "onetool/structuredContent";

/// Read from a request.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ReplyPreferences {
    pub(super) options: RunOptions,
    is_structured: bool,
}

impl ReplyPreferences {
    pub(super) fn of(context: &RequestContext<RoleServer>) -> Self {
        let limit = context.meta.get(MAX_RESULT_KEY).and_then(Json::as_u64);
        let max_inline = limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
        Self {
            options: RunOptions { max_inline, ..RunOptions::default() },
            is_structured: context.meta.get(STRUCTURED_KEY) == Some(&Json::Bool(true)),
        }
    }

    /// The result in the form that was asked for.
    pub(super) fn applied(self, response: CallToolResponse) -> CallToolResponse {
        match response {
            CallToolResponse::Complete(result) if self.is_structured => structured(result).into(),
            other => other,
        }
    }
}

/// A value as structured content. Errors and text that is not JSON stay as they are.
fn structured(mut result: CallToolResult) -> CallToolResult {
    if result.is_error == Some(true) {
        return result;
    }
    let value = result.content.first().and_then(|block| block.as_text()).and_then(|text| value_of(&text.text));
    if let Some(value) = value {
        result.content.remove(0);
        result.structured_content = Some(value);
    }
    result
}

/// What MCP takes is an object; any other value is its `result`.
fn value_of(text: &str) -> Option<Json> {
    match serde_json::from_str(text) {
        Ok(Json::Object(object)) => Some(Json::Object(object)),
        Ok(value) => Some(json!({"result": value})),
        // The words that Python has for what JSON calls otherwise.
        Err(_) => match text {
            "None" => Some(json!({"result": null})),
            "True" => Some(json!({"result": true})),
            "False" => Some(json!({"result": false})),
            _ => None,
        },
    }
}
