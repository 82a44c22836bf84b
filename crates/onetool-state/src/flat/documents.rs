//! Documents as files: `<folder>/<key>.json`.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Read as _};
use std::path::Path;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use parking_lot::Mutex;

use super::batch;
use super::memory::MemoryCollection;
use super::scan::{Index, QUARANTINE, path};
use super::stamp::Stamp;
use super::{DocumentFolder, LOCK_WAIT};
use crate::atomic::{self, Lock, StoreError};
use crate::interface::{
    Change, Changes, Collection, Condition, Cursor, Document, Documents, Effort, Expect, Guard, Key, Revision,
    StateError,
};

/// A broken file younger than this may still be being written, and is left where it is.
const SETTLED: Duration = Duration::from_secs(2);

pub(super) struct FlatDocuments {
    collections: HashMap<Collection, FolderCollection>,
    /// Collections without a folder; they last as long as the process.
    memory: Mutex<HashMap<Collection, MemoryCollection>>,
}

struct FolderCollection {
    place: DocumentFolder,
    /// One change at a time in this process, so that only one thread waits for the lock file.
    turn: Mutex<()>,
    index: Mutex<Index>,
}

/// Why a file could not be loaded as a document.
enum LoadError {
    /// Removed meanwhile, or currently unreadable.
    Gone,
    Refused(String),
}

impl FlatDocuments {
    pub(super) fn new(places: HashMap<Collection, DocumentFolder>) -> Self {
        let collection = |place| FolderCollection { place, turn: Mutex::default(), index: Mutex::default() };
        Self {
            collections: places.into_iter().map(|(name, place)| (name, collection(place))).collect(),
            memory: Mutex::default(),
        }
    }

    fn in_memory<T>(&self, collection: Collection, work: impl FnOnce(&mut MemoryCollection) -> T) -> T {
        work(self.memory.lock().entry(collection).or_default())
    }
}

#[async_trait]
impl Documents for FlatDocuments {
    async fn get(&self, collection: Collection, key: &Key) -> Result<Option<Document>, StateError> {
        let Some(folder) = self.collections.get(&collection) else {
            return Ok(self.in_memory(collection, |memory| memory.get(key)));
        };
        let file = path(&folder.place, key);
        let (content, _) = match read(&file, folder.place.max_bytes) {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(None),
            Err(error) => return Err(StoreError::io(file, error).into()),
        };
        Ok(Some(Document { key: key.clone(), revision: Revision::of(&content), content }))
    }

    async fn put(
        &self,
        collection: Collection,
        key: &Key,
        content: &[u8],
        condition: &Condition,
    ) -> Result<Revision, StateError> {
        let Some(folder) = self.collections.get(&collection) else {
            return self.in_memory(collection, |memory| memory.put(key, content, condition));
        };
        folder.check_size(key, content)?;
        folder.change(key, condition, |file| match condition.expect {
            Expect::Absent => Ok(atomic::create(file, content)?),
            _ => Ok(atomic::write(file, content)?),
        })?;
        Ok(Revision::of(content))
    }

    async fn create_all(
        &self,
        collection: Collection,
        documents: &[(Key, Vec<u8>)],
        guard: Option<&Guard>,
    ) -> Result<(), StateError> {
        match self.collections.get(&collection) {
            Some(folder) => folder.create_all(documents, guard),
            None => self.in_memory(collection, |memory| memory.create_all(documents, guard)),
        }
    }

