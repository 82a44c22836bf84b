//! Reads part of a stored result: by line, by regular expression, or by similarity.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, BufRead as _, BufReader, Seek as _, SeekFrom};
use std::ops::ControlFlow;

use onetool_sdk::{LineCutter, PagedLine, Value};
use regex::bytes::{Regex, RegexBuilder};

use super::lines::clipped;
use super::{Meta, ResultError, ResultReader};
use crate::fuzzy;
use crate::interface::StateError;

/// Maximum length of a line in a reply.
const REPLY_LINE_CHARS: usize = 2_000;
/// How much of a long line is searched.
const SEARCHED_BYTES: usize = 1024 * 1024;
/// How much of a long line is compared by similarity.
const COMPARED_BYTES: usize = 8 * 1024;
/// Maximum number of words in a line that are compared by similarity.
const COMPARED_WORDS: usize = 400;
/// Maximum number of lines that a search by similarity ranks.
const RANKED_LINES: usize = 10_000;
/// Minimum similarity of a match.
const LIKENESS_FLOOR: f32 = 0.5;
/// Maximum memory of a compiled regular expression.
const PATTERN_BYTES: usize = 4 * 1024 * 1024;
/// Number of lines after which `keep_going` is called.
const LINES_A_CHECK: u64 = 1024;
const BUFFER_BYTES: usize = 256 * 1024;

/// How `search` is interpreted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Matching {
    /// A case-insensitive regular expression.
    Regex,
    /// Words, tolerating typos; best lines first.
    Fuzzy,
}

/// Selects lines of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    offset: u64,
    limit: u64,
    search: Option<(String, Matching)>,
    reply_bytes: usize,
}

impl Query {
    /// `limit` lines from line `offset` on, starting at 1. The reply holds about `reply_bytes` at most: lines that do
    /// not fit are left for the next query.
    pub fn new(offset: i64, limit: i64, reply_bytes: usize) -> Result<Self, ResultError> {
        let positive = |number: i64| u64::try_from(number).ok().filter(|number| *number > 0);
        Ok(Self {
            offset: positive(offset).ok_or(ResultError::Offset(offset))?,
            limit: positive(limit).ok_or(ResultError::Limit(limit))?,
            search: None,
            reply_bytes,
        })
    }

    /// Only matching lines; `offset` and `limit` then count matches.
    #[must_use]
    pub fn searching(mut self, search: &str, matching: Matching) -> Self {
        self.search = Some((search.to_owned(), matching)).filter(|(search, _)| !search.is_empty());
        self
    }
}

/// Part of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    pub lines: Vec<String>,
    /// In the whole result, regardless of the search.
    pub total_lines: u64,
    pub offset: u64,
    pub has_more: bool,
}

impl Page {
    pub fn to_value(&self) -> Value {
        let number = |value: u64| Value::Int(i64::try_from(value).unwrap_or(i64::MAX));
        let fields = [
            ("lines", Value::List(self.lines.iter().map(|line| Value::Str(line.clone())).collect())),
            ("total_lines", number(self.total_lines)),
            ("returned", number(self.lines.len() as u64)),
            ("offset", number(self.offset)),
            ("has_more", Value::Bool(self.has_more)),
        ];
        Value::Dict(fields.into_iter().map(|(key, value)| (Value::from(key), value)).collect())
    }
}

pub(super) fn run(
    meta: &Meta,
    file: ResultReader,
    query: &Query,
    keep_going: &dyn Fn() -> bool,
) -> Result<Page, ResultError> {
    let scan = Scan { meta, query, keep_going };
    match &query.search {
        None => scan.by_line(file),
        Some((pattern, Matching::Regex)) => scan.by_pattern(file, &compile(pattern)?),
        Some((words, Matching::Fuzzy)) => scan.by_likeness(file, &words.to_lowercase()),
    }
}

