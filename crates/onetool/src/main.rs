//! `onetool`: one MCP server, one tool.

use std::process::ExitCode;

/// The interpreter's child processes, which run this executable too, count their memory in the allocator.
#[global_allocator]
static ALLOCATOR: onetool_sandbox::monty::Allocator = onetool_sandbox::monty::Allocator;

fn main() -> ExitCode {
    // Child processes are started often and must be ready quickly, so this comes first.
    let mut arguments = std::env::args_os().skip(1);
    let first = arguments.next();
    if first.as_deref().is_some_and(|first| first == onetool_sandbox::monty::CHILD_ARGUMENT) {
        return onetool_sandbox::monty::serve();
    }
    #[cfg(unix)]
    if first.as_deref().is_some_and(|first| first == onetool_sandbox::LAUNCH_ARGUMENT) {
        return onetool_sandbox::launch(arguments);
    }
    onetool_sandbox::return_large_pieces();
    onetool::main()
}
