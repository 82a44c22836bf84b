//! Retry rules.

use std::time::Duration;

use chrono::{DateTime, Utc};
use http::header::RETRY_AFTER;
use http::{HeaderMap, Method, StatusCode};

use super::limits::{FIRST_BACKOFF, LONGEST_BACKOFF};

/// Whether repeating a request has no further effect.
pub(crate) fn is_idempotent(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::PUT | Method::DELETE | Method::OPTIONS)
}

/// Whether a status is transient.
pub(crate) fn is_passing(status: StatusCode) -> bool {
    matches!(status.as_u16(), 408 | 429 | 502 | 503 | 504)
}

/// Backoff with full jitter: a random wait whose upper bound doubles with each attempt.
pub(crate) fn backoff(attempt: u32) -> Duration {
    let longest = FIRST_BACKOFF.saturating_mul(1 << attempt.min(16)).min(LONGEST_BACKOFF);
    let (random, _) = uuid::Uuid::new_v4().as_u64_pair();
    longest.mul_f64((random >> 11) as f64 / (1_u64 << 53) as f64)
}

/// The wait that the server asks for.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse::<u64>() {
        return Some(Duration::from_secs(seconds));
    }
    let at = DateTime::parse_from_rfc2822(text).ok()?;
    Some((at.to_utc() - Utc::now()).to_std().unwrap_or_default())
}
