//! Reading stored outputs by lines, a chunk at a time: memory does not grow with the output.

use std::collections::VecDeque;
use std::fmt::Write as _;

use regex::{Regex, RegexBuilder};

use super::content::{CHUNK_BYTES, Shape, shape};
use super::store::{OutputRef, OutputStore};
use crate::ToolError;

/// How much of one line is given, in bytes; the rest of a longer line is left out and said to be.
pub const MAX_LINE_BYTES: usize = 4 << 10;
/// How large a page gets, in bytes, however many lines were asked for.
pub const MAX_PAGE_BYTES: usize = 64 << 10;
/// How large a compiled search pattern may get, in bytes.
const MAX_PATTERN_BYTES: usize = 1 << 20;
/// How many lines around a match a search gives at most.
const MAX_SURROUNDINGS: usize = 50;

/// Which lines; the first line is 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineRange {
    pub first: u64,
    pub count: usize,
}

/// What to look for.
#[derive(Debug, Clone)]
pub struct OutputSearch {
    pattern: Regex,
    before: usize,
    after: usize,
    max_matches: usize,
}

impl OutputSearch {
    /// Lines that contain `text` as it is.
    pub fn text(text: &str) -> Result<Self, ToolError> {
        Self::regex(&regex::escape(text))
    }

    /// Lines that match a regular expression.
    pub fn regex(pattern: &str) -> Result<Self, ToolError> {
        let pattern = RegexBuilder::new(pattern).size_limit(MAX_PATTERN_BYTES).build().map_err(|error| {
            ToolError::arguments(format!("the pattern is not a regular expression: {error}"))
                .with_hint("search for plain text instead, or escape the special characters")
        })?;
        Ok(Self { pattern, before: 0, after: 0, max_matches: 100 })
    }

    /// Also gives so many lines around each match.
    #[must_use]
    pub fn with_surroundings(self, before: usize, after: usize) -> Self {
        Self { before: before.min(MAX_SURROUNDINGS), after: after.min(MAX_SURROUNDINGS), ..self }
    }

    #[must_use]
    pub fn with_max_matches(self, max_matches: usize) -> Self {
        Self { max_matches, ..self }
    }
}

/// One line of an output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputLine {
    /// Counted from 1.
    pub number: u64,
    pub text: String,
    /// Whether a search found this line, rather than giving it as a surrounding.
    pub is_match: bool,
}

/// Some lines of an output.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LinePage {
    pub lines: Vec<OutputLine>,
    /// The next line, where there are more: lines of a page, or matches of a search.
    pub next: Option<u64>,
}

impl LinePage {
    /// One line each: number, a tab (or `:` behind the number of a match of a search), the text.
    pub fn render(&self) -> String {
        let mut text = String::new();
        let mut previous: Option<u64> = None;
        for line in &self.lines {
            if previous.is_some_and(|previous| previous + 1 < line.number) {
                text.push_str("--\n");
            }
            let mark = if line.is_match { ":" } else { "" };
            let _ = writeln!(text, "{:>6}{mark}\t{}", line.number, line.text);
            previous = Some(line.number);
        }
        if let Some(next) = self.next {
            let _ = writeln!(text, "(more from line {next})");
        }
        text
    }
}

pub(super) async fn page(
    store: &dyn OutputStore,
    scope: &str,
    reference: &OutputRef,
    range: LineRange,
) -> Result<LinePage, ToolError> {
    let mut reader = Reader::open(store, scope, reference).await?;
    let mut page = LinePage::default();
    let mut bytes = 0;
    while let Some((number, text)) = reader.next().await? {
        if number < range.first {
            continue;
        }
        if page.lines.len() >= range.count || bytes + text.len() > MAX_PAGE_BYTES {
            page.next = Some(number);
            break;
        }
        bytes += text.len();
        page.lines.push(OutputLine { number, text, is_match: false });
    }
    Ok(page)
}

