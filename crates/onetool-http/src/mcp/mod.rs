//! MCP: one handler, served over HTTP or on standard input and output.

mod archive;
mod asked;
mod changes;
mod client;
mod describe;
mod elsewhere;
mod events;
mod handler;
mod http;
mod keyed;
mod lines;
mod logging;
mod offers;
mod preferences;
mod progress;
mod prompts;
mod resources;
mod rounds;
mod runs;
mod sessions;
mod sse;
mod stdio;
mod streams;
mod tasks;
mod tasks_2025;
mod upstream;

use std::sync::Arc;

pub(crate) use asked::{AskedClient, Questions};
pub use http::serve_handlers;
pub(crate) use http::{SessionCount, router};
pub use stdio::serve_stdio;

use changes::Changes;
use handler::Handler;
use rounds::WaitingRuns;

use crate::Service;
use crate::background::Background;

/// What all sessions of a server share.
struct Shared {
    waiting: WaitingRuns,
    changes: Arc<Changes>,
    background: Arc<Background>,
}

impl Shared {
    fn new(service: &Arc<dyn Service>, background: Arc<Background>) -> Arc<Self> {
        Arc::new(Self { waiting: WaitingRuns::default(), changes: Changes::start(service), background })
    }
}
