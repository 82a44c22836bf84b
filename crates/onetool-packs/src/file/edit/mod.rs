//! `file.edit`: replaces one text by another in a file.
//!
//! [`ladder`] finds the change on a [`view`] of the text, and pure functions apply it; a looser match inserts its lines
//! through [`block`]. If nothing matches, the file stays unchanged and [`nearest`] shows similar places.

mod block;
mod ladder;
pub(super) mod nearest;
#[cfg(test)]
mod tests;
mod view;

use ladder::{Answer, Request, Wanted};
use onetool_sdk::{Tool, ToolError, ToolResult, define_tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::Files;
use super::change::{self, Change};
use super::content::too_large;
use super::outcome::Outcome;
use super::place::{self, Purpose};
use crate::blocking::{Stop, blocking};

/// Maximum number of lines that an error lists.
const MAX_LISTED_LINES: usize = 20;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct EditInput {
    /// The file, relative to the project.
    path: String,
    /// The text to replace, as it is in the file, without line numbers. It must be there exactly once. Empty, it creates
    /// a file that does not exist yet.
    old_string: String,
    /// The text to put there, taken literally.
    new_string: String,
    /// Whether every occurrence is replaced.
    #[serde(default)]
    replace_all: bool,
    /// How many occurrences there must be; all of them are replaced.
    #[serde(default)]
    expected_replacements: Option<usize>,
    /// The hash that the file must have now, as read or an earlier change told.
    #[serde(default)]
    expected_hash: Option<String>,
    /// loose: where the text is not there exactly, differences in whitespace and the like are overlooked; exact: never.
    #[serde(default = "loose")]
    r#match: Matching,
    /// True tells what would change, and changes nothing.
    #[serde(default)]
    dry_run: bool,
}

/// How closely the old text must be matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Matching {
    Loose,
    Exact,
}

fn loose() -> Matching {
    Matching::Loose
}

pub(super) fn tool(files: Files) -> Tool {
    define_tool(
        "edit",
        "Replace a text inside a file by another.\n\n\
         The old text must be there once, unless replace_all or expected_replacements says otherwise. Where it is not \
         there exactly, differences in whitespace, indentation and quotes are overlooked if only one place fits; the new \
         text then gets the file's indentation. Line endings, byte order mark, mode bits and the end of the file stay. An \
         edit that was made before is recognised.",
        move |input: EditInput, ctx| {
            let files = files.clone();
            async move {
                let files = files.of(&ctx).await;
                blocking(&ctx, move |stop| edit(&files, &input, stop)).await
            }
        },
    )
    .with_example("file.edit(path=\"src/main.rs\", old_string=\"let a = 1;\", new_string=\"let a = 2;\")")
    .with_returns(
        "dict",
        "path, changed, replacements, lines, matched (how the text was found), already_applied, hash, added, removed, diff",
    )
}

fn edit(files: &Files, input: &EditInput, stop: &Stop) -> Result<ToolResult, ToolError> {
    check(input)?;
    let _writing = files.writing()?;
    let settings = &files.settings;
    if input.old_string.is_empty() {
        return create(files, input, stop);
    }
    let place = place::existing(settings, &input.path, Purpose::Write)?;
    let before = change::before(settings, &place)?
        .ok_or_else(|| ToolError::raised("FileNotFoundError", format!("{} does not exist", place.shown)))?;
    before.content.check_hash(&place.shown, input.expected_hash.as_deref())?;
    let wanted = match (input.expected_replacements, input.replace_all) {
        (Some(count), _) => Wanted::Exactly(count),
        (None, true) => Wanted::All,
        (None, false) => Wanted::One,
    };
    let text = &before.content.text;
    let request = Request { old: &input.old_string, new: &input.new_string, wanted };
    let answer = match input.r#match {
        Matching::Loose => ladder::apply(text, request),
        Matching::Exact => ladder::apply_exactly(text, request),
    };
    let (after, matched, lines) = match answer {
        Answer::Edited { text, step, lines } => (text, Some(step), lines),
        Answer::AlreadyApplied => (text.clone(), None, Vec::new()),
        refused => return Err(refusal(&place.shown, text, input, refused)),
    };
    if after.len() > settings.max_write_bytes {
        return Err(too_large(&format!("what {} would become", place.shown), settings.max_write_bytes));
    }
    let after = before.content.bytes_with(&after);
    let change = Change { place, before: Some(before), after: Some(after), mode: None };
    let outcome = Outcome::of(settings, &change);
    if outcome.changed && !input.dry_run {
        stop.check()?;
        change::apply(settings, std::slice::from_ref(&change))?;
    }
    let mut answer = json!({
        "path": change.place.shown,
        "changed": outcome.changed && !input.dry_run,
        "replacements": lines.len(),
        "lines": lines,
        "matched": matched.map(ladder::Step::name),
        "already_applied": matched.is_none(),
    });
    if input.dry_run {
        answer["dry_run"] = json!(true);
    }
    outcome.describe(&mut answer);
    Ok(ToolResult::Json(answer))
}

