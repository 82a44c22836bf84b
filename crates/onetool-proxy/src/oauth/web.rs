//! Requests to authorization servers: bounded, without redirects to other origins, and only to permitted addresses.

use std::time::Duration;

use http::StatusCode;
use http::header::{ACCEPT, LOCATION};
use reqwest::{Client, RequestBuilder, Url};
use serde_json::Value as Json;

/// How long one request may take.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum size of a response that is read.
const BODY_BYTES: usize = 1024 * 1024;
const REDIRECTS: usize = 3;

/// Why a request to an authorization server failed.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
pub(crate) enum OAuthError {
    /// Temporary: the network, a failing server, too many requests.
    #[error("{0}")]
    Transient(String),
    /// The authorization server refused, with an error code of the protocol.
    #[error("{}", refusal(error, description.as_deref()))]
    Refused { error: String, description: Option<String> },
    /// The response is invalid, or must not be used.
    #[error("{0}")]
    Invalid(String),
}

fn refusal(error: &str, description: Option<&str>) -> String {
    match description {
        Some(description) => format!("{error}: {description}"),
        None => error.to_owned(),
    }
}

impl OAuthError {
    pub(crate) fn is_refusal(&self, wanted: &[&str]) -> bool {
        matches!(self, Self::Refused { error, .. } if wanted.contains(&error.as_str()))
    }
}

/// An answer with its status.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) body: Option<Json>,
    pub(crate) location: Option<String>,
}

/// The client for authorization servers.
#[derive(Clone)]
pub(crate) struct Web {
    client: Client,
    /// Whether the MCP server is on this machine, so that its authorization server may be too.
    is_local: bool,
    /// The same for a private network; also set if the MCP server is on this machine.
    is_inside: bool,
}

impl Web {
    pub(crate) fn new(client: Client, server: &Url) -> Self {
        let is_local = is_loopback(server);
        Self { client, is_local, is_inside: is_local || is_private(server) }
    }

