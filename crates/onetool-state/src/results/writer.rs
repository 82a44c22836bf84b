//! Writes a result as it arrives: counts lines, keeps the first ones for the preview, and holds nothing else.

use std::io::{self, Write};

use onetool_sdk::TEXT_MEDIA_TYPE;
use serde_json::{Map, json};

use super::StoredResult;
use super::lines::clipped;
use crate::interface::{BlobWriter, Blobs, NewBlob, StateError};
use crate::wait;

/// Maximum length of a preview line.
const PREVIEW_LINE_CHARS: usize = 400;
/// Maximum size of all preview lines together.
const PREVIEW_BYTES: usize = 2_000;
/// Number of bytes buffered before they are written.
const BUFFER_BYTES: usize = 256 * 1024;

/// A result being written. Dropping it without [`finish`](Self::finish) leaves nothing behind. Blocks.
pub struct ResultWriter {
    blob: Box<dyn BlobWriter>,
    buffer: Vec<u8>,
    tool: String,
    line_breaks: u64,
    ends_with_break: bool,
    preview: Preview,
    /// Why writing failed, for callers that only see an `io::Error`.
    failure: Option<StateError>,
}

impl ResultWriter {
    pub(super) fn create(blobs: &dyn Blobs, scope: &str, tool: &str, preview_lines: usize) -> Result<Self, StateError> {
        let new = NewBlob { scope: scope.to_owned(), media_type: TEXT_MEDIA_TYPE.to_owned() };
        Ok(Self {
            blob: wait(blobs.create(new))?,
            buffer: Vec::new(),
            tool: tool.to_owned(),
            line_breaks: 0,
            ends_with_break: true,
            preview: Preview::new(preview_lines),
            failure: None,
        })
    }

    /// Appends a piece of the text.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), StateError> {
        let written = self.write_all(bytes);
        self.checked(written)
    }

    /// Replaces the error of a failed write by its reason.
    pub(super) fn checked(&mut self, written: io::Result<()>) -> Result<(), StateError> {
        written.map_err(|error| self.failure.take().unwrap_or_else(|| StateError::Invalid(error.to_string())))
    }

    /// Makes the result readable under its handle.
    pub fn finish(mut self) -> Result<StoredResult, StateError> {
        let flushed = self.flush();
        self.checked(flushed)?;
        let lines = self.line_breaks + u64::from(!self.ends_with_break);
        let notes = Map::from_iter([("total_lines".to_owned(), json!(lines)), ("tool".to_owned(), json!(self.tool))]);
        let info = wait(self.blob.finish(notes))?;
        Ok(StoredResult { meta: info.into(), preview: self.preview.finish() })
    }

    fn hand_on(&mut self, bytes: &[u8]) -> io::Result<()> {
        wait(self.blob.write(bytes)).map_err(|error| {
            let told = io::Error::other(error.to_string());
            self.failure = Some(error);
            told
        })
    }
}

impl Write for ResultWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.buffer.len() + bytes.len() > BUFFER_BYTES {
            self.flush()?;
        }
        if bytes.len() > BUFFER_BYTES {
            self.hand_on(bytes)?;
        } else {
            self.buffer.extend_from_slice(bytes);
        }
        self.line_breaks += bytes.iter().map(|&byte| u64::from(byte == b'\n')).sum::<u64>();
        if let Some(last) = bytes.last() {
            self.ends_with_break = *last == b'\n';
        }
        self.preview.feed(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let gathered = std::mem::take(&mut self.buffer);
        let outcome = self.hand_on(&gathered);
        self.buffer = gathered;
        self.buffer.clear();
        outcome
    }
}

/// The first lines, each clipped, with a limit on their total size.
struct Preview {
    wanted: usize,
    lines: Vec<String>,
    bytes: usize,
    current: Vec<u8>,
    /// Number of bytes of the current line that were not kept.
    rest: u64,
}

impl Preview {
    const KEPT: usize = PREVIEW_LINE_CHARS * 4;

    fn new(wanted: usize) -> Self {
        Self { wanted, lines: Vec::new(), bytes: 0, current: Vec::new(), rest: 0 }
    }

    fn is_full(&self) -> bool {
        self.lines.len() >= self.wanted || self.bytes >= PREVIEW_BYTES
    }

    fn feed(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && !self.is_full() {
            let end = bytes.iter().position(|&byte| byte == b'\n');
            let piece = &bytes[..end.unwrap_or(bytes.len())];
            let room = Self::KEPT - self.current.len();
            self.current.extend_from_slice(&piece[..piece.len().min(room)]);
            self.rest += piece.len().saturating_sub(room) as u64;
            let Some(end) = end else { return };
            self.end_line();
            bytes = &bytes[end + 1..];
        }
    }

    fn end_line(&mut self) {
        let kept = self.current.strip_suffix(b"\r").unwrap_or(&self.current);
        let room = PREVIEW_LINE_CHARS.min(PREVIEW_BYTES.saturating_sub(self.bytes).max(1));
        let line = clipped(kept, self.rest, 0, room);
        self.bytes += line.len();
        self.lines.push(line);
        self.current.clear();
        self.rest = 0;
    }

    fn finish(mut self) -> Vec<String> {
        if !self.is_full() && (!self.current.is_empty() || self.rest > 0) {
            self.end_line();
        }
        self.lines
    }
}
