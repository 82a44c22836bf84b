//! The limits of a store, sizes and times, in one table.

use std::time::Duration;

/// Limits that the configuration can change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    pub bundles: usize,
    /// In all bundles together.
    pub tools: usize,
    pub tools_per_bundle: usize,
    /// Of one tool or bundle document.
    pub file_bytes: usize,
    /// Of all tool documents together.
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

/// How long reads trust memory before they check the folders' times again.
pub(crate) const TRUST_FOLDERS: Duration = Duration::from_millis(100);

/// How long reads trust memory before every file's time is checked, in the background.
pub(crate) const TRUST_FILES: Duration = Duration::from_secs(2);

/// How long a soft-deleted bundle is kept.
pub(crate) const REAP_AFTER: chrono::TimeDelta = chrono::TimeDelta::days(2);

/// How often soft-deleted bundles are removed.
pub(crate) const REAP_EVERY: Duration = Duration::from_hours(1);

/// Usage counts are written this often, or when this many calls have gathered.
pub(crate) const USAGE_EVERY: Duration = Duration::from_secs(2);

/// A usage log larger than this is rewritten, one line per tool.
pub(crate) const USAGE_LOG_BYTES: u64 = 1024 * 1024;

/// Maximum number of problems kept for reports.
pub(crate) const PROBLEMS: usize = 200;

/// Maximum length of a query in characters, and number of its terms that count.
pub(crate) const QUERY_CHARS: usize = 200;
pub(crate) const QUERY_TERMS: usize = 8;

/// Maximum number of words that one term may match in addition to those that begin with it.
pub(crate) const EXPANSIONS: usize = 256;

/// Maximum size of the file of switches.
pub(crate) const SWITCHES_BYTES: usize = 1024 * 1024;