    async fn delete(&self, collection: Collection, key: &Key, condition: &Condition) -> Result<(), StateError> {
        let Some(folder) = self.collections.get(&collection) else {
            return self.in_memory(collection, |memory| memory.delete(key, condition));
        };
        folder.change(key, condition, |file| {
            match atomic::remove(file) {
                Err(StoreError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
                outcome => outcome?,
            }
            // Remove a folder that is empty now; this fails if it is not.
            if key.folder().is_some()
                && let Some(folder) = file.parent()
            {
                let _ = fs::remove_dir(folder);
            }
            Ok(())
        })
    }

    async fn changes(&self, collection: Collection, since: Cursor, effort: Effort) -> Result<Changes, StateError> {
        match self.collections.get(&collection) {
            Some(folder) => Ok(folder.changes(since, effort)),
            None => Ok(self.in_memory(collection, |memory| memory.changes(since))),
        }
    }

    async fn set_aside(&self, collection: Collection, key: &Key) -> Result<Option<String>, StateError> {
        let Some(folder) = self.collections.get(&collection) else { return Ok(None) };
        Ok(folder.set_aside(key))
    }

    fn is_current(&self, collection: Collection, key: &Key) -> bool {
        let Some(folder) = self.collections.get(&collection) else { return true };
        let known = folder.index.lock().known.get(key).and_then(|known| known.stamp);
        known.is_some() && Stamp::read(&path(&folder.place, key)) == known
    }

    fn place(&self, collection: Collection, key: &Key) -> String {
        self.collections
            .get(&collection)
            .map_or_else(|| format!("{collection}/{key}"), |folder| path(&folder.place, key).display().to_string())
    }
}

impl FolderCollection {
    fn check_size(&self, key: &Key, content: &[u8]) -> Result<(), StateError> {
        let (bytes, limit) = (content.len(), self.place.max_bytes);
        if bytes <= limit {
            return Ok(());
        }
        Err(StateError::TooLarge(format!("{key} has {bytes} bytes; at most {limit} are allowed")))
    }

    fn create_all(&self, documents: &[(Key, Vec<u8>)], guard: Option<&Guard>) -> Result<(), StateError> {
        for (key, content) in documents {
            self.check_size(key, content)?;
        }
        let _turn = self.turn.lock();
        let _held = Lock::take(&self.place.lock, LOCK_WAIT)?;
        batch::finish(&self.place)?;
        if let (Some(guard), Some((key, _))) = (guard, documents.first()) {
            self.require(guard, key)?;
        }
        if let Some((key, _)) = documents.iter().find(|(key, _)| path(&self.place, key).symlink_metadata().is_ok()) {
            return Err(StateError::Conflict(key.to_string()));
        }
        let outcome = batch::create(&self.place, documents);
        self.index.lock().distrust_all();
        Ok(outcome?)
    }

    /// Waits for a batch that is being written, or finishes an interrupted one.
    fn settle_batch(&self) {
        let settled = Lock::take(&self.place.lock, LOCK_WAIT).and_then(|_held| batch::finish(&self.place));
        if let Err(error) = settled {
            tracing::warn!(%error, "an interrupted change of documents is not finished");
        }
    }

    /// Fails if anything changed that a decision on `key` was based on. The lock must be held.
    fn require(&self, guard: &Guard, key: &Key) -> Result<(), StateError> {
        let mut index = self.index.lock();
        if guard.prefix.is_empty() {
            index.distrust_all();
        } else {
            index.distrust(key);
        }
        index.scan(&self.place, Effort::Usual);
        if index.last_change(&guard.prefix) > guard.seen.0 {
            Err(StateError::Stale(format!("what {key} belongs to")))
        } else {
            Ok(())
        }
    }

    /// Runs a change with the lock held, if the condition holds at that point.
    fn change(
        &self,
        key: &Key,
        condition: &Condition,
        work: impl FnOnce(&Path) -> Result<(), StateError>,
    ) -> Result<(), StateError> {
        let file = path(&self.place, key);
        let _turn = self.turn.lock();
        let _held = Lock::take(&self.place.lock, LOCK_WAIT)?;
        batch::finish(&self.place)?;
        if let Some(guard) = &condition.guard {
            self.require(guard, key)?;
        }
        if condition.expect != Expect::Anything {
            let found = read(&file, self.place.max_bytes).map_err(|error| StoreError::io(&file, error))?;
            let found = found.map(|(content, _)| Revision::of(&content));
            let holds = match &condition.expect {
                Expect::Anything => true,
                Expect::Absent => found.is_none(),
                Expect::Revision(revision) => found.as_ref() == Some(revision),
            };
            if !holds {
                return Err(StateError::Conflict(key.to_string()));
            }
        }
        let outcome = work(&file);
        self.index.lock().distrust(key);
        outcome
    }

