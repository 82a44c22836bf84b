//! The limits of requests, in one table.

use std::num::NonZeroU32;
use std::time::Duration;

use onetool_config::{MAX_BYTES, Reader, Section, Shape, keys};
use onetool_outbound::AllowedHosts;
use onetool_state::bundles::Limits;

keys! {
    /// What HTTP tools may do.
    pub struct HttpKeys {
        /// Hosts that requests may go to; all others are refused.
        allowed_hosts: Vec<String> = Vec::new(), live, example "[\"*.example.org\"]";
        /// Attempts after the first, for requests that may be repeated.
        retries: u32 [Shape::Count(0, 20)] = 2, live;
        /// Size of a request, in bytes: address, headers and body together.
        max_sent_bytes: usize [Shape::Count(1, MAX_BYTES)] = 1024 * 1024, live;
        /// Size of a response, in bytes, after decompression.
        max_response_bytes: usize [Shape::Count(1, MAX_BYTES)] = 10 * 1024 * 1024, live;
        /// Seconds that any tool's own timeout is limited to.
        max_timeout: Duration = Duration::from_mins(2), live;
        /// Events of one streamed response.
        max_stream_events: usize [Shape::Count(1, 10_000_000)] = 20_000, live;
        /// Size of one streamed response, in bytes.
        max_stream_bytes: usize [Shape::Count(1, MAX_BYTES)] = 10 * 1024 * 1024, live;
        /// Seconds that a streamed response may take, whatever the tool's own timeout is.
        max_stream_time: Duration = Duration::from_mins(10), live;
        /// Seconds that a streamed response may send nothing.
        max_stream_idle: Duration = Duration::from_mins(1), live;
        /// Pages that one call asks for.
        max_pages: u32 [Shape::Count(1, 100_000)] = 100, live;
        /// Items that one call gathers from pages.
        max_items: usize [Shape::Count(1, 10_000_000)] = 10_000, live;
        /// Requests per minute to each host. Without it, there is no limit.
        max_calls_per_minute: Option<NonZeroU32> [Shape::Count(1, 1_000_000)] = None, live, example "60";
    }
}

pub const HTTP: Section<HttpKeys> = Section::new("http");

keys! {
    /// Bundles of HTTP tools.
    pub struct BundleKeys {
        /// Folder of the bundles, relative to .onetool.
        dir: String = "bundles".to_owned(), live;
        /// Bundles that may be stored.
        max_bundles: usize [Shape::Count(1, 100_000)] = 1_000, live;
        /// Tools that may be stored, all bundles together.
        max_tools: usize [Shape::Count(1, 1_000_000)] = 20_000, live;
        /// Tools that one bundle may hold.
        max_tools_per_bundle: usize [Shape::Count(1, 100_000)] = 5_000, live;
    }
}

impl BundleKeys {
    /// The limits of the store.
    pub fn limits(&self) -> Limits {
        Limits {
            bundles: self.max_bundles,
            tools: self.max_tools,
            tools_per_bundle: self.max_tools_per_bundle,
            ..Limits::default()
        }
    }
}

/// The preferred language of descriptions, for bundles and tools that have several.
pub const LOCALE: Section<Option<String>> = Section::new("locale")
    .with_doc("Language of descriptions, where a bundle has several; Accept-Language goes first.");

pub const BUNDLES: Section<BundleKeys> = Section::new("bundles");

/// The section `http` of a configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct HttpSettings {
    /// `http.allowed_hosts`
    pub allowed_hosts: AllowedHosts,
    /// `http.retries`
    pub max_retries: u32,
    /// `http.max_sent_bytes`: address, headers and body together.
    pub max_sent_bytes: usize,
    /// `http.max_response_bytes`, after decompression.
    pub max_response_bytes: usize,
    /// `http.max_timeout`: upper bound of any tool's `timeoutMs`.
    pub max_timeout: Duration,
    /// `http.max_stream_events`
    pub max_stream_events: usize,
    /// `http.max_stream_bytes`
    pub max_stream_bytes: usize,
    /// `http.max_stream_time`
    pub max_stream_time: Duration,
    /// `http.max_stream_idle`
    pub max_stream_idle: Duration,
    /// `http.max_pages`
    pub max_pages: u32,
    /// `http.max_items`
    pub max_items: usize,
    /// `http.max_calls_per_minute`, for each host.
    pub max_calls_per_minute: Option<NonZeroU32>,
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self::new(&HttpKeys::default(), AllowedHosts::default())
    }
}

impl HttpSettings {
    fn new(keys: &HttpKeys, allowed_hosts: AllowedHosts) -> Self {
        Self {
            allowed_hosts,
            max_retries: keys.retries,
            max_sent_bytes: keys.max_sent_bytes,
            max_response_bytes: keys.max_response_bytes,
            max_timeout: keys.max_timeout,
            max_stream_events: keys.max_stream_events,
            max_stream_bytes: keys.max_stream_bytes,
            max_stream_time: keys.max_stream_time,
            max_stream_idle: keys.max_stream_idle,
            max_pages: keys.max_pages,
            max_items: keys.max_items,
            max_calls_per_minute: keys.max_calls_per_minute,
        }
    }

    /// Reads the section `http`.
    pub fn read(reader: &mut Reader) -> Self {
        let keys = reader.read(&HTTP);
        let allowed_hosts =
            AllowedHosts::parse(keys.allowed_hosts.iter().map(String::as_str)).unwrap_or_else(|error| {
                reader.problem(&["http", "allowed_hosts"], &error.to_string());
                AllowedHosts::default()
            });
        Self::new(&keys, allowed_hosts)
    }
}

/// Maximum number of retries that a tool may request.
pub(crate) const MAX_RETRIES: u32 = 10;
/// Maximum number of redirects per call.
pub(crate) const MAX_REDIRECTS: usize = 5;
/// Upper bound of the first random wait between attempts. It doubles with each attempt…
pub(crate) const FIRST_BACKOFF: Duration = Duration::from_millis(200);
/// …up to this.
pub(crate) const LONGEST_BACKOFF: Duration = Duration::from_secs(5);
/// How long connecting may take.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long an idle connection is kept.
pub(crate) const IDLE_CONNECTION: Duration = Duration::from_mins(1);
/// Maximum number of idle connections per host.
pub(crate) const IDLE_CONNECTIONS: usize = 8;
/// How much of a failed reply an error quotes.
pub(crate) const ERROR_EXCERPT_CHARS: usize = 300;
/// Maximum number of rate limiters in memory.
pub(crate) const LIMITERS: usize = 10_000;
/// How deep a JSON body may nest.
pub(crate) const BODY_DEPTH: usize = 64;
/// Maximum number of token records in memory.
pub(crate) const TOKENS: usize = 1_000;
/// Maximum number of hosts with a known clock difference.
pub(crate) const CLOCKS: usize = 1_000;
/// How long asking for a token may take, retries included.
pub(crate) const TOKEN_TIMEOUT: Duration = Duration::from_secs(20);
/// Lifetime of the lease on a token request; longer than the request may take.
pub(crate) const LEASE_TTL: Duration = Duration::from_secs(40);
/// How often waiting processes check for the token.
pub(crate) const LEASE_POLL: Duration = Duration::from_millis(50);
/// How much of an event a progress message shows.
pub(crate) const PROGRESS_CHARS: usize = 2_000;
