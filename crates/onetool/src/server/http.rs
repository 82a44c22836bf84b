//! MCP over streamable HTTP, with the REST API beside it. Loopback unless tokens are configured.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::Handler;
use crate::api::{self, AccessPolicy, ApiState, Scope};
use crate::assemble::App;

/// Children that do not end within this are killed.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);

pub async fn serve(app: Arc<App>, address: &str) -> anyhow::Result<()> {
    let address: SocketAddr = address
        .parse()
        .with_context(|| format!("'{address}' is no address; expected one like 127.0.0.1:8765"))?;
    let keys = app.settings().server.clone();
    let access = AccessPolicy::new(address.ip(), keys.tokens, keys.hosts.clone(), keys.origins.clone())?;
    let access = Arc::new(access);
    let listener = TcpListener::bind(address).await.with_context(|| format!("cannot listen at {address}"))?;
    let stop = CancellationToken::new();
    let bundles = app.bundles();
    let rest = api::router(ApiState {
        store: bundles.store,
        source: bundles.source,
        engine: bundles.engine,
        tools: Arc::new(app.runner.toolbox().clone()),
        access: access.clone(),
        settings: keys.api.clone(),
    });
    let router = rest.merge(api::protect(mcp(&app, keys.api.max_body_bytes, &stop), access, Scope::Invoke));
    let warming = app.clone();
    tokio::spawn(async move { warming.runner.sandbox().warm_up().await });
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

/// The MCP endpoint. Host and Origin are checked by the guard around it, by the same rules as for the REST API.
fn mcp(app: &Arc<App>, max_body_bytes: usize, stop: &CancellationToken) -> Router {
    let config = StreamableHttpServerConfig::default()
        .disable_allowed_hosts()
        .disable_allowed_origins()
        .with_max_request_body_bytes(max_body_bytes)
        .with_cancellation_token(stop.child_token());
    let app = app.clone();
    let service = StreamableHttpService::new(
        move || Ok(Handler::new(app.clone())),
        Arc::new(LocalSessionManager::default()),
        config,
    );
    Router::new().route_service("/mcp", service)
}
