//! Access control: who may use the server.
//!
//! Host and Origin are checked for every request, so that neither a page of another site nor a name rebound to this
//! machine can reach the server. On loopback no token is required unless tokens exist; on any other address a server
//! without tokens does not start. A token comes from the configuration, from `onetool tokens` or from the OAuth issuer;
//! each becomes an [`Identity`].

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD,
};
use axum::http::{Extensions, HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use onetool_sdk::{CallContext, Caller, EntryPoint, Requester};
use onetool_state::access_tokens::AccessTokens;
use onetool_state::audit::{AuditEvent, AuditLog, AuditRecord};
use parking_lot::Mutex;
use subtle::ConstantTimeEq as _;

use crate::oauth::{self, OAuth, Refusal, Subject};
use crate::rest::admin::PageSessions;
use crate::{ApiError, PeerAddress, ServerSettings};

/// CORS: the methods that pages of `server.allowed_origins` may use, and the response headers they may read.
const ALLOWED_METHODS: &str = "GET, HEAD, POST, PUT, PATCH, DELETE";
const EXPOSED_HEADERS: &str = "etag, location, mcp-session-id, retry-after, www-authenticate";

/// What a token allows. `Admin` allows everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    Read,
    Invoke,
    Admin,
}

/// A bearer token of the configuration.
#[derive(Clone)]
pub struct AccessToken {
    pub token: String,
    /// The holder's name, for records and groups; defaults to part of the token's fingerprint.
    pub name: Option<String>,
    pub groups: Vec<String>,
    pub scopes: Vec<Scope>,
}

impl AccessToken {
    fn name(&self) -> String {
        let fingerprint = Principal::of(&self.token).fingerprint();
        self.name.clone().unwrap_or_else(|| format!("token-{:08x}", fingerprint >> 32))
    }
}

/// Who makes a request, and what they may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    pub principal: Principal,
    /// None where no token was needed.
    pub name: Option<String>,
    /// The groups that the token itself names.
    pub groups: Vec<String>,
    pub scopes: Vec<Scope>,
}

impl Identity {
    /// The identity of every client of a server that requires no tokens.
    pub fn anyone() -> Self {
        Self { principal: Principal::Anyone, name: None, groups: Vec::new(), scopes: Scope::ALL.to_vec() }
    }

    pub fn may(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope) || self.scopes.contains(&Scope::Admin)
    }

    pub(crate) fn requester(&self, door: EntryPoint, client: Option<String>) -> Arc<Requester> {
        const CLIENT_CHARS: usize = 80;
        let plain = |text: String| text.chars().filter(|c| !c.is_control()).take(CLIENT_CHARS).collect();
        let (principal, groups) = (self.name.clone(), self.groups.clone());
        Arc::new(Requester { principal, groups, client: client.map(plain), door })
    }

    /// Returns the identity that makes this request.
    pub(crate) fn of(extensions: &Extensions) -> Arc<Self> {
        extensions.get::<Arc<Self>>().cloned().unwrap_or_else(|| Arc::new(Self::anyone()))
    }

    /// Builds the call context of a REST request.
    pub(crate) fn context(&self, headers: &HeaderMap) -> CallContext {
        let agent = headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok()).map(str::to_owned);
        let mut ctx = CallContext {
            owner: self.principal.owner(None),
            requester: self.requester(EntryPoint::Rest, agent),
            ..CallContext::new(Caller::Rest)
        };
        crate::trace::join(&mut ctx);
        ctx
    }
}

/// The principal that makes a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Principal {
    /// No token was needed.
    Anyone,
    /// The holder of the token with this fingerprint.
    Token(u64),
}

impl Principal {
    pub(crate) fn of(token: &str) -> Self {
        // Identical in every process, so that what a token's holder started on one server is also theirs on another.
        // The plain hash never leaves the server.
        let hash = blake3::derive_key("onetool principal by bearer token", token.as_bytes());
        Self::from_hash(&hash)
    }

