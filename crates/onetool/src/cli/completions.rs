//! `onetool completions <shell>`: what the shell loads to complete commands.

use std::process::ExitCode;

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use super::{Cli, table};

#[derive(Args)]
pub struct CompletionsArgs {
    /// The shell to write for
    #[arg(value_enum)]
    shell: Shell,
}

pub fn main(args: CompletionsArgs) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "onetool", &mut script);
    table::print(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}
