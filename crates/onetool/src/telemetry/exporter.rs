//! Sends spans and metrics in the background.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use onetool_http::metrics::Metrics;
use onetool_sdk::{HealthNote, NoteFacts, Severity};
use parking_lot::Mutex;
use serde_json::{Value as Json, json};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::metrics;
use super::settings::TelemetrySettings;
use super::span::{Span, attribute};

/// Maximum number of queued spans; more are dropped.
const QUEUE: usize = 4096;
/// Maximum number of spans per request.
const BATCH: usize = 512;
/// Maximum time that a span waits for others.
const INTERVAL: Duration = Duration::from_secs(2);
/// Time limit for sending a batch.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit for the final flush.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// Accepts spans without blocking. When it is dropped, queued spans are still sent.
pub struct Exporter {
    queue: mpsc::Sender<Item>,
    state: Arc<State>,
    started: SystemTime,
    metrics_interval: Duration,
}

enum Item {
    Span(Box<Span>),
    Metrics(Vec<Json>),
    /// Send everything queued, then notify.
    Flush(oneshot::Sender<()>),
}

#[derive(Default)]
struct State {
    dropped: AtomicU64,
    /// Why the last batch was not delivered.
    problem: Mutex<Option<String>>,
}

impl Exporter {
    /// Starts on the current runtime.
    pub fn start(settings: TelemetrySettings) -> Arc<Self> {
        let (queue, items) = mpsc::channel(QUEUE);
        let state = Arc::new(State::default());
        let metrics_interval = settings.metrics_interval;
        let worker = Worker { settings, state: state.clone(), client: None };
        tokio::spawn(worker.run(items));
        Arc::new(Self { queue, state, started: SystemTime::now(), metrics_interval })
    }

    /// How often metrics are sent, if at all.
    pub fn metrics_interval(&self) -> Option<Duration> {
        Some(self.metrics_interval).filter(|interval| !interval.is_zero())
    }

    /// Sends metrics, unless the queue is full.
    pub fn deliver(&self, metrics: &Metrics) {
        let _ = self.queue.try_send(Item::Metrics(metrics::to_json(metrics, self.started)));
    }

    pub fn record(&self, span: Span) {
        if self.queue.try_send(Item::Span(Box::new(span))).is_err() {
            self.state.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until everything recorded so far is sent, or until a timeout.
    pub async fn flush(&self) {
        let (done, sent) = oneshot::channel();
        let all = async {
            if self.queue.send(Item::Flush(done)).await.is_ok() {
                let _ = sent.await;
            }
        };
        if tokio::time::timeout(FLUSH_TIMEOUT, all).await.is_err() {
            tracing::warn!(span = "telemetry", "the last spans were not delivered in time");
        }
    }

    /// The current delivery problem, if any.
    pub fn health(&self) -> Option<HealthNote> {
        let dropped = self.state.dropped.load(Ordering::Relaxed);
        let problem = self.state.problem.lock().clone();
        if dropped == 0 && problem.is_none() {
            return None;
        }
        let reason = problem.map(|problem| format!("spans are not delivered: {problem}; "));
        Some(HealthNote {
            severity: Severity::Warning,
            subject: "telemetry".to_owned(),
            message: format!("{}{dropped} spans were dropped so far", reason.unwrap_or_default()),
            facts: NoteFacts::default(),
        })
    }
}

struct Worker {
    settings: TelemetrySettings,
    state: Arc<State>,
    client: Option<reqwest::Client>,
}

impl Worker {
    async fn run(mut self, mut items: mpsc::Receiver<Item>) {
        let mut batch: Vec<Json> = Vec::new();
        let mut due: Option<Instant> = None;
        loop {
            let next = match due {
                Some(due) => tokio::time::timeout_at(due, items.recv()).await.ok(),
                None => Some(items.recv().await),
            };
            match next {
                Some(Some(Item::Span(span))) => {
                    batch.push(span.to_json());
                    due = due.or_else(|| Some(Instant::now() + INTERVAL));
                    if batch.len() < BATCH {
                        continue;
                    }
                    self.send(&mut batch).await;
                }
                Some(Some(Item::Metrics(families))) => {
                    if let Err(reason) = self.post_metrics(families).await {
                        tracing::debug!(span = "telemetry", reason, "measurements are not delivered");
                    }
                    continue;
                }
                Some(Some(Item::Flush(done))) => {
                    self.send(&mut batch).await;
                    let _ = done.send(());
                }
                Some(None) => {
                    self.send(&mut batch).await;
                    return;
                }
                None => self.send(&mut batch).await,
            }
            due = None;
        }
    }

    async fn send(&mut self, batch: &mut Vec<Json>) {
        if batch.is_empty() {
            return;
        }
        let spans = std::mem::take(batch);
        let count = spans.len() as u64;
        let outcome = self.post(spans).await;
        let mut problem = self.state.problem.lock();
        if let Err(reason) = &outcome {
            self.state.dropped.fetch_add(count, Ordering::Relaxed);
            // Logged once until it works again.
            if problem.is_none() {
                tracing::warn!(span = "telemetry", reason, "spans are not delivered");
            }
        }
        *problem = outcome.err();
    }

    fn client(&mut self) -> Result<reqwest::Client, String> {
        if let Some(client) = &self.client {
            return Ok(client.clone());
        }
        let client = onetool_outbound::client_builder()
            .timeout(REQUEST_TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|error| told(&error))?;
        Ok(self.client.insert(client).clone())
    }

    fn resource(&self) -> Json {
        json!({"attributes": [
            attribute("service.name", &self.settings.service_name),
            attribute("service.version", env!("CARGO_PKG_VERSION")),
        ]})
    }

    async fn post(&mut self, spans: Vec<Json>) -> Result<(), String> {
        let scope = json!({"name": "onetool", "version": env!("CARGO_PKG_VERSION")});
        let scoped = json!([{"scope": scope, "spans": spans}]);
        let body = json!({"resourceSpans": [{"resource": self.resource(), "scopeSpans": scoped}]});
        self.post_to(self.settings.url.clone(), &body).await
    }

    async fn post_metrics(&mut self, families: Vec<Json>) -> Result<(), String> {
        let scope = json!({"name": "onetool", "version": env!("CARGO_PKG_VERSION")});
        let scoped = json!([{"scope": scope, "metrics": families}]);
        let body = json!({"resourceMetrics": [{"resource": self.resource(), "scopeMetrics": scoped}]});
        self.post_to(self.settings.metrics_url.clone(), &body).await
    }

    async fn post_to(&mut self, url: reqwest::Url, body: &Json) -> Result<(), String> {
        let request = self.client()?.post(url).headers(self.settings.headers.clone()).json(body);
        let answer = request.send().await.map_err(|error| told(&error))?;
        if answer.status().is_success() { Ok(()) } else { Err(format!("the collector answered {}", answer.status())) }
    }
}

/// The innermost reason, without the address, which may contain a key.
fn told(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "the collector did not answer in time".to_owned();
    }
    let mut reason: &dyn std::error::Error = error;
    while let Some(source) = reason.source() {
        reason = source;
    }
    if std::ptr::addr_eq(reason, error) { "the request failed".to_owned() } else { reason.to_string() }
}
