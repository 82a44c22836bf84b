//! `tools/call`: executes a run and converts its outcome to a result.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::FutureExt as _;
use onetool_run::{RunOptions, RunReply};
use onetool_sdk::{CallContext, Caller, EntryPoint, Part, ProgressSink, Requester};
use rmcp::model::{
    CallToolResponse, CallToolResult, ClientCapabilities, ContentBlock, InputRequiredResult, InputResponses,
    ProtocolVersion,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};

use super::Handler;
use super::http::SESSION_HEADER;
use super::logging::ClientLog;
use super::preferences::ReplyPreferences;
use super::progress::ClientProgress;
use super::rounds::{ActiveRun, Binding, InvalidState, ParkedRun, Step};
use crate::{Identity, Principal, Scope, trace};

impl Handler {
    /// Executes a run for a client that can be asked while it waits.
    pub(super) async fn run(
        &self,
        command: &str,
        options: RunOptions,
        context: RequestContext<RoleServer>,
    ) -> RunReply {
        let mut ctx = CallContext::new(Caller::Run);
        ctx.owner = owner(&context);
        ctx.requester = requester(&context);
        trace::join_message(&mut ctx, &context);
        ctx.cancel = context.ct.child_token();
        let mut progress = None;
        if let Some(token) = context.meta.get_progress_token() {
            let (sending, sink) = ClientProgress::start(context.peer.clone(), token);
            progress = Some(sending);
            ctx.progress = sink;
        }
        ctx.client = Some(self.client(&context.peer));
        if self.may_trust(&context) {
            self.service.offer_trust(&ctx).await;
        }
        let reply = guarded(self.service.runner().run_with_options(command, ctx, options)).await;
        if let Some(progress) = progress {
            progress.finish().await;
        }
        reply
    }

    /// Executes a run for a client that is told which input is needed, and calls again.
    pub(super) async fn run_in_rounds(
        &self,
        command: &str,
        retry: Option<(String, InputResponses)>,
        key: Option<String>,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let binding = Binding { principal: principal(&context), command };
        let capabilities = context.client_capabilities().unwrap_or_default();
        let mut run = match retry {
            Some((state, answers)) => match self.shared.waiting.take(&state, binding).map_err(invalid_state)? {
                ParkedRun::Own(mut run) => {
                    run.answer(answers);
                    run
                }
                ParkedRun::Live(handle) => {
                    handle.run.answer(answers);
                    return Ok(self.follow(handle, binding, &context).await);
                }
                ParkedRun::Offer(_) => return Err(invalid_state(InvalidState)),
            },
            None if key.is_some() => return Ok(self.run_keyed_in_rounds(binding, key, &context).await),
            None if capabilities.supports_tasks() => {
                return Ok(self.run_as_task(binding, &context).await);
            }
            None => self.start(command.to_owned(), &context, ReplyPreferences::of(&context).options()),
        };
        let hearing = ClientUpdates::start(self, &context);
        run.progress.connect(hearing.sink());
        let step = run.advance(&context.ct).await;
        run.progress.connect(None);
        hearing.finish().await;
        Ok(match step {
            Step::Finished(reply) => result_of(reply).into(),
            Step::NeedsInput(requests) => {
                let patience = self.service.served().server.mcp.input_timeout;
                let state = self.shared.waiting.park(ParkedRun::Own(run), binding, patience);
                InputRequiredResult::new(Some(requests), Some(state)).into()
            }
        })
    }

    fn start(&self, command: String, context: &RequestContext<RoleServer>, options: RunOptions) -> ActiveRun {
        let service = self.service.clone();
        let may_trust = self.may_trust(context);
        let (owner, requester) = (owner(context), requester(context));
        let mut joined = CallContext::new(Caller::Run);
        trace::join_message(&mut joined, context);
        let capabilities: ClientCapabilities = context.client_capabilities().unwrap_or_default();
        ActiveRun::new(capabilities, failed_inside, move |client, progress, cancel| {
            let mut ctx = joined;
            ctx.owner = owner;
            ctx.requester = requester;
            ctx.cancel = cancel;
            ctx.progress = progress;
            ctx.client = Some(client);
            Box::pin(async move {
                if may_trust {
                    service.offer_trust(&ctx).await;
                }
                guarded(service.runner().run_with_options(&command, ctx, options)).await
            })
        })
    }

    /// Whether this client may trust the project's folder: where tokens are required, it needs the scope `admin`.
    fn may_trust(&self, context: &RequestContext<RoleServer>) -> bool {
        identity(context).may(Scope::Admin)
    }
}

