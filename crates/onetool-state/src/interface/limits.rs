//! Token buckets shared by all users of a backend.

use std::time::Duration;

use async_trait::async_trait;

use super::StateError;

/// The fill rate and the capacity of a bucket.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// Number of tokens in a full bucket.
    pub burst: u32,
    /// How long it takes to fill an empty bucket.
    pub period: Duration,
}

impl Rate {
    pub fn per_minute(count: u32) -> Self {
        Self { burst: count, period: Duration::from_mins(1) }
    }

    /// Time to refill one token. A bucket without capacity never grants any.
    pub fn per_token(self) -> Option<Duration> {
        (self.burst > 0).then(|| self.period / self.burst)
    }
}

/// The tokens that a bucket granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Granted {
    /// At most as many as requested.
    pub tokens: u32,
    /// When to ask again, if there were none.
    pub retry_after: Option<Duration>,
}

#[async_trait]
pub trait Limits: Send + Sync {
    /// Takes up to `wanted` tokens, as many as available. Taking many at once means asking less often.
    async fn take(&self, bucket: &str, wanted: u32, rate: Rate) -> Result<Granted, StateError>;
}

/// The stored form of a bucket: the theoretical time at which it would be full again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bucket {
    /// Microseconds since the epoch.
    pub full_at: i64,
}

impl Bucket {
    /// Takes up to `wanted` tokens at `now` (microseconds since the epoch).
    pub fn take(&mut self, wanted: u32, rate: Rate, now: i64) -> Granted {
        let Some(per_token) = rate.per_token() else {
            return Granted { tokens: 0, retry_after: Some(rate.period) };
        };
        let micros = |time: Duration| i64::try_from(time.as_micros()).unwrap_or(i64::MAX).max(1);
        let (token, period) = (micros(per_token), micros(rate.period));
        let missing = self.full_at.saturating_sub(now).clamp(0, period);
        let free = (period - missing) / token;
        let tokens = i64::from(wanted).min(free);
        self.full_at = now.saturating_add(missing).saturating_add(tokens * token);
        let short = token - (period - missing) % token;
        let retry_after =
            (tokens == 0 && wanted > 0).then(|| Duration::from_micros(u64::try_from(short).unwrap_or_default()));
        Granted { tokens: u32::try_from(tokens).unwrap_or_default(), retry_after }
    }
}
