//! The vocabulary of tools.
//!
//! This crate is pure: no network, no files, no processes. It holds the vocabulary that every other
//! crate shares: [`Value`] (what crosses between Python and tools), [`ToolSpec`] and [`Signature`]
//! (what a tool looks like), [`ToolSource`] (where tools come from), [`CallContext`] (what a call may
//! use) and [`Tool`] with [`define_tool`] (how a tool is written in Rust).
//!
//! A tool is accompanied by [`ToolContext`] and [`DependencyKey`] (what its function receives), [`Validator`] (whether
//! JSON matches a schema, and if not, why), [`compile_schema`] (its schema for a model provider), [`ToolMessage`] (its
//! result as a model reads it) and [`OutputCache`] (long results, by reference).

mod arguments;
mod call_report;
mod context;
mod dependency;
mod error;
mod journal;
mod json_schema;
mod json_size;
mod message;
mod names;
mod native;
mod nearest;
mod output_cache;
mod pager;
mod redactor;
mod repaired;
mod result;
mod schema;
mod schema_cost;
mod schema_text;
mod secret_names;
mod signature;
mod source;
mod tool;
mod tool_context;
mod trace;
mod validation;
mod value;
mod wire;

pub use arguments::Arguments;
pub use call_report::{CallReport, Cut, PageReport, ReportSlot, StepTrace};
pub use context::{
    CallContext, Caller, ClientBridge, EntryPoint, NoProgress, Notices, Progress, ProgressSink, Requester, SpanLink,
    ToolCaller,
};
pub use dependency::{Dependencies, DependencyKey};
pub use error::{ErrorKind, ToolError, split_hint};
pub use journal::{CallJournal, Effect, JournaledCall, Recall};
pub use json_size::{holds_at_most, nests_at_most};
pub use message::{MessageContent, ToolMessage, canonical_json};
pub use names::{QualifiedName, RESERVED_PACKS, is_python_identifier, to_python_identifier};
pub use native::{NativePack, NativeSource};
pub use nearest::{nearest, nearest_few};
pub use output_cache::{
    Budget, LinePage, LineRange, MAX_LINE_BYTES, MAX_PAGE_BYTES, MemoryLimits, MemoryOutputStore, OutputCache,
    OutputLine, OutputRef, OutputSearch, OutputStore, OutputWriter, StoredOutput, TEXT_MEDIA_TYPE, TrimReport,
};
pub use pager::{LineCutter, PagedLine, Surroundings, VisitLine};
pub use redactor::{REDACTED, Redactor};
pub use repaired::repaired_json;
pub use result::ToolResult;
pub use schema::{
    CompiledSchema, GivenUp, MAX_PROVIDER_NAME, Provider, ProviderNames, Strip, compile_schema, lint_request,
};
pub use schema_text::InputSchema;
pub use secret_names::names_a_secret;
pub use signature::{Parameter, ParameterKind, Signature};
pub use source::{
    HealthNote, NoteFacts, Offer, Origin, Pack, PackDocs, Severity, SourceChange, ToolCall, ToolSource, ToolSpec,
    VERSION_ARGUMENT,
};
pub use tool::{MAX_RAW_ARGUMENTS, Tool, ToolDefinition, define_sync_tool, define_tool};
pub use tool_context::{Clock, LogLevel, Logger, ToolContext, TracingLogger};
pub use trace::{TRACEPARENT, TRACESTATE, TraceContext, TraceHeaders};
pub use validation::{Found, Issue, SchemaError, Validator, Violation, validate};
pub use value::{DateTimeValue, Part, Value, non_finite_text};
pub use wire::WireError;

/// Compiles the examples in the crate's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
