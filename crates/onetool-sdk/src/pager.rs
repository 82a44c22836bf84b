//! The shared pager for stored text: lines of a text that arrives in chunks, and the lines around matches.
//!
//! A line may be as long as the text: only its first bytes are kept, the rest is counted and dropped, so memory use is
//! constant. Callers decide what is read and how lines are shown.

use std::collections::VecDeque;
use std::ops::ControlFlow;

/// A line, possibly truncated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PagedLine<'a> {
    /// Line number, from 1.
    pub number: u64,
    /// Offset of the line in the text, in bytes.
    pub position: u64,
    /// Its first bytes, without the line break.
    pub kept: &'a [u8],
    /// Bytes of the line that were not kept.
    pub rest: u64,
}

/// Called with each line; returns whether to continue.
pub type VisitLine<'a> = &'a mut dyn FnMut(PagedLine<'_>) -> ControlFlow<()>;

/// Splits a text into lines. `\n` and `\r\n` end a line; so does the end of the text.
#[derive(Debug)]
pub struct LineCutter {
    keep: usize,
    kept: Vec<u8>,
    /// Length of the current line, including its line break.
    length: u64,
    number: u64,
    position: u64,
}

impl LineCutter {
    /// Keeps at most `keep` bytes of each line.
    pub fn new(keep: usize) -> Self {
        Self { keep, kept: Vec::new(), length: 0, number: 0, position: 0 }
    }

    /// Number of lines visited so far.
    pub fn lines(&self) -> u64 {
        self.number
    }

    /// Processes the next chunk and visits the lines that end in it.
    pub fn feed(&mut self, mut chunk: &[u8], visit: VisitLine<'_>) -> ControlFlow<()> {
        while !chunk.is_empty() {
            let end = memchr::memchr(b'\n', chunk);
            let part = &chunk[..end.unwrap_or(chunk.len())];
            let room = self.keep.saturating_sub(self.kept.len());
            self.kept.extend_from_slice(&part[..part.len().min(room)]);
            self.length += part.len() as u64;
            let Some(end) = end else { return ControlFlow::Continue(()) };
            chunk = &chunk[end + 1..];
            self.end_line(1, visit)?;
        }
        ControlFlow::Continue(())
    }

    /// Signals the end of the text: visits the last line if it has no line break.
    pub fn finish(&mut self, visit: VisitLine<'_>) -> ControlFlow<()> {
        if self.length == 0 { ControlFlow::Continue(()) } else { self.end_line(0, visit) }
    }

    fn end_line(&mut self, break_bytes: u64, visit: VisitLine<'_>) -> ControlFlow<()> {
        self.number += 1;
        let rest = self.length - self.kept.len() as u64;
        let kept = if rest == 0 { self.kept.strip_suffix(b"\r").unwrap_or(&self.kept) } else { &self.kept };
        let outcome = visit(PagedLine { number: self.number, position: self.position, kept, rest });
        self.position += self.length + break_bytes;
        self.length = 0;
        self.kept.clear();
        outcome
    }
}

/// Lines before and after matches, each shown once.
#[derive(Debug)]
pub struct Surroundings<T> {
    before: usize,
    after: usize,
    waiting: VecDeque<T>,
    owed: usize,
}

impl<T> Surroundings<T> {
    pub fn new(before: usize, after: usize) -> Self {
        Self { before, after, waiting: VecDeque::with_capacity(before), owed: 0 }
    }

    /// Call when the next line matches: returns the lines to show before it.
    pub fn matched(&mut self) -> impl Iterator<Item = T> + '_ {
        self.owed = self.after;
        self.waiting.drain(..)
    }

    /// Call when the next line does not match: returns it if it is to be shown after a match.
    pub fn passed(&mut self, line: impl FnOnce() -> T) -> Option<T> {
        if self.owed > 0 {
            self.owed -= 1;
            return Some(line());
        }
        if self.before > 0 {
            if self.waiting.len() == self.before {
                self.waiting.pop_front();
            }
            self.waiting.push_back(line());
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str, chunk: usize, keep: usize) -> Vec<(u64, u64, String, u64)> {
        let mut lines = Vec::new();
        let mut cutter = LineCutter::new(keep);
        let mut visit = |line: PagedLine<'_>| {
            let kept = String::from_utf8_lossy(line.kept).into_owned();
            lines.push((line.number, line.position, kept, line.rest));
            ControlFlow::Continue(())
        };
        for chunk in text.as_bytes().chunks(chunk) {
            assert!(cutter.feed(chunk, &mut visit).is_continue());
        }
        assert!(cutter.finish(&mut visit).is_continue());
        lines
    }

    #[test]
    fn chunks_of_any_size_make_the_same_lines() {
        let text = "one\r\n\ntwo and more\nlast";
        let whole = cut(text, text.len(), 100);
        let expected = [(1, 0, "one", 0), (2, 5, "", 0), (3, 6, "two and more", 0), (4, 19, "last", 0)];
        assert_eq!(whole, expected.map(|(number, position, kept, rest)| (number, position, kept.to_owned(), rest)));
        for size in 1..text.len() {
            assert_eq!(cut(text, size, 100), whole, "{size}");
        }
        assert_eq!(cut("", 1, 10), []);
        assert_eq!(cut("\n", 1, 10).len(), 1);
    }

    #[test]
    fn a_long_line_is_counted_but_not_kept() {
        assert_eq!(cut("abcdef\nx", 3, 4), [(1, 0, "abcd".to_owned(), 2), (2, 7, "x".to_owned(), 0)]);
    }

    #[test]
    fn a_line_is_shown_once_however_many_matches_it_is_near() {
        let mut around = Surroundings::new(2, 1);
        let mut shown = Vec::new();
        for number in 1..=9 {
            if number == 4 || number == 6 {
                shown.extend(around.matched());
                shown.push(number);
            } else {
                shown.extend(around.passed(|| number));
            }
        }
        assert_eq!(shown, [2, 3, 4, 5, 6, 7]);
    }
}
