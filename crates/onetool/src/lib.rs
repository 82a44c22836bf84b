//! The program: the command line, the configuration, and the parts put together.

mod assemble;
mod cli;
mod config;
mod governing;
mod log;
mod operations;
mod recorder;
mod state;
mod telemetry;
mod untrusted;
mod watch;

pub use cli::main;
