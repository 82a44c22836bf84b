//! Statistics of calls over time, and their savings.

use axum::Json;
use axum::extract::RawQuery;
use chrono::Utc;
use onetool_state::StateError;
use onetool_state::stats::{Assumptions, Period, Report};
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::routes;

use super::super::bundles::blocking;
use super::super::model::ErrorReply;
use super::super::query;
use super::super::routes::Routes;
use super::AdminState;
use super::model::{ChartReply, StatsReply, ToolStatsRow};
use crate::ApiError;

/// Maximum number of tools listed.
const TOOLS: usize = 100;

pub(super) fn routes() -> Routes {
    Routes::default().read(routes!(get))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
struct StatsQuery {
    /// day, week, month or all [month]
    period: Option<String>,
    /// pack.function, or a pack for all of its tools
    tool: Option<String>,
}

/// Calls, failures and savings of a period, as a chart and as totals.
#[utoipa::path(get, path = "/api/stats", tag = "activity", params(StatsQuery), responses(
    (status = 200, body = StatsReply),
    (status = 400, body = ErrorReply),
    (status = 503, description = "the shared state is unavailable", body = ErrorReply),
))]
async fn get(state: AdminState, RawQuery(query): RawQuery) -> Result<Json<StatsReply>, ApiError> {
    let StatsQuery { period, tool } = query::parse(query.as_deref())?;
    let period = match period {
        None => Period::Month,
        Some(text) => Period::parse(&text).ok_or_else(|| ApiError::invalid("period is day, week, month or all"))?,
    };
    let tool = tool.filter(|tool| !tool.is_empty());
    blocking(move || {
        let report = report(&state, period, tool.as_deref())?;
        let is_enabled = state.admin.view.state().stats.enabled;
        Ok(Json(reply(&report, is_enabled)))
    })
    .await
}

/// Reads the statistics. Blocks.
pub(super) fn report(state: &AdminState, period: Period, tool: Option<&str>) -> Result<Report, ApiError> {
    state.admin.operations.flush_statistics();
    let toolbox = state.admin.view.state();
    let settings = &toolbox.stats;
    let trail = toolbox.trail.as_deref().filter(|_| settings.enabled);
    let assumptions = Assumptions {
        context_per_call: settings.context_per_call,
        time_overhead_per_call_ms: settings.time_overhead_per_call_ms,
        input_cost: settings.input_cost,
        output_cost: settings.output_cost,
        chars_per_token: settings.chars_per_token,
    };
    Report::read(trail, period, tool, assumptions, Utc::now()).map_err(|error| match error {
        StateError::Unavailable { .. } => ApiError::busy(error.to_string()),
        error => {
            tracing::warn!(%error, "the statistics could not be read");
            ApiError::internal("the statistics could not be read")
        }
    })
}

fn reply(report: &Report, is_enabled: bool) -> StatsReply {
    let tools = report.tools.iter().take(TOOLS).map(|tool| ToolStatsRow {
        tool: tool.tool.clone(),
        calls: tool.totals.calls,
        errors: tool.totals.errors,
        average_ms: tool.totals.average_ms(),
        max_ms: tool.totals.max_ms,
    });
    StatsReply {
        period: report.period.name().to_owned(),
        is_enabled,
        runs: report.runs.calls,
        calls: report.calls.calls,
        errors: report.calls.errors,
        average_ms: report.calls.average_ms(),
        context_saved: report.context_saved(),
        time_saved_ms: report.time_saved_ms(),
        savings_usd: report.savings_usd(),
        cost_usd: report.cost_usd(),
        computed: report.computed().map(|(key, text)| (key.to_owned(), text)).into(),
        chart: ChartReply::from(report),
        tools: tools.collect(),
    }
}
