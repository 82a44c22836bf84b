//! `file.patch`: applies a unified diff to several files, all or nothing.
//!
//! [`parse`] reads the diff and [`hunks`] applies it to texts. Files are written only if every hunk of every file
//! applies, in one step for all.

mod hunks;
mod parse;

use std::path::PathBuf;

use hunks::HunkProblem;
use indexmap::IndexMap;
use onetool_sdk::{Tool, ToolError, ToolResult, define_tool};
use parse::{FilePatch, Hunk, Kind};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::Files;
use super::change::{self, Before, Change};
use super::content::too_large;
use super::edit::nearest;
use super::outcome::Outcome;
use super::place::{self, Place, Purpose};
use crate::blocking::{Stop, blocking};

/// Maximum number of files in one patch.
const MAX_FILES: usize = 1000;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PatchInput {
    /// The unified diff, as `git diff` writes it. Paths are relative to the project.
    patch: String,
    /// True tells what would change, and changes nothing.
    #[serde(default)]
    dry_run: bool,
}

pub(super) fn tool(files: Files) -> Tool {
    define_tool(
        "patch",
        "Apply a unified diff to one or more files: all of it, or nothing.\n\n\
         Files can be changed, created, deleted (to the trash) and renamed. A hunk goes where its line number says or to \
         the only other place where its lines are; line endings and the end of a file are kept.",
        move |input: PatchInput, ctx| {
            let files = files.clone();
            async move {
                let files = files.of(&ctx).await;
                blocking(&ctx, move |stop| patch(&files, &input, stop)).await
            }
        },
    )
    .with_example("file.patch(patch=\"--- a/x.txt\\n+++ b/x.txt\\n@@ -1 +1 @@\\n-old\\n+new\\n\")")
    .with_returns("dict", "changed, files: each with path, action, hash, added, removed")
}

/// A file and its pending change while the patch is read.
struct Draft {
    place: Place,
    before: Option<Before>,
    /// The current text, with its byte order mark; `None` if there is no file.
    text: Option<String>,
    mode: Option<u32>,
    action: &'static str,
}

fn patch(files: &Files, input: &PatchInput, stop: &Stop) -> Result<ToolResult, ToolError> {
    let settings = &files.settings;
    if input.patch.len() > settings.max_write_bytes {
        return Err(too_large("the patch", settings.max_write_bytes));
    }
    if input.patch.contains('\0') {
        return Err(ToolError::value_error("the patch contains zero bytes: it would make a binary file"));
    }
    let patches = parse::parse(&input.patch).map_err(|error| {
        ToolError::value_error(format!("the patch can't be read at its line {}: {}", error.line, error.what))
            .with_hint("a unified diff has `--- a/file`, `+++ b/file` and hunks that start with `@@ -1,3 +1,4 @@`")
    })?;
    if patches.len() > MAX_FILES {
        return Err(ToolError::value_error(format!("the patch changes more than {MAX_FILES} files")));
    }
    let _writing = files.writing()?;
    let mut drafts: IndexMap<PathBuf, Draft> = IndexMap::new();
    for file in &patches {
        stop.check()?;
        apply_file(files, &mut drafts, file)?;
    }
    let mut changes = Vec::with_capacity(drafts.len());
    let mut told = Vec::with_capacity(drafts.len());
    for draft in drafts.into_values() {
        let after = draft.text.map(String::into_bytes);
        if after.as_ref().is_some_and(|after| after.len() > settings.max_write_bytes) {
            return Err(too_large(&format!("what {} would become", draft.place.shown), settings.max_write_bytes));
        }
        let change = Change { place: draft.place, before: draft.before, after, mode: draft.mode };
        let outcome = Outcome::of(settings, &change);
        if !outcome.changed && change.mode.is_none() {
            continue;
        }
        let mut entry = json!({"path": change.place.shown, "action": draft.action});
        outcome.describe(&mut entry);
        // The caller already has the diff: the patch.
        if let Some(entry) = entry.as_object_mut() {
            entry.shift_remove("diff");
        }
        told.push(entry);
        changes.push(change);
    }
    stop.check()?;
    if !input.dry_run {
        change::apply(settings, &changes)?;
    }
    let mut answer = json!({"changed": !changes.is_empty() && !input.dry_run, "files": told});
    if input.dry_run {
        answer["dry_run"] = json!(true);
    }
    Ok(ToolResult::Json(answer))
}

