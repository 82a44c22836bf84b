//! What a call may use: its deadline, its cancellation, its caller, and access to other tools and to the client.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::call_report::ReportSlot;
use crate::trace::{TraceContext, TraceHeaders};
use crate::{Arguments, CallJournal, JournaledCall, QualifiedName, ToolError, Value};

/// Where a call comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caller {
    /// From code in the sandbox.
    Run,
    /// From the REST API.
    Rest,
    /// From the command line.
    Cli,
    /// From a Rust program.
    Rust,
    /// From another tool.
    Tool,
}

impl Caller {
    const ALL: [Self; 5] = [Self::Run, Self::Rest, Self::Cli, Self::Rust, Self::Tool];

    /// The caller in records and replies.
    pub fn name(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Rest => "rest",
            Self::Cli => "cli",
            Self::Rust => "rust",
            Self::Tool => "tool",
        }
    }

    /// The caller of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|caller| caller.name() == name)
    }
}

/// Who a call is made for, as far as the server knows. Travels with a run, even to another server that takes it over.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requester {
    /// The name of a token, or the subject of an OAuth token; none where no authentication is required.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// The groups that the token itself names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// The client's own name for itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The interface through which the request arrived.
    #[serde(default)]
    pub door: EntryPoint,
}

/// The interfaces through which requests arrive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EntryPoint {
    /// MCP over HTTP.
    Mcp,
    /// MCP on standard input and output.
    Stdio,
    Rest,
    /// The command line, or a Rust program.
    #[default]
    Local,
}

impl EntryPoint {
    pub fn name(self) -> &'static str {
        match self {
            Self::Mcp => "mcp",
            Self::Stdio => "stdio",
            Self::Rest => "rest",
            Self::Local => "local",
        }
    }
}

/// A progress report.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    pub done: f64,
    pub total: Option<f64>,
    pub message: Option<String>,
}

/// Receives progress reports. Must not block.
pub trait ProgressSink: Send + Sync {
    fn report(&self, progress: Progress);

    /// Receives all text that code prints, in pieces of whole lines. Returns whether the text is shown; if it is not, a
    /// part of it is reported as progress.
    fn printed(&self, _text: &str) -> bool {
        false
    }
}

/// Drops every report.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoProgress;

impl ProgressSink for NoProgress {
    fn report(&self, _: Progress) {}
}

/// The single call path, as tools see it: a tool that calls another tool uses this.
#[async_trait]
pub trait ToolCaller: Send + Sync {
    async fn call_tool(
        &self,
        name: &QualifiedName,
        arguments: Arguments,
        ctx: &CallContext,
    ) -> Result<Value, ToolError>;

    /// Calls one version of a tool in a bundle.
    async fn call_version(
        &self,
        name: &QualifiedName,
        version: &str,
        _arguments: Arguments,
        _ctx: &CallContext,
    ) -> Result<Value, ToolError> {
        Err(ToolError::not_found(format!("{name} has no version '{version}'")))
    }
}

/// The client at the other end, if it can be asked. Parameters and results are those of MCP, as JSON.
#[async_trait]
pub trait ClientBridge: Send + Sync {
    /// `elicitation/create`.
    async fn elicit(&self, params: serde_json::Value) -> Result<serde_json::Value, ToolError>;
    /// `sampling/createMessage`.
    async fn sample(&self, params: serde_json::Value) -> Result<serde_json::Value, ToolError>;
    /// `roots/list`: the folders that the client works in, as URIs. Empty if it has none.
    async fn roots(&self) -> Result<Vec<String>, ToolError> {
        Ok(Vec::new())
    }
}

/// The position of a run or a call in its trace: its own id and that of its parent. The run is the trace, unless the
/// request came with one ([`CallContext::trace`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SpanLink {
    /// `None` outside every run and call.
    pub id: Option<NonZeroU64>,
    pub parent: Option<NonZeroU64>,
}

