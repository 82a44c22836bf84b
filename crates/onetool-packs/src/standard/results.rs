//! `std.tool_output_cache` and `std.tool_output_cache_grep`: read results that were too large to show.
//!
//! Both stream: only one line is in memory at a time, and only the start of a very long one.

use std::fmt::Write as _;
use std::io::{self, BufRead};
use std::ops::ControlFlow;
use std::sync::Arc;

use onetool_sdk::{CallContext, LineCutter, PagedLine, Surroundings, Tool, ToolError, define_tool};
use regex::bytes::{Regex, RegexBuilder};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::blocking::{Stop, blocking};
use crate::lines::{GAP, clip, clip_around, push_context, push_match, push_numbered};

const DEFAULT_LINES: u64 = 2000;
const DEFAULT_MATCHES: usize = 100;
const MAX_MATCHES: usize = 1000;
const MAX_CONTEXT: usize = 50;
/// Maximum size of one answer.
const MAX_ANSWER_BYTES: usize = 256 * 1024;
const MAX_LINE_CHARS: usize = 2000;
const MAX_MATCH_CHARS: usize = 400;
/// How much of one line is searched.
const MAX_SEARCHED_BYTES: usize = 16 * 1024 * 1024;
/// Maximum size of the compiled pattern.
const MAX_PATTERN_BYTES: usize = 4 * 1024 * 1024;

