//! Blob contents in S3: a blob's metadata stays in the database, its content is stored as objects in a bucket.
//!
//! Content is stored in objects of at most [`CHUNK_BYTES`], `prefix/upload/number`, instead of with S3's multipart
//! uploads: an abandoned upload is then a few objects with known names, not something that only the bucket knows about.
//!
//! The client is our own: four signed requests need only the HTTP client and the hash functions that are already there,
//! while `object_store` brings an XML parser, several hash crates and the credentials of three clouds into every build.

mod address;
mod sign;

use std::time::Duration;

use async_trait::async_trait;
use chrono::Utc;
use http::{Method, StatusCode};
use onetool_state::StateError;
use onetool_state::interface::Chunks;
use reqwest::{Client, Response, Url};
use uuid::Uuid;

pub use address::{AddressError, Credentials, S3Address};

/// The largest object.
const CHUNK_BYTES: usize = 8 << 20;
/// How long one request may take.
const REQUEST_TIMEOUT: Duration = Duration::from_mins(1);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Attempts at a request that fails in transit or is refused temporarily.
const ATTEMPTS: u32 = 3;
const PAUSE: Duration = Duration::from_millis(100);
/// Maximum length of the reason taken from an error response.
const MAX_REASON: usize = 300;
/// Maximum size of a response that lists objects.
const MAX_LISTING: usize = 4 << 20;

/// Blob contents in one bucket.
pub struct S3Chunks {
    address: S3Address,
    credentials: Credentials,
    client: Client,
}

/// One request to the bucket.
struct Request<'a> {
    method: Method,
    key: &'a str,
    query: &'a str,
    range: Option<(usize, usize)>,
    body: Vec<u8>,
}

impl S3Chunks {
    /// Sends no request yet.
    pub fn open(address: S3Address, credentials: Credentials) -> Result<Self, AddressError> {
        let client = onetool_outbound::client_builder()
            .timeout(REQUEST_TIMEOUT)
            .connect_timeout(CONNECT_TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|error| AddressError::Client(error.to_string()))?;
        Ok(Self { address, credentials, client })
    }

    fn key(&self, upload: Uuid, n: u64) -> String {
        format!("{}{upload}/{n:06}", self.address.prefix)
    }

    /// Sends a request, with retries, until the answer is final.
    async fn send(&self, request: &Request<'_>) -> Result<Response, StateError> {
        let mut attempt = 1;
        loop {
            let outcome = self.attempt(request).await;
            let passing = match &outcome {
                Ok(response) => {
                    let status = response.status();
                    status.is_server_error()
                        || matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT)
                }
                Err(_) => true,
            };
            if !passing || attempt == ATTEMPTS {
                return outcome.map_err(|reason| self.unavailable(&reason));
            }
            tokio::time::sleep(PAUSE * 2_u32.pow(attempt)).await;
            attempt += 1;
        }
    }

    async fn attempt(&self, request: &Request<'_>) -> Result<Response, String> {
        let url = self.url(request.key, request.query)?;
        let signed = sign::headers(&self.address, &self.credentials, &request.method, &url, &request.body, Utc::now());
        let mut builder = self.client.request(request.method.clone(), url);
        for (name, value) in signed {
            builder = builder.header(name, value);
        }
        if let Some((from, to)) = request.range {
            builder = builder.header(http::header::RANGE, format!("bytes={from}-{to}"));
        }
        if request.method == Method::PUT {
            builder = builder.body(request.body.clone());
        }
        builder.send().await.map_err(|error| innermost(&error))
    }

    fn url(&self, key: &str, query: &str) -> Result<Url, String> {
        let mut url = self.address.base.clone();
        let path = format!("{}/{}", url.path().trim_end_matches('/'), sign::encoded_path(key));
        url.set_path(&path);
        url.set_query(Some(query).filter(|query| !query.is_empty()));
        Ok(url)
    }

    fn unavailable(&self, reason: &str) -> StateError {
        StateError::Unavailable {
            reason: format!("{}: {reason}", self.address),
            hint: "check that the bucket can be reached; the next use retries".to_owned(),
        }
    }

    /// Converts an error response to an error.
    async fn refused(&self, what: &str, response: Response) -> StateError {
        let status = response.status();
        let text = response.text().await.unwrap_or_default();
        let field = |name: &str| between(&text, &format!("<{name}>"), &format!("</{name}>")).map(str::to_owned);
        let reason = field("Message").or_else(|| field("Code")).unwrap_or_else(|| status.to_string());
        let reason: String = reason.chars().filter(|c| !c.is_control()).take(MAX_REASON).collect();
        match status {
            StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED => StateError::Unavailable {
                reason: format!("{}: {what} was refused: {reason}", self.address),
                hint: "check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and that they may use the bucket".to_owned(),
            },
            _ => self.unavailable(&format!("{what} failed with {}: {reason}", status.as_u16())),
        }
    }

    /// The keys that begin with a prefix, page by page.
    async fn keys(&self, prefix: &str) -> Result<Vec<String>, StateError> {
        let query = format!("list-type=2&max-keys=1000&prefix={}", sign::encoded(prefix));
        let request = Request { method: Method::GET, key: "", query: &query, range: None, body: Vec::new() };
        let response = self.send(&request).await?;
        if !response.status().is_success() {
            return Err(self.refused("listing", response).await);
        }
        let text = response.text().await.map_err(|error| self.unavailable(&innermost(&error)))?;
        if text.len() > MAX_LISTING {
            return Err(self.unavailable("its list of objects is too long"));
        }
        let mut keys = Vec::new();
        let mut rest = text.as_str();
        while let Some(key) = between(rest, "<Key>", "</Key>") {
            keys.push(key.replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\""));
            rest = rest.split_once("</Key>").map_or("", |(_, rest)| rest);
        }
        Ok(keys)
    }
}

