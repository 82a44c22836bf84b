//! Servers reached over HTTP. All of them share one client, built on first use.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use reqwest::Url;
use reqwest::redirect::{Attempt, Policy};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use tokio::sync::OnceCell;

use super::bounded::BoundedClient;
use super::oauth::OAuth;
use super::sse::SseTransport;
use super::transport::Wire;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const IDLE_CONNECTIONS: usize = 4;
/// Below the 5 s after which common servers close idle connections: a close at that moment would fail a call.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4);
const REDIRECTS: usize = 3;

/// The HTTP client that all servers share.
#[derive(Default)]
pub(super) struct HttpClient {
    client: OnceCell<reqwest::Client>,
    /// For authorization servers: follows no redirects.
    plain: OnceCell<reqwest::Client>,
}

impl HttpClient {
    /// The client. Loading the system's certificates takes a while, so it happens off the async threads.
    pub(super) async fn client(&self) -> Result<reqwest::Client, String> {
        self.client.get_or_try_init(|| made(Policy::custom(follow))).await.cloned()
    }

    /// The client for authorization servers.
    pub(super) async fn plain(&self) -> Result<reqwest::Client, String> {
        self.plain.get_or_try_init(|| made(Policy::none())).await.cloned()
    }

    /// A streamable HTTP endpoint as a transport.
    pub(super) async fn streamable(
        &self,
        endpoint: &Endpoint<'_>,
    ) -> Result<StreamableHttpClientTransport<BoundedClient>, String> {
        let config = StreamableHttpClientTransportConfig::with_uri(String::from(checked_url(endpoint.url)?))
            .custom_headers(checked_headers(endpoint.headers)?)
            .max_sse_event_size(endpoint.wire.max_message);
        let client = BoundedClient::new(self.client().await?, endpoint.wire.clone(), endpoint.auth.cloned());
        Ok(StreamableHttpClientTransport::with_client(client, config))
    }

    /// An endpoint of the older kind (server-sent events) as a transport.
    pub(super) async fn older(&self, endpoint: &Endpoint<'_>) -> Result<SseTransport, String> {
        let url = checked_url(endpoint.url)?;
        let headers: HeaderMap = checked_headers(endpoint.headers)?.into_iter().collect();
        SseTransport::open(self.client().await?, &url, headers, endpoint.wire.clone(), endpoint.auth.cloned()).await
    }
}

/// The address of a server, and the context of the connection to it.
pub(super) struct Endpoint<'a> {
    pub(super) url: &'a str,
    pub(super) headers: &'a BTreeMap<String, String>,
    pub(super) wire: &'a Arc<Wire>,
    pub(super) auth: Option<&'a Arc<OAuth>>,
}

async fn made(redirects: Policy) -> Result<reqwest::Client, String> {
    tokio::task::spawn_blocking(move || build(redirects))
        .await
        .map_err(|error| error.to_string())?
        .map_err(|error| format!("no HTTP client can be made: {error}"))
}

fn build(redirects: Policy) -> reqwest::Result<reqwest::Client> {
    onetool_outbound::client_builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .pool_max_idle_per_host(IDLE_CONNECTIONS)
        .pool_idle_timeout(IDLE_TIMEOUT)
        .redirect(redirects)
        .build()
}

/// Follows redirects only to the same origin and with the same method: headers may contain secrets.
fn follow(attempt: Attempt<'_>) -> reqwest::redirect::Action {
    let keeps_method = matches!(attempt.status(), StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
    let same_origin = attempt.previous().first().is_some_and(|first| first.origin() == attempt.url().origin());
    if keeps_method && same_origin && attempt.previous().len() <= REDIRECTS { attempt.follow() } else { attempt.stop() }
}

fn checked_url(url: &str) -> Result<Url, String> {
    let parsed = Url::parse(url).map_err(|error| format!("its URL is malformed: {error}"))?;
    match parsed.scheme() {
        "http" | "https" => Ok(parsed),
        other => Err(format!("its URL must start with http:// or https://, not {other}:")),
    }
}

/// Checks names and values against the rules of HTTP; values are marked as sensitive.
fn checked_headers(headers: &BTreeMap<String, String>) -> Result<HashMap<HeaderName, HeaderValue>, String> {
    headers
        .iter()
        .map(|(name, value)| {
            let header = HeaderName::try_from(name).map_err(|_| format!("'{name}' is not a header name"))?;
            let mut value =
                HeaderValue::try_from(value).map_err(|_| format!("the value of the header '{name}' is malformed"))?;
            value.set_sensitive(true);
            Ok((header, value))
        })
        .collect()
}
