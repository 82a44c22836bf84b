//! Results too large to show: kept as files, read in pieces.
//!
//! `result-{handle}.txt` holds the text, `result-{handle}.meta.json` says what it is; the second is written last, so a
//! result exists once its meta file does. Handles are 128 random bits, so servers that share a folder never meet. Text
//! streams in and out: memory does not grow with its size. Expired results go whenever a new one comes; of the latest of
//! them it is remembered that they were there, so that who asks late is told why there is nothing.

mod lines;
mod query;
mod spread;
mod writer;

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use chrono::{DateTime, TimeDelta, Utc};
use onetool_sdk::Value;
use serde::{Deserialize, Serialize};

pub use query::{Matching, Page, Query};
pub use writer::ResultWriter;

use crate::atomic::StoreError;

/// All results of one folder together; beyond it the oldest go.
const FOLDER_BYTES: u64 = 8 * 1024 * 1024 * 1024;
/// Files of a folder that a clean-up looks at.
const CLEANED_ENTRIES: usize = 100_000;
/// What a crashed writer left is removed after this long.
const LEFTOVER_AGE: Duration = Duration::from_hours(24);
/// So many expired results are remembered, the latest ones, and for so long after they were made.
const REMEMBERED: usize = 200;
const REMEMBERED_FOR: TimeDelta = TimeDelta::days(7);
/// Begins the name of what is left of an expired result.
const MEMORY_PREFIX: &str = "expired-";
/// A meta file is never larger.
const META_BYTES: u64 = 64 * 1024;
/// A handle is repeated in an error up to this many characters.
const SHOWN_HANDLE: usize = 64;
/// Lines of the query that a summary suggests.
const SUGGESTED_LINES: usize = 50;

/// What is known of a stored result without reading it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    pub handle: String,
    pub total_lines: u64,
    pub size_bytes: u64,
    pub created_at: DateTime<Utc>,
    pub tool: String,
}

/// A result that has just been stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredResult {
    pub meta: Meta,
    /// The first lines, clipped.
    pub preview: Vec<String>,
}

impl StoredResult {
    /// What is shown instead of the result. `about` says what it is in the tool's own terms, e.g. "847 matches in 42
    /// files"; without it the size does.
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
    Store(#[from] StoreError),
}

/// The results of one folder. Holds no state but where it is: make one whenever it is needed.
#[derive(Debug, Clone)]
pub struct ResultStore {
    folder: PathBuf,
    /// Zero keeps results for ever.
    ttl: Duration,
}

impl ResultStore {
    pub fn new(folder: impl Into<PathBuf>, ttl: Duration) -> Self {
        Self { folder: folder.into(), ttl }
    }

    /// Begins a result; removes what has expired. `preview_lines` are kept for the summary.
    pub fn writer(&self, tool: &str, preview_lines: usize) -> Result<ResultWriter, StoreError> {
        self.clean_up();
        ResultWriter::create(&self.folder, tool, preview_lines)
    }

    /// Stores a text that is in memory already.
    pub fn store(&self, text: &str, tool: &str, preview_lines: usize) -> Result<StoredResult, StoreError> {
        let mut writer = self.writer(tool, preview_lines)?;
        writer.push(text.as_bytes())?;
        writer.finish()
    }

    /// Stores compact JSON spread over lines, so that it can be read by line. Still the same JSON.
    pub fn store_json(&self, json: &str, tool: &str, preview_lines: usize) -> Result<StoredResult, StoreError> {
        let mut writer = self.writer(tool, preview_lines)?;
        spread::spread(json, &mut writer).map_err(|error| StoreError::io(&self.folder, error))?;
        writer.finish()
    }

    /// Reads a part of a result. `keep_going` is asked now and then; once it says no, the search ends.
    pub fn query(&self, handle: &str, query: &Query, keep_going: &dyn Fn() -> bool) -> Result<Page, ResultError> {
        let (meta, file) = self.open(handle)?;
        query::run(&meta, file, &self.text_path(handle), query, keep_going)
    }

    /// What is known of a result.
    pub fn meta(&self, handle: &str) -> Result<Meta, ResultError> {
        self.open(handle).map(|(meta, _)| meta)
    }

    /// Opens the text of a result.
    pub fn open(&self, handle: &str) -> Result<(Meta, File), ResultError> {
        let not_found = || ResultError::NotFound { handle: shown(handle) };
        if !is_handle(handle) {
            return Err(not_found());
        }
        let expired = || ResultError::Expired { handle: shown(handle) };
        let meta = read_meta(&self.meta_path(handle)).filter(|meta| meta.handle == handle);
        let meta = meta.ok_or_else(|| if self.memory_path(handle).exists() { expired() } else { not_found() })?;
        if self.is_expired(meta.created_at, Utc::now()) {
            return Err(expired());
        }
        let file = File::open(self.text_path(handle)).map_err(|_| not_found())?;
        // A text that was cut short by a crash is not the result.
        let whole = file.metadata().is_ok_and(|found| found.len() == meta.size_bytes);
        if whole { Ok((meta, file)) } else { Err(not_found()) }
    }

