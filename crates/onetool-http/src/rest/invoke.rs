//! Calls a tool, or shows what a call would send.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::{Path, RawQuery, Request, State};
use axum::response::{IntoResponse as _, Response};
use indexmap::IndexMap;
use onetool_bundles::Preview;
use onetool_sdk::{
    Arguments, CallContext, ErrorKind, NoProgress, ProgressSink, QualifiedName, Redactor, ReportSlot, ToolCaller,
    ToolError, ToolSource as _, Value,
};
use onetool_state::bundles::{Bundle, BundleView, Implementation, Tool, ToolView};
use tokio_util::sync::DropGuard;
use utoipa_axum::routes;

use super::RestState;
use super::bundles::blocking;
use super::input::{self, ToolPath};
use super::invoke_stream;
use super::model::{CallMeta, ErrorReply, InvokeBody, InvokeReply, RequestReply};
use super::parameters::{BundlePlace, InvokeQuery, ToolPlace, ToolSegments};
use super::query;
use super::routes::Routes;
use super::tools::is_seen;
use crate::{ApiError, Bundles, Identity};

/// How long a call waits for packs that are still loading.
const SETTLE_PATIENCE: Duration = Duration::from_secs(10);

pub(super) fn routes() -> Routes {
    Routes::default().invoke(routes!(invoke))
}

/// Calls a tool. With `dryRun=true` nothing is sent: the reply shows the request, secrets masked. With
/// `Accept: text/event-stream` progress comes as events of the name `progress`, and the reply as the last one, `result` or
/// `error`.
#[utoipa::path(post, path = "/tools/bundles/{bundleID}/tools/{toolSlug}/version/{version}/invoke", tag = "tools",
    request_body = Option<InvokeBody>, params(BundlePlace, ToolPlace, InvokeQuery), responses(
    (status = 200, content((InvokeReply = "application/json"), (String = "text/event-stream"))),
    (status = 400, description = "the arguments do not fit argSchema", body = ErrorReply),
    (status = 403, description = "the host is not allowed", body = ErrorReply),
    (status = 404, body = ErrorReply),
    (status = 409, description = "the tool is disabled or lacks a secret", body = ErrorReply),
    (status = 413, body = ErrorReply),
    (status = 415, body = ErrorReply),
    (status = 422, description = "the value does not fit outputSchema, or the tool raised", body = ErrorReply),
    (status = 429, description = "called too often; see Retry-After", body = ErrorReply),
    (status = 502, description = "the upstream failed", body = ErrorReply),
    (status = 504, description = "the upstream did not answer in time", body = ErrorReply),
))]
async fn invoke(
    State(state): State<RestState>,
    Path(names): ToolSegments,
    RawQuery(query): RawQuery,
    request: Request,
) -> Result<Response, ApiError> {
    let InvokeQuery { dry_run } = query::parse(query.as_deref())?;
    let mode = if dry_run { Mode::DryRun } else { Mode::Send };
    let wants_events = invoke_stream::wants_events(request.headers());
    let context = Identity::of(request.extensions()).context(request.headers());
    let body: Option<Option<InvokeBody>> =
        input::optional_json(request, state.served.server.api.max_body_bytes).await?;
    let body = body.flatten().unwrap_or_default();
    let store = state.served.bundles.store.clone();
    let seen = state.service.runner().toolbox().now_for(&context.requester);
    let path = blocking(move || {
        let path = ToolPath::find(&store, names)?;
        // A call is checked on the call path; a dry run does not get there, so it is checked here.
        if mode == Mode::DryRun && seen.is_narrowed() {
            let view = store.tool(path.bundle, &path.slug, &path.version)?;
            if !is_seen(&seen, &store, &view) {
                return Err(ApiError::not_found(format!("there is no tool {} {}", path.slug, path.version)));
            }
        }
        Ok(path)
    })
    .await?;
    let invoker = Invoker {
        bundles: state.served.bundles.clone(),
        tools: Arc::new(state.service.runner().toolbox().clone()),
        timeout: state.served.server.api.invoke_timeout,
        context,
        redactor: state.service.runner().redactor(),
    };
    if wants_events && mode == Mode::Send {
        return Ok(invoke_stream::answer(invoker, path, body.args));
    }
    Ok(Json(invoker.invoke(path, body.args, mode, Arc::new(NoProgress)).await?).into_response())
}

/// Whether a call is made or only shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Send,
    DryRun,
}

/// Calls tools by bundle, slug and version, for both the REST API and the command line.
pub struct Invoker {
    pub bundles: Bundles,
    /// The one call path.
    pub tools: Arc<dyn ToolCaller>,
    /// Maximum duration of a call.
    pub timeout: Duration,
    /// The caller.
    pub context: CallContext,
    /// Redacts replies.
    pub redactor: Redactor,
}

