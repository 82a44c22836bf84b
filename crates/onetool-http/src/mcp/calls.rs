//! Calls of sessions in progress on this server: a client may cancel one through another server, which forwards the
//! cancellation ([`crate::relay`]).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rmcp::RoleServer;
use rmcp::service::RequestContext;

use super::http::SESSION_HEADER;
use crate::relay::call_name;

/// Age from which a call may be cancelled through another server; shorter calls are not worth polling for.
const LOOKED_FOR_AFTER: Duration = Duration::from_millis(200);

/// Calls in progress, by names that are unique among all servers.
#[derive(Default)]
pub(super) struct Calls {
    under_way: Arc<Mutex<HashMap<String, Instant>>>,
}

/// A call that is in progress until this is dropped.
pub(super) struct UnderWay {
    calls: Arc<Mutex<HashMap<String, Instant>>>,
    name: String,
}

impl Calls {
    /// Registers a call; `None` if it belongs to no session.
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

    /// Whether a call has been in progress long enough that its client may cancel it.
    pub(super) fn has_long(&self) -> bool {
        self.under_way.lock().values().any(|begun| begun.elapsed() >= LOOKED_FOR_AFTER)
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.calls.lock().remove(&self.name);
    }
}
