//! What a call may use: its deadline, its cancellation, its caller, and the way to other tools and to the client.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::{Arguments, QualifiedName, ToolError, Value};

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
}

/// The client at the other end, when it can be asked. Parameters and answers are those of MCP, as JSON.
#[async_trait]
pub trait ClientBridge: Send + Sync {
    /// `elicitation/create`.
    async fn elicit(&self, params: serde_json::Value) -> Result<serde_json::Value, ToolError>;
    /// `sampling/createMessage`.
    async fn sample(&self, params: serde_json::Value) -> Result<serde_json::Value, ToolError>;
}

/// Everything that belongs to one call rather than to one tool. Cheap to clone.
#[derive(Clone)]
pub struct CallContext {
    /// The run (or request) that this call is part of.
    pub run_id: Arc<str>,
    pub caller: Caller,
    pub cancel: CancellationToken,
    pub deadline: Option<Instant>,
    pub progress: Arc<dyn ProgressSink>,
    pub tools: Option<Arc<dyn ToolCaller>>,
    pub client: Option<Arc<dyn ClientBridge>>,
    /// How many tools deep this call is: a tool called by a tool called by a run is 1.
    pub depth: u32,
}

impl CallContext {
    pub fn new(caller: Caller) -> Self {
        Self {
            run_id: uuid::Uuid::now_v7().simple().to_string().into(),
            caller,
            cancel: CancellationToken::new(),
            deadline: None,
            progress: Arc::new(NoProgress),
            tools: None,
            client: None,
            depth: 0,
        }
    }

    /// The context for a call that a tool makes in its turn.
    #[must_use]
    pub fn nested(&self) -> Self {
        Self { caller: Caller::Tool, depth: self.depth + 1, ..self.clone() }
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
