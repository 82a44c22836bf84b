//! Blobs as files: `result-{id}.txt` holds the content, `result-{id}.meta.json` describes it.
//!
//! The meta file is written last, so a blob exists once its meta file does. Expired blobs are removed whenever a new
//! one is created; the latest of them are remembered, so that a late request learns that the result has expired.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use chrono::{DateTime, SubsecRound as _, TimeDelta, Utc};
use serde::Deserialize;
use serde_json::{Map, Value as Json, json};
use tempfile::NamedTempFile;

use crate::atomic::{self, StoreError};
use crate::interface::{BlobId, BlobInfo, BlobWriter, Blobs, NewBlob, Retention, StateError};

/// Maximum number of files that one cleanup looks at.
const CLEANED_ENTRIES: usize = 100_000;
/// Files left by a crashed writer are removed after this long.
const LEFTOVER_AGE: Duration = Duration::from_hours(24);
/// How many expired blobs are remembered, the latest ones, and for how long after their creation.
const REMEMBERED: usize = 200;
const REMEMBERED_FOR: TimeDelta = TimeDelta::days(7);
/// File name prefix of what remains of an expired blob.
const MEMORY_PREFIX: &str = "expired-";
const TEMPORARY_PREFIX: &str = ".tmp-result-";
/// The secret that blob names are derived with.
const KEY_FILE: &str = ".result-key";
/// Maximum size of a meta file.
const META_BYTES: u64 = 64 * 1024;
const BUFFER_BYTES: usize = 64 * 1024;
/// The type of most blobs, which is not stored.
const TEXT: &str = "text/plain; charset=utf-8";

#[derive(Debug, Clone)]
pub(super) struct FlatBlobs {
    folder: PathBuf,
    retention: Retention,
}

/// A meta file. The writer's notes are placed between our own fields.
#[derive(Debug, Clone, Deserialize)]
struct Meta {
    handle: String,
    size_bytes: u64,
    created_at: DateTime<Utc>,
    #[serde(default)]
    scope: String,
    #[serde(default = "text")]
    media_type: String,
    #[serde(flatten)]
    notes: Map<String, Json>,
}

fn text() -> String {
    TEXT.to_owned()
}

impl Meta {
    /// The file's content, in its established field order.
    fn to_json(&self) -> Json {
        let mut notes = self.notes.clone();
        let mut json = Map::new();
        json.insert("handle".to_owned(), self.handle.clone().into());
        json.extend(notes.remove_entry("total_lines"));
        json.insert("size_bytes".to_owned(), self.size_bytes.into());
        json.insert("created_at".to_owned(), json!(self.created_at));
        json.extend(notes);
        if !self.scope.is_empty() {
            json.insert("scope".to_owned(), self.scope.clone().into());
        }
        if self.media_type != TEXT {
            json.insert("media_type".to_owned(), self.media_type.clone().into());
        }
        Json::Object(json)
    }
}

fn info(id: BlobId, meta: Meta) -> BlobInfo {
    let Meta { size_bytes, created_at, scope, media_type, notes, .. } = meta;
    BlobInfo { id, scope, media_type, bytes: size_bytes, created_at, notes }
}

impl FlatBlobs {
    pub(super) fn new(folder: PathBuf, retention: Retention) -> Self {
        Self { folder, retention }
    }

    fn text_path(&self, id: &str) -> PathBuf {
        self.folder.join(format!("result-{id}.txt"))
    }

    fn meta_path(&self, id: &str) -> PathBuf {
        self.folder.join(format!("result-{id}.meta.json"))
    }

    fn memory_path(&self, id: &str) -> PathBuf {
        self.folder.join(format!("{MEMORY_PREFIX}{id}.json"))
    }

    fn is_expired(&self, created_at: DateTime<Utc>, now: DateTime<Utc>) -> bool {
        let ttl = self.retention.ttl;
        !ttl.is_zero() && TimeDelta::from_std(ttl).is_ok_and(|ttl| now.signed_duration_since(created_at) > ttl)
    }

    /// The secret key of the folder, created on first use.
    fn key(&self) -> Result<[u8; 32], StoreError> {
        let path = self.folder.join(KEY_FILE);
        for _ in 0..2 {
            if let Ok(found) = fs::read(&path)
                && let Ok(key) = <[u8; 32]>::try_from(found)
            {
                return Ok(key);
            }
            let mut hasher = blake3::Hasher::new();
            for _ in 0..3 {
                hasher.update(uuid::Uuid::new_v4().as_bytes());
            }
            let key = *hasher.finalize().as_bytes();
            match atomic::create(&path, &key) {
                Ok(()) => return Ok(key),
                // Another process created it first, or the file is damaged.
                Err(StoreError::Exists { .. }) if fs::metadata(&path).is_ok_and(|found| found.len() == 32) => {}
                Err(StoreError::Exists { .. }) => return atomic::write(&path, &key).map(|()| key),
                Err(error) => return Err(error),
            }
        }
        Err(StoreError::io(path, io::Error::other("it can't be read")))
    }

