//! Tokens of an OAuth issuer: this server is a resource server, and never an authorization server.
//!
//! A token is a signed JWT of the configured issuer, for one of our audiences. Its keys come from the issuer's JWKS.
//! Only the token is taken from a request: addresses in metadata and challenges are built from `server.public_url`
//! alone. A token is never forwarded.

mod jwks;
mod jwt;
mod metadata;

use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};

use reqwest::Url;
use serde_json::Value as Json;

pub(crate) use jwks::is_trustworthy;
pub(crate) use metadata::router;

use crate::{ApiError, Scope};
use jwks::Keys;

/// Permitted clock difference, in seconds.
const SKEW: i64 = 60;
/// Maximum length of a token.
const MAX_TOKEN: usize = 16 << 10;
/// Maximum number of groups read from one token.
const MAX_GROUPS: usize = 1_000;
const MAX_NAME: usize = 200;

/// The section `server.oauth`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OAuthSettings {
    pub issuer: String,
    /// A token must contain at least one of these.
    pub audiences: Vec<String>,
    /// Address of the keys; by default the one that the issuer names.
    pub jwks_url: Option<Url>,
    /// The token scopes that grant each of ours.
    pub scopes: Vec<(Scope, Vec<String>)>,
    /// The claim that names the principal.
    pub name_claim: String,
    pub groups_claim: String,
    /// The public address of this server, without a trailing slash.
    pub public_url: Url,
    /// Groups of the configuration; others in a token are ignored.
    pub known_groups: Vec<String>,
}

impl OAuthSettings {
    /// Returns the address of a path on this server.
    fn at(&self, path: &str) -> String {
        format!("{}{path}", self.public_url.as_str().trim_end_matches('/'))
    }

    /// Returns the scopes to request from the issuer, so that a token allows `needed`.
    fn names_of(&self, needed: Option<Scope>) -> Vec<&str> {
        let wanted = self.scopes.iter().filter(|(scope, _)| needed.is_none_or(|needed| needed == *scope));
        wanted.filter_map(|(_, names)| names.first().map(String::as_str)).collect()
    }
}

/// The identity that a token asserts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Subject {
    /// Unique: the issuer and its identifier for the subject.
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) groups: Vec<String>,
    pub(crate) scopes: Vec<Scope>,
}

/// Verifies tokens of one issuer.
pub(crate) struct OAuth {
    settings: OAuthSettings,
    keys: Keys,
}

impl OAuth {
    pub(crate) fn new(settings: OAuthSettings) -> Self {
        let keys = Keys::new(settings.issuer.clone(), settings.jwks_url.clone());
        Self { settings, keys }
    }

    pub(crate) fn settings(&self) -> &OAuthSettings {
        &self.settings
    }

    /// Whether a text may be a token of this kind.
    pub(crate) fn is_candidate(token: &str) -> bool {
        token.len() <= MAX_TOKEN && token.split('.').count() == 3
    }

    /// Verifies a token; returns its subject, or the error to respond with.
    pub(crate) async fn verify(&self, token: &str) -> Result<Subject, ApiError> {
        let invalid = |reason: String| ApiError::unauthorised(format!("the token is not valid: {reason}"));
        let parsed = jwt::parse(token).map_err(invalid)?;
        let keys = self.keys.candidates(&parsed).await.map_err(|reason| {
            tracing::warn!(reason, issuer = self.settings.issuer, "the keys of the issuer cannot be read");
            ApiError::busy("the keys of the OAuth issuer cannot be read now").with_hint("see the log of the server")
        })?;
        if !keys.iter().any(|key| key.verifies(&parsed)) {
            return Err(invalid("no key of the issuer has signed it".to_owned()));
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
        self.subject(&parsed.claims, i64::try_from(now).unwrap_or(i64::MAX)).map_err(invalid)
    }

    /// Checks the claims of a token with a valid signature.
    fn subject(&self, claims: &Json, now: i64) -> Result<Subject, String> {
        let text = |name: &str| claims.get(name).and_then(Json::as_str).filter(|text| !text.is_empty());
        if text("iss") != Some(&self.settings.issuer) {
            return Err("it is of another issuer".to_owned());
        }
        let audiences = texts(claims.get("aud"));
        if !audiences.iter().any(|audience| self.settings.audiences.contains(audience)) {
            return Err("it is for another audience".to_owned());
        }
        let time = |name: &'static str| claims.get(name).map(|time| time.as_f64().map(|time| time as i64).ok_or(name));
        let wrong_time = |name: &'static str| format!("its {name} is not a time");
        let expires = time("exp").ok_or("it does not expire")?.map_err(wrong_time)?;
        if expires.saturating_add(SKEW) <= now {
            return Err("it has expired".to_owned());
        }
        for name in ["nbf", "iat"] {
            if let Some(at) = time(name)
                && at.map_err(wrong_time)? > now.saturating_add(SKEW)
            {
                return Err("it is not valid yet".to_owned());
            }
        }
        let subject = text("sub").ok_or("it names no subject")?;
        let name = text(&self.settings.name_claim).unwrap_or(subject);
        let name = name.chars().filter(|c| !c.is_control()).take(MAX_NAME).collect();
        let told: BTreeSet<String> = texts(claims.get("scope")).into_iter().chain(texts(claims.get("scp"))).collect();
        let has = |names: &Vec<String>| names.iter().any(|name| told.contains(name));
        let groups = texts(claims.get(&self.settings.groups_claim));
        let groups = groups.iter().take(MAX_GROUPS).map(|group| group.trim_start_matches('/'));
        Ok(Subject {
            id: format!("{}\0{subject}", self.settings.issuer),
            name,
            groups: groups
                .filter(|group| self.settings.known_groups.iter().any(|known| known == group))
                .map(str::to_owned)
                .collect(),
            scopes: self.settings.scopes.iter().filter(|(_, names)| has(names)).map(|(scope, _)| *scope).collect(),
        })
    }

    /// Returns the challenge for a refused request (RFC 6750, RFC 9728).
    pub(crate) fn challenge(&self, refusal: Refusal, path: &str, needed: Scope) -> String {
        let place = if path == "/mcp" || path.starts_with("/sse") || path == "/messages" { "/mcp" } else { "" };
        let metadata = metadata::address(&self.settings, place);
        let scope = self.settings.names_of(Some(needed)).join(" ");
        let error = match refusal {
            Refusal::NoToken => "",
            Refusal::InvalidToken => "error=\"invalid_token\", ",
            Refusal::InsufficientScope => "error=\"insufficient_scope\", ",
        };
        let scope = if scope.is_empty() { String::new() } else { format!(", scope=\"{scope}\"") };
        format!("Bearer {error}resource_metadata=\"{metadata}\"{scope}")
    }
}

/// Why a request was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    NoToken,
    InvalidToken,
    InsufficientScope,
}

