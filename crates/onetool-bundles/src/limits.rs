//! What requests may cost, in one table.

use std::num::NonZeroU32;
use std::time::Duration;

use onetool_outbound::AllowedHosts;

/// What configuration may change: the keys of `http`.
#[derive(Debug, Clone)]
pub struct HttpSettings {
    /// `http.allowed_hosts`
    pub allowed_hosts: AllowedHosts,
    /// `http.retries`
    pub max_retries: u32,
    /// `http.max_sent_bytes`: address, headers and body together.
    pub max_sent_bytes: usize,
    /// `http.max_response_bytes`, after decompression.
    pub max_response_bytes: usize,
    /// `http.max_timeout`: the longest that any tool's `timeoutMs` may be.
    pub max_timeout: Duration,
    /// `http.max_calls_per_minute`, for each host.
    pub max_calls_per_minute: Option<NonZeroU32>,
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            allowed_hosts: AllowedHosts::default(),
            max_retries: 2,
            max_sent_bytes: 1024 * 1024,
            max_response_bytes: 10 * 1024 * 1024,
            max_timeout: Duration::from_mins(2),
            max_calls_per_minute: None,
        }
    }
}

/// A tool may ask for at most so many retries.
pub(crate) const MAX_RETRIES: u32 = 10;
/// Redirects that one call follows.
pub(crate) const MAX_REDIRECTS: usize = 5;
/// Waits between attempts are random, up to this and twice as long each time…
pub(crate) const FIRST_BACKOFF: Duration = Duration::from_millis(200);
/// …but never longer than this.
pub(crate) const LONGEST_BACKOFF: Duration = Duration::from_secs(5);
/// How long connecting may take.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long an idle connection is kept.
pub(crate) const IDLE_CONNECTION: Duration = Duration::from_mins(1);
/// Idle connections that are kept for a host.
pub(crate) const IDLE_CONNECTIONS: usize = 8;
/// How much of a failed reply an error shows.
pub(crate) const ERROR_EXCERPT_CHARS: usize = 300;
/// Rate limiters that are remembered.
pub(crate) const LIMITERS: usize = 10_000;
/// How deep a JSON body may nest.
pub(crate) const BODY_DEPTH: usize = 64;
/// Calls whose reports are waited for.
pub(crate) const WATCHES: usize = 1024;