    fn find(&self, id: &BlobId) -> Result<Meta, StateError> {
        let not_found = || StateError::NotFound(id.to_string());
        let expired = || StateError::Expired(id.to_string());
        let meta = read_meta(&self.meta_path(id.as_str())).filter(|meta| meta.handle == id.as_str());
        let was_there = || self.memory_path(id.as_str()).exists();
        let meta = meta.ok_or_else(|| if was_there() { expired() } else { not_found() })?;
        if self.is_expired(meta.created_at, Utc::now()) {
            return Err(expired());
        }
        // A crash cut the content short.
        let whole = fs::metadata(self.text_path(id.as_str())).is_ok_and(|found| found.len() == meta.size_bytes);
        if whole { Ok(meta) } else { Err(not_found()) }
    }

    /// All blob ids, expired or not.
    fn ids(&self) -> impl Iterator<Item = BlobId> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        entries.filter_map(|entry| id_in(entry.file_name().to_str()?, ".meta.json")?.parse().ok())
    }

    fn known(&self, id: BlobId) -> Option<BlobInfo> {
        self.find(&id).ok().map(|meta| info(id, meta))
    }

    fn clean_up(&self) -> usize {
        let Ok(entries) = fs::read_dir(&self.folder) else { return 0 };
        let now = Utc::now();
        let mut kept: Vec<Meta> = Vec::new();
        let mut gone: Vec<Meta> = Vec::new();
        let mut removed = 0;
        for entry in entries.take(CLEANED_ENTRIES).flatten() {
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            if name.starts_with(TEMPORARY_PREFIX) {
                remove_if_old(&entry.path(), LEFTOVER_AGE);
            } else if let Some(id) = id_in(name, ".meta.json") {
                match read_meta(&entry.path()) {
                    Some(meta) => {
                        let meta = Meta { handle: id.to_owned(), ..meta };
                        if self.is_expired(meta.created_at, now) {
                            removed += self.expire(id);
                            gone.push(meta);
                        } else {
                            kept.push(meta);
                        }
                    }
                    None => remove_if_old(&entry.path(), LEFTOVER_AGE),
                }
            } else if name.starts_with(MEMORY_PREFIX) {
                match read_meta(&entry.path()) {
                    Some(meta) if meta.handle.parse::<BlobId>().is_ok() => gone.push(meta),
                    _ => remove_if_old(&entry.path(), LEFTOVER_AGE),
                }
            } else if let Some(id) = id_in(name, ".txt")
                && !self.meta_path(id).exists()
            {
                remove_if_old(&entry.path(), LEFTOVER_AGE);
            }
        }
        gone.sort_by_key(|meta| std::cmp::Reverse(meta.created_at));
        for (index, meta) in gone.iter().enumerate() {
            if index >= REMEMBERED || now.signed_duration_since(meta.created_at) > REMEMBERED_FOR {
                let _ = fs::remove_file(self.memory_path(&meta.handle));
            }
        }
        kept.sort_by_key(|meta| std::cmp::Reverse(meta.created_at));
        let mut total = 0_u64;
        for meta in kept {
            total = total.saturating_add(meta.size_bytes);
            if total > self.retention.max_bytes {
                removed += self.expire(&meta.handle);
            }
        }
        removed
    }

    /// Removes the content and keeps the metadata, so that later requests learn that the blob has expired.
    fn expire(&self, id: &str) -> usize {
        let gone = fs::rename(self.meta_path(id), self.memory_path(id)).is_ok();
        let _ = fs::remove_file(self.text_path(id));
        usize::from(gone)
    }
}

#[async_trait]
impl Blobs for FlatBlobs {
    async fn create(&self, new: NewBlob) -> Result<Box<dyn BlobWriter>, StateError> {
        self.clean_up();
        fs::create_dir_all(&self.folder).map_err(|error| StoreError::io(&self.folder, error))?;
        let temporary = tempfile::Builder::new()
            .prefix(TEMPORARY_PREFIX)
            .tempfile_in(&self.folder)
            .map_err(|error| StoreError::io(&self.folder, error))?;
        let hasher = BlobId::hasher(&new);
        let temporary = BufWriter::with_capacity(BUFFER_BYTES, temporary);
        Ok(Box::new(FlatWriter { blobs: self.clone(), new, hasher, temporary, bytes: 0 }))
    }

    async fn describe(&self, id: &BlobId) -> Result<BlobInfo, StateError> {
        self.find(id).map(|meta| info(id.clone(), meta))
    }