    /// The principal that an issuer identifies by `id`, independent of the token presented.
    fn of_subject(id: &str) -> Self {
        Self::from_hash(&blake3::derive_key("onetool principal by subject", id.as_bytes()))
    }

    fn from_hash(hash: &[u8; 32]) -> Self {
        let (first, _) = hash.split_first_chunk::<8>().unwrap_or((&[0; 8], &[]));
        Self::Token(u64::from_le_bytes(*first))
    }

    /// Returns the owner of what a request leaves behind, such as a run session. `client` distinguishes clients without
    /// a token.
    pub(crate) fn owner(self, client: Option<&str>) -> Arc<str> {
        match (self, client) {
            (Self::Token(fingerprint), _) => format!("token:{fingerprint:016x}").into(),
            (Self::Anyone, Some(client)) => format!("client:{client}").into(),
            (Self::Anyone, None) => Arc::from("http"),
        }
    }

    pub(crate) fn fingerprint(self) -> u64 {
        match self {
            Self::Anyone => 0,
            Self::Token(fingerprint) => fingerprint,
        }
    }
}

/// Reasons why a server may not start.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    #[error(
        "{address} can be reached from other machines, and no token is configured\nhint: make one with `onetool tokens create NAME`, set server.tokens or server.oauth, or bind to 127.0.0.1"
    )]
    NoTokens { address: IpAddr },
    #[error("a token of server.tokens is shorter than {MIN_TOKEN_CHARS} characters")]
    ShortToken,
}

const MIN_TOKEN_CHARS: usize = 16;

/// The access rules for all requests.
pub struct AccessPolicy {
    tokens: Vec<AccessToken>,
    /// Tokens created by name.
    named: Option<Arc<AccessTokens>>,
    /// Other machines can reach this server: a token is always required, even if all tokens are removed.
    is_exposed: bool,
    /// Host names that the server answers to, in lower case, without ports.
    hosts: Vec<String>,
    /// Foreign origins that may call.
    origins: Vec<String>,
    /// The browser that the server was started for.
    sessions: Option<Arc<PageSessions>>,
    oauth: Option<OAuth>,
    audit: Option<Arc<AuditLog>>,
    /// Start of the current minute, and the refused requests recorded in it.
    refusals: Mutex<(Instant, u32)>,
}

/// Maximum number of refused requests recorded per minute, so that a flood does not displace other records.
const REFUSALS_PER_MINUTE: u32 = 600;

/// The parts of a request that access depends on.
pub(crate) struct Asking<'a> {
    pub(crate) headers: &'a HeaderMap,
    pub(crate) extensions: &'a Extensions,
    pub(crate) method: &'a Method,
    pub(crate) path: &'a str,
}

impl<'a> Asking<'a> {
    pub(crate) fn of(request: &'a Request) -> Self {
        Self {
            headers: request.headers(),
            extensions: request.extensions(),
            method: request.method(),
            path: request.uri().path(),
        }
    }
}

impl AccessPolicy {
    /// Creates the rules for a server that listens at `address`. Blocks while it reads the named tokens.
    pub fn new(
        address: IpAddr,
        settings: &ServerSettings,
        named: Option<Arc<AccessTokens>>,
    ) -> Result<Self, AccessError> {
        let tokens = settings.tokens.clone();
        if let Some(named) = &named {
            named.refresh();
        }
        if tokens.iter().any(|token| token.token.chars().count() < MIN_TOKEN_CHARS) {
            return Err(AccessError::ShortToken);
        }
        let mut hosts = vec!["localhost".to_owned()];
        hosts.extend(settings.hosts.iter().map(|host| host.to_ascii_lowercase()));
        let origins = settings.origins.iter().map(|origin| origin.trim_end_matches('/').to_ascii_lowercase()).collect();
        // The server also answers to its public name.
        let public = settings.oauth.as_ref().and_then(|oauth| oauth.public_url.host_str());
        hosts.extend(public.map(str::to_ascii_lowercase));
        let oauth = settings.oauth.clone().map(OAuth::new);
        let refusals = Mutex::new((Instant::now(), 0));
        let (sessions, audit) = (None, None);
        let mut policy = Self { tokens, named, is_exposed: false, hosts, origins, sessions, oauth, audit, refusals };
        // Named tokens may exist even if they cannot be read yet.
        let may_be_named = policy.named.as_ref().is_some_and(|named| named.are_unknown());
        if !address.is_loopback() && !policy.needs_token() && !may_be_named {
            return Err(AccessError::NoTokens { address });
        }
        policy.is_exposed = !address.is_loopback();
        Ok(policy)
    }

