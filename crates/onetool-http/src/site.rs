//! Serving over HTTP: REST and MCP at one address. Loopback unless tokens are configured.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderValue, header};
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use crate::access::protect;
use crate::rest::{self, RestState};
use crate::{AccessError, AccessPolicy, Scope, Served, Service, mcp, serve_connections};

/// Children that do not end within this are killed.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);

/// Why a server does not start, or ended.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error(transparent)]
    Access(#[from] AccessError),
    #[error("cannot listen at {address}: {source}")]
    Listen { address: SocketAddr, source: io::Error },
    #[error("cannot serve: {0}")]
    Io(#[from] io::Error),
}

/// Serves until the process is told to end.
pub async fn serve(service: Arc<dyn Service>, address: SocketAddr) -> Result<(), ServeError> {
    let stop = CancellationToken::new();
    let router = router(service.clone(), address.ip(), &stop)?;
    let listener = TcpListener::bind(address).await.map_err(|source| ServeError::Listen { address, source })?;
    let warming = service.clone();
    tokio::spawn(async move { warming.warm_up().await });
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
    serve_connections(listener, router, stop).await?;
    let _ = tokio::time::timeout(SHUTDOWN_GRACE, service.shutdown()).await;
    Ok(())
}

/// REST and MCP for a server that listens at `address`. It follows the service's settings; MCP sessions end with `stop`.
pub fn router(service: Arc<dyn Service>, address: IpAddr, stop: &CancellationToken) -> Result<Router, AccessError> {
    Ok(Arc::new(Site::new(service, address, stop)?).into_router())
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
    service: Arc<dyn Service>,
    address: IpAddr,
    mcp: Router,
    current: Mutex<(Arc<Served>, Router)>,
}

impl Site {
    fn new(service: Arc<dyn Service>, address: IpAddr, stop: &CancellationToken) -> Result<Self, AccessError> {
        let served = service.served();
        let mcp = mcp::router(&service, served.server.api.max_body_bytes, stop);
        let router = build(&service, address, &served, mcp.clone())?;
        Ok(Self { service, address, mcp, current: Mutex::new((served, router)) })
    }

    fn into_router(self: Arc<Self>) -> Router {
        Router::new().fallback(move |request: Request| {
            let router = self.router();
            async move {
                let is_read = is_surely_read(&request);
                let mut response = router.oneshot(request).await?;
                // The rest of a refused body ends the connection; a client must not send its next request on it.
                if response.status().is_client_error() && !is_read {
                    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
                }
                Ok::<_, Infallible>(response)
            }
        })
    }

    fn router(&self) -> Router {
        let served = self.service.served();
        let mut current = self.current.lock();
        if !Arc::ptr_eq(&current.0, &served) {
            match build(&self.service, self.address, &served, self.mcp.clone()) {
                Ok(router) => current.1 = router,
                Err(error) => tracing::error!(%error, "the server keeps its former settings"),
            }
            current.0 = served;
        }
        current.1.clone()
    }
}

fn build(
    service: &Arc<dyn Service>,
    address: IpAddr,
    served: &Arc<Served>,
    mcp: Router,
) -> Result<Router, AccessError> {
    let access = Arc::new(AccessPolicy::new(address, &served.server)?);
    let rest = rest::router(RestState { service: service.clone(), served: served.clone(), access: access.clone() });
    Ok(rest.merge(protect(mcp, access, Scope::Invoke)))
}
