//! `onetool stats`: shows calls and savings.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use serde_json::Value as Json;

use super::Location;
use super::ask;
use super::table::{OutputArgs, Page, Tone, print_json, text_of};

const EXAMPLES: &str = "\
Examples:
  onetool stats --period week
  onetool stats --tool file --json
  onetool stats --html report.html";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct StatsArgs {
    /// Period to report
    #[arg(long, value_enum, default_value_t = Period::All)]
    period: Period,

    /// Only this tool (pack.function) or pack
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,

    /// Also write an HTML report to this file, inside the project
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Period {
    Day,
    Week,
    Month,
    All,
}

impl Period {
    fn name(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
            Self::All => "all",
        }
    }
}

pub async fn main(args: StatsArgs, at: Location) -> anyhow::Result<ExitCode> {
    let output = match &args.html {
        Some(file) => {
            let path = std::path::absolute(file).with_context(|| file.display().to_string())?;
            Some(
                path.into_os_string()
                    .into_string()
                    .map_err(|_| anyhow::anyhow!("the file's name is not valid UTF-8"))?,
            )
        }
        None => None,
    };
    let app = super::start(at)?;
    let arguments = [("period", Some(args.period.name().to_owned())), ("tool", args.tool), ("output", output)];
    let answer = ask::ot(&app, "stats", arguments).await;
    app.shutdown().await;
    let report = answer?.to_json();
    // An invalid query is answered with a text.
    if let Json::String(problem) = report {
        anyhow::bail!("{}", problem.trim_start_matches("Error: "));
    }
    if args.output.is_json() {
        print_json(&report)?;
    } else {
        page(&report).print()?;
    }
    Ok(ExitCode::SUCCESS)
}

fn page(report: &Json) -> Page {
    let mut page = Page::new();
    let row = |name: &str, text: String| vec![(Tone::Plain, name.to_owned()), (Tone::Strong, text)];
    let mut rows = vec![row("period", text_of(report, "period").to_owned())];
    if let Some(tool) = report.get("tool").and_then(Json::as_str) {
        rows.push(row("tool", tool.to_owned()));
    }
    if let Some(runs) = report.get("total_runs") {
        rows.push(row("runs", runs.to_string()));
    }
    rows.push(row("calls", format!("{} ({} % succeeded)", report["total_calls"], report["success_rate"])));
    rows.push(row("average", format!("{} ms", report["avg_ms"])));
    rows.push(row("context saved", format!("{} tokens", report["context_saved"])));
    rows.push(row("time saved", format!("{} s", report["time_saved_ms"].as_u64().unwrap_or(0) / 1000)));
    rows.push(row("money saved", format!("{} USD, for {} USD", report["savings_usd"], report["cost_usd"])));
    if let Some(file) = report.get("html_report").and_then(Json::as_str) {
        rows.push(row("page", file.to_owned()));
    }
    page.table(&[], &rows);
    let tools = report["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
    if !tools.is_empty() {
        page.end_line();
        let rows: Vec<_> = tools.iter().map(tool_row).collect();
        page.table(&["TOOL", "CALLS", "OK %", "AVERAGE MS", "LONGEST MS", "ERRORS"], &rows);
    }
    page
}

fn tool_row(tool: &Json) -> Vec<(Tone, String)> {
    let plain = |key: &str| (Tone::Plain, tool[key].to_string());
    let errors: Vec<String> =
        tool["errors"].as_object().into_iter().flatten().map(|(name, count)| format!("{name} {count}")).collect();
    vec![
        (Tone::Strong, text_of(tool, "tool").to_owned()),
        plain("calls"),
        plain("success_rate"),
        plain("avg_ms"),
        plain("max_ms"),
        (Tone::Bad, errors.join(", ")),
    ]
}
