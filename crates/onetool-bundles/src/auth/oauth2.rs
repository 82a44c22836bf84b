//! OAuth 2 requests to a token endpoint and their replies. `tokens` caches the tokens.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, Utc};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method};
use indexmap::IndexMap;
use onetool_sdk::ToolError;
use onetool_state::bundles::{ApplyEntry, ApplyPlace, ClientAuth, JwtAlgorithm, OAuth2Auth, OAuth2Grant};
use reqwest::Url;
use serde_json::Value as Json;
use serde_json_path::JsonPath;

use super::apply::{Entry, apply_entry};
use super::jwt::{Claims, SigningKey, assertion};
use super::sign_text::{Part, SignText};
use crate::request::Rendered;
use crate::template::{Bindings, Scope, Template, parse, percent_encode};

const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
/// Statuses that a new token may fix.
const RETRY_ON: &[u16] = &[401];
/// Maximum size of a token; a header has no room for more.
const TOKEN_BYTES: usize = 32 * 1024;
/// How long before expiry a token is renewed by default; at most a tenth of its lifetime.
const REFRESH_BEFORE: Duration = Duration::from_mins(1);
/// Longer lifetimes are capped to this, in seconds.
const LONGEST_LIFE: u64 = 400 * 24 * 3600;

/// A parsed block.
#[derive(Debug)]
pub(crate) struct OAuth2 {
    grant: OAuth2Grant,
    pub(crate) token_url: Url,
    client_auth: ClientAuth,
    algorithm: JwtAlgorithm,
    rotates: bool,
    pub(crate) templates: OAuth2Templates,
    scopes: String,
    token_path: JsonPath,
    expires_path: JsonPath,
    default_ttl: u64,
    /// `None` if the block does not set it.
    refresh_before: Option<u64>,
    entries: Vec<Entry>,
    pub(crate) retry_on: Vec<u16>,
    /// The stored block, which identifies it among others.
    block: String,
}

/// The templates of a block, which may contain secrets.
#[derive(Debug, Default)]
pub(crate) struct OAuth2Templates {
    client_id: Template,
    client_secret: Option<Template>,
    refresh_token: Option<Template>,
    private_key: Option<Template>,
    key_id: Option<Template>,
    subject: Option<Template>,
    audience: Option<Template>,
    resource: Option<Template>,
    extra: Vec<(String, Template)>,
}

impl OAuth2Templates {
    pub(crate) fn all(&self) -> impl Iterator<Item = &Template> {
        let optional = [
            &self.client_secret,
            &self.refresh_token,
            &self.private_key,
            &self.key_id,
            &self.subject,
            &self.audience,
            &self.resource,
        ];
        [&self.client_id].into_iter().chain(optional.into_iter().flatten()).chain(self.extra.iter().map(|(_, one)| one))
    }
}

/// A block with its secrets.
#[derive(Debug, Clone)]
pub(crate) struct ReadyOAuth2 {
    pub(crate) client_id: String,
    pub(crate) client_secret: Option<String>,
    /// The configured refresh token; rotation may have replaced it.
    pub(crate) refresh_token: Option<String>,
    private_key: Option<String>,
    key_id: Option<String>,
    subject: Option<String>,
    audience: Option<String>,
    resource: Option<String>,
    extra: Vec<(String, String)>,
    token_url: String,
    block: String,
}

/// A token and its validity.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Token {
    pub(crate) value: String,
    pub(crate) expires: DateTime<Utc>,
    /// When to request the next one.
    #[serde(default)]
    pub(crate) renew: Option<DateTime<Utc>>,
    /// The next refresh token, if the server rotated it.
    pub(crate) refresh: Option<String>,
}

impl Token {
    /// Whether the token is not due for renewal yet.
    pub(crate) fn is_fresh(&self) -> bool {
        self.renew.unwrap_or(self.expires) > Utc::now()
    }

    /// Whether the token has not expired.
    pub(crate) fn is_valid(&self) -> bool {
        self.expires > Utc::now()
    }
}

/// Why a token endpoint issued no token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) code: String,
    pub(crate) description: String,
}

