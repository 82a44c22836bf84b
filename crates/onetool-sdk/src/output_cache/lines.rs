//! Reads stored outputs by lines, one chunk at a time: memory does not grow with the output.

use std::fmt::Write as _;
use std::ops::ControlFlow;

use regex::{Regex, RegexBuilder};

use super::content::{CHUNK_BYTES, Shape, shape};
use super::store::{OutputRef, OutputStore};
use crate::{LineCutter, PagedLine, Surroundings, ToolError};

/// Maximum length of a returned line, in bytes; a note says how much of a longer line is left out.
pub const MAX_LINE_BYTES: usize = 4 << 10;
/// Maximum size of a page, in bytes, regardless of the number of lines requested.
pub const MAX_PAGE_BYTES: usize = 64 << 10;
/// Maximum size of a compiled search pattern, in bytes.
const MAX_PATTERN_BYTES: usize = 1 << 20;
/// Maximum number of lines around a match.
const MAX_SURROUNDINGS: usize = 50;

/// A range of lines; the first line is 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineRange {
    pub first: u64,
    pub count: usize,
}

/// A search for matching lines.
#[derive(Debug, Clone)]
pub struct OutputSearch {
    pattern: Regex,
    before: usize,
    after: usize,
    max_matches: usize,
}

impl OutputSearch {
    /// Searches for lines that contain `text` literally.
    pub fn text(text: &str) -> Result<Self, ToolError> {
        Self::regex(&regex::escape(text))
    }

    /// Searches for lines that match a regular expression.
    pub fn regex(pattern: &str) -> Result<Self, ToolError> {
        let pattern =
            RegexBuilder::new(pattern).multi_line(true).crlf(true).size_limit(MAX_PATTERN_BYTES).build().map_err(
                |error| {
                    ToolError::arguments(format!("the pattern is not a regular expression: {error}"))
                        .with_hint("search for plain text instead, or escape the special characters")
                },
            )?;
        Ok(Self { pattern, before: 0, after: 0, max_matches: 100 })
    }

    /// Also returns this many lines around each match.
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
    /// Line number, from 1.
    pub number: u64,
    pub text: String,
    /// Whether the search matched this line; `false` for surrounding lines.
    pub is_match: bool,
}

/// Some lines of an output.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LinePage {
    pub lines: Vec<OutputLine>,
    /// The next line, if there are more: of the page, or matching the search.
    pub next: Option<u64>,
}

impl LinePage {
    /// Renders one line each: number, a tab (or `:` after the number of a matching line), the text.
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
    let mut page = LinePage::default();
    let mut bytes = 0;
    each_line(store, scope, reference, |line| {
        if line.number < range.first {
            return ControlFlow::Continue(());
        }
        let text = text_of(line);
        if page.lines.len() >= range.count || bytes + text.len() > MAX_PAGE_BYTES {
            page.next = Some(line.number);
            return ControlFlow::Break(());
        }
        bytes += text.len();
        page.lines.push(OutputLine { number: line.number, text, is_match: false });
        ControlFlow::Continue(())
    })
    .await?;
    Ok(page)
}

pub(super) async fn search(
    store: &dyn OutputStore,
    scope: &str,
    reference: &OutputRef,
    search: &OutputSearch,
) -> Result<LinePage, ToolError> {
    let mut page = LinePage::default();
    let mut around = Surroundings::new(search.before, search.after);
    let (mut matches, mut bytes) = (0, 0);
    each_line(store, scope, reference, |line| {
        let text = text_of(line);
        let is_match = search.pattern.is_match(&text);
        if is_match && (matches >= search.max_matches || bytes > MAX_PAGE_BYTES) {
            page.next = Some(line.number);
            return ControlFlow::Break(());
        }
        let line = OutputLine { number: line.number, text, is_match };
        let shown = page.lines.len();
        if is_match {
            matches += 1;
            page.lines.extend(around.matched());
            page.lines.push(line);
        } else {
            page.lines.extend(around.passed(|| line));
        }
        bytes += page.lines[shown..].iter().map(|line| line.text.len()).sum::<usize>();
        ControlFlow::Continue(())
    })
    .await?;
    Ok(page)
}

/// A section of an output.
enum Segment {
    Stored(OutputRef),
    /// A line that represents something that is not text.
    Said(String),
}

/// Visits the lines of an output in order. The end of a segment ends its last line.
async fn each_line(
    store: &dyn OutputStore,
    scope: &str,
    reference: &OutputRef,
    mut visit: impl FnMut(PagedLine<'_>) -> ControlFlow<()> + Send,
) -> Result<(), ToolError> {
    let mut cutter = LineCutter::new(MAX_LINE_BYTES);
    for segment in segments(store, scope, reference).await? {
        match segment {
            Segment::Said(text) => {
                if cutter.feed(text.as_bytes(), &mut visit).is_break() {
                    return Ok(());
                }
            }
            Segment::Stored(reference) => {
                let mut offset = 0;
                loop {
                    let chunk = store.read(scope, &reference, offset, CHUNK_BYTES).await?;
                    offset += chunk.len() as u64;
                    if chunk.is_empty() {
                        break;
                    }
                    if cutter.feed(&chunk, &mut visit).is_break() {
                        return Ok(());
                    }
                }
            }
        }
        if cutter.finish(&mut visit).is_break() {
            return Ok(());
        }
    }
    Ok(())
}

async fn segments(store: &dyn OutputStore, scope: &str, reference: &OutputRef) -> Result<Vec<Segment>, ToolError> {
    let entries = match shape(store, scope, reference).await? {
        Shape::Single(stored) if is_readable(&stored.media_type) => return Ok(vec![Segment::Stored(stored.reference)]),
        Shape::Single(stored) => {
            return Ok(vec![Segment::Said(format!("[{}, {} bytes]", stored.media_type, stored.bytes))]);
        }
        Shape::Parts(entries) => entries,
    };
    let segment = |entry: &super::content::PartEntry| {
        Ok(if entry.is_text() { Segment::Stored(entry.reference()?) } else { Segment::Said(entry.placeholder()) })
    };
    entries.iter().map(segment).collect()
}

fn text_of(line: PagedLine<'_>) -> String {
    let mut text = String::from_utf8_lossy(line.kept).into_owned();
    if line.rest > 0 {
        // A character split by the cut is left out too.
        while text.ends_with('\u{fffd}') {
            text.pop();
        }
        let _ = write!(text, "… ({} more bytes)", line.rest);
    }
    text
}

fn is_readable(media_type: &str) -> bool {
    media_type.starts_with("text/") || media_type.contains("json")
}
