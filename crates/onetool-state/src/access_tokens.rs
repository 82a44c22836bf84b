//! Named bearer tokens: who may use a server, by name.
//!
//! A token is shown once, when it is created; only its hash is stored. Tokens are documents of the shared state, so
//! other servers see a created or revoked token within [`LOOK_AGAIN`]. A server that cannot reach the state continues
//! with the tokens it knows. A server that starts meanwhile knows none, but remembers in a local file that tokens
//! existed: an unreachable state never leaves a server open.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use parking_lot::{Mutex, RwLock};
use serde::{Deserialize, Serialize};

use crate::interface::{Change, Collection, Cursor, Documents, Effort, Expect, Key, Revision, State, StateError};
use crate::wait;

/// Minimum interval between checks for changes by others.
const LOOK_AGAIN: Duration = Duration::from_millis(300);
/// The same for an unknown token.
const LOOK_FOR_NEW: Duration = Duration::from_millis(20);
/// Minimum interval between updates of a token's last use.
const NOTE_USE_EVERY: chrono::TimeDelta = chrono::TimeDelta::minutes(10);
/// Maximum number of tokens.
const MAX_TOKENS: usize = 10_000;
const MAX_NAME: usize = 64;
const MAX_GROUPS: usize = 64;
/// Prefix of all tokens, which lets scanners for leaked secrets recognize them.
const PREFIX: &str = "onetool_";
/// Content of the file that remembers that tokens exist.
const MEMORY: &str = "The shared state has tokens: while it cannot be read, requests without a token are refused.\n";
const SCOPES: [&str; 3] = ["read", "invoke", "admin"];

/// A stored token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TokenRecord {
    pub id: String,
    pub name: String,
    /// In hexadecimal; the token cannot be derived from it.
    pub hash: String,
    pub scopes: Vec<String>,
    #[serde(default)]
    pub groups: Vec<String>,
    pub created_at: DateTime<Utc>,
    #[serde(default)]
    pub expires_at: Option<DateTime<Utc>>,
    /// Accurate to a few minutes.
    #[serde(default)]
    pub last_used_at: Option<DateTime<Utc>>,
}

impl TokenRecord {
    pub fn is_expired(&self, now: DateTime<Utc>) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }
}

/// A token to create.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewToken {
    pub name: String,
    pub scopes: Vec<String>,
    pub groups: Vec<String>,
    pub expires_in: Option<Duration>,
}

/// Why a token could not be created or revoked.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    #[error("{0}")]
    Invalid(String),
    #[error("there is a token named '{0}' already\nhint: choose another name, or revoke that one first")]
    Exists(String),
    #[error("no token has the name or id '{0}'\nhint: `onetool tokens list` shows them")]
    NotFound(String),
    #[error(transparent)]
    State(StateError),
}

impl From<StateError> for TokenError {
    fn from(error: StateError) -> Self {
        Self::State(error)
    }
}

/// All tokens in the shared state. The methods block, except [`AccessTokens::find`].
pub struct AccessTokens {
    documents: Arc<dyn Documents>,
    known: RwLock<Arc<Known>>,
    looked: Mutex<Looked>,
    /// Tokens existed at some time: a server that required one keeps requiring one.
    were_there: AtomicBool,
    /// Whether the tokens were read since the start.
    is_read: AtomicBool,
    /// The file exists if there were tokens when this machine last checked.
    memory: Option<PathBuf>,
}

#[derive(Default)]
struct Known {
    by_hash: HashMap<String, Entry>,
}

#[derive(Clone)]
struct Entry {
    record: Arc<TokenRecord>,
    revision: Revision,
}

struct Looked {
    cursor: Cursor,
    at: Option<Instant>,
}

impl AccessTokens {
    /// Reads nothing yet.
    pub fn new(state: &State) -> Self {
        Self {
            documents: state.documents(),
            known: RwLock::default(),
            looked: Mutex::new(Looked { cursor: Cursor::START, at: None }),
            were_there: AtomicBool::new(false),
            is_read: AtomicBool::new(false),
            memory: None,
        }
    }

    /// Remembers in a file whether tokens exist, for a start while the state is unreachable.
    #[must_use]
    pub fn remembering(mut self, file: PathBuf) -> Self {
        self.memory = Some(file);
        self
    }

    /// Whether the tokens are still unknown because the state could not be read since the start.
    pub fn are_unknown(&self) -> bool {
        !self.is_read.load(Ordering::Acquire)
    }