/// Creates a file: an empty old text.
fn create(files: &Files, input: &EditInput, stop: &Stop) -> Result<ToolResult, ToolError> {
    let settings = &files.settings;
    let place = place::target(settings, &input.path)?;
    if change::before(settings, &place)?.is_some() {
        return Err(ToolError::value_error(format!("old_string is empty, and {} exists already", place.shown))
            .with_hint("file.write writes a whole file; to insert, replace a line by itself and the new text"));
    }
    if input.new_string.len() > settings.max_write_bytes {
        return Err(too_large("the new text", settings.max_write_bytes));
    }
    let after = Some(input.new_string.clone().into_bytes());
    let change = Change { place, before: None, after, mode: None };
    let outcome = Outcome::of(settings, &change);
    if !input.dry_run {
        stop.check()?;
        change::apply(settings, std::slice::from_ref(&change))?;
    }
    let mut answer = json!({
        "path": change.place.shown,
        "created": !input.dry_run,
        "changed": !input.dry_run,
        "replacements": 1,
        "lines": [1],
        "matched": "new file",
        "already_applied": false,
    });
    if input.dry_run {
        answer["dry_run"] = json!(true);
    }
    outcome.describe(&mut answer);
    Ok(ToolResult::Json(answer))
}

fn check(input: &EditInput) -> Result<(), ToolError> {
    if input.old_string == input.new_string {
        return Err(ToolError::value_error("old_string and new_string are the same"));
    }
    if input.new_string.contains('\0') {
        return Err(ToolError::value_error("new_string contains zero bytes: it would make a binary file"));
    }
    if input.expected_replacements == Some(0) {
        return Err(ToolError::value_error("expected_replacements must be at least 1"));
    }
    Ok(())
}

fn refusal(shown: &str, text: &str, input: &EditInput, answer: Answer) -> ToolError {
    match answer {
        Answer::Ambiguous { step, lines } => {
            let expected = input.expected_replacements.unwrap_or(1);
            ToolError::value_error(format!(
                "old_string is {} times in {shown} ({}), expected {expected}: lines {}",
                lines.len(),
                step.name(),
                listed(&lines)
            ))
            .with_hint("add lines around it that make it unique, or say replace_all=True or expected_replacements")
        }
        Answer::Overlapping { lines } => {
            ToolError::value_error(format!("the places to replace in {shown} overlap: lines {}", listed(&lines)))
                .with_hint("replace a longer text that holds them all")
        }
        Answer::NotFound | Answer::Edited { .. } | Answer::AlreadyApplied => {
            let near = nearest::describe(text, &input.old_string);
            let error = ToolError::value_error(match near {
                Some(near) => format!("old_string is not in {shown}; {near}"),
                None => format!("old_string is not in {shown}, nor anything like it"),
            });
            error.with_hint("copy the text from file.read, without the line numbers")
        }
    }
}

fn listed(lines: &[usize]) -> String {
    let shown: Vec<String> = lines.iter().take(MAX_LISTED_LINES).map(ToString::to_string).collect();
    let more = if lines.len() > MAX_LISTED_LINES { ", …" } else { "" };
    format!("{}{more}", shown.join(", "))
}
