//! `onetool bundles auth`: tests a bundle's authentication step by step.

use clap::{Args, Subcommand};
use onetool_http::rest;
use onetool_state::bundles::Slug;

use super::answer::{Answer, Row};
use super::{Outcome, names};
use crate::assemble::App;
use crate::cli::table::{OutputArgs, Tone};

#[derive(Subcommand)]
pub(super) enum AuthCommand {
    /// Check configuration, token and a request, in this order
    #[command(
        after_help = "Examples:\n  onetool bundles auth test weather\n  onetool bundles auth test weather --tool now --json"
    )]
    Test(TestArgs),
}

#[derive(Args)]
pub(super) struct TestArgs {
    /// The bundle's id or slug
    bundle: String,

    /// A tool that has its own authentication
    #[arg(long, short, value_name = "TOOL")]
    tool: Option<String>,

    #[command(flatten)]
    output: OutputArgs,
}

pub(super) struct Operation {
    bundle: String,
    tool: Option<String>,
}

pub(super) fn prepare(command: AuthCommand) -> (Operation, OutputArgs) {
    let AuthCommand::Test(args) = command;
    (Operation { bundle: args.bundle, tool: args.tool }, args.output)
}

pub(super) async fn run(app: &App, operation: Operation) -> Outcome {
    let bundles = app.bundles();
    let id = names::bundle(&bundles.store, &operation.bundle)?;
    let tool = operation.tool.map(|slug| slug.parse::<Slug>()).transpose()?;
    let reply = rest::test_auth(&bundles, id, tool).await?;
    let rows: Vec<Row> = reply
        .steps
        .iter()
        .map(|step| {
            let tone = if step.state == "skipped" { Tone::Faint } else { Tone::of_state(&step.state) };
            let hint = step.hint.as_ref().map(|hint| format!(" (hint: {hint})")).unwrap_or_default();
            vec![
                (Tone::Strong, step.step.clone()),
                (tone, step.state.clone()),
                (Tone::Plain, format!("{}{hint}", step.message)),
            ]
        })
        .collect();
    Ok(Answer::steps(&reply, rows))
}
