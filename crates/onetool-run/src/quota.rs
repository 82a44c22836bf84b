//! Enforces the limits of a principal: concurrent runs, calls per minute, seconds of computing per day.
//!
//! Usage is counted over all servers that share state. Calls and seconds are taken from shared token buckets in
//! portions, so that most of them need no access to the state; where several servers share state, each concurrent run
//! holds a lease. While the state is unreachable each server counts for itself.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use onetool_sdk::{CallContext, ErrorKind, ToolError};
use onetool_state::State;
use onetool_state::interface::{Bucket, Granted, Lease, Leases, Limits, Rate};
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::groups::Quota;

/// The share of a minute's calls taken per request (one in `PORTION`), and its maximum.
const PORTION: u32 = 20;
const MOST_AT_ONCE: u32 = 50;
/// Unused calls expire after this time.
const LAPSE: Duration = Duration::from_secs(10);
/// Milliseconds of computing taken per request.
const COMPUTING: u32 = 1_000;
const DAY: Duration = Duration::from_hours(24);
/// Highest limit of concurrent runs that is counted over all servers; a higher one applies per server.
const MOST_LEASES: u32 = 32;
/// Duration of a run's lease, and how often it is renewed.
const LEASE: Duration = Duration::from_secs(30);
const RENEW: Duration = Duration::from_secs(10);
/// Timeout for requests to the state.
const PATIENCE: Duration = Duration::from_secs(2);
/// When to retry if another run occupies the slot.
const RUN_AGAIN: Duration = Duration::from_secs(1);
/// Maximum number of principals remembered.
const MAX_ACCOUNTS: usize = 10_000;

/// Counts the usage of principals.
#[derive(Default)]
pub struct Quotas {
    shared: Option<Shared>,
    accounts: Mutex<HashMap<Arc<str>, Account>>,
    /// Buckets used while the shared ones are unreachable.
    local: Mutex<HashMap<String, Bucket>>,
}

struct Shared {
    limits: Arc<dyn Limits>,
    leases: Arc<dyn Leases>,
    /// Whether several servers share the state.
    is_team: bool,
    node: String,
}

#[derive(Default)]
struct Account {
    running: u32,
    /// Calls taken and not yet used, and when they were taken.
    calls: u32,
    taken: Option<Instant>,
    /// Milliseconds left; negative if a run took longer than expected.
    computing: i64,
}

impl Quotas {
    /// Shares its counts with everyone who uses the same state.
    pub fn new(state: &State) -> Self {
        let shared = Shared {
            limits: state.limits(),
            leases: state.leases(),
            is_team: state.documents().poll_every().is_some(),
            node: uuid::Uuid::new_v4().simple().to_string(),
        };
        Self { shared: Some(shared), ..Self::default() }
    }

    /// Takes a slot for a run, until the result is dropped.
    pub(crate) async fn begin_run(self: &Arc<Self>, ctx: &CallContext, quota: Quota) -> Result<RunSlot, ToolError> {
        self.check_computing(&ctx.owner, quota).await?;
        self.take_place(ctx, quota).await
    }

    /// Takes a slot for a run that was admitted before, by this server or another one. Waits for the slot, which a
    /// server that has died may hold for a moment; `None` if the run is cancelled meanwhile.
    pub(crate) async fn go_on(self: &Arc<Self>, ctx: &CallContext, quota: Quota) -> Option<RunSlot> {
        loop {
            if let Ok(slot) = self.take_place(ctx, quota).await {
                return Some(slot);
            }
            tokio::select! {
                () = ctx.cancel.cancelled() => return None,
                () = tokio::time::sleep(RUN_AGAIN) => {}
            }
        }
    }

    async fn take_place(self: &Arc<Self>, ctx: &CallContext, quota: Quota) -> Result<RunSlot, ToolError> {
        let owner = ctx.owner.clone();
        let mut slot = RunSlot { quotas: self.clone(), owner: owner.clone(), lease: None, is_counted: false };
        let Some(limit) = quota.runs_at_once else { return Ok(slot) };
        let full = || {
            let many = if limit == 1 { "1 run is".to_owned() } else { format!("{limit} runs are") };
            refused(&format!("{many} under way already, which is the most at once"), RUN_AGAIN)
        };
        let has_room = self.account(&owner, |account| {
            let has_room = account.running < limit;
            account.running += u32::from(has_room);
            has_room
        });
        if !has_room {
            return Err(full());
        }
        slot.is_counted = true;
        if let Some(shared) = self.shared.as_ref().filter(|shared| shared.is_team && limit <= MOST_LEASES) {
            match shared.lease(&owner, limit).await {
                Ok(Some(lease)) => slot.lease = Some(HeldLease::keep(shared.leases.clone(), lease)),
                Ok(None) => return Err(full()),
                // Counted on this server only.
                Err(()) => {}
            }
        }
        Ok(slot)
    }

