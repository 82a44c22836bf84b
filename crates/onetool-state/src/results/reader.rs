//! The text of a stored result as a file: seekable, read in pieces.

use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;

use crate::interface::{BlobId, BlobInfo, Blobs};
use crate::wait;

/// Reads a blob. Wrap it in a `BufReader`: each read is a request to the backend. Blocks.
pub struct ResultReader {
    blobs: Arc<dyn Blobs>,
    id: BlobId,
    size: u64,
    position: u64,
}

impl ResultReader {
    pub(super) fn new(blobs: Arc<dyn Blobs>, info: &BlobInfo) -> Self {
        Self { blobs, id: info.id.clone(), size: info.bytes, position: 0 }
    }
}

impl Read for ResultReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.position >= self.size || buffer.is_empty() {
            return Ok(0);
        }
        let piece = wait(self.blobs.read(&self.id, self.position, buffer.len())).map_err(io::Error::other)?;
        let length = piece.len().min(buffer.len());
        if length == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the stored result is cut short"));
        }
        buffer[..length].copy_from_slice(&piece[..length]);
        self.position += length as u64;
        Ok(length)
    }
}

impl Seek for ResultReader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let target = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.size.checked_add_signed(by),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
        };
        self.position = target.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        Ok(self.position)
    }
}
