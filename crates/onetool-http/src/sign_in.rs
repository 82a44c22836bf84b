//! `/oauth/callback`: browsers return here after signing in to an upstream server, when `server.public_url` says how
//! they reach this one. It needs no token: a request that matches no pending sign-in changes nothing, and a match
//! cannot be guessed.

use std::sync::Arc;

use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;

use crate::Service;

/// Path relative to the public address.
pub const CALLBACK_PATH: &str = "/oauth/callback";
/// Maximum query length; more than any authorization server sends.
const QUERY_BYTES: usize = 16 * 1024;

pub(crate) fn router(service: Arc<dyn Service>) -> Router {
    Router::new().route(CALLBACK_PATH, get(callback)).with_state(service)
}

async fn callback(State(service): State<Arc<dyn Service>>, RawQuery(query): RawQuery) -> Response {
    let query = query.filter(|query| query.len() <= QUERY_BYTES).unwrap_or_default();
    let Some(admin) = service.admin() else { return StatusCode::NOT_FOUND.into_response() };
    match admin.operations.finish_callback(&format!("?{query}")).await {
        Ok(server) => page(StatusCode::OK, &format!("You are signed in to {server}. You can close this page.")),
        Err(error) => page(StatusCode::BAD_REQUEST, &format!("The sign-in did not work: {}", error.message)),
    }
}

fn page(status: StatusCode, text: &str) -> Response {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let page = format!(
        "<!doctype html><meta charset=utf-8><title>OneTool</title><body style=\"font: 1.1rem system-ui; margin: 20vh auto; \
         max-width: 30rem\">{text}"
    );
    let headers = [
        (header::CACHE_CONTROL, "no-store"),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; style-src 'unsafe-inline'"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (status, headers, Html(page)).into_response()
}