/// Opens stored results by their handle.
pub trait ResultReader: Send + Sync {
    /// Opens the text of a result from its start. Blocks; called where blocking is allowed. The error says whether the
    /// result does not exist or has expired. A result of another user does not exist.
    fn open(&self, handle: &str, ctx: &CallContext) -> Result<Box<dyn BufRead + Send>, ToolError>;
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CacheInput {
    /// The handle of the stored result.
    ref_id: String,
    /// The first line to read; lines count from 1.
    #[serde(default = "one")]
    offset: u64,
    /// How many lines to read at most.
    #[serde(default = "default_lines")]
    limit: u64,
}

fn one() -> u64 {
    1
}

fn default_lines() -> u64 {
    DEFAULT_LINES
}

fn default_matches() -> usize {
    DEFAULT_MATCHES
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GrepInput {
    /// The handle of the stored result.
    ref_id: String,
    /// What to look for.
    pattern: String,
    /// Whether the pattern is a regular expression rather than plain text.
    #[serde(default)]
    regex: bool,
    /// Lines to show before each match.
    #[serde(default)]
    before: usize,
    /// Lines to show after each match.
    #[serde(default)]
    after: usize,
    /// How many matching lines to show at most.
    #[serde(default = "default_matches")]
    max_matches: usize,
}

pub(super) fn cache_tool(results: Arc<dyn ResultReader>) -> Tool {
    define_tool(
        "tool_output_cache",
        "Read a stored result by its handle, with line numbers.\n\nLarge outputs are stored and referred to by a handle.",
        move |input: CacheInput, ctx| {
            let results = results.clone();
            async move {
                let call = ctx.call.clone();
                blocking(&ctx, move |stop| read(&Stored { results: &*results, ctx: &call }, &input, stop)).await
            }
        },
    )
    .with_example("std.tool_output_cache(ref_id=\"0f3a…\", offset=100, limit=50)")
    .with_returns("str", "a header line, then numbered lines")
}

pub(super) fn grep_tool(results: Arc<dyn ResultReader>) -> Tool {
    define_tool(
        "tool_output_cache_grep",
        "Search a stored result for lines that match, with line numbers.\n\n\
         Case matters; `(?i)` at the start of a regular expression ignores it.",
        move |input: GrepInput, ctx| {
            let results = results.clone();
            async move {
                let call = ctx.call.clone();
                blocking(&ctx, move |stop| grep(&Stored { results: &*results, ctx: &call }, &input, stop)).await
            }
        },
    )
    .with_example("std.tool_output_cache_grep(ref_id=\"0f3a…\", pattern=\"error\", after=2)")
    .with_returns("str", "numbered lines, those that match marked by a colon")
}

/// A stored result that the caller may read.
struct Stored<'a> {
    results: &'a dyn ResultReader,
    ctx: &'a CallContext,
}

fn read(results: &Stored<'_>, input: &CacheInput, stop: &Stop) -> Result<String, ToolError> {
    if input.offset == 0 || input.limit == 0 {
        return Err(ToolError::value_error("offset and limit must be at least 1"));
    }
    let last_wanted = input.offset.saturating_add(input.limit - 1);
    let mut body = String::new();
    let (mut last_shown, mut full) = (input.offset - 1, false);
    let total = each_line(results, &input.ref_id, MAX_LINE_CHARS * 4, stop, |line| {
        if line.number < input.offset || line.number > last_wanted || full {
            return ControlFlow::Continue(());
        }
        let text = text_of(line.kept);
        let shown = clip(&text, length_of(line), MAX_LINE_CHARS);
        if !body.is_empty() && body.len() + shown.len() > MAX_ANSWER_BYTES {
            full = true;
            return ControlFlow::Continue(());
        }
        push_numbered(&mut body, line.number, &shown);
        last_shown = line.number;
        ControlFlow::Continue(())
    })?;
    if input.offset > total.max(1) {
        return Err(ToolError::value_error(format!(
            "offset {} is beyond the end: the result has {total} lines",
            input.offset
        )));
    }
    let mut answer = format!("[{}: lines {}-{last_shown} of {total}]\n{body}", input.ref_id, input.offset);
    if last_shown < total {
        let _ = writeln!(answer, "[{} more lines; continue with offset={}]", total - last_shown, last_shown + 1);
    }
    Ok(answer)
}

fn grep(results: &Stored<'_>, input: &GrepInput, stop: &Stop) -> Result<String, ToolError> {
    let pattern = pattern(input)?;
    if input.max_matches == 0 {
        return Err(ToolError::value_error("max_matches must be at least 1").at("/max_matches"));
    }
    let limit = input.max_matches.clamp(1, MAX_MATCHES);
    let (before, after) = (input.before.min(MAX_CONTEXT), input.after.min(MAX_CONTEXT));
    let mut out = String::new();
    let mut around: Surroundings<(u64, String)> = Surroundings::new(before, after);
    let (mut count, mut last_shown, mut more, mut cut) = (0, 0, false, false);
    let total = each_line(results, &input.ref_id, MAX_SEARCHED_BYTES, stop, |line| {
        cut |= line.rest > 0;
        let number = line.number;
        match pattern.find(line.kept) {
            Some(_) if count == limit || out.len() > MAX_ANSWER_BYTES => {
                more = true;
                return ControlFlow::Break(());
            }
            Some(found) => {
                count += 1;
                for (number, text) in around.matched() {
                    gap(&mut out, last_shown, number);
                    push_context(&mut out, number, &text);
                    last_shown = number;
                }
                gap(&mut out, last_shown, number);
                push_match(&mut out, number, &excerpt(line.kept, found.start()));
                last_shown = number;
            }
            None => {
                if let Some((number, text)) = around.passed(|| (number, excerpt(line.kept, 0))) {
                    push_context(&mut out, number, &text);
                    last_shown = number;
                }
            }
        }
        ControlFlow::Continue(())
    })?;
    let _ = if more {
        writeln!(out, "[stopped after {count} matches; narrow the pattern or raise max_matches]")
    } else if count == 0 {
        writeln!(out, "[no match for {:?} in {total} lines]", input.pattern)
    } else {
        writeln!(out, "[{count} matching lines of {total}]")
    };
    if cut {
        let _ = writeln!(out, "[of lines longer than {MAX_SEARCHED_BYTES} bytes only the start was searched]");
    }
    Ok(out)
}

fn gap(out: &mut String, last_shown: u64, number: u64) {
    if last_shown > 0 && number > last_shown + 1 {
        out.push_str(GAP);
    }
}

fn pattern(input: &GrepInput) -> Result<Regex, ToolError> {
    if input.pattern.is_empty() {
        return Err(ToolError::value_error("the pattern is empty"));
    }
    let source = if input.regex { input.pattern.clone() } else { regex::escape(&input.pattern) };
    RegexBuilder::new(&source).multi_line(true).crlf(true).size_limit(MAX_PATTERN_BYTES).build().map_err(|error| {
        ToolError::value_error(format!("{:?} is not a valid regular expression: {error}", input.pattern))
            .with_hint("regex=False takes it as plain text")
    })
}

/// Visits every line with at most `keep` of its bytes, and returns their number.
fn each_line(
    results: &Stored<'_>,
    handle: &str,
    keep: usize,
    stop: &Stop,
    mut visit: impl FnMut(PagedLine<'_>) -> ControlFlow<()>,
) -> Result<u64, ToolError> {
    let mut reader = results.results.open(handle, results.ctx)?;
    let fail = |error: io::Error| ToolError::unavailable(format!("the result {handle} can't be read: {error}"));
    let mut cutter = LineCutter::new(keep);
    loop {
        stop.check()?;
        let chunk = reader.fill_buf().map_err(fail)?;
        let length = chunk.len();
        let flow = if length == 0 { cutter.finish(&mut visit) } else { cutter.feed(chunk, &mut visit) };
        if length == 0 || flow.is_break() {
            return Ok(cutter.lines());
        }
        reader.consume(length);
    }
}

fn length_of(line: PagedLine<'_>) -> u64 {
    line.kept.len() as u64 + line.rest
}

fn text_of(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

/// The part of a line around a position, decoded without converting the whole line.
fn excerpt(bytes: &[u8], at: usize) -> String {
    let margin = MAX_MATCH_CHARS * 4;
    if bytes.len() <= margin * 2 {
        return clip_around(&text_of(bytes), at, MAX_MATCH_CHARS).into_owned();
    }
    let start = at.saturating_sub(MAX_MATCH_CHARS / 4);
    let end = (start + margin).min(bytes.len());
    let text = text_of(&bytes[start..end]);
    let text: String = text.trim_matches('\u{fffd}').chars().take(MAX_MATCH_CHARS).collect();
    let dots = if start > 0 { "…" } else { "" };
    format!("{dots}{text}… [clipped, the line has {} bytes]", bytes.len())
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::io::{BufReader, Cursor, Read};

    use onetool_sdk::ToolContext;
    use onetool_state::flat::{FlatFiles, FlatPlaces};
    use onetool_state::interface::Backend as _;
    use serde_json::{Value as Json, json};

    use super::*;

    /// Results in memory, and a generated one of a gigabyte.
    struct Shelf(HashMap<&'static str, String>);

    impl ResultReader for Shelf {
        fn open(&self, handle: &str, _: &CallContext) -> Result<Box<dyn BufRead + Send>, ToolError> {
            if handle == "huge" {
                return Ok(Box::new(BufReader::with_capacity(1 << 16, Huge { left: 1 << 30 })));
            }
            let text =
                self.0.get(handle).ok_or_else(|| ToolError::value_error(format!("Result not found: {handle}")))?;
            Ok(Box::new(Cursor::new(text.clone().into_bytes())))
        }
    }

    /// A single line of a given length.
    struct Huge {
        left: usize,
    }

    impl Read for Huge {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = buffer.len().min(self.left);
            buffer[..count].fill(b'x');
            self.left -= count;
            Ok(count)
        }
    }

    async fn call(name: &str, arguments: Json) -> Result<String, ToolError> {
        let lines: Vec<String> =
            (1..=20).map(|n| format!("line {n}{}", if n % 5 == 0 { " (five)" } else { "" })).collect();
        let long = format!("{}needle{}", "x".repeat(3_000_000), "y".repeat(100));
        let shelf = Shelf(HashMap::from([("a", lines.join("\n")), ("long", long), ("empty", String::new())]));
        let plans = FlatFiles::new(FlatPlaces::new("unused")).documents();
        let pack = super::super::pack(Arc::new(shelf), plans);
        let tool = pack.tools.iter().find(|tool| tool.name() == name).unwrap();
        let value = tool.execute(arguments, ToolContext::default()).await?.into_value();
        Ok(value.as_str().unwrap().to_owned())
    }

    #[tokio::test]
    async fn a_result_is_read_by_lines() {
        assert_eq!(
            call("tool_output_cache", json!({"ref_id": "a", "offset": 4, "limit": 2})).await.unwrap(),
            "[a: lines 4-5 of 20]\n     4\tline 4\n     5\tline 5 (five)\n[15 more lines; continue with offset=6]\n"
        );
        let clipped = call("tool_output_cache", json!({"ref_id": "long"})).await.unwrap();
        assert!(clipped.contains("[clipped, the line has 3000106 bytes]") && clipped.len() < 3000, "{}", clipped.len());
        assert_eq!(call("tool_output_cache", json!({"ref_id": "empty"})).await.unwrap(), "[empty: lines 1-0 of 0]\n");
        assert!(call("tool_output_cache", json!({"ref_id": "none"})).await.unwrap_err().message.contains("not found"));
        assert!(call("tool_output_cache", json!({"ref_id": "a", "offset": 21})).await.is_err());
        assert!(call("tool_output_cache", json!({"ref_id": "a", "offset": 0})).await.is_err());
    }

    #[tokio::test]
    async fn matches_that_touch_are_shown_once() {
        assert_eq!(
            call(
                "tool_output_cache_grep",
                json!({"ref_id": "a", "pattern": "(five)", "before": 2, "after": 2, "max_matches": 2})
            )
            .await
            .unwrap(),
            "     3-\tline 3\n     4-\tline 4\n     5:\tline 5 (five)\n     6-\tline 6\n     7-\tline 7\n     8-\tline 8\n     \
             9-\tline 9\n    10:\tline 10 (five)\n    11-\tline 11\n    12-\tline 12\n\
             [stopped after 2 matches; narrow the pattern or raise max_matches]\n"
        );
        assert_eq!(
            call(
                "tool_output_cache_grep",
                json!({"ref_id": "a", "pattern": "^line (5|6|1.) \\(", "regex": true, "before": 1})
            )
            .await
            .unwrap(),
            "     4-\tline 4\n     5:\tline 5 (five)\n    --\n     9-\tline 9\n    10:\tline 10 (five)\n    --\n    14-\tline 14\n    \
             15:\tline 15 (five)\n[3 matching lines of 20]\n"
        );
        assert_eq!(
            call("tool_output_cache_grep", json!({"ref_id": "a", "pattern": "^line"})).await.unwrap(),
            "[no match for \"^line\" in 20 lines]\n"
        );
        let long = call("tool_output_cache_grep", json!({"ref_id": "long", "pattern": "needle"})).await.unwrap();
        assert!(long.contains("xneedley") && long.len() < 1000, "{long}");
        assert!(call("tool_output_cache_grep", json!({"ref_id": "a", "pattern": "(", "regex": true})).await.is_err());
        assert!(call("tool_output_cache_grep", json!({"ref_id": "a", "pattern": ""})).await.is_err());
    }

    #[tokio::test]
    async fn a_gigabyte_in_one_line_fits() {
        let text = call("tool_output_cache", json!({"ref_id": "huge"})).await.unwrap();
        assert!(text.starts_with("[huge: lines 1-1 of 1]\n     1\txxx") && text.len() < 3000);
        let text = call("tool_output_cache_grep", json!({"ref_id": "huge", "pattern": "y"})).await.unwrap();
        assert!(text.contains("only the start was searched"), "{text}");
    }
}
