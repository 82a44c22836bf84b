//! A text file in memory: its text, and everything else that a change must preserve.
//!
//! Bytes that are not UTF-8 are refused with a reason, never converted: a file that could not be written back unchanged
//! is not read. The byte order mark is kept apart from the text; line endings stay in it.

use std::io::Read as _;

use onetool_sdk::{ErrorKind, ToolError};

use super::place::{Place, io_error};

const BOM: &str = "\u{feff}";

/// Line endings of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Newline {
    Lf,
    Crlf,
}

impl Newline {
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Lf => "\n",
            Self::Crlf => "\r\n",
        }
    }

    /// The most frequent line ending; `None` for a text without one.
    pub(super) fn dominant(text: &str) -> Option<Self> {
        let all = text.matches('\n').count();
        let crlf = text.matches("\r\n").count();
        match all {
            0 => None,
            _ if crlf * 2 > all => Some(Self::Crlf),
            _ => Some(Self::Lf),
        }
    }

    /// The ending of all lines; `None` if they differ or there are none.
    pub(super) fn only(text: &str) -> Option<Self> {
        let all = text.matches('\n').count();
        let crlf = text.matches("\r\n").count();
        match crlf {
            _ if all == 0 => None,
            0 => Some(Self::Lf),
            _ if crlf == all => Some(Self::Crlf),
            _ => None,
        }
    }

    /// Converts all line endings of a text.
    pub(super) fn apply(self, text: &str) -> String {
        let unix = text.replace("\r\n", "\n");
        match self {
            Self::Lf => unix,
            Self::Crlf => unix.replace('\n', "\r\n"),
        }
    }
}

/// A text file in memory.
#[derive(Debug, Clone)]
pub(super) struct Content {
    /// Without the byte order mark.
    pub(super) text: String,
    pub(super) bom: bool,
    /// Hash of the bytes on disk.
    pub(super) hash: String,
}

impl Content {
    pub(super) fn load(place: &Place, max_bytes: usize) -> Result<Self, ToolError> {
        let file = place.open_file()?;
        let mut bytes = Vec::new();
        file.take(max_bytes as u64 + 1).read_to_end(&mut bytes).map_err(|error| io_error(&place.shown, &error))?;
        if bytes.len() > max_bytes {
            return Err(too_large(&place.shown, max_bytes));
        }
        Self::from_bytes(&place.shown, bytes)
    }

    pub(super) fn from_bytes(shown: &str, bytes: Vec<u8>) -> Result<Self, ToolError> {
        refuse_binary(shown, &bytes)?;
        let hash = hash(&bytes);
        let text = String::from_utf8(bytes).map_err(|error| {
            let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            not_utf8(shown, 1 + memchr::memchr_iter(b'\n', valid).count() as u64)
        })?;
        Ok(match text.strip_prefix(BOM) {
            Some(rest) => Self { text: rest.to_owned(), bom: true, hash },
            None => Self { text, bom: false, hash },
        })
    }

    /// Encodes a new text with this file's byte order mark.
    pub(super) fn bytes_with(&self, text: &str) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(text.len() + 3);
        if self.bom && !text.starts_with(BOM) {
            bytes.extend_from_slice(BOM.as_bytes());
        }
        bytes.extend_from_slice(text.as_bytes());
        bytes
    }

    /// The text with its byte order mark.
    pub(super) fn full_text(&self) -> String {
        let mark = if self.bom { BOM } else { "" };
        format!("{mark}{}", self.text)
    }

    pub(super) fn check_hash(&self, shown: &str, expected: Option<&str>) -> Result<(), ToolError> {
        match expected {
            Some(expected) if expected != self.hash => Err(ToolError::new(
                ErrorKind::Conflict,
                format!("{shown} has changed: its hash is {}, expected was {expected}", self.hash),
            )
            .with_hint("read the file again and repeat the change on what it holds now")),
            _ => Ok(()),
        }
    }
}

pub(super) fn too_large(shown: &str, max_bytes: usize) -> ToolError {
    ToolError::new(ErrorKind::TooLarge, format!("{shown} is larger than {max_bytes} bytes"))
        .with_hint("file.read with offset and limit and file.grep work on files of any size")
}

/// The hash of a file's content, as 32 hex digits.
pub(super) fn hash(bytes: &[u8]) -> String {
    hash_text(&blake3::hash(bytes))
}

pub(super) fn hash_text(hash: &blake3::Hash) -> String {
    hash.to_hex().chars().take(32).collect()
}

pub(super) fn refuse_binary(shown: &str, start: &[u8]) -> Result<(), ToolError> {
    let reason = if start.starts_with(b"\xff\xfe") || start.starts_with(b"\xfe\xff") {
        "UTF-16 text, not UTF-8"
    } else if start.contains(&0) {
        "a binary file (it contains zero bytes)"
    } else {
        return Ok(());
    };
    Err(ToolError::value_error(format!("{shown} is {reason}; only UTF-8 text can be read or changed"))
        .with_hint("file.info shows its size and kind"))
}

pub(super) fn not_utf8(shown: &str, line: u64) -> ToolError {
    ToolError::value_error(format!(
        "{shown} is not UTF-8 text (line {line}); it can't be read or changed without damage"
    ))
    .with_hint("file.info shows its size and kind")
}
