//! `file.write`: writes a whole file.

use onetool_sdk::{ErrorKind, Tool, ToolError, ToolResult, define_tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::Files;
use super::change::{self, Change};
use super::content::{Newline, too_large};
use super::outcome::Outcome;
use super::place;
use super::raw::{self, WriteMode};
use crate::blocking::blocking;

/// What becomes of line endings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum LineEndings {
    Keep,
    Lf,
    Crlf,
    AsGiven,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WriteInput {
    /// The file, relative to the project. Folders are created.
    path: String,
    /// The whole new text; in base64 where encoding says so.
    content: String,
    /// The hash that the file must have now, as read, info or an earlier change told; "missing" for a new file.
    #[serde(default)]
    expected_hash: Option<String>,
    /// keep: those of the file that is replaced, where it has only one kind; lf, crlf; as_given: as they are in content.
    #[serde(default = "keep")]
    line_endings: LineEndings,
    /// append: add to the end; create: only a new file; replace: the whole. As they are, without making folders.
    #[serde(default)]
    mode: Option<WriteMode>,
    /// base64: the content is bytes.
    #[serde(default = "text")]
    encoding: Encoding,
}

/// How the content is written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Encoding {
    Text,
    Base64,
}

fn text() -> Encoding {
    Encoding::Text
}

fn keep() -> LineEndings {
    LineEndings::Keep
}

pub(super) fn tool(files: Files) -> Tool {
    define_tool(
        "write",
        "Write a whole text file: create it, or replace its content.\n\n\
         The file is replaced in one step or not at all. Its mode bits, byte order mark and line endings are kept. To \
         change a part of a file, file.edit is safer.",
        move |input: WriteInput, ctx| {
            let files = files.clone();
            async move {
                let files = files.of(&ctx).await;
                blocking(&ctx, move |stop| {
                    stop.check()?;
                    write(&files, &input)
                })
                .await
            }
        },
    )
    .with_example("file.write(path=\"notes/today.md\", content=\"# Today\\n\")")
    .with_returns("dict", "path, created, changed, hash, added and removed lines, diff of what changed")
}

fn write(files: &Files, input: &WriteInput) -> Result<ToolResult, ToolError> {
    if input.mode.is_some() || input.encoding == Encoding::Base64 {
        return write_raw(files, input);
    }
    let _writing = files.writing()?;
    let settings = &files.settings;
    if input.content.len() > settings.max_write_bytes {
        return Err(too_large("the content", settings.max_write_bytes));
    }
    if input.content.contains('\0') {
        return Err(ToolError::value_error("the content contains zero bytes: it would make a binary file"));
    }
    let place = place::target(settings, &input.path)?;
    let before = change::before(settings, &place)?;
    match (&before, input.expected_hash.as_deref()) {
        (Some(before), Some("missing")) => {
            return Err(ToolError::new(ErrorKind::Conflict, format!("{} exists already", place.shown))
                .with_hint(format!("its hash is {}", before.content.hash)));
        }
        (Some(before), expected) => before.content.check_hash(&place.shown, expected)?,
        (None, Some(expected)) if expected != "missing" => {
            return Err(ToolError::new(
                ErrorKind::Conflict,
                format!("{} does not exist, expected was the hash {expected}", place.shown),
            ));
        }
        (None, _) => {}
    }
    let endings = match input.line_endings {
        LineEndings::AsGiven => None,
        LineEndings::Lf => Some(Newline::Lf),
        LineEndings::Crlf => Some(Newline::Crlf),
        LineEndings::Keep => before.as_ref().and_then(|before| Newline::only(&before.content.text)),
    };
    let text = endings.map_or_else(|| input.content.clone(), |newline| newline.apply(&input.content));
    let bytes = match &before {
        Some(before) => before.content.bytes_with(&text),
        None => text.into_bytes(),
    };
    let change = Change { place, before, after: Some(bytes), mode: None };
    let outcome = Outcome::of(settings, &change);
    if outcome.changed {
        change::apply(settings, std::slice::from_ref(&change))?;
    }
    let created = change.before.is_none();
    let mut answer = json!({"path": change.place.shown, "created": created, "changed": outcome.changed});
    outcome.describe(&mut answer);
    Ok(ToolResult::Json(answer))
}

fn write_raw(files: &Files, input: &WriteInput) -> Result<ToolResult, ToolError> {
    use base64::Engine as _;
    if input.expected_hash.is_some() {
        return Err(ToolError::value_error("expected_hash needs the whole text, without mode and encoding"));
    }
    let bytes = match input.encoding {
        Encoding::Text => input.content.clone().into_bytes(),
        Encoding::Base64 => base64::engine::general_purpose::STANDARD
            .decode(&input.content)
            .map_err(|error| ToolError::value_error(format!("the content is not base64: {error}")))?,
    };
    let mode = input.mode.unwrap_or(WriteMode::Replace);
    let (place, created) = raw::write(files, &input.path, &bytes, mode)?;
    ToolResult::json(json!({"path": place.shown, "created": created, "bytes": bytes.len()}))
}
