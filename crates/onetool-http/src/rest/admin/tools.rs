//! Every tool of the toolbox: listed, described, searched, switched on and off.

use std::sync::Arc;

use axum::extract::{Path, RawQuery, Request};
use axum::http::StatusCode;
use axum::{Extension, Json};
use onetool_run::activity::{ActivityEvent, ActivityKind, Viewer};
use onetool_run::{Awaited, FoundKind};
use onetool_sdk::{CallContext, Caller, EntryPoint, QualifiedName};
use onetool_state::stats::Period;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::routes;

use super::super::bundles::blocking;
use super::super::model::{EnabledBody, ErrorReply};
use super::super::routes::Routes;
use super::super::{input, query};
use super::AdminState;
use super::activity::viewer;
use super::calls::tool_name;
use super::listing::{self, Listing};
use super::model::{
    ActivityRow, ChartReply, HitRow, LearnedRow, PacksReply, SearchReply, ToolDetailReply, ToolboxReply, UseReply,
};
use super::stats;
use crate::{ApiError, Identity};

/// Maximum number of calls on a tool's page.
const RECENT: usize = 20;
/// Maximum number of search results.
const HITS: usize = 200;
const MAX_QUERY_CHARS: usize = 200;

pub(super) fn routes() -> Routes {
    Routes::default()
        .read(routes!(list))
        .read(routes!(packs))
        .read(routes!(search))
        .read(routes!(get))
        .admin(routes!(switch))
        .admin(routes!(switch_pack))
}

async fn listed(state: &AdminState, identity: &Arc<Identity>) -> Result<Listing, ApiError> {
    state.admin.view.settle(Awaited::Tools, &CallContext::new(Caller::Rest)).await;
    let (state, identity) = (state.clone(), identity.clone());
    blocking(move || listing::read(&state, &identity)).await
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
struct ListQuery {
    /// include disabled packs and tools
    #[serde(default)]
    include_disabled: bool,
}

/// All packs and tools, whatever their kind.
#[utoipa::path(get, path = "/api/tools", tag = "toolbox", params(ListQuery), responses(
    (status = 200, body = ToolboxReply),
    (status = 400, body = ErrorReply),
))]
async fn list(
    state: AdminState,
    Extension(identity): Extension<Arc<Identity>>,
    RawQuery(query): RawQuery,
) -> Result<Json<ToolboxReply>, ApiError> {
    let ListQuery { include_disabled } = query::parse(query.as_deref())?;
    let listing = listed(&state, &identity).await?;
    let (packs, tools) = listing.rows(include_disabled);
    Ok(Json(ToolboxReply { packs, tools }))
}

/// All packs, with those that are switched off.
#[utoipa::path(get, path = "/api/packs", tag = "toolbox", responses(
    (status = 200, body = PacksReply),
))]
async fn packs(state: AdminState, Extension(identity): Extension<Arc<Identity>>) -> Result<Json<PacksReply>, ApiError> {
    let (packs, _) = listed(&state, &identity).await?.rows(true);
    Ok(Json(PacksReply { packs }))
}

/// All details of one tool.
#[utoipa::path(get, path = "/api/tools/{name}", tag = "toolbox", params(
    ("name" = String, Path, description = "pack.function"),
    ), responses(
    (status = 200, body = ToolDetailReply),
    (status = 400, body = ErrorReply),
    (status = 404, body = ErrorReply),
))]
async fn get(
    state: AdminState,
    Path(name): Path<String>,
    Extension(identity): Extension<Arc<Identity>>,
) -> Result<Json<ToolDetailReply>, ApiError> {
    let name = tool_name(&name)?;
    let viewer = viewer(&identity);
    let listing = listed(&state, &identity).await?;
    let entry = listing.take(&name).ok_or_else(|| ApiError::not_found(format!("there is no tool {name}")))?;
    let recent = recent_calls(&state, &name, &viewer, |_| true);
    let failures = recent_calls(&state, &name, &viewer, |event| event.error.is_some());
    let used = UseReply { last_at: recent.first().map(|call| call.at), ..used(&state, &name).await };
    let (pack, tool) = entry;
    let spec = tool.spec;
    let learned = state.admin.view.state().learned.of(&name.to_string(), &spec);
    Ok(Json(ToolDetailReply {
        signature: spec.signature.render(&name.to_string()),
        description: spec.description.clone(),
        input_schema: spec.input_schema.to_json(),
        output_schema: spec.output_schema.clone(),
        returns: spec.returns.clone().or_else(|| spec.signature.returns.clone()),
        learned: learned.map(|seen| LearnedRow { times: seen.times, shape: seen.shape }),
        example: spec.example.clone(),
        origin: pack.origin.clone(),
        versions: tool.versions,
        row: tool.row,
        used,
        recent,
        failures,
    }))
}

fn recent_calls(
    state: &AdminState,
    name: &QualifiedName,
    viewer: &Viewer,
    is_wanted: impl Fn(&ActivityEvent) -> bool,
) -> Vec<ActivityRow> {
    let name = name.to_string();
    let events = state.admin.activity.recent().into_iter().rev();
    let own = events.filter(|event| {
        event.kind == ActivityKind::Call && event.name == name && viewer.sees(event) && is_wanted(event)
    });
    own.take(RECENT).map(ActivityRow::from).collect()
}

