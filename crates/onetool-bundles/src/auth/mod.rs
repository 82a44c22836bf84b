//! Authentication of requests.
//!
//! An `auth` block is parsed once (`compile`), gets its secrets when a call begins (`ready`), and is applied again to
//! every request of the call: retries and redirects within the host are signed anew, and a redirect to another origin
//! carries no authentication. `tokens` caches tokens, `clock` tracks clocks, and `probe` tests a block step by step.
//!
//! **Invariant:** whatever a block adds is masked in values, errors and dry runs.

mod apply;
mod clock;
mod hmac;
mod jwt;
mod oauth2;
mod probe;
mod sign_text;
mod sigv4;
mod tokens;

#[cfg(test)]
mod vectors;

use std::collections::BTreeSet;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderName;
use http::header::AUTHORIZATION;
use onetool_sdk::ToolError;
use onetool_state::bundles::{ApiKeyPlace, Auth};
use reqwest::Url;

use crate::request::{Rendered, header_name};
use crate::template::{Bindings, Meaning, Scope, Template, parse, percent_encode, variables};
use apply::set_header;
use hmac::Hmac;
use sigv4::{SigV4, append_query};

pub(crate) use clock::{Clocks, Learned};
pub(crate) use hmac::{Moment, ReadyHmac};
pub(crate) use oauth2::{OAuth2, ReadyOAuth2};
pub use probe::{AuthReport, AuthStep, StepState};
pub(crate) use sigv4::ReadySigV4;
pub(crate) use tokens::{TokenAge, TokenOrder, TokenStore, Wanted};

/// Replaces secrets in a dry run. Plain letters, which no encoding changes.
pub(crate) const PLACEHOLDER: &str = "REDACTED";

/// A parsed block.
#[derive(Debug)]
pub(crate) enum AuthMethod {
    ApiKey { place: KeyPlace, value: Template },
    Basic { username: Template, password: Template },
    Bearer { token: Template },
    OAuth2(Arc<OAuth2>),
    Hmac(Arc<Hmac>),
    SigV4(SigV4),
}

#[derive(Debug, Clone)]
pub(crate) enum KeyPlace {
    Header(HeaderName),
    Query(String),
}

/// A block with its secrets, for one call.
#[derive(Debug, Clone)]
pub(crate) enum ReadyAuth {
    /// `None` if an optional argument is missing: then nothing is sent.
    ApiKey {
        place: KeyPlace,
        value: Option<String>,
    },
    Basic {
        encoded: String,
    },
    Bearer {
        token: Option<String>,
    },
    OAuth2 {
        method: Arc<OAuth2>,
        ready: ReadyOAuth2,
    },
    Hmac {
        method: Arc<Hmac>,
        ready: ReadyHmac,
    },
    SigV4(ReadySigV4),
}

impl AuthMethod {
    pub(crate) fn compile(auth: &Auth, scope: &Scope<'_>) -> Result<Self, String> {
        Ok(match auth {
            Auth::ApiKey { place, name, value } => {
                let place = match place {
                    ApiKeyPlace::Header => KeyPlace::Header(header_name(name)?),
                    ApiKeyPlace::Query if name.is_empty() => return Err("auth.name is missing".to_owned()),
                    ApiKeyPlace::Query => KeyPlace::Query(name.clone()),
                };
                Self::ApiKey { place, value: text(value, "value", scope)? }
            }
            Auth::Basic { username, password } => {
                Self::Basic { username: parse(username, scope)?, password: parse(password, scope)? }
            }
            Auth::Bearer { token } => Self::Bearer { token: text(token, "token", scope)? },
            Auth::OAuth2(auth) => Self::OAuth2(Arc::new(OAuth2::compile(auth, scope)?)),
            Auth::Hmac(auth) => Self::Hmac(Arc::new(Hmac::compile(auth, scope)?)),
            Auth::SigV4(auth) => Self::SigV4(SigV4::compile(auth, scope)?),
        })
    }

    /// The token endpoint, if there is one.
    pub(crate) fn token_url(&self) -> Option<&Url> {
        match self {
            Self::OAuth2(oauth) => Some(&oauth.token_url),
            _ => None,
        }
    }

    /// Names of the required secrets.
    pub(crate) fn secret_names(&self) -> BTreeSet<String> {
        let templates: Vec<&Template> = match self {
            Self::ApiKey { value, .. } => vec![value],
            Self::Basic { username, password } => vec![username, password],
            Self::Bearer { token } => vec![token],
            Self::OAuth2(oauth) => oauth.templates.all().collect(),
            Self::Hmac(hmac) => [&hmac.secret].into_iter().chain(&hmac.key_id).collect(),
            Self::SigV4(sigv4) => {
                [&sigv4.access_key, &sigv4.secret_key].into_iter().chain(&sigv4.session_token).collect()
            }
        };
        let secrets = templates.into_iter().flat_map(|template| variables(template));
        let mut names: BTreeSet<String> = secrets
            .filter(|variable| variable.meaning == Meaning::Secret)
            .map(|variable| variable.name.clone())
            .collect();
        if let Self::Hmac(hmac) = self {
            names.extend(hmac.named_secrets().map(str::to_owned));
        }
        names
    }