    fn is_expired(&self, created_at: DateTime<Utc>, now: DateTime<Utc>) -> bool {
        !self.ttl.is_zero()
            && TimeDelta::from_std(self.ttl).is_ok_and(|ttl| now.signed_duration_since(created_at) > ttl)
    }

    /// Removes what has expired, what crashed writers left, and the oldest where there is too much. Answers how many
    /// results went. What can't be removed now is left for the next time.
    pub fn clean_up(&self) -> usize {
        let Ok(entries) = fs::read_dir(&self.folder) else { return 0 };
        let now = Utc::now();
        let mut kept: Vec<Meta> = Vec::new();
        let mut gone: Vec<Meta> = Vec::new();
        let mut removed = 0;
        for entry in entries.take(CLEANED_ENTRIES).flatten() {
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            if name.starts_with(writer::TEMPORARY_PREFIX) {
                remove_if_old(&entry.path(), LEFTOVER_AGE);
            } else if let Some(handle) = handle_in(name, ".meta.json") {
                match read_meta(&entry.path()) {
                    Some(meta) => {
                        let meta = Meta { handle: handle.to_owned(), ..meta };
                        if self.is_expired(meta.created_at, now) {
                            removed += self.expire(handle);
                            gone.push(meta);
                        } else {
                            kept.push(meta);
                        }
                    }
                    None => remove_if_old(&entry.path(), LEFTOVER_AGE),
                }
            } else if name.starts_with(MEMORY_PREFIX) {
                match read_meta(&entry.path()) {
                    Some(meta) if is_handle(&meta.handle) => gone.push(meta),
                    _ => remove_if_old(&entry.path(), LEFTOVER_AGE),
                }
            } else if let Some(handle) = handle_in(name, ".txt")
                && !self.meta_path(handle).exists()
            {
                remove_if_old(&entry.path(), LEFTOVER_AGE);
            }
        }
        gone.sort_by_key(|meta| std::cmp::Reverse(meta.created_at));
        for (index, meta) in gone.iter().enumerate() {
            if index >= REMEMBERED || now.signed_duration_since(meta.created_at) > REMEMBERED_FOR {
                let _ = fs::remove_file(self.memory_path(&meta.handle));
            }
        }
        kept.sort_by_key(|meta| std::cmp::Reverse(meta.created_at));
        let mut total = 0_u64;
        for meta in kept {
            total = total.saturating_add(meta.size_bytes);
            if total > FOLDER_BYTES {
                removed += self.remove(&meta.handle);
            }
        }
        removed
    }

    /// The meta file goes first: without it the result is gone.
    fn remove(&self, handle: &str) -> usize {
        let gone = fs::remove_file(self.meta_path(handle)).is_ok();
        let _ = fs::remove_file(self.text_path(handle));
        usize::from(gone)
    }

    /// The files of the result go; what it was stays, so that asking for it can say that it has expired.
    fn expire(&self, handle: &str) -> usize {
        let gone = fs::rename(self.meta_path(handle), self.memory_path(handle)).is_ok();
        let _ = fs::remove_file(self.text_path(handle));
        usize::from(gone)
    }

    fn memory_path(&self, handle: &str) -> PathBuf {
        self.folder.join(format!("{MEMORY_PREFIX}{handle}.json"))
    }

    fn text_path(&self, handle: &str) -> PathBuf {
        self.folder.join(format!("result-{handle}.txt"))
    }

    fn meta_path(&self, handle: &str) -> PathBuf {
        self.folder.join(format!("result-{handle}.meta.json"))
    }
}

/// Hexadecimal digits only: a handle becomes part of a path.
fn is_handle(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

fn handle_in<'a>(name: &'a str, suffix: &str) -> Option<&'a str> {
    name.strip_prefix("result-")?.strip_suffix(suffix).filter(|handle| is_handle(handle))
}

fn shown(handle: &str) -> String {
    handle.chars().filter(|c| !c.is_control()).take(SHOWN_HANDLE).collect()
}

fn read_meta(path: &Path) -> Option<Meta> {
    let mut text = String::new();
    File::open(path).ok()?.take(META_BYTES).read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

fn remove_if_old(path: &Path, age: Duration) {
    let modified = fs::metadata(path).and_then(|found| found.modified());
    if modified.is_ok_and(|at| SystemTime::now().duration_since(at).is_ok_and(|passed| passed > age)) {
        let _ = fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests;
