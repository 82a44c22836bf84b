//! Small versioned documents: bundles, tools, switches, pins, listings, plans.
//!
//! A change states what it expects, and fails if that no longer holds. A [`Guard`] extends this to everything below a
//! prefix: rules that look at many documents decide on a snapshot, and the change takes place only if the snapshot is
//! still current. So rules stay pure, and hold across processes and machines.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::StateError;

/// Documents of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Collection(&'static str);

impl Collection {
    /// Bundles, tools and the switches of built-in ones.
    pub const BUNDLES: Self = Self("bundles");
    /// Hashes of the server tools that were accepted.
    pub const PINS: Self = Self("pins");
    /// The accepted tools in full, to show what has changed.
    pub const PINNED: Self = Self("pinned");
    /// The last listing of each server.
    pub const LISTINGS: Self = Self("listings");
    /// Plans of agents.
    pub const TODO: Self = Self("todo");
    /// Background runs: the state of each.
    pub const RUNS: Self = Self("runs");
    /// Their commands and replies.
    pub const RUN_CONTENTS: Self = Self("run-contents");
    /// What MCP clients declared at the start of their session.
    pub const SESSIONS: Self = Self("sessions");

    /// Tokens of HTTP tools, sealed.
    pub const TOKENS: Self = Self("tokens");
    /// Code that runs saved for later.
    pub const SAVED: Self = Self("saved");
    /// Approvals that runs wait for.
    pub const APPROVALS: Self = Self("approvals");
    /// Switches for packs and tools that no bundle has a flag for.
    pub const SWITCHES: Self = Self("switches");
    /// The shapes of tool results.
    pub const SHAPES: Self = Self("shapes");
    /// Sign-ins to servers.
    pub const CREDENTIALS: Self = Self("credentials");

    /// Named bearer tokens of people and programs, hashed.
    pub const ACCESS_TOKENS: Self = Self("access-tokens");

    pub const ALL: [Self; 15] = [
        Self::BUNDLES,
        Self::PINS,
        Self::PINNED,
        Self::LISTINGS,
        Self::TODO,
        Self::RUNS,
        Self::RUN_CONTENTS,
        Self::SESSIONS,
        Self::TOKENS,
        Self::SAVED,
        Self::APPROVALS,
        Self::SWITCHES,
        Self::SHAPES,
        Self::CREDENTIALS,
        Self::ACCESS_TOKENS,
    ];

    /// Any other collection, for tests and extensions. The name is used in paths and tables: plain letters.
    pub const fn named(name: &'static str) -> Self {
        Self(name)
    }

    pub fn as_str(self) -> &'static str {
        self.0
    }
}

impl fmt::Display for Collection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// The name of a document within its collection: one or two parts, `a` or `a/b`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(Arc<str>);

impl Key {
    const PART_BYTES: usize = 100;

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first of two parts.
    pub fn folder(&self) -> Option<&str> {
        self.0.split_once('/').map(|(folder, _)| folder)
    }

    /// The last part.
    pub fn name(&self) -> &str {
        self.0.split_once('/').map_or(&self.0, |(_, name)| name)
    }

    /// Whether a text is a valid part of a key. It becomes part of a file name, so special characters are not allowed.
    pub fn is_part(text: &str) -> bool {
        (1..=Self::PART_BYTES).contains(&text.len())
            && !text.starts_with('.')
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
    }
}

impl FromStr for Key {
    type Err = StateError;

    fn from_str(text: &str) -> Result<Self, StateError> {
        let valid = match text.split_once('/') {
            Some((folder, name)) => Self::is_part(folder) && Self::is_part(name),
            None => Self::is_part(text),
        };
        if valid {
            return Ok(Self(text.into()));
        }
        let shown: String = text.chars().take(Self::PART_BYTES).collect();
        Err(StateError::Invalid(format!("{shown:?} is not a document key")))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A version of a document. Opaque; equal revisions mean equal content.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Revision(String);

impl Revision {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The revision of this content.
    pub fn of(content: &[u8]) -> Self {
        Self(blake3::hash(content).to_hex()[..32].to_owned())
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    pub key: Key,
    pub revision: Revision,
    pub content: Vec<u8>,
}

/// The required state of the document that is changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expect {
    Anything,
    Absent,
    Revision(Revision),
}

/// Requires that no key beginning with `prefix` changed after `seen`. An empty prefix is the whole collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guard {
    pub prefix: String,
    pub seen: Cursor,
}

/// The condition under which a change takes place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    pub expect: Expect,
    pub guard: Option<Guard>,
}

impl From<Expect> for Condition {
    fn from(expect: Expect) -> Self {
        Self { expect, guard: None }
    }
}

/// A position in the feed of changes. Only valid for the backend and the process that returned it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor(pub u64);

impl Cursor {
    /// The start of the feed: the first changes are all existing documents.
    pub const START: Self = Self(0);
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    Put(Document),
    Gone(Key),
    /// A file or row that is not a document; it is left alone. `key` is set if it has one.
    Unreadable {
        key: Option<Key>,
        place: String,
        reason: String,
    },
}

/// What changed since a cursor.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// The changes list all documents instead of a difference: any document not listed was removed.
    pub is_whole: bool,
    pub changes: Vec<Change>,
    pub cursor: Cursor,
}

/// How thoroughly to look for changes, where looking is costly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// Sees everything that was changed through this interface, by any process.
    Usual,
    /// Also sees changes made in place, with an editor.
    Thorough,
}

/// Documents, shared by all users of the same backend.
#[async_trait]
pub trait Documents: Send + Sync {
    async fn get(&self, collection: Collection, key: &Key) -> Result<Option<Document>, StateError>;

    /// Creates or replaces a document, durably, if the condition holds.
    async fn put(
        &self,
        collection: Collection,
        key: &Key,
        content: &[u8],
        condition: &Condition,
    ) -> Result<Revision, StateError>;

    /// Creates several documents, durably: all of them, or none if one already exists, the guard does not hold or the
    /// process ends.
    async fn create_all(
        &self,
        collection: Collection,
        documents: &[(Key, Vec<u8>)],
        guard: Option<&Guard>,
    ) -> Result<(), StateError>;

    /// Removes a document, durably, if the condition holds. Removing a missing document is not an error.
    async fn delete(&self, collection: Collection, key: &Key, condition: &Condition) -> Result<(), StateError>;

    /// Returns the changes since `since`, each key once in its current state, in no particular order.
    async fn changes(&self, collection: Collection, since: Cursor, effort: Effort) -> Result<Changes, StateError>;

    /// Moves an invalid document out of the way, and returns its new location. `None` if it may still be being written:
    /// the next changes then include it again.
    async fn set_aside(&self, collection: Collection, key: &Key) -> Result<Option<String>, StateError>;

    /// Whether a document is still as the last changes returned it, as far as can be checked without waiting.
    fn is_current(&self, _collection: Collection, _key: &Key) -> bool {
        true
    }

    /// Interval for polling changes in the background. `None` if polling is so cheap that readers do it themselves.
    fn poll_every(&self) -> Option<Duration> {
        None
    }

    /// Where a document is kept, for display.
    fn place(&self, collection: Collection, key: &Key) -> String {
        format!("{collection}/{key}")
    }
}
