//! `GET /metrics`: for tokens with the scope `read`, and for the dedicated metrics token.

use std::sync::Arc;

use axum::Router;
use axum::extract::{MatchedPath, Request};
use axum::http::header;
use axum::middleware::{self, Next};
use axum::response::IntoResponse as _;
use axum::routing::get;
use subtle::ConstantTimeEq as _;
use tower::ServiceExt as _;

use super::Metrics;
use crate::access::protect;
use crate::{AccessPolicy, Scope};

const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The route that answered, attached to the response.
#[derive(Clone)]
pub(crate) struct MetricsRoute(pub(crate) MatchedPath);

/// Attaches the matched route to every response.
pub(crate) fn routed(router: Router) -> Router {
    router.layer(middleware::from_fn(async |request: Request, next: Next| {
        let route = request.extensions().get::<MatchedPath>().cloned();
        let mut response = next.run(request).await;
        if let Some(route) = route {
            response.extensions_mut().insert(MetricsRoute(route));
        }
        response
    }))
}

/// Returns the route. `measure` takes the measurements.
pub(crate) fn router(
    access: Arc<AccessPolicy>,
    token: Option<String>,
    measure: impl Fn() -> Metrics + Clone + Send + Sync + 'static,
) -> Router {
    let answer = move || {
        let text = measure().text();
        async move { ([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response() }
    };
    let open = Router::new().route("/metrics", get(answer));
    let guarded = protect(open.clone(), access, Scope::Read);
    let Some(token) = token else { return guarded };
    let choose = move |request: Request| {
        let router = if holds(&request, &token) { open.clone() } else { guarded.clone() };
        async move { router.oneshot(request).await.unwrap_or_else(|never| match never {}) }
    };
    Router::new().route("/metrics", get(choose))
}

fn holds(request: &Request, token: &str) -> bool {
    let given = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let given = given.and_then(|value| value.split_once(' ')).filter(|(kind, _)| kind.eq_ignore_ascii_case("bearer"));
    given.is_some_and(|(_, given)| bool::from(given.trim().as_bytes().ct_eq(token.as_bytes())))
}
