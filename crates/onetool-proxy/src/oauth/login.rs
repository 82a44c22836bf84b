//! One sign-in: the address to open, the callback, and the tokens.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use reqwest::Url;
use ring::rand::SecureRandom as _;
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;

use super::callback::{self, Callback};
use super::challenge::Challenge;
use super::client::Choice;
use super::discovery::{self, AuthorizationServer, Discovered};
use super::record::{ClientOrigin, OAuthClient, Record, Tokens};
use super::settings::{AuthSettings, ResourceIndicator};
use super::tokens::{Grant, TokenRequest};
use super::web::{OAuthError, Web};

/// A sign-in in progress.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Login {
    /// The address that the user opens.
    pub(crate) url: String,
    pub(crate) server: AuthorizationServer,
    pub(crate) client: OAuthClient,
    /// Whether the client was registered for this sign-in.
    pub(crate) is_new_client: bool,
    state: String,
    verifier: String,
    resource: Option<String>,
    scopes: Vec<String>,
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Login").field("client", &self.client).finish_non_exhaustive()
    }
}

/// The inputs for starting a sign-in.
pub(crate) struct Beginning<'a> {
    pub(crate) web: &'a Web,
    pub(crate) settings: &'a AuthSettings,
    /// The address of the MCP server.
    pub(crate) url: &'a Url,
    pub(crate) challenge: &'a Challenge,
    pub(crate) record: &'a Record,
    /// The public callback address of this server, if it has one.
    pub(crate) public_callback: Option<&'a str>,
    /// Do not reuse a client that was registered before.
    pub(crate) anew: bool,
}

impl Beginning<'_> {
    /// Discovers the authorization server, and builds the address. Also returns the listener for the browser, if that
    /// is sent back to this machine.
    pub(crate) async fn begin(&self) -> Result<(Login, Option<TcpListener>), OAuthError> {
        let found = discovery::discover(self.web, self.url, self.challenge).await?;
        if self.settings.require_pkce && !found.server.advertises_s256 {
            return Err(OAuthError::Invalid(format!(
                "{} does not say that it checks PKCE (S256); where that is known to work, \
                 servers.<name>.auth.require_pkce: false goes on without",
                found.server.issuer
            )));
        }
        let scopes = self.scopes(&found);
        let registered = self.record.registered.as_ref().filter(|_| !self.anew);
        let (redirect_uri, listener) = self.redirect(registered).await?;
        let choice = Choice {
            settings: self.settings,
            server: &found.server,
            redirect_uri: &redirect_uri,
            scopes: &scopes,
            registered,
        };
        let mut client = choice.client(self.web).await?;
        let mut is_new_client = Some(&client) != registered && client.origin == ClientOrigin::Registered;
        let mut login = self.login(&found, client.clone(), scopes.clone())?;
        if client.origin == ClientOrigin::Registered && !is_new_client && self.is_forgotten(&login.url).await {
            // Servers forget dynamically registered clients.
            client = Choice { registered: None, ..choice }.client(self.web).await?;
            is_new_client = true;
            login = self.login(&found, client, scopes)?;
        }
        login.is_new_client = is_new_client;
        Ok((login, listener))
    }

    fn login(&self, found: &Discovered, client: OAuthClient, scopes: Vec<String>) -> Result<Login, OAuthError> {
        let resource = match &self.settings.resource {
            ResourceIndicator::Auto => Some(found.resource.clone().unwrap_or_else(|| canonical(self.url))),
            ResourceIndicator::Omit => None,
            ResourceIndicator::Exactly(resource) => Some(resource.clone()),
        };
        let (state, verifier) = (random()?, random()?);
        let digest = ring::digest::digest(&ring::digest::SHA256, verifier.as_bytes());
        let proof = URL_SAFE_NO_PAD.encode(digest);
        let mut url = self.web.checked(&found.server.authorization_endpoint)?;
        url.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &client.id)
            .append_pair("redirect_uri", &client.redirect_uri)
            .append_pair("code_challenge", &proof)
            .append_pair("code_challenge_method", "S256")
            .append_pair("state", &state);
        if !scopes.is_empty() {
            url.query_pairs_mut().append_pair("scope", &scopes.join(" "));
        }
        if let Some(resource) = &resource {
            url.query_pairs_mut().append_pair("resource", resource);
        }
        let server = found.server.clone();
        Ok(Login { url: url.into(), server, client, is_new_client: false, state, verifier, resource, scopes })
    }

    /// The scopes to request: those configured, else those that the server requires now, else those in its metadata.
    fn scopes(&self, found: &Discovered) -> Vec<String> {
        let challenged = self.challenge.scopes();
        let mut scopes = if !self.settings.scopes.is_empty() {
            self.settings.scopes.clone()
        } else if challenged.is_empty() {
            found.resource_scopes.clone()
        } else {
            challenged.clone()
        };
        if self.challenge.wants_more_scope() {
            // Additional scopes, not different ones.
            let had = self.record.tokens.iter().flat_map(|tokens| tokens.asked.iter().chain(&tokens.granted));
            scopes = had.cloned().chain(scopes).chain(challenged).collect();
        }
        let offline = "offline_access".to_owned();
        if found.server.scopes_supported.contains(&offline) {
            scopes.push(offline);
        }
        let mut seen = std::collections::HashSet::new();
        scopes.retain(|scope| seen.insert(scope.clone()));
        scopes
    }

    /// The redirect address. The port that a client was registered with is reused if it is free.
    async fn redirect(&self, registered: Option<&OAuthClient>) -> Result<(String, Option<TcpListener>), OAuthError> {
        if let Some(url) = self.settings.redirect_url.as_deref().or(self.public_callback) {
            return Ok((url.to_owned(), None));
        }
        let at = |port: u16| format!("http://127.0.0.1:{port}{}", callback::PATH);
        if self.settings.redirect_port != 0 {
            let port = self.settings.redirect_port;
            let (listener, port) = callback::listen(port).await.map_err(|error| {
                OAuthError::Invalid(format!("port {port} (servers.<name>.auth.redirect_port) can't be used: {error}"))
            })?;
            return Ok((at(port), Some(listener)));
        }
        let known = registered.and_then(|client| Url::parse(&client.redirect_uri).ok()).and_then(|url| url.port());
        if let Some(port) = known
            && let Ok((listener, port)) = callback::listen(port).await
        {
            return Ok((at(port), Some(listener)));
        }
        let (listener, port) = callback::listen(0)
            .await
            .map_err(|error| OAuthError::Invalid(format!("no port of this machine can be listened on: {error}")))?;
        Ok((at(port), Some(listener)))
    }

    /// Whether the authorization server no longer knows a client. Asked without a browser, it shows its page or
    /// redirects to it, unless the request itself is invalid.
    async fn is_forgotten(&self, url: &str) -> bool {
        let Ok(url) = self.web.checked(url) else { return false };
        match self.web.get(&url).await {
            Ok(answer) => {
                let says = answer.body.as_ref().and_then(|body| body.get("error")).and_then(|error| error.as_str());
                says.is_some_and(|error| ["invalid_client", "unauthorized_client"].contains(&error))
                    || answer.location.is_none() && matches!(answer.status.as_u16(), 400 | 401 | 404)
            }
            Err(_) => false,
        }
    }
}