    fn changes(&self, since: Cursor, effort: Effort) -> Changes {
        let mut index = self.index.lock();
        index.scan(&self.place, effort);
        if index.has_batch {
            // The writer needs the index too.
            drop(index);
            self.settle_batch();
            index = self.index.lock();
            index.distrust_all();
            index.scan(&self.place, effort);
        }
        let is_whole = since == Cursor::START || since.0 < index.floor;
        let since = if is_whole { 0 } else { since.0 };
        let mut changes = Vec::new();
        let wanted: Vec<Key> =
            index.known.iter().filter(|(_, known)| known.sequence > since).map(|(key, _)| key.clone()).collect();
        for key in wanted {
            let file = path(&self.place, &key);
            match load(&file, self.place.max_bytes) {
                Ok((content, stamp)) => {
                    let revision = Revision::of(&content);
                    if let Some(known) = index.known.get_mut(&key) {
                        known.stamp = Some(stamp);
                        known.is_racy = stamp.is_racy();
                        known.revision = Some(revision.clone());
                    }
                    changes.push(Change::Put(Document { key, revision, content }));
                }
                Err(LoadError::Gone) => {
                    index.remove(&key);
                    index.distrust(&key);
                }
                Err(LoadError::Refused(reason)) => {
                    changes.push(Change::Unreadable { place: file.display().to_string(), key: Some(key), reason });
                }
            }
        }
        if !is_whole {
            let gone = index.gone.iter().filter(|(_, sequence)| **sequence > since);
            changes.extend(gone.map(|(key, _)| Change::Gone(key.clone())));
        }
        let foreign = index.foreign.iter().filter(|(_, sequence)| **sequence > since);
        changes.extend(foreign.map(|(path, _)| Change::Unreadable {
            key: None,
            place: path.display().to_string(),
            reason: "its name is not a document's; it is left alone".to_owned(),
        }));
        Changes { is_whole, changes, cursor: index.cursor() }
    }

    fn set_aside(&self, key: &Key) -> Option<String> {
        let file = path(&self.place, key);
        let mut index = self.index.lock();
        if let Some(known) = index.known.get_mut(key) {
            known.stamp = None;
        }
        let modified = fs::symlink_metadata(&file).ok()?.modified().ok()?;
        if SystemTime::now().duration_since(modified).unwrap_or_default() < SETTLED {
            return None;
        }
        let folder = self.place.folder.join(QUARANTINE);
        fs::create_dir_all(&folder).ok()?;
        let name = format!("{key}.json").replace('/', "_");
        let target = folder.join(format!("{name}.{}", uuid::Uuid::now_v7().simple()));
        fs::rename(&file, &target).ok()?;
        index.remove(key);
        Some(target.display().to_string())
    }
}

/// Reads a document's content; `None` if there is no such file.
fn read(file: &Path, limit: usize) -> io::Result<Option<(Vec<u8>, Stamp)>> {
    match load(file, limit) {
        Ok(found) => Ok(Some(found)),
        Err(LoadError::Gone) => match fs::symlink_metadata(file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
            // The file exists but is unreadable, or was created just now.
            Ok(_) => fs::File::open(file).and_then(|_| match load(file, limit) {
                Ok(found) => Ok(Some(found)),
                Err(_) => Err(io::Error::other("it can't be read")),
            }),
        },
        Err(LoadError::Refused(reason)) => Err(io::Error::other(reason)),
    }
}

fn load(file: &Path, limit: usize) -> Result<(Vec<u8>, Stamp), LoadError> {
    let metadata = fs::symlink_metadata(file).map_err(|_| LoadError::Gone)?;
    if !metadata.is_file() {
        return Err(LoadError::Refused("it is not a plain file".to_owned()));
    }
    let too_large = || LoadError::Refused(format!("it is larger than {limit} bytes"));
    if metadata.len() > limit as u64 {
        return Err(too_large());
    }
    let mut content = Vec::with_capacity(metadata.len() as usize);
    fs::File::open(file)
        .and_then(|file| file.take(limit as u64 + 1).read_to_end(&mut content))
        .map_err(|_| LoadError::Gone)?;
    if content.len() > limit {
        return Err(too_large());
    }
    Ok((content, Stamp::of(&metadata)))
}
