//! The configuration of sign-ins to a server.

use std::time::Duration;

/// Default timeout of a sign-in.
pub const DEFAULT_LOGIN_TIMEOUT: Duration = Duration::from_mins(10);

/// How the resource is named to the authorization server (RFC 8707).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ResourceIndicator {
    /// As the server's metadata names it.
    #[default]
    Auto,
    /// Not sent: some authorization servers refuse it.
    Omit,
    Exactly(String),
}

/// How to sign in to a server.
#[derive(Clone, PartialEq, Eq)]
pub struct AuthSettings {
    pub enabled: bool,
    pub client_id: Option<String>,
    pub client_secret: Option<String>,
    pub client_metadata_url: Option<String>,
    /// Keeps sign-ins of several servers at one address apart.
    pub account: Option<String>,
    /// Requested instead of the scopes that the server names.
    pub scopes: Vec<String>,
    /// The redirect address, if it is not this machine: the browser's address is then pasted.
    pub redirect_url: Option<String>,
    /// The local port that the browser is redirected to; 0 is any.
    pub redirect_port: u16,
    pub resource: ResourceIndicator,
    /// Whether the authorization server must advertise PKCE.
    pub require_pkce: bool,
    pub login_timeout: Duration,
}

impl Default for AuthSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            client_id: None,
            client_secret: None,
            client_metadata_url: None,
            account: None,
            scopes: Vec::new(),
            redirect_url: None,
            redirect_port: 0,
            resource: ResourceIndicator::default(),
            require_pkce: true,
            login_timeout: DEFAULT_LOGIN_TIMEOUT,
        }
    }
}

impl std::fmt::Debug for AuthSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AuthSettings")
            .field("enabled", &self.enabled)
            .field("client_id", &self.client_id)
            .finish_non_exhaustive()
    }
}
