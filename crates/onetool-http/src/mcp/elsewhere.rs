//! Answers of clients that may arrive at other servers: see [`crate::relay`].

use std::sync::Arc;

use super::Shared;
use super::sessions::Sessions;
use crate::Identity;
use crate::relay::{Subject, Waiting};

/// Runs and questions of this server.
pub(super) struct Here {
    pub(super) shared: Arc<Shared>,
    pub(super) sessions: Arc<Sessions>,
}

impl Waiting for Here {
    fn has(&self, subject: &Subject, _: &Identity) -> bool {
        match subject {
            Subject::Round(id) => self.shared.waiting.has(*id),
            Subject::Run(id) => self.shared.background.is_live(id),
            Subject::Question { node } => self.sessions.is_node(node),
            Subject::Call(name) => self.shared.calls.has(name),
            Subject::RestRun(_) | Subject::Activity(_) => false,
        }
    }

    fn is_waiting(&self) -> bool {
        !self.shared.waiting.is_empty()
            || self.shared.background.is_asking()
            || self.sessions.is_asking()
            || self.shared.calls.has_long()
    }
}
