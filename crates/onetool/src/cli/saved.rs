//! `onetool saved`: the code that runs saved with `ot.save`.

use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Subcommand};
use onetool_run::SavedEntry;
use serde_json::json;

use super::table::{OutputArgs, Page, Tone, print_json};
use super::{Location, table};
use crate::assemble::App;

const EXAMPLES: &str = "\
Examples:
  onetool saved list
  onetool saved show open_issues
  onetool saved remove open_issues
  onetool run '$open_issues repo=acme/shop'";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct SavedArgs {
    #[command(subcommand)]
    command: SavedCommand,
}

#[derive(Subcommand)]
enum SavedCommand {
    /// List what is saved
    #[command(after_help = "Examples:\n  onetool saved list\n  onetool saved list --json")]
    List(OutputArgs),
    /// Print the code of one
    #[command(after_help = "Examples:\n  onetool saved show open_issues")]
    Show {
        /// Its name
        name: String,
    },
    /// Remove one
    #[command(after_help = "Examples:\n  onetool saved remove open_issues")]
    Remove {
        /// Its name
        name: String,
    },
}

pub async fn main(args: SavedArgs, at: Location) -> anyhow::Result<ExitCode> {
    let app = super::start(at)?;
    let answer = answer(&app, args.command);
    app.shutdown().await;
    answer
}

fn answer(app: &App, command: SavedCommand) -> anyhow::Result<ExitCode> {
    let saved = app.saved();
    let entries = saved.all();
    let unknown = |name: &str| {
        eprintln!("error: nothing is saved as '{name}'\nhint: `onetool saved list` shows what is");
        Ok(ExitCode::FAILURE)
    };
    match command {
        SavedCommand::List(output) if output.is_json() => {
            let all: Vec<&Arc<SavedEntry>> = entries.values().collect();
            print_json(&json!(all))?;
        }
        SavedCommand::List(_) => {
            let rows: Vec<_> = entries
                .values()
                .map(|entry| vec![(Tone::Strong, format!("${}", entry.name)), (Tone::Plain, entry.description.clone())])
                .collect();
            let mut page = Page::new();
            page.table(&[], &rows);
            page.print()?;
            if rows.is_empty() {
                eprintln!("nothing is saved; ot.save(name, description) in a run keeps its code");
            }
        }
        SavedCommand::Show { name } => {
            let Some(entry) = entries.get(&name) else { return unknown(&name) };
            let mut text = format!("# {}\n", entry.description.replace('\n', "\n# "));
            for (parameter, default) in &entry.parameters {
                text.push_str(&format!("{parameter} = {}\n", onetool_sdk::Value::from_json(default.clone()).repr()));
            }
            text.push_str(&entry.code);
            text.push('\n');
            table::print(&text)?;
        }
        SavedCommand::Remove { name } => {
            if !saved.remove(&name).map_err(|error| anyhow::anyhow!(error.text()))? {
                return unknown(&name);
            }
            eprintln!("removed {name}");
        }
    }
    Ok(ExitCode::SUCCESS)
}