    /// Whether tokens exist, or existed since the start. As last known; see [`AccessTokens::refresh`].
    pub fn are_there(&self) -> bool {
        self.were_there.load(Ordering::Acquire)
            || self.are_unknown() && self.memory.as_ref().is_some_and(|file| file.exists())
    }

    /// Finds the record of a token, as last known. Expired tokens are not found.
    pub fn find(&self, token: &str) -> Option<Arc<TokenRecord>> {
        if !token.starts_with(PREFIX) {
            return None;
        }
        let known = self.known.read().clone();
        let record = &known.by_hash.get(&hash(token))?.record;
        (!record.is_expired(Utc::now())).then(|| record.clone())
    }

    /// Whether it is time for [`AccessTokens::refresh`].
    pub fn is_due(&self) -> bool {
        self.looked.try_lock().is_some_and(|looked| looked.at.is_none_or(|at| at.elapsed() >= LOOK_AGAIN))
    }

    /// Whether a text looks like a token that may have just been created, so that checking early is worthwhile.
    pub fn may_be_new(&self, token: &str) -> bool {
        token.starts_with(PREFIX)
            && self.looked.try_lock().is_some_and(|looked| looked.at.is_none_or(|at| at.elapsed() >= LOOK_FOR_NEW))
    }

    /// Checks for changes by others immediately.
    pub fn refresh_at_once(&self) {
        self.refresh_now();
    }

    /// Checks for changes by others, unless that was done recently.
    pub fn refresh(&self) {
        if self.is_due()
            && let Err(error) = self.look()
        {
            tracing::warn!(%error, "tokens could not be read; those that are known stay in effect");
        }
    }

    /// Creates a token. This is the only time its text is returned.
    pub fn create(&self, new: NewToken) -> Result<(String, TokenRecord), TokenError> {
        check(&new)?;
        self.look()?;
        if self.known.read().by_hash.len() >= MAX_TOKENS {
            return Err(TokenError::Invalid(format!("there are {MAX_TOKENS} tokens already\nhint: revoke some")));
        }
        let token = random_token();
        let now = Utc::now();
        let expires_at = match new.expires_in {
            None => None,
            Some(after) => Some(
                chrono::TimeDelta::from_std(after)
                    .ok()
                    .and_then(|after| now.checked_add_signed(after))
                    .ok_or_else(|| TokenError::Invalid("that is too far in the future".to_owned()))?,
            ),
        };
        let record = TokenRecord {
            id: uuid::Uuid::new_v4().simple().to_string()[..12].to_owned(),
            hash: hash(&token),
            name: new.name,
            scopes: SCOPES.iter().filter(|scope| new.scopes.iter().any(|s| s == *scope)).map(|s| (*s).into()).collect(),
            groups: new.groups,
            created_at: now,
            expires_at,
            last_used_at: None,
        };
        match wait(self.documents.put(
            Collection::ACCESS_TOKENS,
            &key(&record.name)?,
            &content(&record)?,
            &Expect::Absent.into(),
        )) {
            Ok(_) => {}
            Err(StateError::Conflict(_)) => return Err(TokenError::Exists(record.name)),
            Err(error) => return Err(error.into()),
        }
        self.look()?;
        Ok((token, record))
    }

    /// Returns all tokens, by name.
    pub fn list(&self) -> Result<Vec<Arc<TokenRecord>>, TokenError> {
        self.look()?;
        let mut all: Vec<_> = self.known.read().by_hash.values().map(|entry| entry.record.clone()).collect();
        all.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(all)
    }

    /// Revokes a token, by its name or its id.
    pub fn revoke(&self, which: &str) -> Result<Arc<TokenRecord>, TokenError> {
        let all = self.list()?;
        let by_name = all.iter().find(|record| record.name == which);
        let found = by_name
            .or_else(|| all.iter().find(|record| record.id == which))
            .ok_or_else(|| TokenError::NotFound(which.chars().take(MAX_NAME).collect()))?;
        wait(self.documents.delete(Collection::ACCESS_TOKENS, &key(&found.name)?, &Expect::Anything.into()))?;
        self.look()?;
        Ok(found.clone())
    }

    /// Whether this use of the token should be recorded; see [`AccessTokens::note_use`].
    pub fn wants_note(record: &TokenRecord) -> bool {
        record.last_used_at.is_none_or(|at| Utc::now() - at >= NOTE_USE_EVERY)
    }

