//! How much a store may hold, and how long it may take, in one table.

use std::time::Duration;

/// What configuration may change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    pub bundles: usize,
    /// Of all bundles together.
    pub tools: usize,
    pub tools_per_bundle: usize,
    /// Of one tool's or bundle's file.
    pub file_bytes: usize,
    /// Of all tools' files together.
    pub total_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bundles: 1_000,
            tools: 20_000,
            tools_per_bundle: 5_000,
            file_bytes: 256 * 1024,
            total_bytes: 512 * 1024 * 1024,
        }
    }
}

/// How long a change waits for another process's change.
pub(crate) const LOCK_WAIT: Duration = Duration::from_secs(20);

/// How long reads trust memory before they look at the folders' times again.
pub(crate) const TRUST_FOLDERS: Duration = Duration::from_millis(100);

/// How long reads trust memory before every file's time is looked at, in the background.
pub(crate) const TRUST_FILES: Duration = Duration::from_secs(2);

/// How long a soft-deleted bundle stays.
pub(crate) const REAP_AFTER: chrono::TimeDelta = chrono::TimeDelta::days(2);

/// How often soft-deleted bundles and old temporary files are looked for.
pub(crate) const REAP_EVERY: Duration = Duration::from_hours(1);

/// Usage counts are written this often, or when this many calls have gathered.
pub(crate) const USAGE_EVERY: Duration = Duration::from_secs(2);

/// A usage log larger than this is rewritten, one line per tool.
pub(crate) const USAGE_LOG_BYTES: u64 = 1024 * 1024;

/// How many problems are kept to be reported.
pub(crate) const PROBLEMS: usize = 200;

/// The longest query, in characters, and how many terms of it count.
pub(crate) const QUERY_CHARS: usize = 200;
pub(crate) const QUERY_TERMS: usize = 8;

/// How many words of the vocabulary one term may stand for beside those that it begins.
pub(crate) const EXPANSIONS: usize = 256;

/// The largest file of switches.
pub(crate) const SWITCHES_BYTES: usize = 1024 * 1024;
