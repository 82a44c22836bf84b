//! Keeps the last output of a child. Standard error is always read, so a child that writes a lot never blocks.

use std::collections::VecDeque;

const KEPT_BYTES: usize = 16 << 10;
const SHOWN_LINES: usize = 12;
const SHOWN_BYTES: usize = 2000;

/// The end of a stream.
#[derive(Debug, Default)]
pub(super) struct Tail {
    kept: VecDeque<u8>,
}

impl Tail {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let bytes = &bytes[bytes.len().saturating_sub(KEPT_BYTES)..];
        self.kept.extend(bytes);
        let surplus = self.kept.len().saturating_sub(KEPT_BYTES);
        self.kept.drain(..surplus);
    }

    /// Returns the last lines, few enough to be shown.
    pub(super) fn last_lines(&self) -> String {
        let (front, back) = self.kept.as_slices();
        let bytes = [front, back].concat();
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
        let shown = lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n");
        let mut start = shown.len().saturating_sub(SHOWN_BYTES);
        while !shown.is_char_boundary(start) {
            start += 1;
        }
        shown[start..].to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_end_is_kept() {
        let mut tail = Tail::default();
        for number in 0..100_000 {
            tail.push(format!("line {number} ü\n").as_bytes());
        }
        assert!(tail.kept.len() <= KEPT_BYTES);
        let shown = tail.last_lines();
        assert!(shown.ends_with("line 99999 ü"));
        assert_eq!(shown.lines().count(), SHOWN_LINES);
        tail.push(&vec![b'x'; 1 << 20]);
        assert_eq!(tail.last_lines().len(), SHOWN_BYTES);
    }
}

/// The maximum length of a line that is kept whole.
const MAX_LINE: usize = 16 << 10;

/// Splits bytes that arrive in pieces into lines.
#[derive(Debug, Default)]
pub(super) struct Lines {
    begun: Vec<u8>,
}

impl Lines {
    /// Returns the lines that are now complete.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<String> {
        let mut complete = Vec::new();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.begun.extend_from_slice(piece);
            if piece.ends_with(b"\n") || self.begun.len() >= MAX_LINE {
                complete.extend(self.rest());
            }
        }
        complete
    }

    /// Returns the incomplete last line.
    pub(super) fn rest(&mut self) -> Option<String> {
        let line = std::mem::take(&mut self.begun);
        if line.is_empty() {
            return None;
        }
        let text = line.strip_suffix(b"\n").map_or(line.as_slice(), |line| line.strip_suffix(b"\r").unwrap_or(line));
        Some(String::from_utf8_lossy(text).into_owned())
    }
}
