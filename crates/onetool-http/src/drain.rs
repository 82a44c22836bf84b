//! The end of a server: it takes nothing new, finishes what is under way, and then closes.
//!
//! While it drains, `/readyz` says no, whoever asks for something new is told to come back later, and what belongs to work
//! under way (its progress, its answers, its cancellation) is still served. Streams that wait for news end at once. When the
//! time is over, what is left is cancelled and answered. A server that is alone keeps its port open for that; where others
//! share its state it takes no further connections, and they serve what belongs to its runs.

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

/// When a client that was refused may try again: another server has taken over by then, or this one is back.
pub(crate) const RETRY_SECONDS: u64 = 2;
pub(crate) const REFUSAL: &str = "the server is stopping and takes no new work";
pub(crate) const HINT: &str = "send it again in a moment, to another server if there are several";

/// How often runs are counted while a server waits for them.
const LOOK: Duration = Duration::from_millis(20);

/// How far a server is with its end. Cheap to clone; clones share.
#[derive(Clone, Default)]
pub(crate) struct Drain {
    begun: CancellationToken,
    over: CancellationToken,
    requests: TaskTracker,
}

/// Marks a request that came in after the drain began.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Draining;

/// What becomes of a request.
pub(crate) enum Admission {
    Serve,
    /// It may only go on with what is under way.
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

    /// Cancelled when the drain begins. Streams that wait for news end with it.
    pub(crate) fn beginning(&self) -> &CancellationToken {
        &self.begun
    }

    /// Answers requests that are still not answered.
    pub(crate) fn give_up(&self) {
        self.over.cancel();
    }

    pub(crate) async fn given_up(&self) {
        self.over.cancelled().await;
    }

    /// Requests whose answers are not complete.
    pub(crate) fn requests(&self) -> usize {
        self.requests.len()
    }

    /// Waits until every request is answered and `is_busy` says no.
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
            // A message may be the answer that a run waits for.
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

/// The answer to whoever wants something new.
pub(crate) fn refusal() -> ApiError {
    ApiError::stopping(REFUSAL, RETRY_SECONDS).with_hint(HINT)
}

/// Announces that the connection closes.
pub(crate) fn close(response: &mut Response) {
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
}

/// Keeps `token` until the body is sent.
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
