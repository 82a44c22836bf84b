//! Request bodies that were refused before they were read completely.
//!
//! The remainder of such a body blocks the next request on the same connection. A small remainder is read and
//! discarded; otherwise the response announces that the connection closes.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use http_body_util::{BodyExt as _, Limited};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use parking_lot::Mutex;

/// Maximum size of a remainder that is read.
const SMALL: usize = 256 << 10;
/// How long the client may take to send the remainder.
const PATIENCE: Duration = Duration::from_secs(2);

/// The part of a body that a handler did not read.
pub(crate) struct Rest(Option<Arc<Mutex<Option<Body>>>>);

/// Gives the request a body that is returned when the handler drops it.
pub(crate) fn lend(request: Request) -> (Request, Rest) {
    if request.body().is_end_stream() {
        return (request, Rest(None));
    }
    let slot = Arc::<Mutex<Option<Body>>>::default();
    let request = request.map(|body| Body::new(BorrowedBody { body: Some(body), slot: slot.clone() }));
    (request, Rest(Some(slot)))
}

impl Rest {
    /// Leaves the connection ready for its next request, or announces that it closes.
    pub(crate) async fn settle(self, response: &mut Response) {
        let Some(body) = self.0.and_then(|slot| slot.lock().take()) else { return };
        let is_small = body.size_hint().lower() <= SMALL as u64;
        let is_read = is_small
            && tokio::time::timeout(PATIENCE, Limited::new(body, SMALL).collect()).await.is_ok_and(|read| read.is_ok());
        if !is_read {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
    }
}

struct BorrowedBody {
    body: Option<Body>,
    slot: Arc<Mutex<Option<Body>>>,
}

impl HttpBody for BorrowedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        let Some(body) = &mut this.body else { return Poll::Ready(None) };
        let frame = Pin::new(body).poll_frame(cx);
        if matches!(frame, Poll::Ready(None | Some(Err(_)))) {
            this.body = None;
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(SizeHint::default, HttpBody::size_hint)
    }
}

impl Drop for BorrowedBody {
    fn drop(&mut self) {
        if let Some(body) = self.body.take().filter(|body| !body.is_end_stream()) {
            *self.slot.lock() = Some(body);
        }
    }
}