async fn used(state: &AdminState, name: &QualifiedName) -> UseReply {
    let (state, name) = (state.clone(), name.to_string());
    let report = blocking(move || stats::report(&state, Period::All, Some(&name))).await;
    // A tool's page is useful even without statistics.
    report.map_or_else(
        |_| UseReply::default(),
        |report| UseReply {
            calls: report.calls.calls,
            errors: report.calls.errors,
            average_ms: report.calls.average_ms(),
            error_types: report.calls.error_types.clone(),
            chart: (report.calls.calls > 0).then(|| ChartReply::from(&report)),
            last_at: None,
        },
    )
}

/// Switches a tool on or off. A bundle's tool has its own flag; for others the switch is kept in the project's folder.
#[utoipa::path(patch, path = "/api/tools/{name}", tag = "toolbox", request_body = EnabledBody, params(
    ("name" = String, Path, description = "pack.function"),
    ), responses(
    (status = 204, description = "switched"),
    (status = 400, body = ErrorReply),
    (status = 404, body = ErrorReply),
    (status = 409, description = "its bundle is disabled", body = ErrorReply),
    (status = 413, body = ErrorReply),
    (status = 415, body = ErrorReply),
))]
async fn switch(state: AdminState, Path(name): Path<String>, request: Request) -> Result<StatusCode, ApiError> {
    let name = tool_name(&name)?;
    let identity = Identity::of(request.extensions());
    let body: EnabledBody = input::json(request, state.served.server.api.max_body_bytes).await?;
    let listing = listed(&state, &identity).await?;
    blocking(move || listing.switch_tool(&state, &name, body.is_enabled)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Switches a pack on or off.
#[utoipa::path(patch, path = "/api/packs/{name}", tag = "toolbox", request_body = EnabledBody, params(
    ("name" = String, Path),
    ), responses(
    (status = 204, description = "switched"),
    (status = 400, body = ErrorReply),
    (status = 404, body = ErrorReply),
    (status = 413, body = ErrorReply),
    (status = 415, body = ErrorReply),
))]
async fn switch_pack(state: AdminState, Path(name): Path<String>, request: Request) -> Result<StatusCode, ApiError> {
    let identity = Identity::of(request.extensions());
    let body: EnabledBody = input::json(request, state.served.server.api.max_body_bytes).await?;
    let listing = listed(&state, &identity).await?;
    blocking(move || listing.switch_pack(&state, &name, body.is_enabled)).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
struct FindQuery {
    #[param(min_length = 1, max_length = 200, required = true)]
    q: Option<String>,
    /// find tools that are switched off too, after the others
    #[serde(default)]
    include_disabled: bool,
}

/// Finds tools, packs, snippets and aliases, in the order of `ot.help`.
#[utoipa::path(get, path = "/api/search", tag = "toolbox", params(FindQuery), responses(
    (status = 200, body = SearchReply),
    (status = 400, body = ErrorReply),
))]
async fn search(
    state: AdminState,
    Extension(identity): Extension<Arc<Identity>>,
    RawQuery(query): RawQuery,
) -> Result<Json<SearchReply>, ApiError> {
    let FindQuery { q, include_disabled } = query::parse(query.as_deref())?;
    let wanted =
        q.filter(|query| !query.trim().is_empty()).ok_or_else(|| ApiError::invalid("q says what to look for"))?;
    if wanted.chars().count() > MAX_QUERY_CHARS {
        return Err(ApiError::invalid(format!("q has at most {MAX_QUERY_CHARS} characters")));
    }
    let hits = blocking(move || {
        let ctx =
            CallContext { requester: identity.requester(EntryPoint::Rest, None), ..CallContext::new(Caller::Rest) };
        let found = state.admin.view.state_for(&ctx).find(&wanted);
        let mut hits: Vec<HitRow> = found
            .into_iter()
            .take(HITS)
            .map(|found| HitRow { kind: kind_name(found.kind).to_owned(), name: found.name, summary: found.summary })
            .collect();
        if include_disabled {
            let words: Vec<String> = wanted.split_whitespace().map(str::to_lowercase).collect();
            let (_, tools) = listing::read(&state, &identity)?.rows(true);
            let is_hit = |text: &str| words.iter().all(|word| text.contains(word.as_str()));
            let off = tools.into_iter().filter(|tool| !tool.is_enabled);
            let off = off.filter(|tool| is_hit(&format!("{} {}", tool.name, tool.summary).to_lowercase()));
            hits.extend(off.map(|tool| HitRow { kind: "tool".to_owned(), name: tool.name, summary: tool.summary }));
            hits.truncate(HITS);
        }
        Ok(hits)
    })
    .await?;
    Ok(Json(SearchReply { hits }))
}

fn kind_name(kind: FoundKind) -> &'static str {
    match kind {
        FoundKind::Tool => "tool",
        FoundKind::Pack => "pack",
        FoundKind::Snippet => "snippet",
        FoundKind::Alias => "alias",
    }
}
