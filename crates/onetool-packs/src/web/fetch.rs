//! Fetches pages: addresses are checked at every redirect, with one deadline and one size limit.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use http::StatusCode;
use http::header::{ACCEPT, CONTENT_TYPE, LOCATION};
use onetool_sdk::{CallContext, ErrorKind, ToolError};
use parking_lot::Mutex;
use reqwest::{Client, Method, Response, Url};
use serde_json::Value as Json;

use super::cache::{Cache, Reply};
use super::robots::Robots;
use super::settings::{
    CONNECT_TIMEOUT, MAX_CACHE_BYTES, MAX_REDIRECTS, MAX_ROBOTS_BYTES, MAX_ROBOTS_SITES, MAX_URL_CHARS, ROBOTS_TTL,
    WebSettings,
};
use onetool_outbound::{AllowedHosts, CheckedResolver, ForbiddenAddress, client_builder};

/// How much of a failed reply an error quotes.
const EXCERPT_CHARS: usize = 200;

/// Fetches pages for the pack.
pub(super) struct Fetcher {
    pub(super) settings: WebSettings,
    client: OnceLock<Client>,
    cache: Cache,
    robots: Mutex<HashMap<String, (Instant, Arc<Robots>)>>,
}

impl Fetcher {
    pub(super) fn new(settings: WebSettings) -> Self {
        let cache = Cache::new(settings.cache_ttl, MAX_CACHE_BYTES);
        Self { settings, client: OnceLock::new(), cache, robots: Mutex::default() }
    }

    /// Returns a page, from the cache if allowed and not expired.
    pub(super) async fn get(
        &self,
        address: &str,
        freshness: Freshness,
        ctx: &CallContext,
    ) -> Result<Arc<Reply>, ToolError> {
        let url = parse(address)?;
        if freshness == Freshness::Cached
            && let Some(reply) = self.cache.get(url.as_str(), Instant::now())
        {
            return Ok(reply);
        }
        let reply = Arc::new(self.in_time(&url, ctx, self.read(&url)).await?);
        self.cache.put(url.as_str(), reply.clone(), Instant::now());
        Ok(reply)
    }

