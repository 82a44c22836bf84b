//! The messages between the engine and its child: one JSON object a line, values in wire form.

use onetool_sdk::{ToolError, Value};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json, json};
use tokio::io::{AsyncRead, AsyncReadExt as _};

use crate::{Frame, Host, Lookup};

/// Ends a line that the child took back.
const CANCELLED: u8 = 0x18;
const READ_AHEAD: usize = 64 << 10;

/// The one order that a child gets.
#[derive(Debug, Serialize)]
pub(super) struct Order<'a> {
    pub(super) code: &'a str,
    pub(super) script_name: &'a str,
    pub(super) read_back: &'a [String],
    /// Seconds.
    pub(super) timeout: f64,
    pub(super) max_memory: usize,
    pub(super) max_recursion: usize,
    pub(super) max_value_bytes: usize,
    /// The second wall, see [`super::wall`].
    pub(super) wall: Option<&'a str>,
    pub(super) wall_required: bool,
}

/// What a child says.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Message {
    Ready,
    Unavailable(String),
    Lookup { id: u64, names: Vec<String> },
    Attribute { id: u64, pack: String, name: String },
    Call { id: u64, pack: Option<String>, function: String, args: Vec<Json>, kwargs: Vec<(String, Json)> },
    Done { value: Json, read_back: Vec<(String, Json)> },
    Failed(Failed),
}

#[derive(Debug, Deserialize)]
pub(super) struct Failed {
    pub(super) exception: String,
    pub(super) message: String,
    pub(super) too_large: bool,
    pub(super) frames: Vec<(u32, Option<String>)>,
    pub(super) read_back: Vec<(String, Json)>,
}

impl Failed {
    pub(super) fn take_frames(&mut self) -> Vec<Frame> {
        std::mem::take(&mut self.frames).into_iter().map(|(line, function)| Frame { line, function }).collect()
    }
}

/// Why no message could be read.
#[derive(Debug)]
pub(super) enum ReadFailure {
    /// The child has closed its end, or it cannot be read any more.
    Ended,
    /// A line longer than allowed.
    TooLong,
}

/// Splits what a child sends into lines. Reading may be abandoned at any await and taken up again.
pub(super) struct Lines {
    buffer: Vec<u8>,
    searched: usize,
    longest: usize,
}

impl Lines {
    pub(super) fn new(longest: usize) -> Self {
        Self { buffer: Vec::new(), searched: 0, longest }
    }

    /// The next line that was not taken back.
    pub(super) async fn next(&mut self, source: &mut (impl AsyncRead + Unpin)) -> Result<Vec<u8>, ReadFailure> {
        loop {
            while let Some(at) = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n') {
                let rest = self.buffer.split_off(self.searched + at + 1);
                let mut line = std::mem::replace(&mut self.buffer, rest);
                self.searched = 0;
                line.pop();
                if line.last() != Some(&CANCELLED) {
                    return Ok(line);
                }
            }
            self.searched = self.buffer.len();
            if self.buffer.len() > self.longest {
                return Err(ReadFailure::TooLong);
            }
            self.buffer.reserve(READ_AHEAD);
            match source.read_buf(&mut self.buffer).await {
                Ok(0) | Err(_) => return Err(ReadFailure::Ended),
                Ok(_) => {}
            }
        }
    }
}

/// The answer to [`Message::Lookup`]: names that the host does not know are left out.
pub(super) fn names_answer(id: u64, names: &[String], host: &dyn Host) -> Json {
    let mut found = Map::new();
    for name in names {
        match host.lookup(name) {
            Ok(Lookup::Undefined) => {}
            Ok(lookup) => {
                found.insert(name.clone(), described(&lookup));
            }
            Err(error) => {
                found.insert(name.clone(), json!({"error": raised(&error)}));
            }
        }
    }
    json!({"id": id, "names": found})
}

/// The answer to [`Message::Attribute`].
pub(super) fn attribute_answer(id: u64, pack: &str, name: &str, host: &dyn Host) -> Json {
    match host.attribute(pack, name) {
        Ok(lookup) => json!({"id": id, "found": described(&lookup)}),
        Err(error) => error_answer(id, &error),
    }
}

/// The answer to [`Message::Call`].
pub(super) fn call_answer(id: u64, result: &Result<Value, ToolError>) -> Json {
    match result {
        Ok(value) => json!({"id": id, "value": value.to_wire()}),
        Err(error) => error_answer(id, error),
    }
}

pub(super) fn error_answer(id: u64, error: &ToolError) -> Json {
    json!({"id": id, "error": raised(error)})
}

fn raised(error: &ToolError) -> Json {
    json!([error.exception(), error.text()])
}

fn described(lookup: &Lookup) -> Json {
    match lookup {
        Lookup::Pack(name) => json!({"pack": name}),
        Lookup::Function(name) => json!({"function": name}),
        Lookup::Value(value) => json!({"value": value.to_wire()}),
        Lookup::Undefined => Json::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_are_split_taken_back_and_capped() {
        let mut source: &[u8] = b"one\nta\x18\ntwo\n0123456789";
        let mut lines = Lines::new(8);
        assert_eq!(lines.next(&mut source).await.unwrap(), b"one");
        assert_eq!(lines.next(&mut source).await.unwrap(), b"two");
        assert!(matches!(lines.next(&mut source).await, Err(ReadFailure::TooLong)));
    }

    #[test]
    fn a_message_of_an_unknown_kind_is_refused() {
        assert!(serde_json::from_str::<Message>(r#"{"shell":{"id":1}}"#).is_err());
        assert!(matches!(serde_json::from_str::<Message>(r#""ready""#), Ok(Message::Ready)));
    }
}
