//! Results too large to show: kept as blobs, read in pieces.
//!
//! There is one store for large output: runs, `ot.result`, `std.tool_output_cache` and the output cache of the SDK all
//! read and write it ([`ResultStore`] is also an [`onetool_sdk::OutputStore`]). Handles are 128 unguessable bits, equal
//! for equal content in one scope. Text is streamed in and out: memory does not grow with its size.

mod lines;
mod outputs;
mod query;
mod reader;
mod spread;
mod writer;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use onetool_sdk::Value;
use serde_json::Value as Json;

pub use query::{Matching, Page, Query};
pub use reader::ResultReader;
pub use writer::ResultWriter;

use crate::flat::FlatFiles;
use crate::interface::{BlobId, BlobInfo, Blobs, Retention, State, StateError};
use crate::wait;

/// Maximum number of characters of a handle repeated in an error.
const SHOWN_HANDLE: usize = 64;
/// Number of lines in the query that a summary suggests.
const SUGGESTED_LINES: usize = 50;

/// What is known about a stored result without reading it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meta {
    pub handle: String,
    pub total_lines: u64,
    pub size_bytes: u64,
    pub created_at: DateTime<Utc>,
    pub tool: String,
}

impl From<BlobInfo> for Meta {
    fn from(info: BlobInfo) -> Self {
        let text = |key: &str| info.notes.get(key).and_then(Json::as_str).unwrap_or_default().to_owned();
        Self {
            total_lines: info.notes.get("total_lines").and_then(Json::as_u64).unwrap_or(0),
            tool: text("tool"),
            size_bytes: info.bytes,
            created_at: info.created_at,
            handle: info.id.to_string(),
        }
    }
}

/// A result that has just been stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredResult {
    pub meta: Meta,
    /// The first lines, clipped.
    pub preview: Vec<String>,
}

impl StoredResult {
    /// What is shown instead of the result. `about` describes it in the tool's own terms, e.g. "847 matches in 42
    /// files"; without it, the size is given.
    pub fn summary(&self, about: Option<&str>) -> Value {
        let Meta { handle, total_lines, size_bytes, tool, .. } = &self.meta;
        let about = about.map_or_else(
            || {
                let lines = if *total_lines == 1 { "line" } else { "lines" };
                let from = if tool.is_empty() { String::new() } else { format!(" from {tool}") };
                format!("{total_lines} {lines}, {}{from}", readable_size(*size_bytes))
            },
            str::to_owned,
        );
        let number = |value: u64| Value::Int(i64::try_from(value).unwrap_or(i64::MAX));
        let fields = [
            ("handle", Value::Str(handle.clone())),
            ("total_lines", number(*total_lines)),
            ("size_bytes", number(*size_bytes)),
            ("summary", Value::Str(about)),
            ("preview", Value::List(self.preview.iter().map(|line| Value::Str(line.clone())).collect())),
            ("query", Value::Str(format!("ot.result(handle='{handle}', offset=1, limit={SUGGESTED_LINES})"))),
        ];
        Value::Dict(fields.into_iter().map(|(key, value)| (Value::from(key), value)).collect())
    }
}

fn readable_size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["kB", "MB", "GB", "TB"];
    let mut size = bytes as f64;
    let mut unit = "bytes";
    for next in UNITS {
        if size < 1000.0 {
            break;
        }
        size /= 1000.0;
        unit = next;
    }
    if unit == "bytes" { format!("{bytes} bytes") } else { format!("{size:.1} {unit}") }
}

/// Why a stored result could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ResultError {
    #[error("Result not found: {handle}")]
    NotFound { handle: String },
    #[error("Result expired: {handle}")]
    Expired { handle: String },
    #[error("offset must be >= 1 (1-indexed), got {0}")]
    Offset(i64),
    #[error("limit must be >= 1, got {0}")]
    Limit(i64),
    #[error("search is not a regular expression: {0}")]
    Pattern(String),
    #[error("the search was given up")]
    Cancelled,
    #[error(transparent)]
    State(StateError),
}

