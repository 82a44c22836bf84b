//! Formats lines of stored results.

use std::fmt::Write as _;

/// Part of a line as text, at most `characters` long, with a note on what is omitted at either end.
pub(super) fn clipped(kept: &[u8], rest: u64, start: usize, characters: usize) -> String {
    let start = boundary(kept, start);
    // At most four bytes per character; the exact cut is made between characters.
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

/// The nearest position at or before `at` that is not inside a character.
fn boundary(bytes: &[u8], at: usize) -> usize {
    let mut at = at.min(bytes.len());
    while at > 0 && at < bytes.len() && bytes[at] & 0xc0 == 0x80 {
        at -= 1;
    }
    at
}
