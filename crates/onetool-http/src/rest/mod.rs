//! The REST API: bundles and tools below `/tools`, the whole toolbox below `/api`, its description at `/openapi.json`, a
//! page to try it at `/docs`, and the admin page at `/`.
//!
//! Handlers read the store, change the store, or make a call through the one call path; they hold no rules of their own.
//! Every failure is answered with `{ok: false, error: {code, message, hint}}`.
//!
//! To add a route, write its handler with `#[utoipa::path(…)]` and name it in its file's `routes()`, under the scope
//! that it needs. A new file is one line in [`topics`].

pub mod admin;
mod auth_model;
mod auth_test;
mod body;
mod bundles;
mod document;
mod exchange;
mod input;
mod invoke;
mod invoke_stream;
mod model;
mod page;
mod parameters;
mod preview;
mod query;
mod routes;
mod runs;
mod tools;

use std::sync::Arc;

use axum::Router;
use axum::http::Uri;
use axum::response::IntoResponse as _;
use axum::routing::get;
use onetool_run::Shared;
use onetool_sdk::EntryPoint;
use tower_http::catch_panic::CatchPanicLayer;
use utoipa_axum::router::OpenApiRouter;

pub use auth_test::{AuthTestReply, test_auth};
pub use body::from_json;
pub use exchange::{ImportBody, ImportReply, ImportRequest, archive, run as import};
pub use input::{ToolPath, bundle_id};
pub use invoke::{Invoker, Mode};
pub use model::{BundleBody, BundlePage, BundleReply, ErrorReply, ToolBody, ToolPage, ToolReply};
pub use query::{DEFAULT_PAGE, LARGEST_PAGE};

pub(crate) use model::{CallMeta, ErrorBody};

pub(crate) use admin::{Admin, Here, TeamActivity, room};

use crate::access::same_site;
use crate::background::Background;
use crate::{AccessPolicy, ApiError, Identity, Served, Service};
use routes::{Limits, Routes};

/// All routes, one entry per file.
fn topics() -> Vec<Routes> {
    let mut topics = vec![
        exchange::routes(),
        bundles::routes(),
        tools::routes(),
        invoke::routes(),
        auth_test::routes(),
        preview::routes(),
        runs::routes(),
    ];
    topics.extend(admin::topics());
    topics
}

/// State of the handlers.
#[derive(Clone)]
pub struct RestState {
    pub service: Arc<dyn Service>,
    pub served: Arc<Served>,
    pub access: Arc<AccessPolicy>,
    pub(crate) background: Arc<Background>,
    pub(crate) admin: Option<Arc<Admin>>,
}

impl RestState {
    /// Returns the toolbox as the requester sees it. Blocks if packs must be loaded.
    pub(crate) fn tools(&self, identity: &Identity) -> Arc<Shared> {
        self.service.runner().toolbox().now_for(&identity.requester(EntryPoint::Rest, None))
    }
}

/// Returns all routes with their access checks.
pub fn router(state: RestState) -> Router {
    let access = state.access.clone();
    let limits = Limits { access: access.clone(), request_timeout: state.served.server.api.request_timeout };
    let documented = topics()
        .into_iter()
        .fold(OpenApiRouter::with_openapi(document::base()), |router, topic| topic.mount(router, &limits));
    let (guarded, openapi) = documented.split_for_parts();
    let openapi = document::json(&openapi);
    let pages = Router::new()
        .merge(page::routes())
        .route("/openapi.json", get(move || async move { document::openapi(openapi) }))
        .route("/docs", get(|| async { document::page() }))
        .route("/docs/app.js", get(|| async { document::script() }))
        .route("/docs/style.css", get(|| async { document::style() }));
    let all = guarded
        .merge(pages)
        .fallback(|uri: Uri| async move { no_route(&uri) })
        .method_not_allowed_fallback(|uri: Uri| async move { no_method(&uri) })
        .with_state(state)
        .layer(CatchPanicLayer::custom(|_| {
            ApiError::internal("the request failed inside the server; the server goes on").into_response()
        }));
    same_site(all, access)
}

fn no_route(uri: &Uri) -> ApiError {
    ApiError::not_found(format!("there is nothing at {}", uri.path())).with_hint("see /openapi.json")
}

fn no_method(uri: &Uri) -> ApiError {
    ApiError::method(format!("{} does not take this method", uri.path())).with_hint("see /openapi.json")
}
