//! HTTP tools: compiling them, previewing their requests, and calling them.

use std::borrow::Cow;
use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use indexmap::IndexMap;
use onetool_sdk::{CallContext, CallReport, ErrorKind, Redactor, ToolError, Validator, Value};
use onetool_state::State;
use onetool_state::bundles::{Bundle, BundleCheck, ErrorMode, Implementation, Tool, ToolCheck, ToolId};
use reqwest::Client;
use serde_json::Value as Json;

use super::arguments::{fitting, with_path_variables};
use super::auth::{Clocks, TokenStore};
use super::exchange::{Reading, Trip};
use super::limits::HttpSettings;
use super::rate::Limiters;
use super::reply::{self, host_of};
use super::request::{DryRun, HttpTool, Rendered};
use super::schema_check::{check_schema, validator_for};
use super::secrets::Secrets;
use super::sequence::{PlannedStep, Sequence, SequenceSettings, check_nesting};
use super::stream::Reader;

/// The user-visible names of a tool's schemas.
const ARG_SCHEMA: &str = "argSchema";
const OUTPUT_SCHEMA: &str = "outputSchema";

/// The result of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    pub value: Json,
    /// The request failed and `errorMode` turned that into an empty value, which need not match the output schema.
    pub is_empty: bool,
}

/// A compiled tool.
#[derive(Debug)]
pub(crate) struct Compiled {
    pub(crate) arguments: Validator,
    pub(crate) output: Option<Validator>,
    pub(crate) work: Work,
}

/// The implementation of a tool.
#[derive(Debug)]
pub(crate) enum Work {
    Http(Box<HttpTool>),
    Native,
    Sequence(Sequence),
}

/// What a call would do, without doing it.
#[derive(Debug, Clone, PartialEq)]
pub enum Preview {
    Request(DryRun),
    Steps(Vec<PlannedStep>),
    /// A native function: there is nothing to show.
    Nothing,
}

/// Sends the requests of HTTP tools.
pub struct HttpEngine {
    pub(crate) settings: HttpSettings,
    pub(crate) secrets: Arc<dyn Secrets>,
    pub(crate) client: OnceLock<Client>,
    pub(crate) hosts: Limiters,
    pub(crate) clocks: Clocks,
    pub(crate) tokens: TokenStore,
    /// Shared state, through which tokens are shared with other processes.
    pub(crate) state: Option<State>,
    tools: Limiters,
    sequences: SequenceSettings,
}

impl HttpEngine {
    pub fn new(settings: HttpSettings, secrets: Arc<dyn Secrets>) -> Self {
        Self {
            settings,
            secrets,
            client: OnceLock::new(),
            tools: Limiters::new("tool"),
            hosts: Limiters::new("host"),
            clocks: Clocks::default(),
            tokens: TokenStore::default(),
            state: None,
            sequences: SequenceSettings::default(),
        }
    }

    #[must_use]
    pub fn with_sequences(self, sequences: SequenceSettings) -> Self {
        Self { sequences, ..self }
    }

    /// The secrets of bundles.
    pub fn secrets(&self) -> &dyn Secrets {
        self.secrets.as_ref()
    }

    pub(crate) fn sequences(&self) -> &SequenceSettings {
        &self.sequences
    }

    /// Shares tokens with all processes that use the same state.
    #[must_use]
    pub fn sharing(mut self, state: State) -> Self {
        self.tools.share(&state);
        self.hosts.share(&state);
        Self { state: Some(state), ..self }
    }

    /// The check that the store runs before it accepts a tool.
    pub fn checker(self: &Arc<Self>) -> ToolCheck {
        let engine = self.clone();
        Arc::new(move |bundle, tool, neighbours| {
            if let Implementation::Sequence(sequence) = &tool.implementation {
                check_nesting(bundle, tool, sequence, neighbours, &engine.sequences)?;
            }
            match engine.check(bundle, tool)? {
                Work::Http(http) => {
                    let hosts = [Some(&http.url.origin), http.token_url().filter(|_| !http.is_built_in)];
                    match hosts.into_iter().flatten().find(|url| !engine.permits(&http, url)) {
                        Some(url) => {
                            Err(format!("the host {} is not allowed; add it to http.allowed_hosts", host_of(url)))
                        }
                        None => Ok(()),
                    }
                }
                Work::Native | Work::Sequence(_) => Ok(()),
            }
        })
    }

