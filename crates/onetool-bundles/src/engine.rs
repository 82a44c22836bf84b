//! Sending requests: one client for all, hosts checked at every step, one deadline over retries and redirects.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, LOCATION, RETRY_AFTER};
use http::{HeaderMap, Method, StatusCode};
use indexmap::IndexMap;
use jsonschema::Validator;
use onetool_sdk::{CallContext, ErrorKind, Redactor, ToolError, Value};
use onetool_state::bundles::{
    Bundle, BundleCheck, ErrorMode, Implementation, ResponseEncoding, Tool, ToolCheck, ToolId,
};
use reqwest::{Client, Url};
use serde_json::Value as Json;

use super::extract::Extract;
use super::limits::{
    CONNECT_TIMEOUT, ERROR_EXCERPT_CHARS, FIRST_BACKOFF, HttpSettings, IDLE_CONNECTION, IDLE_CONNECTIONS,
    LONGEST_BACKOFF, MAX_REDIRECTS,
};
use super::rate::Limiters;
use super::request::{DryRun, HttpTool, Rendered};
use super::secrets::Secrets;
use super::sequence::{PlannedStep, Sequence, SequenceSettings, StepTrace, check_nesting};
use onetool_outbound::{AllowedHosts, CheckedResolver, ForbiddenAddress, client_builder};

/// How a call went, beside its value.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CallReport {
    /// The last reply's status.
    pub status: Option<u16>,
    /// Requests sent, redirects not counted.
    pub attempts: u32,
    pub duration: Duration,
    /// What became of each step, for a sequence.
    pub trace: Vec<StepTrace>,
}

/// What a call gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    pub value: Json,
    /// The request failed, and the tool's `errorMode` makes that no value: its promise does not hold.
    pub is_empty: bool,
}

/// A tool that has been read: schemas, and what it does.
#[derive(Debug)]
pub(crate) struct Compiled {
    pub(crate) arguments: Validator,
    pub(crate) output: Option<Validator>,
    pub(crate) work: Work,
}

/// What a tool does.
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
    /// A function of this process: there is nothing to show.
    Nothing,
}

/// Sends the requests of HTTP tools.
pub struct HttpEngine {
    settings: HttpSettings,
    secrets: Arc<dyn Secrets>,
    client: OnceLock<Client>,
    tools: Limiters<ToolId>,
    hosts: Limiters<String>,
    sequences: SequenceSettings,
}

