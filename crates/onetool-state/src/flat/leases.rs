//! Leases and limits: one small file each, changed under a lock.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use chrono::Utc;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::LOCK_WAIT;
use crate::atomic::{self, Lock, StoreError};
use crate::interface::{Bucket, Granted, Lease, Leases, Limits, Rate, StateError};

/// Leases not held for this long are forgotten, along with their fences.
const FORGET_LEASE_MICROS: i64 = 30 * 24 * 3_600_000_000;
/// Buckets that have been full for this long are forgotten.
const FORGET_MICROS: i64 = 3_600_000_000;

pub(super) struct FlatLeases {
    folder: PathBuf,
    turn: Mutex<()>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Held {
    owner: String,
    fence: u64,
    /// Microseconds since the epoch; after a release, the time of the release.
    until: i64,
}

type LeaseFile = BTreeMap<String, Held>;
type LimitFile = BTreeMap<String, i64>;

impl FlatLeases {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { folder, turn: Mutex::default() }
    }

    /// Reads a file, changes it, and writes it back if it changed.
    fn change<T: DeserializeOwned + Serialize + Default, R>(
        &self,
        name: &str,
        work: impl FnOnce(&mut T) -> (R, Changed),
    ) -> Result<R, StateError> {
        let _turn = self.turn.lock();
        let _held = Lock::take(&self.folder.join(format!("{name}.lock")), LOCK_WAIT)?;
        let path = self.folder.join(format!("{name}.json"));
        // An unreadable file is treated as empty: leases and buckets are short-lived.
        let mut content: T =
            fs::read(&path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
        let (outcome, changed) = work(&mut content);
        if changed == Changed::Yes {
            let bytes = serde_json::to_vec(&content).map_err(|error| StoreError::io(&path, error.into()))?;
            atomic::write(&path, &bytes)?;
        }
        Ok(outcome)
    }
}

#[derive(PartialEq, Eq)]
enum Changed {
    Yes,
    No,
}

fn now() -> i64 {
    Utc::now().timestamp_micros()
}

fn until(ttl: Duration) -> i64 {
    now().saturating_add(i64::try_from(ttl.as_micros()).unwrap_or(i64::MAX))
}

#[async_trait]
impl Leases for FlatLeases {
    async fn acquire(&self, name: &str, owner: &str, ttl: Duration) -> Result<Option<Lease>, StateError> {
        self.change("leases", |leases: &mut LeaseFile| {
            let before = leases.get(name);
            if before.is_some_and(|held| held.until > now()) {
                return (None, Changed::No);
            }
            let fence = before.map_or(0, |held| held.fence) + 1;
            leases.retain(|_, held| held.until > now() - FORGET_LEASE_MICROS);
            leases.insert(name.to_owned(), Held { owner: owner.to_owned(), fence, until: until(ttl) });
            (Some(Lease { name: name.to_owned(), owner: owner.to_owned(), fence }), Changed::Yes)
        })
    }

    async fn renew(&self, lease: &Lease, ttl: Duration) -> Result<(), StateError> {
        let renewed = self.change("leases", |leases: &mut LeaseFile| match leases.get_mut(&lease.name) {
            Some(held) if held.fence == lease.fence && held.owner == lease.owner && held.until > now() => {
                held.until = until(ttl);
                (true, Changed::Yes)
            }
            _ => (false, Changed::No),
        })?;
        if renewed { Ok(()) } else { Err(StateError::LeaseLost(lease.name.clone())) }
    }

    async fn release(&self, lease: &Lease) -> Result<(), StateError> {
        self.change("leases", |leases: &mut LeaseFile| match leases.get_mut(&lease.name) {
            // The entry stays: its fence must keep growing.
            Some(held) if held.fence == lease.fence && held.owner == lease.owner => {
                held.until = now();
                ((), Changed::Yes)
            }
            _ => ((), Changed::No),
        })
    }
}

#[async_trait]
impl Limits for FlatLeases {
    async fn take(&self, bucket: &str, wanted: u32, rate: Rate) -> Result<Granted, StateError> {
        self.change("limits", |limits: &mut LimitFile| {
            let now = now();
            let mut kept = Bucket { full_at: limits.get(bucket).copied().unwrap_or_default() };
            let granted = kept.take(wanted, rate, now);
            if granted.tokens == 0 {
                return (granted, Changed::No);
            }
            limits.retain(|_, full_at| *full_at > now - FORGET_MICROS);
            limits.insert(bucket.to_owned(), kept.full_at);
            (granted, Changed::Yes)
        })
    }
}