    /// The check that the store runs before it accepts a bundle.
    pub fn bundle_checker(self: &Arc<Self>) -> BundleCheck {
        let engine = self.clone();
        Arc::new(move |bundle| bundle.auth.as_ref().map_or(Ok(()), |block| engine.check_block(bundle, block)))
    }

    pub(crate) fn compile(&self, bundle: &Bundle, tool: &Tool) -> Result<Compiled, String> {
        let tool = completed(tool)?;
        let validator = |schema, name| validator_for(schema).map_err(|reason| format!("{name} is not valid: {reason}"));
        let arguments = validator(&tool.arg_schema, ARG_SCHEMA)?;
        let output = tool.output_schema.as_ref().map(|schema| validator(schema, OUTPUT_SCHEMA)).transpose()?;
        Ok(Compiled { arguments, output, work: self.work(bundle, &tool)? })
    }

    /// Fails whenever [`Self::compile`] does, at a fraction of the cost.
    pub(crate) fn check(&self, bundle: &Bundle, tool: &Tool) -> Result<Work, String> {
        let tool = completed(tool)?;
        check_schema(&tool.arg_schema).map_err(|reason| format!("{ARG_SCHEMA} is not valid: {reason}"))?;
        if let Some(schema) = &tool.output_schema {
            check_schema(schema).map_err(|reason| format!("{OUTPUT_SCHEMA} is not valid: {reason}"))?;
        }
        self.work(bundle, &tool)
    }

    fn work(&self, bundle: &Bundle, tool: &Tool) -> Result<Work, String> {
        Ok(match &tool.implementation {
            Implementation::Http(http) => {
                Work::Http(Box::new(HttpTool::compile(bundle, tool, http, self.secrets.as_ref())?))
            }
            Implementation::Native(_) => Work::Native,
            Implementation::Sequence(sequence) => Work::Sequence(Sequence::compile(tool, sequence, &self.sequences)?),
        })
    }

    /// Shows what a call would do.
    pub fn dry_run(
        &self,
        bundle: &Bundle,
        tool: &Tool,
        arguments: &IndexMap<String, Value>,
    ) -> Result<Preview, ToolError> {
        let compiled = self.compile(bundle, tool).map_err(ToolError::arguments)?;
        let arguments = &fitting(&compiled.arguments, arguments.clone(), &tool.arg_schema)?;
        Ok(match compiled.work {
            Work::Http(http) => Preview::Request(http.dry_run(arguments, self.secrets.as_ref())?),
            Work::Sequence(sequence) => Preview::Steps(sequence.plan(arguments)),
            Work::Native => Preview::Nothing,
        })
    }

    /// Counts a call against the tool's own limit, if it has one.
    pub(crate) async fn check_tool_rate(&self, tool: ToolId, limit: Option<NonZeroU32>) -> Result<(), ToolError> {
        match limit {
            Some(limit) => self.tools.check(&tool.to_string(), limit, "this tool").await,
            None => Ok(()),
        }
    }

