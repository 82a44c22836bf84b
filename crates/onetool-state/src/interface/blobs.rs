//! Large contents, written and read in pieces: stored results and outputs.
//!
//! A blob is named by its content under the store's secret key: equal content in one scope is stored once, yet ids
//! cannot be guessed.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use serde_json::{Map, Value as Json};

use super::StateError;

/// How long blobs are kept, and their maximum sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Zero keeps blobs forever.
    pub ttl: Duration,
    /// Maximum size of all blobs together; beyond it, the oldest are removed.
    pub max_bytes: u64,
    /// Maximum size of one blob.
    pub max_blob_bytes: u64,
}

impl Default for Retention {
    fn default() -> Self {
        Self { ttl: Duration::from_hours(1), max_bytes: 8 << 30, max_blob_bytes: 4 << 30 }
    }
}

/// The id of a blob: hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlobId(String);

impl BlobId {
    const MAX_DIGITS: usize = 64;
    const DIGITS: usize = 32;

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Hashes a blob of a scope and media type; feed the content, and finish with [`BlobId::from_hash`].
    pub fn hasher(new: &NewBlob) -> blake3::Hasher {
        let mut hasher = blake3::Hasher::new();
        for part in [&new.scope, &new.media_type] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        hasher
    }

    /// The id of hashed content under the store's secret key.
    pub fn from_hash(key: &[u8; 32], hasher: &blake3::Hasher) -> Self {
        let keyed = blake3::keyed_hash(key, hasher.finalize().as_bytes());
        Self(keyed.to_hex()[..Self::DIGITS].to_owned())
    }
}

impl fmt::Display for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for BlobId {
    type Err = StateError;

    /// Lower-case hexadecimal digits only: an id becomes part of a path.
    fn from_str(text: &str) -> Result<Self, StateError> {
        let is_id = (1..=Self::MAX_DIGITS).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
        if is_id {
            return Ok(Self(text.to_owned()));
        }
        let shown: String = text.chars().filter(|c| !c.is_control()).take(Self::MAX_DIGITS).collect();
        Err(StateError::NotFound(shown))
    }
}

/// What is known about a blob before its content is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewBlob {
    /// Keeps equal content of different owners apart. Empty for content that has no owner.
    pub scope: String,
    pub media_type: String,
}

/// What is known about a blob without reading it.
#[derive(Debug, Clone, PartialEq)]
pub struct BlobInfo {
    pub id: BlobId,
    pub scope: String,
    pub media_type: String,
    pub bytes: u64,
    pub created_at: DateTime<Utc>,
    /// Notes of its writer.
    pub notes: Map<String, Json>,
}

/// Writes one blob. Dropping it before it is finished leaves nothing behind.
#[async_trait]
pub trait BlobWriter: Send {
    async fn write(&mut self, chunk: &[u8]) -> Result<(), StateError>;

    /// Makes the blob readable. An existing blob with the same id gets these notes and a new creation time.
    async fn finish(self: Box<Self>, notes: Map<String, Json>) -> Result<BlobInfo, StateError>;
}

/// Blobs, shared by all users of the same backend.
#[async_trait]
pub trait Blobs: Send + Sync {
    /// Starts a blob. Now and then, this also removes expired blobs.
    async fn create(&self, new: NewBlob) -> Result<Box<dyn BlobWriter>, StateError>;

    /// Fails with [`StateError::NotFound`] or [`StateError::Expired`].
    async fn describe(&self, id: &BlobId) -> Result<BlobInfo, StateError>;

    /// Returns at most `limit` bytes from `offset`; fewer only at the end.
    async fn read(&self, id: &BlobId, offset: u64, limit: usize) -> Result<Vec<u8>, StateError>;

    /// Lists unexpired blobs in the order of their ids, starting after `after`, at most `limit`. For copies: there may
    /// be millions.
    async fn page(&self, after: Option<&BlobId>, limit: usize) -> Result<Vec<BlobInfo>, StateError>;

    /// Lists the newest unexpired blobs of one scope, newest first, at most `limit`.
    async fn newest(&self, scope: &str, limit: usize) -> Result<Vec<BlobInfo>, StateError>;

    /// Removes expired blobs, and the oldest ones if there are too many. Returns the number of removed blobs.
    async fn sweep(&self) -> Result<usize, StateError>;

    /// The key that ids are derived with. Anyone who has it can compute the id of known content.
    async fn secret(&self) -> Result<[u8; 32], StateError>;

    /// Adopts the key of another store, so that copies keep their ids. Only allowed for a store without blobs.
    async fn adopt_secret(&self, secret: [u8; 32]) -> Result<(), StateError>;
}
