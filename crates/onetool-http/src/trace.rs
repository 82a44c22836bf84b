//! Trace propagation: the trace in a request's headers or its `_meta` becomes the parent of its run.

use axum::http::HeaderMap;
use onetool_sdk::{CallContext, TRACEPARENT, TRACESTATE, TraceContext};
use rmcp::RoleServer;
use rmcp::service::RequestContext;

tokio::task_local! {
    static INCOMING: TraceContext;
}

pub(crate) fn of_headers(headers: &HeaderMap) -> Option<TraceContext> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    TraceContext::parse(text(TRACEPARENT)?, text(TRACESTATE))
}

/// Runs `answer` so that all its calls join the trace.
pub(crate) async fn within<T>(trace: Option<TraceContext>, answer: impl Future<Output = T>) -> T {
    match trace {
        Some(trace) => INCOMING.scope(trace, answer).await,
        None => answer.await,
    }
}

/// The trace of this REST request.
pub(crate) fn incoming() -> Option<TraceContext> {
    INCOMING.try_with(TraceContext::clone).ok()
}

/// Makes a call of this REST request part of its trace.
pub(crate) fn join(ctx: &mut CallContext) {
    if let Some(trace) = incoming() {
        ctx.join(trace);
    }
}

/// Returns the trace of this MCP request. `_meta` is closer to the client than a header.
pub(crate) fn of_message(context: &RequestContext<RoleServer>) -> Option<TraceContext> {
    let text = |name| context.meta.0.get(name).and_then(serde_json::Value::as_str);
    let of_meta = text(TRACEPARENT).and_then(|parent| TraceContext::parse(parent, text(TRACESTATE)));
    let headers =
        || context.extensions.get::<axum::http::request::Parts>().and_then(|parts| of_headers(&parts.headers));
    of_meta.or_else(headers)
}

/// Makes a run of this MCP request part of its trace.
pub(crate) fn join_message(ctx: &mut CallContext, context: &RequestContext<RoleServer>) {
    if let Some(trace) = of_message(context) {
        ctx.join(trace);
    }
}
