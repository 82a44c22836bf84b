//! Message contents as stored outputs. A text is one output. Parts are one output each, so that an image that appears
//! twice is stored once, plus a list of them that carries the reference.

use serde::{Deserialize, Serialize};

use super::TEXT_MEDIA_TYPE;
use super::store::{OutputRef, OutputStore, StoredOutput};
use crate::{ErrorKind, MessageContent, Part, ToolError};

/// The media type of a list of parts.
const PARTS: &str = "application/vnd.onetool.parts+json";
/// The media type of a part in MCP's own form.
const BLOCK: &str = "application/vnd.onetool.block+json";
/// Chunk size for reading and writing.
pub(super) const CHUNK_BYTES: usize = 64 << 10;
/// Maximum size of an output that is returned as a whole.
const MAX_WHOLE_BYTES: u64 = 256 << 20;

/// One part in a list.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct PartEntry {
    #[serde(rename = "ref")]
    reference: String,
    media_type: String,
    bytes: u64,
}

/// What an output consists of.
pub(super) enum Shape {
    /// Bytes of one media type.
    Single(StoredOutput),
    Parts(Vec<PartEntry>),
}

impl PartEntry {
    pub(super) fn reference(&self) -> Result<OutputRef, ToolError> {
        self.reference.parse()
    }

    pub(super) fn is_text(&self) -> bool {
        self.media_type == TEXT_MEDIA_TYPE
    }

    /// Returns a line that represents a part that is not text.
    pub(super) fn placeholder(&self) -> String {
        format!("[{}, {} bytes, ref_id {}]", self.media_type, self.bytes, self.reference)
    }
}

pub(super) async fn put(
    store: &dyn OutputStore,
    scope: &str,
    content: &MessageContent,
) -> Result<OutputRef, ToolError> {
    let parts = match content {
        MessageContent::Text(text) => {
            return Ok(put_bytes(store, scope, TEXT_MEDIA_TYPE, text.as_bytes()).await?.reference);
        }
        MessageContent::Parts(parts) => parts,
    };
    let mut entries = Vec::with_capacity(parts.len());
    for part in parts {
        let stored = match part {
            Part::Text(text) => put_bytes(store, scope, TEXT_MEDIA_TYPE, text.as_bytes()).await?,
            Part::Image { media_type, data } => put_bytes(store, scope, media_type, data).await?,
            Part::Other(block) => put_bytes(store, scope, BLOCK, block.to_string().as_bytes()).await?,
        };
        let reference = stored.reference.to_string();
        entries.push(PartEntry { reference, media_type: stored.media_type, bytes: stored.bytes });
    }
    let list = serde_json::to_vec(&entries).map_err(|error| ToolError::internal(error.to_string()))?;
    Ok(put_bytes(store, scope, PARTS, &list).await?.reference)
}

async fn put_bytes(
    store: &dyn OutputStore,
    scope: &str,
    media_type: &str,
    bytes: &[u8],
) -> Result<StoredOutput, ToolError> {
    let mut writer = store.writer(scope, media_type).await?;
    for chunk in bytes.chunks(CHUNK_BYTES) {
        writer.write(chunk).await?;
    }
    writer.finish().await
}

pub(super) async fn shape(store: &dyn OutputStore, scope: &str, reference: &OutputRef) -> Result<Shape, ToolError> {
    let stored = store.describe(scope, reference).await?;
    if stored.media_type != PARTS {
        return Ok(Shape::Single(stored));
    }
    let list = whole(store, scope, &stored).await?;
    serde_json::from_slice(&list)
        .map(Shape::Parts)
        .map_err(|error| ToolError::internal(format!("the stored output {reference} is damaged: {error}")))
}

pub(super) async fn restore(
    store: &dyn OutputStore,
    scope: &str,
    reference: &OutputRef,
) -> Result<MessageContent, ToolError> {
    match shape(store, scope, reference).await? {
        Shape::Single(stored) => match part(store, scope, &stored).await? {
            Part::Text(text) => Ok(MessageContent::Text(text)),
            other => Ok(MessageContent::Parts(vec![other])),
        },
        Shape::Parts(entries) => {
            let mut parts = Vec::with_capacity(entries.len());
            for entry in entries {
                let stored = store.describe(scope, &entry.reference()?).await?;
                parts.push(part(store, scope, &stored).await?);
            }
            Ok(MessageContent::Parts(parts))
        }
    }
}

async fn part(store: &dyn OutputStore, scope: &str, stored: &StoredOutput) -> Result<Part, ToolError> {
    let bytes = whole(store, scope, stored).await?;
    if stored.media_type == BLOCK {
        return serde_json::from_slice(&bytes)
            .map(Part::Other)
            .map_err(|error| ToolError::internal(format!("a stored part is damaged: {error}")));
    }
    if stored.media_type.starts_with("text/") {
        return Ok(Part::Text(String::from_utf8_lossy(&bytes).into_owned()));
    }
    Ok(Part::Image { media_type: stored.media_type.clone(), data: bytes })
}

async fn whole(store: &dyn OutputStore, scope: &str, stored: &StoredOutput) -> Result<Vec<u8>, ToolError> {
    if stored.bytes > MAX_WHOLE_BYTES {
        let message = format!("the output is {} bytes long, too large to give back at once", stored.bytes);
        return Err(ToolError::new(ErrorKind::TooLarge, message).with_hint("read it by lines"));
    }
    let mut bytes = Vec::new();
    while (bytes.len() as u64) < stored.bytes {
        let chunk = store.read(scope, &stored.reference, bytes.len() as u64, CHUNK_BYTES).await?;
        if chunk.is_empty() {
            return Err(ToolError::internal(format!("the stored output {} is cut short", stored.reference)));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}
