//! The allowed addresses and the limits of the pack `web`.

use std::time::Duration;

use onetool_outbound::AllowedHosts;

/// Settings of the pack `web`: the keys of `tools.web`.
#[derive(Debug, Clone)]
pub struct WebSettings {
    /// `allowed_hosts`: `*` is every public address; addresses of this machine and private networks must be named.
    pub allowed_hosts: AllowedHosts,
    /// `robots`: whether a site's robots.txt is followed.
    pub follows_robots: bool,
    /// `max_bytes`: maximum size of a reply, after decompression.
    pub max_bytes: usize,
    /// `timeout`: time limit for one page, including redirects.
    pub timeout: Duration,
    /// `cache_ttl`: how long a reply is cached; zero disables the cache.
    pub cache_ttl: Duration,
    /// `max_parallel`: how many pages `fetch_all` reads in parallel.
    pub max_parallel: usize,
    /// `engines`, in the order of the configuration: the first is the default.
    pub engines: Vec<Engine>,
}

/// A search engine of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Engine {
    pub name: String,
    pub kind: EngineKind,
    /// The address that requests go to.
    pub url: String,
    /// The engine's key; `None` if its secret is not set.
    pub key: Option<String>,
    /// The secrets that the key contains.
    pub secrets: Vec<String>,
}

/// The protocol of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineKind {
    Brave,
    SearXng,
    Tavily,
}

impl EngineKind {
    /// The kind with this name in the configuration.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "brave" => Some(Self::Brave),
            "searxng" => Some(Self::SearXng),
            "tavily" => Some(Self::Tavily),
            _ => None,
        }
    }

    /// The default address. SearXNG has none: it is self-hosted.
    pub fn usual_url(self) -> Option<&'static str> {
        match self {
            Self::Brave => Some("https://api.search.brave.com/res/v1/web/search"),
            Self::SearXng => None,
            Self::Tavily => Some("https://api.tavily.com/search"),
        }
    }

    pub(super) fn needs_key(self) -> bool {
        !matches!(self, Self::SearXng)
    }
}

impl Default for WebSettings {
    fn default() -> Self {
        Self {
            // The rule is valid; if it were not, nothing would be allowed.
            allowed_hosts: AllowedHosts::parse(["*"]).unwrap_or_default(),
            follows_robots: true,
            max_bytes: 5 << 20,
            timeout: Duration::from_secs(30),
            cache_ttl: Duration::from_mins(5),
            max_parallel: 8,
            engines: Vec::new(),
        }
    }
}

/// Maximum number of redirects per page.
pub(super) const MAX_REDIRECTS: usize = 5;
/// How long connecting may take.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum length of an address.
pub(super) const MAX_URL_CHARS: usize = 8192;
/// Maximum number of addresses per `fetch_all`.
pub(super) const MAX_URLS: usize = 100;
/// Maximum size of a robots.txt (RFC 9309 requires at least 500 KiB).
pub(super) const MAX_ROBOTS_BYTES: usize = 512 << 10;
/// How long a robots.txt is cached.
pub(super) const ROBOTS_TTL: Duration = Duration::from_hours(1);
/// Maximum number of sites with a cached robots.txt.
pub(super) const MAX_ROBOTS_SITES: usize = 1000;
/// Maximum total size of cached replies.
pub(super) const MAX_CACHE_BYTES: usize = 32 << 20;
/// Maximum number of results per search.
pub(super) const MAX_HITS: usize = 50;
/// Maximum length of a query.
pub(super) const MAX_QUERY_CHARS: usize = 2000;
