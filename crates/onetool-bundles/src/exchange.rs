//! Sends requests: checks the host at every hop, follows redirects, and retries within one deadline.
//!
//! Authentication is applied to each request when it is sent, and only while its target is the tool's own origin.

use std::sync::Arc;
use std::time::Instant;

use http::header::{CONTENT_LENGTH, CONTENT_TYPE, LOCATION};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use onetool_outbound::{AllowedHosts, CheckedResolver, ForbiddenAddress, client_builder};
use onetool_sdk::{CallReport, ErrorKind, TRACEPARENT, TRACESTATE, ToolError, TraceHeaders};
use reqwest::{Client, Url};

use super::auth::{Learned, ReadyAuth, TokenAge, TokenOrder, Wanted};
use super::engine::HttpEngine;
use super::limits::{CONNECT_TIMEOUT, IDLE_CONNECTION, IDLE_CONNECTIONS, MAX_REDIRECTS};
use super::reply::{Reply, host_of, is_success, upstream};
use super::request::{HttpTool, Rendered};
use super::retry::{backoff, is_idempotent, is_passing, retry_after};

/// The state of one call.
pub(crate) struct Trip<'a> {
    pub(crate) tool: &'a HttpTool,
    pub(crate) deadline: Instant,
    pub(crate) report: &'a mut CallReport,
    /// Values to mask besides the secrets: tokens and signatures.
    pub(crate) masks: Vec<String>,
    token: Option<(String, TokenAge)>,
    /// The trace that the call is part of.
    pub(crate) trace: Option<TraceHeaders>,
    /// Disables retries, because the caller does them.
    pub(crate) single_attempt: bool,
    /// Tokens that were refused.
    refused: Vec<String>,
    /// How often a refused request was repeated with another token or a corrected clock.
    second_chances: u32,
}

impl<'a> Trip<'a> {
    pub(crate) fn new(tool: &'a HttpTool, deadline: Instant, report: &'a mut CallReport) -> Self {
        Self {
            tool,
            deadline,
            report,
            masks: Vec::new(),
            token: None,
            trace: None,
            single_attempt: false,
            refused: Vec::new(),
            second_chances: 0,
        }
    }
}

/// How much of a reply is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    Whole,
    /// For a success, only the headers: the body is read in chunks.
    Live,
}

/// A failed attempt.
pub(crate) struct Failure {
    pub(crate) error: ToolError,
    pub(crate) may_retry: bool,
    /// Whether nothing was sent to the other side.
    pub(crate) is_unsent: bool,
}

impl Failure {
    pub(crate) fn last(error: ToolError) -> Self {
        Self { error, may_retry: false, is_unsent: false }
    }
}

impl HttpEngine {
    /// Sends a request, with retries, until there is a final reply.
    pub(crate) async fn attempts(
        self: &Arc<Self>,
        trip: &mut Trip<'_>,
        request: &Rendered,
        reading: Reading,
    ) -> Result<Reply, ToolError> {
        let retries = trip.tool.max_retries.unwrap_or(self.settings.max_retries);
        let retries = if trip.single_attempt { 0 } else { retries };
        let mut tried = 0;
        loop {
            if trip.refused.is_empty() {
                self.bring_token(trip, request, Wanted::Any).await?;
            }
            tried += 1;
            trip.report.attempts += 1;
            let attempt = self.exchange(trip, request, reading).await;
            if let Ok((reply, learned)) = &attempt
                && self.takes_second_chance(trip, request, reply, *learned).await?
            {
                tried -= 1;
                continue;
            }
            let wanted = match &attempt {
                Ok((reply, _)) => {
                    let again = is_idempotent(&request.method)
                        && is_passing(reply.status)
                        && !is_success(trip.tool, reply.status);
                    if !again {
                        return attempt.map(|(reply, _)| reply).map_err(|failure| failure.error);
                    }
                    retry_after(&reply.headers)
                }
                Err(Failure { may_retry: false, .. }) => {
                    return attempt.map(|(reply, _)| reply).map_err(|failure| failure.error);
                }
                Err(_) => None,
            };
            let wait = wanted.unwrap_or_else(|| backoff(tried));
            if tried > retries || Instant::now() + wait >= trip.deadline {
                return attempt.map(|(reply, _)| reply).map_err(|failure| failure.error);
            }
            tokio::time::sleep(wait).await;
        }
    }