    /// Takes one call.
    pub(crate) async fn take_call(&self, ctx: &CallContext, quota: Quota) -> Result<(), ToolError> {
        let Some(limit) = quota.calls_per_minute else { return Ok(()) };
        let owner = &ctx.owner;
        let has_one = self.account(owner, |account| {
            if account.taken.is_none_or(|at| at.elapsed() >= LAPSE) {
                account.calls = 0;
            }
            let has_one = account.calls > 0;
            account.calls -= u32::from(has_one);
            has_one
        });
        if has_one {
            return Ok(());
        }
        let wanted = (limit / PORTION).clamp(1, MOST_AT_ONCE);
        let granted = self.take(&format!("calls-{owner}"), wanted, Rate::per_minute(limit)).await;
        if granted.tokens == 0 {
            let message = format!("{limit} calls were made within a minute, which is the most");
            return Err(refused(&message, granted.retry_after.unwrap_or(RUN_AGAIN)));
        }
        self.account(owner, |account| {
            account.calls += granted.tokens - 1;
            account.taken = Some(Instant::now());
        });
        Ok(())
    }

    async fn check_computing(&self, owner: &Arc<str>, quota: Quota) -> Result<(), ToolError> {
        let Some(seconds) = quota.cpu_seconds_per_day else { return Ok(()) };
        let left = self.account(owner, |account| account.computing);
        if left > 0 {
            return Ok(());
        }
        let wanted = u32::try_from(-left).unwrap_or(u32::MAX).saturating_add(COMPUTING);
        let rate = Rate { burst: seconds.saturating_mul(1_000), period: DAY };
        let granted = self.take(&format!("cpu-{owner}"), wanted, rate).await;
        let left = self.account(owner, |account| {
            account.computing += i64::from(granted.tokens);
            account.computing
        });
        if left > 0 {
            return Ok(());
        }
        // The debt must be recovered first.
        let owed = u32::try_from(1 - left).unwrap_or(u32::MAX);
        let wait = rate.per_token().map_or(DAY, |token| (token * owed).min(DAY));
        let message = format!("{seconds} seconds of computing were used within a day, which is the most");
        Err(refused(&message, wait.max(granted.retry_after.unwrap_or_default())))
    }

    pub(crate) fn computed(&self, owner: &Arc<str>, took: Duration) {
        let took = i64::try_from(took.as_millis()).unwrap_or(i64::MAX);
        self.account(owner, |account| account.computing = account.computing.saturating_sub(took));
    }

    async fn take(&self, bucket: &str, wanted: u32, rate: Rate) -> Granted {
        if let Some(shared) = &self.shared {
            let (limits, name) = (shared.limits.clone(), bucket.to_owned());
            // The state may be in files, which block.
            let taking = tokio::task::spawn_blocking(move || onetool_state::wait(limits.take(&name, wanted, rate)));
            if let Ok(Ok(Ok(granted))) = tokio::time::timeout(PATIENCE, taking).await {
                return granted;
            }
        }
        let mut local = self.local.lock();
        if local.len() >= MAX_ACCOUNTS {
            local.clear();
        }
        let now = chrono::Utc::now().timestamp_micros();
        local.entry(bucket.to_owned()).or_default().take(wanted, rate, now)
    }

    fn account<T>(&self, owner: &Arc<str>, change: impl FnOnce(&mut Account) -> T) -> T {
        let mut accounts = self.accounts.lock();
        if accounts.len() >= MAX_ACCOUNTS && !accounts.contains_key(owner) {
            accounts.retain(|_, account| account.running > 0 || account.computing < 0);
        }
        change(accounts.entry(owner.clone()).or_default())
    }
}

