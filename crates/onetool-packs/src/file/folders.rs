//! `file.make_folder` and `file.move`.

use std::path::Path;

use onetool_sdk::{Tool, ToolError, ToolResult, define_tool};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::Files;
use super::place::{self, Purpose, io_error};
use super::trash;
use crate::blocking::blocking;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FolderInput {
    /// The folder, relative to the project. Folders above it are created.
    path: String,
}

pub(super) fn make_folder(files: Files) -> Tool {
    define_tool(
        "make_folder",
        "Create a folder, with the folders above it.\n\nA folder that exists already is an error.",
        move |input: FolderInput, ctx| {
            let files = files.clone();
            async move {
                let files = files.of(&ctx).await;
                blocking(&ctx, move |_| make(&files, &input)).await
            }
        },
    )
    .with_example("file.make_folder(path=\"notes/2024\")")
    .with_returns("dict", "path: the new folder")
}

fn make(files: &Files, input: &FolderInput) -> Result<ToolResult, ToolError> {
    let _writing = files.writing()?;
    let place = place::target(&files.settings, input.path.trim_end_matches('/'))?;
    let fail = |error: std::io::Error| io_error(&place.shown, &error);
    if let Some(parent) = place.relative.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        place.dir.create_dir_all(parent).map_err(fail)?;
    }
    place.dir.create_dir(&place.relative).map_err(fail)?;
    ToolResult::json(json!({"path": place.shown}))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct MoveInput {
    /// The file, link or folder, relative to the project.
    path: String,
    /// Its new path. A file that is there is replaced, and moved to the trash.
    target: String,
}

pub(super) fn move_to(files: Files) -> Tool {
    define_tool(
        "move",
        "Move or rename a file or folder, inside one root.\n\nA link is moved itself, not what it leads to.",
        move |input: MoveInput, ctx| {
            let files = files.clone();
            async move {
                let files = files.of(&ctx).await;
                blocking(&ctx, move |_| rename(&files, &input)).await
            }
        },
    )
    .with_example("file.move(path=\"notes/today.md\", target=\"notes/2024-02-29.md\")")
    .with_returns("dict", "path: where it is now; replaced: where in the trash the former file is, or None")
}

fn rename(files: &Files, input: &MoveInput) -> Result<ToolResult, ToolError> {
    let _writing = files.writing()?;
    let settings = &files.settings;
    let source = place::entry(settings, &input.path, Purpose::Write)?;
    let target = place::target(settings, input.target.trim_end_matches('/'))?;
    if source.is_root() {
        return Err(ToolError::denied(format!("{} is a root; it can't be moved", source.shown)));
    }
    if source.root != target.root {
        return Err(ToolError::value_error(format!("{} and {} are in different roots", source.shown, target.shown))
            .with_hint("write the new file, then delete the old one"));
    }
    // Protected files are protected by path, so a folder that contains them must not be moved.
    if settings.trash_dir.starts_with(&source.relative) || source.dir.exists(source.relative.join(".git")) {
        return Err(ToolError::denied(format!("{} holds protected files; it can't be moved", source.shown)));
    }
    if source.metadata().is_ok_and(|metadata| !metadata.is_file()) {
        source.check_folder(settings)?;
        target.check_folder(settings)?;
    }
    if target.relative.starts_with(&source.relative) && target.relative != source.relative {
        return Err(ToolError::value_error(format!("{} can't be moved into itself", source.shown)));
    }
    let fail = |error: std::io::Error| io_error(&target.shown, &error);
    let replaced = match target.metadata() {
        Ok(_) if target.relative == source.relative => None,
        Ok(metadata) if metadata.is_dir() => {
            return Err(ToolError::raised("FileExistsError", format!("{} exists already", target.shown)));
        }
        Ok(_) => Some(trash::discard(settings, &target)?),
        Err(_) => None,
    };
    source.dir.rename(&source.relative, &target.dir, &target.relative).map_err(fail)?;
    let replaced = replaced.as_deref().map(|path: &Path| place::slashed(path));
    ToolResult::json(json!({"path": target.shown, "replaced": replaced}))
}
