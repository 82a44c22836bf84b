//! `file.read`: reads the text of a file, a part of it with line numbers, or its bytes.

use std::fmt::Write as _;
use std::io::{self, BufReader, Read};

use onetool_sdk::{Tool, ToolContext, ToolError, ToolResult, Value, define_tool};
use schemars::JsonSchema;
use serde::Deserialize;

use super::Files;
use super::content::{Content, refuse_binary};
use super::place::{self, Place, Purpose, io_error};
use super::{nearby, raw};
use crate::blocking::{Stop, blocking};
use crate::lines::{clip, line_text, push_numbered, read_line};

const BUFFER_BYTES: usize = 256 * 1024;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReadInput {
    /// The file, relative to the project.
    path: String,
    /// The first line to read; lines count from 1.
    #[serde(default = "one")]
    offset: u64,
    /// How many lines to read at most: all, or 2000 with line numbers.
    #[serde(default)]
    limit: Option<u64>,
    /// True returns the numbered view, with a header and clipped lines; a run whose value is file.read(...) shows it.
    #[serde(default)]
    line_numbers: bool,
    /// Returns bytes, from this one on; bytes count from 0.
    #[serde(default)]
    byte_offset: Option<u64>,
    /// How many bytes to return at most.
    #[serde(default)]
    byte_limit: Option<u64>,
}

fn one() -> u64 {
    1
}

const NUMBERED_LINES: u64 = 2000;

pub(super) fn tool(files: Files) -> Tool {
    define_tool(
        "read",
        "Read a text file.\n\n\
         Code gets the text itself. Where the call is all that a run shows, and with line_numbers=True, the lines are \
         numbered, and the first line tells which they are, how many there are and the content's hash (for expected_hash \
         of edit and write). Binary files are refused, unless bytes are asked for with byte_offset.",
        move |input: ReadInput, ctx| {
            let files = files.clone();
            async move {
                let files = files.of(&ctx).await;
                if let Some(result) = read_nearby(&files, &input, &ctx) {
                    return result;
                }
                blocking(&ctx, move |stop| {
                    nearby::find_out(&files.settings.roots);
                    let place = place::existing(&files.settings, &input.path, Purpose::Read);
                    read(&files, &place?, &input, stop)
                })
                .await
            }
        },
    )
    .with_example("file.read(path=\"src/main.rs\", offset=1, limit=50)")
    .with_returns("str | bytes", "the text; with line_numbers=True a header line, then numbered lines; with byte_offset bytes")
}

/// Reads a small file directly where that is known to be safe. Errors are left to the usual way.
fn read_nearby(files: &Files, input: &ReadInput, ctx: &ToolContext) -> Option<Result<ToolResult, ToolError>> {
    let settings = &files.settings;
    if !nearby::is_known(&settings.roots) {
        return None;
    }
    let place = place::existing(settings, &input.path, Purpose::Read).ok()?;
    place.metadata().ok().filter(|metadata| metadata.is_file() && metadata.len() <= nearby::SMALL)?;
    Some(read(files, &place, input, &Stop::of(ctx)))
}

fn read(files: &Files, place: &Place, input: &ReadInput, stop: &Stop) -> Result<ToolResult, ToolError> {
    if input.byte_offset.is_some() || input.byte_limit.is_some() {
        let (offset, limit) = (input.byte_offset.unwrap_or(0), input.byte_limit.unwrap_or(u64::MAX));
        return raw::read(place, offset, limit).map(|bytes| ToolResult::Value(Value::Bytes(bytes)));
    }
    if input.offset == 0 {
        return Err(ToolError::value_error("offset counts lines from 1"));
    }
    if input.limit == Some(0) {
        return Err(ToolError::value_error("limit must be at least 1"));
    }
    let text = if input.line_numbers { numbered(files, place, input, stop) } else { plain(files, place, input) };
    text.map(ToolResult::Text)
}

fn plain(files: &Files, place: &Place, input: &ReadInput) -> Result<String, ToolError> {
    let content = Content::load(place, files.settings.max_write_bytes)?;
    let skip = usize::try_from(input.offset - 1).unwrap_or(usize::MAX);
    let take = input.limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let total = content.text.split_inclusive('\n').count();
    if skip > 0 && skip >= total {
        return Err(beyond(&place.shown, input.offset, total as u64));
    }
    Ok(content.text.split_inclusive('\n').skip(skip).take(take).collect())
}

fn numbered(files: &Files, place: &Place, input: &ReadInput, stop: &Stop) -> Result<String, ToolError> {
    let settings = &files.settings;
    let source = Watched { file: place.open_file()?, hasher: blake3::Hasher::new(), bytes: 0, stop };
    let mut reader = BufReader::with_capacity(BUFFER_BYTES, source);
    let keep = settings.max_line_chars.saturating_mul(4).saturating_add(4);
    let last_wanted = input.offset.saturating_add(input.limit.unwrap_or(NUMBERED_LINES) - 1);
    let (mut kept, mut body) = (Vec::new(), String::new());
    let (mut number, mut last_shown, mut full) = (0_u64, input.offset - 1, false);
    loop {
        let mut line = match read_line(&mut reader, &mut kept, keep) {
            Ok(Some(line)) => line,
            Ok(None) => break,
            Err(error) => return Err(stop.check().err().unwrap_or_else(|| io_error(&place.shown, &error))),
        };
        number += 1;
        if number == 1 {
            refuse_binary(&place.shown, &kept)?;
            if kept.starts_with(b"\xef\xbb\xbf") {
                kept.drain(..3);
                line.length -= 3;
            }
        }
        if number < input.offset || number > last_wanted || full {
            continue;
        }
        refuse_binary(&place.shown, &kept)?;
        let text = line_text(&kept, line).ok_or_else(|| super::content::not_utf8(&place.shown, number))?;
        let text = clip(text, line.length, settings.max_line_chars);
        if !body.is_empty() && body.len() + text.len() > settings.max_read_bytes {
            full = true;
            continue;
        }
        push_numbered(&mut body, number, &text);
        last_shown = number;
    }
    if input.offset > number.max(1) {
        return Err(beyond(&place.shown, input.offset, number));
    }
    let source = reader.into_inner();
    let hash = super::content::hash_text(&source.hasher.finalize());
    let lines = match number {
        0 => "empty".to_owned(),
        total => format!("lines {}-{last_shown} of {total}", input.offset),
    };
    let mut answer = format!("[{}: {lines}, {} bytes, hash {hash}]\n{body}", place.shown, source.bytes);
    if last_shown < number {
        let _ = writeln!(answer, "[{} more lines; continue with offset={}]", number - last_shown, last_shown + 1);
    }
    Ok(answer)
}

fn beyond(shown: &str, offset: u64, total: u64) -> ToolError {
    ToolError::value_error(format!("offset {offset} is beyond the end of {shown}, which has {total} lines"))
}

/// A file that is hashed and counted while it is read, and that stops when the call does.
struct Watched<'a> {
    file: cap_std::fs::File,
    hasher: blake3::Hasher,
    bytes: u64,
    stop: &'a Stop,
}

impl Read for Watched<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.stop.is_set() {
            return Err(io::Error::other("stopped"));
        }
        let count = self.file.read(buffer)?;
        self.hasher.update(&buffer[..count]);
        self.bytes += count as u64;
        Ok(count)
    }
}