struct Reply {
    status: StatusCode,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl HttpEngine {
    pub fn new(settings: HttpSettings, secrets: Arc<dyn Secrets>) -> Self {
        Self {
            settings,
            secrets,
            client: OnceLock::new(),
            tools: Limiters::new(),
            hosts: Limiters::new(),
            sequences: SequenceSettings::default(),
        }
    }

    #[must_use]
    pub fn with_sequences(mut self, sequences: SequenceSettings) -> Self {
        self.sequences = sequences;
        self
    }

    pub(crate) fn sequences(&self) -> &SequenceSettings {
        &self.sequences
    }

    /// What the store asks before it takes a tool.
    pub fn checker(self: &Arc<Self>) -> ToolCheck {
        let engine = self.clone();
        Arc::new(move |bundle, tool, neighbours| {
            if let Implementation::Sequence(sequence) = &tool.implementation {
                check_nesting(bundle, tool, sequence, neighbours, &engine.sequences)?;
            }
            let compiled = engine.compile(bundle, tool)?;
            match compiled.work {
                Work::Http(http) if !engine.permits(&http, &http.url.origin) => Err(format!(
                    "the host {} is not allowed; add it to http.allowed_hosts",
                    http.url.origin.host_str().unwrap_or_default()
                )),
                _ => Ok(()),
            }
        })
    }

    /// What the store asks before it takes a bundle.
    pub fn bundle_checker(self: &Arc<Self>) -> BundleCheck {
        Arc::new(|_| Ok(()))
    }

    pub(crate) fn compile(&self, bundle: &Bundle, tool: &Tool) -> Result<Compiled, String> {
        if !tool.arg_schema.is_object() {
            return Err("argSchema must be a JSON Schema of an object".to_owned());
        }
        if tool.arg_schema.get("type").is_some_and(|kind| kind != "object") {
            return Err("argSchema must have the type object".to_owned());
        }
        let arguments =
            jsonschema::validator_for(&tool.arg_schema).map_err(|error| format!("argSchema is not valid: {error}"))?;
        let output = tool
            .output_schema
            .as_ref()
            .map(|schema| {
                jsonschema::validator_for(schema).map_err(|error| format!("outputSchema is not valid: {error}"))
            })
            .transpose()?;
        let work = match &tool.implementation {
            Implementation::Http(http) => {
                Work::Http(Box::new(HttpTool::compile(bundle, tool, http, self.secrets.as_ref())?))
            }
            Implementation::Native(_) => Work::Native,
            Implementation::Sequence(sequence) => {
                Work::Sequence(Sequence::compile(tool, sequence, &self.sequences)?)
            }
        };
        Ok(Compiled { arguments, output, work })
    }

    /// What a call would do, without doing it.
    pub fn dry_run(
        &self,
        bundle: &Bundle,
        tool: &Tool,
        arguments: &IndexMap<String, Value>,
    ) -> Result<Preview, ToolError> {
        let compiled = self.compile(bundle, tool).map_err(ToolError::arguments)?;
        check_arguments(&compiled.arguments, arguments)?;
        Ok(match compiled.work {
            Work::Http(http) => Preview::Request(http.dry_run(arguments, self.secrets.as_ref())?),
            Work::Sequence(sequence) => Preview::Steps(sequence.plan(arguments)),
            Work::Native => Preview::Nothing,
        })
    }

    /// Counts a call of a tool that has a limit of its own.
    pub(crate) fn check_tool_rate(&self, tool: ToolId, limit: Option<NonZeroU32>) -> Result<(), ToolError> {
        limit.map_or(Ok(()), |limit| self.tools.check(tool, limit, "this tool"))
    }

    pub(crate) async fn call(
        &self,
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
        let redactor = Redactor::new(values.iter().copied().chain(rendered.derived_secrets.iter().map(String::as_str)));
        let budget = tool.timeout.min(self.settings.max_timeout).min(ctx.remaining().unwrap_or(Duration::MAX));
        let deadline = started + budget;
        let reply = tokio::select! {
            biased;
            () = ctx.cancel.cancelled() => Err(ToolError::new(ErrorKind::Cancelled, "the call was cancelled")),
            reply = tokio::time::timeout(budget, self.attempts(tool, &rendered, (deadline, ctx.single_attempt), report)) => reply
                .unwrap_or_else(|_| Err(ToolError::new(
                    ErrorKind::Timeout,
                    format!("{} did not answer within {} ms", host_of(&rendered.url), budget.as_millis()),
                ).with_hint("raise the tool's timeoutMs if the host is known to be slow"))),
        };
        report.duration = started.elapsed();
        let result = reply.and_then(|reply| {
            report.status = Some(reply.status.as_u16());
            read(tool, &rendered.url, &reply)
        });
        match result {
            Ok(value) => Ok(Outcome { value: redactor.json(value), is_empty: false }),
            Err(error) if tool.error_mode == ErrorMode::Empty && is_failed_request(&error) => {
                Ok(Outcome { value: Json::Null, is_empty: true })
            }
            Err(error) => Err(masked(&redactor, error)),
        }
    }

    async fn attempts(
        &self,
        tool: &HttpTool,
        request: &Rendered,
        (deadline, single_attempt): (Instant, bool),
        report: &mut CallReport,
    ) -> Result<Reply, ToolError> {
        let retries =
            if single_attempt { 0 } else { tool.max_retries.unwrap_or(self.settings.max_retries) };
        loop {
            report.attempts += 1;
            let attempt = self.exchange(tool, request).await;
            let retry_after = match &attempt {
                Ok(reply) => {
                    let again = is_idempotent(&request.method)
                        && matches!(reply.status.as_u16(), 408 | 429 | 502 | 503 | 504)
                        && !is_success(tool, reply.status);
                    if !again {
                        return attempt.map_err(|failure| failure.error);
                    }
                    retry_after(&reply.headers)
                }
                Err(Failure { may_retry: false, .. }) => return attempt.map_err(|failure| failure.error),
                Err(_) => None,
            };
            let wait = retry_after.unwrap_or_else(|| backoff(report.attempts));
            if report.attempts > retries || Instant::now() + wait >= deadline {
                return attempt.map_err(|failure| failure.error);
            }
            tokio::time::sleep(wait).await;
        }
    }

    /// One request, and the redirects that it leads to.
    async fn exchange(&self, tool: &HttpTool, request: &Rendered) -> Result<Reply, Failure> {
        let mut request = request.clone();
        for _ in 0..=MAX_REDIRECTS {
            if !self.permits(tool, &request.url) {
                return Err(Failure::last(
                    ToolError::denied(format!("the host {} is not allowed", host_of(&request.url)))
                        .with_hint("add it to http.allowed_hosts"),
                ));
            }
            if let Some(limit) = self.settings.max_calls_per_minute {
                let host = host_of(&request.url);
                self.hosts.check(host.clone(), limit, &host).map_err(Failure::last)?;
            }
            let reply = self.send(&request).await?;
            let redirect = reply.status.is_redirection() && !is_success(tool, reply.status);
            let Some(target) = redirect.then(|| reply.headers.get(LOCATION)).flatten() else { return Ok(reply) };
            let target = target.to_str().ok().and_then(|target| request.url.join(target).ok()).ok_or_else(|| {
                Failure::last(upstream(Some(reply.status), "it redirects to something that is not an address"))
            })?;
            request = follow(request, target, reply.status)?;
        }
        Err(Failure::last(upstream(None, &format!("it redirects more than {MAX_REDIRECTS} times"))))
    }

    async fn send(&self, request: &Rendered) -> Result<Reply, Failure> {
        let sent = request.url.as_str().len()
            + request.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum::<usize>()
            + request.body.as_ref().map_or(0, String::len);
        if sent > self.settings.max_sent_bytes {
            return Err(Failure::last(ToolError::new(
                ErrorKind::TooLarge,
                format!("the request has {sent} bytes; at most {} are allowed", self.settings.max_sent_bytes),
            )));
        }
        let mut builder =
            self.client()?.request(request.method.clone(), request.url.clone()).headers(request.headers.clone());
        if let Some(body) = &request.body {
            builder = builder.body(body.clone());
        }
        let failed = |error: reqwest::Error| failure(error, &request.method, &request.url);
        let mut response = builder.send().await.map_err(failed)?;
        let limit = self.settings.max_response_bytes;
        let too_large =
            || Failure::last(ToolError::new(ErrorKind::TooLarge, format!("the reply has more than {limit} bytes")));
        if response.content_length().is_some_and(|length| length > limit as u64) {
            return Err(too_large());
        }
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(failed)? {
            if body.len() + chunk.len() > limit {
                return Err(too_large());
            }
            body.extend_from_slice(&chunk);
        }
        Ok(Reply { status: response.status(), headers: std::mem::take(response.headers_mut()), body })
    }

    fn permits(&self, tool: &HttpTool, url: &Url) -> bool {
        self.settings.allowed_hosts.permits(url) || tool.own_hosts.permits(url)
    }

    fn client(&self) -> Result<&Client, Failure> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let allowed: Arc<AllowedHosts> = Arc::new(self.settings.allowed_hosts.clone());
        let client = client_builder()
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .referer(false)
            .dns_resolver(Arc::new(CheckedResolver { allowed }))
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_idle_timeout(IDLE_CONNECTION)
            .pool_max_idle_per_host(IDLE_CONNECTIONS)
            .tcp_nodelay(true)
            .build()
            .map_err(|error| Failure::last(ToolError::internal(format!("no HTTP client: {error}"))))?;
        Ok(self.client.get_or_init(|| client))
    }
}