    pub(crate) async fn call(
        self: &Arc<Self>,
        tool: &HttpTool,
        arguments: &IndexMap<String, Value>,
        ctx: &CallContext,
        report: &mut CallReport,
    ) -> Result<Outcome, ToolError> {
        let started = Instant::now();
        let secrets: HashMap<String, String> = tool
            .secret_names
            .iter()
            .filter_map(|name| Some((name.clone(), self.secrets.get(&tool.bundle_slug, name)?)))
            .collect();
        let values: Vec<&str> = secrets.values().map(String::as_str).collect();
        let masked = |redactor: &Redactor, mut error: ToolError| {
            error.message = redactor.text(&error.message).into_owned();
            error
        };
        let rendered =
            tool.render(arguments, &secrets).map_err(|error| masked(&Redactor::new(values.iter().copied()), error))?;
        let longest = if tool.stream.is_some() { self.settings.max_stream_time } else { self.settings.max_timeout };
        let budget = tool.timeout.min(longest).min(ctx.remaining().unwrap_or(Duration::MAX));
        let mut trip = Trip::new(tool, started + budget, report);
        trip.single_attempt = ctx.single_attempt;
        trip.trace = ctx.trace_headers();
        let result = tokio::select! {
            biased;
            () = ctx.cancel.cancelled() => Err(ToolError::new(ErrorKind::Cancelled, "the call was cancelled")),
            result = tokio::time::timeout(budget, self.value(&mut trip, &rendered, &values, ctx)) => {
                result.unwrap_or_else(|_| Err(late(tool, &rendered, budget)))
            }
        };
        let masks = std::mem::take(&mut trip.masks);
        report.duration = started.elapsed();
        let redactor = Redactor::new(values.iter().copied().chain(masks.iter().map(String::as_str)));
        match result {
            Ok(value) => Ok(Outcome { value: redactor.json(value), is_empty: false }),
            Err(error) if tool.error_mode == ErrorMode::Empty && is_failed_request(&error) => {
                Ok(Outcome { value: Json::Null, is_empty: true })
            }
            Err(error) => Err(masked(&redactor, error)),
        }
    }

    /// Sends the requests of a call and reads the replies.
    async fn value(
        self: &Arc<Self>,
        trip: &mut Trip<'_>,
        request: &Rendered,
        secrets: &[&str],
        ctx: &CallContext,
    ) -> Result<Json, ToolError> {
        let tool = trip.tool;
        if let Some(pages) = &tool.pages {
            return self.all_pages(trip, pages, request, ctx).await;
        }
        let reading = if tool.stream.is_some() { Reading::Live } else { Reading::Whole };
        let mut reply = self.attempts(trip, request, reading).await?;
        trip.report.status = Some(reply.status.as_u16());
        if let Some(stream) = tool.stream.as_ref().filter(|_| reply.live.is_some()) {
            let masks: Vec<&str> = secrets.iter().copied().chain(trip.masks.iter().map(String::as_str)).collect();
            let redactor = Redactor::new(masks.iter().copied());
            let reader = Reader {
                masks: &masks,
                stream,
                extract: &tool.extract,
                encoding: tool.encoding,
                url: &request.url,
                redactor: &redactor,
                progress: ctx.progress.clone(),
            };
            if let Some((value, events)) = self.read_stream(&reader, &mut reply).await? {
                trip.report.events = Some(events);
                return Ok(value);
            }
            if let Some(response) = reply.live.take() {
                reply = self.receive(response, request).await.map_err(|failure| failure.error)?;
            }
        }
        reply::read(tool, &request.url, &reply)
    }
}

/// Returns the tool with path variables required in its schema.
fn completed(tool: &Tool) -> Result<Cow<'_, Tool>, String> {
    if !tool.arg_schema.is_object() {
        return Err("argSchema must be a JSON Schema of an object".to_owned());
    }
    if tool.arg_schema.get("type").is_some_and(|kind| kind != "object") {
        return Err("argSchema must have the type object".to_owned());
    }
    Ok(with_path_variables(tool).map_or(Cow::Borrowed(tool), Cow::Owned))
}

fn late(tool: &HttpTool, request: &Rendered, budget: Duration) -> ToolError {
    let (host, limit) = (host_of(&request.url), budget.as_millis());
    let message = match (&tool.stream, &tool.pages) {
        (Some(_), _) => format!("{host} did not end its stream within {limit} ms"),
        (_, Some(_)) => format!("{host} did not give all pages within {limit} ms"),
        _ => format!("{host} did not answer within {limit} ms"),
    };
    let hint = match &tool.stream {
        Some(_) => "raise the tool's timeoutMs, and http.max_stream_time if that is less",
        None => "raise the tool's timeoutMs if the host is known to be slow",
    };
    ToolError::new(ErrorKind::Timeout, message).with_hint(hint)
}

/// Whether the upstream or the connection to it failed.
fn is_failed_request(error: &ToolError) -> bool {
    matches!(error.kind, ErrorKind::Upstream { .. } | ErrorKind::Timeout | ErrorKind::Unavailable)
}
