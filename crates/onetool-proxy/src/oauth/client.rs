//! Which OAuth client we are: one from the configuration, one described at an address, or one that is registered.

use serde_json::{Value as Json, json};

use super::discovery::AuthorizationServer;
use super::record::{AuthMethod, ClientOrigin, OAuthClient};
use super::settings::AuthSettings;
use super::web::{OAuthError, Web, is_loopback};

/// The inputs for choosing a client.
pub(crate) struct Choice<'a> {
    pub(crate) settings: &'a AuthSettings,
    pub(crate) server: &'a AuthorizationServer,
    pub(crate) redirect_uri: &'a str,
    pub(crate) scopes: &'a [String],
    /// A client registered before, perhaps with another server.
    pub(crate) registered: Option<&'a OAuthClient>,
}

impl Choice<'_> {
    /// Returns the client to use, registering one if necessary.
    pub(crate) async fn client(&self, web: &Web) -> Result<OAuthClient, OAuthError> {
        let client = |id: &str, secret: Option<&str>, origin| OAuthClient {
            issuer: self.server.issuer.clone(),
            id: id.to_owned(),
            secret: secret.map(str::to_owned),
            auth_method: self.method(secret.is_some()),
            redirect_uri: self.redirect_uri.to_owned(),
            origin,
        };
        if let Some(id) = &self.settings.client_id {
            return Ok(client(id, self.settings.client_secret.as_deref(), ClientOrigin::Configured));
        }
        if let Some(address) = self.settings.client_metadata_url.as_deref().filter(|_| self.server.takes_metadata_url) {
            let mut client = client(address, None, ClientOrigin::MetadataUrl);
            client.auth_method = AuthMethod::None;
            return Ok(client);
        }
        let is_usable =
            |known: &&OAuthClient| known.issuer == self.server.issuer && known.redirect_uri == self.redirect_uri;
        if let Some(known) = self.registered.filter(is_usable) {
            return Ok(known.clone());
        }
        self.register(web).await
    }

    /// The authentication method of a client if none is set: the least that the server accepts.
    fn method(&self, has_secret: bool) -> AuthMethod {
        let takes = |method: &str| self.server.token_auth_methods.iter().any(|known| known == method);
        match has_secret {
            false => AuthMethod::None,
            true if takes("client_secret_basic") || self.server.token_auth_methods.is_empty() => AuthMethod::Basic,
            true if takes("client_secret_post") => AuthMethod::Post,
            true if takes("none") => AuthMethod::None,
            true => AuthMethod::Basic,
        }
    }

    async fn register(&self, web: &Web) -> Result<OAuthClient, OAuthError> {
        let endpoint = self.server.registration_endpoint.as_deref().ok_or_else(|| {
            OAuthError::Invalid(format!(
                "{} lets no client register; servers.<name>.auth.client_id names one that is known there",
                self.server.issuer
            ))
        })?;
        let takes = |method: &str| self.server.token_auth_methods.iter().any(|known| known == method);
        let wanted = if self.server.token_auth_methods.is_empty() || takes("none") {
            "none"
        } else if takes("client_secret_basic") {
            "client_secret_basic"
        } else {
            "client_secret_post"
        };
        // A client on the user's machine is native; one whose callback is elsewhere is not.
        let is_near = reqwest::Url::parse(self.redirect_uri).is_ok_and(|url| is_loopback(&url));
        let application_type = if is_near { "native" } else { "web" };
        let mut body = json!({
            "client_name": "OneTool",
            "redirect_uris": [self.redirect_uri],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": wanted,
            "application_type": application_type,
        });
        if !self.scopes.is_empty() {
            body["scope"] = self.scopes.join(" ").into();
        }
        let answer = web.post_json(&web.checked(endpoint)?, &body).await?.object("the registration")?;
        let text = |key: &str| answer.get(key).and_then(Json::as_str).filter(|text| !text.is_empty());
        let id = text("client_id").ok_or_else(|| OAuthError::Invalid("the registration gave no client".to_owned()))?;
        let secret = text("client_secret").map(str::to_owned);
        let auth_method = match (text("token_endpoint_auth_method").unwrap_or(wanted), &secret) {
            ("client_secret_basic", Some(_)) => AuthMethod::Basic,
            ("client_secret_post", Some(_)) => AuthMethod::Post,
            ("none", _) | (_, None) => AuthMethod::None,
            (_, Some(_)) => self.method(true),
        };
        Ok(OAuthClient {
            issuer: self.server.issuer.clone(),
            id: id.to_owned(),
            secret,
            auth_method,
            redirect_uri: self.redirect_uri.to_owned(),
            origin: ClientOrigin::Registered,
        })
    }
}
