//! MCP over streamable HTTP. Host, Origin and tokens are checked around it, by the same rules as for REST.

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::{Method, StatusCode};
use axum::middleware::{self, Next};
use axum::response::IntoResponse as _;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio_util::sync::CancellationToken;

use super::Handler;
use crate::{ApiError, Service};

/// MCP sessions at one time. Those that are idle for five minutes end by themselves.
const MAX_SESSIONS: usize = 256;
/// Names the session that a request belongs to.
const SESSION_HEADER: &str = "mcp-session-id";

/// The MCP endpoint.
pub(crate) fn router(service: &Arc<dyn Service>, max_body_bytes: usize, stop: &CancellationToken) -> Router {
    let config = StreamableHttpServerConfig::default()
        .disable_allowed_hosts()
        .disable_allowed_origins()
        .with_max_request_body_bytes(max_body_bytes)
        .with_cancellation_token(stop.child_token());
    let service = service.clone();
    let sessions = Arc::new(LocalSessionManager::default());
    let endpoint = StreamableHttpService::new(move || Ok(Handler::new(service.clone())), sessions.clone(), config);
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
    Router::new().route_service("/mcp", endpoint).layer(limit)
}
