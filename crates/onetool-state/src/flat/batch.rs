//! Creates several documents at once: all of them or none, even if the process is killed halfway.
//!
//! The documents are first written to one file beside them; from then on the batch is committed. Then the documents
//! themselves are written and synced to disk at once, and the file is removed. A process that takes the lock and finds
//! the file finishes the interrupted batch.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::DocumentFolder;
use super::scan::path;
use crate::atomic::{self, StoreError};
use crate::interface::Key;

/// Cannot be the name of a document.
pub(super) const FILE: &str = ".batch";
/// Maximum size of a batch file that is read.
const MAX_BYTES: u64 = 1 << 30;
/// Number of files synced to disk at once.
const SYNC_THREADS: usize = 16;

/// Creates documents that do not exist yet. The lock must be held.
pub(super) fn create(place: &DocumentFolder, documents: &[(Key, Vec<u8>)]) -> Result<(), StoreError> {
    let file = place.folder.join(FILE);
    atomic::write(&file, &encoded(documents))?;
    let mut written = Vec::with_capacity(documents.len());
    let writing = documents.iter().try_for_each(|(key, content)| {
        let target = path(place, key);
        atomic::write_unsynced(&target, content)?;
        written.push(target);
        Ok(())
    });
    if let Err(error) = writing {
        // A full disk, for example: undo everything.
        for target in &written {
            let _ = fs::remove_file(target);
        }
        let _ = atomic::remove(&file);
        return Err(error);
    }
    conclude(place, &file, &written)
}

/// Finishes a batch that was interrupted. The lock must be held.
pub(super) fn finish(place: &DocumentFolder) -> Result<(), StoreError> {
    let file = place.folder.join(FILE);
    let metadata = match fs::symlink_metadata(&file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        metadata => metadata.map_err(|error| StoreError::io(&file, error))?,
    };
    if !metadata.is_file() || metadata.len() > MAX_BYTES {
        return Err(StoreError::io(&file, io::Error::other("it is not a list of documents; remove it")));
    }
    let content = fs::read(&file).map_err(|error| StoreError::io(&file, error))?;
    let Some(documents) = decoded(&content) else {
        return Err(StoreError::io(&file, io::Error::other("it is not a list of documents; remove it")));
    };
    let mut written = Vec::new();
    for (key, content) in documents.into_iter().filter(|(_, content)| content.len() <= place.max_bytes) {
        let target = path(place, &key);
        if !fs::read(&target).is_ok_and(|there| there == content) {
            atomic::write_unsynced(&target, content)?;
        }
        written.push(target);
    }
    tracing::info!(folder = %place.folder.display(), documents = written.len(), "an interrupted change was finished");
    conclude(place, &file, &written)
}

/// Syncs the documents to disk before removing the batch file.
fn conclude(place: &DocumentFolder, file: &Path, written: &[PathBuf]) -> Result<(), StoreError> {
    sync(place, written).map_err(|error| StoreError::io(&place.folder, error))?;
    atomic::remove(file)
}

/// Syncs several files at once, so that the file system commits many of them together.
fn sync(place: &DocumentFolder, written: &[PathBuf]) -> io::Result<()> {
    let share = written.len().div_ceil(SYNC_THREADS).max(1);
    std::thread::scope(|scope| {
        let parts: Vec<_> = written
            .chunks(share)
            .map(|part| {
                scope.spawn(move || {
                    part.iter().try_for_each(|path| fs::OpenOptions::new().write(true).open(path)?.sync_all())
                })
            })
            .collect();
        parts.into_iter().try_for_each(|part| part.join().unwrap_or_else(|_| Err(io::Error::other("a thread died"))))
    })?;
    // The file names must survive a crash too, as far as the file system supports it.
    let folders: HashSet<&Path> = written.iter().filter_map(|path| path.parent()).collect();
    for folder in folders.into_iter().chain([place.folder.as_path()]) {
        let _ = fs::File::open(folder).and_then(|folder| folder.sync_all());
    }
    Ok(())
}

/// Encodes each document as a line with the key and the length, followed by the content.
fn encoded(documents: &[(Key, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(documents.iter().map(|(_, content)| content.len() + 100).sum());
    for (key, content) in documents {
        bytes.extend_from_slice(format!("{key} {}\n", content.len()).as_bytes());
        bytes.extend_from_slice(content);
        bytes.push(b'\n');
    }
    bytes
}

fn decoded(mut bytes: &[u8]) -> Option<Vec<(Key, &[u8])>> {
    let mut documents = Vec::new();
    while !bytes.is_empty() {
        let end = bytes.iter().position(|byte| *byte == b'\n')?;
        let (key, length) = std::str::from_utf8(&bytes[..end]).ok()?.split_once(' ')?;
        let (key, length) = (key.parse::<Key>().ok()?, length.parse::<usize>().ok()?);
        let rest = &bytes[end + 1..];
        let content = rest.get(..length)?;
        bytes = rest[length..].strip_prefix(b"\n")?;
        documents.push((key, content));
    }
    Some(documents)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_as_it_was_written() {
        let documents: Vec<(Key, Vec<u8>)> = [("a", &b"1\n2"[..]), ("b/c", b""), ("d", b"x 1\n")]
            .map(|(key, text)| (key.parse().unwrap(), text.to_vec()))
            .into();
        let bytes = encoded(&documents);
        let read: Vec<(Key, Vec<u8>)> =
            decoded(&bytes).unwrap().into_iter().map(|(key, content)| (key, content.to_vec())).collect();
        assert_eq!(read, documents);
        for cut in 1..bytes.len() {
            assert!(decoded(&bytes[..cut]).is_none_or(|read| read.len() < documents.len()), "{cut}");
        }
        for bad in ["../a 1\nx\n", "a 99\nx\n", "a x\n", "a"] {
            assert!(decoded(bad.as_bytes()).is_none(), "{bad:?}");
        }
    }
}
