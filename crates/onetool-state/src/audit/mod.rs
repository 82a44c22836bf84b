//! Who did what: every run, every call, every refused request, every change by an administrator, one line each.
//!
//! Lines are taken without waiting and written in batches by a thread of their own ([`AuditLog`]). The queue is bounded:
//! while the state cannot be reached the oldest lines go in the end, and a line says how many. What was written is never
//! changed; what is older than the retention is neither shown nor kept.

mod log;
mod search;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

pub use log::{AuditLog, AuditSettings};
pub use search::{AuditFilter, follow, last, read_all};

/// What a line is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AuditEvent {
    Run,
    Call,
    /// A request that was refused because of who made it.
    Auth,
    /// A change by an administrator: over REST with the scope `admin`, or of tokens on the command line.
    Admin,
    /// Lines that could not be kept.
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

/// How something that was written down ended, in the order of the documentation.
pub const OUTCOMES: [&str; 4] = ["ok", "error", "denied", "limited"];

/// One line. Whatever is unknown is left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditRecord {
    /// When it ended.
    pub ts: DateTime<Utc>,
    pub event: AuditEvent,
    /// Whose token it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// What the client calls itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The way in: `mcp`, `stdio`, `rest` or `local`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub door: Option<String>,
    /// Where a refused request came from.
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
    /// What a person was asked, and answered: `granted` or `refused`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<f64>,
    /// How many lines were lost.
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

    /// Bytes of the texts that others may make long.
    fn text_bytes(&self) -> usize {
        [&self.arguments, &self.error, &self.client].into_iter().flatten().map(String::len).sum()
    }

    /// The same, short enough for a line.
    fn without_texts(self) -> Self {
        Self { arguments: None, error: None, client: None, ..self }
    }
}

#[cfg(test)]
mod tests;