    /// Records the use of a token. A token that was changed or revoked meanwhile stays as it is.
    pub fn note_use(&self, record: &TokenRecord) {
        let entry = self.known.read().by_hash.get(&record.hash).cloned();
        let Some(entry) = entry.filter(|entry| Self::wants_note(&entry.record)) else { return };
        let used = TokenRecord { last_used_at: Some(Utc::now()), ..(*entry.record).clone() };
        let written = key(&used.name).and_then(|key| {
            let expect = Expect::Revision(entry.revision);
            Ok(wait(self.documents.put(Collection::ACCESS_TOKENS, &key, &content(&used)?, &expect.into()))?)
        });
        if written.is_ok() {
            self.refresh_now();
        }
    }

    fn refresh_now(&self) {
        if let Err(error) = self.look() {
            tracing::debug!(%error, "tokens could not be read");
        }
    }

    fn remember(&self, are_there: bool) {
        let Some(file) = self.memory.as_ref().filter(|file| file.exists() != are_there) else { return };
        let written = match file.parent() {
            _ if !are_there => std::fs::remove_file(file),
            // Do not create folders outside a project.
            Some(folder) if folder.parent().is_some_and(Path::is_dir) => {
                std::fs::create_dir_all(folder).and_then(|()| std::fs::write(file, MEMORY))
            }
            _ => Ok(()),
        };
        if let Err(error) = written {
            tracing::warn!(file = %file.display(), %error, "it cannot be noted whether there are tokens");
        }
    }

    fn look(&self) -> Result<(), StateError> {
        let mut looked = self.looked.lock();
        let effort = if looked.at.is_none() { Effort::Thorough } else { Effort::Usual };
        // Set first, so that an unreachable state is not asked on every request.
        looked.at = Some(Instant::now());
        let changes = wait(self.documents.changes(Collection::ACCESS_TOKENS, looked.cursor, effort))?;
        looked.cursor = changes.cursor;
        self.is_read.store(true, Ordering::Release);
        if !changes.is_whole && changes.changes.is_empty() {
            return Ok(());
        }
        let old = self.known.read().clone();
        let mut by_hash = if changes.is_whole { HashMap::new() } else { old.by_hash.clone() };
        for change in changes.changes {
            let (name, entry) = match change {
                Change::Put(document) => match serde_json::from_slice::<TokenRecord>(&document.content) {
                    Ok(record) if record.name == document.key.as_str() => {
                        (record.name.clone(), Some(Entry { record: Arc::new(record), revision: document.revision }))
                    }
                    _ => {
                        tracing::warn!(name = document.key.as_str(), "a token is ignored: it cannot be read");
                        (document.key.as_str().to_owned(), None)
                    }
                },
                Change::Gone(key) => (key.as_str().to_owned(), None),
                Change::Unreadable { key, place, reason } => {
                    tracing::warn!(place, reason, "a token is ignored: it cannot be read");
                    let Some(key) = key else { continue };
                    (key.as_str().to_owned(), None)
                }
            };
            by_hash.retain(|_, known: &mut Entry| known.record.name != name);
            if let Some(entry) = entry {
                by_hash.insert(entry.record.hash.clone(), entry);
            }
        }
        if !by_hash.is_empty() {
            self.were_there.store(true, Ordering::Release);
        }
        self.remember(!by_hash.is_empty());
        *self.known.write() = Arc::new(Known { by_hash });
        Ok(())
    }
}

/// 256 random bits: a plain hash of them cannot be reversed.
fn random_token() -> String {
    use base64::Engine as _;
    let mut bytes = [0_u8; 32];
    bytes[..16].copy_from_slice(uuid::Uuid::new_v4().as_bytes());
    bytes[16..].copy_from_slice(uuid::Uuid::new_v4().as_bytes());
    // Hashing spreads the fixed bits of a UUID.
    let mixed = blake3::derive_key("onetool access token", &bytes);
    format!("{PREFIX}{}", base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(mixed))
}

fn hash(token: &str) -> String {
    blake3::Hash::from(blake3::derive_key("onetool access token at rest", token.as_bytes())).to_hex().to_string()
}

fn key(name: &str) -> Result<Key, TokenError> {
    Ok(name.parse::<Key>()?)
}

fn content(record: &TokenRecord) -> Result<Vec<u8>, TokenError> {
    serde_json::to_vec_pretty(record).map_err(|error| TokenError::Invalid(error.to_string()))
}

