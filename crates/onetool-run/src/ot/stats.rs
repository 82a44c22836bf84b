//! `ot.stats`: what was called, and what it saved.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use chrono::Utc;
use onetool_sdk::{Arguments, CallContext, QualifiedName, Tool, ToolError, Value, define_tool};
use onetool_state::stats::{Assumptions, Period, Report, StatsRecorder, render_html};
use schemars::JsonSchema;
use serde::Deserialize;
use tracing::info_span;

use super::span::observed;
use super::{ToolboxHandle, blocking};
use crate::{StatsSettings, ToolboxState};

/// The title of a report is within this many bytes.
const HEAD_BYTES: u64 = 2048;
/// Maximum characters of an input that an error repeats; longer than any valid path or name.
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
    define_tool("stats", "Show how tools were used and what that saved.", move |input: Input, ctx| {
        let (toolbox, recorder) = (toolbox.clone(), recorder.clone());
        observed(info_span!("ot.stats", period = input.period, tool = input.tool), async move {
            let state = toolbox.state(&ctx.call)?;
            let output = input.output.clone().filter(|output| !output.is_empty());
            let folder = state.folder.clone();
            let (mut value, page) = blocking(move || answer(&state, &recorder, &input)).await?;
            let (Some(output), Some(page)) = (output, page) else { return Ok(value) };
            match write_report(&folder, &output, page, &ctx.call).await {
                Ok(path) => {
                    if let Value::Dict(fields) = &mut value {
                        fields.push(("html_report".into(), Value::Str(path.display().to_string())));
                    }
                    Ok(value)
                }
                Err(reason) => Ok(Value::Str(format!("Error: Cannot write to '{}': {reason}", shown(&output)))),
            }
        })
    })
    .with_returns("dict | str", "totals, savings and a line per tool; a text where something is wrong")
    .with_example("ot.stats(period=\"week\", output=\"stats.html\")")
}

/// The statistics, and the page if one is requested. Invalid input is answered with a text.
fn answer(state: &ToolboxState, recorder: &StatsRecorder, input: &Input) -> Result<(Value, Option<String>), ToolError> {
    let told = |text: String| Ok((Value::Str(text), None));
    if !state.stats.enabled {
        return told("Error: Statistics are disabled. Set stats.enabled: true in onetool.yaml to collect them.".into());
    }
    let Some(period) = Period::parse(&input.period) else {
        return told(format!(
            "Error: Invalid period '{}'. Valid: day, week, month, all. Example: ot.stats(period='day')",
            shown(&input.period)
        ));
    };
    if let Err(error) = recorder.flush() {
        // What is on disk is still worth showing.
        tracing::warn!(%error, "the latest calls are not counted yet");
    }
    let tool = input.tool.as_deref().filter(|tool| !tool.is_empty());
    if let Some(tool) = tool.filter(|tool| tool.chars().count() > SHOWN_CHARS) {
        return told(format!("Error: No tool is named '{}'. Example: ot.stats(tool='ot.help')", shown(tool)));
    }
    let report = Report::read(recorder.trail(), period, tool, assumptions(&state.stats), Utc::now())
        .map_err(|error| ToolError::raised("OSError", format!("the statistics can't be read: {error}")))?;
    let page = input.output.as_deref().is_some_and(|output| !output.is_empty()).then(|| render_html(&report));
    Ok((report.to_value(), page))
}

/// Shortens an input for an error message.
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

/// Writes the page with `file.write`, so that its roots, protection and policy apply. Replaces only an earlier report.
async fn write_report(folder: &Path, output: &str, page: String, ctx: &CallContext) -> Result<PathBuf, String> {
    let path = folder.join(output);
    let is_page = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("html") || ending == "htm");
    if !is_page {
        return Err("the name must end in .html".to_owned());
    }
    if path.components().any(|part| part == Component::ParentDir) || !path.starts_with(folder) {
        return Err(format!("it lies outside the project folder {}", folder.display()));
    }
    if path.is_dir() {
        return Err("it is a folder".to_owned());
    }
    let is_report = path.exists() && is_report(&path);
    if path.exists() && !is_report {
        return Err("it exists and is not a report; choose another name".to_owned());
    }
    let tools = ctx.tools.clone().ok_or_else(|| "there is no way to other tools here".to_owned())?;
    let mut arguments = vec![("path", Value::Str(path.display().to_string())), ("content", Value::Str(page))];
    if !is_report {
        arguments.push(("expected_hash", "missing".into()));
    }
    let written =
        tools.call_tool(&QualifiedName::new("file", "write"), Arguments::named(arguments), &ctx.nested()).await;
    written.map(|_| path).map_err(|error| error.message)
}

/// Whether a file is one of our reports, by its beginning.
fn is_report(path: &Path) -> bool {
    use std::io::Read as _;
    let mut head = Vec::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(HEAD_BYTES).read_to_end(&mut head));
    read.is_ok() && String::from_utf8_lossy(&head).contains("<title>OneTool statistics</title>")
}