impl OAuth2 {
    pub(crate) fn compile(auth: &OAuth2Auth, scope: &Scope<'_>) -> Result<Self, String> {
        let token_url =
            Url::parse(&auth.token_url).map_err(|error| format!("auth.tokenUrl '{}': {error}", auth.token_url))?;
        if !matches!(token_url.scheme(), "http" | "https") || !token_url.has_host() {
            return Err("auth.tokenUrl must start with http:// or https://".to_owned());
        }
        if !token_url.username().is_empty() || token_url.password().is_some() {
            return Err("auth.tokenUrl must not hold a user name; use clientId and clientSecret".to_owned());
        }
        let missing = |what: &str, why: &str| Err(format!("auth.{what} is missing; {why} needs it"));
        if auth.client_id.is_empty() && auth.grant != OAuth2Grant::JwtBearer {
            return missing("clientId", "oauth2");
        }
        if matches!(auth.client_auth, ClientAuth::Basic | ClientAuth::Body)
            && auth.client_secret.is_none()
            && auth.grant != OAuth2Grant::JwtBearer
        {
            return missing("clientSecret", "this clientAuth (use \"none\" for a public client)");
        }
        if auth.client_auth == ClientAuth::PrivateKeyJwt && auth.private_key.is_none() {
            return missing("privateKey", "private_key_jwt");
        }
        if auth.grant == OAuth2Grant::RefreshToken && auth.refresh_token.is_none() {
            return missing("refreshToken", "the grant refresh_token");
        }
        if auth.grant == OAuth2Grant::JwtBearer && auth.private_key.is_none() {
            return missing("privateKey", "the grant jwt_bearer");
        }
        let optional = |text: &Option<String>| text.as_ref().map(|text| parse(text, scope)).transpose();
        let templates = OAuth2Templates {
            client_id: parse(&auth.client_id, scope)?,
            client_secret: optional(&auth.client_secret)?,
            refresh_token: optional(&auth.refresh_token)?,
            private_key: optional(&auth.private_key)?,
            key_id: optional(&auth.key_id)?,
            subject: optional(&auth.subject)?,
            audience: optional(&auth.audience)?,
            resource: optional(&auth.resource)?,
            extra: extra(&auth.extra_params, scope)?,
        };
        let path = |text: Option<&str>, usual: &str, name: &str| {
            JsonPath::parse(text.unwrap_or(usual)).map_err(|error| format!("auth.{name}: {error}"))
        };
        let usual = [ApplyEntry {
            place: ApplyPlace::Header,
            name: "Authorization".to_owned(),
            value: "Bearer ${token}".to_owned(),
        }];
        let given = if auth.apply.is_empty() { &usual[..] } else { &auth.apply };
        let entries = given.iter().map(Entry::compile).collect::<Result<Vec<_>, _>>()?;
        if !entries.iter().any(|entry| entry.value.uses(&Part::Token)) {
            return Err("no entry of auth.apply holds ${token}".to_owned());
        }
        if entries.iter().flat_map(|entry| entry.value.parts()).any(|part| *part != Part::Token) {
            return Err("entries of auth.apply may hold ${token} and nothing else of a request".to_owned());
        }
        Ok(Self {
            grant: auth.grant,
            token_url,
            client_auth: auth.client_auth,
            algorithm: auth.algorithm.unwrap_or_default(),
            rotates: auth.rotate.unwrap_or(true),
            templates,
            scopes: auth.scopes.join(auth.scope_separator.as_deref().unwrap_or(" ")),
            token_path: path(auth.token_path.as_deref(), "$.access_token", "tokenPath")?,
            expires_path: path(auth.expires_path.as_deref(), "$.expires_in", "expiresPath")?,
            default_ttl: auth.default_ttl.unwrap_or(3600),
            refresh_before: auth.refresh_before,
            entries,
            retry_on: auth.retry_on.clone().unwrap_or_else(|| RETRY_ON.to_vec()),
            block: serde_json::to_string(auth).map_err(|error| error.to_string())?,
        })
    }

    pub(crate) fn ready(&self, bindings: &Bindings<'_>) -> Result<ReadyOAuth2, ToolError> {
        let text =
            |template: &Template| Ok::<_, ToolError>(bindings.fill(template, str::to_owned)?.unwrap_or_default());
        let optional = |template: &Option<Template>| template.as_ref().map(text).transpose();
        let templates = &self.templates;
        Ok(ReadyOAuth2 {
            client_id: text(&templates.client_id)?,
            client_secret: optional(&templates.client_secret)?,
            refresh_token: optional(&templates.refresh_token)?.filter(|_| self.grant == OAuth2Grant::RefreshToken),
            private_key: optional(&templates.private_key)?,
            key_id: optional(&templates.key_id)?,
            subject: optional(&templates.subject)?,
            audience: optional(&templates.audience)?,
            resource: optional(&templates.resource)?,
            extra: templates
                .extra
                .iter()
                .map(|(name, template)| Ok::<_, ToolError>((name.clone(), text(template)?)))
                .collect::<Result<_, _>>()?,
            token_url: self.token_url.to_string(),
            block: self.block.clone(),
        })
    }

