//! Bundles: list, read, write, switch, delete.

use std::sync::Arc;

use axum::extract::{Path, RawQuery, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use headers::HeaderMapExt as _;
use onetool_state::bundles::{BundleId, BundleStore, BundleView, Precondition, Written};
use utoipa_axum::routes;

use super::RestState;
use super::input;
use super::model::{BundleBody, BundlePage, BundleReply, EnabledBody, ErrorReply};
use super::parameters::{BundleListQuery, BundlePlace, BundleSegment, disabled};
use super::query;
use super::routes::Routes;
use crate::{ApiError, Identity};

pub(super) fn routes() -> Routes {
    Routes::default().read(routes!(list)).admin(routes!(post)).read(routes!(get)).admin(routes!(put, patch, delete))
}

/// Lists bundles, the newest first.
#[utoipa::path(get, path = "/tools/bundles", tag = "bundles", params(BundleListQuery), responses(
    (status = 200, body = BundlePage),
    (status = 400, description = "a parameter or the page token is not valid", body = ErrorReply),
))]
async fn list(
    State(state): State<RestState>,
    Extension(identity): Extension<Arc<Identity>>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Json<BundlePage>, ApiError> {
    let wanted: BundleListQuery = query::parse(query.as_deref())?;
    let languages = input::languages(&headers, &state.served.bundles.source);
    blocking(move || {
        let store = &state.served.bundles.store;
        let only = wanted.bundle_ids.iter().map(|name| input::bundle_id(store, name)).collect::<Result<Vec<_>, _>>()?;
        let disabled = disabled(wanted.include_disabled);
        let mut page = store.bundles(&only, disabled, wanted.page_size.0, wanted.page_token.as_deref())?;
        let tools = state.tools(&identity);
        page.items.retain(|view| tools.sees_pack(&view.bundle.slug.identifier()));
        let page: BundlePage = page.into();
        Ok(Json(page.in_languages(&languages)))
    })
    .await
}

/// Reads a bundle.
#[utoipa::path(get, path = "/tools/bundles/{bundleID}", tag = "bundles",
    params(BundlePlace), responses(
    (status = 200, body = BundleReply),
    (status = 304, description = "If-None-Match names the present state"),
    (status = 400, body = ErrorReply),
    (status = 404, body = ErrorReply),
))]
async fn get(
    State(state): State<RestState>,
    Extension(identity): Extension<Arc<Identity>>,
    Path(id): BundleSegment,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let languages = input::languages(&headers, &state.served.bundles.source);
    let view = blocking(move || {
        let store = &state.served.bundles.store;
        input::seen_bundle(store, &state.tools(&identity), &id)
    })
    .await?;
    if input::is_known(&headers, &view.etag)? {
        return Ok(not_modified(&view.etag));
    }
    let body = BundleReply::from(&view).in_languages(&languages);
    Ok(tagged((StatusCode::OK, Json(body)).into_response(), &view.etag))
}

