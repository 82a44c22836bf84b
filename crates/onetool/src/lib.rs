//! The program: the command line, the configuration, and the assembled parts.

mod assemble;
mod audit;
#[expect(clippy::print_stdout, reason = "what a command prints is its result")]
mod cli;
mod config;
mod gallery;
mod governing;
mod log;
mod metrics;
mod operations;
mod policy_file;
mod recorder;
mod secret_values;
mod state;
mod telemetry;
mod untrusted;
mod watch;

pub use cli::main;
