//! Reading stored outputs by lines, a chunk at a time: memory does not grow with the output.

use std::fmt::Write as _;
use std::ops::ControlFlow;

use regex::{Regex, RegexBuilder};

use super::content::{CHUNK_BYTES, Shape, shape};
use super::store::{OutputRef, OutputStore};
use crate::{LineCutter, PagedLine, Surroundings, ToolError};

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
        let pattern =
            RegexBuilder::new(pattern).multi_line(true).crlf(true).size_limit(MAX_PATTERN_BYTES).build().map_err(
                |error| {
                    ToolError::arguments(format!("the pattern is not a regular expression: {error}"))
                        .with_hint("search for plain text instead, or escape the special characters")
                },
            )?;
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

/// A stretch of an output.
enum Segment {
    Stored(OutputRef),
    /// A line that stands for something that is not text.
    Said(String),
}

/// Visits the lines of an output one after the other. The end of a stretch ends its last line.
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
        // A character that the cut went through is left out too.
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