    /// Adds a token to a request.
    pub(crate) fn apply(&self, request: &mut Rendered, token: &str) -> Result<(), ToolError> {
        for entry in &self.entries {
            apply_entry(request, entry, &filled(&entry.value, token))?;
        }
        Ok(())
    }

    /// Whether a token request may be repeated: the first attempt may have used up a refresh token.
    pub(crate) fn may_repeat(&self) -> bool {
        self.grant != OAuth2Grant::RefreshToken
    }

    /// Whether the block sends short-lived assertions, which a wrong clock invalidates.
    pub(crate) fn depends_on_time(&self) -> bool {
        self.grant == OAuth2Grant::JwtBearer || self.client_auth == ClientAuth::PrivateKeyJwt
    }

    /// How long before expiry a token is renewed. Short-lived tokens are still used for most of their lifetime.
    fn early(&self, lifetime: Duration) -> Duration {
        match self.refresh_before {
            Some(seconds) => Duration::from_secs(seconds).min(lifetime / 2),
            None => REFRESH_BEFORE.min(lifetime / 10),
        }
    }

    /// Builds the token request. `refresh` is the rotated refresh token, if there is one.
    pub(crate) fn request(
        &self,
        ready: &ReadyOAuth2,
        refresh: Option<&str>,
        now: DateTime<Utc>,
    ) -> Result<Rendered, ToolError> {
        let mut form: Vec<(&str, String)> = Vec::new();
        let audience = self.token_url.as_str();
        let claims = |issuer, subject, scope| Claims { issuer, subject, audience, scope, now };
        let signed = |claims: Claims<'_>| {
            let key = SigningKey {
                algorithm: self.algorithm,
                pem: ready.private_key.as_deref().unwrap_or_default(),
                id: ready.key_id.as_deref(),
            };
            assertion(&key, &claims).map_err(|problem| {
                ToolError::unavailable(problem).with_hint("check auth.privateKey and auth.algorithm")
            })
        };
        let scopes = Some(self.scopes.as_str()).filter(|scopes| !scopes.is_empty());
        match self.grant {
            OAuth2Grant::ClientCredentials => form.push(("grant_type", "client_credentials".to_owned())),
            OAuth2Grant::RefreshToken => {
                form.push(("grant_type", "refresh_token".to_owned()));
                let own = ready.refresh_token.as_deref().unwrap_or_default();
                form.push(("refresh_token", refresh.unwrap_or(own).to_owned()));
            }
            OAuth2Grant::JwtBearer => {
                form.push(("grant_type", JWT_BEARER.to_owned()));
                let subject = ready.subject.as_deref().unwrap_or(&ready.client_id);
                form.push(("assertion", signed(claims(&ready.client_id, subject, scopes))?));
            }
        }
        if let Some(scopes) = scopes.filter(|_| self.grant != OAuth2Grant::JwtBearer) {
            form.push(("scope", scopes.to_owned()));
        }
        for (name, value) in [("audience", &ready.audience), ("resource", &ready.resource)] {
            form.extend(value.as_ref().map(|value| (name, value.clone())));
        }
        form.extend(ready.extra.iter().map(|(name, value)| (name.as_str(), value.clone())));
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        let secret = ready.client_secret.as_deref().unwrap_or_default();
        match self.client_auth {
            _ if self.grant == OAuth2Grant::JwtBearer && ready.client_secret.is_none() => {}
            ClientAuth::Basic => {
                // Both parts are encoded as form fields first (RFC 6749, 2.3.1).
                let pair = format!("{}:{}", percent_encode(&ready.client_id), percent_encode(secret));
                if let Ok(mut value) = HeaderValue::from_str(&format!("Basic {}", STANDARD.encode(pair))) {
                    value.set_sensitive(true);
                    headers.insert(AUTHORIZATION, value);
                }
            }
            ClientAuth::Body => {
                form.push(("client_id", ready.client_id.clone()));
                form.push(("client_secret", secret.to_owned()));
            }
            ClientAuth::PrivateKeyJwt => {
                form.push(("client_id", ready.client_id.clone()));
                form.push(("client_assertion_type", ASSERTION_TYPE.to_owned()));
                form.push(("client_assertion", signed(claims(&ready.client_id, &ready.client_id, None))?));
            }
            ClientAuth::None => form.push(("client_id", ready.client_id.clone())),
        }
        let body: Vec<String> =
            form.iter().map(|(name, value)| format!("{}={}", percent_encode(name), percent_encode(value))).collect();
        Ok(Rendered {
            method: Method::POST,
            url: self.token_url.clone(),
            headers,
            private_headers: vec![AUTHORIZATION],
            body: Some(body.join("&")),
            body_holds_secret: true,
            auth: None,
        })
    }

    /// Parses a token endpoint's reply.
    pub(crate) fn read(&self, is_success: bool, body: &[u8]) -> Result<Token, Refusal> {
        let json: Json = serde_json::from_slice(body).unwrap_or_default();
        let text = |name: &str| {
            let value = json.get(name).and_then(Json::as_str).unwrap_or_default();
            value.chars().filter(|c| !c.is_control()).take(200).collect::<String>()
        };
        let refused = |code: &str, description: String| Refusal { code: code.to_owned(), description };
        // Some servers report errors with status 200.
        if !is_success || (json.get("error").is_some_and(Json::is_string) && self.token_path.query(&json).is_empty()) {
            return Err(refused(&text("error"), text("error_description")));
        }
        let one = |path: &JsonPath| path.query(&json).first().cloned();
        let Some(Json::String(value)) = one(&self.token_path).filter(|value| *value != Json::from("")) else {
            return Err(refused("", "its answer holds no token".to_owned()));
        };
        if value.len() > TOKEN_BYTES {
            return Err(refused("", format!("its token has more than {TOKEN_BYTES} bytes")));
        }
        let lifetime = match one(&self.expires_path) {
            Some(Json::Number(number)) => number.as_f64().filter(|life| *life > 0.0).map(|life| life as u64),
            Some(Json::String(text)) => text.trim().parse().ok(),
            _ => None,
        };
        let lifetime = Duration::from_secs(lifetime.unwrap_or(self.default_ttl).min(LONGEST_LIFE));
        let refresh = json.get("refresh_token").and_then(Json::as_str).filter(|token| !token.is_empty());
        let expires = Utc::now() + lifetime;
        Ok(Token {
            value,
            expires,
            renew: Some(expires - self.early(lifetime)),
            refresh: refresh.filter(|_| self.rotates && self.grant == OAuth2Grant::RefreshToken).map(str::to_owned),
        })
    }
}

