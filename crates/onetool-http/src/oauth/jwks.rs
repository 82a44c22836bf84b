//! The issuer's public keys, read when they are needed: at the first token, when a token names an unknown key, and
//! periodically. The rate of requests to the issuer is limited, however many tokens with unknown keys arrive.

use std::sync::Arc;
use std::time::{Duration, Instant};

use onetool_outbound::client_builder;
use parking_lot::RwLock;
use reqwest::Url;
use reqwest::redirect::Policy;
use serde_json::Value as Json;

use super::jwt::{Parsed, PublicKey};

/// Keys are read again after this time.
const FRESH: Duration = Duration::from_mins(10);
/// Minimum interval between requests to the issuer for unknown keys.
const ASK_AGAIN: Duration = Duration::from_secs(10);
const TIMEOUT: Duration = Duration::from_secs(5);
const MAX_BODY: usize = 256 << 10;
const MAX_KEYS: usize = 100;
/// Maximum number of keys tried for a token that names none.
const MAX_TRIED: usize = 8;

pub(super) struct Keys {
    issuer: String,
    jwks_url: Option<Url>,
    known: RwLock<Option<Known>>,
    /// Serializes requests; holds the time of the last one.
    asking: tokio::sync::Mutex<Option<Instant>>,
}

#[derive(Clone)]
struct Known {
    keys: Arc<Vec<PublicKey>>,
    at: Instant,
}

impl Keys {
    pub(super) fn new(issuer: String, jwks_url: Option<Url>) -> Self {
        Self { issuer, jwks_url, known: RwLock::default(), asking: tokio::sync::Mutex::default() }
    }

    /// Returns the keys that a token may be signed with. The error says why no keys are available.
    pub(super) async fn candidates(&self, token: &Parsed) -> Result<Vec<PublicKey>, String> {
        let fitting = |known: &Known| {
            known.keys.iter().filter(|key| key.fits(token)).take(MAX_TRIED).cloned().collect::<Vec<_>>()
        };
        let known = self.known.read().clone();
        if let Some(known) = &known
            && known.at.elapsed() < FRESH
        {
            let keys = fitting(known);
            if !keys.is_empty() {
                return Ok(keys);
            }
        }
        let mut asked = self.asking.lock().await;
        // Another task may have asked meanwhile.
        if !asked.is_some_and(|at| at.elapsed() < ASK_AGAIN) {
            let answer = self.fetch().await;
            *asked = Some(Instant::now());
            match answer {
                Ok(keys) => *self.known.write() = Some(Known { keys: Arc::new(keys), at: Instant::now() }),
                Err(reason) if known.is_none() => return Err(reason),
                // Outdated keys are better than none.
                Err(reason) => tracing::warn!(reason, "the keys of the OAuth issuer cannot be read again"),
            }
        }
        drop(asked);
        let known = self.known.read().clone();
        known.as_ref().map(fitting).ok_or_else(|| "they could not be read a moment ago".to_owned())
    }

    async fn fetch(&self) -> Result<Vec<PublicKey>, String> {
        let http = client_builder()
            .timeout(TIMEOUT)
            .redirect(Policy::none())
            .build()
            .map_err(|error| format!("no HTTP client: {error}"))?;
        let url = match &self.jwks_url {
            Some(url) => url.clone(),
            None => self.discover(&http).await?,
        };
        let document = get(&http, &url).await?;
        let keys = document.get("keys").and_then(Json::as_array).ok_or_else(|| format!("{url} has no keys"))?;
        Ok(keys.iter().take(MAX_KEYS).filter_map(PublicKey::read).collect())
    }

    /// Returns where the issuer publishes its keys, according to OpenID Connect or RFC 8414.
    async fn discover(&self, http: &reqwest::Client) -> Result<Url, String> {
        let issuer: Url = self.issuer.parse().map_err(|_| format!("{} is not an address", self.issuer))?;
        let path = issuer.path().trim_end_matches('/').to_owned();
        let mut reason = String::new();
        for place in [
            format!("{path}/.well-known/openid-configuration"),
            format!("/.well-known/oauth-authorization-server{path}"),
            format!("/.well-known/openid-configuration{path}"),
        ] {
            let mut url = issuer.clone();
            url.set_path(&place);
            url.set_query(None);
            match get(http, &url).await {
                Ok(document) => {
                    if document.get("issuer").and_then(Json::as_str) != Some(&self.issuer) {
                        return Err(format!("{url} is of another issuer"));
                    }
                    let found = document.get("jwks_uri").and_then(Json::as_str).and_then(|url| url.parse().ok());
                    return found.ok_or_else(|| format!("{url} names no jwks_uri"));
                }
                Err(error) => reason = error,
            }
        }
        Err(reason)
    }
}

/// Whether keys may be fetched from an address: only over TLS, except on this machine.
pub(crate) fn is_trustworthy(url: &Url) -> bool {
    let is_local = || {
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
    };
    url.scheme() == "https" || (url.scheme() == "http" && is_local())
}

async fn get(http: &reqwest::Client, url: &Url) -> Result<Json, String> {
    if !is_trustworthy(url) {
        return Err(format!("{url} is not an https address"));
    }
    let failed = |error: reqwest::Error| format!("{url}: {}", error.without_url());
    let mut response = http.get(url.clone()).header("accept", "application/json").send().await.map_err(failed)?;
    if !response.status().is_success() {
        return Err(format!("{url} answered {}", response.status()));
    }
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(failed)? {
        if body.len() + chunk.len() > MAX_BODY {
            return Err(format!("{url} answered more than {MAX_BODY} bytes"));
        }
        body.extend_from_slice(&chunk);
    }
    serde_json::from_slice(&body).map_err(|_| format!("{url} did not answer JSON"))
}
