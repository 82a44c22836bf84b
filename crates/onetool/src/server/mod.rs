//! The MCP side: one handler, served on standard input and output or over HTTP.

mod client;
mod handler;
pub mod http;
mod lines;
mod logging;
mod progress;
pub mod stdio;
mod streams;

pub use handler::Handler;
