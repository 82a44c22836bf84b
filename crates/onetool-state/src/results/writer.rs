//! Writes a result as it comes: counts lines, keeps the first ones for the preview, holds nothing else.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use chrono::{SubsecRound as _, Utc};
use tempfile::NamedTempFile;

use super::lines::clipped;
use super::{Meta, StoredResult};
use crate::atomic::{self, StoreError};

pub(super) const TEMPORARY_PREFIX: &str = ".tmp-result-";

/// A larger result is refused.
const RESULT_BYTES: u64 = 4 * 1024 * 1024 * 1024;
/// A line of the preview is cut here.
const PREVIEW_LINE_CHARS: usize = 400;
/// All lines of the preview together.
const PREVIEW_BYTES: usize = 2_000;

/// A result that is being written. Dropped without [`finish`](Self::finish), it leaves nothing.
pub struct ResultWriter {
    folder: PathBuf,
    handle: String,
    tool: String,
    temporary: BufWriter<NamedTempFile>,
    line_breaks: u64,
    size: u64,
    ends_with_break: bool,
    preview: Preview,
}

impl ResultWriter {
    pub(super) fn create(folder: &Path, tool: &str, preview_lines: usize) -> Result<Self, StoreError> {
        fs::create_dir_all(folder).map_err(|error| StoreError::io(folder, error))?;
        let temporary = tempfile::Builder::new()
            .prefix(TEMPORARY_PREFIX)
            .tempfile_in(folder)
            .map_err(|error| StoreError::io(folder, error))?;
        Ok(Self {
            folder: folder.to_owned(),
            handle: new_handle(),
            tool: tool.to_owned(),
            temporary: BufWriter::with_capacity(64 * 1024, temporary),
            line_breaks: 0,
            size: 0,
            ends_with_break: true,
            preview: Preview::new(preview_lines),
        })
    }

    /// Appends a piece of the text.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.write_all(bytes).map_err(|error| StoreError::io(&self.folder, error))
    }

    /// Makes the result readable under its handle.
    pub fn finish(self) -> Result<StoredResult, StoreError> {
        let Self { folder, handle, tool, temporary, line_breaks, size, ends_with_break, preview } = self;
        let text_path = folder.join(format!("result-{handle}.txt"));
        let temporary = temporary.into_inner().map_err(|error| StoreError::io(&text_path, error.into_error()))?;
        // Results are short-lived: no flush to the disk. One that a crash cut short is told by its size.
        temporary.persist_noclobber(&text_path).map_err(|error| StoreError::io(&text_path, error.error))?;
        let meta = Meta {
            handle,
            total_lines: line_breaks + u64::from(!ends_with_break),
            size_bytes: size,
            created_at: Utc::now().trunc_subsecs(3),
            tool,
        };
        let meta_path = folder.join(format!("result-{}.meta.json", meta.handle));
        let written = serde_json::to_vec(&meta)
            .map_err(|error| StoreError::io(&meta_path, error.into()))
            .and_then(|json| atomic::create(&meta_path, &json));
        if let Err(error) = written {
            let _ = fs::remove_file(&text_path);
            return Err(error);
        }
        Ok(StoredResult { meta, preview: preview.finish() })
    }
}

impl Write for ResultWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.size + bytes.len() as u64 > RESULT_BYTES {
            let reason = format!("the result is larger than {RESULT_BYTES} bytes");
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, reason));
        }
        let written = self.temporary.write(bytes)?;
        let bytes = &bytes[..written];
        self.size += written as u64;
        self.line_breaks += bytes.iter().map(|&byte| u64::from(byte == b'\n')).sum::<u64>();
        if let Some(last) = bytes.last() {
            self.ends_with_break = *last == b'\n';
        }
        self.preview.feed(bytes);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.temporary.flush()
    }
}

/// 128 random bits in hexadecimal. A version 4 UUID has 122, so two are mixed.
fn new_handle() -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(uuid::Uuid::new_v4().as_bytes());
    hasher.update(uuid::Uuid::new_v4().as_bytes());
    hasher.finalize().to_hex()[..32].to_owned()
}

/// The first lines, each clipped, all of them capped.
struct Preview {
    wanted: usize,
    lines: Vec<String>,
    bytes: usize,
    current: Vec<u8>,
    /// Bytes of the current line that were not kept.
    rest: u64,
}

impl Preview {
    const KEPT: usize = PREVIEW_LINE_CHARS * 4;

    fn new(wanted: usize) -> Self {
        Self { wanted, lines: Vec::new(), bytes: 0, current: Vec::new(), rest: 0 }
    }

    fn is_full(&self) -> bool {
        self.lines.len() >= self.wanted || self.bytes >= PREVIEW_BYTES
    }

    fn feed(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && !self.is_full() {
            let end = bytes.iter().position(|&byte| byte == b'\n');
            let piece = &bytes[..end.unwrap_or(bytes.len())];
            let room = Self::KEPT - self.current.len();
            self.current.extend_from_slice(&piece[..piece.len().min(room)]);
            self.rest += piece.len().saturating_sub(room) as u64;
            let Some(end) = end else { return };
            self.end_line();
            bytes = &bytes[end + 1..];
        }
    }

    fn end_line(&mut self) {
        let kept = self.current.strip_suffix(b"\r").unwrap_or(&self.current);
        let room = PREVIEW_LINE_CHARS.min(PREVIEW_BYTES.saturating_sub(self.bytes).max(1));
        let line = clipped(kept, self.rest, 0, room);
        self.bytes += line.len();
        self.lines.push(line);
        self.current.clear();
        self.rest = 0;
    }

    fn finish(mut self) -> Vec<String> {
        if !self.is_full() && (!self.current.is_empty() || self.rest > 0) {
            self.end_line();
        }
        self.lines
    }
}
