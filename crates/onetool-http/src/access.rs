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
        let origins =
            settings.origins.iter().map(|origin| origin.trim_end_matches('/').to_ascii_lowercase()).collect();
        Ok(Self { tokens, hosts, origins })
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

    pub(crate) fn check_token(&self, headers: &HeaderMap, needed: Scope) -> Result<(), ApiError> {
        if self.tokens.is_empty() {
            return Ok(());
        }
        let given = single(headers, &header::AUTHORIZATION)?
            .and_then(|value| value.split_once(' '))
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
            .map(|(_, token)| token.trim());
        let Some(given) = given else { return Err(ApiError::unauthorised("a bearer token is needed")) };
        // Every token is compared, so that the time taken tells nothing.
        let mut found = None;
        for token in &self.tokens {
            if bool::from(token.token.as_bytes().ct_eq(given.as_bytes())) {
                found = Some(token);
            }
        }
        match found {
            None => Err(ApiError::unauthorised("the bearer token is not known")),
            Some(token) if token.scopes.contains(&needed) || token.scopes.contains(&Scope::Admin) => Ok(()),
            Some(_) => Err(ApiError::forbidden(format!("the token lacks the scope '{}'", needed.name()))),
        }
    }
}

impl Scope {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Invoke => "invoke",
            Self::Admin => "admin",
        }
    }
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
    let check = move |request: Request, next: Next| {
        let tokens = tokens.clone();
        async move {
            match tokens.check_token(request.headers(), scope) {
                Ok(()) => next.run(request).await,
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