impl Shared {
    /// Acquires a slot among the runs of all servers; `None` if all are taken.
    async fn lease(&self, owner: &str, limit: u32) -> Result<Option<Lease>, ()> {
        let start = u32::from(uuid::Uuid::new_v4().as_bytes()[0]) % limit;
        let holder = format!("{}-{}", self.node, uuid::Uuid::new_v4().simple());
        for number in (start..limit).chain(0..start) {
            let name = format!("run-{}-{number}", owner.replace(':', "-"));
            let asking = self.leases.acquire(&name, &holder, LEASE);
            match tokio::time::timeout(PATIENCE, asking).await {
                Ok(Ok(Some(lease))) => return Ok(Some(lease)),
                Ok(Ok(None)) => {}
                Ok(Err(_)) | Err(_) => return Err(()),
            }
        }
        Ok(None)
    }
}

/// A run's slot, released on drop.
pub(crate) struct RunSlot {
    quotas: Arc<Quotas>,
    owner: Arc<str>,
    lease: Option<HeldLease>,
    is_counted: bool,
}

impl RunSlot {
    /// Charges the time that the run computed.
    pub(crate) fn computed(&self, took: Duration) {
        self.quotas.computed(&self.owner, took);
    }

    /// Releases the slot before the end of the run is reported, so that the client's next run finds it free at every
    /// server.
    pub(crate) async fn end(mut self) {
        if let Some(lease) = self.lease.take() {
            lease.release().await;
        }
    }
}

impl Drop for RunSlot {
    fn drop(&mut self) {
        if self.is_counted {
            self.quotas.account(&self.owner, |account| account.running = account.running.saturating_sub(1));
        }
        drop(self.lease.take());
    }
}

/// A lease that is renewed until it is dropped.
struct HeldLease {
    done: CancellationToken,
    keeping: Option<JoinHandle<()>>,
}

impl HeldLease {
    fn keep(leases: Arc<dyn Leases>, lease: Lease) -> Self {
        let done = CancellationToken::new();
        let ended = done.clone();
        let keeping = tokio::spawn(async move {
            loop {
                tokio::select! {
                    () = ended.cancelled() => break,
                    () = tokio::time::sleep(RENEW) => {}
                }
                if leases.renew(&lease, LEASE).await.is_err() {
                    return;
                }
            }
            let _ = leases.release(&lease).await;
        });
        Self { done, keeping: Some(keeping) }
    }

    /// Waits until the lease is released, unless the state takes too long.
    async fn release(mut self) {
        self.done.cancel();
        if let Some(keeping) = self.keeping.take() {
            let _ = tokio::time::timeout(PATIENCE, keeping).await;
        }
    }
}

impl Drop for HeldLease {
    fn drop(&mut self) {
        self.done.cancel();
    }
}

fn refused(reason: &str, retry_after: Duration) -> ToolError {
    let retry_after = retry_after.max(Duration::from_millis(1));
    let seconds = retry_after.as_secs_f64().ceil();
    ToolError::new(ErrorKind::RateLimited { retry_after }, reason.to_owned()).with_hint(format!(
        "try again in {seconds:.0} s; security.groups and security.limits in the configuration decide"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use onetool_sdk::Caller;

    fn ctx(owner: &str) -> CallContext {
        CallContext { owner: owner.into(), ..CallContext::new(Caller::Run) }
    }

    #[tokio::test]
    async fn each_has_their_own() {
        let quotas = Arc::new(Quotas::default());
        let quota = Quota { runs_at_once: Some(1), calls_per_minute: Some(3), cpu_seconds_per_day: Some(2) };
        let (ana, eve) = (ctx("token:a"), ctx("token:e"));
        let slot = quotas.begin_run(&ana, quota).await.unwrap();
        let refused = quotas.begin_run(&ana, quota).await.err().unwrap();
        assert!(refused.message.contains("1 run is under way"), "{refused:?}");
        quotas.begin_run(&eve, quota).await.unwrap();
        slot.computed(Duration::from_millis(2_500));
        drop(slot);
        let refused = quotas.begin_run(&ana, quota).await.err().unwrap();
        let ErrorKind::RateLimited { retry_after } = refused.kind else { panic!("{refused:?}") };
        assert!(retry_after > Duration::from_hours(1), "{retry_after:?}");
        for _ in 0..3 {
            quotas.take_call(&ana, quota).await.unwrap();
        }
        let refused = quotas.take_call(&ana, quota).await.unwrap_err();
        assert!(refused.hint.unwrap().contains("try again in"));
        quotas.take_call(&eve, quota).await.unwrap();
    }
}
