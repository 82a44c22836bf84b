//! MCP: one handler, served over HTTP or on standard input and output.

mod archive;
mod asked;
mod calls;
mod changes;
mod client;
mod describe;
mod elsewhere;
mod events;
mod handler;
mod http;
mod interests;
mod keyed;
mod lines;
mod logging;
mod offers;
mod plain_calls;
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

pub(crate) use archive::own_id;
pub(crate) use asked::{AskedClient, Questions};
pub use http::serve_handlers;
pub(crate) use http::{SESSION_HEADER, SessionCount, router};
pub(crate) use preferences::ReplyPreferences;
pub use stdio::serve_stdio;

use archive::Archive;
use calls::Calls;
use changes::Changes;
use handler::Handler;
use rounds::WaitingRuns;

use crate::Service;
use crate::background::Background;

/// State that all sessions of a server share.
struct Shared {
    waiting: WaitingRuns,
    changes: Arc<Changes>,
    background: Arc<Background>,
    calls: Calls,
    /// Where sessions are kept, if there are any.
    archive: Option<Arc<Archive>>,
}

impl Shared {
    fn new(service: &Arc<dyn Service>, background: Arc<Background>, archive: Option<Arc<Archive>>) -> Arc<Self> {
        let (waiting, calls) = (WaitingRuns::default(), Calls::default());
        Arc::new(Self { waiting, changes: Changes::start(service), background, calls, archive })
    }
}
