//! Responses as event streams: progress, then the outcome. When the client disconnects, the work is cancelled.

use std::convert::Infallible;
use std::future::Future;
use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use onetool_sdk::{Progress, ProgressSink};
use serde::Serialize;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Maximum number of queued events; further progress reports are dropped, outcomes wait.
const QUEUE: usize = 256;
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Sends the events of one response.
#[derive(Clone)]
pub(in crate::rest) struct EventSender(mpsc::Sender<Event>);

impl EventSender {
    /// Sends, waiting for a slow reader. `false` if it has disconnected.
    pub(in crate::rest) async fn send(&self, name: &str, data: &impl Serialize) -> bool {
        match serde_json::to_string(data) {
            Ok(data) => self.0.send(Event::default().event(name).data(data)).await.is_ok(),
            Err(_) => true,
        }
    }

    /// Sends unless the queue is full.
    pub(in crate::rest) fn offer(&self, name: &str, data: &impl Serialize) {
        if let Ok(data) = serde_json::to_string(data) {
            let _ = self.0.try_send(Event::default().event(name).data(data));
        }
    }

    /// Sends a report, or returns it when the queue is full.
    pub(in crate::rest) fn offer_progress(&self, progress: Progress) -> Result<(), Progress> {
        if self.0.capacity() == 0 && !self.0.is_closed() {
            return Err(progress);
        }
        self.report(progress);
        Ok(())
    }

    /// Sends a report, waiting for a slow reader.
    pub(in crate::rest) async fn send_progress(&self, progress: Progress) {
        let Progress { done, total, message } = progress;
        self.send("progress", &ProgressRow { done, total, message }).await;
    }
}

#[derive(Serialize)]
struct ProgressRow {
    done: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

impl ProgressSink for EventSender {
    fn report(&self, progress: Progress) {
        let Progress { done, total, message } = progress;
        self.offer("progress", &ProgressRow { done, total, message });
    }

    /// The run's reply repeats all of it, so a slow reader loses nothing.
    fn printed(&self, text: &str) -> bool {
        self.offer("printed", &serde_json::json!({"text": text}));
        true
    }
}

/// Whether the client wants events rather than one document.
pub(in crate::rest) fn wants_events(headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    accepted.split(',').any(|kind| kind.split(';').next().unwrap_or_default().trim() == "text/event-stream")
}

/// Responds with the events that `work` sends. `cancel` is cancelled when the response is dropped.
pub(in crate::rest) fn stream_of<F>(cancel: CancellationToken, work: impl FnOnce(EventSender) -> F) -> Response
where
    F: Future<Output = ()> + Send + 'static,
{
    let (sender, receiver) = mpsc::channel(QUEUE);
    crate::task::spawn(work(EventSender(sender)));
    let guard = cancel.drop_guard();
    let events = stream::unfold((receiver, guard), |(mut receiver, guard)| async {
        receiver.recv().await.map(|event| (Ok::<_, Infallible>(event), (receiver, guard)))
    });
    let mut response = Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert("X-Accel-Buffering", HeaderValue::from_static("no"));
    response
}