impl SpanLink {
    /// Creates a new span within this one.
    #[must_use]
    pub fn child(self) -> Self {
        static SEED: LazyLock<u64> = LazyLock::new(|| uuid::Uuid::new_v4().as_u64_pair().1);
        static COUNT: AtomicU64 = AtomicU64::new(0);
        // Spreads over all bits without repeating: every mixing step is invertible.
        let mut id = SEED.wrapping_add(COUNT.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        id = (id ^ (id >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        id = (id ^ (id >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        id ^= id >> 31;
        Self { id: Some(NonZeroU64::new(id).unwrap_or(NonZeroU64::MIN)), parent: self.id }
    }
}

/// Remarks of tools about their results, such as that a list is incomplete. Shared by all calls of a run and sent with
/// its reply.
#[derive(Debug, Clone, Default)]
pub struct Notices(Arc<std::sync::Mutex<Vec<String>>>);

impl Notices {
    /// Maximum number of notices per run; later ones are dropped.
    const MOST: usize = 8;
    const MOST_CHARS: usize = 300;

    pub fn add(&self, notice: &str) {
        let mut notices = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let notice: String = notice.chars().take(Self::MOST_CHARS).collect();
        if notices.len() < Self::MOST && !notices.contains(&notice) {
            notices.push(notice);
        }
    }

    /// Takes the notices collected so far.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }
}

/// Everything that belongs to one call rather than to one tool. Cheap to clone.
#[derive(Clone)]
pub struct CallContext {
    /// The run (or request) that this call is part of.
    pub run_id: Arc<str>,
    /// The owner of the call: an opaque name of the client, empty for this process itself. Nothing that belongs to one
    /// owner, such as a session, is shown or given to another.
    pub owner: Arc<str>,
    /// The identity of the owner, for policies and records.
    pub requester: Arc<Requester>,
    pub caller: Caller,
    pub cancel: CancellationToken,
    pub deadline: Option<Instant>,
    pub progress: Arc<dyn ProgressSink>,
    pub tools: Option<Arc<dyn ToolCaller>>,
    pub client: Option<Arc<dyn ClientBridge>>,
    /// How many tools deep this call is: a tool called by a tool called by a run is 1.
    pub depth: u32,
    /// The caller retries by itself, so the callee makes only one attempt.
    pub single_attempt: bool,
    pub span: SpanLink,
    /// The trace that this call belongs to, if one is propagated. Set with [`CallContext::join`].
    pub trace: Option<Arc<TraceContext>>,
    /// The code of the run that makes this call; none for a call that a tool makes.
    pub code: Option<Arc<str>>,
    pub notices: Notices,
    /// Where this call leaves its report, if the caller wants one.
    pub report: Option<ReportSlot>,
    /// The recorded calls of a run that outlives its process.
    pub journal: Option<Arc<dyn CallJournal>>,
    /// This call's journal entry, while permission for it is being requested.
    pub journaled: Option<Arc<JournaledCall>>,
}

impl CallContext {
    pub fn new(caller: Caller) -> Self {
        Self {
            run_id: uuid::Uuid::now_v7().simple().to_string().into(),
            owner: Arc::from(""),
            requester: Arc::default(),
            caller,
            cancel: CancellationToken::new(),
            deadline: None,
            progress: Arc::new(NoProgress),
            tools: None,
            client: None,
            depth: 0,
            single_attempt: false,
            span: SpanLink::default(),
            trace: None,
            code: None,
            notices: Notices::default(),
            report: None,
            journal: None,
            journaled: None,
        }
    }

    /// Returns the context for a call that a tool makes itself.
    #[must_use]
    pub fn nested(&self) -> Self {
        Self { caller: Caller::Tool, depth: self.depth + 1, code: None, report: None, ..self.clone() }
    }

    /// Returns the context for a new span within this one.
    #[must_use]
    pub fn within(&self) -> Self {
        Self { span: self.span.child(), ..self.clone() }
    }

    /// Joins a trace: what follows is within the span that the trace names.
    pub fn join(&mut self, trace: TraceContext) {
        if let Some(parent) = trace.parent() {
            self.span = SpanLink { id: Some(parent), parent: None };
        }
        self.trace = Some(Arc::new(trace));
    }

    /// Returns the trace headers for an outgoing request, if this is part of a trace.
    pub fn trace_headers(&self) -> Option<TraceHeaders> {
        Some(TraceHeaders::new(self.trace.as_deref()?, self.span.id?))
    }

    /// Returns the owner of anything this call leaves behind, if the call has a principal; nobody else may read it.
    pub fn principal_owner(&self) -> Option<&str> {
        self.requester.principal.as_ref().map(|_| &*self.owner)
    }

    /// Returns the time left, or `None` if there is no deadline.
    pub fn remaining(&self) -> Option<Duration> {
        self.deadline.map(|at| at.saturating_duration_since(Instant::now()))
    }
}

impl Default for CallContext {
    fn default() -> Self {
        Self::new(Caller::Rust)
    }
}

impl std::fmt::Debug for CallContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallContext")
            .field("run_id", &self.run_id)
            .field("caller", &self.caller)
            .field("deadline", &self.deadline)
            .field("depth", &self.depth)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_distinct_and_know_their_parent() {
        let run = SpanLink::default().child();
        assert_eq!(run.parent, None);
        let calls: std::collections::HashSet<_> = (0..1000)
            .map(|_| run.child())
            .inspect(|call| assert_eq!(call.parent, run.id))
            .map(|call| call.id)
            .collect();
        assert_eq!(calls.len(), 1000);
    }
}
