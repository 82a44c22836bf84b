//! `onetool health`: the report of `ot.health()`, for people and for scripts.

use std::process::ExitCode;

use clap::Args;
use serde_json::Value as Json;

use super::Location;
use super::ask;
use super::table::{OutputArgs, Page, Tone, print_json, text_of};
use crate::assemble::App;

const EXAMPLES: &str = "\
Examples:
  onetool health
  onetool health --json";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct HealthArgs {
    #[command(flatten)]
    output: OutputArgs,
}

/// Fails if there is a problem, for use in scripts.
pub async fn main(args: HealthArgs, at: Location) -> anyhow::Result<ExitCode> {
    let app = App::start_once(at.places()?)?;
    let answer = ask::ot(&app, "health", []).await;
    app.shutdown().await;
    let report = answer?.to_json();
    if args.output.is_json() {
        print_json(&report)?;
    } else {
        page(&report).print()?;
    }
    Ok(if report.get("problems").is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn page(report: &Json) -> Page {
    let mut page = Page::new();
    let state = |value: &Json| {
        let status = text_of(value, "status").to_owned();
        (Tone::of_state(&status), status)
    };
    let plain = |text: &str| (Tone::Plain, text.to_owned());
    let (tone, status) = state(&report["registry"]);
    let mut rows = vec![
        vec![plain("version"), plain(text_of(report, "version"))],
        vec![plain("python"), plain(text_of(report, "python"))],
        vec![plain("folder"), plain(text_of(report, "cwd"))],
        vec![plain("tools"), (tone, format!("{status}, {} tools", report["registry"]["tool_count"]))],
    ];
    let servers = report["proxy"]["servers"].as_object();
    if let Some(servers) = servers.filter(|servers| !servers.is_empty()) {
        let (tone, status) = state(&report["proxy"]);
        rows.push(vec![plain("servers"), (tone, status)]);
        for (name, state) in servers {
            let state = state.as_str().unwrap_or("");
            rows.push(vec![plain(&format!("  {name}")), (Tone::of_state(state), state.to_owned())]);
        }
    }
    page.table(&[], &rows);
    for (key, tone) in [("problems", Tone::Bad), ("notes", Tone::Faint)] {
        for line in report.get(key).and_then(Json::as_array).into_iter().flatten() {
            page.put(tone, key.trim_end_matches('s')).put(Tone::Plain, ": ");
            page.put(Tone::Plain, line.as_str().unwrap_or("")).end_line();
        }
    }
    page
}