    async fn read(&self, id: &BlobId, offset: u64, limit: usize) -> Result<Vec<u8>, StateError> {
        let path = self.text_path(id.as_str());
        if offset == 0 {
            self.find(id)?;
        }
        let mut content = Vec::new();
        let read = File::open(&path).and_then(|mut file| {
            file.seek(SeekFrom::Start(offset))?;
            file.take(limit as u64).read_to_end(&mut content)
        });
        match read {
            Ok(_) => Ok(content),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.find(id)?;
                Err(StateError::NotFound(id.to_string()))
            }
            Err(error) => Err(StoreError::io(path, error).into()),
        }
    }

    async fn page(&self, after: Option<&BlobId>, limit: usize) -> Result<Vec<BlobInfo>, StateError> {
        let mut ids: Vec<BlobId> = self.ids().filter(|id| after.is_none_or(|after| id > after)).collect();
        ids.sort_unstable();
        Ok(ids.into_iter().filter_map(|id| self.known(id)).take(limit).collect())
    }

    async fn newest(&self, scope: &str, limit: usize) -> Result<Vec<BlobInfo>, StateError> {
        let mut found: Vec<BlobInfo> =
            self.ids().filter_map(|id| self.known(id)).filter(|info| info.scope == scope).collect();
        found.sort_by_key(|info| std::cmp::Reverse(info.created_at));
        found.truncate(limit);
        Ok(found)
    }

    async fn sweep(&self) -> Result<usize, StateError> {
        Ok(self.clean_up())
    }

    async fn secret(&self) -> Result<[u8; 32], StateError> {
        Ok(self.key()?)
    }

    async fn adopt_secret(&self, secret: [u8; 32]) -> Result<(), StateError> {
        if !self.page(None, 1).await?.is_empty() {
            return Err(StateError::Invalid(format!("{} is not empty", self.folder.display())));
        }
        Ok(atomic::write(&self.folder.join(KEY_FILE), &secret)?)
    }
}

struct FlatWriter {
    blobs: FlatBlobs,
    new: NewBlob,
    hasher: blake3::Hasher,
    temporary: BufWriter<NamedTempFile>,
    bytes: u64,
}

#[async_trait]
impl BlobWriter for FlatWriter {
    async fn write(&mut self, chunk: &[u8]) -> Result<(), StateError> {
        let limit = self.blobs.retention.max_blob_bytes.min(self.blobs.retention.max_bytes);
        self.bytes += chunk.len() as u64;
        if self.bytes > limit {
            return Err(StateError::TooLarge(format!("the result is larger than {limit} bytes")));
        }
        self.hasher.update(chunk);
        Ok(self.temporary.write_all(chunk).map_err(|error| StoreError::io(&self.blobs.folder, error))?)
    }

    async fn finish(self: Box<Self>, notes: Map<String, Json>) -> Result<BlobInfo, StateError> {
        let Self { blobs, new, hasher, temporary, bytes } = *self;
        let id = BlobId::from_hash(&blobs.key()?, &hasher);
        let handle = id.to_string();
        let text_path = blobs.text_path(&handle);
        let temporary = temporary.into_inner().map_err(|error| StoreError::io(&text_path, error.into_error()))?;
        // Results are short-lived: no flush to disk. One that a crash cut short is recognized by its size. An equal
        // existing file is kept: readers may be in the middle of it.
        if !fs::metadata(&text_path).is_ok_and(|found| found.len() == bytes) {
            temporary.persist(&text_path).map_err(|error| StoreError::io(&text_path, error.error))?;
        }
        let created_at = Utc::now().trunc_subsecs(3);
        let meta = Meta { handle, size_bytes: bytes, created_at, scope: new.scope, media_type: new.media_type, notes };
        let meta_path = blobs.meta_path(&meta.handle);
        atomic::write(&meta_path, meta.to_json().to_string().as_bytes())?;
        let _ = fs::remove_file(blobs.memory_path(&meta.handle));
        Ok(info(id, meta))
    }
}

fn id_in<'a>(name: &'a str, suffix: &str) -> Option<&'a str> {
    name.strip_prefix("result-")?.strip_suffix(suffix).filter(|id| id.parse::<BlobId>().is_ok())
}

fn read_meta(path: &Path) -> Option<Meta> {
    let mut text = String::new();
    File::open(path).ok()?.take(META_BYTES).read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

fn remove_if_old(path: &Path, age: Duration) {
    let modified = fs::metadata(path).and_then(|found| found.modified());
    if modified.is_ok_and(|at| SystemTime::now().duration_since(at).is_ok_and(|passed| passed > age)) {
        let _ = fs::remove_file(path);
    }
}