/// What a client of the new revision receives while it waits: progress and log messages, each only if requested.
pub(super) struct ClientUpdates {
    log: ClientLog,
    progress: Option<(ClientProgress, Arc<dyn ProgressSink>)>,
}

impl ClientUpdates {
    pub(super) fn start(handler: &Handler, context: &RequestContext<RoleServer>) -> Self {
        let log = ClientLog::default();
        // The log shows the activity of all users.
        if let Some(level) = context.meta.log_level().filter(|_| identity(context).may(Scope::Admin)) {
            log.set_level(&*handler.service, context.peer.clone(), level);
        }
        let token = context.meta.get_progress_token();
        Self { log, progress: token.map(|token| ClientProgress::start(context.peer.clone(), token)) }
    }

    pub(super) fn sink(&self) -> Option<Arc<dyn ProgressSink>> {
        self.progress.as_ref().map(|(_, sink)| sink.clone())
    }

    /// Sends the remaining messages: nothing may follow the reply.
    pub(super) async fn finish(self) {
        if let Some((progress, sink)) = self.progress {
            drop(sink);
            progress.finish().await;
        }
        self.log.finish().await;
    }
}

/// Ensures that a panic ends this run, not the session.
async fn guarded(run: impl Future<Output = RunReply>) -> RunReply {
    AssertUnwindSafe(Box::pin(run)).catch_unwind().await.unwrap_or_else(|_| {
        tracing::error!("a run panicked");
        failed_inside()
    })
}

pub(super) fn failed_inside() -> RunReply {
    RunReply { text: "RuntimeError: internal error; see the server log".to_owned(), parts: Vec::new(), is_error: true }
}

/// Whether the request follows revision 2026-07-28, in which servers send no requests.
pub(super) fn is_stateless(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str())
}

pub(super) fn principal(context: &RequestContext<RoleServer>) -> Principal {
    let parts = context.extensions.get::<axum::http::request::Parts>();
    parts.and_then(|parts| parts.extensions.get::<Principal>().copied()).unwrap_or(Principal::Anyone)
}

/// Returns who makes a request. On standard input it is the user of this process.
pub(super) fn identity(context: &RequestContext<RoleServer>) -> Arc<Identity> {
    let parts = context.extensions.get::<axum::http::request::Parts>();
    parts.map_or_else(|| Arc::new(Identity::anyone()), |parts| Identity::of(&parts.extensions))
}

/// Returns who makes a request, for policies and records.
pub(super) fn requester(context: &RequestContext<RoleServer>) -> Arc<Requester> {
    let is_http = context.extensions.get::<axum::http::request::Parts>().is_some();
    let client = context.client_info().map(|client| format!("{} {}", client.name, client.version));
    identity(context).requester(if is_http { EntryPoint::Mcp } else { EntryPoint::Stdio }, client)
}

/// Returns the owner of a run. A client without a token is identified by its session, if it has one.
pub(super) fn owner(context: &RequestContext<RoleServer>) -> Arc<str> {
    let Some(parts) = context.extensions.get::<axum::http::request::Parts>() else { return Arc::from("") };
    let header = parts.headers.get(SESSION_HEADER).and_then(|id| id.to_str().ok());
    // The older transport passes it in the query.
    let query = parts.uri.query().and_then(|query| query.split('&').find_map(|pair| pair.strip_prefix("sessionId=")));
    principal(context).owner(header.or(query))
}

pub(super) fn invalid_state(error: InvalidState) -> ErrorData {
    ErrorData::invalid_params(error.to_string(), None)
}

pub(super) fn refused(text: &str) -> CallToolResult {
    result_of(RunReply { text: text.to_owned(), parts: Vec::new(), is_error: true })
}

pub(super) fn result_of(reply: RunReply) -> CallToolResult {
    let mut content = Vec::with_capacity(1 + reply.parts.len());
    if !reply.text.is_empty() || reply.parts.is_empty() {
        content.push(ContentBlock::text(reply.text));
    }
    content.extend(reply.parts.into_iter().map(block));
    if reply.is_error { CallToolResult::error(content) } else { CallToolResult::success(content) }
}

fn block(part: Part) -> ContentBlock {
    match part {
        Part::Text(text) => ContentBlock::text(text),
        Part::Image { media_type, data } => ContentBlock::image(STANDARD.encode(data), media_type),
        Part::Other(json) => {
            let text = json.to_string();
            serde_json::from_value(json).unwrap_or_else(|_| ContentBlock::text(text))
        }
    }
}
