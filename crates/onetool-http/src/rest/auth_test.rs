//! Tests the authentication of a bundle or a tool: configuration, token, request.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Extension, Path, RawQuery, State};
use onetool_state::bundles::{BundleId, Slug};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::routes;

use super::RestState;
use super::bundles::blocking;
use super::input;
use super::model::ErrorReply;
use super::parameters::{BundlePlace, BundleSegment};
use super::query;
use super::routes::Routes;
use crate::{ApiError, Bundles, Identity};

pub(super) fn routes() -> Routes {
    Routes::default().invoke(routes!(test))
}

/// Results of an authentication test, step by step.
#[derive(Debug, Serialize, ToSchema)]
pub struct AuthTestReply {
    pub ok: bool,
    /// Configuration, token and request.
    pub steps: Vec<AuthStepReply>,
}

/// One step of an authentication test.
#[derive(Debug, Serialize, ToSchema)]
pub struct AuthStepReply {
    /// configuration, token or request
    pub step: String,
    /// ok, failed or skipped
    pub state: String,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
struct AuthTestQuery {
    /// the slug of a tool with auth of its own
    tool: Option<String>,
}

/// Tries the authentication of a bundle, or with `tool` that of one of its tools. A failed step is part of the answer.
#[utoipa::path(post, path = "/tools/bundles/{bundleID}/auth/test", tag = "bundles", params(BundlePlace, AuthTestQuery), responses(
    (status = 200, body = AuthTestReply),
    (status = 400, body = ErrorReply),
    (status = 404, body = ErrorReply),
))]
async fn test(
    State(state): State<RestState>,
    Extension(identity): Extension<Arc<Identity>>,
    Path(id): BundleSegment,
    RawQuery(query): RawQuery,
) -> Result<Json<AuthTestReply>, ApiError> {
    let AuthTestQuery { tool } = query::parse(query.as_deref())?;
    let tool = tool.map(|slug| slug.parse::<Slug>()).transpose()?;
    let (store, seen) = (state.served.bundles.store.clone(), state.tools(&identity));
    let id = blocking(move || {
        let bundle = input::seen_bundle(&store, &seen, &id)?.bundle;
        match bundle.secrets.iter().find(|secret| !seen.may_use_secret(secret)) {
            Some(secret) => {
                let text = format!("the secret {secret}, which the bundle uses, is not available to you");
                Err(ApiError::not_found(text))
            }
            None => Ok(bundle.id),
        }
    })
    .await?;
    test_auth(&state.served.bundles, id, tool).await.map(Json)
}

/// Tests the newest version of the tool, for the REST API and all other callers.
pub async fn test_auth(bundles: &Bundles, id: BundleId, tool: Option<Slug>) -> Result<AuthTestReply, ApiError> {
    let store = bundles.store.clone();
    let (bundle, tool) = blocking(move || {
        let bundle = store.bundle(id)?;
        let tool = match tool {
            Some(slug) => {
                let found = store.tools_of(id)?.into_iter().find(|view| view.tool.slug == slug);
                let missing = || ApiError::not_found(format!("bundle {} has no tool '{slug}'", bundle.bundle.slug));
                Some(found.ok_or_else(missing)?.tool)
            }
            None => None,
        };
        Ok((bundle.bundle, tool))
    })
    .await?;
    let report = bundles.engine.test_auth(&bundle, tool.as_ref()).await;
    let ok = report.is_ok();
    let row = |step: onetool_bundles::AuthStep| AuthStepReply {
        step: step.name.to_owned(),
        state: step.state.as_str().to_owned(),
        message: step.message,
        hint: step.hint,
    };
    Ok(AuthTestReply { ok, steps: report.steps.into_iter().map(row).collect() })
}
