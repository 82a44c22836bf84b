//! The MCP side: one handler, served on standard input and output or over HTTP.

mod client;
mod handler;
mod logging;
mod progress;
pub mod stdio;

pub use handler::Handler;
