//! MCP over streamable HTTP, with the REST API beside it. Loopback unless tokens are configured.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::IntoResponse as _;
use parking_lot::Mutex;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use super::Handler;
use crate::api::{self, AccessError, AccessPolicy, ApiError, ApiState, Scope};
use crate::assemble::App;
use crate::config::Resolved;

/// Children that do not end within this are killed.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);

/// MCP sessions at one time. Those that are idle for five minutes end by themselves.
const MAX_SESSIONS: usize = 256;
/// Names the session that a request belongs to.
const SESSION_HEADER: &str = "mcp-session-id";

/// Where we listen if nobody says where: on this machine alone.
pub const DEFAULT_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8765);

/// What is written where an address should be.
#[derive(Debug, thiserror::Error)]
#[error("'{given}' is no address; expected one like 127.0.0.1:8765, localhost:8765 or a port alone")]
pub struct NoAddress {
    given: String,
}

/// Reads an address and a port. A port alone, and `localhost`, mean this machine.
pub fn parse_address(text: &str) -> Result<SocketAddr, NoAddress> {
    let text = text.trim();
    let port = text.strip_prefix("localhost:").unwrap_or(text);
    text.parse()
        .ok()
        .or_else(|| port.parse().ok().map(|port| SocketAddr::new(DEFAULT_ADDRESS.ip(), port)))
        .ok_or_else(|| NoAddress { given: text.chars().take(80).collect() })
}

pub async fn serve(app: Arc<App>, address: SocketAddr) -> anyhow::Result<()> {
    let stop = CancellationToken::new();
    let site = Arc::new(Site::new(app.clone(), address.ip(), &stop)?);
    let listener = TcpListener::bind(address).await.with_context(|| format!("cannot listen at {address}"))?;
    let router = Router::new().fallback(move |request: Request| {
        let router = site.router();
        async move {
            let is_read = is_surely_read(&request);
            let mut response = router.oneshot(request).await?;
            // What is left of a body that was refused ends the connection; a client must not send the next request on it.
            if response.status().is_client_error() && !is_read {
                response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            Ok::<_, Infallible>(response)
        }
    });
    tokio::spawn(app.clone().warm_up());
    // Where we listen is data: with port 0 only we know.
    eprintln!("listening at http://{}", listener.local_addr()?);
    let ending = stop.clone();
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
        ending.cancel();
    });
    api::serve(listener, router, stop).await?;
    let _ = tokio::time::timeout(SHUTDOWN_GRACE, app.shutdown()).await;
    Ok(())
}

/// Whether a request's body is so small that it has been read whatever became of the request.
fn is_surely_read(request: &Request) -> bool {
    const SMALL: u64 = 16 << 10;
    let length = request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    length.map_or_else(|| !request.headers().contains_key(header::TRANSFER_ENCODING), |length: u64| length <= SMALL)
}

/// All that is served, made from the settings in force: a reload brings new bundles, tokens and limits. MCP sessions
/// stay.
struct Site {
    app: Arc<App>,
    address: IpAddr,
    mcp: Router,
    current: Mutex<(Arc<Resolved>, Router)>,
}

impl Site {
    fn new(app: Arc<App>, address: IpAddr, stop: &CancellationToken) -> anyhow::Result<Self> {
        let settings = app.settings();
        let mcp = mcp(&app, settings.server.api.max_body_bytes, stop);
        let router = build(&app, address, &settings, mcp.clone())?;
        Ok(Self { app, address, mcp, current: Mutex::new((settings, router)) })
    }

    fn router(&self) -> Router {
        let settings = self.app.settings();
        let mut current = self.current.lock();
        if !Arc::ptr_eq(&current.0, &settings) {
            match build(&self.app, self.address, &settings, self.mcp.clone()) {
                Ok(router) => current.1 = router,
                Err(error) => tracing::error!(%error, "the server goes on with its former settings"),
            }
            current.0 = settings;
        }
        current.1.clone()
    }
}

fn build(app: &Arc<App>, address: IpAddr, settings: &Resolved, mcp: Router) -> Result<Router, AccessError> {
    let keys = settings.server.clone();
    let access = Arc::new(AccessPolicy::new(address, keys.tokens, keys.hosts, keys.origins)?);
    let bundles = app.bundles();
    let rest = api::router(ApiState {
        store: bundles.store,
        source: bundles.source,
        engine: bundles.engine,
        tools: Arc::new(app.runner.toolbox().clone()),
        access: access.clone(),
        settings: keys.api,
    });
    Ok(rest.merge(api::protect(mcp, access, Scope::Invoke)))
}

/// The MCP endpoint. Host and Origin are checked by the guard around it, by the same rules as for the REST API.
fn mcp(app: &Arc<App>, max_body_bytes: usize, stop: &CancellationToken) -> Router {
    let config = StreamableHttpServerConfig::default()
        .disable_allowed_hosts()
        .disable_allowed_origins()
        .with_max_request_body_bytes(max_body_bytes)
        .with_cancellation_token(stop.child_token());
    let app = app.clone();
    let sessions = Arc::new(LocalSessionManager::default());
    let service = StreamableHttpService::new(move || Ok(Handler::new(app.clone())), sessions.clone(), config);
    let limit = middleware::from_fn(move |request: Request, next: Next| {
        let sessions = sessions.clone();
        async move {
            let may_open = request.method() == Method::POST && !request.headers().contains_key(SESSION_HEADER);
            if may_open && sessions.sessions.read().await.len() >= MAX_SESSIONS {
                return ApiError::busy(format!("{MAX_SESSIONS} sessions are open; end one, or try again later"))
                    .into_response();
            }
            let is_end = request.method() == Method::DELETE;
            let mut response = next.run(request).await;
            // The library says "accepted", which some clients take for a failure; the session has ended by now.
            if is_end && response.status() == StatusCode::ACCEPTED {
                *response.status_mut() = StatusCode::NO_CONTENT;
            }
            response
        }
    });
    Router::new().route_service("/mcp", service).layer(limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_people_write_them() {
        for (text, expected) in [
            ("127.0.0.1:80", "127.0.0.1:80"),
            (" 0.0.0.0:0 ", "0.0.0.0:0"),
            ("[::1]:9", "[::1]:9"),
            ("localhost:9000", "127.0.0.1:9000"),
            ("9000", "127.0.0.1:9000"),
        ] {
            assert_eq!(parse_address(text).unwrap().to_string(), expected);
        }
        for text in ["", "127.0.0.1", "example.org:80", "localhost", "70000", "http://127.0.0.1:80", "-1"] {
            assert!(parse_address(text).is_err(), "{text}");
        }
    }
}
