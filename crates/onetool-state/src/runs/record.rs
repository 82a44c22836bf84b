//! The record of a run.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::store::RunStoreError;

/// Maximum length of a title, which is taken from the command.
const TITLE_CHARS: usize = 120;

/// The owner of runs: hexadecimal digits that reveal nothing about a token, or `local` if no token is needed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Owner(String);

impl Owner {
    /// Anyone who uses this machine without a token.
    pub fn local() -> Self {
        Self("local".to_owned())
    }

    /// The holder of the token with this fingerprint, under the state's secret key.
    pub(super) fn of(secret: &[u8; 32], fingerprint: u64) -> Self {
        Self(blake3::keyed_hash(secret, &fingerprint.to_le_bytes()).to_hex()[..32].to_owned())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The id of a run: 32 unguessable hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunId(String);

impl RunId {
    const DIGITS: usize = 32;

    pub fn random() -> Self {
        Self(uuid::Uuid::new_v4().simple().to_string())
    }

    /// Uses the run's name in logs, if that is an id; otherwise a random id.
    pub fn of_run(name: &str) -> Self {
        name.parse().unwrap_or_else(|_| Self::random())
    }

    /// The id for an owner's idempotency key: always the same one.
    pub fn of_key(owner: &Owner, key: &str) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("onetool run by idempotency key");
        hasher.update(owner.as_str().as_bytes());
        hasher.update(&[0]);
        hasher.update(key.as_bytes());
        Self(hasher.finalize().to_hex()[..Self::DIGITS].to_owned())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for RunId {
    type Err = RunStoreError;

    fn from_str(text: &str) -> Result<Self, RunStoreError> {
        let is_id = text.len() == Self::DIGITS
            && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
        if is_id { Ok(Self(text.to_owned())) } else { Err(RunStoreError::NotFound) }
    }
}

/// The status of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// It waits for a server with capacity and the required tags.
    Queued,
    Working,
    /// It asked its client a question and waits for the answer.
    InputRequired,
    /// One of its calls waits for a person's approval. No process is busy with it meanwhile.
    Suspended,
    Completed,
    /// Its reply is an error, or there is none because its process ended.
    Failed,
    Cancelled,
    /// Its process ended, and it is unknown whether a call took place that must not be repeated. It can be resumed.
    Interrupted,
}

impl RunStatus {
    /// The name in the REST API.
    pub fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Working => "working",
            Self::InputRequired => "input_required",
            Self::Suspended => "suspended",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Interrupted => "interrupted",
        }
    }

    /// Whether the run does not continue by itself.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled | Self::Interrupted)
    }
}

/// How a run was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunOrigin {
    /// `tools/call` as a task.
    Task,
    /// `tools/call` with an idempotency key.
    Call,
    /// `POST /runs`
    Rest,
}

/// A run to record.
#[derive(Debug, Clone)]
pub struct NewRun {
    pub id: RunId,
    pub owner: Owner,
    pub command: String,
    pub origin: RunOrigin,
    pub created_at: DateTime<Utc>,
    /// How long it is kept, from its creation.
    pub ttl: Duration,
    /// Tags that a server must have to execute it.
    pub tags: Vec<String>,
    /// Who it runs for, in a form that the executing process understands.
    pub client: serde_json::Value,
}

/// What is known about a run, without its command and its reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRecord {
    pub id: RunId,
    pub owner: Owner,
    /// The first line of its command, shortened.
    pub title: String,
    pub origin: RunOrigin,
    pub status: RunStatus,
    /// Its last progress message, or why it has no reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<DateTime<Utc>>,
    pub ttl_ms: u64,
    /// The process that executes it.
    pub node: String,
    /// Determines whether a repeated request means the same run.
    pub command_hash: String,
    /// Grows with every process that takes it over.
    #[serde(default)]
    pub fence: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Who it runs for.
    #[serde(default, skip_serializing_if = "serde_json::Value::is_null")]
    pub client: serde_json::Value,
    /// The approval that it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<String>,
    /// Its open questions to the client, which any server can forward.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub questions: Option<serde_json::Value>,
    /// Known and unknown calls of an interrupted run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<CallReport>,
}

/// The outcomes of a run's calls.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallReport {
    /// Calls whose outcome is known: they are not repeated.
    pub done: Vec<ReportedCall>,
    /// Calls that were started, but whose outcome is unknown.
    pub unknown: Vec<ReportedCall>,
    /// Number of omitted calls.
    #[serde(default)]
    pub more: usize,
}

/// One call, for display.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportedCall {
    pub number: u64,
    pub tool: String,
    /// Shortened, values with secret names masked.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub arguments: String,
}

/// Where a run starts.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) node: &'a str,
    /// This process executes it immediately.
    pub(super) is_here: bool,
}

impl RunRecord {
    pub(super) fn new(new: &NewRun, place: Place<'_>) -> Self {
        let line = new.command.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
        Self {
            id: new.id.clone(),
            owner: new.owner.clone(),
            title: line.chars().take(TITLE_CHARS).collect(),
            origin: new.origin,
            status: if place.is_here { RunStatus::Working } else { RunStatus::Queued },
            message: None,
            created_at: new.created_at,
            updated_at: new.created_at,
            finished_at: None,
            ttl_ms: u64::try_from(new.ttl.as_millis()).unwrap_or(u64::MAX),
            node: if place.is_here { place.node.to_owned() } else { String::new() },
            command_hash: Self::hash(&new.command),
            fence: u64::from(place.is_here),
            tags: new.tags.clone(),
            client: new.client.clone(),
            approval: None,
            questions: None,
            calls: None,
        }
    }

    pub(super) fn hash(command: &str) -> String {
        blake3::hash(command.as_bytes()).to_hex()[..32].to_owned()
    }

    pub fn is_of(&self, command: &str) -> bool {
        self.command_hash == Self::hash(command)
    }

    /// Whether it may be removed: only runs that have ended, and not before the reply could be fetched.
    pub(super) fn is_expired(&self, now: DateTime<Utc>) -> bool {
        const TIME_TO_FETCH_SECONDS: i64 = 60;
        let Some(finished) = self.finished_at else { return false };
        let age = (now - self.created_at).num_milliseconds();
        u64::try_from(age).is_ok_and(|age| age >= self.ttl_ms)
            && (now - finished).num_seconds() >= TIME_TO_FETCH_SECONDS.min(self.ttl_ms.div_ceil(1000).cast_signed())
    }
}

/// A record as it is copied: an active run becomes interrupted. `None` if the content is not a record.
pub(crate) fn copied(content: &[u8]) -> Option<Vec<u8>> {
    let mut record: RunRecord = serde_json::from_slice(content).ok()?;
    if matches!(record.status, RunStatus::Queued | RunStatus::Working | RunStatus::InputRequired) {
        record.status = RunStatus::Interrupted;
        record.message = Some("interrupted: the state was copied while it was under way".to_owned());
        record.updated_at = Utc::now();
        record.finished_at = Some(record.updated_at);
    }
    serde_json::to_vec(&record).ok()
}