fn apply_file(files: &Files, drafts: &mut IndexMap<PathBuf, Draft>, file: &FilePatch) -> Result<(), ToolError> {
    match (&file.old, &file.new) {
        (None, Some(new)) => {
            let draft = draft(files, drafts, new)?;
            if draft.text.is_some() {
                return Err(ToolError::raised(
                    "FileExistsError",
                    format!("{} exists already; the patch creates it", draft.place.shown),
                ));
            }
            draft.text = Some(with_hunks(&draft.place.shown, "", &file.hunks)?);
            draft.mode = file.mode.map(|mode| mode & 0o777);
            draft.action = "created";
        }
        (Some(old), None) => {
            let draft = draft(files, drafts, old)?;
            let text = present(files, draft, old)?;
            let rest = with_hunks(&draft.place.shown, &text, &file.hunks)?;
            if !rest.is_empty() {
                return Err(ToolError::value_error(format!(
                    "the patch deletes {}, but not all that is in it",
                    draft.place.shown
                ))
                .with_hint("read the file and write the patch again, or use file.delete"));
            }
            draft.text = None;
            draft.action = "deleted";
        }
        (Some(old), Some(new)) => {
            let source = draft(files, drafts, old)?;
            let text = present(files, source, old)?;
            let changed = with_hunks(&source.place.shown, &text, &file.hunks)?;
            let mode = file.mode.map(|mode| mode & 0o777);
            if old == new {
                source.text = Some(changed);
                source.mode = mode.or(source.mode);
                return Ok(());
            }
            let old_mode = source.before.as_ref().and_then(Before::mode);
            source.text = None;
            source.action = "renamed";
            let target = draft(files, drafts, new)?;
            if target.text.is_some() {
                return Err(ToolError::raised(
                    "FileExistsError",
                    format!("{} exists already; the patch renames {old} to it", target.place.shown),
                ));
            }
            target.text = Some(changed);
            target.mode = mode.or(old_mode);
            target.action = "created";
        }
        (None, None) => {}
    }
    Ok(())
}

fn draft<'d>(files: &Files, drafts: &'d mut IndexMap<PathBuf, Draft>, path: &str) -> Result<&'d mut Draft, ToolError> {
    let place = place::target(&files.settings, path)?;
    match drafts.entry(place.root.join(&place.relative)) {
        indexmap::map::Entry::Occupied(entry) => Ok(entry.into_mut()),
        indexmap::map::Entry::Vacant(entry) => {
            let before = change::before(&files.settings, &place)?;
            let text = before.as_ref().map(|before| before.content.full_text());
            Ok(entry.insert(Draft { place, before, text, mode: None, action: "changed" }))
        }
    }
}

/// The text of a file that must exist.
fn present(files: &Files, draft: &Draft, path: &str) -> Result<String, ToolError> {
    match &draft.text {
        Some(text) => Ok(text.clone()),
        // Its error suggests similar names.
        None => Err(place::existing(&files.settings, path, Purpose::Write)
            .err()
            .unwrap_or_else(|| ToolError::raised("FileNotFoundError", format!("{path} is not there any more")))),
    }
}

fn with_hunks(shown: &str, text: &str, hunks: &[Hunk]) -> Result<String, ToolError> {
    hunks::apply(text, hunks).map_err(|(index, misfit)| {
        let hunk = &hunks[index];
        let which = format!("hunk {} of {shown} (line {} of the patch)", index + 1, hunk.at);
        if hunks::is_applied(text, hunks) {
            return ToolError::value_error(format!("{which} does not fit: the patch is applied to {shown} already"));
        }
        match misfit {
            HunkProblem::Nowhere => {
                ToolError::value_error(format!("{which} says neither by line number nor by context where it goes"))
                    .with_hint("add lines around the change as context")
            }
            HunkProblem::Ambiguous(lines) => {
                let lines: Vec<String> = lines.iter().take(20).map(ToString::to_string).collect();
                ToolError::value_error(format!("{which} fits at more than one place: lines {}", lines.join(", ")))
                    .with_hint("add lines around the change as context, or the right line number")
            }
            HunkProblem::NotFound => {
                let old: Vec<&str> =
                    hunk.lines.iter().filter(|line| line.kind != Kind::Added).map(|line| line.text.as_str()).collect();
                let near = nearest::describe(text, &old.join("\n")).map(|near| format!("; {near}")).unwrap_or_default();
                ToolError::value_error(format!("{which} does not fit{near}"))
                    .with_hint("nothing was changed; read the file and write the hunk again")
            }
        }
    })
}
