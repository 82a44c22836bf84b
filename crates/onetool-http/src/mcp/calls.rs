//! Calls of sessions that are under way here: a client that cancels one may reach another server, which passes it on
//! ([`crate::relay`]).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rmcp::RoleServer;
use rmcp::service::RequestContext;

use super::http::SESSION_HEADER;
use crate::relay::call_name;

/// Nobody cancels what has hardly begun: only for calls that take longer it is looked whether somebody does.
const LOOKED_FOR_AFTER: Duration = Duration::from_millis(200);

/// By their names among all servers.
#[derive(Default)]
pub(super) struct Calls {
    under_way: Arc<Mutex<HashMap<String, Instant>>>,
}

/// A call that is under way until this is dropped.
pub(super) struct UnderWay {
    calls: Arc<Mutex<HashMap<String, Instant>>>,
    name: String,
}

impl Calls {
    /// A call begins; `None` where it belongs to no session.
    pub(super) fn begin(&self, context: &RequestContext<RoleServer>) -> Option<UnderWay> {
        let parts = context.extensions.get::<axum::http::request::Parts>()?;
        let session = parts.headers.get(SESSION_HEADER)?.to_str().ok()?;
        let name = call_name(session, &serde_json::to_value(&context.id).ok()?);
        self.under_way.lock().insert(name.clone(), Instant::now());
        Some(UnderWay { calls: self.under_way.clone(), name })
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.under_way.lock().contains_key(name)
    }

    /// Whether one has been under way for so long that its client may cancel it.
    pub(super) fn has_long(&self) -> bool {
        self.under_way.lock().values().any(|begun| begun.elapsed() >= LOOKED_FOR_AFTER)
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.calls.lock().remove(&self.name);
    }
}
