//! Who may come in.
//!
//! Host and Origin are checked for every request, so that a page of another site, or a name that was rebound to this
//! machine, gets nothing. On loopback nobody needs a token unless tokens are configured; on any other address a server
//! without tokens does not start.

use std::net::IpAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use subtle::ConstantTimeEq as _;

use crate::rest::admin::PageSessions;
use crate::{ApiError, ServerSettings};

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
    pub scopes: Vec<Scope>,
}

/// Whose request it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Principal {
    /// No token was needed.
    Anyone,
    /// Whoever holds the token with this fingerprint.
    Token(u64),
}

impl Principal {
    pub(crate) fn of(token: &str) -> Self {
        // The same in every process, so that what a token's holder started on one is theirs on the next. It never leaves
        // the server as it is.
        let hash = blake3::derive_key("onetool principal by bearer token", token.as_bytes());
        let (first, _) = hash.split_first_chunk::<8>().unwrap_or((&[0; 8], &[]));
        Self::Token(u64::from_le_bytes(*first))
    }

    /// The owner of what a request leaves behind, such as a session of runs. `client` tells clients without a token apart.
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

/// Why a server may not start so.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    #[error(
        "{address} can be reached from other machines, and no token is configured; set server.tokens or bind to 127.0.0.1"
    )]
    NoTokens { address: IpAddr },
    #[error("a token of server.tokens is shorter than {MIN_TOKEN_CHARS} characters")]
    ShortToken,
}

const MIN_TOKEN_CHARS: usize = 16;

/// The rules for everyone who comes in.
pub struct AccessPolicy {
    tokens: Vec<AccessToken>,
    /// Names that the server answers to, in lower case, without ports.
    hosts: Vec<String>,
    /// Foreign origins that may call.
    origins: Vec<String>,
    /// The browser that the server was started for.
    sessions: Option<Arc<PageSessions>>,
}

impl AccessPolicy {
    /// The rules for a server that listens at `address`.
    pub fn new(address: IpAddr, settings: &ServerSettings) -> Result<Self, AccessError> {
        let tokens = settings.tokens.clone();
        if !address.is_loopback() && tokens.is_empty() {
            return Err(AccessError::NoTokens { address });
        }
        if tokens.iter().any(|token| token.token.chars().count() < MIN_TOKEN_CHARS) {
            return Err(AccessError::ShortToken);
        }
        let mut hosts = vec!["localhost".to_owned()];
        hosts.extend(settings.hosts.iter().map(|host| host.to_ascii_lowercase()));
        let origins = settings.origins.iter().map(|origin| origin.trim_end_matches('/').to_ascii_lowercase()).collect();
        Ok(Self { tokens, hosts, origins, sessions: None })
    }

    /// Lets a browser in with a one-time code, and nobody without a token.
    #[must_use]
    pub(crate) fn with_sessions(mut self, sessions: Option<Arc<PageSessions>>) -> Self {
        self.sessions = sessions;
        self
    }

    pub(crate) fn sessions(&self) -> Option<&PageSessions> {
        self.sessions.as_deref()
    }

    pub(crate) fn needs_token(&self) -> bool {
        !self.tokens.is_empty() || self.sessions.is_some()
    }

    /// What a request may do. A token that is not known is an error, a missing one is not.
    pub(crate) fn scopes(&self, headers: &HeaderMap) -> Result<Vec<Scope>, ApiError> {
        if !self.needs_token() {
            return Ok(Scope::ALL.to_vec());
        }
        let Some(given) = bearer(headers)? else { return Ok(Vec::new()) };
        // Every token is compared, so that the time taken tells nothing.
        let is_given = |token: &str| bool::from(token.as_bytes().ct_eq(given.as_bytes()));
        let mut found = None;
        for token in &self.tokens {
            if is_given(&token.token) {
                found = Some(token.scopes.clone());
            }
        }
        if self.sessions.as_ref().is_some_and(|sessions| is_given(sessions.token())) {
            found = Some(vec![Scope::Admin]);
        }
        match found {
            None => Err(ApiError::unauthorised("the bearer token is not known")),
            Some(scopes) if scopes.contains(&Scope::Admin) => Ok(Scope::ALL.to_vec()),
            Some(scopes) => Ok(scopes),
        }
    }

    fn check_site(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        let host = single(headers, &header::HOST)?
            .ok_or_else(|| ApiError::invalid("a request needs a Host header"))?
            .to_ascii_lowercase();
        let name = host_name(&host).ok_or_else(|| ApiError::invalid("the Host header is not valid"))?;
        // An address cannot be a name that was rebound to this machine.
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

    pub(crate) fn check_token(&self, headers: &HeaderMap, needed: Scope) -> Result<Principal, ApiError> {
        if !self.needs_token() {
            return Ok(Principal::Anyone);
        }
        let Some(given) = bearer(headers)? else {
            return Err(ApiError::unauthorised("a bearer token is needed"));
        };
        if self.scopes(headers)?.contains(&needed) {
            Ok(Principal::of(given))
        } else {
            Err(ApiError::forbidden(format!("the token lacks the scope '{}'", needed.name())))
        }
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
}

/// The bearer token of a request.
fn bearer(headers: &HeaderMap) -> Result<Option<&str>, ApiError> {
    let value = single(headers, &header::AUTHORIZATION)?;
    Ok(value
        .and_then(|value| value.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .map(|(_, token)| token.trim()))
}

/// A header's value; two of them are one too many.
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

/// Guards another router, such as MCP's, with the same rules.
pub(crate) fn protect(router: Router, access: Arc<AccessPolicy>, scope: Scope) -> Router {
    let tokens = access.clone();
    let check = move |mut request: Request, next: Next| {
        let tokens = tokens.clone();
        async move {
            match tokens.check_token(request.headers(), scope) {
                Ok(principal) => {
                    request.extensions_mut().insert(principal);
                    next.run(request).await
                }
                Err(error) => error.into_response(),
            }
        }
    };
    same_site(router.layer(middleware::from_fn(check)), access)
}

async fn check_site(State(access): State<Arc<AccessPolicy>>, request: Request, next: Next) -> Response {
    match access.check_site(request.headers()) {
        Ok(()) => next.run(request).await,
        Err(error) => error.into_response(),
    }
}