/// Creates a bundle; the server makes its id.
#[utoipa::path(post, path = "/tools/bundles", tag = "bundles", request_body = BundleBody, responses(
    (status = 201, body = BundleReply),
    (status = 400, body = ErrorReply),
    (status = 409, description = "the slug is taken", body = ErrorReply),
    (status = 413, description = "too large, or too many", body = ErrorReply),
    (status = 415, body = ErrorReply),
))]
async fn post(State(state): State<RestState>, request: Request) -> Result<Response, ApiError> {
    let body: BundleBody = input::json(request, state.served.server.api.max_body_bytes).await?;
    let draft = body.draft()?;
    let id = BundleId::generate();
    let (view, _) =
        blocking(move || Ok(state.served.bundles.store.put_bundle(id, draft, &Precondition::Absent)?)).await?;
    let mut response = reply(StatusCode::CREATED, &view);
    if let Ok(location) = HeaderValue::from_str(&format!("/tools/bundles/{id}")) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

/// Creates or replaces a bundle; a deleted one is restored. A slug refers to the bundle that has it.
#[utoipa::path(put, path = "/tools/bundles/{bundleID}", tag = "bundles", request_body = BundleBody,
    params(BundlePlace), responses(
    (status = 200, description = "replaced", body = BundleReply),
    (status = 201, description = "created", body = BundleReply),
    (status = 400, body = ErrorReply),
    (status = 403, description = "built in", body = ErrorReply),
    (status = 409, description = "the slug is taken", body = ErrorReply),
    (status = 412, description = "If-Match or If-None-Match does not hold", body = ErrorReply),
    (status = 413, description = "too large, or too many", body = ErrorReply),
    (status = 415, body = ErrorReply),
))]
async fn put(State(state): State<RestState>, Path(id): BundleSegment, request: Request) -> Result<Response, ApiError> {
    let condition = input::condition(request.headers())?;
    let body: BundleBody = input::json(request, state.served.server.api.max_body_bytes).await?;
    let draft = body.draft()?;
    let (view, written) = blocking(move || {
        let store = &state.served.bundles.store;
        // A slug refers to an existing bundle; a new one needs an id.
        let id = match store.find_bundle(&id)? {
            Some(id) => id,
            None => id.parse()?,
        };
        Ok(store.put_bundle(id, draft, &condition.of(|| tag(store, id)))?)
    })
    .await?;
    let status = match written {
        Written::Created => StatusCode::CREATED,
        Written::Replaced => StatusCode::OK,
    };
    Ok(reply(status, &view))
}

/// Switches a bundle on or off.
#[utoipa::path(patch, path = "/tools/bundles/{bundleID}", tag = "bundles", request_body = EnabledBody,
    params(BundlePlace), responses(
    (status = 200, body = BundleReply),
    (status = 400, body = ErrorReply),
    (status = 404, body = ErrorReply),
    (status = 412, body = ErrorReply),
    (status = 413, body = ErrorReply),
    (status = 415, body = ErrorReply),
))]
async fn patch(
    State(state): State<RestState>,
    Path(id): BundleSegment,
    request: Request,
) -> Result<Response, ApiError> {
    let condition = input::condition(request.headers())?;
    let body: EnabledBody = input::json(request, state.served.server.api.max_body_bytes).await?;
    let view = blocking(move || {
        let store = &state.served.bundles.store;
        let id = input::bundle_id(store, &id)?;
        Ok(store.set_bundle_enabled(id, body.is_enabled.into(), &condition.of(|| tag(store, id)))?)
    })
    .await?;
    Ok(reply(StatusCode::OK, &view))
}

/// Deletes an empty bundle; it is removed permanently after two days.
#[utoipa::path(delete, path = "/tools/bundles/{bundleID}", tag = "bundles",
    params(BundlePlace), responses(
    (status = 204, description = "deleted"),
    (status = 400, body = ErrorReply),
    (status = 403, description = "built in", body = ErrorReply),
    (status = 404, body = ErrorReply),
    (status = 409, description = "it still has tools", body = ErrorReply),
    (status = 412, body = ErrorReply),
))]
async fn delete(
    State(state): State<RestState>,
    Path(id): BundleSegment,
    headers: HeaderMap,
) -> Result<StatusCode, ApiError> {
    let condition = input::condition(&headers)?;
    blocking(move || {
        let store = &state.served.bundles.store;
        let id = input::bundle_id(store, &id)?;
        Ok(store.delete_bundle(id, &condition.of(|| tag(store, id)))?)
    })
    .await?;
    Ok(StatusCode::NO_CONTENT)
}

fn tag(store: &BundleStore, id: BundleId) -> Option<String> {
    store.bundle(id).ok().map(|view| view.etag)
}

fn reply(status: StatusCode, view: &BundleView) -> Response {
    tagged((status, Json(BundleReply::from(view))).into_response(), &view.etag)
}

/// Adds the entity tag of a response's content.
pub(super) fn tagged(mut response: Response, etag: &str) -> Response {
    if let Some(etag) = input::entity_tag(etag) {
        response.headers_mut().typed_insert(etag);
    }
    response
}

pub(super) fn not_modified(etag: &str) -> Response {
    tagged(StatusCode::NOT_MODIFIED.into_response(), etag)
}

/// Runs file operations on a blocking thread.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    crate::task::blocking(work).await.map_err(|_| ApiError::internal("a request failed inside"))?
}
