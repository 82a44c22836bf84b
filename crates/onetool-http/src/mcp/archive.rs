//! Stores what clients sent in `initialize`: sessions survive restarts and work on all servers that share the state.
//!
//! It is sealed into the session's id, with a key that those servers share ([`Archive::seal`]): the server that gets
//! the next request needs no other source, not even the state. Documents hold only states too long for a header,
//! ends of sessions, and subscriptions. A document's name is a hash of the session's id and its owner: stored
//! documents reveal no session id, and another token finds nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::{DateTime, Utc};
use onetool_state::interface::{Change, Collection, Cursor, Documents, Effort, Expect, Key, Retention};
use onetool_state::{State, StateError, wait};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use rmcp::transport::streamable_http_server::session::SessionState;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::access::Principal;

/// Maximum number of sessions kept; the oldest are removed.
const MAX_KEPT: usize = 4096;
/// Number of writes between two sweeps for old sessions.
const WRITES_PER_SWEEP: u32 = 64;
/// Maximum length of an id: clients and proxies limit the size of headers.
const MAX_ID: usize = 4000;
/// Separates a session's own id from the sealed part.
const SEPARATOR: char = '.';
/// How long a request waits for the state.
const PATIENCE: Duration = Duration::from_secs(2);

/// The settings in effect.
pub(super) struct Place {
    /// Where sessions are kept.
    pub(super) state: State,
    /// How long they are kept.
    pub(super) kept_for: Duration,
    /// The name of this server, if others share the state.
    pub(super) node: Option<String>,
}

pub(super) struct Archive {
    place: Box<dyn Fn() -> Place + Send + Sync>,
    writes: AtomicU32,
}

#[derive(Serialize, Deserialize)]
struct Kept {
    at: DateTime<Utc>,
    /// `None` once its client has ended it.
    state: Option<SessionState>,
}

/// The kinds of documents kept for a session.
#[derive(Debug, Clone, Copy)]
pub(super) enum Document {
    /// What its client sent in `initialize`, or that it has ended the session.
    State,
    /// What its client subscribed to ([`super::interests`]).
    Interests,
}

impl Document {
    pub(super) fn key(self, id: &str, principal: Principal) -> Result<Key, StateError> {
        let mut hasher = blake3::Hasher::new_derive_key(match self {
            Self::State => "onetool session",
            Self::Interests => "onetool session interests",
        });
        hasher.update(&principal.fingerprint().to_le_bytes());
        hasher.update(id.as_bytes());
        hasher.finalize().to_hex()[..32].parse()
    }
}

/// Returns the session's own id, without the sealed part.
pub(crate) fn own_id(id: &str) -> &str {
    id.split_once(SEPARATOR).map_or(id, |(own, _)| own)
}

impl Archive {
    pub(super) fn new(place: impl Fn() -> Place + Send + Sync + 'static) -> Self {
        Self { place: Box::new(place), writes: AtomicU32::new(0) }
    }

    /// Returns the name of this server, if others share the state.
    pub(super) fn node(&self) -> Option<String> {
        (self.place)().node
    }

    pub(super) fn state(&self) -> State {
        (self.place)().state
    }

    /// Returns an id from which every server with the key can restore the session.
    pub(super) async fn seal(&self, id: &str, principal: Principal, state: &SessionState) -> Option<String> {
        let cipher = self.cipher().await?;
        let mut sealed = serde_json::to_vec(&Kept { at: Utc::now(), state: Some(state.clone()) }).ok()?;
        let nonce = *Uuid::new_v4().as_bytes().first_chunk::<NONCE_LEN>()?;
        let bound = bound_to(id, principal);
        cipher.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(bound), &mut sealed).ok()?;
        let text = URL_SAFE_NO_PAD.encode([&nonce[..], &sealed].concat());
        Some(format!("{id}{SEPARATOR}{text}")).filter(|id| id.len() <= MAX_ID)
    }

    /// Restores the state of `principal`'s session from its id, unless its client has ended it.
    pub(super) async fn open(&self, sealed: &str, principal: Principal) -> Option<SessionState> {
        let (id, text) = sealed.split_once(SEPARATOR)?;
        let mut bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (nonce, rest) = bytes.split_first_chunk_mut::<NONCE_LEN>()?;
        let (nonce, bound) = (Nonce::assume_unique_for_key(*nonce), bound_to(id, principal));
        let plain = self.cipher().await?.open_in_place(nonce, Aad::from(bound), rest).ok()?;
        let kept: Kept = serde_json::from_slice(plain).ok()?;
        if is_old(kept.at, (self.place)().kept_for) {
            return None;
        }
        if self.is_ended(id, principal).await { None } else { kept.state }
    }

    /// Whether the client has ended the session, at any server.
    pub(super) async fn is_ended(&self, id: &str, principal: Principal) -> bool {
        self.kept(id, principal).await.is_some_and(|kept| kept.state.is_none())
    }

    async fn cipher(&self) -> Option<LessSafeKey> {
        let blobs = (self.place)().state.blobs(Retention::default());
        let secret = blocking(move || wait(blobs.secret())).await?;
        let key = blake3::derive_key("onetool session ids", &secret);
        Some(LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, &key).ok()?))
    }

    /// Returns the stored state of a session of `principal`.
    pub(super) async fn read(&self, id: &str, principal: Principal) -> Option<SessionState> {
        let kept = self.kept(id, principal).await?;
        kept.state.filter(|_| !is_old(kept.at, (self.place)().kept_for))
    }

    async fn kept(&self, id: &str, principal: Principal) -> Option<Kept> {
        let key = Document::State.key(id, principal).ok()?;
        let documents = (self.place)().state.documents();
        let found = blocking(move || wait(documents.get(Collection::SESSIONS, &key))).await?;
        serde_json::from_slice(&found?.content).ok()
    }

    /// Stores a session that does not fit into its id.
    pub(super) async fn write(&self, id: &str, principal: Principal, state: SessionState) {
        self.put(id, principal, Some(state)).await;
    }

    /// Records that a client has ended its session, because the id cannot express that.
    pub(super) async fn end(&self, id: &str, principal: Principal) {
        self.put(id, principal, None).await;
        self.forget_interests(id, principal).await;
    }

    async fn put(&self, id: &str, principal: Principal, state: Option<SessionState>) {
        let place = (self.place)();
        let Ok(key) = Document::State.key(id, principal) else { return };
        let sweeps = self.writes.fetch_add(1, Ordering::Relaxed).is_multiple_of(WRITES_PER_SWEEP);
        // The next request may reach another server, so this is written before the client gets its answer.
        blocking(move || {
            let documents = place.state.documents();
            let kept = Kept { at: Utc::now(), state };
            let content = serde_json::to_vec(&kept).map_err(|error| StateError::Invalid(error.to_string()))?;
            wait(documents.put(Collection::SESSIONS, &key, &content, &Expect::Anything.into()))?;
            if sweeps { sweep(&documents, place.kept_for) } else { Ok(()) }
        })
        .await;
    }
}

