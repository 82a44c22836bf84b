//! `file.glob`: finds files by name.

use std::path::PathBuf;

use onetool_sdk::{ErrorKind, Tool, ToolError, ToolResult, define_tool};
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::Files;
use super::place::{self, Purpose, shown};
use super::walk::{Filter, Next, Walk, glob_set};
use crate::blocking::{Stop, blocking};

/// Maximum number of paths that are collected before sorting.
const MAX_COLLECTED: usize = 200_000;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GlobInput {
    /// `*` inside a name, `**` across folders, `{a,b}` either: `**/*.py`, `src/*.{rs,toml}`.
    pattern: String,
    /// The folder to look in, relative to the project.
    #[serde(default = "here")]
    path: String,
    /// Whether names that start with a dot are found too.
    #[serde(default)]
    hidden: bool,
    /// Whether files that .gitignore names are found too.
    #[serde(default)]
    ignored: bool,
    /// How many paths to return at most.
    #[serde(default)]
    limit: Option<usize>,
    /// Whether to return a dict that also tells whether there are more.
    #[serde(default)]
    details: bool,
}

fn here() -> String {
    ".".to_owned()
}

pub(super) fn tool(files: Files) -> Tool {
    define_tool(
        "glob",
        "Find files by a glob pattern on their path.\n\n\
         Files that .gitignore names and hidden ones are left out unless asked for. Links are not followed.",
        move |input: GlobInput, ctx| {
            let files = files.clone();
            async move {
                let files = files.of(&ctx).await;
                blocking(&ctx, move |stop| glob(&files, &input, stop)).await
            }
        },
    )
    .with_example("file.glob(pattern=\"**/*.py\", path=\"src\")")
    .with_returns(
        "list | dict",
        "the paths, sorted; with details=True a dict with paths and truncated: whether there are more",
    )
}

fn glob(files: &Files, input: &GlobInput, stop: &Stop) -> Result<ToolResult, ToolError> {
    let globs = glob_set(&input.pattern)?;
    let place = place::existing(&files.settings, &input.path, Purpose::Read)?;
    // A pattern that names a dot file explicitly includes hidden files.
    let names_hidden = input.pattern.split('/').any(|part| part.starts_with('.') && part != ".");
    let walk = Walk {
        files,
        place: &place,
        hidden: Filter::include_if(input.hidden || names_hidden),
        ignored: Filter::include_if(input.ignored),
    };
    let found: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
    walk.visit(stop, || {
        |relative| {
            if !globs.is_match(walk.below_start(relative)) {
                return Next::Continue;
            }
            let mut found = found.lock();
            found.push(relative.to_owned());
            if found.len() >= MAX_COLLECTED { Next::Quit } else { Next::Continue }
        }
    })?;
    let mut found = found.into_inner();
    found.sort_unstable();
    let most = if input.details { files.settings.max_results } else { files.settings.max_paths };
    let limit = input.limit.unwrap_or(most).min(most);
    let truncated = found.len() > limit || found.len() >= MAX_COLLECTED;
    let first = files.is_first_root(&place);
    let paths: Vec<String> = found
        .iter()
        // Paths from the walk must really be beneath the root.
        .filter(|relative| place.dir.symlink_metadata(relative).is_ok())
        .take(limit)
        .map(|relative| shown(&place.root, first, relative))
        .collect();
    if input.details {
        return ToolResult::json(json!({"paths": paths, "truncated": truncated}));
    }
    if truncated && input.limit.is_none() {
        return Err(too_many(limit));
    }
    ToolResult::json(paths)
}

/// A plain list cannot say that it is incomplete.
pub(super) fn too_many(limit: usize) -> ToolError {
    ToolError::new(ErrorKind::TooLarge, format!("there are more than {limit} paths"))
        .with_hint("narrow the pattern or the folder, or pass limit=... for the first ones")
}
