//! Streams as files of lines: appended under a lock, rewritten when they grow, read from the reader's position.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;

use super::stamp::inode;
use crate::atomic::{self, Lock, StoreError};
use crate::interface::{IsOld, Merge, Position, StateError, Stream, Trail, TrailRead, Visit, VisitBack};
use crate::notifications::{last_byte, open_private};

/// Maximum length of a line; a longer one is not ours.
const LINE_BYTES: usize = 64 * 1024;
const BUFFER_BYTES: usize = 128 * 1024;
const LOCK_WAIT: Duration = Duration::from_secs(5);
/// Old lines are removed if they make up at least this fraction of the file: a quarter.
const WORTH_TRIMMING: u64 = 4;

pub(super) struct FlatTrail {
    root: PathBuf,
    streams: HashMap<Stream, StreamFile>,
}

/// Where a stream is kept.
#[derive(Debug, Clone)]
pub(super) struct StreamFile {
    pub(super) file: PathBuf,
    pub(super) lock: PathBuf,
    /// Lines are dropped if this folder is missing: counting alone does not create it.
    pub(super) home: Option<PathBuf>,
}

impl StreamFile {
    pub(super) fn new(file: PathBuf) -> Self {
        Self { lock: file.with_extension("lock"), file, home: None }
    }
}

impl FlatTrail {
    pub(super) fn new(root: PathBuf, streams: HashMap<Stream, StreamFile>) -> Self {
        Self { root, streams }
    }

    fn place(&self, stream: Stream) -> StreamFile {
        let default = || StreamFile::new(self.root.join(format!("{stream}.jsonl")));
        self.streams.get(&stream).cloned().unwrap_or_else(default)
    }
}

#[async_trait]
impl Trail for FlatTrail {
    async fn append(&self, stream: Stream, lines: &[String]) -> Result<(), StateError> {
        if lines.is_empty() {
            return Ok(());
        }
        let StreamFile { file: path, lock, home } = self.place(stream);
        if home.is_some_and(|home| !home.is_dir()) {
            return Ok(());
        }
        let error = |source| StoreError::io(&path, source);
        let _held = Lock::take(&lock, LOCK_WAIT)?;
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(|source| StoreError::io(folder, source))?;
        }
        let mut file = open_private(&path).map_err(error)?;
        let length = file.metadata().map_err(error)?.len();
        let mut text = String::with_capacity(lines.iter().map(|line| line.len() + 1).sum::<usize>() + 1);
        // End a line that a crash cut short; it is skipped when read.
        if length > 0 && last_byte(&mut file).map_err(error)? != b'\n' {
            text.push('\n');
        }
        for line in lines {
            text.push_str(line);
            text.push('\n');
        }
        Ok(file.write_all(text.as_bytes()).map_err(error)?)
    }

    async fn read(&self, stream: Stream, since: Position, visit: Visit<'_>) -> Result<TrailRead, StateError> {
        let path = self.place(stream).file;
        let mut file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(TrailRead { position: Position::default(), restarted: since != Position::default() });
            }
            Err(error) => return Err(StoreError::io(path, error).into()),
        };
        let metadata = file.metadata().map_err(|error| StoreError::io(&path, error))?;
        let generation = inode(&metadata);
        // A rewritten stream is a new file.
        let restarted = since.generation != generation || metadata.len() < since.offset;
        let start = if restarted { 0 } else { since.offset };
        if start == metadata.len() {
            return Ok(TrailRead { position: Position { generation, offset: start }, restarted });
        }
        file.seek(SeekFrom::Start(start)).map_err(|error| StoreError::io(&path, error))?;
        let read = visit_lines(file, visit).map_err(|error| StoreError::io(&path, error))?;
        Ok(TrailRead { position: Position { generation, offset: start + read }, restarted })
    }

    async fn read_back(&self, stream: Stream, visit: VisitBack<'_>) -> Result<(), StateError> {
        let path = self.place(stream).file;
        match File::open(&path) {
            Ok(file) => Ok(visit_back(file, visit).map_err(|error| StoreError::io(&path, error))?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(StoreError::io(path, error).into()),
        }
    }

    async fn trim(&self, stream: Stream, is_old: IsOld<'_>) -> Result<(), StateError> {
        let StreamFile { file: path, lock, .. } = self.place(stream);
        let error = |source| StoreError::io(&path, source);
        let _held = Lock::take(&lock, LOCK_WAIT)?;
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(source) => return Err(error(source).into()),
        };
        let length = file.metadata().map_err(error)?.len();
        let old = old_bytes(&file, is_old).map_err(error)?;
        // The rest must be rewritten, which has to be worthwhile.
        if old == 0 || old < length / WORTH_TRIMMING {
            return Ok(());
        }
        let folder = path.parent().unwrap_or_else(|| Path::new("."));
        let mut rest = tempfile::NamedTempFile::new_in(folder).map_err(error)?;
        (&file).seek(SeekFrom::Start(old)).map_err(error)?;
        io::copy(&mut &file, rest.as_file_mut()).map_err(error)?;
        rest.as_file().sync_all().map_err(error)?;
        rest.persist(&path).map_err(|failed| error(failed.error))?;
        Ok(())
    }

    async fn compact(&self, stream: Stream, over_bytes: u64, merge: Merge<'_>) -> Result<(), StateError> {
        let StreamFile { file: path, lock, .. } = self.place(stream);
        let is_small = |path: &Path| fs::metadata(path).map_or(0, |metadata| metadata.len()) <= over_bytes;
        if is_small(&path) {
            return Ok(());
        }
        let _held = Lock::take(&lock, LOCK_WAIT)?;
        if is_small(&path) {
            return Ok(());
        }
        let mut lines = Vec::new();
        let file = File::open(&path).map_err(|error| StoreError::io(&path, error))?;
        visit_lines(file, &mut |line| lines.push(line.to_owned())).map_err(|error| StoreError::io(&path, error))?;
        let mut text = String::new();
        for line in merge(lines) {
            text.push_str(&line);
            text.push('\n');
        }
        atomic::write(&path, text.as_bytes())?;
        tracing::debug!(path = %path.display(), bytes = text.len(), "a file of lines was merged");
        Ok(())
    }
}

