//! Tools of bundles: list, search, read, write, switch, delete.

use std::sync::Arc;

use axum::extract::{Path, RawQuery, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};
use onetool_run::Shared;
use onetool_sdk::QualifiedName;
use onetool_state::bundles::{BundleStore, ToolFilter, ToolView};
use utoipa_axum::routes;

use super::RestState;
use super::bundles::{blocking, not_modified, tagged};
use super::input::{self, ToolPath};
use super::model::{EnabledBody, ErrorReply, ToolBody, ToolPage, ToolReply};
use super::parameters::{BundlePlace, SearchQuery, ToolListQuery, ToolPlace, ToolSegments, disabled};
use super::query;
use super::routes::Routes;
use crate::{ApiError, Identity, Scope};

pub(super) fn routes() -> Routes {
    Routes::default()
        .read(routes!(get))
        .admin(routes!(put, patch, delete))
        .read(routes!(list))
        .read(routes!(search))
        .alias("/tools", Scope::Read, axum::routing::get(list))
        .alias("/tools/search", Scope::Read, axum::routing::get(search))
}

/// Stores a new tool. The slug and version must be free.
#[utoipa::path(put, path = "/tools/bundles/{bundleID}/tools/{toolSlug}/version/{version}", tag = "tools",
    request_body = ToolBody, params(BundlePlace, ToolPlace), responses(
    (status = 201, body = ToolReply),
    (status = 400, body = ErrorReply),
    (status = 403, description = "built in", body = ErrorReply),
    (status = 404, body = ErrorReply),
    (status = 409, description = "it exists already, or the bundle is disabled", body = ErrorReply),
    (status = 412, body = ErrorReply),
    (status = 413, body = ErrorReply),
    (status = 415, body = ErrorReply),
))]
async fn put(
    State(state): State<RestState>,
    Path(names): ToolSegments,
    request: Request,
) -> Result<Response, ApiError> {
    let location = request.uri().path().to_owned();
    let condition = input::condition(request.headers())?;
    let body: ToolBody = input::json(request, state.served.server.api.max_body_bytes).await?;
    let view = blocking(move || {
        let store = &state.served.bundles.store;
        let path = ToolPath::find(store, names)?;
        let draft = body.draft(&path)?;
        let condition = condition.of(|| tag(store, &path));
        Ok(store.put_tool(path.bundle, (&path.slug, &path.version), draft, &condition)?)
    })
    .await?;
    let mut response = reply(StatusCode::CREATED, view);
    if let Ok(location) = HeaderValue::from_str(&location) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

/// Reads a tool.
#[utoipa::path(get, path = "/tools/bundles/{bundleID}/tools/{toolSlug}/version/{version}", tag = "tools", params(BundlePlace, ToolPlace), responses(
    (status = 200, body = ToolReply),
    (status = 304, description = "If-None-Match names the present state"),
    (status = 400, body = ErrorReply),
    (status = 404, body = ErrorReply),
))]
async fn get(
    State(state): State<RestState>,
    Extension(identity): Extension<Arc<Identity>>,
    Path(names): ToolSegments,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let languages = input::languages(&headers, &state.served.bundles.source);
    let view = blocking(move || {
        let store = &state.served.bundles.store;
        let path = ToolPath::find(store, names)?;
        let view = store.tool(path.bundle, &path.slug, &path.version)?;
        if !is_seen(&state.tools(&identity), store, &view) {
            return Err(ApiError::not_found(format!("there is no tool {} {}", path.slug, path.version)));
        }
        Ok(view)
    })
    .await?;
    if input::is_known(&headers, &view.etag)? {
        return Ok(not_modified(&view.etag));
    }
    let etag = view.etag.clone();
    let body = ToolReply::from(view).in_languages(&languages);
    Ok(tagged((StatusCode::OK, Json(body)).into_response(), &etag))
}

/// Switches a tool on or off.
#[utoipa::path(patch, path = "/tools/bundles/{bundleID}/tools/{toolSlug}/version/{version}", tag = "tools",
    request_body = EnabledBody, params(BundlePlace, ToolPlace), responses(
    (status = 200, body = ToolReply),
    (status = 400, body = ErrorReply),
    (status = 404, body = ErrorReply),
    (status = 409, description = "its bundle is disabled", body = ErrorReply),
    (status = 412, body = ErrorReply),
    (status = 413, body = ErrorReply),
    (status = 415, body = ErrorReply),
))]
async fn patch(
    State(state): State<RestState>,
    Path(names): ToolSegments,
    request: Request,
) -> Result<Response, ApiError> {
    let condition = input::condition(request.headers())?;
    let body: EnabledBody = input::json(request, state.served.server.api.max_body_bytes).await?;
    let view = blocking(move || {
        let store = &state.served.bundles.store;
        let path = ToolPath::find(store, names)?;
        let condition = condition.of(|| tag(store, &path));
        Ok(store.set_tool_enabled(path.bundle, (&path.slug, &path.version), body.is_enabled.into(), &condition)?)
    })
    .await?;
    Ok(reply(StatusCode::OK, view))
}