    /// Admits a browser with a one-time code; everyone else needs a token.
    #[must_use]
    pub(crate) fn with_sessions(mut self, sessions: Option<Arc<PageSessions>>) -> Self {
        self.sessions = sessions;
        self
    }

    /// Records refused requests in the audit log.
    #[must_use]
    pub(crate) fn with_audit(mut self, audit: Arc<AuditLog>) -> Self {
        self.audit = Some(audit);
        self
    }

    /// Routes from which clients learn how to get a token.
    pub(crate) fn metadata(&self) -> Option<Router> {
        self.oauth.as_ref().map(|oauth| oauth::router(oauth.settings().clone()))
    }

    pub(crate) fn audit(&self) -> Option<&Arc<AuditLog>> {
        self.audit.as_ref()
    }

    pub(crate) fn sessions(&self) -> Option<&PageSessions> {
        self.sessions.as_deref()
    }

    pub(crate) fn needs_token(&self) -> bool {
        self.is_exposed
            || !self.tokens.is_empty()
            || self.sessions.is_some()
            || self.oauth.is_some()
            || self.named.as_ref().is_some_and(|named| named.are_there())
    }

    /// Returns who makes a request, or `None` without a token. An unknown token is an error.
    pub(crate) async fn identity(&self, headers: &HeaderMap) -> Result<Option<Identity>, ApiError> {
        self.refresh().await;
        if !self.needs_token() {
            return Ok(Some(Identity::anyone()));
        }
        let Some(given) = bearer(headers)? else { return Ok(None) };
        let principal = Principal::of(given);
        // Every token is compared, so that the timing reveals nothing.
        let is_given = |token: &str| bool::from(token.as_bytes().ct_eq(given.as_bytes()));
        let mut found = None;
        for token in &self.tokens {
            if is_given(&token.token) {
                found = Some((Some(token.name()), token.groups.clone(), token.scopes.clone()));
            }
        }
        if self.sessions.as_ref().is_some_and(|sessions| is_given(sessions.token())) {
            // The user of this machine, who also owns what runs over standard input leave behind.
            found = Some((None, Vec::new(), vec![Scope::Admin]));
        }
        if found.is_none() {
            found = self.named(given);
        }
        if let (None, Some(named)) = (&found, self.named.clone().filter(|named| named.may_be_new(given))) {
            look(move || named.refresh_at_once()).await;
            found = self.named(given);
        }
        if let (None, Some(oauth)) = (&found, self.oauth.as_ref().filter(|_| OAuth::is_candidate(given))) {
            let Subject { id, name, groups, mut scopes } = oauth.verify(given).await?;
            if scopes.contains(&Scope::Admin) {
                scopes = Scope::ALL.to_vec();
            }
            return Ok(Some(Identity { principal: Principal::of_subject(&id), name: Some(name), groups, scopes }));
        }
        let Some((name, groups, mut scopes)) = found else {
            if self.named.as_ref().is_some_and(|named| named.are_unknown()) {
                return Err(ApiError::busy("the shared state is unavailable: tokens cannot be read now"));
            }
            return Err(ApiError::unauthorised("the bearer token is not known, or has expired"));
        };
        if scopes.contains(&Scope::Admin) {
            scopes = Scope::ALL.to_vec();
        }
        Ok(Some(Identity { principal, name, groups, scopes }))
    }