    /// Sends a request to a configured address, and reads the reply as JSON.
    pub(super) async fn ask(
        &self,
        url: &Url,
        method: Method,
        headers: &[(&'static str, String)],
        body: Option<Json>,
        ctx: &CallContext,
    ) -> Result<Json, ToolError> {
        let work = async {
            // It is named in the configuration, so it may be on this machine.
            let client = build_client(AllowedHosts::origin_of(url))?;
            let mut request = client.request(method, url.clone()).header(ACCEPT, "application/json");
            for (name, value) in headers {
                request = request.header(*name, value);
            }
            if let Some(body) = body {
                request = request.json(&body);
            }
            let response = request.send().await.map_err(|error| failure(&error, url))?;
            let status = response.status();
            let body = read_body(response, self.settings.max_bytes, url).await?;
            if !status.is_success() {
                return Err(refused(status, url, &body));
            }
            serde_json::from_slice(&body)
                .map_err(|error| upstream(Some(status), format!("{} did not answer with JSON: {error}", host_of(url))))
        };
        self.in_time(url, ctx, work).await
    }

    async fn in_time<T>(
        &self,
        url: &Url,
        ctx: &CallContext,
        work: impl Future<Output = Result<T, ToolError>>,
    ) -> Result<T, ToolError> {
        let budget = self.settings.timeout.min(ctx.remaining().unwrap_or(self.settings.timeout));
        tokio::select! {
            biased;
            () = ctx.cancel.cancelled() => Err(ToolError::new(ErrorKind::Cancelled, "the call was cancelled")),
            outcome = tokio::time::timeout(budget, work) => outcome.unwrap_or_else(|_| Err(ToolError::new(
                ErrorKind::Timeout,
                format!("{} did not answer within {} s", host_of(url), budget.as_secs_f32()),
            ).with_hint("tools.web.timeout allows more"))),
        }
    }

    async fn read(&self, start: &Url) -> Result<Reply, ToolError> {
        let mut url = start.clone();
        for _ in 0..=MAX_REDIRECTS {
            self.check(&url).await?;
            let response = self.send(&url).await?;
            let status = response.status();
            let target = response.headers().get(LOCATION).filter(|_| status.is_redirection());
            if let Some(target) = target {
                let target = target.to_str().ok().and_then(|target| url.join(target).ok());
                url = target.ok_or_else(|| {
                    upstream(Some(status), format!("{} redirects to something that is not an address", host_of(&url)))
                })?;
                continue;
            }
            let content_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
            let content_type = content_type.unwrap_or_default().to_owned();
            let body = read_body(response, self.settings.max_bytes, &url).await?;
            if !status.is_success() {
                return Err(refused(status, &url, &body));
            }
            return Ok(Reply { url, content_type, body });
        }
        Err(upstream(None, format!("{start} redirects more than {MAX_REDIRECTS} times")))
    }

    /// Whether an address may be read, by our rules and by the site's.
    async fn check(&self, url: &Url) -> Result<(), ToolError> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(ToolError::denied(format!("{url} is not an http or https address")));
        }
        if !self.settings.allowed_hosts.permits(url) {
            let host = host_of(url);
            return Err(ToolError::denied(format!("the host {host} is not allowed"))
                .with_hint(format!("if that is meant, add it to tools.web.allowed_hosts: [\"*\", \"{host}\"]")));
        }
        if !self.settings.follows_robots {
            return Ok(());
        }
        let path = url.query().map_or_else(|| url.path().to_owned(), |query| format!("{}?{query}", url.path()));
        if self.robots_of(url).await.permits(&path) {
            return Ok(());
        }
        Err(ToolError::denied(format!("the robots.txt of {} asks programs not to read {path}", host_of(url)))
            .with_hint("tools.web.robots: false ignores it, where you may"))
    }

    async fn robots_of(&self, url: &Url) -> Arc<Robots> {
        let site = url.origin().ascii_serialization();
        if let Some((since, robots)) = self.robots.lock().get(&site)
            && since.elapsed() < ROBOTS_TTL
        {
            return robots.clone();
        }
        let robots = Arc::new(self.read_robots(url).await);
        let mut known = self.robots.lock();
        if known.len() >= MAX_ROBOTS_SITES {
            known.clear();
        }
        known.insert(site, (Instant::now(), robots.clone()));
        robots
    }

    /// As in RFC 9309: a missing file allows everything, a server error allows nothing.
    async fn read_robots(&self, url: &Url) -> Robots {
        let Ok(mut url) = url.join("/robots.txt") else { return Robots::allow_all() };
        for _ in 0..=MAX_REDIRECTS {
            if !self.settings.allowed_hosts.permits(&url) {
                return Robots::allow_all();
            }
            // If the site cannot be reached, the request for the page itself reports it.
            let Ok(response) = self.send(&url).await else { return Robots::allow_all() };
            let status = response.status();
            let target = response.headers().get(LOCATION).filter(|_| status.is_redirection());
            if let Some(target) = target {
                match target.to_str().ok().and_then(|target| url.join(target).ok()) {
                    Some(target) => url = target,
                    None => return Robots::allow_all(),
                }
                continue;
            }
            if status.is_server_error() {
                return Robots::disallow_all();
            }
            if !status.is_success() {
                return Robots::allow_all();
            }
            let body = read_start(response, MAX_ROBOTS_BYTES).await;
            return Robots::parse(&String::from_utf8_lossy(&body));
        }
        Robots::allow_all()
    }

    async fn send(&self, url: &Url) -> Result<Response, ToolError> {
        let client = match self.client.get() {
            Some(client) => client,
            None => {
                let client = build_client(self.settings.allowed_hosts.clone())?;
                self.client.get_or_init(|| client)
            }
        };
        let accept = "text/html, application/xhtml+xml, application/json;q=0.9, text/*;q=0.9, */*;q=0.5";
        client.get(url.clone()).header(ACCEPT, accept).send().await.map_err(|error| failure(&error, url))
    }
}

