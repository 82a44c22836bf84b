//! Rate limits that all servers share, without a round trip for every call.
//!
//! A server takes several tokens at once from the shared bucket and spends them locally. They are paid for when they
//! are taken, so the limit holds across all servers; tokens that a server does not spend soon are lost, never saved up.
//! While the shared state is unreachable, each server counts for itself.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::Utc;
use parking_lot::Mutex;

use crate::interface::{Bucket, Limits, Rate, StateError};

/// Maximum number of tokens taken at once. A tenth of a small bucket: one server must not take what all need.
const MAX_CHUNK: u32 = 20;
const PART_OF_BUCKET: u32 = 10;
/// How long taken tokens stay valid.
const KEPT_FOR: Duration = Duration::from_secs(5);
/// Maximum number of buckets known here; beyond it, all are forgotten.
const MAX_BUCKETS: usize = 10_000;

/// Whether an action is allowed now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permit {
    Granted,
    /// Not allowed before this time has passed.
    Refused(Duration),
}

/// Rate limits with tokens taken in advance. Clones share them.
#[derive(Clone)]
pub struct LeasedLimits {
    shared: Arc<dyn Limits>,
    held: Arc<Mutex<HashMap<String, Held>>>,
}

#[derive(Debug, Clone, Copy)]
struct Held {
    rate: Rate,
    tokens: u32,
    until: Instant,
    /// An empty bucket is not asked again before this.
    empty_until: Option<Instant>,
    /// Used while the shared state is unreachable.
    own: Bucket,
}

impl LeasedLimits {
    pub fn new(shared: Arc<dyn Limits>) -> Self {
        Self { shared, held: Arc::default() }
    }

    /// Takes one token from a bucket, such as `tool/<id>` or `principal/<name>/calls`.
    pub async fn take(&self, bucket: &str, rate: Rate) -> Permit {
        if let Some(permit) = self.spend(bucket, rate) {
            return permit;
        }
        let wanted = (rate.burst / PART_OF_BUCKET).clamp(1, MAX_CHUNK);
        match self.shared.take(bucket, wanted, rate).await {
            Ok(granted) => self.keep(bucket, rate, granted.tokens, granted.retry_after),
            Err(error) => self.alone(bucket, rate, &error),
        }
    }

    /// Spends a token that was taken before, if there is one.
    fn spend(&self, bucket: &str, rate: Rate) -> Option<Permit> {
        let mut held = self.held.lock();
        let entry = held.get_mut(bucket).filter(|entry| entry.rate == rate)?;
        let now = Instant::now();
        if let Some(left) = entry.empty_until.and_then(|until| until.checked_duration_since(now)) {
            return Some(Permit::Refused(left));
        }
        if entry.tokens == 0 || entry.until < now {
            return None;
        }
        entry.tokens -= 1;
        Some(Permit::Granted)
    }

    fn keep(&self, bucket: &str, rate: Rate, tokens: u32, retry_after: Option<Duration>) -> Permit {
        let now = Instant::now();
        self.with(bucket, rate, |entry| {
            entry.empty_until = None;
            if tokens == 0 {
                let wait = retry_after.unwrap_or(rate.period);
                // Servers return no tokens, so asking earlier is useless.
                entry.empty_until = Some(now + wait);
                return Permit::Refused(wait);
            }
            let left = if entry.until < now { 0 } else { entry.tokens };
            entry.tokens = left + tokens - 1;
            entry.until = now + KEPT_FOR.min(rate.period);
            Permit::Granted
        })
    }

    fn alone(&self, bucket: &str, rate: Rate, error: &StateError) -> Permit {
        tracing::debug!(%error, bucket, "a rate limit is counted by this server alone");
        self.with(bucket, rate, |entry| {
            let granted = entry.own.take(1, rate, Utc::now().timestamp_micros());
            match granted.tokens {
                0 => Permit::Refused(granted.retry_after.unwrap_or(rate.period)),
                _ => Permit::Granted,
            }
        })
    }

    fn with(&self, bucket: &str, rate: Rate, change: impl FnOnce(&mut Held) -> Permit) -> Permit {
        let mut held = self.held.lock();
        if held.len() >= MAX_BUCKETS && !held.contains_key(bucket) {
            held.clear();
        }
        let now = Instant::now();
        let fresh = Held { rate, tokens: 0, until: now, empty_until: None, own: Bucket::default() };
        let entry = held.entry(bucket.to_owned()).or_insert(fresh);
        // A changed limit starts over.
        if entry.rate != rate {
            *entry = fresh;
        }
        change(entry)
    }
}
