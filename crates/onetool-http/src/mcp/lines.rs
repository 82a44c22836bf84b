//! Messages as lines on standard input and output.
//!
//! Every request gets an answer, also an invalid message: text with invalid UTF-8 or a lone surrogate is repaired;
//! unreadable text is answered with the protocol's own error, under its id if it has one. The same applies to a request
//! that reuses the id of one in progress, which the library would drop.

use std::collections::HashSet;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::Either;
use onetool_sdk::repaired_json;
use rmcp::RoleServer;
use rmcp::model::{
    CallToolRequest, CallToolRequestMethod, CallToolRequestParams, ClientNotification, ClientRequest, GetMeta as _,
    JsonRpcError, JsonRpcMessage, JsonRpcVersion2_0, RequestId,
};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde::Deserialize;
use serde_json::{Value as Json, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::sync::Mutex;

use super::streams::{Input, Output, input, output};
use super::tasks_2025;

/// Maximum length of a message.
const MAX_LINE: usize = 64 << 20;

/// Standard input and output.
pub struct Lines {
    reader: BufReader<Input>,
    line: Vec<u8>,
    /// Whether the rest of a line that was too long is being skipped.
    discarding: bool,
    writer: Arc<Mutex<Output>>,
    /// Requests without an answer yet.
    open: Arc<parking_lot::Mutex<HashSet<RequestId>>>,
}

impl Lines {
    pub fn new() -> Self {
        Self {
            reader: BufReader::with_capacity(64 << 10, input()),
            line: Vec::new(),
            discarding: false,
            writer: Arc::new(Mutex::new(output())),
            open: Arc::default(),
        }
    }

    /// Returns the next whole line, or `None` at the end. Cancel safe: partially read input is kept.
    async fn next_line(&mut self) -> Option<Result<Vec<u8>, TooLong>> {
        loop {
            let buffer = self.reader.fill_buf().await.ok()?;
            if buffer.is_empty() {
                return None;
            }
            let end = buffer.iter().position(|&byte| byte == b'\n');
            let taken = end.map_or(buffer.len(), |end| end + 1);
            if !self.discarding {
                self.line.extend_from_slice(&buffer[..taken]);
            }
            self.reader.consume(taken);
            if self.line.len() > MAX_LINE {
                self.line = Vec::new();
                self.discarding = true;
            }
            if end.is_some() {
                if std::mem::take(&mut self.discarding) {
                    return Some(Err(TooLong));
                }
                return Some(Ok(std::mem::take(&mut self.line)));
            }
        }
    }

    /// Tracks the ids of open requests; returns a request's id if it is already in use.
    fn taken<'m>(&self, message: &'m RxJsonRpcMessage<RoleServer>) -> Option<&'m RequestId> {
        match message {
            JsonRpcMessage::Request(request) => (!self.open.lock().insert(request.id.clone())).then_some(&request.id),
            JsonRpcMessage::Notification(notification) => {
                // A cancelled request gets no answer.
                if let ClientNotification::CancelledNotification(cancelled) = &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.open.lock().remove(id);
                }
                None
            }
            _ => None,
        }
    }

    async fn refuse(&self, id: Json, code: i32, message: &str) {
        let reply = json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}});
        let _ = write_line(&self.writer, reply.to_string().into_bytes()).await;
    }
}

struct TooLong;

async fn write_line(writer: &Mutex<Output>, mut bytes: Vec<u8>) -> std::io::Result<()> {
    bytes.push(b'\n');
    let mut writer = writer.lock().await;
    writer.write_all(&bytes).await?;
    writer.flush().await
}

impl Transport<RoleServer> for Lines {
    type Error = std::io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let writer = self.writer.clone();
        match &item {
            JsonRpcMessage::Response(answer) => {
                self.open.lock().remove(&answer.id);
            }
            JsonRpcMessage::Error(JsonRpcError { id: Some(id), .. }) => {
                self.open.lock().remove(id);
            }
            _ => {}
        }
        let item = tasks_2025::offered(item);
        let mut writing = Box::pin(async move { write_line(&writer, serde_json::to_vec(&item)?).await });
        // A pipe nearly always has room: written directly, a reply needs no task of its own.
        match (&mut writing).now_or_never() {
            Some(written) => Either::Left(std::future::ready(written)),
            None => Either::Right(writing),
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            let line = match self.next_line().await? {
                Ok(line) => line,
                Err(TooLong) => {
                    self.refuse(Json::Null, INVALID_REQUEST, "the message is longer than 64 MB").await;
                    continue;
                }
            };
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            match read(&line) {
                Ok(message) => match self.taken(&message) {
                    None => return Some(message),
                    Some(id) => {
                        let id = serde_json::to_value(id).unwrap_or_default();
                        self.refuse(id, INVALID_REQUEST, "a request with this id is still under way").await;
                    }
                },
                Err(Refusal { is_notification: true, .. }) => {}
                Err(refusal) => self.refuse(refusal.id.unwrap_or(Json::Null), refusal.code, &refusal.message).await,
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.writer.lock().await.flush().await
    }
}

const PARSE_ERROR: i32 = -32700;
const INVALID_REQUEST: i32 = -32600;

pub(super) const FORM: &str = "not a valid message: 'jsonrpc' must be \"2.0\", 'method' a text, 'id' a text or a whole number, 'params' an object";

pub(super) struct Refusal {
    pub(super) id: Option<Json>,
    /// Never answered.
    is_notification: bool,
    pub(super) code: i32,
    pub(super) message: String,
}

/// The fields that distinguish a request from a notification. The rest is skipped, however deep it is.
#[derive(Deserialize)]
pub(super) struct Head {
    pub(super) id: Option<Json>,
    pub(super) method: Option<String>,
}

/// A message that has an id, possibly `null`.
#[derive(Deserialize)]
struct Identified {
    id: Json,
}

/// Whether a message contains some text. Runs for every message: most positions are ruled out by their first byte.
pub(super) fn contains(message: &[u8], text: &[u8]) -> bool {
    let Some(first) = text.first() else { return true };
    message.iter().enumerate().any(|(at, byte)| byte == first && message[at..].starts_with(text))
}

/// Whether a message has an id although it is not parsed as a request.
pub(super) fn has_unusable_id(message: &[u8]) -> bool {
    let head = serde_json::from_slice::<Head>(message);
    head.is_ok_and(|head| head.method.is_some()) && serde_json::from_slice::<Identified>(message).is_ok()
}

/// A tool call, by far the most frequent message: parsing it directly takes a fraction of the time.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ToolCall {
    #[serde(rename = "jsonrpc")]
    _version: JsonRpcVersion2_0,
    id: RequestId,
    #[serde(rename = "method")]
    _method: CallToolRequestMethod,
    params: CallToolRequestParams,
}