/// Deletes a tool for good.
#[utoipa::path(delete, path = "/tools/bundles/{bundleID}/tools/{toolSlug}/version/{version}", tag = "tools", params(BundlePlace, ToolPlace), responses(
    (status = 204, description = "deleted"),
    (status = 400, body = ErrorReply),
    (status = 403, description = "built in", body = ErrorReply),
    (status = 404, body = ErrorReply),
    (status = 409, description = "its bundle is disabled", body = ErrorReply),
    (status = 412, body = ErrorReply),
))]
async fn delete(
    State(state): State<RestState>,
    Path(names): ToolSegments,
    headers: HeaderMap,
) -> Result<StatusCode, ApiError> {
    let condition = input::condition(&headers)?;
    blocking(move || {
        let store = &state.served.bundles.store;
        let path = ToolPath::find(store, names)?;
        let condition = condition.of(|| tag(store, &path));
        Ok(store.delete_tool(path.bundle, (&path.slug, &path.version), &condition)?)
    })
    .await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Lists tools, the newest first. `/tools` answers the same.
#[utoipa::path(get, path = "/tools/tools", tag = "tools", params(ToolListQuery), responses(
    (status = 200, body = ToolPage),
    (status = 400, description = "a parameter or the page token is not valid", body = ErrorReply),
))]
async fn list(
    State(state): State<RestState>,
    Extension(identity): Extension<Arc<Identity>>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Json<ToolPage>, ApiError> {
    let wanted: ToolListQuery = query::parse(query.as_deref())?;
    let languages = input::languages(&headers, &state.served.bundles.source);
    blocking(move || {
        let store = &state.served.bundles.store;
        let ids = wanted.bundle_ids.iter().map(|name| input::bundle_id(store, name));
        let bundles = ids.collect::<Result<Vec<_>, _>>()?;
        let filter = ToolFilter { bundles, tags: wanted.tags, disabled: disabled(wanted.include_disabled) };
        let mut page = store.tools(&filter, wanted.recommended_page_size.0, wanted.page_token.as_deref())?;
        let tools = state.tools(&identity);
        page.items.retain(|view| is_seen(&tools, store, view));
        let page: ToolPage = page.into();
        Ok(Json(page.in_languages(&languages)))
    })
    .await
}

/// Searches tools: name prefixes first, then whole words, then similar words, then the most recent. `/tools/search`
/// answers the same.
#[utoipa::path(get, path = "/tools/tools/search", tag = "tools", params(SearchQuery), responses(
    (status = 200, body = ToolPage),
    (status = 400, description = "a parameter or the page token is not valid", body = ErrorReply),
))]
async fn search(
    State(state): State<RestState>,
    Extension(identity): Extension<Arc<Identity>>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Json<ToolPage>, ApiError> {
    let wanted: SearchQuery = query::parse(query.as_deref())?;
    let languages = input::languages(&headers, &state.served.bundles.source);
    blocking(move || {
        let store = &state.served.bundles.store;
        let disabled = disabled(wanted.include_disabled);
        let mut page = store.search(&wanted.q, disabled, wanted.page_size.0, wanted.page_token.as_deref())?;
        let tools = state.tools(&identity);
        page.items.retain(|view| is_seen(&tools, store, view));
        let page: ToolPage = page.into();
        Ok(Json(page.in_languages(&languages)))
    })
    .await
}

/// Whether this toolbox may see a tool.
pub(super) fn is_seen(tools: &Shared, store: &BundleStore, view: &ToolView) -> bool {
    if !tools.is_narrowed() {
        return true;
    }
    let bundle = store.bundle(view.tool.bundle_id);
    bundle.is_ok_and(|bundle| {
        tools.sees(&QualifiedName::new(bundle.bundle.slug.identifier(), view.tool.slug.identifier()))
    })
}

fn tag(store: &BundleStore, path: &ToolPath) -> Option<String> {
    store.tool(path.bundle, &path.slug, &path.version).ok().map(|view| view.etag)
}

fn reply(status: StatusCode, view: ToolView) -> Response {
    let etag = view.etag.clone();
    tagged((status, Json(ToolReply::from(view))).into_response(), &etag)
}
