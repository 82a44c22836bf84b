//! The messages between us and a worker: JSON-RPC 2.0, one object per line, values in wire form.

use onetool_process::{LARGE, heavy_if_large};
use onetool_sdk::{
    Arguments, ErrorKind, TRACEPARENT, TRACESTATE, ToolError, TraceHeaders, Value, is_python_identifier,
};
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
            "too_large" => ToolError::new(ErrorKind::TooLarge, clipped(data.message)),
            "raised" => ToolError {
                traceback: data.traceback.map(clipped),
                ..ToolError::raised(type_name(data.r#type), clipped(data.message))
            },
            _ => ToolError::internal(clipped(self.message)),
        }
    }
}

/// Maximum length of an error's text in bytes; our own host program sends less.
const MAX_TEXT: usize = 64 << 10;
/// A longer name does not belong to an exception.
const MAX_TYPE_NAME: usize = 200;

fn clipped(mut text: String) -> String {
    if text.len() > MAX_TEXT {
        let end = (0..=MAX_TEXT).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}

/// Returns an exception's name, or `Exception` if it is invalid: it begins a line wherever it is shown.
fn type_name(name: String) -> String {
    let is_name = name.len() <= MAX_TYPE_NAME && name.split('.').all(is_python_identifier);
    if is_name { name } else { "Exception".to_owned() }
}

/// Returns a request as one line. Its parameters are JSON.
pub(super) fn request(id: u64, method: &'static str, params: &str) -> Vec<u8> {
    heavy_if_large(params.len(), || {
        ended(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#))
    })
}

/// Returns a request without an answer, as one line.
pub(super) fn notification(method: &str, params: &Json) -> Vec<u8> {
    line(&json!({"jsonrpc": "2.0", "method": method, "params": params}))
}

/// Returns the answer to a worker's request, as one line.
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
    ended(message.to_string())
}

fn ended(text: String) -> Vec<u8> {
    let mut line = text.into_bytes();
    line.push(b'\n');
    line
}

/// Returns the parameters of `call` as JSON.
pub(super) fn call_params(function: &str, arguments: &Arguments, trace: Option<TraceHeaders>) -> String {
    let mut room = LARGE;
    let is_small = arguments.positional.iter().chain(arguments.named.values()).all(|value| fits(value, &mut room));
    heavy_if_large(if is_small { 0 } else { usize::MAX }, || params(function, arguments, trace).to_string())
}

/// Whether a value approximately fits into this room. Stops as soon as it does not.
fn fits(value: &Value, room: &mut usize) -> bool {
    let own = match value {
        Value::Str(text) | Value::Path(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        Value::BigInt(number) => usize::try_from(number.bits()).unwrap_or(usize::MAX) / 3,
        Value::Part(_) => LARGE,
        _ => 8,
    };
    let Some(left) = room.checked_sub(own) else { return false };
    *room = left;
    match value {
        Value::List(items) | Value::Tuple(items) | Value::Set(items) | Value::FrozenSet(items) => {
            items.iter().all(|item| fits(item, room))
        }
        Value::Dict(items) => items.iter().all(|(key, value)| fits(key, room) && fits(value, room)),
        Value::Record { fields, .. } => fields.iter().all(|(_, value)| fits(value, room)),
        _ => true,
    }
}

fn params(function: &str, arguments: &Arguments, trace: Option<TraceHeaders>) -> Json {
    let positional: Vec<Json> = arguments.positional.iter().map(Value::to_wire).collect();
    let named: serde_json::Map<String, Json> =
        arguments.named.iter().map(|(name, value)| (name.clone(), value.to_wire())).collect();
    let mut params = json!({"function": function, "positional": positional, "named": named});
    if let Some(TraceHeaders { parent, state }) = trace {
        params["trace"] = json!({TRACEPARENT: parent});
        if let Some(state) = state {
            params["trace"][TRACESTATE] = json!(&*state);
        }
    }
    params
}

#[cfg(test)]
#[path = "../../../cases/fuzz/fuzzing.rs"]
mod fuzzing;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exceptions_name_is_a_name_and_its_text_has_a_limit() {
        let failed = |name: &str, text: &str| {
            let data = FailureData {
                r#type: name.to_owned(),
                message: text.to_owned(),
                traceback: Some(text.to_owned()),
                kind: "raised".to_owned(),
            };
            Failure { message: String::new(), data }.into_error()
        };
        assert_eq!(failed("requests.HTTPError", "m").exception(), "requests.HTTPError");
        for name in ["", "E\nFake", "E\u{1b}[2J", "a b", &"E".repeat(10_000)] {
            assert_eq!(failed(name, "m").exception(), "Exception", "{name:.20}");
        }
        let long = failed("E", &"é".repeat(1 << 20));
        assert!(long.message.len() < MAX_TEXT + 8 && long.traceback.unwrap().len() < MAX_TEXT + 8);
    }

    #[test]
    fn a_call_is_one_line_of_json_and_large_ones_are_known() {
        let arguments = Arguments::named([("text".to_owned(), Value::Str("a\n\"b\"".to_owned()))]);
        let line = request(7, "call", &call_params("f", &arguments, None));
        let (end, text) = line.split_last().unwrap();
        assert!(*end == b'\n' && !text.contains(&b'\n'));
        let read: Json = serde_json::from_slice(text).unwrap();
        let params = json!({"function": "f", "positional": [], "named": {"text": "a\n\"b\""}});
        assert_eq!(read, json!({"jsonrpc": "2.0", "id": 7, "method": "call", "params": params}));
        let nested = |count| Value::List(vec![Value::Dict(vec![(Value::Int(1), Value::Str("x".repeat(100)))]); count]);
        assert!(fits(&nested(100), &mut LARGE.clone()) && !fits(&nested(10_000), &mut LARGE.clone()));
        assert!(!fits(&Value::Str("x".repeat(LARGE + 1)), &mut LARGE.clone()));
    }

    #[test]
    fn fuzz_lines_of_workers() {
        let messages = fuzzing::Messages::json(&[
            r#"{"jsonrpc":"2.0","id":7,"result":[1,{"$ot":"int","v":"123456789012345678901"},{"$ot":"dict","v":[[1,2]]}]}"#,
            r#"{"jsonrpc":"2.0","id":7,"result":{"$ot":"image","t":"image/png","v":"AAAA"}}"#,
            r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32000,"message":"m","data":{"type":"E","message":"m","traceback":"t","kind":"raised"}}}"#,
            r#"{"jsonrpc":"2.0","id":"w1","method":"call_tool","params":{"call":7,"name":"a.b","named":{"x":{"$ot":"bytes","v":"AA=="}}}}"#,
            r#"{"jsonrpc":"2.0","method":"progress","params":{"call":7,"done":1,"total":2,"message":"m"}}"#,
            r#"{"jsonrpc":"2.0","method":"log","params":{"level":"info","message":"m","fields":{"a":1}}}"#,
        ]);
        fuzzing::fuzz("workers", &messages, |line| {
            if !onetool_sdk::holds_at_most(line, 1 << 17) {
                return;
            }
            let Ok(message) = serde_json::from_slice::<Incoming>(line) else { return };
            match message.error {
                Some(failure) => drop(failure.into_error()),
                None => drop(Value::from_wire(message.result)),
            }
        });
    }
}