/// Number of bytes at the start of a file taken up by old lines.
fn old_bytes(file: &File, is_old: IsOld<'_>) -> io::Result<u64> {
    let mut reader = BufReader::with_capacity(BUFFER_BYTES, file);
    let mut line = Vec::new();
    let mut old = 0;
    loop {
        line.clear();
        let read = reader.read_until(b'\n', &mut line)?;
        if line.last() != Some(&b'\n') || !std::str::from_utf8(&line[..read - 1]).map_or(true, is_old) {
            return Ok(old);
        }
        old += read as u64;
    }
}

/// Visits complete lines from the end of a file. A last line without a line break is not complete.
fn visit_back(mut file: File, visit: VisitBack<'_>) -> io::Result<()> {
    let mut end = file.metadata()?.len();
    // The end of a line whose start has not been read yet.
    let mut rest: Vec<u8> = Vec::new();
    let mut is_last = true;
    while end > 0 {
        let start = end.saturating_sub(BUFFER_BYTES as u64);
        let mut block = vec![0; usize::try_from(end - start).unwrap_or(BUFFER_BYTES)];
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(&mut block)?;
        end = start;
        block.append(&mut rest);
        let mut lines: Vec<&[u8]> = block.split(|byte| *byte == b'\n').collect();
        if is_last {
            lines.pop();
            is_last = false;
        }
        let first = if start > 0 && !lines.is_empty() { lines.remove(0) } else { &[] };
        for line in lines.into_iter().rev().filter(|line| !line.is_empty() && line.len() < LINE_BYTES) {
            if let Ok(text) = std::str::from_utf8(line)
                && visit(text).is_break()
            {
                return Ok(());
            }
        }
        // An overlong line is not ours, and is discarded.
        rest = if first.len() < LINE_BYTES * 2 { first.to_vec() } else { Vec::new() };
    }
    Ok(())
}

/// Visits complete lines, and returns their length in bytes. A last line without a line break is left for later.
fn visit_lines(file: File, visit: Visit<'_>) -> io::Result<u64> {
    let mut reader = BufReader::with_capacity(BUFFER_BYTES, file);
    let mut line = Vec::new();
    let mut passed = 0;
    loop {
        line.clear();
        let read = (&mut reader).take(LINE_BYTES as u64).read_until(b'\n', &mut line)?;
        if line.last() == Some(&b'\n') {
            passed += read as u64;
            if let Ok(text) = std::str::from_utf8(&line[..read - 1])
                && !text.is_empty()
            {
                visit(text);
            }
        } else if read == LINE_BYTES {
            passed += (read + reader.skip_until(b'\n')?) as u64;
        } else {
            return Ok(passed);
        }
    }
}
