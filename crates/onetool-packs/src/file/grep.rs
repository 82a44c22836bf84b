//! `file.grep`: finds lines by content.
//!
//! Files are searched on several threads, each streamed through one buffer; only the lines to be shown are kept.
//! Patterns run in linear time.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use grep_matcher::{LineTerminator, Matcher as _};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkFinish, SinkMatch};
use onetool_sdk::{Tool, ToolError, ToolResult, define_tool};
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::Files;
use super::place::{self, Place, Purpose, open_at, shown};
use super::walk::{Filter, Next, Walk, glob_set};
use crate::blocking::{Stop, blocking};
use crate::lines::{GAP, clip_around, push_context, push_match};

const DEFAULT_MATCHES: usize = 200;
const MAX_CONTEXT: usize = 50;
/// A search needs a whole line in memory; a file with longer ones is not searched.
const MAX_LINE_BYTES: usize = 16 * 1024 * 1024;
const MAX_SHOWN_CHARS: usize = 400;

/// What is returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Output {
    Text,
    Matches,
    Files,
    Count,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GrepInput {
    /// A regular expression, matched against each line.
    pattern: String,
    /// The folder or file to search, relative to the project.
    #[serde(default = "here")]
    path: String,
    /// Only files whose name or path fits: `*.py`, `src/**/*.rs`.
    #[serde(default)]
    glob: Option<String>,
    /// False takes the pattern as plain text.
    #[serde(default = "yes")]
    regex: bool,
    /// Whether upper and lower case are the same.
    #[serde(default)]
    ignore_case: bool,
    /// Lines to show before each match.
    #[serde(default)]
    before: usize,
    /// Lines to show after each match.
    #[serde(default)]
    after: usize,
    /// text: numbered lines; matches: dicts with path, line and text; files: paths; count: matching lines of each path.
    #[serde(default = "text")]
    output: Output,
    /// How many matching lines, or for files and count how many files, to return at most.
    #[serde(default)]
    max_matches: Option<usize>,
    /// Whether names that start with a dot are searched too.
    #[serde(default)]
    hidden: bool,
    /// Whether files that .gitignore names are searched too.
    #[serde(default)]
    ignored: bool,
}

fn here() -> String {
    ".".to_owned()
}

fn yes() -> bool {
    true
}

fn text() -> Output {
    Output::Text
}

pub(super) fn tool(files: Files) -> Tool {
    define_tool(
        "grep",
        "Search files for lines that match a pattern.\n\n\
         Files that .gitignore names, hidden and binary files are left out. `\\b`, `(?i)` and the like work; look-around \
         and back-references do not.",
        move |input: GrepInput, ctx| {
            let files = files.clone();
            async move {
                let files = files.of(&ctx).await;
                blocking(&ctx, move |stop| grep(&files, &input, stop)).await
            }
        },
    )
    .with_example("file.grep(pattern=\"fn \\\\w+\", path=\"src\", glob=\"*.rs\", after=2)")
    .with_returns("str | dict", "text; or by output a dict with matches, paths or counts, and truncated: whether there are more")
}

/// One line that is shown.
#[derive(Debug, Clone)]
struct Shown {
    number: u64,
    text: String,
    matched: bool,
    /// Whether lines are missing before this one.
    gap: bool,
}

#[derive(Debug, Default)]
struct Found {
    files: BTreeMap<PathBuf, FileMatches>,
}

#[derive(Debug, Default)]
struct FileMatches {
    lines: Vec<Shown>,
    count: usize,
}

