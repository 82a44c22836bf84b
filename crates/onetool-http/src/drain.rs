//! Graceful shutdown: the server accepts nothing new, finishes work in progress, and then closes.
//!
//! While it drains, `/readyz` says no, requests for new work are told to retry later, and requests about work in
//! progress (its progress, its answers, its cancellation) are still served. Streams that wait for events end at once.
//! When the time is over, the remaining work is cancelled and answered. A server that runs alone keeps its port open
//! meanwhile; where others share its state it accepts no further connections, and they serve requests about its runs.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderValue, Method, header};
use axum::response::Response;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::ApiError;

/// When a refused client may retry: by then another server has taken over, or this one is back.
pub(crate) const RETRY_SECONDS: u64 = 2;
pub(crate) const REFUSAL: &str = "the server is stopping and takes no new work";
pub(crate) const HINT: &str = "send it again in a moment, to another server if there are several";

/// Poll interval for active runs while draining.
const LOOK: Duration = Duration::from_millis(20);

/// The progress of a server's shutdown. Cheap to clone; clones share.
#[derive(Clone, Default)]
pub(crate) struct Drain {
    begun: CancellationToken,
    over: CancellationToken,
    requests: TaskTracker,
}

/// Marks a request that came in after the drain began.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Draining;

/// How a request is handled during a drain.
pub(crate) enum Admission {
    Serve,
    /// Only requests about work in progress are served.
    Finish,
    Refuse,
}

impl Drain {
    pub(crate) fn begin(&self) {
        self.begun.cancel();
        self.requests.close();
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.begun.is_cancelled()
    }

    /// Cancelled when the drain begins. Streams that wait for events end with it.
    pub(crate) fn beginning(&self) -> &CancellationToken {
        &self.begun
    }

    /// Answers all requests that are still unanswered.
    pub(crate) fn give_up(&self) {
        self.over.cancel();
    }

    pub(crate) async fn given_up(&self) {
        self.over.cancelled().await;
    }

    /// Number of requests whose answers are not complete.
    pub(crate) fn requests(&self) -> usize {
        self.requests.len()
    }

    /// Waits until every request is answered and `is_busy` returns false.
    pub(crate) async fn finished(&self, is_busy: impl Fn() -> bool) {
        loop {
            self.requests.wait().await;
            if !is_busy() {
                return;
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    pub(crate) fn admit(&self, request: &Request) -> Admission {
        if !self.has_begun() {
            return Admission::Serve;
        }
        match (request.method(), request.uri().path()) {
            (_, "/healthz" | "/readyz" | "/metrics") => Admission::Serve,
            // The message may be an answer that a run waits for.
            (&Method::POST | &Method::DELETE, "/mcp") => Admission::Finish,
            (method, path) => {
                let is_about_a_run =
                    ["/runs/", "/api/runs/", "/api/activity/"].iter().any(|below| path.starts_with(below));
                let is_look = matches!(*method, Method::GET | Method::HEAD | Method::DELETE);
                let is_decision = path.starts_with("/api/approvals") || path.ends_with("/cancel");
                if is_about_a_run && (is_look || is_decision) || is_decision {
                    Admission::Finish
                } else {
                    Admission::Refuse
                }
            }
        }
    }

    /// Counts a request until its answer is sent, or dropped.
    pub(crate) fn enter(&self, request: &Request) -> Option<TaskTrackerToken> {
        // Probes are not work, and the stream of the oldest transport ends with the server.
        let is_work = !matches!(request.uri().path(), "/healthz" | "/readyz" | "/metrics" | "/sse");
        is_work.then(|| self.requests.token())
    }
}

/// The answer to a request for new work.
pub(crate) fn refusal() -> ApiError {
    ApiError::stopping(REFUSAL, RETRY_SECONDS).with_hint(HINT)
}

/// Announces that the connection closes.
pub(crate) fn close(response: &mut Response) {
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
}

/// Holds `token` until the body is sent.
pub(crate) fn hold(response: Response, token: Option<TaskTrackerToken>) -> Response {
    match token {
        Some(token) if !response.body().is_end_stream() => {
            response.map(|body| Body::new(Held { body, _token: Arc::new(token) }))
        }
        _ => response,
    }
}

struct Held {
    body: Body,
    _token: Arc<TaskTrackerToken>,
}

impl HttpBody for Held {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.get_mut().body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