/// A failed attempt.
struct Failure {
    error: ToolError,
    may_retry: bool,
}

impl Failure {
    fn last(error: ToolError) -> Self {
        Self { error, may_retry: false }
    }
}

pub(crate) fn check_arguments(validator: &Validator, arguments: &IndexMap<String, Value>) -> Result<(), ToolError> {
    let json = Json::Object(arguments.iter().map(|(name, value)| (name.clone(), value.to_json())).collect());
    validator.validate(&json).map_err(|error| {
        let place = error.instance_path().to_string();
        let place = if place.is_empty() { String::new() } else { format!("{}: ", place.trim_start_matches('/')) };
        ToolError::arguments(format!("{place}{error}"))
    })
}

fn upstream(status: Option<StatusCode>, message: &str) -> ToolError {
    ToolError::new(ErrorKind::Upstream { status: status.map(|status| status.as_u16()) }, message)
}

/// The value that a reply holds.
fn read(tool: &HttpTool, url: &Url, reply: &Reply) -> Result<Json, ToolError> {
    let text = String::from_utf8_lossy(&reply.body);
    if !is_success(tool, reply.status) {
        let excerpt: String = text.chars().take(ERROR_EXCERPT_CHARS).collect();
        let excerpt = excerpt.split_whitespace().collect::<Vec<_>>().join(" ");
        let colon = if excerpt.is_empty() { "" } else { ": " };
        return Err(upstream(
            Some(reply.status),
            &format!("{} answered {}{colon}{excerpt}", host_of(url), reply.status),
        ));
    }
    if let Extract::Pattern(pattern) = &tool.extract {
        return Ok(Extract::from_text(pattern, &text));
    }
    match tool.encoding {
        ResponseEncoding::Text => Ok(Json::from(text)),
        ResponseEncoding::Json if text.trim().is_empty() => Ok(Json::Null),
        ResponseEncoding::Json => {
            let json: Json = serde_json::from_str(&text).map_err(|error| {
                upstream(Some(reply.status), &format!("{} did not answer with JSON: {error}", host_of(url)))
            })?;
            Ok(match &tool.extract {
                Extract::Path { path, definite } => Extract::from_json(path, *definite, &json),
                Extract::Whole | Extract::Pattern(_) => json,
            })
        }
    }
}

