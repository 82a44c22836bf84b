//! Rate limits for tools and hosts, per process or across all servers that share state.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use governor::clock::{Clock as _, DefaultClock};
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use onetool_sdk::{ErrorKind, ToolError};
use onetool_state::interface::Rate;
use onetool_state::{LeasedLimits, Permit, State};
use parking_lot::Mutex;

use super::limits::LIMITERS;

/// One limit per key. Changing a limit resets its count.
pub(crate) struct Limiters {
    /// Prefix of the keys in shared state.
    kind: &'static str,
    limiters: Mutex<HashMap<String, (NonZeroU32, Arc<DefaultDirectRateLimiter>)>>,
    clock: DefaultClock,
    /// Set if other servers count against the same limits.
    shared: Option<LeasedLimits>,
}

impl Limiters {
    pub(crate) fn new(kind: &'static str) -> Self {
        Self { kind, limiters: Mutex::default(), clock: DefaultClock::default(), shared: None }
    }

    /// Counts together with all processes that share this state.
    pub(crate) fn share(&mut self, state: &State) {
        self.shared = state.is_shared().then(|| LeasedLimits::new(state.limits()));
    }

    /// Counts a call of `what`, or returns an error that says when to retry.
    pub(crate) async fn check(&self, key: &str, per_minute: NonZeroU32, what: &str) -> Result<(), ToolError> {
        let permit = match &self.shared {
            Some(shared) => shared.take(&format!("{}/{key}", self.kind), Rate::per_minute(per_minute.get())).await,
            None => self.count(key, per_minute),
        };
        match permit {
            Permit::Granted => Ok(()),
            Permit::Refused(retry_after) => Err(refused(what, per_minute, retry_after)),
        }
    }

    fn count(&self, key: &str, per_minute: NonZeroU32) -> Permit {
        let limiter = {
            let mut limiters = self.limiters.lock();
            if limiters.len() >= LIMITERS && !limiters.contains_key(key) {
                limiters.clear();
            }
            let fresh = || (per_minute, Arc::new(RateLimiter::direct(Quota::per_minute(per_minute))));
            let entry = limiters.entry(key.to_owned()).or_insert_with(fresh);
            if entry.0 != per_minute {
                *entry = fresh();
            }
            entry.1.clone()
        };
        match limiter.check() {
            Ok(()) => Permit::Granted,
            Err(until) => Permit::Refused(until.wait_time_from(self.clock.now())),
        }
    }
}

fn refused(what: &str, per_minute: NonZeroU32, retry_after: Duration) -> ToolError {
    ToolError::new(ErrorKind::RateLimited { retry_after }, format!("{what} may be called {per_minute} times a minute"))
        .with_hint(format!("try again in {} s", retry_after.as_secs() + 1))
}
