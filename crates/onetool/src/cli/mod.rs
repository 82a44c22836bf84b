//! The command line: a file a subcommand.

mod ask;
mod bundles;
mod call;
mod completions;
mod config;
mod health;
mod help;
mod init;
mod new_file;
mod progress;
mod run;
mod scaffold;
mod serve;
mod servers;
mod stats;
mod table;
mod tools;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Parser, Subcommand};
use onetool_config::MissingConfig;
use onetool_http::InvalidAddress;

use crate::assemble::App;

/// One MCP server, one tool: run(command), with every other tool at hand as pack.function(...).
#[derive(Parser)]
#[command(name = "onetool", version, about, after_help = EXAMPLES, arg_required_else_help = true, disable_help_subcommand = true)]
struct Cli {
    /// Use this configuration file instead of .onetool/onetool.yaml
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,

    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  onetool run 'sum(range(10))'            run code and print its value
  onetool run 'ot.help(query=\"files\")'    ask what there is
  onetool run --file script.py            run a file; `-` reads standard input
  onetool call file.read path=README.md   call one tool, without code
  onetool tools file                      list tools whose name contains `file`
  onetool help web search                 look for a tool by what it does
  onetool init                            write a first configuration
  onetool serve                           serve MCP on standard input and output

Connect a client: command `onetool`, arguments `serve`.";

#[derive(Subcommand)]
enum Command {
    /// Run code and print what it gives
    Run(run::RunArgs),
    /// Serve MCP on standard input and output
    Serve(serve::ServeArgs),
    /// Call one tool and print what it answers
    Call(call::CallArgs),
    /// Keep bundles of tools: list, change and call them
    Bundles(bundles::BundlesArgs),
    /// List tools
    Tools(tools::ToolsArgs),
    /// Explain a command, a tool, a pack, a snippet or an alias, or search for one
    Help(help::HelpArgs),
    /// Tell what works and what does not; fails where something does not
    Health(health::HealthArgs),
    /// Show what was called and what that saved
    Stats(stats::StatsArgs),
    /// List, test and accept MCP servers
    Servers(servers::ServersArgs),
    /// List the configuration files that are read, or print what they may say
    Config(config::ConfigArgs),
    /// Write a configuration to begin with
    Init(init::InitArgs),
    /// Write a file with tools of your own to begin with
    Scaffold(scaffold::ScaffoldArgs),
    /// Print a script that completes commands in a shell
    Completions(completions::CompletionsArgs),
}

/// The exit code of a command line that cannot be meant; the same that clap answers with.
const USAGE: u8 = 2;

/// Stack of the runtime's threads: reading code takes some.
const STACK_BYTES: usize = 16 << 20;

/// Reads the arguments and does what they say.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().thread_stack_size(STACK_BYTES).enable_all().build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: the runtime does not start: {error}");
            return ExitCode::FAILURE;
        }
    };
    let result = runtime.block_on(async {
        match cli.command {
            Command::Run(args) => run::main(args, cli.config).await,
            Command::Serve(args) => serve::main(args, cli.config).await,
            Command::Call(args) => call::main(args, cli.config).await,
            Command::Tools(args) => tools::main(args, cli.config).await,
            Command::Help(args) => help::main(args, cli.config).await,
            Command::Health(args) => health::main(args, cli.config).await,
            Command::Stats(args) => stats::main(args, cli.config).await,
            Command::Servers(args) => servers::main(args, cli.config).await,
            Command::Config(args) => config::main(args, cli.config),
            Command::Init(args) => init::main(args, cli.config),
            Command::Scaffold(args) => scaffold::main(args, cli.config),
            Command::Completions(args) => completions::main(args),
            Command::Bundles(args) => bundles::main(args, cli.config).await,
        }
    });
    // A read of standard input cannot be interrupted; do not wait for it.
    runtime.shutdown_background();
    result.unwrap_or_else(|error| {
        // Whoever read our output has seen enough.
        let is_closed_pipe = |error: &std::io::Error| error.kind() == std::io::ErrorKind::BrokenPipe;
        if error.chain().any(|cause| cause.downcast_ref().is_some_and(is_closed_pipe)) {
            return ExitCode::SUCCESS;
        }
        eprintln!("error: {error:#}");
        if error.is::<MissingConfig>() || error.is::<InvalidAddress>() { ExitCode::from(USAGE) } else { ExitCode::FAILURE }
    })
}

/// Starts everything for one command, and tells what is wrong with the configuration.
fn start(config: Option<PathBuf>) -> anyhow::Result<Arc<App>> {
    let app = App::start_once(config)?;
    for note in &app.settings().notes {
        eprintln!("warning: {}: {}", note.subject, note.message);
    }
    Ok(app)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn every_command_shows_examples_that_it_understands() {
        fn check(command: &clap::Command) {
            let help = command.get_after_help().unwrap_or_else(|| panic!("{} has no examples", command.get_name()));
            let help = help.to_string();
            let mut seen = 0;
            for line in help.lines().filter_map(|line| line.split_once("onetool ").map(|(_, rest)| rest)) {
                let line = line.split("  ").next().unwrap().split(" > ").next().unwrap();
                let Some(words) = shell_words(line) else { continue };
                let parsed = Cli::try_parse_from(std::iter::once("onetool".to_owned()).chain(words));
                assert!(parsed.is_ok(), "{line}: {}", parsed.err().unwrap());
                seen += 1;
            }
            assert!(seen > 0, "{}: {help}", command.get_name());
            command.get_subcommands().for_each(check);
        }
        check(&Cli::command());
    }

    /// Words as a shell splits them, with single quotes.
    fn shell_words(line: &str) -> Option<Vec<String>> {
        let mut words = vec![String::new()];
        let mut quoted = false;
        for c in line.trim().chars() {
            match c {
                '\'' => quoted = !quoted,
                ' ' if !quoted => words.push(String::new()),
                other => words.last_mut()?.push(other),
            }
        }
        words.retain(|word| !word.is_empty());
        (!quoted && !words.is_empty()).then_some(words)
    }
}
