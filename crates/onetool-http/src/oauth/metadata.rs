//! Metadata for clients without a token: which issuer to ask (RFC 9728).

use std::sync::Arc;

use axum::extract::Path;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::json;

use super::OAuthSettings;
use crate::ApiError;

const PLACE: &str = "/.well-known/oauth-protected-resource";

/// Returns the address of the metadata for the resource at `path`: between the host and the path of its address.
pub(super) fn address(settings: &OAuthSettings, path: &str) -> String {
    let base = settings.public_url.path().trim_end_matches('/');
    format!("{}{PLACE}{base}{path}", settings.public_url.origin().ascii_serialization())
}

/// Serves both forms: for the whole server, and for `/mcp`.
pub(crate) fn router(settings: OAuthSettings) -> Router {
    let settings = Arc::new(settings);
    let whole = settings.clone();
    Router::new().route(PLACE, get(move || async move { answer(&whole, "") })).route(
        &format!("{PLACE}/{{*path}}"),
        get(move |Path(path): Path<String>| async move {
            let base = settings.public_url.path().trim_matches('/').to_owned();
            // A proxy may keep or remove the path of our address.
            let rest = path.trim_matches('/');
            let rest = rest.strip_prefix(&base).unwrap_or(rest).trim_matches('/');
            match rest {
                "" => answer(&settings, ""),
                "mcp" => answer(&settings, "/mcp"),
                _ => ApiError::not_found("there is no protected resource of this name").into_response(),
            }
        }),
    )
}

fn answer(settings: &OAuthSettings, path: &str) -> Response {
    let document = json!({
        "resource": settings.at(path),
        "authorization_servers": [settings.issuer],
        "scopes_supported": settings.names_of(None),
        "bearer_methods_supported": ["header"],
        "resource_name": "OneTool",
    });
    let mut response = Json(document).into_response();
    // It is public, and pages of other sites need it to find the issuer.
    response.headers_mut().insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("max-age=300"));
    response
}