impl ReadyOAuth2 {
    /// Everything that is secret or derived from a secret: masked, and part of the token's identity.
    pub(crate) fn secrets(&self) -> Vec<&str> {
        let optional = [&self.client_secret, &self.refresh_token, &self.private_key];
        optional.into_iter().flatten().map(String::as_str).filter(|text| !text.is_empty()).collect()
    }

    /// The key of the token record. All tokens of one refresh token share a record: redeeming it replaces it for all,
    /// whatever they request.
    pub(crate) fn family(&self) -> String {
        match &self.refresh_token {
            Some(token) => serde_json::json!(["refresh", self.token_url, self.client_id, token]).to_string(),
            None => self.identity(),
        }
    }

    /// Everything that a token depends on, in an unambiguous form.
    pub(crate) fn identity(&self) -> String {
        let parts = [Some(&self.client_id), self.client_secret.as_ref(), self.refresh_token.as_ref()];
        let more = [&self.private_key, &self.key_id, &self.subject, &self.audience, &self.resource];
        serde_json::json!([self.block, parts, more, self.extra]).to_string()
    }
}

fn extra(params: &IndexMap<String, String>, scope: &Scope<'_>) -> Result<Vec<(String, Template)>, String> {
    params.iter().map(|(name, value)| Ok((name.clone(), parse(value, scope)?))).collect()
}

fn filled(text: &SignText, token: &str) -> String {
    let bytes = text.fill(|part| {
        Ok::<_, std::convert::Infallible>(match part {
            Part::Token => token.as_bytes().to_vec(),
            _ => Vec::new(),
        })
    });
    String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned()
}