pub(super) async fn search(
    store: &dyn OutputStore,
    scope: &str,
    reference: &OutputRef,
    search: &OutputSearch,
) -> Result<LinePage, ToolError> {
    let mut reader = Reader::open(store, scope, reference).await?;
    let mut page = LinePage::default();
    let mut before: VecDeque<OutputLine> = VecDeque::new();
    let (mut matches, mut bytes, mut after) = (0, 0, 0);
    while let Some((number, text)) = reader.next().await? {
        let is_match = search.pattern.is_match(&text);
        if is_match && (matches >= search.max_matches || bytes > MAX_PAGE_BYTES) {
            page.next = Some(number);
            break;
        }
        let line = OutputLine { number, text, is_match };
        if is_match {
            matches += 1;
            after = search.after;
            let waiting = std::mem::take(&mut before);
            bytes += waiting.iter().map(|line| line.text.len()).sum::<usize>() + line.text.len();
            page.lines.extend(waiting);
            page.lines.push(line);
        } else if after > 0 {
            after -= 1;
            bytes += line.text.len();
            page.lines.push(line);
        } else if search.before > 0 {
            if before.len() == search.before {
                before.pop_front();
            }
            before.push_back(line);
        }
    }
    Ok(page)
}

/// A stretch of an output.
enum Segment {
    Stored(OutputRef),
    /// A line that stands for something that is not text.
    Said(String),
}

/// Gives the lines of an output one after the other.
struct Reader<'a> {
    store: &'a dyn OutputStore,
    scope: &'a str,
    segments: VecDeque<Segment>,
    /// The stored stretch that is being read, and how far.
    current: Option<(OutputRef, u64)>,
    chunk: Vec<u8>,
    position: usize,
    number: u64,
}

impl<'a> Reader<'a> {
    async fn open(store: &'a dyn OutputStore, scope: &'a str, reference: &OutputRef) -> Result<Self, ToolError> {
        let segments = match shape(store, scope, reference).await? {
            Shape::Single(stored) if is_readable(&stored.media_type) => {
                VecDeque::from([Segment::Stored(stored.reference)])
            }
            Shape::Single(stored) => {
                VecDeque::from([Segment::Said(format!("[{}, {} bytes]", stored.media_type, stored.bytes))])
            }
            Shape::Parts(entries) => {
                let mut segments = VecDeque::with_capacity(entries.len());
                for entry in entries {
                    segments.push_back(if entry.is_text() {
                        Segment::Stored(entry.reference()?)
                    } else {
                        Segment::Said(entry.placeholder())
                    });
                }
                segments
            }
        };
        Ok(Self { store, scope, segments, current: None, chunk: Vec::new(), position: 0, number: 0 })
    }

    async fn next(&mut self) -> Result<Option<(u64, String)>, ToolError> {
        let mut line: Vec<u8> = Vec::new();
        let mut length = 0_usize;
        loop {
            if self.position == self.chunk.len() && !self.refill().await? {
                // The end of a stretch ends its last line, also one without a newline.
                if length > 0 {
                    return Ok(Some(self.finished(line, length)));
                }
                match self.segments.pop_front() {
                    Some(Segment::Stored(reference)) => self.current = Some((reference, 0)),
                    Some(Segment::Said(text)) => {
                        let length = text.len();
                        return Ok(Some(self.finished(text.into_bytes(), length)));
                    }
                    None => return Ok(None),
                }
                continue;
            }
            let rest = &self.chunk[self.position..];
            let newline = rest.iter().position(|byte| *byte == b'\n');
            let stretch = newline.unwrap_or(rest.len());
            let room = MAX_LINE_BYTES.saturating_sub(line.len());
            line.extend_from_slice(&rest[..stretch.min(room)]);
            length += stretch;
            self.position += stretch + usize::from(newline.is_some());
            if newline.is_some() {
                return Ok(Some(self.finished(line, length)));
            }
        }
    }

    /// Reads the next chunk of the current stretch; `false` at its end.
    async fn refill(&mut self) -> Result<bool, ToolError> {
        let Some((reference, offset)) = &mut self.current else { return Ok(false) };
        self.chunk = self.store.read(self.scope, reference, *offset, CHUNK_BYTES).await?;
        self.position = 0;
        *offset += self.chunk.len() as u64;
        if self.chunk.is_empty() {
            self.current = None;
        }
        Ok(!self.chunk.is_empty())
    }

    fn finished(&mut self, line: Vec<u8>, length: usize) -> (u64, String) {
        self.number += 1;
        let cut = length - line.len();
        let mut text = String::from_utf8_lossy(&line).into_owned();
        if cut > 0 {
            // A character that the cut went through is left out too.
            while text.ends_with('\u{fffd}') {
                text.pop();
            }
            let _ = write!(text, "… ({cut} more bytes)");
        } else if text.ends_with('\r') {
            text.pop();
        }
        (self.number, text)
    }
}

fn is_readable(media_type: &str) -> bool {
    media_type.starts_with("text/") || media_type.contains("json")
}
