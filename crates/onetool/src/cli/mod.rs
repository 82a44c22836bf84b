//! The command line, one file per subcommand.

mod ask;
mod audit;
mod bundles;
mod call;
mod complete;
mod completions;
mod config;
pub(crate) mod config_file;
mod dev;
mod doctor;
mod health;
mod help;
mod import;
mod init;
mod location;
mod new_file;
mod packs;
mod progress;
mod run;
mod runs;
mod saved;
mod scaffold;
mod self_command;
mod serve;
mod servers;
#[cfg(unix)]
mod session_host;
#[cfg(not(unix))]
#[path = "session_host_unsupported.rs"]
mod session_host;
mod state;
mod stats;
mod table;
mod terminal;
mod tokens;
mod tools;
mod trust;
mod ui;

use std::process::ExitCode;
use std::sync::Arc;

use clap::{Parser, Subcommand};
use onetool_config::{ConfigPlaces, MissingConfig};
use onetool_http::InvalidAddress;

use crate::assemble::App;

pub use location::Location;

/// One MCP server, one tool: run(command), and every other tool is pack.function(...).
#[derive(Parser)]
#[command(name = "onetool", version, about, after_help = EXAMPLES, arg_required_else_help = true, disable_help_subcommand = true)]
struct Cli {
    #[command(flatten)]
    location: Location,

    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  onetool run 'sum(range(10))'            run code and print its value
  onetool run 'ot.help(query=\"files\")'    search for tools
  onetool run --file script.py            run a file; `-` reads standard input
  onetool call file.read path=README.md   call one tool, without code
  onetool tools file                      list tools whose name contains `file`
  onetool help web search                 look for a tool by what it does
  onetool init                            write a first configuration
  onetool serve                           serve MCP on standard input and output
  onetool ui                              open the admin page in a browser

Connect a client: command `onetool`, arguments `serve`.";

#[derive(Subcommand)]
enum Command {
    /// Run Python code and print its value
    Run(run::RunArgs),
    /// Serve MCP on standard input and output
    Serve(serve::ServeArgs),
    /// Open the admin page in a browser
    Ui(ui::UiArgs),
    /// Call one tool and print its result
    Call(call::CallArgs),
    /// Manage bundles of HTTP tools
    Bundles(bundles::BundlesArgs),
    /// List tools
    Tools(tools::ToolsArgs),
    /// Explain a command, a tool, a pack, a snippet or an alias, or search for one
    Help(help::HelpArgs),
    /// Check the toolbox; exits with 1 if something does not work
    Health(health::HealthArgs),
    /// Show how often tools were called, and how much context that saved
    Stats(stats::StatsArgs),
    /// Manage MCP servers
    Servers(servers::ServersArgs),
    /// List the configuration files that are read, or print the reference of their keys
    Config(config::ConfigArgs),
    /// Import MCP servers from other clients
    Import(import::ImportArgs),
    /// Give a client back the servers that it had before an import
    Export(import::ExportArgs),
    /// Check the installation: configuration, uv, Python, sandbox, servers, secrets, disk
    Doctor(doctor::DoctorArgs),
    /// Create, list and revoke tokens for people and programs that use this server
    Tokens(tokens::TokensArgs),
    /// Show the audit log: who did what
    Audit(audit::AuditArgs),
    /// Move shared state between files and a database
    State(state::StateArgs),
    /// Add packs from the gallery, and keep them up to date
    Packs(packs::PacksArgs),
    /// Write a first configuration
    Init(init::InitArgs),
    /// Write a first file with tools of your own
    Scaffold(scaffold::ScaffoldArgs),
    /// Call a function of a tool file whenever the file changes
    Dev(dev::DevArgs),
    /// List, show or remove code that runs saved with ot.save
    Saved(saved::SavedArgs),
    /// List, show, cancel, resume or abandon background runs
    Runs(runs::RunsArgs),
    /// Allow a call that waits for approval, or list such calls
    Approve(runs::ApproveArgs),
    /// Refuse a call that waits for approval
    Deny(runs::DenyArgs),
    /// Trust what came with this folder's repository, after showing what it would run
    Trust(trust::TrustArgs),
    /// Show which version this is and where it came from
    #[command(name = "self")]
    SelfCommand(self_command::SelfArgs),
    /// Print a completion script for a shell
    Completions(completions::CompletionsArgs),
    /// What may come next in a command line
    #[command(name = "__complete", hide = true)]
    Complete(complete::CompleteArgs),
}

/// The exit code for an invalid command line; the same as clap's.
const USAGE: u8 = 2;

/// Stack size of the runtime's threads; parsing code needs some.
const STACK_BYTES: usize = 16 << 20;

/// Parses the arguments and runs the command.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    // No runtime, so that no server is started.
    if let Command::Complete(args) = &cli.command {
        return complete::main(args).unwrap_or(ExitCode::FAILURE);
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().thread_stack_size(STACK_BYTES).enable_all().build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: cannot start the runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    let result = runtime.block_on(async {
        match cli.command {
            Command::Run(args) => run::main(args, cli.location).await,
            Command::Serve(args) => serve::main(args, cli.location).await,
            Command::Ui(args) => ui::main(args, cli.location).await,
            Command::Call(args) => call::main(args, cli.location).await,
            Command::Tools(args) => tools::main(args, cli.location).await,
            Command::Help(args) => help::main(args, cli.location).await,
            Command::Health(args) => health::main(args, cli.location).await,
            Command::Stats(args) => stats::main(args, cli.location).await,
            Command::Servers(args) => servers::main(args, cli.location).await,
            Command::Config(args) => config::main(args, cli.location),
            Command::Import(args) => import::import(args, cli.location),
            Command::Export(args) => import::export(args, cli.location),
            Command::Doctor(args) => doctor::main(args, cli.location).await,
            Command::Audit(args) => audit::main(args, cli.location).await,
            Command::Tokens(args) => tokens::main(args, cli.location).await,
            Command::State(args) => state::main(args).await,
            Command::Packs(args) => packs::main(args, cli.location),
            Command::Init(args) => init::main(args, cli.location),
            Command::Scaffold(args) => scaffold::main(args, cli.location),
            Command::Dev(args) => dev::main(args, cli.location).await,
            Command::Saved(args) => saved::main(args, cli.location).await,
            Command::Runs(args) => runs::main(args, cli.location).await,
            Command::Approve(args) => runs::approve(args, cli.location).await,
            Command::Deny(args) => runs::deny(args, cli.location).await,
            Command::SelfCommand(args) => self_command::main(args),
            Command::Completions(args) => completions::main(args),
            Command::Complete(args) => complete::main(&args),
            Command::Trust(args) => trust::main(args, cli.location),
            Command::Bundles(args) => bundles::main(args, cli.location).await,
        }
    });
    // A read of standard input cannot be interrupted; do not wait for it.
    runtime.shutdown_background();
    result.unwrap_or_else(|error| {
        // The reader of our output closed the pipe.
        let is_closed_pipe = |error: &std::io::Error| error.kind() == std::io::ErrorKind::BrokenPipe;
        if error.chain().any(|cause| cause.downcast_ref().is_some_and(is_closed_pipe)) {
            return ExitCode::SUCCESS;
        }
        eprintln!("error: {error:#}");
        if error.is::<MissingConfig>() || error.is::<InvalidAddress>() {
            ExitCode::from(USAGE)
        } else {
            ExitCode::FAILURE
        }
    })
}

/// The error for a named file that cannot be read, with a hint.
fn unreadable(path: &std::path::Path, error: &std::io::Error) -> anyhow::Error {
    let hint = match error.kind() {
        std::io::ErrorKind::NotFound => "check the name; it is looked for in the current folder",
        std::io::ErrorKind::IsADirectory => "this is a folder; name a file in it",
        std::io::ErrorKind::PermissionDenied => "check its permissions",
        _ => "check that it can be read",
    };
    anyhow::anyhow!("cannot read {}: {error}\nhint: {hint}", path.display())
}

/// Starts everything for one command, and reports problems with the configuration.
fn start(at: Location) -> anyhow::Result<Arc<App>> {
    start_at(at.places()?)
}

fn start_at(places: ConfigPlaces) -> anyhow::Result<Arc<App>> {
    trust::offer(&places)?;
    let app = App::start_once(places)?;
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
            if command.is_hide_set() {
                return;
            }
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
