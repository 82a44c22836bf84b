//! Reads lines of text with a size cap, and formats them with line numbers.
//!
//! A line may be as long as the file: only its first bytes are kept and the rest is counted, so memory use stays
//! constant. `file.read`, `file.grep` and the tools on stored results format lines in the same way.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, BufRead};

/// The length and the ending of one line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LineRead {
    /// Bytes of the line without its newline.
    pub(crate) length: u64,
    /// Whether a newline followed.
    pub(crate) newline: bool,
}

/// Reads one line. `kept` gets its first `keep` bytes, without the newline. `None` at the end.
pub(crate) fn read_line(reader: &mut impl BufRead, kept: &mut Vec<u8>, keep: usize) -> io::Result<Option<LineRead>> {
    kept.clear();
    let mut length = 0_u64;
    let mut any = false;
    loop {
        let chunk = match reader.fill_buf() {
            Ok(chunk) => chunk,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if chunk.is_empty() {
            return Ok(any.then_some(LineRead { length, newline: false }));
        }
        any = true;
        let end = memchr::memchr(b'\n', chunk);
        let part = &chunk[..end.unwrap_or(chunk.len())];
        let room = keep.saturating_sub(kept.len()).min(part.len());
        kept.extend_from_slice(&part[..room]);
        length += part.len() as u64;
        let consumed = part.len() + usize::from(end.is_some());
        reader.consume(consumed);
        if end.is_some() {
            return Ok(Some(LineRead { length, newline: true }));
        }
    }
}

/// Decodes a line, without a trailing carriage return or a character that the cap cut in two. `None` for bytes that are
/// not UTF-8.
pub(crate) fn line_text(kept: &[u8], line: LineRead) -> Option<&str> {
    let whole = kept.len() as u64 == line.length;
    let kept = if whole { kept.strip_suffix(b"\r").unwrap_or(kept) } else { kept };
    match std::str::from_utf8(kept) {
        Ok(text) => Some(text),
        Err(error) if !whole && error.error_len().is_none() => std::str::from_utf8(&kept[..error.valid_up_to()]).ok(),
        Err(_) => None,
    }
}

/// At most `max_chars` characters of a line of `length` bytes, with a note of what is missing.
pub(crate) fn clip(text: &str, length: u64, max_chars: usize) -> Cow<'_, str> {
    let cut = text.char_indices().nth(max_chars).map(|(at, _)| at);
    match cut {
        None if text.len() as u64 >= length.saturating_sub(1) => Cow::Borrowed(text),
        cut => Cow::Owned(format!("{}… [clipped, the line has {length} bytes]", &text[..cut.unwrap_or(text.len())])),
    }
}

/// The part of a long line around `at`, at most `max_chars` characters.
pub(crate) fn clip_around(text: &str, at: usize, max_chars: usize) -> Cow<'_, str> {
    if text.len() <= max_chars || text.chars().nth(max_chars).is_none() {
        return Cow::Borrowed(text);
    }
    let start = text.floor_char_boundary(at.saturating_sub(max_chars / 4));
    let start =
        if start == text.len() { text.floor_char_boundary(text.len().saturating_sub(max_chars)) } else { start };
    let end = text[start..].char_indices().nth(max_chars).map_or(text.len(), |(offset, _)| start + offset);
    let before = if start > 0 { "…" } else { "" };
    let after = if end < text.len() { "…" } else { "" };
    Cow::Owned(format!("{before}{}{after} [clipped, the line has {} bytes]", &text[start..end], text.len()))
}

/// `   12\ttext`
pub(crate) fn push_numbered(out: &mut String, number: u64, text: &str) {
    let _ = writeln!(out, "{number:>6}\t{text}");
}

/// A line that matches a search: `   12:\ttext`
pub(crate) fn push_match(out: &mut String, number: u64, text: &str) {
    let _ = writeln!(out, "{number:>6}:\t{text}");
}

/// A line beside one that matches: `   12-\ttext`
pub(crate) fn push_context(out: &mut String, number: u64, text: &str) {
    let _ = writeln!(out, "{number:>6}-\t{text}");
}

/// Separates lines that are not consecutive.
pub(crate) const GAP: &str = "    --\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_is_counted_but_not_kept() {
        let text = format!("{}\nab\r\nlast", "é".repeat(1000));
        let mut reader = io::BufReader::with_capacity(7, text.as_bytes());
        let mut kept = Vec::new();
        let line = read_line(&mut reader, &mut kept, 11).unwrap().unwrap();
        assert_eq!(line, LineRead { length: 2000, newline: true });
        assert_eq!(line_text(&kept, line), Some("ééééé"));
        assert_eq!(clip("ééééé", 2000, 3), "ééé… [clipped, the line has 2000 bytes]");
        let line = read_line(&mut reader, &mut kept, 11).unwrap().unwrap();
        assert_eq!(line_text(&kept, line), Some("ab"));
        assert_eq!(clip("ab", line.length, 10), "ab");
        let line = read_line(&mut reader, &mut kept, 11).unwrap().unwrap();
        assert_eq!((line_text(&kept, line), line.newline), (Some("last"), false));
        assert_eq!(read_line(&mut reader, &mut kept, 11).unwrap(), None);
    }

    #[test]
    fn a_long_line_is_clipped_around_its_match() {
        let text = format!("{}needle{}", "x".repeat(5000), "y".repeat(5000));
        let shown = clip_around(&text, 5000, 40);
        assert!(shown.contains("needle"), "{shown}");
        assert!(shown.len() < 120, "{shown}");
    }
}