    /// Picks up tokens that others created or revoked.
    async fn refresh(&self) {
        if let Some(named) = self.named.clone().filter(|named| named.is_due()) {
            look(move || named.refresh()).await;
        }
    }

    fn named(&self, given: &str) -> Option<(Option<String>, Vec<String>, Vec<Scope>)> {
        let named = self.named.as_ref()?;
        let record = named.find(given)?;
        if AccessTokens::wants_note(&record) {
            let (named, record) = (named.clone(), record.clone());
            crate::task::spawn(async move { drop(crate::task::blocking(move || named.note_use(&record)).await) });
        }
        let scopes = record.scopes.iter().filter_map(|scope| Scope::named(scope)).collect();
        Some((Some(record.name.clone()), record.groups.clone(), scopes))
    }

    fn check_site(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        let host = single(headers, &header::HOST)?
            .ok_or_else(|| ApiError::invalid("a request needs a Host header"))?
            .to_ascii_lowercase();
        let name = host_name(&host).ok_or_else(|| ApiError::invalid("the Host header is not valid"))?;
        // A literal address cannot be a rebound name.
        let is_address = name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
        if !is_address && !self.hosts.iter().any(|known| known == name) {
            return Err(ApiError::forbidden("this server does not answer to that Host")
                .with_hint("add the name to server.allowed_hosts"));
        }
        let Some(origin) = single(headers, &header::ORIGIN)? else { return Ok(()) };
        let origin = origin.to_ascii_lowercase();
        let same = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://")) == Some(host.as_str());
        if same || self.origins.contains(&origin) {
            Ok(())
        } else {
            Err(ApiError::forbidden("requests from that Origin are not allowed"))
        }
    }

    /// Returns the request's origin if it is one of `server.allowed_origins`.
    fn other_site(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        let origin = headers.get(header::ORIGIN)?;
        let name = origin.to_str().ok()?.to_ascii_lowercase();
        self.origins.contains(&name).then(|| origin.clone())
    }

    /// Returns the identity of a request that needs the scope `needed`. A refusal tells the client how to authenticate,
    /// and is recorded.
    pub(crate) async fn authenticate(&self, asking: Asking<'_>, needed: Scope) -> Result<Identity, ApiError> {
        let (error, refusal, who) = match self.identity(asking.headers).await {
            Ok(Some(identity)) if identity.may(needed) => return Ok(identity),
            Ok(Some(identity)) => {
                let message = format!("the token lacks the scope '{}'", needed.name());
                (ApiError::forbidden(message), Refusal::InsufficientScope, identity.name)
            }
            Ok(None) => (ApiError::unauthorised("a bearer token is needed"), Refusal::NoToken, None),
            Err(error) => (error, Refusal::InvalidToken, None),
        };
        self.write_down(&asking, &error, who);
        let is_refusal = matches!(error.status(), StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        Err(match self.oauth.as_ref().filter(|_| is_refusal) {
            Some(oauth) => error.challenging(oauth.challenge(refusal, asking.path, needed)),
            None => error,
        })
    }

    fn write_down(&self, asking: &Asking<'_>, error: &ApiError, principal: Option<String>) {
        let Some(audit) = self.audit.as_ref().filter(|audit| audit.is_on()) else { return };
        {
            let mut refusals = self.refusals.lock();
            if refusals.0.elapsed() >= Duration::from_mins(1) {
                *refusals = (Instant::now(), 0);
            }
            refusals.1 += 1;
            if refusals.1 > REFUSALS_PER_MINUTE {
                return;
            }
        }
        let agent = asking.headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok());
        let door =
            if asking.path == "/mcp" || asking.path.starts_with("/sse") { EntryPoint::Mcp } else { EntryPoint::Rest };
        let shown: String = asking.path.chars().take(200).collect();
        audit.record(AuditRecord {
            principal,
            client: agent.map(|agent| agent.chars().take(200).collect()),
            door: Some(door.name().to_owned()),
            address: asking.extensions.get::<PeerAddress>().map(|address| address.0.ip().to_string()),
            tool: Some(format!("{} {shown}", asking.method)),
            error: Some(error.message().to_owned()),
            ..AuditRecord::new(AuditEvent::Auth, "denied")
        });
    }
}