fn compile(pattern: &str) -> Result<Regex, ResultError> {
    RegexBuilder::new(pattern)
        .case_insensitive(true)
        .multi_line(true)
        .crlf(true)
        .size_limit(PATTERN_BYTES)
        .dfa_size_limit(PATTERN_BYTES)
        .build()
        .map_err(|error| ResultError::Pattern(error.to_string()))
}

/// The lines of a reply, until it is full.
struct Reply {
    lines: Vec<String>,
    room: usize,
    line_chars: usize,
}

impl Reply {
    fn new(bytes: usize) -> Self {
        Self { lines: Vec::new(), room: bytes, line_chars: REPLY_LINE_CHARS.min(bytes / 2).max(16) }
    }

    /// Adds a line, or returns false if there is no room. The first line always fits.
    fn take(&mut self, line: String) -> bool {
        // In JSON, quotes, backslashes and control characters take more than one byte.
        let escapes = line.bytes().filter(|byte| matches!(byte, b'"' | b'\\' | 0..=31)).count();
        let cost = line.len() + escapes + 3;
        if cost > self.room && !self.lines.is_empty() {
            return false;
        }
        self.room = self.room.saturating_sub(cost);
        self.lines.push(line);
        true
    }
}

struct Scan<'a> {
    meta: &'a Meta,
    query: &'a Query,
    keep_going: &'a dyn Fn() -> bool,
}

