//! Reads and writes messages of a server connection.
//!
//! Nearly all messages are tool calls, so these and their replies are serialized directly; everything else takes the
//! generic path, which costs several times as much. Text that is almost JSON is repaired. An invalid reply is an error
//! of its own call, which then stops waiting; other invalid input is ignored.

use onetool_sdk::{holds_at_most, nests_at_most, repaired_json};
use rmcp::model::{
    CallToolRequestMethod, CallToolRequestParams, CallToolResult, ClientJsonRpcMessage, ClientRequest, ErrorData,
    GetMeta as _, JsonRpcMessage, JsonRpcRequest, JsonRpcVersion2_0, RequestId, RequestMetaObject,
    ServerJsonRpcMessage, ServerResult,
};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::settings::limits;
use super::text::clean;
use super::transport::Wire;

/// A tool call in its serialized form.
#[derive(Serialize)]
struct ToolCall<'a> {
    jsonrpc: JsonRpcVersion2_0,
    id: &'a RequestId,
    method: &'a CallToolRequestMethod,
    params: ToolCallParams<'a>,
}

#[derive(Serialize)]
struct ToolCallParams<'a> {
    #[serde(rename = "_meta")]
    meta: &'a RequestMetaObject,
    #[serde(flatten)]
    rest: &'a CallToolRequestParams,
}

/// Serializes a message as a line, including the line break.
pub(super) fn write(message: &ClientJsonRpcMessage) -> serde_json::Result<Vec<u8>> {
    let mut line = match message {
        JsonRpcMessage::Request(JsonRpcRequest {
            id, request: request @ ClientRequest::CallToolRequest(call), ..
        }) if call.params.meta.is_none() => {
            let params = ToolCallParams { meta: request.get_meta(), rest: &call.params };
            serde_json::to_vec(&ToolCall { jsonrpc: JsonRpcVersion2_0, id, method: &call.method, params })?
        }
        other => serde_json::to_vec(other)?,
    };
    line.push(b'\n');
    Ok(line)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ToolReply {
    #[serde(rename = "jsonrpc")]
    _version: JsonRpcVersion2_0,
    id: RequestId,
    result: CallToolResult,
}

/// The fields that distinguish a reply from other messages. The rest is skipped, however deep.
#[derive(Deserialize)]
struct Head {
    id: Option<RequestId>,
    method: Option<IgnoredAny>,
}

/// A message may contain one value per this many bytes of the maximum message size: values take more memory than text.
const BYTES_PER_VALUE: usize = 32;
/// The same for lists and objects.
const BYTES_PER_CONTAINER: usize = 256;

/// Parses the message in a line or an event; `None` if there is none.
pub(super) fn read(bytes: &[u8], wire: &Wire) -> Option<ServerJsonRpcMessage> {
    onetool_process::heavy_if_large(bytes.len(), || read_here(bytes, wire))
}

fn read_here(bytes: &[u8], wire: &Wire) -> Option<ServerJsonRpcMessage> {
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return None;
    }
    let max_values = wire.max_message / BYTES_PER_VALUE;
    if !holds_at_most(bytes, max_values) {
        let reason = format!("the answer holds more than {max_values} values (servers.<name>.max_message_mb)");
        return unreadable(bytes, &reason);
    }
    let max_containers = wire.max_message / BYTES_PER_CONTAINER;
    if !nests_at_most(bytes, max_containers) {
        let reason =
            format!("the answer holds more than {max_containers} lists and objects (servers.<name>.max_message_mb)");
        return unreadable(bytes, &reason);
    }
    if let Ok(reply) = serde_json::from_slice::<ToolReply>(bytes)
        && wire.calls.awaits_tool_result(&reply.id)
    {
        return Some(JsonRpcMessage::response(ServerResult::CallToolResult(reply.result), reply.id));
    }
    read_any(bytes)
}

