//! The stored form of a sign-in: everything that belongs together in one document, changed under one lease.
//!
//! **Invariants:** a document is only ever replaced as a whole; tokens are removed by a new sign-in or a sign-out and
//! never because of a failure; a process that redeems a refresh token holds the lease from reading it to writing its
//! successor, across all processes that share the state.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use onetool_state::interface::{Collection, Documents, Expect, Key, Lease, Leases};
use serde::{Deserialize, Serialize};

use super::discovery::AuthorizationServer;
use super::login::Login;
use super::settings::AuthSettings;
use super::web::OAuthError;

/// Documents of sign-ins. No tool can read them.
pub const CREDENTIALS: Collection = Collection::CREDENTIALS;

/// How long a lease lasts without renewal: longer than any one request.
const LEASE: Duration = Duration::from_secs(45);
/// Poll interval for a lease held by another process.
const LEASE_POLL: Duration = Duration::from_millis(50);

/// A client as an authorization server knows it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OAuthClient {
    pub(crate) issuer: String,
    pub(crate) id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) secret: Option<String>,
    /// How it authenticates at the token endpoint.
    pub(crate) auth_method: AuthMethod,
    /// As we registered it, not as the server normalized it.
    pub(crate) redirect_uri: String,
    pub(crate) origin: ClientOrigin,
}

impl std::fmt::Debug for OAuthClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OAuthClient").field("issuer", &self.issuer).field("id", &self.id).finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AuthMethod {
    None,
    Post,
    Basic,
}

/// The origin of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ClientOrigin {
    /// From the configuration.
    Configured,
    /// An address that describes the client.
    MetadataUrl,
    /// Registered by ourselves.
    Registered,
}

/// The issued tokens.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tokens {
    pub(crate) access: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) refresh: Option<String>,
    /// In seconds since 1970.
    pub(crate) received_at: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) expires_at: Option<u64>,
    /// The requested and the granted scopes.
    pub(crate) asked: Vec<String>,
    pub(crate) granted: Vec<String>,
    /// The resource indicator sent with every token request, verbatim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) resource: Option<String>,
}

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokens").field("expires_at", &self.expires_at).finish_non_exhaustive()
    }
}

/// The maximum number of seconds that a token is renewed before it expires.
const AHEAD_MOST: u64 = 60;

impl Tokens {
    /// Whether it has not expired.
    pub(crate) fn is_valid(&self) -> bool {
        self.expires_at.is_none_or(|at| now() < at)
    }

    /// Whether it need not be renewed yet: renewal is due a minute, or a tenth of its lifetime, before it expires.
    pub(crate) fn is_fresh(&self) -> bool {
        let Some(at) = self.expires_at else { return true };
        let life = at.saturating_sub(self.received_at);
        let ahead = (life / 10).min(AHEAD_MOST);
        now() < at.saturating_sub(ahead - self.jitter(ahead / 5))
    }

    /// From 0 to `most`, different for every process and token, so that they do not all renew in the same second.
    fn jitter(&self, most: u64) -> u64 {
        let mut hash = blake3::Hasher::new();
        hash.update(&std::process::id().to_le_bytes()).update(self.access.as_bytes());
        u64::from(hash.finalize().as_bytes()[0]) % (most + 1)
    }
}

/// One sign-in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// The address of the MCP server.
    pub(crate) url: String,
    /// The issuer of the tokens, and the client that they were issued to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) server: Option<AuthorizationServer>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) client: Option<OAuthClient>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tokens: Option<Tokens>,
    /// The last registered client, for the next sign-in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) registered: Option<OAuthClient>,
    /// Sign-ins that wait for a browser, which may return to any server that shares the state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) pending: Vec<PendingLogin>,
    /// Why a new sign-in is required: the authorization server refused these very tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) refused: Option<String>,
}

/// Maximum number of waiting sign-ins of one server; the oldest are dropped.
const PENDING_MOST: usize = 8;

/// A sign-in in progress.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PendingLogin {
    /// In seconds since 1970.
    pub(crate) until: u64,
    pub(crate) login: Login,
}

impl Record {
    /// Adds a sign-in that waits for at most `patience`.
    pub(crate) fn add_pending(&mut self, login: Login, patience: Duration) {
        self.pending.retain(|pending| pending.until > now());
        self.pending.push(PendingLogin { until: now().saturating_add(patience.as_secs()), login });
        let surplus = self.pending.len().saturating_sub(PENDING_MOST);
        self.pending.drain(..surplus);
    }
}

pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Where the sign-in of one server is stored.
#[derive(Clone)]
pub(crate) struct RecordStore {
    documents: Arc<dyn Documents>,
    leases: Arc<dyn Leases>,
    key: String,
    url: String,
}

impl RecordStore {
    pub(crate) fn new(state: &onetool_state::State, url: &str, settings: &AuthSettings) -> Self {
        // One sign-in per server, whatever its configured name and project; other clients and other accounts have
        // separate tokens.
        let mut hash = blake3::Hasher::new();
        hash.update(url.as_bytes());
        for (name, value) in [("client", &settings.client_id), ("account", &settings.account)] {
            if let Some(value) = value {
                hash.update(format!("\n{name} {value}").as_bytes());
            }
        }
        let key = hash.finalize().to_hex().as_str()[..32].to_owned();
        Self { documents: state.documents(), leases: state.leases(), key, url: url.to_owned() }
    }

    fn key(&self) -> Result<Key, OAuthError> {
        self.key.parse().map_err(|error: onetool_state::StateError| store_error(&error))
    }

    pub(crate) async fn read(&self) -> Result<Record, OAuthError> {
        let key = self.key()?;
        let document = self.documents.get(CREDENTIALS, &key).await.map_err(|error| store_error(&error))?;
        let empty = || Record { url: self.url.clone(), ..Record::default() };
        let Some(document) = document else { return Ok(empty()) };
        // An invalid document is not overwritten by accident: only signing in replaces it.
        serde_json::from_slice(&document.content)
            .map_err(|error| OAuthError::Invalid(format!("the stored sign-in can't be read: {error}")))
    }

    pub(crate) async fn write(&self, record: &Record) -> Result<(), OAuthError> {
        let bytes = serde_json::to_vec(record).map_err(|error| OAuthError::Invalid(error.to_string()))?;
        let key = self.key()?;
        let written = self.documents.put(CREDENTIALS, &key, &bytes, &Expect::Anything.into()).await;
        written.map(drop).map_err(|error| store_error(&error))
    }

    /// Waits for the lease of this sign-in.
    pub(crate) async fn lease(&self) -> Result<HeldLease, OAuthError> {
        let name = format!("credentials-{}", self.key);
        let owner = uuid::Uuid::new_v4().to_string();
        loop {
            let lease = self.leases.acquire(&name, &owner, LEASE).await.map_err(|error| store_error(&error))?;
            if let Some(lease) = lease {
                return Ok(HeldLease { leases: self.leases.clone(), lease: Some(lease) });
            }
            tokio::time::sleep(LEASE_POLL).await;
        }
    }
}

fn store_error(error: &onetool_state::StateError) -> OAuthError {
    OAuthError::Transient(format!("the stored sign-in can't be reached: {error}"))
}

/// A lease that is released on drop.
pub(crate) struct HeldLease {
    leases: Arc<dyn Leases>,
    lease: Option<Lease>,
}

impl HeldLease {
    pub(crate) async fn release(mut self) {
        if let Some(lease) = self.lease.take() {
            let _ = self.leases.release(&lease).await;
        }
    }
}

impl Drop for HeldLease {
    fn drop(&mut self) {
        if let Some(lease) = self.lease.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let leases = self.leases.clone();
            runtime.spawn(async move { drop(leases.release(&lease).await) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_renewed_a_little_before_its_end_and_not_at_the_same_second_by_all() {
        let tokens = |access: &str, left: u64, life: u64| Tokens {
            access: access.to_owned(),
            refresh: None,
            received_at: now() + left - life,
            expires_at: Some(now() + left),
            asked: Vec::new(),
            granted: Vec::new(),
            resource: None,
        };
        assert!(tokens("a", 70, 3600).is_fresh());
        assert!(!tokens("a", 45, 3600).is_fresh());
        assert!(tokens("a", 45, 3600).is_valid());
        // A tenth of a short lifetime.
        assert!(tokens("a", 15, 100).is_fresh());
        assert!(!tokens("a", 5, 100).is_fresh());
        let jitters: std::collections::HashSet<u64> =
            (0..50).map(|number| tokens(&number.to_string(), 60, 3600).jitter(12)).collect();
        assert!(jitters.len() > 3 && jitters.iter().all(|jitter| *jitter <= 12), "{jitters:?}");
    }
}
