//! What a call may use: its deadline, its cancellation, its caller, and the way to other tools and to the client.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::trace::{TraceContext, TraceHeaders};
use crate::{Arguments, CallJournal, JournaledCall, QualifiedName, ToolError, Value};

/// Through which door a call came in.
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

/// Who a call is made for, as far as the server knows. It travels with a run, also to another server that takes it over.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requester {
    /// The name of a token, or the subject of an OAuth token; none where nobody had to say who they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// The groups that the token itself names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// What the client calls itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The way in.
    #[serde(default)]
    pub door: Door,
}

/// The ways in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Door {
    /// MCP over HTTP.
    Mcp,
    /// MCP on standard input and output.
    Stdio,
    Rest,
    /// The command line, or a Rust program.
    #[default]
    Local,
}

impl Door {
    pub fn name(self) -> &'static str {
        match self {
            Self::Mcp => "mcp",
            Self::Stdio => "stdio",
            Self::Rest => "rest",
            Self::Local => "local",
        }
    }
}

/// One report of progress.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    pub done: f64,
    pub total: Option<f64>,
    pub message: Option<String>,
}

/// Where reports of progress go. Must not block.
pub trait ProgressSink: Send + Sync {
    fn report(&self, progress: Progress);

    /// Text that code has just printed, all of it in pieces of whole lines. Returns whether it is shown; where it is not,
    /// a part of it is reported as progress.
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

/// The one call path, as tools see it: a tool that calls another tool goes through here.
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

/// The client at the other end, when it can be asked. Parameters and answers are those of MCP, as JSON.
#[async_trait]
pub trait ClientBridge: Send + Sync {
    /// `elicitation/create`.
    async fn elicit(&self, params: serde_json::Value) -> Result<serde_json::Value, ToolError>;
    /// `sampling/createMessage`.
    async fn sample(&self, params: serde_json::Value) -> Result<serde_json::Value, ToolError>;
    /// `roots/list`: the folders that the client works in, as URIs. None where it has none to name.
    async fn roots(&self) -> Result<Vec<String>, ToolError> {
        Ok(Vec::new())
    }
}

/// Where a run or a call stands in its trace: which one it is, and within which one it happens. The trace is the run,
/// unless the request came with one ([`CallContext::trace`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SpanLink {
    /// `None` outside every run and call.
    pub id: Option<NonZeroU64>,
    pub parent: Option<NonZeroU64>,
}

impl SpanLink {
    /// Something new within this.
    #[must_use]
    pub fn child(self) -> Self {
        static SEED: LazyLock<u64> = LazyLock::new(|| uuid::Uuid::new_v4().as_u64_pair().1);
        static COUNT: AtomicU64 = AtomicU64::new(0);
        // Spread over all bits without repeating: every step of the mixing can be undone.
        let mut id = SEED.wrapping_add(COUNT.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        id = (id ^ (id >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        id = (id ^ (id >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        id ^= id >> 31;
        Self { id: Some(NonZeroU64::new(id).unwrap_or(NonZeroU64::MIN)), parent: self.id }
    }
}

/// What tools have to say about their results besides the results, such as that a list is not whole. Shared by all calls of a
/// run, and told with its reply.
#[derive(Debug, Clone, Default)]
pub struct Notices(Arc<std::sync::Mutex<Vec<String>>>);

impl Notices {
    /// Notices of one run; what comes after is left out.
    const MOST: usize = 8;
    const MOST_CHARS: usize = 300;

    pub fn add(&self, notice: &str) {
        let mut notices = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let notice: String = notice.chars().take(Self::MOST_CHARS).collect();
        if notices.len() < Self::MOST && !notices.contains(&notice) {
            notices.push(notice);
        }
    }

    /// Takes what was said so far.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }
}

/// Everything that belongs to one call rather than to one tool. Cheap to clone.
#[derive(Clone)]
pub struct CallContext {
    /// The run (or request) that this call is part of.
    pub run_id: Arc<str>,
    /// Whose call it is: an opaque name of the client, empty for the one of this process. Nothing that belongs to one
    /// owner, such as a session, is shown or given to another.
    pub owner: Arc<str>,
    /// Who that is, for policies and records.
    pub requester: Arc<Requester>,
    pub caller: Caller,
    pub cancel: CancellationToken,
    pub deadline: Option<Instant>,
    pub progress: Arc<dyn ProgressSink>,
    pub tools: Option<Arc<dyn ToolCaller>>,
    pub client: Option<Arc<dyn ClientBridge>>,
    /// How many tools deep this call is: a tool called by a tool called by a run is 1.
    pub depth: u32,
    /// Whoever calls tries again itself: whatever is called makes one attempt.
    pub single_attempt: bool,
    pub span: SpanLink,
    /// The trace that this belongs to, where it is passed on. Set with [`CallContext::join`].
    pub trace: Option<Arc<TraceContext>>,
    /// The code of the run that makes this call; none for a call that a tool makes.
    pub code: Option<Arc<str>>,
    pub notices: Notices,
    /// What a run that outlives its process remembers of its calls.
    pub journal: Option<Arc<dyn CallJournal>>,
    /// This call, as the journal knows it, while permission is asked for it.
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
            journal: None,
            journaled: None,
        }
    }

    /// The context for a call that a tool makes in its turn.
    #[must_use]
    pub fn nested(&self) -> Self {
        Self { caller: Caller::Tool, depth: self.depth + 1, code: None, ..self.clone() }
    }

    /// The context for something new within what this one is for.
    #[must_use]
    pub fn within(&self) -> Self {
        Self { span: self.span.child(), ..self.clone() }
    }

    /// Becomes part of a trace: what follows is within the span that it names.
    pub fn join(&mut self, trace: TraceContext) {
        if let Some(parent) = trace.parent() {
            self.span = SpanLink { id: Some(parent), parent: None };
        }
        self.trace = Some(Arc::new(trace));
    }

    /// What a request carries that is made for this, if it is part of a trace.
    pub fn trace_headers(&self) -> Option<TraceHeaders> {
        Some(TraceHeaders::new(self.trace.as_deref()?, self.span.id?))
    }

    /// The owner of what this call leaves behind, where it is made for somebody in particular; nobody else may read it.
    pub fn principal_owner(&self) -> Option<&str> {
        self.requester.principal.as_ref().map(|_| &*self.owner)
    }

    /// How much time is left, or `None` where there is no deadline.
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
