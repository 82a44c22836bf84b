//! `file.delete`: moves files to the trash.
//!
//! A deleted file moves to a folder of its own below the trash of its root, with its previous path, so that it can be
//! moved back. It never leaves its root, so the move is one rename.

use std::path::{Path, PathBuf};

use onetool_sdk::{ErrorKind, Tool, ToolError, ToolResult, define_tool};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::Files;
use super::list::kind;
use super::place::{self, Place, Purpose, io_error, slashed};
use super::settings::FileSettings;
use crate::blocking::blocking;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct DeleteInput {
    /// The file, link or folder, relative to the project.
    path: String,
    /// Needed to delete a folder that is not empty.
    #[serde(default)]
    recursive: bool,
}

pub(super) fn tool(files: Files) -> Tool {
    define_tool(
        "delete",
        "Delete a file or folder, by moving it to the trash.\n\n\
         A link is deleted itself, not what it leads to. The answer tells where in the trash it is.",
        move |input: DeleteInput, ctx| {
            let files = files.clone();
            async move {
                let files = files.of(&ctx).await;
                blocking(&ctx, move |_| delete(&files, &input)).await
            }
        },
    )
    .with_example("file.delete(path=\"notes/old.md\")")
    .with_returns("dict", "path, type, and trash: where it is now")
}

fn delete(files: &Files, input: &DeleteInput) -> Result<ToolResult, ToolError> {
    let _writing = files.writing()?;
    let place = place::entry(&files.settings, &input.path, Purpose::Write)?;
    if place.is_root() {
        return Err(ToolError::denied(format!("{} is a root; it can't be deleted", place.shown)));
    }
    let metadata = place.metadata().map_err(|error| io_error(&place.shown, &error))?;
    if metadata.is_dir() && !input.recursive {
        let mut entries = place.dir.read_dir(&place.relative).map_err(|error| io_error(&place.shown, &error))?;
        if entries.next().is_some() {
            return Err(ToolError::new(ErrorKind::Conflict, format!("{} is a folder that is not empty", place.shown))
                .with_hint("recursive=True deletes it with everything in it"));
        }
    }
    let trashed = discard(&files.settings, &place)?;
    ToolResult::json(json!({"path": place.shown, "type": kind(metadata.file_type()), "trash": slashed(&trashed)}))
}

/// Moves a file to the trash of its root; returns its new path.
pub(super) fn discard(settings: &FileSettings, place: &Place) -> Result<PathBuf, ToolError> {
    let trash = &settings.trash_dir;
    if trash.starts_with(&place.relative) {
        return Err(ToolError::denied(format!("{} holds the trash; it can't be deleted", place.shown)));
    }
    if place.metadata().is_ok_and(|metadata| !metadata.is_file()) {
        place.check_folder(settings)?;
    }
    let fail = |error: std::io::Error| io_error(&place.shown, &error);
    // Version 7 UUIDs sort by time.
    let target = trash.join(uuid::Uuid::now_v7().to_string()).join(&place.relative);
    place.dir.create_dir_all(target.parent().unwrap_or(Path::new("."))).map_err(fail)?;
    let ignore = trash.join(".gitignore");
    if !place.dir.exists(&ignore) {
        place.dir.write(&ignore, "*\n").map_err(fail)?;
    }
    place.dir.rename(&place.relative, &place.dir, &target).map_err(fail)?;
    Ok(target)
}