impl Scope {
    const ALL: [Self; 3] = [Self::Read, Self::Invoke, Self::Admin];

    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Invoke => "invoke",
            Self::Admin => "admin",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.name() == name)
    }
}

/// Reads tokens. An unresponsive state must not delay requests; the known tokens stay in effect.
async fn look(work: impl FnOnce() + Send + 'static) {
    const PATIENCE: Duration = Duration::from_secs(1);
    let _ = tokio::time::timeout(PATIENCE, crate::task::blocking(work)).await;
}

/// The bearer token of a request.
fn bearer(headers: &HeaderMap) -> Result<Option<&str>, ApiError> {
    let value = single(headers, &header::AUTHORIZATION)?;
    Ok(value
        .and_then(|value| value.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .map(|(_, token)| token.trim()))
}

/// Returns a header's value; a repeated header is an error.
fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, ApiError> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(ApiError::invalid(format!("the header {name} is given more than once")));
    }
    value.to_str().map(Some).map_err(|_| ApiError::invalid(format!("the header {name} is not plain text")))
}

/// The host of `host[:port]`.
fn host_name(authority: &str) -> Option<&str> {
    if authority.contains(['@', '/', ' ', '\\']) || authority.is_empty() {
        return None;
    }
    let (name, port) = match authority.rfind(']') {
        Some(end) => authority.split_at(end + 1),
        None => authority.find(':').map_or((authority, ""), |at| authority.split_at(at)),
    };
    let port_is_fine = port.is_empty() || port.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok());
    (port_is_fine && !name.is_empty()).then_some(name)
}

/// Checks Host and Origin before anything else.
pub(crate) fn same_site(router: Router, access: Arc<AccessPolicy>) -> Router {
    router.layer(middleware::from_fn_with_state(access, check_site))
}

/// Applies the same rules to another router, such as MCP's.
pub(crate) fn protect(router: Router, access: Arc<AccessPolicy>, scope: Scope) -> Router {
    let tokens = access.clone();
    let check = move |mut request: Request, next: Next| {
        let tokens = tokens.clone();
        async move {
            match tokens.authenticate(Asking::of(&request), scope).await {
                Ok(identity) => {
                    request.extensions_mut().insert(identity.principal);
                    request.extensions_mut().insert(Arc::new(identity));
                    next.run(request).await
                }
                Err(error) => error.into_response(),
            }
        }
    };
    same_site(router.layer(middleware::from_fn(check)), access)
}

async fn check_site(State(access): State<Arc<AccessPolicy>>, request: Request, next: Next) -> Response {
    if let Err(error) = access.check_site(request.headers()) {
        return error.into_response();
    }
    let Some(origin) = access.other_site(request.headers()) else { return next.run(request).await };
    // A preflight request: the browser first asks whether a page of that site may call.
    let headers = request.headers();
    let is_question = request.method() == Method::OPTIONS && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD);
    let mut response = if is_question {
        let wanted = headers.get(ACCESS_CONTROL_REQUEST_HEADERS).cloned();
        let mut response = StatusCode::NO_CONTENT.into_response();
        let answer = response.headers_mut();
        answer.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(ALLOWED_METHODS));
        answer.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
        if let Some(wanted) = wanted {
            answer.insert(ACCESS_CONTROL_ALLOW_HEADERS, wanted);
        }
        response
    } else {
        next.run(request).await
    };
    let answer = response.headers_mut();
    answer.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    answer.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED_HEADERS));
    answer.append(header::VARY, HeaderValue::from_static("origin"));
    response
}
