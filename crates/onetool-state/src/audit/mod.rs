//! The audit trail: every run, every call, every refused request, every change by an administrator, one line each.
//!
//! Lines are queued without waiting and written in batches by a separate thread ([`AuditLog`]). The queue is bounded:
//! while the state is unreachable, the oldest lines are eventually dropped, and a line records how many. Written lines
//! are never changed; lines older than the retention are neither shown nor kept.

mod log;
mod search;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

pub use log::{AuditLog, AuditSettings};
pub use search::{AuditFilter, Follower, last, read_all};

/// What a line is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AuditEvent {
    Run,
    Call,
    /// A request that was refused because of its caller.
    Auth,
    /// A change by an administrator: over REST with the scope `admin`, or of tokens on the command line.
    Admin,
    /// Lines that were dropped.
    Lost,
}

impl AuditEvent {
    pub fn named(name: &str) -> Option<Self> {
        [Self::Run, Self::Call, Self::Auth, Self::Admin, Self::Lost].into_iter().find(|event| event.name() == name)
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Call => "call",
            Self::Auth => "auth",
            Self::Admin => "admin",
            Self::Lost => "lost",
        }
    }
}

/// The outcomes of audited events, in the order of the documentation.
pub const OUTCOMES: [&str; 4] = ["ok", "error", "denied", "limited"];

/// One line. Unknown fields are omitted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditRecord {
    /// When it ended.
    pub ts: DateTime<Utc>,
    pub event: AuditEvent,
    /// The principal of the token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// The name that the client gives itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The entry point: `mcp`, `stdio`, `rest` or `local`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub door: Option<String>,
    /// The origin of a refused request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// `pack.function`, or the method and path of a request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// BLAKE3 of the arguments as compact JSON with sorted keys, or of the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments_hash: Option<String>,
    /// The arguments or the command, shortened, without secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<String>,
    /// One of [`OUTCOMES`].
    pub outcome: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// A person's answer to an approval request: `granted` or `refused`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<f64>,
    /// Number of dropped lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
}

impl AuditRecord {
    pub fn new(event: AuditEvent, outcome: &str) -> Self {
        Self {
            ts: Utc::now(),
            event,
            principal: None,
            client: None,
            door: None,
            address: None,
            run: None,
            tool: None,
            arguments_hash: None,
            arguments: None,
            outcome: outcome.to_owned(),
            error: None,
            approval: None,
            duration_ms: None,
            count: None,
        }
    }

    /// Total length of the texts that callers control.
    fn text_bytes(&self) -> usize {
        [&self.arguments, &self.error, &self.client].into_iter().flatten().map(String::len).sum()
    }

    /// Returns the record without long texts, so that it fits a line.
    fn without_texts(self) -> Self {
        Self { arguments: None, error: None, client: None, ..self }
    }
}

#[cfg(test)]
mod tests;
