//! Outputs kept in memory.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use parking_lot::Mutex;

use super::store::{OutputRef, OutputStore, OutputWriter, StoredOutput, not_found};
use crate::{Clock, ErrorKind, ToolError};

/// How much a [`MemoryOutputStore`] keeps, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryLimits {
    /// All outputs together; the oldest are evicted first.
    pub total_bytes: usize,
    /// Maximum size of one output.
    pub output_bytes: usize,
    /// `None` keeps outputs until they are evicted.
    pub time_to_live: Option<TimeDelta>,
}

impl Default for MemoryLimits {
    fn default() -> Self {
        Self { total_bytes: 256 << 20, output_bytes: 128 << 20, time_to_live: Some(TimeDelta::hours(1)) }
    }
}

/// Keeps outputs in memory. A clone is the same store.
#[derive(Clone)]
pub struct MemoryOutputStore {
    shared: Arc<Shared>,
}

struct Shared {
    limits: MemoryLimits,
    clock: Clock,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    entries: HashMap<(String, OutputRef), Entry>,
    total: usize,
    next_age: u64,
}

struct Entry {
    media_type: String,
    content: Arc<Vec<u8>>,
    expires: Option<DateTime<Utc>>,
    /// Increases with every stored output: the lowest is the oldest.
    age: u64,
}

impl MemoryOutputStore {
    pub fn new(limits: MemoryLimits, clock: Clock) -> Self {
        Self { shared: Arc::new(Shared { limits, clock, kept: Mutex::default() }) }
    }

    fn entry<T>(&self, scope: &str, reference: &OutputRef, view: impl FnOnce(&Entry) -> T) -> Result<T, ToolError> {
        let now = (self.shared.clock)();
        let kept = self.shared.kept.lock();
        let entry = kept.entries.get(&(scope.to_owned(), reference.clone()));
        entry.filter(|entry| !entry.is_expired(now)).map(view).ok_or_else(|| not_found(reference))
    }
}

impl Default for MemoryOutputStore {
    fn default() -> Self {
        Self::new(MemoryLimits::default(), Arc::new(Utc::now))
    }
}

impl Entry {
    fn is_expired(&self, now: DateTime<Utc>) -> bool {
        self.expires.is_some_and(|at| at <= now)
    }
}

impl Kept {
    fn remove(&mut self, key: &(String, OutputRef)) {
        if let Some(entry) = self.entries.remove(key) {
            self.total -= entry.content.len();
        }
    }

    fn sweep(&mut self, now: DateTime<Utc>) -> usize {
        let expired: Vec<_> =
            self.entries.iter().filter(|(_, entry)| entry.is_expired(now)).map(|(key, _)| key.clone()).collect();
        for key in &expired {
            self.remove(key);
        }
        expired.len()
    }

    fn make_room(&mut self, bytes: usize, limit: usize) {
        while self.total + bytes > limit {
            let Some(oldest) = self.entries.iter().min_by_key(|(_, entry)| entry.age).map(|(key, _)| key.clone())
            else {
                return;
            };
            self.remove(&oldest);
        }
    }
}

#[async_trait]
impl OutputStore for MemoryOutputStore {
    async fn writer(&self, scope: &str, media_type: &str) -> Result<Box<dyn OutputWriter>, ToolError> {
        Ok(Box::new(MemoryWriter {
            shared: self.shared.clone(),
            scope: scope.to_owned(),
            media_type: media_type.to_owned(),
            hasher: OutputRef::hasher(media_type),
            content: Vec::new(),
        }))
    }

    async fn describe(&self, scope: &str, reference: &OutputRef) -> Result<StoredOutput, ToolError> {
        self.entry(scope, reference, |entry| StoredOutput {
            reference: reference.clone(),
            media_type: entry.media_type.clone(),
            bytes: entry.content.len() as u64,
            expires: entry.expires,
        })
    }

    async fn read(&self, scope: &str, reference: &OutputRef, offset: u64, limit: usize) -> Result<Vec<u8>, ToolError> {
        let content = self.entry(scope, reference, |entry| entry.content.clone())?;
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(content.len());
        let end = start.saturating_add(limit).min(content.len());
        Ok(content[start..end].to_vec())
    }

    async fn sweep(&self) -> Result<usize, ToolError> {
        let now = (self.shared.clock)();
        Ok(self.shared.kept.lock().sweep(now))
    }
}

struct MemoryWriter {
    shared: Arc<Shared>,
    scope: String,
    media_type: String,
    hasher: blake3::Hasher,
    content: Vec<u8>,
}

#[async_trait]
impl OutputWriter for MemoryWriter {
    async fn write(&mut self, chunk: &[u8]) -> Result<(), ToolError> {
        let limit = self.shared.limits.output_bytes.min(self.shared.limits.total_bytes);
        if self.content.len() + chunk.len() > limit {
            let message = format!("the output is larger than the {limit} bytes that the output cache takes");
            return Err(ToolError::new(ErrorKind::TooLarge, message));
        }
        self.hasher.update(chunk);
        self.content.extend_from_slice(chunk);
        Ok(())
    }

    async fn finish(self: Box<Self>) -> Result<StoredOutput, ToolError> {
        let reference = OutputRef::from_hash(&self.hasher);
        let now = (self.shared.clock)();
        let expires = self.shared.limits.time_to_live.and_then(|span| now.checked_add_signed(span));
        let key = (self.scope, reference.clone());
        let mut kept = self.shared.kept.lock();
        // Storing an output again makes it a new one.
        kept.remove(&key);
        kept.sweep(now);
        kept.make_room(self.content.len(), self.shared.limits.total_bytes);
        kept.total += self.content.len();
        kept.next_age += 1;
        let stored =
            StoredOutput { reference, media_type: self.media_type.clone(), bytes: self.content.len() as u64, expires };
        let age = kept.next_age;
        let content = Arc::new(self.content);
        kept.entries.insert(key, Entry { media_type: self.media_type, content, expires, age });
        Ok(stored)
    }
}