fn grep(files: &Files, input: &GrepInput, stop: &Stop) -> Result<ToolResult, ToolError> {
    let matcher = matcher(input)?;
    let globs = input.glob.as_deref().map(glob_set).transpose()?;
    let by_name = input.glob.as_deref().is_some_and(|glob| !glob.contains('/'));
    let place = place::existing(&files.settings, &input.path, Purpose::Read)?;
    let by_line = matches!(input.output, Output::Text | Output::Matches);
    let default = if by_line { DEFAULT_MATCHES } else { files.settings.max_results };
    if input.max_matches == Some(0) {
        return Err(ToolError::value_error("max_matches must be at least 1").at("/max_matches"));
    }
    let limit = input.max_matches.unwrap_or(default).clamp(1, files.settings.max_results);
    let walk = Walk {
        files,
        place: &place,
        hidden: Filter::include_if(input.hidden),
        ignored: Filter::include_if(input.ignored),
    };
    let found = Mutex::new(Found::default());
    // One more than the limit, to know whether there are more.
    let budget = Budget { taken: AtomicUsize::new(0), most: limit + 1 };
    let searched = AtomicUsize::new(0);
    let skipped = AtomicUsize::new(0);
    let max_chars = files.settings.max_line_chars.min(MAX_SHOWN_CHARS);
    walk.visit(stop, || {
        let mut searcher = searcher(input);
        let matcher = matcher.clone();
        let (found, budget, searched, skipped, globs, place, walk) =
            (&found, &budget, &searched, &skipped, &globs, &place, &walk);
        move |relative: &Path| {
            let subject =
                if by_name { relative.file_name().map_or(relative, Path::new) } else { walk.below_start(relative) };
            if globs.as_ref().is_some_and(|globs| !globs.is_match(subject)) {
                return Next::Continue;
            }
            let Some(file) = open(place, relative) else { return Next::Continue };
            searched.fetch_add(1, Ordering::Relaxed);
            let mut sink = Collect {
                matcher: &matcher,
                budget,
                stop,
                output: input.output,
                max_chars,
                matches: FileMatches::default(),
                gap: false,
                binary: false,
            };
            if searcher.search_file(&matcher, &file, &mut sink).is_err() {
                skipped.fetch_add(1, Ordering::Relaxed);
            }
            if sink.binary || sink.matches.count == 0 {
                return Next::Continue;
            }
            if !by_line {
                budget.take();
            }
            found.lock().files.insert(relative.to_owned(), sink.matches);
            if budget.is_spent() { Next::Quit } else { Next::Continue }
        }
    })?;
    let report = Report {
        found: found.into_inner(),
        limit,
        more: budget.is_spent(),
        searched: searched.into_inner(),
        skipped: skipped.into_inner(),
        first: files.is_first_root(&place),
        max_bytes: files.settings.max_read_bytes,
        place: &place,
    };
    report.render(input)
}

fn open(place: &Place, relative: &Path) -> Option<std::fs::File> {
    let file = open_at(&place.dir, relative).ok()?;
    file.metadata().ok().filter(cap_std::fs::Metadata::is_file)?;
    Some(file.into_std())
}

fn matcher(input: &GrepInput) -> Result<RegexMatcher, ToolError> {
    if input.pattern.is_empty() {
        return Err(ToolError::value_error("the pattern is empty"));
    }
    let mut builder = RegexMatcherBuilder::new();
    builder.case_insensitive(input.ignore_case).fixed_strings(!input.regex).multi_line(true).crlf(true);
    builder.build(&input.pattern).map_err(|error| bad_pattern(&input.pattern, &error.to_string()))
}

fn bad_pattern(pattern: &str, error: &str) -> ToolError {
    ToolError::value_error(format!("{pattern:?} is not a pattern that can be searched: {error}"))
        .with_hint("regex=False takes it as plain text; patterns match inside one line")
}

fn searcher(input: &GrepInput) -> Searcher {
    let context = |wanted: usize| if input.output == Output::Text { wanted.min(MAX_CONTEXT) } else { 0 };
    SearcherBuilder::new()
        .line_terminator(LineTerminator::crlf())
        .line_number(true)
        .before_context(context(input.before))
        .after_context(context(input.after))
        .binary_detection(BinaryDetection::quit(0))
        .heap_limit(Some(MAX_LINE_BYTES))
        .build()
}

/// The number of matches that all threads together may still take.
struct Budget {
    taken: AtomicUsize,
    most: usize,
}

impl Budget {
    /// Takes one; `false` if it was the last.
    fn take(&self) -> bool {
        self.taken.fetch_add(1, Ordering::Relaxed) + 1 < self.most
    }

    fn is_spent(&self) -> bool {
        self.taken.load(Ordering::Relaxed) >= self.most
    }
}

/// Collects the lines of one file.
struct Collect<'a> {
    /// Finds the match within a long line.
    matcher: &'a RegexMatcher,
    budget: &'a Budget,
    stop: &'a Stop,
    output: Output,
    max_chars: usize,
    matches: FileMatches,
    gap: bool,
    binary: bool,
}

