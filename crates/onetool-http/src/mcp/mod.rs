//! MCP: one handler, served over HTTP or on standard input and output.

mod changes;
mod client;
mod describe;
mod events;
mod handler;
mod http;
mod lines;
mod logging;
mod progress;
mod prompts;
mod resources;
mod rounds;
mod runs;
mod sessions;
mod sse;
mod stdio;
mod streams;
mod upstream;

use std::sync::Arc;

pub(crate) use http::router;
pub use stdio::serve_stdio;

use changes::Changes;
use handler::Handler;
use rounds::WaitingRuns;

use crate::Service;

/// What all sessions of a server share.
struct Shared {
    waiting: WaitingRuns,
    changes: Arc<Changes>,
}

impl Shared {
    fn new(service: &Arc<dyn Service>) -> Arc<Self> {
        Arc::new(Self { waiting: WaitingRuns::default(), changes: Changes::start(service) })
    }
}
