//! Lines of a file of any size, in a buffer that does not grow with them.

use std::fmt::Write as _;
use std::io::{self, BufRead, Read as _};

/// One line: what was kept of it, and how long it is.
pub(super) struct Line<'a> {
    /// The first bytes, without the line break.
    pub(super) kept: &'a [u8],
    /// Where the line begins in the file.
    pub(super) position: u64,
    /// Bytes that were not kept.
    pub(super) rest: u64,
}

pub(super) struct Lines<R> {
    reader: R,
    buffer: Vec<u8>,
    kept_bytes: usize,
    position: u64,
}

impl<R: BufRead> Lines<R> {
    /// Keeps at most `kept_bytes` of each line. `position` is where the reader stands.
    pub(super) fn new(reader: R, kept_bytes: usize, position: u64) -> Self {
        Self { reader, buffer: Vec::new(), kept_bytes, position }
    }

    pub(super) fn into_inner(self) -> R {
        self.reader
    }

    /// Passes over a line. `false` at the end.
    pub(super) fn skip(&mut self) -> io::Result<bool> {
        let passed = self.reader.skip_until(b'\n')?;
        self.position += passed as u64;
        Ok(passed > 0)
    }

    pub(super) fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        let position = self.position;
        self.buffer.clear();
        let read = (&mut self.reader).take(self.kept_bytes as u64).read_until(b'\n', &mut self.buffer)?;
        if read == 0 {
            return Ok(None);
        }
        self.position += read as u64;
        let mut rest = 0;
        if self.buffer.last() == Some(&b'\n') {
            self.buffer.pop();
            if self.buffer.last() == Some(&b'\r') {
                self.buffer.pop();
            }
        } else if read == self.kept_bytes {
            let skipped = self.reader.skip_until(b'\n')? as u64;
            self.position += skipped;
            rest = skipped.saturating_sub(1);
        }
        Ok(Some(Line { kept: &self.buffer, position, rest }))
    }
}

/// A piece of a line as text, at most `characters` long, with a note on what is missing at either side.
pub(super) fn clipped(kept: &[u8], rest: u64, start: usize, characters: usize) -> String {
    let start = boundary(kept, start);
    // Four bytes a character at most; the cut itself is made between characters.
    let end = boundary(kept, kept.len().min(start + characters.saturating_mul(4)));
    let text = String::from_utf8_lossy(&kept[start..end]);
    let cut = text.char_indices().nth(characters).map_or(text.len(), |(at, _)| at);
    let missing = (kept.len() - end) as u64 + (text.len() - cut) as u64 + rest;
    let mut line = String::with_capacity(cut + 32);
    if start > 0 {
        let _ = write!(line, "[{start} bytes before] ...");
    }
    line.push_str(&text[..cut]);
    if missing > 0 {
        let _ = write!(line, "... [{missing} bytes more]");
    }
    line
}

/// The nearest place at or before `at` that is not inside a character.
fn boundary(bytes: &[u8], at: usize) -> usize {
    let mut at = at.min(bytes.len());
    while at > 0 && at < bytes.len() && bytes[at] & 0xc0 == 0x80 {
        at -= 1;
    }
    at
}
