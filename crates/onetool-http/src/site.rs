//! Serving over HTTP: the admin page, REST and MCP at one address. Loopback unless tokens are configured.

use std::convert::Infallible;
use std::io::{self, IsTerminal as _};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use crate::access::{protect, same_site};
use crate::background::Background;
use crate::quiet::Traffic;
use crate::rest::admin::PageSessions;
use crate::rest::{self, Admin, RestState, Running};
use crate::{AccessError, AccessPolicy, Scope, Served, Service, browser, mcp, probes, serve_connections, sign_in, unread};

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

/// For whom a server runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// Whoever may come in by the configuration.
    Everyone,
    /// One browser, which is opened at an address that works once.
    Browser,
}

/// Serves until the process is told to end.
pub async fn serve(service: Arc<dyn Service>, address: SocketAddr, audience: Audience) -> Result<(), ServeError> {
    let stop = CancellationToken::new();
    let sessions = (audience == Audience::Browser).then(|| Arc::new(PageSessions::default()));
    let site = Site::new(service.clone(), address.ip(), &stop, sessions.clone())?;
    let background = site.background.clone();
    let router = Arc::new(site).into_router();
    let listener = TcpListener::bind(address).await.map_err(|source| ServeError::Listen { address, source })?;
    let warming = service.clone();
    crate::task::spawn(async move { warming.warm_up().await });
    // Where we listen is data: with port 0 only we know.
    let local = listener.local_addr()?;
    if let Some(durable) = service.runner().durable() {
        durable.set_page(Some(format!("http://{local}/#/approvals")));
    }
    eprintln!("listening at http://{local}");
    if std::io::stderr().is_terminal() {
        eprintln!("  MCP /mcp, admin page /, REST /tools and /api, its description /docs; Ctrl-C ends it");
    }
    if let Some(code) = sessions.and_then(|sessions| sessions.code()) {
        browser::open(&format!("http://{local}/#code={code}"));
    }
    let ending = stop.clone();
    let mut terminate = signal(SignalKind::terminate())?;
    crate::task::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
        ending.cancel();
    });
    serve_connections(listener, router, stop).await?;
    let ending = async {
        background.shutdown().await;
        service.shutdown().await;
    };
    let _ = tokio::time::timeout(SHUTDOWN_GRACE, ending).await;
    Ok(())
}

/// REST and MCP for a server that listens at `address`. It follows the service's settings; MCP sessions end with `stop`.
pub fn router(service: Arc<dyn Service>, address: IpAddr, stop: &CancellationToken) -> Result<Router, AccessError> {
    Ok(Arc::new(Site::new(service, address, stop, None)?).into_router())
}

/// All that is served, made from the settings in force: a reload brings new bundles, tokens and limits. MCP sessions
/// stay.
struct Site {
    service: Arc<dyn Service>,
    address: IpAddr,
    mcp: Router,
    background: Arc<Background>,
    traffic: Arc<Traffic>,
    sessions: Option<Arc<PageSessions>>,
    running: Running,
    stop: CancellationToken,
    current: Mutex<(Arc<Served>, Router)>,
}

impl Site {
    fn new(
        service: Arc<dyn Service>,
        address: IpAddr,
        stop: &CancellationToken,
        sessions: Option<Arc<PageSessions>>,
    ) -> Result<Self, AccessError> {
        let served = service.served();
        let background = Background::start(&service, stop);
        let traffic = Arc::<Traffic>::default();
        crate::task::spawn(traffic.clone().watch(service.clone(), stop.clone()));
        let mcp = mcp::router(&service, &background, stop);
        if let Some(admin) = service.admin() {
            admin.activity.watch();
            admin.operations.take_callbacks();
        }
        let current = Mutex::new((served.clone(), Router::new()));
        let (stop, running) = (stop.clone(), Arc::default());
        let site = Self { service, address, mcp, background, traffic, sessions, running, stop, current };
        let router = site.build(&served)?;
        site.current.lock().1 = router;
        Ok(site)
    }

    fn into_router(self: Arc<Self>) -> Router {
        Router::new().fallback(move |request: Request| {
            self.traffic.count();
            let router = self.router();
            async move {
                let (request, rest) = unread::lend(request);
                let mut response = router.oneshot(request).await?;
                rest.settle(&mut response).await;
                Ok::<_, Infallible>(response)
            }
        })
    }

    fn router(&self) -> Router {
        let served = self.service.served();
        let mut current = self.current.lock();
        if !Arc::ptr_eq(&current.0, &served) {
            match self.build(&served) {
                Ok(router) => current.1 = router,
                Err(error) => tracing::error!(%error, "the server keeps its former settings"),
            }
            current.0 = served;
        }
        current.1.clone()
    }

    fn build(&self, served: &Arc<Served>) -> Result<Router, AccessError> {
        let access = AccessPolicy::new(self.address, &served.server, Some(served.tokens.clone()))?;
        let access = Arc::new(access.with_sessions(self.sessions.clone()).with_audit(served.audit.clone()));
        let admin = self
            .service
            .admin()
            .map(|parts| Arc::new(Admin { parts, running: self.running.clone(), stop: self.stop.clone() }));
        let probes = probes::router(served.clone());
        let sign_ins = same_site(sign_in::router(self.service.clone()), access.clone());
        let rest = rest::router(RestState {
            service: self.service.clone(),
            served: served.clone(),
            access: access.clone(),
            background: self.background.clone(),
            admin,
        });
        let metadata = access.metadata().unwrap_or_default();
        let metadata = same_site(metadata, access.clone());
        Ok(rest.merge(metadata).merge(protect(self.mcp.clone(), access, Scope::Invoke)).merge(probes).merge(sign_ins))
    }
}