/// Reads a claim that is a text, a list of words in one text, or a list of texts.
fn texts(claim: Option<&Json>) -> Vec<String> {
    match claim {
        Some(Json::String(text)) => text.split_whitespace().map(str::to_owned).collect(),
        Some(Json::Array(items)) => items.iter().filter_map(Json::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn oauth() -> OAuth {
        OAuth::new(OAuthSettings {
            issuer: "https://id.example.org".to_owned(),
            audiences: vec!["https://tools.example.org/mcp".to_owned()],
            jwks_url: None,
            scopes: vec![(Scope::Read, vec!["read".to_owned()]), (Scope::Admin, vec!["root".to_owned()])],
            name_claim: "email".to_owned(),
            groups_claim: "groups".to_owned(),
            public_url: "https://tools.example.org".parse().unwrap(),
            known_groups: vec!["team".to_owned()],
        })
    }

    fn claims(change: Json) -> Json {
        let mut claims = json!({
            "iss": "https://id.example.org", "aud": ["x", "https://tools.example.org/mcp"], "exp": 2_000, "nbf": 900,
            "sub": "7", "email": "ana@example.org", "scope": "read other", "groups": ["/team", "strangers"],
        });
        for (name, value) in change.as_object().unwrap() {
            claims[name] = value.clone();
        }
        claims
    }

    #[test]
    fn claims_are_checked_one_by_one() {
        let oauth = oauth();
        let ana = oauth.subject(&claims(json!({})), 1_000).unwrap();
        assert_eq!(
            (ana.name.as_str(), &ana.scopes, &ana.groups),
            ("ana@example.org", &vec![Scope::Read], &vec!["team".to_owned()])
        );
        assert_eq!(
            oauth.subject(&claims(json!({"scp": ["root"]})), 1_000).unwrap().scopes,
            [Scope::Read, Scope::Admin]
        );
        assert!(oauth.subject(&claims(json!({})), 2_059).is_ok(), "clocks differ a little");
        for (change, now, reason) in [
            (json!({}), 2_060, "expired"),
            (json!({"nbf": 1_061}), 1_000, "not valid yet"),
            (json!({"iat": 1_061}), 1_000, "not valid yet"),
            (json!({"iss": "https://id.example.org/"}), 1_000, "another issuer"),
            (json!({"iss": null}), 1_000, "another issuer"),
            (json!({"aud": "https://tools.example.org"}), 1_000, "another audience"),
            (json!({"aud": null}), 1_000, "another audience"),
            (json!({"exp": "soon"}), 1_000, "not a time"),
            (json!({"sub": ""}), 1_000, "no subject"),
        ] {
            let error = oauth.subject(&claims(change.clone()), now).unwrap_err();
            assert!(error.contains(reason), "{change}: {error}");
        }
        let mut endless = claims(json!({}));
        endless.as_object_mut().unwrap().remove("exp");
        assert!(oauth.subject(&endless, 1_000).unwrap_err().contains("does not expire"));
    }

    #[test]
    fn challenges_name_the_metadata_and_the_scope() {
        let oauth = oauth();
        assert_eq!(
            oauth.challenge(Refusal::InvalidToken, "/mcp", Scope::Read),
            "Bearer error=\"invalid_token\", resource_metadata=\"https://tools.example.org/.well-known/oauth-protected-resource/mcp\", scope=\"read\""
        );
    }
}