impl ToolCall {
    /// The name of the tool.
    pub(super) fn name(&self) -> &str {
        &self.params.name
    }

    pub(super) fn into_request(mut self) -> (RequestId, ClientRequest) {
        let meta = self.params.meta.take();
        let mut request = ClientRequest::CallToolRequest(CallToolRequest::new(self.params));
        if let Some(meta) = meta {
            *request.get_meta_mut() = meta;
        }
        (self.id, request)
    }

    fn into_message(self) -> RxJsonRpcMessage<RoleServer> {
        let (id, request) = self.into_request();
        JsonRpcMessage::request(request, id)
    }
}

pub(super) fn read(line: &[u8]) -> Result<RxJsonRpcMessage<RoleServer>, Refusal> {
    let rewritten = tasks_2025::rewritten(line);
    let line = rewritten.as_deref().unwrap_or(line);
    if let Ok(call) = serde_json::from_slice::<ToolCall>(line) {
        return Ok(call.into_message());
    }
    let first = match serde_json::from_slice(line) {
        Ok(message) => return checked(message, line),
        Err(error) => error,
    };
    let text = repaired_json(line);
    if let Ok(message) = serde_json::from_str(&text) {
        return checked(message, text.as_bytes());
    }
    let head = serde_json::from_str::<Head>(&text).ok();
    let code = if head.is_some() || first.is_data() { INVALID_REQUEST } else { PARSE_ERROR };
    // `"id": null` is an invalid request, not a notification.
    let is_notification =
        head.as_ref().is_some_and(|head| head.method.is_some()) && serde_json::from_str::<Identified>(&text).is_err();
    let message = if text.trim_start().starts_with('[') && first.is_data() {
        "batches are not supported: send one message at a time".to_owned()
    } else if first.is_data() {
        FORM.to_owned()
    } else {
        format!("not a valid message: {first}")
    };
    Err(Refusal { id: head.and_then(|head| head.id), is_notification, code, message })
}

/// Rejects an invalid request that was parsed as a notification, which would get no answer.
fn checked(message: RxJsonRpcMessage<RoleServer>, line: &[u8]) -> Result<RxJsonRpcMessage<RoleServer>, Refusal> {
    let JsonRpcMessage::Notification(_) = &message else { return Ok(message) };
    match serde_json::from_slice::<Identified>(line) {
        Err(_) => Ok(message),
        Ok(Identified { id }) => Err(Refusal {
            id: (!id.is_null()).then_some(id),
            is_notification: false,
            code: INVALID_REQUEST,
            message: FORM.to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_read_as_any_message_is() {
        for line in [
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run","arguments":{"command":"1"}}}"#,
            r#"{"id":"a","jsonrpc":"2.0","method":"tools/call","params":{"_meta":{"progressToken":5,"x":[1]},"name":"run"}}"#,
        ] {
            let straight = serde_json::from_str::<ToolCall>(line).unwrap().into_message();
            let any: RxJsonRpcMessage<RoleServer> = serde_json::from_str(line).unwrap();
            assert_eq!(format!("{straight:?}"), format!("{any:?}"));
        }
        for line in [
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"name":"run"}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run"},"error":{}}"#,
            r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"run"}}"#,
        ] {
            assert!(serde_json::from_str::<ToolCall>(line).is_err(), "{line}");
        }
    }

    #[test]
    fn what_cannot_be_read_keeps_its_id() {
        let deep =
            format!(r#"{{"jsonrpc":"2.0","id":7,"method":"x","params":{}{}}}"#, "[".repeat(300), "]".repeat(300));
        let refusal = read(deep.as_bytes()).err().unwrap();
        assert_eq!((refusal.id, refusal.code), (Some(json!(7)), INVALID_REQUEST));
        assert_eq!(read(b"{nope").err().unwrap().code, PARSE_ERROR);
        let listed = read(br#"{"jsonrpc":"2.0","id":8,"method":"tools/call","params":[1]}"#).err().unwrap();
        assert_eq!((listed.id, listed.code), (Some(json!(8)), INVALID_REQUEST));
        let nameless = read(br#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#).err().unwrap();
        assert_eq!((nameless.id, nameless.is_notification), (None, false));
        assert!(read(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).is_ok());
    }
}