/// Whether a cached reply is acceptable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Freshness {
    Cached,
    Fresh,
}

fn build_client(allowed: AllowedHosts) -> Result<Client, ToolError> {
    client_builder()
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .referer(false)
        .dns_resolver(Arc::new(CheckedResolver { allowed: Arc::new(allowed) }))
        .connect_timeout(CONNECT_TIMEOUT)
        .build()
        .map_err(|error| ToolError::internal(format!("no HTTP client: {error}")))
}

/// Parses an address as people write it: `example.org/x` means https.
fn parse(address: &str) -> Result<Url, ToolError> {
    let address = address.trim();
    if address.chars().count() > MAX_URL_CHARS {
        return Err(ToolError::value_error(format!("the address has more than {MAX_URL_CHARS} characters")));
    }
    let whole = if address.contains("://") { address.to_owned() } else { format!("https://{address}") };
    let url = Url::parse(&whole)
        .map_err(|error| ToolError::value_error(format!("'{address}' is not an address: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(ToolError::denied(format!("'{address}' is not an http or https address")));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(ToolError::denied("an address with a user name or password is not allowed"));
    }
    if url.host_str().is_none() {
        return Err(ToolError::value_error(format!("'{address}' names no host")));
    }
    let mut url = url;
    url.set_fragment(None);
    Ok(url)
}

async fn read_body(mut response: Response, limit: usize, url: &Url) -> Result<Vec<u8>, ToolError> {
    let too_large = || {
        ToolError::new(ErrorKind::TooLarge, format!("{url} has more than {limit} bytes"))
            .with_hint("tools.web.max_bytes allows more")
    };
    if response.content_length().is_some_and(|length| length > limit as u64) {
        return Err(too_large());
    }
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| failure(&error, url))? {
        if body.len() + chunk.len() > limit {
            return Err(too_large());
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// Reads the reply up to a limit.
async fn read_start(mut response: Response, limit: usize) -> Vec<u8> {
    let mut body = Vec::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        let room = limit - body.len();
        body.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if body.len() == limit {
            break;
        }
    }
    body
}

fn refused(status: StatusCode, url: &Url, body: &[u8]) -> ToolError {
    let start: String = String::from_utf8_lossy(body).chars().take(EXCERPT_CHARS).collect();
    let start = start.split_whitespace().collect::<Vec<_>>().join(" ");
    let excerpt = if start.is_empty() || start.starts_with('<') { String::new() } else { format!(": {start}") };
    upstream(Some(status), format!("{} answered {status}{excerpt}", host_of(url)))
}

fn upstream(status: Option<StatusCode>, message: String) -> ToolError {
    ToolError::new(ErrorKind::Upstream { status: status.map(|status| status.as_u16()) }, message)
}

fn host_of(url: &Url) -> &str {
    url.host_str().unwrap_or_default()
}

fn failure(error: &reqwest::Error, url: &Url) -> ToolError {
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
    let mut root = String::new();
    while let Some(cause) = source {
        if let Some(forbidden) = cause.downcast_ref::<ForbiddenAddress>() {
            return ToolError::denied(forbidden.to_string())
                .with_hint(format!("if that is meant, add {} to tools.web.allowed_hosts", forbidden.address));
        }
        root = cause.to_string();
        source = cause.source();
    }
    upstream(None, format!("{} cannot be reached: {root}", host_of(url)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_people_write_them() {
        assert_eq!(parse(" example.org/a#b ").unwrap().as_str(), "https://example.org/a");
        assert_eq!(parse("http://example.org").unwrap().as_str(), "http://example.org/");
        for bad in ["", "https://", "https://user:pw@example.org/", "http://[x", &format!("x.org/{}", "a".repeat(9000))]
        {
            assert!(parse(bad).is_err(), "{bad:.50}");
        }
    }
}
