//! Token requests: with a code, and with a refresh token.

use serde_json::Value as Json;

use super::discovery::AuthorizationServer;
use super::record::{AuthMethod, OAuthClient, Tokens, now};
use super::web::{OAuthError, Web};

/// What a token request presents.
pub(crate) enum Grant<'a> {
    Code { code: &'a str, verifier: &'a str },
    Refresh { token: &'a str },
}

/// A token request.
pub(crate) struct TokenRequest<'a> {
    pub(crate) server: &'a AuthorizationServer,
    pub(crate) client: &'a OAuthClient,
    pub(crate) grant: Grant<'a>,
    pub(crate) resource: Option<&'a str>,
    /// The scopes requested at the sign-in.
    pub(crate) scopes: &'a [String],
}

impl TokenRequest<'_> {
    pub(crate) async fn send(&self, web: &Web) -> Result<Tokens, OAuthError> {
        let url = web.checked(&self.server.token_endpoint)?;
        let mut form: Vec<(&str, &str)> = match &self.grant {
            Grant::Code { code, verifier } => vec![
                ("grant_type", "authorization_code"),
                ("code", code),
                ("redirect_uri", &self.client.redirect_uri),
                ("code_verifier", verifier),
            ],
            Grant::Refresh { token } => vec![("grant_type", "refresh_token"), ("refresh_token", token)],
        };
        form.extend(self.resource.map(|resource| ("resource", resource)));
        let secret = self.client.secret.as_deref().unwrap_or_default();
        let mut basic = None;
        match self.client.auth_method {
            AuthMethod::None => form.push(("client_id", &self.client.id)),
            AuthMethod::Post => form.extend([("client_id", self.client.id.as_str()), ("client_secret", secret)]),
            AuthMethod::Basic => basic = Some((self.client.id.as_str(), secret)),
        }
        let answer = web.post_form(&url, &form, basic).await?.object("the token endpoint")?;
        self.read(&answer)
    }

    fn read(&self, answer: &Json) -> Result<Tokens, OAuthError> {
        let text = |key: &str| answer.get(key).and_then(Json::as_str).filter(|text| !text.is_empty());
        let invalid = |what: &str| OAuthError::Invalid(format!("the token endpoint answered {what}"));
        let access = text("access_token").ok_or_else(|| invalid("without a token"))?;
        if !text("token_type").is_none_or(|kind| kind.eq_ignore_ascii_case("bearer")) {
            return Err(invalid("with a token that is not a bearer token"));
        }
        if !access.bytes().all(|byte| (0x21..=0x7e).contains(&byte)) {
            return Err(invalid("with a token that no header can hold"));
        }
        // Some servers send the number as text.
        let lifetime = answer.get("expires_in").and_then(|life| {
            life.as_u64().or_else(|| life.as_f64().map(|life| life as u64)).or_else(|| life.as_str()?.parse().ok())
        });
        let kept = match &self.grant {
            Grant::Refresh { token } => Some((*token).to_owned()),
            Grant::Code { .. } => None,
        };
        let granted = text("scope").map(|scope| scope.split_whitespace().map(str::to_owned).collect());
        let received_at = now();
        Ok(Tokens {
            access: access.to_owned(),
            // If the response contains no new one, the old one stays valid.
            refresh: text("refresh_token").map(str::to_owned).or(kept),
            received_at,
            expires_at: lifetime.map(|life| received_at.saturating_add(life)),
            asked: self.scopes.to_vec(),
            granted: granted.unwrap_or_else(|| self.scopes.to_vec()),
            resource: self.resource.map(str::to_owned),
        })
    }
}
