//! The child process that the engines start in tests: only the product's hidden subcommands.

use std::process::ExitCode;

use onetool_sandbox::monty;

#[global_allocator]
static ALLOCATOR: monty::Allocator = monty::Allocator;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let subcommand = arguments.next().unwrap_or_default();
    if subcommand == monty::CHILD_ARGUMENT {
        return monty::serve();
    }
    #[cfg(unix)]
    if subcommand == onetool_sandbox::LAUNCH_ARGUMENT {
        return onetool_sandbox::launch(arguments);
    }
    eprintln!("unknown subcommand {}", subcommand.display());
    ExitCode::FAILURE
}
