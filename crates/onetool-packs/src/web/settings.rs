//! What the pack `web` may reach and how much it may take: one table of limits.

use std::time::Duration;

use onetool_outbound::AllowedHosts;

/// Settings of the pack `web`: the keys of `tools.web`.
#[derive(Debug, Clone)]
pub struct WebSettings {
    /// `allowed_hosts`: `*` is every public address; addresses of this machine and private networks must be named.
    pub allowed_hosts: AllowedHosts,
    /// `robots`: whether a site's robots.txt is followed.
    pub follows_robots: bool,
    /// `max_bytes`: the largest reply, after decompression.
    pub max_bytes: usize,
    /// `timeout`: the longest that one page may take, with redirects.
    pub timeout: Duration,
    /// `cache_ttl`: how long a reply is used again; zero keeps none.
    pub cache_ttl: Duration,
    /// `max_parallel`: how many pages `fetch_all` reads at once.
    pub max_parallel: usize,
    /// `engines`, in the order of the configuration: the first is used where none is named.
    pub engines: Vec<Engine>,
}

/// A search engine of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Engine {
    pub name: String,
    pub kind: EngineKind,
    /// The address that requests go to.
    pub url: String,
    /// The key that it asks for; `None` where its secret is not set.
    pub key: Option<String>,
    /// The secrets that the key is made of.
    pub secrets: Vec<String>,
}

/// How an engine is asked, and how it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineKind {
    Brave,
    SearXng,
    Tavily,
}

impl EngineKind {
    /// By its name in the configuration.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "brave" => Some(Self::Brave),
            "searxng" => Some(Self::SearXng),
            "tavily" => Some(Self::Tavily),
            _ => None,
        }
    }

    /// Where it is, unless the configuration says otherwise. SearXNG is whoever runs it.
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
            // The rule is valid; were it not, nothing would be allowed.
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

/// Redirects that one page follows.
pub(super) const MAX_REDIRECTS: usize = 5;
/// How long connecting may take.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest address that is asked for.
pub(super) const MAX_URL_CHARS: usize = 8192;
/// Addresses of one `fetch_all`.
pub(super) const MAX_URLS: usize = 100;
/// The most of a robots.txt that is read (RFC 9309 asks for 500 KiB at least).
pub(super) const MAX_ROBOTS_BYTES: usize = 512 << 10;
/// How long a robots.txt is used again.
pub(super) const ROBOTS_TTL: Duration = Duration::from_hours(1);
/// Sites whose robots.txt is remembered.
pub(super) const MAX_ROBOTS_SITES: usize = 1000;
/// The most that all cached replies take together.
pub(super) const MAX_CACHE_BYTES: usize = 32 << 20;
/// Results of one search.
pub(super) const MAX_HITS: usize = 50;
/// The longest query.
pub(super) const MAX_QUERY_CHARS: usize = 2000;
