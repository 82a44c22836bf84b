//! For load balancers and supervisors: whether the process lives (`/healthz`), and whether to send it requests
//! (`/readyz`). Without tokens and for any Host: the answers say nothing that an open port does not.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Json, Router};
use serde_json::json;

use crate::Served;
use crate::drain::Drain;

pub(crate) fn router(served: Arc<Served>, drain: Drain) -> Router {
    Router::new()
        .route("/healthz", get(|| async { Json(json!({"status": "ok"})) }))
        .route("/readyz", get(move || async move { readiness(&served, &drain) }))
}

fn readiness(served: &Served, drain: &Drain) -> impl IntoResponse + use<> {
    let store = &served.bundles.store;
    let reason = if drain.has_begun() {
        Some("the server is stopping")
    } else if !store.is_loaded(Duration::ZERO) {
        Some("bundles are being read")
    } else if store.is_cut_off() {
        Some("the shared state is unavailable")
    } else {
        None
    };
    match reason {
        None => (StatusCode::OK, Json(json!({"status": "ready"}))),
        Some(reason) => (StatusCode::SERVICE_UNAVAILABLE, Json(json!({"status": "not ready", "reason": reason}))),
    }
}