    /// Parses an address that may be requested: https, or this machine if the MCP server itself is there.
    pub(crate) fn checked(&self, address: &str) -> Result<Url, OAuthError> {
        let invalid = |why: &str| OAuthError::Invalid(format!("the address {address:.200} {why}"));
        let url = Url::parse(address).map_err(|error| invalid(&format!("is malformed: {error}")))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(invalid("holds a user's name"));
        }
        let is_loopback = is_loopback(&url);
        match url.scheme() {
            "https" | "http" if is_loopback && self.is_local => Ok(url),
            "https" if !is_loopback && !is_private(&url) => Ok(url),
            "https" if self.is_local || self.is_inside && !is_loopback => Ok(url),
            "https" => Err(invalid("is of a private network, and the server is not")),
            _ => Err(invalid("is not https")),
        }
    }

    /// Fetches a document; follows redirects to the same origin.
    pub(crate) async fn get(&self, url: &Url) -> Result<Answer, OAuthError> {
        let mut url = url.clone();
        for _ in 0..=REDIRECTS {
            let answer = self.send(self.client.get(url.clone()).header("MCP-Protocol-Version", "2025-11-25")).await?;
            let target = answer.location.as_deref().filter(|_| answer.status.is_redirection());
            let Some(target) = target.and_then(|target| url.join(target).ok()) else { return Ok(answer) };
            if target.origin() != url.origin() {
                return Ok(answer);
            }
            url = target;
        }
        Err(OAuthError::Invalid(format!("{url} redirects more than {REDIRECTS} times")))
    }

    pub(crate) async fn post_form(
        &self,
        url: &Url,
        form: &[(&str, &str)],
        basic: Option<(&str, &str)>,
    ) -> Result<Answer, OAuthError> {
        let mut request = self
            .client
            .post(url.clone())
            .header(http::header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(encoded(form));
        if let Some((id, secret)) = basic {
            request = request.basic_auth(encoded_value(id), Some(encoded_value(secret)));
        }
        self.send(request).await
    }

    pub(crate) async fn post_json(&self, url: &Url, body: &Json) -> Result<Answer, OAuthError> {
        self.send(self.client.post(url.clone()).json(body)).await
    }

    async fn send(&self, request: RequestBuilder) -> Result<Answer, OAuthError> {
        let transient = |error: reqwest::Error| {
            let error = error.without_url();
            OAuthError::Transient(super::super::connection::with_sources(&error))
        };
        let mut response =
            request.header(ACCEPT, "application/json").timeout(TIMEOUT).send().await.map_err(transient)?;
        let status = response.status();
        let host = response.url().host_str().unwrap_or_default().to_owned();
        if status.is_server_error() || matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT) {
            return Err(OAuthError::Transient(format!("{host} answered with HTTP status {status}")));
        }
        let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(transient)? {
            if body.len() + chunk.len() > BODY_BYTES {
                return Err(OAuthError::Invalid(format!("{host} answered with more than {BODY_BYTES} bytes")));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(Answer { status, body: serde_json::from_slice(&body).ok(), location })
    }
}

impl Answer {
    /// Returns the object of a successful response; otherwise the protocol's error.
    pub(crate) fn object(self, what: &str) -> Result<Json, OAuthError> {
        let status = self.status;
        match self.body {
            Some(body) if status.is_success() && body.is_object() => Ok(body),
            Some(body) if body.get("error").and_then(Json::as_str).is_some() => {
                let text = |key: &str| {
                    body.get(key).and_then(Json::as_str).map(|text| super::super::text::clean(text, TOLD_CHARS))
                };
                Err(OAuthError::Refused {
                    error: text("error").unwrap_or_default(),
                    description: text("error_description"),
                })
            }
            // A gateway in between may answer 401 too: only an error of the protocol invalidates a sign-in.
            _ => Err(OAuthError::Invalid(format!("{what}: HTTP status {status} without a usable answer"))),
        }
    }
}

const TOLD_CHARS: usize = 300;

/// Encodes pairs as a form or a query.
pub(crate) fn encoded(pairs: &[(&str, &str)]) -> String {
    let Ok(mut url) = Url::parse("http://localhost/") else { return String::new() };
    url.query_pairs_mut().extend_pairs(pairs);
    url.query().unwrap_or_default().to_owned()
}

fn encoded_value(value: &str) -> String {
    encoded(&[("v", value)]).trim_start_matches("v=").to_owned()
}

pub(crate) fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Whether the host is an IP address of a private network.
fn is_private(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    match host.parse::<std::net::IpAddr>() {
        Ok(std::net::IpAddr::V4(address)) => {
            address.is_private() || address.is_link_local() || address.is_unspecified() || address.is_broadcast()
        }
        Ok(std::net::IpAddr::V6(address)) => {
            address.is_unique_local() || address.is_unicast_link_local() || address.is_unspecified()
        }
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_that_may_be_asked_are() {
        let web =
            |server: &str| Web::new(onetool_outbound::client_builder().build().unwrap(), &Url::parse(server).unwrap());
        let far = web("https://mcp.example.org/mcp");
        assert!(far.checked("https://login.example.net/token").is_ok());
        let inside = web("https://10.0.0.5/mcp");
        assert!(inside.checked("https://10.0.0.6/token").is_ok());
        assert!(inside.checked("http://10.0.0.6/token").is_err() && inside.checked("https://127.0.0.1/").is_err());
        for address in [
            "http://login.example.net/",
            "https://127.0.0.1/",
            "http://localhost/",
            "https://169.254.169.254/",
            "https://10.0.0.1/",
            "file:///etc/passwd",
            "https://me@example.org/",
        ] {
            assert!(far.checked(address).is_err(), "{address}");
        }
        let near = web("http://127.0.0.1:8000/mcp");
        assert!(near.checked("http://localhost:9000/token").is_ok());
        assert!(near.checked("http://login.example.net/").is_err());
    }

    #[test]
    fn forms_are_encoded() {
        assert_eq!(encoded(&[("a b", "c&d"), ("e", "ä")]), "a+b=c%26d&e=%C3%A4");
        assert_eq!(encoded_value("a:b"), "a%3Ab");
    }
}
