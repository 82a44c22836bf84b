//! `ot.stats`: what was called, and what it saved.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use chrono::Utc;
use onetool_sdk::{Tool, ToolError, Value, define_tool};
use onetool_state::atomic;
use onetool_state::stats::{Assumptions, Period, Report, StatsRecorder, render_html};
use schemars::JsonSchema;
use serde::Deserialize;
use tracing::info_span;

use super::span::observed;
use super::{ToolboxHandle, blocking};
use crate::{StatsSettings, ToolboxState};

/// Of what was given, so much is repeated in an error. Longer than any path or name that can be meant.
const SHOWN_CHARS: usize = 300;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// day, week, month or all.
    #[serde(default = "all")]
    period: String,
    /// Only this tool (pack.function) or pack.
    #[serde(default)]
    tool: Option<String>,
    /// A file in the project, ending in .html, for a report to look at.
    #[serde(default)]
    output: Option<String>,
}

fn all() -> String {
    "all".to_owned()
}

pub(super) fn tool(toolbox: &ToolboxHandle, recorder: Arc<StatsRecorder>) -> Tool {
    let toolbox = toolbox.clone();
    define_tool("stats", "Show how tools were used and what that saved.", move |input: Input, _| {
        let (toolbox, recorder) = (toolbox.clone(), recorder.clone());
        observed(info_span!("ot.stats", period = input.period, tool = input.tool), async move {
            let state = toolbox.state()?;
            blocking(move || answer(&state, &recorder, &input)).await
        })
    })
    .with_returns("dict | str", "totals, savings and a line a tool; a text where something is wrong")
    .with_example("ot.stats(period=\"week\", output=\"stats.html\")")
}

/// What is wrong with the question is answered as a text.
fn answer(state: &ToolboxState, recorder: &StatsRecorder, input: &Input) -> Result<Value, ToolError> {
    if !state.stats.enabled {
        return Ok("Error: Statistics are disabled. Set stats.enabled: true in onetool.yaml to collect them.".into());
    }
    let Some(period) = Period::parse(&input.period) else {
        return Ok(Value::Str(format!(
            "Error: Invalid period '{}'. Valid: day, week, month, all. Example: ot.stats(period='day')",
            shown(&input.period)
        )));
    };
    if let Err(error) = recorder.flush() {
        // What is on the disk is still worth showing.
        tracing::warn!(%error, "the latest calls are not counted yet");
    }
    let tool = input.tool.as_deref().filter(|tool| !tool.is_empty());
    if let Some(tool) = tool.filter(|tool| tool.chars().count() > SHOWN_CHARS) {
        return Ok(Value::Str(format!("Error: No tool is named '{}'. Example: ot.stats(tool='ot.help')", shown(tool))));
    }
    let report = Report::read(&state.stats.file, period, tool, assumptions(&state.stats), Utc::now())
        .map_err(|error| ToolError::raised("OSError", format!("the statistics can't be read: {error}")))?;
    let mut value = report.to_value();
    if let Some(output) = input.output.as_deref().filter(|output| !output.is_empty()) {
        match write_report(&state.folder, output, &report) {
            Ok(path) => {
                if let Value::Dict(fields) = &mut value {
                    fields.push(("html_report".into(), Value::Str(path.display().to_string())));
                }
            }
            Err(reason) => return Ok(Value::Str(format!("Error: Cannot write to '{}': {reason}", shown(output)))),
        }
    }
    Ok(value)
}

/// What was given, as far as it is repeated.
fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text.to_owned(),
    }
}

fn assumptions(settings: &StatsSettings) -> Assumptions {
    Assumptions {
        context_per_call: settings.context_per_call,
        time_overhead_per_call_ms: settings.time_overhead_per_call_ms,
        input_cost: settings.input_cost,
        output_cost: settings.output_cost,
        chars_per_token: settings.chars_per_token,
    }
}

/// Writes the page, inside the project only, and only where a page can be meant.
fn write_report(folder: &Path, output: &str, report: &Report) -> Result<PathBuf, String> {
    let path = folder.join(output);
    let is_page = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("html") || ending == "htm");
    if !is_page {
        return Err("the name must end in .html".to_owned());
    }
    let outside = || format!("it lies outside the project folder {}", folder.display());
    if path.components().any(|part| part == Component::ParentDir) {
        return Err(outside());
    }
    let root = folder.canonicalize().map_err(|error| error.to_string())?;
    // The nearest folder that exists decides: a link in the path must not lead out.
    let mut nearest = path.parent().unwrap_or(folder);
    let resolved = loop {
        match nearest.canonicalize() {
            Ok(resolved) => break resolved,
            Err(error) => nearest = nearest.parent().ok_or_else(|| error.to_string())?,
        }
    };
    if !resolved.starts_with(&root) {
        return Err(outside());
    }
    if path.is_dir() {
        return Err("it is a folder".to_owned());
    }
    atomic::write(&path, render_html(report).as_bytes()).map_err(|error| error.to_string())?;
    Ok(path)
}
