//! Connections: limited in number and in resources, ended gracefully.
//!
//! When all slots are taken, connections close after their current request, and idle ones close at once: a client that
//! keeps many open for later must not keep others out.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Maximum number of open connections; further ones wait to be accepted.
const MAX_CONNECTIONS: usize = 512;
/// Timeout for a request's head, and for an idle connection.
const HEAD_PATIENCE: Duration = Duration::from_secs(30);
/// Timeout for the TLS handshake.
const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(10);
/// Timeout for a connection's first request when others wait for a slot.
const CROWDED_PATIENCE: Duration = Duration::from_secs(2);
/// The largest head of a request.
const MAX_HEAD_BYTES: usize = 64 * 1024;
const MAX_HEADERS: usize = 100;
/// How long requests in flight may continue after shutdown begins.
const GRACE: Duration = Duration::from_secs(10);
/// Pause after a failed accept (no more file descriptors, say).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Where a request comes from: the connected peer, or the client named by a trusted proxy (then without a port).
#[derive(Debug, Clone, Copy)]
pub struct PeerAddress(pub SocketAddr);

/// Serves until `shutdown`, then lets requests in flight finish.
pub async fn serve_connections(listener: TcpListener, router: Router, shutdown: CancellationToken) -> io::Result<()> {
    serve_with(listener, router, ConnectionOptions::default(), shutdown).await
}

/// How connections are served.
#[derive(Clone, Default)]
pub(crate) struct ConnectionOptions {
    /// Without it, plain HTTP.
    pub(crate) tls: Option<TlsAcceptor>,
    /// Counts open connections.
    pub(crate) open: Arc<AtomicUsize>,
    /// When cancelled, the port closes, and connections close after their current request.
    pub(crate) retired: CancellationToken,
}

pub(crate) async fn serve_with(
    listener: TcpListener,
    router: Router,
    options: ConnectionOptions,
    shutdown: CancellationToken,
) -> io::Result<()> {
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let connections = TaskTracker::new();
    let abort = CancellationToken::new();
    let mut crowded = CancellationToken::new();
    loop {
        if slots.available_permits() == 0 {
            std::mem::take(&mut crowded).cancel();
        }
        let slot = tokio::select! {
            () = shutdown.cancelled() => break,
            () = options.retired.cancelled() => break,
            slot = slots.clone().acquire_owned() => slot.map_err(io::Error::other)?,
        };
        let stream = tokio::select! {
            () = shutdown.cancelled() => break,
            () = options.retired.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            },
        };
        let connection = Connection {
            router: router.clone(),
            shutdown: shutdown.clone(),
            retired: options.retired.clone(),
            crowded: crowded.clone(),
        };
        let abort = abort.clone();
        let options = options.clone();
        connections.spawn(async move {
            options.open.fetch_add(1, Ordering::Relaxed);
            tokio::select! {
                () = abort.cancelled() => {}
                () = connection.begin(stream, options.tls) => {}
            }
            options.open.fetch_sub(1, Ordering::Relaxed);
            drop(slot);
        });
    }
    drop(listener);
    connections.close();
    // Requests are not limited in time until shutdown.
    shutdown.cancelled().await;
    if tokio::time::timeout(GRACE, connections.wait()).await.is_err() {
        abort.cancel();
        connections.wait().await;
    }
    Ok(())
}

/// How one connection is served, and when it must end.
struct Connection {
    router: Router,
    shutdown: CancellationToken,
    retired: CancellationToken,
    crowded: CancellationToken,
}

impl Connection {
    async fn begin(self, stream: TcpStream, tls: Option<TlsAcceptor>) {
        // Small replies must not wait for more data.
        let _ = stream.set_nodelay(true);
        let address = stream.peer_addr().ok();
        let Some(tls) = tls else { return self.converse(stream, address).await };
        match tokio::time::timeout(HANDSHAKE_PATIENCE, tls.accept(stream)).await {
            Ok(Ok(stream)) => self.converse(stream, address).await,
            Ok(Err(error)) => tracing::debug!(%error, "a client did not agree on TLS"),
            Err(_) => tracing::debug!("a client took too long to agree on TLS"),
        }
    }

    /// Answers requests until the client sends no more, or the connection must end.
    async fn converse<S>(self, stream: S, address: Option<SocketAddr>)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin,
    {
        let asked = Arc::new(AtomicBool::new(false));
        let answered = Arc::new(AtomicBool::new(false));
        let service = {
            let (router, crowded) = (self.router, self.crowded.clone());
            let (asked, answered) = (asked.clone(), answered.clone());
            service_fn(move |mut request: hyper::Request<Incoming>| {
                if let Some(address) = address {
                    request.extensions_mut().insert(PeerAddress(address));
                }
                asked.store(true, Ordering::Release);
                let (router, crowded, answered) = (router.clone(), crowded.clone(), answered.clone());
                async move {
                    let mut response = TowerToHyperService::new(router).call(request).await?;
                    if crowded.is_cancelled() {
                        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                    }
                    answered.store(true, Ordering::Release);
                    Ok::<_, Infallible>(response)
                }
            })
        };
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_PATIENCE)
            .max_headers(MAX_HEADERS)
            .max_buf_size(MAX_HEAD_BYTES)
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        tokio::select! {
            ended = connection.as_mut() => return log(ended),
            () = self.shutdown.cancelled() => connection.as_mut().graceful_shutdown(),
            () = self.retired.cancelled() => connection.as_mut().graceful_shutdown(),
            // A client that has sent a request keeps its slot until it is answered; that answer closes the connection.
            () = self.crowded.cancelled() => {
                if answered.load(Ordering::Acquire) {
                    connection.as_mut().graceful_shutdown();
                } else if tokio::time::timeout(CROWDED_PATIENCE, connection.as_mut()).await.is_ok()
                    || !asked.load(Ordering::Acquire)
                {
                    return;
                }
            }
        }
        tokio::select! {
            ended = connection.as_mut() => return log(ended),
            () = self.shutdown.cancelled() => connection.as_mut().graceful_shutdown(),
            () = self.retired.cancelled() => connection.as_mut().graceful_shutdown(),
        }
        log(connection.await);
    }
}

fn log(ended: hyper::Result<()>) {
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}
