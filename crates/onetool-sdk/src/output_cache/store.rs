//! Storage of outputs: a trait, because this crate writes no files.

use std::fmt;
use std::str::FromStr;

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use crate::ToolError;

/// Number of hexadecimal digits in a reference: 128 bits.
const DIGITS: usize = 32;

/// Identifies an output by its content.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OutputRef(String);

impl OutputRef {
    /// Returns the reference for a finished hash. Create the hasher with [`OutputRef::hasher`].
    pub fn from_hash(hasher: &blake3::Hasher) -> Self {
        Self(hasher.finalize().to_hex().as_str()[..DIGITS].to_owned())
    }

    /// Returns a hasher for a media type: the same bytes as text and as an image are two outputs.
    pub fn hasher(media_type: &str) -> blake3::Hasher {
        let mut hasher = blake3::Hasher::new();
        hasher.update(media_type.as_bytes());
        hasher.update(&[0]);
        hasher
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn sample() -> Self {
        Self("0".repeat(DIGITS))
    }
}

impl fmt::Display for OutputRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for OutputRef {
    type Err = ToolError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        if text.len() == DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Ok(Self(text.to_ascii_lowercase()));
        }
        let shown: String = text.chars().take(2 * DIGITS).collect();
        Err(ToolError::arguments(format!("'{shown}' is not the reference of an output"))
            .with_hint(format!("a reference has {DIGITS} hexadecimal digits; take it from output_ref")))
    }
}

/// What is known about an output without reading it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredOutput {
    pub reference: OutputRef,
    pub media_type: String,
    pub bytes: u64,
    pub expires: Option<DateTime<Utc>>,
}

/// Receives one output, one chunk at a time. If dropped before it is finished, it leaves nothing behind.
#[async_trait]
pub trait OutputWriter: Send {
    async fn write(&mut self, chunk: &[u8]) -> Result<(), ToolError>;

    /// Makes the output readable under its reference.
    async fn finish(self: Box<Self>) -> Result<StoredOutput, ToolError>;
}

/// Stores outputs by content, separated by scope, until they expire.
#[async_trait]
pub trait OutputStore: Send + Sync {
    /// Starts an output.
    async fn writer(&self, scope: &str, media_type: &str) -> Result<Box<dyn OutputWriter>, ToolError>;

    /// Fails with [`crate::ErrorKind::NotFound`] if the scope does not have such an output (any more).
    async fn describe(&self, scope: &str, reference: &OutputRef) -> Result<StoredOutput, ToolError>;

    /// Returns at most `limit` bytes from `offset`; fewer only at the end.
    async fn read(&self, scope: &str, reference: &OutputRef, offset: u64, limit: usize) -> Result<Vec<u8>, ToolError>;

    /// Deletes expired outputs; returns their number.
    async fn sweep(&self) -> Result<usize, ToolError>;
}

/// The error for a reference to nothing.
pub(super) fn not_found(reference: &OutputRef) -> ToolError {
    ToolError::not_found(format!("output not found or expired: {reference}"))
        .with_hint("call the tool again to get its output")
}
