//! Shows what a tool under construction would send, before it is stored.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Extension, Path, Request, State};
use onetool_sdk::Arguments;
use serde::Deserialize;
use utoipa::ToSchema;
use utoipa_axum::routes;

use super::RestState;
use super::bundles::blocking;
use super::input::{self, ToolPath};
use super::invoke;
use super::model::{ErrorReply, InvokeReply, ToolBody};
use super::parameters::{BundlePlace, BundleSegment};
use super::routes::Routes;
use crate::{ApiError, Identity};

pub(super) fn routes() -> Routes {
    Routes::default().invoke(routes!(preview))
}

/// A tool that is not stored, and arguments to try it with.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct PreviewBody {
    tool: ToolBody,
    #[serde(default)]
    #[schema(value_type = Object)]
    args: serde_json::Map<String, serde_json::Value>,
}

/// Shows the request that a tool would send, secrets masked. Nothing is stored and nothing is sent.
#[utoipa::path(post, path = "/tools/bundles/{bundleID}/preview", tag = "bundles", request_body = PreviewBody,
    params(BundlePlace), responses(
    (status = 200, body = InvokeReply),
    (status = 400, description = "the tool is not valid, or the arguments do not fit it", body = ErrorReply),
    (status = 404, body = ErrorReply),
    (status = 413, body = ErrorReply),
    (status = 415, body = ErrorReply),
))]
async fn preview(
    State(state): State<RestState>,
    Extension(identity): Extension<Arc<Identity>>,
    Path(id): BundleSegment,
    request: Request,
) -> Result<Json<InvokeReply>, ApiError> {
    let body: PreviewBody = input::json(request, state.served.server.api.max_body_bytes).await?;
    blocking(move || {
        let bundles = &state.served.bundles;
        let bundle = input::seen_bundle(&bundles.store, &state.tools(&identity), &id)?.bundle.id;
        let path = ToolPath { bundle, slug: "preview".parse()?, version: "v1".parse()? };
        let draft = body.tool.draft(&path)?;
        let (bundle, tool) = bundles.store.draft_tool(path.bundle, (&path.slug, &path.version), draft)?;
        let arguments = Arguments::from_json(body.args);
        invoke::show(bundles, &bundle, &tool, &arguments.named).map(Json)
    })
    .await
}
