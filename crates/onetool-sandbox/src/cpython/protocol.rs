//! The messages between the engine and its child: one JSON object per line, values in wire form.

use std::sync::atomic::{AtomicBool, Ordering};

use onetool_sdk::{Arguments, ErrorKind, ToolError, Value};
use serde::Serialize;
use serde_json::{Map, Value as Json, json};
use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::decode::{DecodeError, Decoder};
use super::encode::{LimitedBuffer, Wire};
use crate::budget::Budget;
use crate::{CallTarget, FileAccess, Frame, Host, Lookup};

/// Ends a line that the child has retracted.
const CANCELLED: u8 = 0x18;
const READ_AHEAD: usize = 64 << 10;
/// A line of at most this many bytes is copied out of the buffer; a longer one takes over the buffer.
const COPIED_LINE: usize = 4 << 10;

/// The first message to a child, before any program: the second wall, which it raises at once, see [`super::wall`].
#[derive(Debug, Serialize)]
pub(super) struct Setup<'a> {
    pub(super) wall: Option<&'a str>,
    pub(super) wall_required: bool,
}

/// One program for a child.
#[derive(Debug, Serialize)]
pub(super) struct Order<'a> {
    pub(super) code: &'a str,
    pub(super) script_name: &'a str,
    pub(super) read_back: &'a [String],
    pub(super) files: FileAccess,
    pub(super) folder: &'a str,
    /// Seconds.
    pub(super) timeout: f64,
    pub(super) max_memory: usize,
    /// Address space of the interpreter itself.
    pub(super) headroom: usize,
    pub(super) max_recursion: usize,
    pub(super) max_value_bytes: usize,
    pub(super) max_value_items: usize,
    /// Whether the child waits for another program, which will see the names of this one.
    pub(super) keeps_names: bool,
    /// Seed for random numbers, if the host controls them and the time.
    pub(super) seed: Option<u64>,
}

/// A message from a child.
/// `weight`: memory that the arguments of a call take in the server, in bytes.
#[derive(Debug)]
pub(super) enum Message {
    Ready,
    Unavailable(String),
    Lookup { id: u64, names: Vec<String> },
    Attribute { id: u64, pack: String, name: String },
    Call { id: u64, target: CallTarget, arguments: Arguments, weight: usize },
    Done { value: Value, read_back: Vec<(String, Value)> },
    Failed(Failed),
}

#[derive(Debug, Default)]
pub(super) struct Failed {
    pub(super) exception: String,
    pub(super) message: String,
    pub(super) too_large: bool,
    pub(super) frames: Vec<Frame>,
    pub(super) read_back: Vec<(String, Value)>,
}

/// Decodes one message, which may be forged.
pub(super) fn message(line: &[u8], budget: Budget, stop: &AtomicBool) -> Result<Message, DecodeError> {
    let mut decoder = Decoder::new(line, budget, stop)?;
    let mut message = None;
    if decoder.peek() == b'"' {
        message = (decoder.string()? == "ready").then_some(Message::Ready);
    } else {
        decoder.object(|decoder, kind| {
            message = Some(match kind {
                "unavailable" => Message::Unavailable(decoder.string()?),
                "lookup" => lookup(decoder)?,
                "attribute" => attribute(decoder)?,
                "call" => call(decoder)?,
                "done" => done(decoder)?,
                "failed" => failed(decoder)?,
                _ => return Err(DecodeError::Malformed("an unknown message", 0)),
            });
            Ok(())
        })?;
    }
    decoder.end()?;
    message.ok_or(DecodeError::Malformed("an unknown message", 0))
}

fn lookup(decoder: &mut Decoder<'_>) -> Result<Message, DecodeError> {
    let (mut id, mut names) = (0, Vec::new());
    decoder.object(|decoder, key| match key {
        "id" => decoder.integer().map(|number| id = number),
        "names" => decoder.array(|decoder| {
            names.push(decoder.name()?);
            Ok(())
        }),
        _ => Err(UNKNOWN_FIELD),
    })?;
    Ok(Message::Lookup { id, names })
}

