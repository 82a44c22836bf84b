//! The API's OpenAPI description, generated from its types, and a self-contained page to try it.

use axum::body::Bytes;
use axum::http::{HeaderName, header};
use axum::response::IntoResponse;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::{Modify, OpenApi};

use super::model;

#[derive(OpenApi)]
#[openapi(
    info(title = "OneTool", description = "Every tool of the toolbox, bundles of tools, runs and what happens: list, search, change and call."),
    components(schemas(model::ImplementationBody, model::ErrorReply)),
    modifiers(&Bearer),
)]
struct Document;

struct Bearer;

impl Modify for Bearer {
    fn modify(&self, openapi: &mut utoipa::openapi::OpenApi) {
        let components = openapi.components.get_or_insert_with(Default::default);
        components.add_security_scheme("bearer", SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer)));
    }
}

/// Returns the document without the routes.
pub(super) fn base() -> utoipa::openapi::OpenApi {
    Document::openapi()
}

/// Returns the whole document as JSON.
pub(super) fn json(document: &utoipa::openapi::OpenApi) -> Bytes {
    document.to_json().unwrap_or_else(|_| "{}".to_owned()).into()
}

pub(super) fn openapi(document: Bytes) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], document)
}

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

fn asset(kind: &'static str, text: &'static str) -> impl IntoResponse {
    let headers: [(HeaderName, &str); 3] = [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, text)
}

pub(super) fn page() -> impl IntoResponse {
    asset("text/html; charset=utf-8", include_str!("page/index.html"))
}

pub(super) fn script() -> impl IntoResponse {
    asset("text/javascript; charset=utf-8", include_str!("page/app.js"))
}

pub(super) fn style() -> impl IntoResponse {
    asset("text/css; charset=utf-8", include_str!("page/style.css"))
}
