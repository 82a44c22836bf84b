//! MCP: one handler, served over HTTP or on standard input and output.

mod client;
mod handler;
mod http;
mod lines;
mod logging;
mod progress;
mod stdio;
mod streams;

pub(crate) use http::router;
pub use stdio::serve_stdio;

use handler::Handler;
