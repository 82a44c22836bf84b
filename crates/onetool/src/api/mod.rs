//! The REST API: bundles and tools below `/tools`, its description at `/openapi.json`, a page to try it at `/docs`.
//!
//! Handlers read the store, change the store, or make a call through the one call path; they hold no rules of their own.
//! Every answer to a failure is `{ok: false, error: {code, message, hint}}`. Who may come in is `access`' business, for
//! this router and for what the server mounts beside it.

mod access;
mod body;
mod bundles;
mod document;
mod error;
mod input;
mod invoke;
mod model;
mod parameters;
mod serve;
mod tools;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::Uri;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::{get, post, put};
use onetool_sdk::ToolCaller;
use onetool_bundles::{BundleSource, HttpEngine};
use onetool_state::bundles::BundleStore;
use tower_http::catch_panic::CatchPanicLayer;

pub use access::{AccessError, AccessPolicy, AccessToken, Scope, protect};
pub use body::from_json;
pub use error::ApiError;
pub use input::{DEFAULT_PAGE, LARGEST_PAGE, ToolPath};
pub use invoke::{Invoker, Mode};
pub use model::{BundleBody, BundlePage, BundleReply, ToolBody, ToolPage, ToolReply};
pub use serve::serve;

/// What the API may cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiSettings {
    /// `server.max_body_bytes`
    pub max_body_bytes: usize,
    /// `server.request_timeout`, for everything but calls of tools.
    pub request_timeout: Duration,
    /// `server.invoke_timeout`
    pub invoke_timeout: Duration,
}

impl Default for ApiSettings {
    fn default() -> Self {
        Self {
            max_body_bytes: 1024 * 1024,
            request_timeout: Duration::from_secs(30),
            invoke_timeout: Duration::from_mins(2),
        }
    }
}

/// What the handlers work with.
#[derive(Clone)]
pub struct ApiState {
    pub store: BundleStore,
    pub source: Arc<BundleSource>,
    pub engine: Arc<HttpEngine>,
    /// The one call path.
    pub tools: Arc<dyn ToolCaller>,
    pub access: Arc<AccessPolicy>,
    pub settings: ApiSettings,
}

/// All routes, guarded.
pub fn router(state: ApiState) -> Router {
    let access = state.access.clone();
    let timeout = state.settings.request_timeout;
    let tool = "/tools/bundles/{bundleID}/tools/{toolSlug}/version/{version}";
    let quick = Router::new()
        .route("/tools/bundles", get(bundles::list))
        .route(
            "/tools/bundles/{bundleID}",
            put(bundles::put).patch(bundles::patch).delete(bundles::delete).get(bundles::get),
        )
        .route(tool, put(tools::put).patch(tools::patch).delete(tools::delete).get(tools::get))
        .route("/tools/tools", get(tools::list))
        .route("/tools", get(tools::list))
        .route("/tools/tools/search", get(tools::search))
        .route("/tools/search", get(tools::search))
        .layer(middleware::from_fn(move |request: Request, next: Next| within(timeout, request, next)));
    let invoke = Router::new().route(&format!("{tool}/invoke"), post(invoke::invoke));
    let pages = Router::new()
        .route("/", get(|| async { Redirect::temporary("/docs") }))
        .route("/openapi.json", get(|| async { document::openapi() }))
        .route("/docs", get(|| async { document::page() }))
        .route("/docs/app.js", get(|| async { document::script() }))
        .route("/docs/style.css", get(|| async { document::style() }));
    let guarded = quick.merge(invoke).route_layer(middleware::from_fn_with_state(access.clone(), access::authorise));
    let all = guarded
        .merge(pages)
        .fallback(|uri: Uri| async move { no_route(&uri) })
        .method_not_allowed_fallback(|uri: Uri| async move { no_method(&uri) })
        .with_state(state)
        .layer(CatchPanicLayer::custom(|_| {
            ApiError::internal("a request failed inside; the server goes on").into_response()
        }));
    access::same_site(all, access)
}

async fn within(limit: Duration, request: Request, next: Next) -> Response {
    match tokio::time::timeout(limit, next.run(request)).await {
        Ok(response) => response,
        Err(_) => ApiError::timeout("the request took too long").into_response(),
    }
}

fn no_route(uri: &Uri) -> ApiError {
    ApiError::not_found(format!("there is nothing at {}", uri.path())).with_hint("see /openapi.json")
}

fn no_method(uri: &Uri) -> ApiError {
    ApiError::method(format!("{} does not take this method", uri.path())).with_hint("see /openapi.json")
}