    /// Gets a token, if the request needs one.
    async fn bring_token(
        self: &Arc<Self>,
        trip: &mut Trip<'_>,
        request: &Rendered,
        wanted: Wanted,
    ) -> Result<(), ToolError> {
        let Some(ReadyAuth::OAuth2 { method, ready }) = request.auth.as_deref() else { return Ok(()) };
        let own_hosts =
            if trip.tool.is_built_in { AllowedHosts::origin_of(&method.token_url) } else { AllowedHosts::default() };
        let order = TokenOrder { method: method.clone(), ready: ready.clone(), wanted, own_hosts };
        let (token, age) = self.token(order).await?;
        trip.masks.push(token.value.clone());
        trip.masks.extend(token.refresh);
        trip.token = Some((token.value, age));
        Ok(())
    }

    /// Decides whether to repeat a refused request, because there is a new token or the clock was wrong. A refused
    /// request had no effect, so any method may be repeated. If a token cached by another process is refused too, one
    /// more attempt with a new token follows.
    async fn takes_second_chance(
        self: &Arc<Self>,
        trip: &mut Trip<'_>,
        request: &Rendered,
        reply: &Reply,
        learned: Learned,
    ) -> Result<bool, ToolError> {
        let is_kept = trip.token.as_ref().is_some_and(|(_, age)| *age == TokenAge::Kept);
        let most = if is_kept { 2 } else { 1 };
        if trip.second_chances >= most || is_success(trip.tool, reply.status) {
            return Ok(false);
        }
        let helps = match request.auth.as_deref() {
            Some(ReadyAuth::OAuth2 { method, .. }) => method.retry_on.contains(&reply.status.as_u16()),
            Some(auth) => {
                let is_refusal = matches!(reply.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
                    || reply.status == StatusCode::BAD_REQUEST && is_idempotent(&request.method);
                auth.depends_on_time() && learned == Learned::Something && is_refusal
            }
            None => false,
        };
        if !helps {
            return Ok(false);
        }
        trip.second_chances += 1;
        if let Some((old, _)) = trip.token.take() {
            trip.refused.push(old);
            let wanted = Wanted::Instead(trip.refused.clone());
            self.bring_token(trip, request, wanted).await?;
        }
        Ok(true)
    }

    /// Sends one request and follows its redirects.
    async fn exchange(
        &self,
        trip: &mut Trip<'_>,
        request: &Rendered,
        reading: Reading,
    ) -> Result<(Reply, Learned), Failure> {
        let home = request.url.origin();
        let mut request = request.clone();
        for _ in 0..=MAX_REDIRECTS {
            if !self.permits(trip.tool, &request.url) {
                return Err(Failure::last(not_allowed(&request.url)));
            }
            self.count_call(&request.url).await?;
            let mut sent = request.clone();
            if let Some(auth) = request.auth.as_deref().filter(|_| request.url.origin() == home) {
                let masks = auth
                    .apply(&mut sent, &self.clocks, trip.token.as_ref().map(|(token, _)| token.as_str()))
                    .map_err(Failure::last)?;
                trip.masks.extend(masks);
            }
            if let Some(trace) = &trip.trace {
                pass_on(trace, &mut sent.headers);
            }
            let (response, learned) = self.send_head(&sent).await?;
            let status = response.status();
            let redirect = status.is_redirection() && !is_success(trip.tool, status);
            let Some(target) = redirect.then(|| response.headers().get(LOCATION)).flatten() else {
                let is_live = reading == Reading::Live && is_success(trip.tool, status);
                let reply = if is_live { live(response) } else { self.receive(response, &sent).await? };
                return Ok((reply, learned));
            };
            let target = target.to_str().ok().and_then(|target| request.url.join(target).ok()).ok_or_else(|| {
                Failure::last(upstream(Some(status), "it redirects to something that is not an address"))
            })?;
            request = follow(request, target, status)?;
        }
        Err(Failure::last(upstream(None, &format!("it redirects more than {MAX_REDIRECTS} times"))))
    }

    /// Sends one request without following redirects, and reads the whole reply. Used for token endpoints.
    pub(crate) async fn send(&self, request: &Rendered) -> Result<(Reply, Learned), Failure> {
        self.count_call(&request.url).await?;
        let (response, learned) = self.send_head(request).await?;
        Ok((self.receive(response, request).await?, learned))
    }

    async fn count_call(&self, url: &Url) -> Result<(), Failure> {
        let Some(limit) = self.settings.max_calls_per_minute else { return Ok(()) };
        let host = host_of(url);
        self.hosts.check(&host, limit, &host).await.map_err(Failure::last)
    }

    async fn send_head(&self, request: &Rendered) -> Result<(reqwest::Response, Learned), Failure> {
        let sent = request.url.as_str().len()
            + request.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum::<usize>()
            + request.body.as_ref().map_or(0, String::len);
        let limit = self.settings.max_sent_bytes;
        if sent > limit {
            return Err(Failure::last(
                ToolError::new(
                    ErrorKind::TooLarge,
                    format!("the request has {sent} bytes; at most {limit} are allowed"),
                )
                .with_hint("send less, or raise http.max_sent_bytes"),
            ));
        }
        let mut builder =
            self.client()?.request(request.method.clone(), request.url.clone()).headers(request.headers.clone());
        if let Some(body) = &request.body {
            builder = builder.body(body.clone());
        }
        let response = builder.send().await.map_err(|error| failure(error, &request.method, &request.url))?;
        let learned = self.clocks.learn(&host_of(&request.url), response.headers());
        Ok((response, learned))
    }

    /// Reads the whole body, within the size limit.
    pub(crate) async fn receive(&self, mut response: reqwest::Response, request: &Rendered) -> Result<Reply, Failure> {
        let limit = self.settings.max_response_bytes;
        let too_large = || {
            Failure::last(
                ToolError::new(ErrorKind::TooLarge, format!("the reply has more than {limit} bytes"))
                    .with_hint("ask for less, or raise http.max_response_bytes"),
            )
        };
        if response.content_length().is_some_and(|length| length > limit as u64) {
            return Err(too_large());
        }
        let mut body = Vec::new();
        let failed = |error| failure(error, &request.method, &request.url);
        while let Some(chunk) = response.chunk().await.map_err(failed)? {
            if body.len() + chunk.len() > limit {
                return Err(too_large());
            }
            body.extend_from_slice(&chunk);
        }
        let (status, headers) = (response.status(), std::mem::take(response.headers_mut()));
        Ok(Reply { status, headers, body, live: None })
    }

    pub(crate) fn permits(&self, tool: &HttpTool, url: &Url) -> bool {
        self.settings.allowed_hosts.permits(url) || tool.own_hosts.permits(url)
    }

    pub(crate) fn client(&self) -> Result<&Client, Failure> {
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

/// Adds the trace headers, unless the tool sets them itself.
fn pass_on(trace: &TraceHeaders, headers: &mut HeaderMap) {
    if headers.contains_key(TRACEPARENT) {
        return;
    }
    if let Ok(parent) = HeaderValue::try_from(&trace.parent) {
        headers.insert(TRACEPARENT, parent);
    }
    if let Some(state) = trace.state.as_deref().and_then(|state| HeaderValue::try_from(state).ok()) {
        headers.insert(TRACESTATE, state);
    }
}

fn live(response: reqwest::Response) -> Reply {
    let (status, headers) = (response.status(), response.headers().clone());
    Reply { status, headers, body: Vec::new(), live: Some(response) }
}

pub(crate) fn not_allowed(url: &Url) -> ToolError {
    ToolError::denied(format!("the host {} is not allowed", host_of(url))).with_hint("add it to http.allowed_hosts")
}

/// Builds the next request of a redirect. Credentials of one origin are not sent to another.
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
        // A later redirect may lead back to the origin: still without authentication.
        request.auth = None;
    }
    request.url = target;
    Ok(request)
}

pub(crate) fn failure(error: reqwest::Error, method: &Method, url: &Url) -> Failure {
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
        let error = ToolError::new(ErrorKind::Timeout, message);
        return Failure { error, may_retry: is_idempotent(method), is_unsent: false };
    }
    // Nothing was sent if connecting failed, so any method may be retried.
    let is_unsent = error.is_connect();
    let may_retry = is_unsent || is_idempotent(method);
    let error = upstream(None, &format!("{} can't be reached: {root}", host_of(url)));
    Failure { error, may_retry, is_unsent }
}