fn attribute(decoder: &mut Decoder<'_>) -> Result<Message, DecodeError> {
    let (mut id, mut pack, mut name) = (0, String::new(), String::new());
    decoder.object(|decoder, key| match key {
        "id" => decoder.integer().map(|number| id = number),
        "pack" => decoder.name().map(|text| pack = text),
        "name" => decoder.name().map(|text| name = text),
        _ => Err(UNKNOWN_FIELD),
    })?;
    Ok(Message::Attribute { id, pack, name })
}

fn call(decoder: &mut Decoder<'_>) -> Result<Message, DecodeError> {
    let (mut id, mut pack, mut function) = (0, None, String::new());
    let mut arguments = Arguments::default();
    decoder.object(|decoder, key| match key {
        "id" => decoder.integer().map(|number| id = number),
        "pack" => decoder.optional_string().map(|text| pack = text),
        "function" => decoder.name().map(|text| function = text),
        "args" => decoder.items(0).map(|items| arguments.positional = items),
        "kwargs" => decoder.pairs(0, Decoder::name).map(|pairs| arguments.named = pairs.into_iter().collect()),
        _ => Err(UNKNOWN_FIELD),
    })?;
    let target = match pack {
        Some(pack) => CallTarget::Method { pack, function },
        None => CallTarget::Function(function),
    };
    Ok(Message::Call { id, target, arguments, weight: decoder.spent() })
}

fn done(decoder: &mut Decoder<'_>) -> Result<Message, DecodeError> {
    let (mut value, mut read_back) = (Value::None, Vec::new());
    decoder.object(|decoder, key| match key {
        "value" => decoder.value(0).map(|found| value = found),
        "read_back" => decoder.pairs(0, Decoder::name).map(|pairs| read_back = pairs),
        _ => Err(UNKNOWN_FIELD),
    })?;
    Ok(Message::Done { value, read_back })
}

fn failed(decoder: &mut Decoder<'_>) -> Result<Message, DecodeError> {
    let mut failed = Failed::default();
    decoder.object(|decoder, key| match key {
        "exception" => decoder.string().map(|text| failed.exception = text),
        "message" => decoder.string().map(|text| failed.message = text),
        "too_large" => decoder.boolean().map(|flag| failed.too_large = flag),
        "frames" => decoder.array(|decoder| {
            decoder.node(0)?;
            decoder.expect(b'[')?;
            let line = decoder.integer()?;
            decoder.expect(b',')?;
            let function = decoder.optional_string()?;
            failed.frames.push(Frame { line, function });
            decoder.expect(b']')
        }),
        "read_back" => decoder.pairs(0, Decoder::name).map(|pairs| failed.read_back = pairs),
        _ => Err(UNKNOWN_FIELD),
    })?;
    Ok(Message::Failed(failed))
}

const UNKNOWN_FIELD: DecodeError = DecodeError::Malformed("an unknown field", 0);

/// Why no message could be read.
#[derive(Debug)]
pub(super) enum ReadFailure {
    /// The child has closed its end, or reading failed.
    Ended,
    /// A line longer than allowed.
    TooLong,
}

/// Splits a child's output into lines. Reading is cancel-safe.
#[derive(Default)]
pub(super) struct Lines {
    buffer: Vec<u8>,
    /// Where the next line begins. Earlier bytes were returned already and are dropped at the next read.
    start: usize,
    searched: usize,
    longest: usize,
}

impl Lines {
    pub(super) fn set_longest(&mut self, longest: usize) {
        self.longest = longest;
    }

    /// Whether everything that was read has been returned.
    pub(super) fn is_empty(&self) -> bool {
        self.start == self.buffer.len()
    }

