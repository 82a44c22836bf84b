//! `onetool tools`: lists tools.

use std::process::ExitCode;

use clap::Args;
use serde_json::Value as Json;

use super::Location;
use super::ask;
use super::table::{OutputArgs, Page, Tone, print_json, text_of};

const EXAMPLES: &str = "\
Examples:
  onetool tools
  onetool tools file --full
  onetool tools --json";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct ToolsArgs {
    /// Only tools whose name contains this
    pattern: Option<String>,

    /// Show signatures, arguments, results and examples
    #[arg(long)]
    full: bool,

    #[command(flatten)]
    output: OutputArgs,
}

pub async fn main(args: ToolsArgs, at: Location) -> anyhow::Result<ExitCode> {
    let app = super::start(at)?;
    let info = if args.full { "full" } else { "min" };
    let answer = ask::ot(&app, "tools", [("pattern", args.pattern), ("info", Some(info.to_owned()))]).await;
    app.shutdown().await;
    let listed = answer?.to_json();
    let tools = listed.as_array().map(Vec::as_slice).unwrap_or_default();
    let mut page = Page::new();
    if args.output.is_json() {
        print_json(&listed)?;
    } else if args.full {
        for (index, tool) in tools.iter().enumerate() {
            if index > 0 {
                page.end_line();
            }
            describe(&mut page, tool);
        }
    } else {
        let rows: Vec<_> = tools
            .iter()
            .map(|tool| {
                vec![
                    (Tone::Strong, text_of(tool, "name").to_owned()),
                    (Tone::Plain, text_of(tool, "description").to_owned()),
                ]
            })
            .collect();
        page.table(&[], &rows);
    }
    page.print()?;
    if tools.is_empty() {
        eprintln!("no tool matches\nhint: `onetool tools` lists all, `onetool help WORDS` searches");
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

fn describe(page: &mut Page, tool: &Json) {
    page.put(Tone::Strong, text_of(tool, "signature")).end_line();
    for line in text_of(tool, "description").lines() {
        page.put(Tone::Plain, &format!("  {line}")).end_line();
    }
    for argument in tool["args"].as_array().into_iter().flatten() {
        page.put(Tone::Plain, &format!("  - {}", argument.as_str().unwrap_or(""))).end_line();
    }
    for (key, label) in [("returns", "returns"), ("example", "example"), ("source", "source")] {
        let text = text_of(tool, key);
        if !text.is_empty() {
            page.put(Tone::Faint, &format!("  {label}: ")).put(Tone::Plain, text).end_line();
        }
    }
}