impl Invoker {
    pub async fn invoke(
        &self,
        path: ToolPath,
        args: serde_json::Map<String, serde_json::Value>,
        mode: Mode,
        progress: Arc<dyn ProgressSink>,
    ) -> Result<InvokeReply, ApiError> {
        let (store, source) = (self.bundles.store.clone(), self.bundles.source.clone());
        let (bundle, tool) = blocking(move || {
            let tool = store.tool(path.bundle, &path.slug, &path.version)?;
            if mode == Mode::Send && tool.is_callable() {
                source.settle(SETTLE_PATIENCE);
            }
            Ok((store.bundle(path.bundle)?, tool))
        })
        .await?;
        let arguments = Arguments::from_json(args);
        if mode == Mode::DryRun {
            return show(&self.bundles, &bundle.bundle, &tool.tool, &arguments.named);
        }
        if let Some(reason) = &tool.disabled_reason {
            let name = format!("{} {}", tool.tool.slug, tool.tool.version);
            return Err(ApiError::conflict(format!("{name} can't be called: {reason}")));
        }
        self.call(&bundle, &tool, arguments, progress).await
    }

    async fn call(
        &self,
        bundle: &BundleView,
        tool: &ToolView,
        arguments: Arguments,
        progress: Arc<dyn ProgressSink>,
    ) -> Result<InvokeReply, ApiError> {
        let mut version = None;
        let name = match &tool.tool.implementation {
            Implementation::Native(native) if tool.tool.is_built_in => native.function.parse::<QualifiedName>()?,
            _ => {
                let name = QualifiedName::new(bundle.bundle.slug.identifier(), tool.tool.slug.identifier());
                self.require_own_pack(bundle, &name)?;
                version = Some(tool.tool.version.as_str());
                name
            }
        };
        let started = Instant::now();
        let mut ctx = self.context.clone();
        ctx.deadline = Some(started + self.timeout);
        ctx.tools = Some(self.tools.clone());
        ctx.progress = progress;
        // When the client disconnects, this future is dropped and cancels the call.
        let _cancel_on_drop: DropGuard = ctx.cancel.clone().drop_guard();
        let reported = ReportSlot::default();
        ctx.report = Some(reported.clone());
        let call = async {
            match version {
                Some(version) => self.tools.call_version(&name, version, arguments, &ctx).await,
                None => self.tools.call_tool(&name, arguments, &ctx).await,
            }
        };
        let result = tokio::time::timeout(self.timeout, call).await;
        let report = reported.take();
        let meta = CallMeta {
            duration_ms: milliseconds(started),
            status: report.as_ref().and_then(|report| report.status),
            attempts: report.as_ref().map(|report| report.attempts).filter(|attempts| *attempts > 0),
            pages: report.as_ref().and_then(|report| Some(report.pages?.pages)),
            cut: report.as_ref().and_then(|report| Some(report.pages?.cut?.as_str().to_owned())),
            events: report.as_ref().and_then(|report| report.events),
            trace: report.map(|report| report.trace).unwrap_or_default(),
            dry_run: false,
        };
        match result {
            Ok(Ok(value)) => {
                let value = self.redactor.value(value).to_json();
                Ok(InvokeReply { ok: true, value, request: None, steps: None, meta })
            }
            Ok(Err(error)) => Err(ApiError::from(self.redactor.error(error)).with_meta(meta)),
            Err(_) => {
                let error = ToolError::new(ErrorKind::Timeout, format!("{name} took too long"));
                Err(ApiError::from(error).with_meta(meta))
            }
        }
    }

    /// Requires that the pack belongs to this bundle: a pack of the same name may belong to another.
    fn require_own_pack(&self, bundle: &BundleView, name: &QualifiedName) -> Result<(), ApiError> {
        let id = bundle.bundle.id.to_string();
        let packs = self.bundles.source.packs();
        let owner = packs.iter().find(|pack| pack.name == name.pack);
        match owner.map(|pack| &pack.origin) {
            Some(onetool_sdk::Origin::Bundle { id: owner }) if *owner != id => Err(ApiError::conflict(format!(
                "the name {} belongs to bundle {owner}; give one of the two another slug, or disable one",
                name.pack
            ))),
            _ => Ok(()),
        }
    }
}

/// Shows what a call would send.
pub(super) fn show(
    bundles: &Bundles,
    bundle: &Bundle,
    tool: &Tool,
    arguments: &IndexMap<String, Value>,
) -> Result<InvokeReply, ApiError> {
    let started = Instant::now();
    let shown = bundles.engine.dry_run(bundle, tool, arguments)?;
    let (mut request, mut steps) = (None, None);
    match shown {
        Preview::Request(shown) => {
            request = Some(RequestReply {
                method: shown.method,
                url: shown.url,
                headers: shown.headers,
                body: shown.body,
                missing_secrets: shown.missing_secrets,
            });
        }
        Preview::Steps(planned) => steps = Some(planned),
        Preview::Nothing => {}
    }
    let meta = CallMeta { duration_ms: milliseconds(started), dry_run: true, ..CallMeta::default() };
    Ok(InvokeReply { ok: true, value: serde_json::Value::Null, request, steps, meta })
}

fn milliseconds(since: Instant) -> f64 {
    (since.elapsed().as_secs_f64() * 1e6).round() / 1e3
}
