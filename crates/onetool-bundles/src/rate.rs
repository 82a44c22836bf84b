//! How often tools and hosts may be called.

use std::collections::HashMap;
use std::hash::Hash;
use std::num::NonZeroU32;
use std::sync::Arc;

use governor::clock::{Clock as _, DefaultClock};
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use onetool_sdk::{ErrorKind, ToolError};
use parking_lot::Mutex;

use super::limits::LIMITERS;

/// One limiter a key. A changed limit starts afresh.
pub(crate) struct Limiters<K> {
    limiters: Mutex<HashMap<K, (NonZeroU32, Arc<DefaultDirectRateLimiter>)>>,
    clock: DefaultClock,
}

impl<K: Hash + Eq> Limiters<K> {
    pub(crate) fn new() -> Self {
        Self { limiters: Mutex::default(), clock: DefaultClock::default() }
    }

    /// Counts a call of `what`, or says when to try again.
    pub(crate) fn check(&self, key: K, per_minute: NonZeroU32, what: &str) -> Result<(), ToolError> {
        let limiter = {
            let mut limiters = self.limiters.lock();
            if limiters.len() >= LIMITERS && !limiters.contains_key(&key) {
                limiters.clear();
            }
            let fresh = || (per_minute, Arc::new(RateLimiter::direct(Quota::per_minute(per_minute))));
            let entry = limiters.entry(key).or_insert_with(fresh);
            if entry.0 != per_minute {
                *entry = fresh();
            }
            entry.1.clone()
        };
        limiter.check().map_err(|until| {
            let retry_after = until.wait_time_from(self.clock.now());
            ToolError::new(
                ErrorKind::RateLimited { retry_after },
                format!("{what} may be called {per_minute} times a minute"),
            )
            .with_hint(format!("try again in {} s", retry_after.as_secs() + 1))
        })
    }
}
