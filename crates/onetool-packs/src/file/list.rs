//! `file.list`: lists a folder.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use cap_std::fs::FileType;
use onetool_sdk::{Tool, ToolError, ToolResult, define_tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Files;
use super::place::{self, Place, Purpose, io_error, shown};
use crate::blocking::{Stop, blocking};

const MAX_DEPTH: u32 = 20;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListInput {
    /// The folder, relative to the project.
    #[serde(default = "here")]
    path: String,
    /// How many levels to show: 1 is the folder alone.
    #[serde(default = "one")]
    depth: u32,
    /// Whether names that start with a dot are shown.
    #[serde(default = "yes")]
    hidden: bool,
    /// How many entries to return at most.
    #[serde(default)]
    limit: Option<usize>,
    /// Whether to return a dict with the type and size of each entry.
    #[serde(default)]
    details: bool,
    /// Whether the details tell the time of change of each file, in seconds.
    #[serde(default)]
    times: bool,
}

fn here() -> String {
    ".".to_owned()
}

fn one() -> u32 {
    1
}

fn yes() -> bool {
    true
}

#[derive(Debug, Serialize)]
struct Listing {
    path: String,
    entries: Vec<Entry>,
    truncated: bool,
}

#[derive(Debug, Serialize)]
struct Entry {
    path: String,
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mtime: Option<f64>,
}

pub(super) fn tool(files: Files) -> Tool {
    define_tool(
        "list",
        "List what is in a folder.\n\n\
         Folders come first, each group by name. Everything is listed, also what .gitignore names; file.glob leaves \
         that out.",
        move |input: ListInput, ctx| {
            let files = files.clone();
            async move {
                let files = files.of(&ctx).await;
                blocking(&ctx, move |stop| list(&files, &input, stop)).await
            }
        },
    )
    .with_example("file.list(path=\"src\", depth=2)")
    .with_returns(
        "list | dict",
        "the paths; with details=True a dict with path, entries (each with path, type: file, folder, link or other, size and \
         mtime of files) and truncated",
    )
}

pub(super) fn kind(file_type: FileType) -> &'static str {
    if file_type.is_file() {
        "file"
    } else if file_type.is_dir() {
        "folder"
    } else if file_type.is_symlink() {
        "link"
    } else {
        "other"
    }
}

fn list(files: &Files, input: &ListInput, stop: &Stop) -> Result<ToolResult, ToolError> {
    if input.depth == 0 || input.depth > MAX_DEPTH {
        return Err(ToolError::value_error(format!("depth must be between 1 and {MAX_DEPTH}")));
    }
    let place = place::existing(&files.settings, &input.path, Purpose::Read)?;
    let metadata = place.metadata().map_err(|error| io_error(&place.shown, &error))?;
    if !metadata.is_dir() {
        return Err(ToolError::raised("NotADirectoryError", format!("{} is a file, not a folder", place.shown))
            .with_hint(format!("file.read({:?}) shows it", place.shown)));
    }
    let most = files.settings.max_paths;
    let default = if input.details { files.settings.max_results } else { most };
    let limit = input.limit.unwrap_or(default).min(most);
    let mut entries = Vec::new();
    let mut folders = VecDeque::from([(place.relative.clone(), 1)]);
    let mut truncated = false;
    while let Some((folder, depth)) = folders.pop_front() {
        for (relative, entry) in folder_entries(files, &place, &folder, input, stop)? {
            if entries.len() == limit {
                truncated = true;
                break;
            }
            if entry.kind == "folder" && depth < input.depth {
                folders.push_back((relative, depth + 1));
            }
            entries.push(entry);
        }
        if truncated {
            break;
        }
    }
    if input.details {
        return ToolResult::json(Listing { path: place.shown, entries, truncated });
    }
    if truncated && input.limit.is_none() {
        return Err(super::glob::too_many(limit));
    }
    ToolResult::json(entries.into_iter().map(|entry| entry.path).collect::<Vec<_>>())
}

fn folder_entries(
    files: &Files,
    place: &Place,
    folder: &Path,
    input: &ListInput,
    stop: &Stop,
) -> Result<Vec<(PathBuf, Entry)>, ToolError> {
    let first = files.is_first_root(place);
    let read = place.dir.read_dir(folder).map_err(|error| io_error(&shown(&place.root, first, folder), &error))?;
    let mut found = Vec::new();
    for item in read {
        stop.check()?;
        let item = item.map_err(|error| io_error(&place.shown, &error))?;
        let name = item.file_name();
        if !input.hidden && name.to_string_lossy().starts_with('.') {
            continue;
        }
        let Ok(file_type) = item.file_type() else { continue };
        let relative = if folder == Path::new(".") { PathBuf::from(&name) } else { folder.join(&name) };
        let metadata = if file_type.is_file() { item.metadata().ok() } else { None };
        let size = metadata.as_ref().map(cap_std::fs::Metadata::len);
        let modified = metadata.and_then(|metadata| metadata.modified().ok()).map(cap_std::time::SystemTime::into_std);
        let since = modified.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
        let mtime = since.filter(|_| input.times).map(|since| since.as_secs_f64());
        found.push((
            relative.clone(),
            Entry { path: shown(&place.root, first, &relative), kind: kind(file_type), size, mtime },
        ));
    }
    found.sort_by(|(a, x), (b, y)| (x.kind != "folder").cmp(&(y.kind != "folder")).then_with(|| a.cmp(b)));
    Ok(found)
}
