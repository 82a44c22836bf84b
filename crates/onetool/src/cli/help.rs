//! `onetool help`: a command's usage, or the help of `ot.help()` on a tool, a pack, a snippet, an alias or some words.

use std::process::ExitCode;

use clap::{Args, CommandFactory as _};

use super::table::{OutputArgs, Page, print, print_json};
use super::{Cli, Location, ask};

const EXAMPLES: &str = "\
Examples:
  onetool help file.read
  onetool help search the web
  onetool help serve";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct HelpArgs {
    /// A command, a tool, a pack, a $snippet, an alias, or words to search for
    query: Vec<String>,

    /// Show all details
    #[arg(long)]
    full: bool,

    #[command(flatten)]
    output: OutputArgs,
}

pub async fn main(args: HelpArgs, at: Location) -> anyhow::Result<ExitCode> {
    let query = args.query.join(" ");
    let mut usage = Cli::command();
    usage.build();
    if query.is_empty() {
        print(&usage.render_long_help().to_string())?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut command = Some(&mut usage);
    for word in query.split(' ') {
        command = command.and_then(|command| command.find_subcommand_mut(word));
    }
    if let Some(command) = command {
        print(&command.render_long_help().to_string())?;
        return Ok(ExitCode::SUCCESS);
    }
    let app = super::start(at)?;
    let info = if args.full { "full" } else { "min" };
    let answer = ask::ot(&app, "help", [("query", Some(query)), ("info", Some(info.to_owned()))]).await;
    app.shutdown().await;
    let answer = answer?;
    if args.output.is_json() {
        print_json(&answer.to_json())?;
    } else {
        Page::new().text(&onetool_run::present::format(&answer, onetool_run::present::Format::YamlHuman)).print()?;
    }
    Ok(ExitCode::SUCCESS)
}
