//! Serves the admin page, REST and MCP over HTTP at one address. Loopback unless tokens are configured.
//!
//! The first signal begins a graceful shutdown ([`crate::drain`]), the second one ends the process at once.

use std::convert::Infallible;
use std::io::{self, IsTerminal as _};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use crate::access::{protect, same_site};
use crate::background::Background;
use crate::connections::{ConnectionOptions, serve_with};
use crate::drain::{self, Admission, Drain, Draining};
use crate::ending::EndRequests;
use crate::metrics::{self, MetricsRoute, Requests, SiteMeasures};
use crate::quiet::Traffic;
use crate::relay::Relay;
use crate::rest::admin::PageSessions;
use crate::rest::{self, Admin, Here, RestState, TeamActivity};
use crate::tls::{Tls, TlsError};
use crate::{AccessError, AccessPolicy, Scope, Served, Service, browser, mcp, probes, sign_in, trace, unread};

/// Children that do not exit within this time are killed.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);
/// How long cancelled work may take to answer.
const ANSWER_GRACE: Duration = Duration::from_secs(3);

/// Why a server does not start, or why it ended.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error(transparent)]
    Access(#[from] AccessError),
    #[error("cannot listen at {address}: {source}")]
    Listen { address: SocketAddr, source: io::Error },
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("cannot serve: {0}")]
    Io(#[from] io::Error),
}

/// The users that a server runs for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// All users that the configuration admits.
    Everyone,
    /// One browser, which is opened at an address that works once.
    Browser,
}

/// Serves until the process is asked to stop.
pub async fn serve(service: Arc<dyn Service>, address: SocketAddr, audience: Audience) -> Result<(), ServeError> {
    metrics::started();
    let stop = CancellationToken::new();
    let sessions = (audience == Audience::Browser).then(|| Arc::new(PageSessions::default()));
    let site = Arc::new(Site::new(service.clone(), address.ip(), &stop, sessions.clone())?);
    let tls = service.served().server.tls.clone().map(Tls::open).transpose()?;
    let options = ConnectionOptions {
        tls: tls.as_ref().map(Tls::acceptor),
        open: site.requests.connections.clone(),
        retired: site.retired.clone(),
    };
    let scheme = if tls.is_some() { "https" } else { "http" };
    let listener = TcpListener::bind(address).await.map_err(|source| ServeError::Listen { address, source })?;
    let warming = service.clone();
    crate::task::spawn(async move { warming.warm_up().await });
    if let Some(tls) = tls {
        crate::task::spawn(tls.follow(stop.clone()));
    }
    // Read from the listener: with port 0 the system chooses the port.
    let local = listener.local_addr()?;
    let _ = site.own_address.set(format!("{scheme}://{local}"));
    site.tell_page(&service.served());
    // Installed first, because a reader of the next line may send a signal at once.
    let mut signals = EndRequests::without_hang_up()?;
    eprintln!("listening at {scheme}://{local}");
    if std::io::stderr().is_terminal() {
        eprintln!("  MCP /mcp, admin page /, REST /tools and /api, its description /docs; Ctrl-C ends it");
    }
    if let Some(code) = sessions.and_then(|sessions| sessions.code()) {
        browser::open(&format!("{scheme}://{local}/#code={code}"));
    }
    let serving = crate::task::spawn(serve_with(listener, site.clone().into_router(), options, stop.clone()));
    signals.next().await;
    crate::task::spawn(async move {
        signals.next().await;
        tracing::warn!("asked to stop a second time: stopping at once, work in progress is lost");
        std::process::exit(FORCED_EXIT);
    });
    site.drain().await;
    stop.cancel();
    serving.await.map_err(io::Error::other)??;
    let ending = async {
        site.background.shutdown().await;
        service.shutdown().await;
    };
    let _ = tokio::time::timeout(SHUTDOWN_GRACE, ending).await;
    Ok(())
}