impl Login {
    /// Checks the callback and redeems the code.
    pub(crate) async fn finish(&self, callback: &Callback, web: &Web) -> Result<Tokens, OAuthError> {
        if !callback.is_bare {
            if callback.state.as_deref() != Some(self.state.as_str()) {
                return Err(OAuthError::Invalid(
                    "it does not belong to this sign-in (its state is another)".to_owned(),
                ));
            }
            match &callback.issuer {
                Some(issuer) if *issuer != self.server.issuer => {
                    return Err(OAuthError::Invalid(format!(
                        "it is from another authorization server, {issuer:.200}, not {}",
                        self.server.issuer
                    )));
                }
                None if self.server.names_issuer => {
                    return Err(OAuthError::Invalid(
                        "it does not say which authorization server it is from".to_owned(),
                    ));
                }
                Some(_) | None => {}
            }
        }
        if let Some(error) = &callback.error {
            return Err(OAuthError::Refused { error: error.clone(), description: callback.description.clone() });
        }
        let code = callback.code.as_deref().ok_or_else(|| OAuthError::Invalid("there is no code in it".to_owned()))?;
        let request = TokenRequest {
            server: &self.server,
            client: &self.client,
            grant: Grant::Code { code, verifier: &self.verifier },
            resource: self.resource.as_deref(),
            scopes: &self.scopes,
        };
        request.send(web).await
    }

    /// Whether the callback belongs to this sign-in.
    pub(crate) fn is_meant(&self, callback: &Callback) -> bool {
        callback.state.as_deref() == Some(self.state.as_str())
    }
}

/// The resource identifier of a server without metadata: its address, without query and fragment.
fn canonical(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    let text = String::from(url.clone());
    if url.path() == "/" { text.trim_end_matches('/').to_owned() } else { text }
}

/// 256 random bits as text.
fn random() -> Result<String, OAuthError> {
    let mut bytes = [0_u8; 32];
    ring::rand::SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| OAuthError::Transient("the system gives no random numbers".to_owned()))?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

/// Shared by all who wait for one sign-in.
pub(crate) type SharedLogin = Arc<Login>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_metadata_has_no_query_and_no_bare_slash() {
        let name = |url: &str| canonical(&Url::parse(url).unwrap());
        assert_eq!(name("https://x.org"), "https://x.org");
        assert_eq!(name("https://x.org/mcp?key=1#a"), "https://x.org/mcp");
        assert_eq!(name("https://x.org/mcp/"), "https://x.org/mcp/");
    }
}