    pub(crate) fn ready(&self, bindings: &Bindings<'_>) -> Result<ReadyAuth, ToolError> {
        Ok(match self {
            Self::ApiKey { place, value } => {
                ReadyAuth::ApiKey { place: place.clone(), value: bindings.fill(value, str::to_owned)? }
            }
            Self::Basic { username, password } => {
                let text = |template| Ok::<_, ToolError>(bindings.fill(template, str::to_owned)?.unwrap_or_default());
                ReadyAuth::Basic { encoded: STANDARD.encode(format!("{}:{}", text(username)?, text(password)?)) }
            }
            Self::Bearer { token } => ReadyAuth::Bearer { token: bindings.fill(token, str::to_owned)? },
            Self::OAuth2(oauth) => ReadyAuth::OAuth2 { method: oauth.clone(), ready: oauth.ready(bindings)? },
            Self::Hmac(hmac) => ReadyAuth::Hmac { method: hmac.clone(), ready: hmac.ready(bindings)? },
            Self::SigV4(sigv4) => ReadyAuth::SigV4(sigv4.ready(bindings)?),
        })
    }

    /// Shows in a request what would be added, with placeholders for secrets.
    pub(crate) fn show(&self, request: &mut Rendered) -> Result<(), ToolError> {
        match self {
            Self::ApiKey { place: KeyPlace::Header(name), .. } => set_header(request, name.clone(), PLACEHOLDER),
            Self::ApiKey { place: KeyPlace::Query(name), .. } => {
                append_query(&mut request.url, &format!("{}={PLACEHOLDER}", percent_encode(name)));
                Ok(())
            }
            Self::Basic { .. } => set_header(request, AUTHORIZATION, &format!("Basic {PLACEHOLDER}")),
            Self::Bearer { .. } => set_header(request, AUTHORIZATION, &format!("Bearer {PLACEHOLDER}")),
            Self::OAuth2(oauth) => oauth.apply(request, "<oauth2 token>").map(|()| {
                // The whole header, as it is usually written.
                if request.headers.get(AUTHORIZATION).is_some_and(|value| value == "Bearer <oauth2 token>") {
                    let _ = set_header(request, AUTHORIZATION, "<oauth2 token>");
                }
            }),
            Self::Hmac(hmac) => hmac.show(request),
            Self::SigV4(sigv4) if sigv4.is_in_query() => {
                append_query(&mut request.url, &format!("X-Amz-Signature={}", percent_encode("<sigv4 signature>")));
                Ok(())
            }
            Self::SigV4(_) => set_header(request, AUTHORIZATION, "<sigv4 signature>"),
        }
    }
}

impl ReadyAuth {
    /// Adds authentication to a request. Returns values derived from secrets, which must be masked too.
    pub(crate) fn apply(
        &self,
        request: &mut Rendered,
        clocks: &Clocks,
        token: Option<&str>,
    ) -> Result<Vec<String>, ToolError> {
        let host = request.url.host_str().unwrap_or_default().to_owned();
        match self {
            Self::ApiKey { value: None, .. } | Self::Bearer { token: None } => Ok(Vec::new()),
            Self::ApiKey { place: KeyPlace::Header(name), value: Some(value) } => {
                set_header(request, name.clone(), value)?;
                Ok(Vec::new())
            }
            Self::ApiKey { place: KeyPlace::Query(name), value: Some(value) } => {
                let is_there = request.url.query_pairs().any(|(one, _)| one == name.as_str());
                if !is_there {
                    append_query(&mut request.url, &format!("{}={}", percent_encode(name), percent_encode(value)));
                }
                Ok(Vec::new())
            }
            Self::Basic { encoded } => {
                set_header(request, AUTHORIZATION, &format!("Basic {encoded}"))?;
                Ok(vec![encoded.clone()])
            }
            Self::Bearer { token: Some(token) } => {
                set_header(request, AUTHORIZATION, &format!("Bearer {token}"))?;
                Ok(Vec::new())
            }
            Self::OAuth2 { method, .. } => {
                method.apply(request, token.unwrap_or_default())?;
                Ok(Vec::new())
            }
            Self::Hmac { method, ready } => {
                let now = if method.follows_host_clock() { clocks.now(&host) } else { chrono::Utc::now() };
                method.apply(ready, request, &Moment { now, nonce: method.nonce()? })
            }
            Self::SigV4(sigv4) => sigv4.apply(request, clocks.now(&host)),
        }
    }

    /// Whether the signature covers the time, so that a wrong clock can cause a refusal.
    pub(crate) fn depends_on_time(&self) -> bool {
        match self {
            Self::Hmac { method, .. } => method.follows_host_clock(),
            Self::SigV4(_) => true,
            _ => false,
        }
    }
}

fn text(value: &str, name: &str, scope: &Scope<'_>) -> Result<Template, String> {
    if value.contains(|c: char| c.is_control() && c != '\t') {
        return Err(format!("auth.{name} holds a control character"));
    }
    parse(value, scope)
}
