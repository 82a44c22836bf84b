//! The messages between us and a worker: JSON-RPC 2.0, one object a line, values in wire form.

use onetool_sdk::{Arguments, ErrorKind, ToolError, Value};
use serde::Deserialize;
use serde_json::{Value as Json, json};

/// Any line from a worker.
#[derive(Debug, Deserialize)]
pub(super) struct Incoming {
    pub(super) id: Option<Json>,
    pub(super) method: Option<String>,
    #[serde(default)]
    pub(super) params: Json,
    #[serde(default)]
    pub(super) result: Json,
    pub(super) error: Option<Failure>,
}

/// A call that failed in the worker.
#[derive(Debug, Deserialize)]
pub(super) struct Failure {
    pub(super) message: String,
    #[serde(default)]
    pub(super) data: FailureData,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct FailureData {
    pub(super) r#type: String,
    pub(super) message: String,
    pub(super) traceback: Option<String>,
    pub(super) kind: String,
}

impl Failure {
    pub(super) fn into_error(self) -> ToolError {
        let data = self.data;
        match data.kind.as_str() {
            "cancelled" => ToolError::new(ErrorKind::Cancelled, "the call was cancelled"),
            "too_large" => ToolError::new(ErrorKind::TooLarge, data.message),
            "raised" => ToolError { traceback: data.traceback, ..ToolError::raised(data.r#type, data.message) },
            _ => ToolError::internal(self.message),
        }
    }
}

/// One line: a request.
pub(super) fn request(id: u64, method: &str, params: &Json) -> Vec<u8> {
    line(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
}

/// One line: a request that wants no answer.
pub(super) fn notification(method: &str, params: &Json) -> Vec<u8> {
    line(&json!({"jsonrpc": "2.0", "method": method, "params": params}))
}

/// One line: the answer to a worker's request.
pub(super) fn response(id: &Json, outcome: Result<Json, ToolError>) -> Vec<u8> {
    line(&match outcome {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        Err(error) => {
            let data = json!({"type": error.exception()});
            json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32000, "message": error.text(), "data": data}})
        }
    })
}

fn line(message: &Json) -> Vec<u8> {
    let mut line = message.to_string().into_bytes();
    line.push(b'\n');
    line
}

/// The parameters of `call`.
pub(super) fn call_params(function: &str, arguments: &Arguments) -> Json {
    let positional: Vec<Json> = arguments.positional.iter().map(Value::to_wire).collect();
    let named: serde_json::Map<String, Json> =
        arguments.named.iter().map(|(name, value)| (name.clone(), value.to_wire())).collect();
    json!({"function": function, "positional": positional, "named": named})
}
