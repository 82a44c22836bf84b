//! `onetool completions <shell>`: what the shell loads to complete commands.

use std::process::ExitCode;

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use super::{Cli, table};

const EXAMPLES: &str = "\
Examples:
  onetool completions bash > ~/.local/share/bash-completion/completions/onetool
  onetool completions zsh > ~/.zfunc/_onetool
  onetool completions fish > ~/.config/fish/completions/onetool.fish";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
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