/// Binds the sealed text to this session and this principal.
fn bound_to(id: &str, principal: Principal) -> Vec<u8> {
    [&principal.fingerprint().to_le_bytes()[..], id.as_bytes()].concat()
}

fn is_old(at: DateTime<Utc>, kept_for: Duration) -> bool {
    (Utc::now() - at).to_std().is_ok_and(|age| age > kept_for)
}

/// Returns the outcome, or `None` if the state is unavailable or too slow. The work continues to its end regardless.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StateError> + Send + 'static,
) -> Option<T> {
    let outcome = tokio::time::timeout(PATIENCE, crate::task::blocking(work)).await.ok()?.ok()?;
    outcome.inspect_err(|error| tracing::debug!(%error, "sessions could not be kept or read")).ok()
}

fn sweep(documents: &Arc<dyn Documents>, kept_for: Duration) -> Result<(), StateError> {
    let all = wait(documents.changes(Collection::SESSIONS, Cursor::START, Effort::Usual))?;
    let mut kept: Vec<(Option<DateTime<Utc>>, Key)> = all
        .changes
        .into_iter()
        .filter_map(|change| match change {
            Change::Put(document) => {
                let at = serde_json::from_slice::<Kept>(&document.content).ok().map(|kept| kept.at);
                Some((at, document.key))
            }
            _ => None,
        })
        .collect();
    kept.sort_by(|a, b| b.cmp(a));
    for (index, (at, key)) in kept.iter().enumerate() {
        if index >= MAX_KEPT || at.is_none_or(|at| is_old(at, kept_for)) {
            wait(documents.delete(Collection::SESSIONS, key, &Expect::Anything.into()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use onetool_state::flat::{FlatFiles, FlatPlaces};
    use serde_json::json;

    use super::*;

    fn archive(folder: &std::path::Path) -> Archive {
        let state: State = Arc::new(FlatFiles::new(FlatPlaces::standard(folder)));
        Archive::new(move || Place { state: state.clone(), kept_for: Duration::from_mins(10), node: None })
    }

    fn said(name: &str) -> SessionState {
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}},
            "clientInfo": {"name": name, "version": "1"}});
        SessionState::new(serde_json::from_value(params).unwrap())
    }

    #[tokio::test]
    async fn an_id_says_everything_to_every_server_and_to_its_principal_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) = (archive(folder.path()), archive(folder.path()));
        let (ana, eve) = (Principal::Token(1), Principal::Token(2));
        let id = one.seal("s1", ana, &said("client")).await.unwrap();
        assert!(own_id(&id) == "s1" && !id.contains("client") && id.is_ascii());
        let opened = other.open(&id, ana).await.unwrap();
        assert_eq!(opened.initialize_params.client_info.name, "client");
        assert!(other.open(&id, eve).await.is_none());
        assert!(other.open(&id.replace("s1.", "s2."), ana).await.is_none());
        for changed in ["s1", "s1.", "s1.AAAA", &format!("{id}A"), &id[..id.len() - 2]] {
            assert!(other.open(changed, ana).await.is_none(), "{changed}");
        }
        one.end("s1", ana).await;
        assert!(other.open(&id, ana).await.is_none());
        assert!(one.seal("s3", ana, &said(&"x".repeat(5000))).await.is_none(), "too long for a header");
        let stranger = tempfile::tempdir().unwrap();
        assert!(archive(stranger.path()).open(&id, ana).await.is_none(), "another key");
    }
}
