//! Storage for blob contents, for backends that keep only the metadata.

use async_trait::async_trait;
use uuid::Uuid;

use super::StateError;

/// Numbered chunks of uploads. All chunks of an upload but the last have [`Chunks::chunk_bytes`].
#[async_trait]
pub trait Chunks: Send + Sync {
    /// Where the chunks are kept, for display.
    fn place(&self) -> String;

    fn chunk_bytes(&self) -> usize;

    /// Stores a chunk, durably.
    async fn put(&self, upload: Uuid, n: u64, content: Vec<u8>) -> Result<(), StateError>;

    /// Returns at most `limit` bytes of a chunk from `offset`. `None` if there is no such chunk.
    async fn get(&self, upload: Uuid, n: u64, offset: usize, limit: usize) -> Result<Option<Vec<u8>>, StateError>;

    /// Removes every chunk of an upload. An upload without chunks is not an error.
    async fn remove(&self, upload: Uuid) -> Result<(), StateError>;
}
