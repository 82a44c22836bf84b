//! How often tools and hosts may be called: by this process, or by all servers that share their state together.

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

/// One limit per key. A changed limit starts afresh.
pub(crate) struct Limiters {
    /// Names the keys among those of others.
    kind: &'static str,
    limiters: Mutex<HashMap<String, (NonZeroU32, Arc<DefaultDirectRateLimiter>)>>,
    clock: DefaultClock,
    /// Where other servers count too.
    shared: Option<LeasedLimits>,
}

impl Limiters {
    pub(crate) fn new(kind: &'static str) -> Self {
        Self { kind, limiters: Mutex::default(), clock: DefaultClock::default(), shared: None }
    }

    /// Counts together with all who share this state.
    pub(crate) fn share(&mut self, state: &State) {
        self.shared = state.is_shared().then(|| LeasedLimits::new(state.limits()));
    }

    /// Counts a call of `what`, or says when to try again.
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
