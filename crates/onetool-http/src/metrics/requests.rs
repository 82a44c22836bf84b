//! HTTP requests by route, method and status.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use axum::http::{Method, StatusCode};
use parking_lot::RwLock;

use super::{Histogram, Kind, MAX_LABELS, Metrics, OTHER};

/// Counts requests. Only declared routes are distinguished; everything else is `other`.
#[derive(Default)]
pub(crate) struct Requests {
    counts: RwLock<HashMap<(String, &'static str, u16), Arc<AtomicU64>>>,
    times: RwLock<HashMap<String, Arc<Histogram>>>,
    pub(crate) connections: Arc<AtomicUsize>,
}

impl Requests {
    pub(crate) fn add(&self, route: Option<&str>, method: &Method, status: StatusCode, took: Duration) {
        let route = match route {
            Some(route) if self.is_known(route) => route,
            _ => OTHER,
        };
        let key = (route.to_owned(), method_name(method), status.as_u16());
        let count = self.counts.read().get(&key).cloned();
        let count = count.unwrap_or_else(|| self.counts.write().entry(key).or_default().clone());
        count.fetch_add(1, Ordering::Relaxed);
        let time = self.times.read().get(route).cloned();
        let time = time.unwrap_or_else(|| self.times.write().entry(route.to_owned()).or_default().clone());
        time.add(took);
    }

    fn is_known(&self, route: &str) -> bool {
        let times = self.times.read();
        times.contains_key(route) || times.len() < MAX_LABELS
    }

    pub(crate) fn measure(&self, metrics: &mut Metrics) {
        let mut counts: Vec<_> =
            self.counts.read().iter().map(|(key, count)| (key.clone(), count.load(Ordering::Relaxed))).collect();
        counts.sort();
        let mut family =
            metrics.family(Kind::Counter, "onetool_http_requests_total", "HTTP requests by route, method and status.");
        for ((route, method, status), count) in counts {
            let labels = vec![("method", method.to_owned()), ("route", route), ("status", status.to_string())];
            #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
            family.add(labels, count as f64);
        }
        let mut times: Vec<_> = self.times.read().iter().map(|(route, time)| (route.clone(), time.clone())).collect();
        times.sort_by(|(a, _), (b, _)| a.cmp(b));
        let mut family = metrics.family(
            Kind::Histogram,
            "onetool_http_request_duration_seconds",
            "Time until the head of the answer, by route.",
        );
        for (route, time) in times {
            family.distribution(vec![("route", route)], &time);
        }
        let open = self.connections.load(Ordering::Relaxed) as u64;
        metrics.number(Kind::Gauge, "onetool_http_connections", "Open connections.", open);
    }
}

fn method_name(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => OTHER,
    }
}