    /// Returns the next line that was not retracted.
    pub(super) async fn next(&mut self, source: &mut (impl AsyncRead + Unpin)) -> Result<Vec<u8>, ReadFailure> {
        loop {
            while let Some(at) = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n') {
                let newline = self.searched + at;
                let is_taken_back = newline > self.start && self.buffer[newline - 1] == CANCELLED;
                if !is_taken_back {
                    return Ok(self.take(newline));
                }
                self.start = newline + 1;
                self.searched = self.start;
                // A child that keeps retracting lines must not block other tasks or outlive its deadline.
                tokio::task::consume_budget().await;
            }
            self.buffer.drain(..self.start);
            self.start = 0;
            self.searched = self.buffer.len();
            if self.buffer.len() > self.longest {
                return Err(ReadFailure::TooLong);
            }
            if self.buffer.capacity() - self.buffer.len() < READ_AHEAD / 2 {
                self.buffer.reserve(READ_AHEAD);
            }
            match source.read_buf(&mut self.buffer).await {
                Ok(0) | Err(_) => return Err(ReadFailure::Ended),
                Ok(_) => {}
            }
        }
    }

    /// Returns the line that ends at `newline`, without the newline.
    fn take(&mut self, newline: usize) -> Vec<u8> {
        // A line that took several reads begins at the start of the buffer.
        if self.start > 0 || newline <= COPIED_LINE {
            let line = self.buffer[self.start..newline].to_vec();
            self.start = newline + 1;
            self.searched = self.start;
            return line;
        }
        let rest = self.buffer.split_off(newline + 1);
        let mut line = std::mem::replace(&mut self.buffer, rest);
        line.pop();
        self.searched = 0;
        line
    }
}

/// The answer to [`Message::Lookup`]: names unknown to the host are omitted.
pub(super) fn names_answer(id: u64, names: &[String], host: &dyn Host, stop: &AtomicBool) -> Json {
    let mut found = Map::new();
    for name in names {
        if stop.load(Ordering::Relaxed) {
            break;
        }
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

/// The answer to [`Message::Call`], as a line. A result of more than `limit` bytes becomes an error.
pub(super) fn call_answer(id: u64, result: &Result<Value, ToolError>, limit: usize, stop: &AtomicBool) -> Vec<u8> {
    let value = match result {
        Ok(value) => value,
        Err(error) => return line(&error_answer(id, error)),
    };
    let mut buffer = LimitedBuffer { bytes: format!("{{\"id\":{id},\"value\":").into_bytes(), limit, stop };
    match serde_json::to_writer(&mut buffer, &Wire(value)) {
        Ok(()) => {
            let mut bytes = buffer.bytes;
            bytes.extend_from_slice(b"}\n");
            bytes
        }
        Err(_) => {
            let error = ToolError::new(ErrorKind::TooLarge, format!("the result is larger than {limit} bytes"));
            line(&error_answer(id, &error))
        }
    }
}

fn error_answer(id: u64, error: &ToolError) -> Json {
    json!({"id": id, "error": raised(error)})
}

pub(super) fn line(json: &Json) -> Vec<u8> {
    let mut line = json.to_string().into_bytes();
    line.push(b'\n');
    line
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
        let mut lines = Lines::default();
        lines.set_longest(8);
        assert_eq!(lines.next(&mut source).await.unwrap(), b"one");
        assert_eq!(lines.next(&mut source).await.unwrap(), b"two");
        assert!(matches!(lines.next(&mut source).await, Err(ReadFailure::TooLong)));
    }

    #[tokio::test]
    async fn long_lines_and_short_ones_alternate() {
        let expected: Vec<Vec<u8>> =
            (0..60).map(|n| vec![b'a' + (n % 26) as u8; [3, 70_000, 0, 5_000, COPIED_LINE][n % 5]]).collect();
        let mut sent = Vec::new();
        for line in &expected {
            sent.extend_from_slice(b"taken back\x18\n");
            sent.extend_from_slice(line);
            sent.push(b'\n');
        }
        let mut source: &[u8] = &sent;
        let mut lines = Lines::default();
        lines.set_longest(80_000);
        for line in &expected {
            assert_eq!(lines.next(&mut source).await.unwrap(), *line);
        }
        assert!(lines.is_empty());
    }

    /// A child that keeps retracting lines yields the thread to others, and its deadline holds.
    #[tokio::test]
    async fn lines_that_are_taken_back_for_ever_can_be_abandoned() {
        let mut source = tokio::io::repeat(b'\n');
        let mut lines = Lines { buffer: b"\x18\n".repeat(100_000), longest: 1 << 20, ..Lines::default() };
        let reading = lines.next(&mut source);
        tokio::select! {
            biased;
            _ = reading => panic!("it never let go of the thread"),
            () = tokio::task::yield_now() => {}
        }
        assert!(lines.start > 0 && lines.start < lines.buffer.len(), "{} of {}", lines.start, lines.buffer.len());
    }
}