#[async_trait]
impl Chunks for S3Chunks {
    fn place(&self) -> String {
        self.address.to_string()
    }

    fn chunk_bytes(&self) -> usize {
        CHUNK_BYTES
    }

    async fn put(&self, upload: Uuid, n: u64, content: Vec<u8>) -> Result<(), StateError> {
        let key = self.key(upload, n);
        let request = Request { method: Method::PUT, key: &key, query: "", range: None, body: content };
        let response = self.send(&request).await?;
        if response.status().is_success() { Ok(()) } else { Err(self.refused("storing", response).await) }
    }

    async fn get(&self, upload: Uuid, n: u64, offset: usize, limit: usize) -> Result<Option<Vec<u8>>, StateError> {
        if limit == 0 {
            return Ok(Some(Vec::new()));
        }
        let key = self.key(upload, n);
        let range = Some((offset, offset + limit - 1));
        let request = Request { method: Method::GET, key: &key, query: "", range, body: Vec::new() };
        let response = self.send(&request).await?;
        match response.status() {
            StatusCode::NOT_FOUND => Ok(None),
            // The offset is at or past the end.
            StatusCode::RANGE_NOT_SATISFIABLE => Ok(Some(Vec::new())),
            status if status.is_success() => {
                let is_whole = status == StatusCode::OK;
                let mut content =
                    response.bytes().await.map_err(|error| self.unavailable(&innermost(&error)))?.to_vec();
                if is_whole {
                    content.drain(..offset.min(content.len()));
                }
                content.truncate(limit);
                Ok(Some(content))
            }
            _ => Err(self.refused("reading", response).await),
        }
    }

    async fn remove(&self, upload: Uuid) -> Result<(), StateError> {
        let prefix = format!("{}{upload}/", self.address.prefix);
        loop {
            let keys = self.keys(&prefix).await?;
            if keys.is_empty() {
                return Ok(());
            }
            for key in keys.iter().filter(|key| key.starts_with(&prefix)) {
                let request = Request { method: Method::DELETE, key, query: "", range: None, body: Vec::new() };
                let response = self.send(&request).await?;
                if !response.status().is_success() && response.status() != StatusCode::NOT_FOUND {
                    return Err(self.refused("removing", response).await);
                }
            }
            if !keys.iter().all(|key| key.starts_with(&prefix)) {
                return Err(self.unavailable("it lists objects that were not asked for"));
            }
        }
    }
}

fn between<'a>(text: &'a str, start: &str, end: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(start)?;
    rest.split_once(end).map(|(found, _)| found)
}

fn innermost(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "it did not answer in time".to_owned();
    }
    let mut reason: &dyn std::error::Error = error;
    while let Some(source) = reason.source() {
        reason = source;
    }
    reason.to_string()
}