impl From<StateError> for ResultError {
    fn from(error: StateError) -> Self {
        match error {
            StateError::NotFound(handle) => Self::NotFound { handle },
            StateError::Expired(handle) => Self::Expired { handle },
            error => Self::State(error),
        }
    }
}

/// The store for large output. Cheap to clone; create a new one whenever the settings may have changed.
#[derive(Clone)]
pub struct ResultStore {
    blobs: Arc<dyn Blobs>,
    /// The owner of the results. Empty if owners are not distinguished.
    scope: Arc<str>,
}

impl fmt::Debug for ResultStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResultStore").field("scope", &self.scope).finish_non_exhaustive()
    }
}

impl ResultStore {
    pub fn new(state: &State, retention: Retention) -> Self {
        Self { blobs: state.blobs(retention), scope: "".into() }
    }

    /// Results in a folder, without any other state.
    pub fn in_folder(folder: impl Into<PathBuf>, retention: Retention) -> Self {
        Self { blobs: FlatFiles::blobs_in(folder, retention), scope: "".into() }
    }

    /// The same store for one owner: handles of other owners are unknown to it.
    #[must_use]
    pub fn scoped(&self, scope: &str) -> Self {
        Self { blobs: self.blobs.clone(), scope: scope.into() }
    }

    /// Starts a result; removes expired ones. `preview_lines` are kept for the summary.
    pub fn writer(&self, tool: &str, preview_lines: usize) -> Result<ResultWriter, StateError> {
        ResultWriter::create(&*self.blobs, &self.scope, tool, preview_lines)
    }

    /// Stores a text that is already in memory.
    pub fn store(&self, text: &str, tool: &str, preview_lines: usize) -> Result<StoredResult, StateError> {
        let mut writer = self.writer(tool, preview_lines)?;
        writer.push(text.as_bytes())?;
        writer.finish()
    }

    /// Stores compact JSON spread over several lines, so that it can be read by line. It stays the same JSON.
    pub fn store_json(&self, json: &str, tool: &str, preview_lines: usize) -> Result<StoredResult, StateError> {
        let mut writer = self.writer(tool, preview_lines)?;
        let spread = spread::spread(json, &mut writer);
        writer.checked(spread)?;
        writer.finish()
    }

    /// Reads part of a result. `keep_going` is called now and then; once it returns false, the search ends.
    pub fn query(&self, handle: &str, query: &Query, keep_going: &dyn Fn() -> bool) -> Result<Page, ResultError> {
        let (meta, reader) = self.open(handle)?;
        query::run(&meta, reader, query, keep_going)
    }

    /// Returns the metadata of a result.
    pub fn meta(&self, handle: &str) -> Result<Meta, ResultError> {
        self.describe(handle).map(Meta::from)
    }

    /// Lists stored results, newest first, at most `limit`.
    pub fn list(&self, limit: usize) -> Vec<Meta> {
        let infos = wait(self.blobs.newest(&self.scope, limit)).unwrap_or_default();
        infos.into_iter().map(Meta::from).collect()
    }

    /// Opens the text of a result.
    pub fn open(&self, handle: &str) -> Result<(Meta, ResultReader), ResultError> {
        let info = self.describe(handle)?;
        let reader = ResultReader::new(self.blobs.clone(), &info);
        Ok((info.into(), reader))
    }

    fn describe(&self, handle: &str) -> Result<BlobInfo, ResultError> {
        let not_found = || ResultError::NotFound { handle: shown(handle) };
        let id: BlobId = handle.parse().map_err(|_| not_found())?;
        let info = wait(self.blobs.describe(&id))?;
        if info.scope == *self.scope { Ok(info) } else { Err(not_found()) }
    }

    /// Removes expired results, and the oldest ones if there are too many. Returns the number of removed results.
    pub fn clean_up(&self) -> usize {
        wait(self.blobs.sweep()).unwrap_or(0)
    }
}

fn shown(handle: &str) -> String {
    handle.chars().filter(|c| !c.is_control()).take(SHOWN_HANDLE).collect()
}

#[cfg(test)]
mod tests;
