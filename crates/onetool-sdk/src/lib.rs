//! What a tool is.
//!
//! This crate is pure: no network, no files, no processes. It holds the vocabulary that every other
//! crate shares: [`Value`] (what crosses between Python and tools), [`ToolSpec`] and [`Signature`]
//! (what a tool looks like), [`ToolSource`] (where tools come from), [`CallContext`] (what a call may
//! use) and [`Tool`] with [`define_tool`] (how a tool is written in Rust).

mod arguments;
mod context;
mod error;
mod names;
mod signature;
mod source;
mod tool;
mod value;
mod wire;

pub use arguments::Arguments;
pub use context::{CallContext, Caller, ClientBridge, NoProgress, Progress, ProgressSink, ToolCaller};
pub use error::{ErrorKind, ToolError};
pub use names::{QualifiedName, is_python_identifier, to_python_identifier};
pub use signature::{Parameter, ParameterKind, Signature};
pub use source::{HealthNote, Origin, Pack, Severity, ToolCall, ToolSource, ToolSpec};
pub use tool::{Tool, ToolContext, ToolDefinition, ToolResult, define_tool};
pub use value::{DateTimeValue, Part, Value};
pub use wire::WireError;