/// Whether it was the other side, or the way there, that failed.
fn is_failed_request(error: &ToolError) -> bool {
    matches!(error.kind, ErrorKind::Upstream { .. } | ErrorKind::Timeout | ErrorKind::Unavailable)
}

fn host_of(url: &Url) -> String {
    url.host_str().unwrap_or_default().to_owned()
}

fn is_success(tool: &HttpTool, status: StatusCode) -> bool {
    if tool.success_codes.is_empty() { status.is_success() } else { tool.success_codes.contains(&status.as_u16()) }
}

fn is_idempotent(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::PUT | Method::DELETE | Method::OPTIONS)
}

/// The next request of a redirect. What belongs to one origin stays there.
fn follow(mut request: Rendered, target: Url, status: StatusCode) -> Result<Rendered, Failure> {
    let denied = |message: String| Failure::last(ToolError::denied(message));
    if !matches!(target.scheme(), "http" | "https") || !target.username().is_empty() || target.password().is_some() {
        return Err(denied(format!("{} redirects to an address that is not allowed", host_of(&request.url))));
    }
    if request.url.scheme() == "https" && target.scheme() == "http" {
        return Err(denied(format!("{} redirects from https to http", host_of(&request.url))));
    }
    let becomes_get = status == StatusCode::SEE_OTHER && request.method != Method::HEAD
        || matches!(status, StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND) && request.method == Method::POST;
    if becomes_get {
        request.method = Method::GET;
        request.body = None;
        for name in [CONTENT_TYPE, CONTENT_LENGTH] {
            request.headers.remove(name);
        }
    }
    if target.origin() != request.url.origin() {
        for name in &request.private_headers {
            request.headers.remove(name);
        }
        if request.body.is_some() && request.body_holds_secret {
            return Err(denied(format!("{} redirects a body with a secret to another host", host_of(&request.url))));
        }
    }
    request.url = target;
    Ok(request)
}

fn failure(error: reqwest::Error, method: &Method, url: &Url) -> Failure {
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    let mut root = String::new();
    while let Some(cause) = source {
        if let Some(forbidden) = cause.downcast_ref::<ForbiddenAddress>() {
            return Failure::last(
                ToolError::denied(forbidden.to_string())
                    .with_hint(format!("if that is meant, add {} to http.allowed_hosts", forbidden.address)),
            );
        }
        root = cause.to_string();
        source = cause.source();
    }
    if error.is_timeout() && !error.is_connect() {
        let message = format!("{} did not answer in time", host_of(url));
        return Failure { error: ToolError::new(ErrorKind::Timeout, message), may_retry: is_idempotent(method) };
    }
    // Nothing was sent when connecting failed, so any method may try again.
    let may_retry = error.is_connect() || is_idempotent(method);
    Failure { error: upstream(None, &format!("{} can't be reached: {root}", host_of(url))), may_retry }
}

/// Full jitter: anything up to twice as long each time.
fn backoff(attempt: u32) -> Duration {
    let longest = FIRST_BACKOFF.saturating_mul(1 << attempt.min(16)).min(LONGEST_BACKOFF);
    let (random, _) = uuid::Uuid::new_v4().as_u64_pair();
    longest.mul_f64((random >> 11) as f64 / (1_u64 << 53) as f64)
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse::<u64>() {
        return Some(Duration::from_secs(seconds));
    }
    let at = DateTime::parse_from_rfc2822(text).ok()?;
    Some((at.to_utc() - Utc::now()).to_std().unwrap_or_default())
}