/// Whether a text is a valid name of a principal or a group.
pub fn is_name(text: &str) -> bool {
    text.len() <= MAX_NAME && Key::is_part(text)
}

fn check(new: &NewToken) -> Result<(), TokenError> {
    let refused = |text: String| Err(TokenError::Invalid(text));
    let shown = |text: &str| text.chars().filter(|c| !c.is_control()).take(MAX_NAME).collect::<String>();
    if !is_name(&new.name) {
        return refused(format!(
            "'{}' is not a name for a token: letters, digits, '-', '_' and '.', at most {MAX_NAME}",
            shown(&new.name)
        ));
    }
    if new.scopes.is_empty() {
        return refused("a token needs a scope: read, invoke or admin".to_owned());
    }
    if let Some(unknown) = new.scopes.iter().find(|scope| !SCOPES.contains(&scope.as_str())) {
        return refused(format!("unknown scope '{}'; expected read, invoke or admin", shown(unknown)));
    }
    if let Some(group) = new.groups.iter().find(|group| !is_name(group)) {
        return refused(format!("'{}' is not a name for a group", shown(group)));
    }
    if new.groups.len() > MAX_GROUPS {
        return refused(format!("a token is in at most {MAX_GROUPS} groups"));
    }
    if new.expires_in.is_some_and(|after| after.is_zero()) {
        return refused("a token that has expired already is of no use".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flat::{FlatFiles, FlatPlaces};

    fn state(folder: &std::path::Path) -> State {
        Arc::new(FlatFiles::new(FlatPlaces::standard(folder)))
    }

    fn new(name: &str) -> NewToken {
        NewToken { name: name.to_owned(), scopes: vec!["invoke".to_owned()], ..NewToken::default() }
    }

    #[test]
    fn only_a_hash_is_kept_and_another_process_follows() {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) = (AccessTokens::new(&state(folder.path())), AccessTokens::new(&state(folder.path())));
        assert!(!one.are_there());
        let (token, record) = one.create(new("ana")).unwrap();
        assert!(matches!(one.create(new("ana")), Err(TokenError::Exists(_))));
        other.refresh();
        assert_eq!(other.find(&token).map(|found| found.name.clone()), Some("ana".to_owned()));
        assert!(other.find(&format!("{token}x")).is_none());
        let kept = std::fs::read_dir(folder.path().join("state/access-tokens"))
            .unwrap()
            .filter_map(|entry| std::fs::read_to_string(entry.unwrap().path()).ok())
            .collect::<String>();
        assert!(kept.contains(&record.hash) && !kept.contains(&token[8..]), "{kept}");
        one.note_use(&record);
        assert!(one.list().unwrap()[0].last_used_at.is_some());
        one.revoke(&record.id).unwrap();
        assert!(one.find(&token).is_none());
        assert!(one.are_there());
        assert!(other.list().unwrap().is_empty());
        assert!(other.find(&token).is_none());
        assert!(matches!(one.revoke("ana"), Err(TokenError::NotFound(_))));
    }

    #[test]
    fn a_state_that_cannot_be_read_opens_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("node/.onetool/state/tokens-needed");
        std::fs::create_dir_all(folder.path().join("node/.onetool")).unwrap();
        let shared = folder.path().join("shared");
        let start = || AccessTokens::new(&state(&shared)).remembering(file.clone());
        let first = start();
        assert!(first.are_unknown() && !first.are_there());
        let (_, record) = first.create(new("ana")).unwrap();
        assert!(!first.are_unknown());
        let second = start();
        assert!(second.are_unknown() && second.are_there(), "before anything was read");
        second.revoke(&record.name).unwrap();
        assert!(second.are_there(), "a running server stays closed");
        assert!(!start().are_there() && !file.exists());
    }

    #[test]
    fn a_token_expires_and_bad_ones_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let tokens = AccessTokens::new(&state(folder.path()));
        let short = NewToken { expires_in: Some(Duration::from_micros(1)), ..new("short") };
        let (token, _) = tokens.create(short).unwrap();
        assert!(tokens.find(&token).is_none());
        assert_eq!(tokens.list().unwrap().len(), 1);
        for bad in [
            new("../x"),
            new(""),
            NewToken { scopes: vec!["root".to_owned()], ..new("a") },
            NewToken { scopes: Vec::new(), ..new("a") },
            NewToken { groups: vec!["a b".to_owned()], ..new("a") },
        ] {
            assert!(matches!(tokens.create(bad), Err(TokenError::Invalid(_))));
        }
    }
}
