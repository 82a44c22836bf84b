//! For load balancers and supervisors: whether the process is alive (`/healthz`), and whether to send it requests
//! (`/readyz`). Served without tokens and for any Host: the answers reveal nothing that an open port does not.
//!
//! A server that cannot reach the shared state is not ready: another one may reach it. Where all servers have lost it
//! and a balancer would drop them all, `/readyz?state=optional` still says yes: runs continue without it.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::RawQuery;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Json, Router};
use serde_json::json;

use crate::Served;
use crate::drain::Drain;

pub(crate) fn router(served: Arc<Served>, drain: Drain) -> Router {
    Router::new().route("/healthz", get(|| async { Json(json!({"status": "ok"})) })).route(
        "/readyz",
        get(move |RawQuery(query): RawQuery| async move { readiness(&served, &drain, query.as_deref()) }),
    )
}

const CUT_OFF: &str = "the shared state is unavailable";

fn readiness(served: &Served, drain: &Drain, query: Option<&str>) -> impl IntoResponse + use<> {
    let store = &served.bundles.store;
    let is_optional = query.is_some_and(|query| query.split('&').any(|part| part == "state=optional"));
    let reason = if drain.has_begun() {
        Some("the server is stopping")
    } else if is_optional && store.is_cut_off() {
        return (StatusCode::OK, Json(json!({"status": "degraded", "reason": CUT_OFF})));
    } else if !store.is_loaded(Duration::ZERO) {
        Some("bundles are being read")
    } else if store.is_cut_off() {
        Some(CUT_OFF)
    } else {
        None
    };
    match reason {
        None => (StatusCode::OK, Json(json!({"status": "ready"}))),
        Some(reason) => (StatusCode::SERVICE_UNAVAILABLE, Json(json!({"status": "not ready", "reason": reason}))),
    }
}