impl Scan<'_> {
    fn io(&self, error: io::Error) -> ResultError {
        let handle = &self.meta.handle;
        ResultError::State(StateError::Invalid(format!("the result {handle} can't be read: {error}")))
    }

    fn page(&self, reply: Reply, has_more: bool) -> Page {
        Page { lines: reply.lines, total_lines: self.meta.total_lines, offset: self.query.offset, has_more }
    }

    /// Visits lines until `visit` breaks or `keep_going` returns false.
    fn each_line(
        &self,
        file: &mut ResultReader,
        keep: usize,
        mut visit: impl FnMut(PagedLine<'_>) -> ControlFlow<()>,
    ) -> Result<(), ResultError> {
        let mut reader = BufReader::with_capacity(BUFFER_BYTES, file);
        let mut cutter = LineCutter::new(keep);
        let mut is_wanted = true;
        let mut checked = |line: PagedLine<'_>| {
            is_wanted = !line.number.is_multiple_of(LINES_A_CHECK) || (self.keep_going)();
            if is_wanted { visit(line) } else { ControlFlow::Break(()) }
        };
        loop {
            let chunk = reader.fill_buf().map_err(|error| self.io(error))?;
            let length = chunk.len();
            let flow = if length == 0 { cutter.finish(&mut checked) } else { cutter.feed(chunk, &mut checked) };
            if length == 0 || flow.is_break() {
                break;
            }
            reader.consume(length);
        }
        if is_wanted { Ok(()) } else { Err(ResultError::Cancelled) }
    }

    fn by_line(&self, mut file: ResultReader) -> Result<Page, ResultError> {
        let mut reply = Reply::new(self.query.reply_bytes);
        if self.query.offset > self.meta.total_lines {
            return Ok(self.page(reply, false));
        }
        self.each_line(&mut file, REPLY_LINE_CHARS * 4, |line| {
            if line.number < self.query.offset {
                return ControlFlow::Continue(());
            }
            let is_full = reply.lines.len() as u64 >= self.query.limit;
            if is_full || !reply.take(clipped(line.kept, line.rest, 0, reply.line_chars)) {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        })?;
        let reached = self.query.offset - 1 + reply.lines.len() as u64;
        Ok(self.page(reply, reached < self.meta.total_lines))
    }

    fn by_pattern(&self, mut file: ResultReader, pattern: &Regex) -> Result<Page, ResultError> {
        let mut reply = Reply::new(self.query.reply_bytes);
        let (mut matches, mut has_more) = (0_u64, false);
        self.each_line(&mut file, SEARCHED_BYTES, |line| {
            let Some(found) = pattern.find(line.kept) else { return ControlFlow::Continue(()) };
            matches += 1;
            if matches < self.query.offset {
                return ControlFlow::Continue(());
            }
            let is_full = reply.lines.len() as u64 >= self.query.limit;
            has_more = is_full || !reply.take(around(line.kept, line.rest, found.start(), reply.line_chars));
            if has_more { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        Ok(self.page(reply, has_more))
    }

    /// Two passes: the first finds the best lines, the second fetches the requested ones.
    fn by_likeness(&self, mut file: ResultReader, words: &str) -> Result<Page, ResultError> {
        let wanted =
            usize::try_from(self.query.offset - 1 + self.query.limit).unwrap_or(RANKED_LINES).min(RANKED_LINES);
        let mut ranking: BinaryHeap<Reverse<Ranked>> = BinaryHeap::with_capacity(wanted + 1);
        let tokens: Vec<&str> = fuzzy::words(words).collect();
        let mut matches = 0_u64;
        let mut lower = String::new();
        self.each_line(&mut file, COMPARED_BYTES, |line| {
            lower_case(line.kept, &mut lower);
            let score = likeness(words.trim(), &tokens, &lower);
            if score >= LIKENESS_FLOOR {
                matches += 1;
                let millionths = (score * 1e6) as u32;
                ranking.push(Reverse(Ranked { millionths, earlier: Reverse(line.number), position: line.position }));
                if ranking.len() > wanted {
                    ranking.pop();
                }
            }
            ControlFlow::Continue(())
        })?;
        let best = ranking.into_sorted_vec();
        let mut reply = Reply::new(self.query.reply_bytes);
        let skipped = usize::try_from(self.query.offset - 1).unwrap_or(usize::MAX);
        for Reverse(ranked) in best.into_iter().skip(skipped) {
            if !(self.keep_going)() {
                return Err(ResultError::Cancelled);
            }
            file.seek(SeekFrom::Start(ranked.position)).map_err(|error| self.io(error))?;
            let mut is_taken = false;
            self.each_line(&mut file, REPLY_LINE_CHARS * 4, |line| {
                is_taken = reply.take(clipped(line.kept, line.rest, 0, reply.line_chars));
                ControlFlow::Break(())
            })?;
            if !is_taken {
                break;
            }
        }
        let reached = self.query.offset - 1 + reply.lines.len() as u64;
        let has_more = reached < matches.min(RANKED_LINES as u64);
        Ok(self.page(reply, has_more))
    }
}

/// Orders by score, then by line: of two equal lines, the earlier is better.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Ranked {
    millionths: u32,
    earlier: Reverse<u64>,
    position: u64,
}

/// The part of a long line around the match.
fn around(kept: &[u8], rest: u64, at: usize, characters: usize) -> String {
    let start = if at + 100 < characters { 0 } else { at.saturating_sub(characters / 2) };
    clipped(kept, rest, start, characters)
}

/// Fills `lower` with the line; ASCII, which is most text, needs no new allocation.
fn lower_case(line: &[u8], lower: &mut String) {
    lower.clear();
    let text = String::from_utf8_lossy(line);
    if text.is_ascii() {
        lower.push_str(&text);
        lower.make_ascii_lowercase();
    } else {
        lower.push_str(&text.to_lowercase());
    }
}

/// How well a line matches: the whole phrase first, then the mean of the best match of each word.
fn likeness(phrase: &str, tokens: &[&str], line: &str) -> f32 {
    if line.contains(phrase) {
        return 1.0 + 0.5 * phrase.len() as f32 / line.len().max(1) as f32;
    }
    if tokens.is_empty() {
        return 0.0;
    }
    let total: f32 = tokens
        .iter()
        .map(|token| {
            fuzzy::words(line).take(COMPARED_WORDS).map(|word| fuzzy::similarity(token, word)).fold(0.0, f32::max)
        })
        .sum();
    total / tokens.len() as f32
}