/// The exit code of a server that was asked to stop twice.
const FORCED_EXIT: i32 = 130;

/// Returns REST and MCP for a server that listens at `address`. It follows the service's settings; MCP sessions end
/// with `stop`.
pub fn router(service: Arc<dyn Service>, address: IpAddr, stop: &CancellationToken) -> Result<Router, AccessError> {
    Ok(Arc::new(Site::new(service, address, stop, None)?).into_router())
}

/// Everything that is served, built from the settings in effect: a reload brings new bundles, tokens and limits. MCP
/// sessions persist.
struct Site {
    service: Arc<dyn Service>,
    address: IpAddr,
    mcp: Router,
    background: Arc<Background>,
    traffic: Arc<Traffic>,
    requests: Arc<Requests>,
    measures: SiteMeasures,
    drain: Drain,
    sessions: Option<Arc<PageSessions>>,
    /// Activity that people may view.
    watched: Option<Watched>,
    relay: Arc<Relay>,
    current: Mutex<(Arc<Served>, Router)>,
    /// The address it listens at.
    own_address: OnceLock<String>,
    /// Cancelled when no further connections are accepted.
    retired: CancellationToken,
}

/// Work in progress on this server and on others.
#[derive(Clone)]
struct Watched {
    here: Arc<Here>,
    team: Arc<TeamActivity>,
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
        let drain = Drain::default();
        let relay = Relay::start(&service, stop);
        let (mcp, sessions_open) = mcp::router(&service, &background, &relay, stop, drain.beginning());
        let watched = service.admin().map(|admin| {
            admin.activity.watch();
            admin.operations.take_callbacks();
            let team = TeamActivity::start(&service, &admin.activity, stop);
            let here = Arc::new(Here { running: Arc::default(), activity: admin.activity });
            relay.add(rest::room(&here));
            Watched { here, team }
        });
        let current = Mutex::new((served.clone(), Router::new()));
        let requests = Arc::<Requests>::default();
        let measures = SiteMeasures {
            service: service.clone(),
            background: background.clone(),
            sessions: sessions_open,
            requests: requests.clone(),
            drain: drain.clone(),
        };
        let site = Self {
            service,
            address,
            mcp,
            background,
            traffic,
            requests,
            measures,
            drain,
            sessions,
            watched,
            relay,
            current,
            own_address: OnceLock::new(),
            retired: CancellationToken::new(),
        };
        let router = site.build(&served)?;
        site.current.lock().1 = router;
        Ok(site)
    }

    fn into_router(self: Arc<Self>) -> Router {
        Router::new().fallback(move |request: Request| {
            let site = self.clone();
            async move { Ok::<_, Infallible>(site.answer(request).await) }
        })
    }

    /// Answers one request, and measures it.
    async fn answer(&self, mut request: Request) -> Response {
        self.traffic.count();
        let started = Instant::now();
        let method = request.method().clone();
        self.service.served().server.trusted_proxies.name_client(&mut request);
        let under_way = self.drain.enter(&request);
        let mut response = match self.drain.admit(&request) {
            Admission::Serve => self.serve(request).await,
            Admission::Finish => {
                request.extensions_mut().insert(Draining);
                self.serve(request).await
            }
            Admission::Refuse => {
                let (request, rest) = unread::lend(request);
                drop(request);
                let mut response = drain::refusal().into_response();
                rest.settle(&mut response).await;
                response
            }
        };
        if self.drain.has_begun() {
            drain::close(&mut response);
        }
        let route = response.extensions().get::<MetricsRoute>().map(|route| route.0.as_str().to_owned());
        self.requests.add(route.as_deref(), &method, response.status(), started.elapsed());
        drain::hold(response, under_way)
    }

    async fn serve(&self, request: Request) -> Response {
        let (request, rest) = unread::lend(request);
        let trace = trace::of_headers(request.headers());
        let answer = trace::within(trace, self.router().oneshot(request));
        let mut response = tokio::select! {
            biased;
            response = answer => response.unwrap_or_else(|never| match never {}),
            () = self.drain.given_up() => drain::refusal().into_response(),
        };
        rest.settle(&mut response).await;
        response
    }

    /// Finishes work in progress, and cancels the rest when the time is over.
    async fn drain(&self) {
        self.drain.begin();
        self.background.stop_taking();
        if self.service.served().state.is_shared() {
            // Other servers do the same work. A load balancer whose connection is refused sends the request to one of
            // them, but it would pass a negative answer on to the client. Requests about runs here reach them through
            // the state.
            self.retired.cancel();
        }
        let limit = self.service.served().server.drain;
        let work = self.service.runner().toolbox().work().clone();
        let is_busy = || work.runs() > 0 || self.background.active() > 0;
        let (requests, runs) = (self.drain.requests(), work.runs());
        tracing::info!(requests, runs, limit_s = limit.as_secs_f64(), "the server is stopping");
        if requests + runs > 0 && io::stderr().is_terminal() {
            eprintln!("finishing {requests} requests and {runs} runs; Ctrl-C ends at once");
        }
        if tokio::time::timeout(limit, self.drain.finished(is_busy)).await.is_ok() {
            return;
        }
        tracing::warn!(
            requests = self.drain.requests(),
            runs = work.runs(),
            "the time to finish is over: cancelling work in progress"
        );
        // Background runs first: they are handed back or marked before their cancellation could end them.
        let _ = tokio::time::timeout(SHUTDOWN_GRACE, self.background.shutdown()).await;
        work.cancel_all();
        if tokio::time::timeout(ANSWER_GRACE, self.drain.finished(|| work.runs() > 0)).await.is_err() {
            self.drain.give_up();
        }
    }

    fn router(&self) -> Router {
        let served = self.service.served();
        let mut current = self.current.lock();
        if !Arc::ptr_eq(&current.0, &served) {
            match self.build(&served) {
                Ok(router) => {
                    current.1 = router;
                    self.tell_page(&served);
                }
                Err(error) => tracing::error!(%error, "the server keeps its former settings"),
            }
            current.0 = served;
        }
        current.1.clone()
    }

    /// Tells runs that wait for a permission where people decide: at the public address, or the listen address.
    fn tell_page(&self, served: &Served) {
        let address = served.server.public_url.as_ref().or_else(|| self.own_address.get());
        if let (Some(durable), Some(address)) = (self.service.runner().durable(), address) {
            durable.set_page(Some(format!("{address}/#/approvals")));
        }
    }

    fn build(&self, served: &Arc<Served>) -> Result<Router, AccessError> {
        let access = AccessPolicy::new(self.address, &served.server, Some(served.tokens.clone()))?;
        let access = Arc::new(access.with_sessions(self.sessions.clone()).with_audit(served.audit.clone()));
        let admin = self.service.admin().zip(self.watched.clone()).map(|(parts, Watched { here, team })| {
            let (relay, stop) = (self.relay.clone(), self.drain.beginning().clone());
            Arc::new(Admin { parts, here, relay, team, stop })
        });
        let probes = probes::router(served.clone(), self.drain.clone());
        let sign_ins = same_site(sign_in::router(self.service.clone()), access.clone());
        let rest = rest::router(RestState {
            service: self.service.clone(),
            served: served.clone(),
            access: access.clone(),
            background: self.background.clone(),
            admin,
        });
        let metadata = same_site(access.metadata().unwrap_or_default(), access.clone());
        let mcp = protect(self.mcp.clone(), access.clone(), Scope::Invoke);
        let mut all = rest.merge(metadata).merge(mcp).merge(probes).merge(sign_ins);
        if served.server.metrics.is_on {
            let measures = self.measures.clone();
            all = all.merge(metrics::router(access, served.server.metrics.token.clone(), move || measures.now()));
        }
        Ok(metrics::routed(all))
    }
}