impl Collect<'_> {
    fn keep(&mut self, number: Option<u64>, bytes: &[u8], matched: bool) {
        let line = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let at = if matched && line.len() > self.max_chars {
            self.matcher.find(line).ok().flatten().map_or(0, |found| found.start())
        } else {
            0
        };
        let text = String::from_utf8_lossy(line);
        let text = clip_around(&text, at.min(text.len()), self.max_chars).into_owned();
        let gap = std::mem::take(&mut self.gap);
        self.matches.lines.push(Shown { number: number.unwrap_or(0), text, matched, gap });
    }
}

impl Sink for Collect<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        if self.stop.is_set() {
            return Ok(false);
        }
        self.matches.count += 1;
        match self.output {
            // The first match in a file is enough.
            Output::Files => return Ok(false),
            Output::Count => return Ok(true),
            Output::Text | Output::Matches => {}
        }
        self.keep(found.line_number(), found.bytes(), true);
        Ok(self.budget.take())
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> Result<bool, io::Error> {
        self.keep(context.line_number(), context.bytes(), false);
        Ok(true)
    }

    fn context_break(&mut self, _: &Searcher) -> Result<bool, io::Error> {
        self.gap = true;
        Ok(true)
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> Result<bool, io::Error> {
        self.binary = true;
        Ok(false)
    }

    fn finish(&mut self, _: &Searcher, finish: &SinkFinish) -> Result<(), io::Error> {
        self.binary |= finish.binary_byte_offset().is_some();
        Ok(())
    }
}

/// Everything found, in path order.
struct Report<'a> {
    found: Found,
    limit: usize,
    more: bool,
    searched: usize,
    skipped: usize,
    first: bool,
    max_bytes: usize,
    place: &'a Place,
}

impl Report<'_> {
    fn render(self, input: &GrepInput) -> Result<ToolResult, ToolError> {
        let shown = |path: &Path| shown(&self.place.root, self.first, path);
        match input.output {
            Output::Text => Ok(ToolResult::Text(self.text(input))),
            Output::Files => {
                let paths: Vec<String> = self.found.files.keys().take(self.limit).map(|path| shown(path)).collect();
                ToolResult::json(json!({"paths": paths, "truncated": self.more}))
            }
            Output::Count => {
                let counts =
                    self.found.files.iter().take(self.limit).map(|(path, found)| (shown(path), json!(found.count)));
                let counts: serde_json::Map<String, serde_json::Value> = counts.collect();
                ToolResult::json(json!({"counts": counts, "truncated": self.more}))
            }
            Output::Matches => {
                let lines = self.found.files.iter().flat_map(|(path, found)| {
                    let path = shown(path);
                    found.lines.iter().map(move |line| json!({"path": path, "line": line.number, "text": line.text}))
                });
                let lines: Vec<serde_json::Value> = lines.take(self.limit).collect();
                ToolResult::json(json!({"matches": lines, "truncated": self.more}))
            }
        }
    }

    fn text(&self, input: &GrepInput) -> String {
        let (mut out, mut count, mut files) = (String::new(), 0, 0);
        let mut full = false;
        'files: for (path, found) in &self.found.files {
            if count == self.limit {
                break;
            }
            files += 1;
            let _ = writeln!(out, "{}", shown(&self.place.root, self.first, path));
            for line in &found.lines {
                if line.matched && count == self.limit {
                    break 'files;
                }
                if out.len() > self.max_bytes {
                    full = true;
                    break 'files;
                }
                if line.gap {
                    out.push_str(GAP);
                }
                count += usize::from(line.matched);
                let push = if line.matched { push_match } else { push_context };
                push(&mut out, line.number, &line.text);
            }
        }
        let searched = format!("{} files searched", self.searched);
        let skipped = match self.skipped {
            0 => String::new(),
            count => format!(", {count} could not be searched"),
        };
        let _ = if count == 0 {
            writeln!(out, "[no match for {:?}; {searched}{skipped}]", input.pattern)
        } else if self.more || full {
            writeln!(
                out,
                "[stopped after {count} matches; narrow the pattern or the glob, or raise max_matches{skipped}]"
            )
        } else {
            writeln!(out, "[{count} matching lines in {files} files; {searched}{skipped}]")
        };
        out
    }
}
