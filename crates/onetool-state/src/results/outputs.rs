//! The same store for conversations: `ot.result` can read what the SDK's output cache trims.

use async_trait::async_trait;
use onetool_sdk::{ErrorKind, OutputRef, OutputStore, OutputWriter, StoredOutput, ToolError};
use serde_json::{Map, json};

use super::ResultStore;
use crate::interface::{BlobId, BlobInfo, BlobWriter, NewBlob, StateError};

fn failure(error: StateError) -> ToolError {
    match error {
        StateError::NotFound(id) | StateError::Expired(id) => {
            ToolError::not_found(format!("output not found or expired: {id}"))
                .with_hint("call the tool again to get its output")
        }
        StateError::TooLarge(reason) => ToolError::new(ErrorKind::TooLarge, reason),
        error => ToolError::unavailable(error.to_string()),
    }
}

fn stored(info: &BlobInfo) -> Result<StoredOutput, ToolError> {
    Ok(StoredOutput {
        reference: info.id.as_str().parse()?,
        media_type: info.media_type.clone(),
        bytes: info.bytes,
        expires: None,
    })
}

impl ResultStore {
    async fn info(&self, scope: &str, reference: &OutputRef) -> Result<BlobInfo, ToolError> {
        let id: BlobId = reference.as_str().parse().map_err(failure)?;
        let info = self.blobs.describe(&id).await.map_err(failure)?;
        if info.scope == scope { Ok(info) } else { Err(failure(StateError::NotFound(id.to_string()))) }
    }
}

#[async_trait]
impl OutputStore for ResultStore {
    async fn writer(&self, scope: &str, media_type: &str) -> Result<Box<dyn OutputWriter>, ToolError> {
        let new = NewBlob { scope: scope.to_owned(), media_type: media_type.to_owned() };
        let writer = self.blobs.create(new).await.map_err(failure)?;
        Ok(Box::new(BlobOutput { writer, line_breaks: 0, ends_with_break: true }))
    }

    async fn describe(&self, scope: &str, reference: &OutputRef) -> Result<StoredOutput, ToolError> {
        stored(&self.info(scope, reference).await?)
    }

    async fn read(&self, scope: &str, reference: &OutputRef, offset: u64, limit: usize) -> Result<Vec<u8>, ToolError> {
        let info = self.info(scope, reference).await?;
        self.blobs.read(&info.id, offset, limit).await.map_err(failure)
    }

    async fn sweep(&self) -> Result<usize, ToolError> {
        self.blobs.sweep().await.map_err(failure)
    }
}

struct BlobOutput {
    writer: Box<dyn BlobWriter>,
    line_breaks: u64,
    ends_with_break: bool,
}

#[async_trait]
impl OutputWriter for BlobOutput {
    async fn write(&mut self, chunk: &[u8]) -> Result<(), ToolError> {
        self.line_breaks += chunk.iter().map(|&byte| u64::from(byte == b'\n')).sum::<u64>();
        if let Some(last) = chunk.last() {
            self.ends_with_break = *last == b'\n';
        }
        self.writer.write(chunk).await.map_err(failure)
    }

    async fn finish(self: Box<Self>) -> Result<StoredOutput, ToolError> {
        let lines = self.line_breaks + u64::from(!self.ends_with_break);
        let notes = Map::from_iter([("total_lines".to_owned(), json!(lines)), ("tool".to_owned(), json!(""))]);
        stored(&self.writer.finish(notes).await.map_err(failure)?)
    }
}