/// Parses a message without knowing which replies are awaited.
pub(super) fn read_any(bytes: &[u8]) -> Option<ServerJsonRpcMessage> {
    let error = match serde_json::from_slice(bytes) {
        Ok(message) => return Some(message),
        Err(error) => error,
    };
    let text = repaired_json(bytes);
    if let Ok(message) = serde_json::from_str(&text) {
        return Some(message);
    }
    unreadable(text.as_bytes(), &format!("the server's answer can't be read: {error}"))
}

/// If invalid input is a reply, converts it to an error of its call.
fn unreadable(bytes: &[u8], reason: &str) -> Option<ServerJsonRpcMessage> {
    match serde_json::from_slice::<Head>(bytes) {
        Ok(Head { id: Some(id), method: None }) => {
            Some(JsonRpcMessage::error(ErrorData::internal_error(clean(reason, limits::REASON_CHARS), None), Some(id)))
        }
        _ => {
            tracing::debug!(target: "onetool::server", "a message is passed over: {reason}");
            None
        }
    }
}

#[cfg(test)]
#[path = "../../../cases/fuzz/fuzzing.rs"]
mod fuzzing;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fuzz_messages_of_servers() {
        let messages = fuzzing::Messages::json(&[
            r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"a"},{"type":"image","mimeType":"image/png","data":"AAAA"}],"structuredContent":{"a":[1,2.5,null]}}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"t","description":"d","inputSchema":{"type":"object","properties":{"a":{"type":"string"}}}}],"nextCursor":"c"}}"#,
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"m","data":{"x":1}}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":0.5,"total":1,"message":"m"}}"#,
            r#"{"jsonrpc":"2.0","id":"s","method":"sampling/createMessage","params":{"messages":[{"role":"user","content":{"type":"text","text":"t"}}],"maxTokens":5}}"#,
            r#"{"jsonrpc":"2.0","id":2,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"n","version":"1"}}}"#,
        ]);
        fuzzing::fuzz("servers", &messages, |line| {
            if holds_at_most(line, 1 << 17) {
                drop(read_any(line));
            }
        });
    }

    #[test]
    fn a_reply_that_cannot_be_read_is_an_error_of_its_call() {
        let deep = format!(r#"{{"jsonrpc":"2.0","id":7,"result":{}{}}}"#, "[".repeat(300), "]".repeat(300));
        for line in [deep.as_str(), r#"{"jsonrpc":"2.0","id":7,"error":"boom"}"#, r#"{"id":7,"result":{},"error":{}}"#]
        {
            let Some(JsonRpcMessage::Error(error)) = read_any(line.as_bytes()) else { panic!("{line}") };
            assert_eq!(error.id, Some(RequestId::Number(7)));
        }
    }

    #[test]
    fn a_call_is_written_as_any_message_is() {
        let mut params = CallToolRequestParams::new("t");
        params.arguments = serde_json::json!({"a": [1, {"b": null}], "ä": "\n"}).as_object().cloned();
        let mut call = ClientRequest::CallToolRequest(rmcp::model::CallToolRequest::new(params));
        call.get_meta_mut().insert("progressToken".into(), 5.into());
        let message: ClientJsonRpcMessage = JsonRpcMessage::request(call, RequestId::Number(7));
        let straight: serde_json::Value = serde_json::from_slice(&write(&message).unwrap()).unwrap();
        assert_eq!(straight, serde_json::to_value(&message).unwrap());
    }

    #[test]
    fn rubbish_is_passed_over_and_half_characters_are_mended() {
        for line in ["not JSON", "[1, 2]", r#"{"jsonrpc": "2.0", "unknown": true}"#, "{\"id\": 7"] {
            assert!(read_any(line.as_bytes()).is_none(), "{line}");
        }
        let half = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"a\ud83d"}]}}"#;
        let Some(JsonRpcMessage::Response(reply)) = read_any(half.as_bytes()) else { panic!("no reply") };
        assert!(serde_json::to_string(&reply).unwrap().contains("a\u{fffd}"));
    }
}
