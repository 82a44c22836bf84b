//! Clock differences between hosts and this machine, learned from the `Date` header of replies.

use std::collections::HashMap;

use chrono::{DateTime, TimeDelta, Utc};
use http::HeaderMap;
use http::header::DATE;
use parking_lot::Mutex;

use crate::limits::CLOCKS;

/// Smaller differences are attributed to latency and rounding.
const NOISE: TimeDelta = TimeDelta::seconds(3);

/// Differences by host.
#[derive(Default)]
pub(crate) struct Clocks {
    offsets: Mutex<HashMap<String, TimeDelta>>,
}

/// Whether a reply changed the known difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Learned {
    Something,
    Nothing,
}

impl Clocks {
    /// The current time by the host's clock.
    pub(crate) fn now(&self, host: &str) -> DateTime<Utc> {
        let offset = self.offsets.lock().get(host).copied().unwrap_or_default();
        Utc::now().checked_add_signed(offset).unwrap_or_else(Utc::now)
    }

    /// Learns from a reply that has just arrived.
    pub(crate) fn learn(&self, host: &str, headers: &HeaderMap) -> Learned {
        let date = headers.get(DATE).and_then(|date| date.to_str().ok());
        let Some(theirs) = date.and_then(|date| DateTime::parse_from_rfc2822(date).ok()) else {
            return Learned::Nothing;
        };
        let found = theirs.to_utc() - Utc::now();
        let found = if found.abs() <= NOISE { TimeDelta::zero() } else { found };
        let mut offsets = self.offsets.lock();
        let known = offsets.get(host).copied().unwrap_or_default();
        if (found - known).abs() <= NOISE {
            return Learned::Nothing;
        }
        if found.is_zero() {
            offsets.remove(host);
        } else {
            if offsets.len() >= CLOCKS && !offsets.contains_key(host) {
                offsets.clear();
            }
            offsets.insert(host.to_owned(), found);
        }
        Learned::Something
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dated(offset: TimeDelta) -> HeaderMap {
        let at = (Utc::now() + offset).format("%a, %d %b %Y %H:%M:%S GMT").to_string();
        HeaderMap::from_iter([(DATE, at.parse().unwrap())])
    }

    #[test]
    fn a_difference_is_learned_once_and_forgotten_when_it_is_over() {
        let clocks = Clocks::default();
        assert_eq!(clocks.learn("a", &dated(TimeDelta::zero())), Learned::Nothing);
        assert_eq!(clocks.learn("a", &HeaderMap::new()), Learned::Nothing);
        assert_eq!(clocks.learn("a", &dated(TimeDelta::hours(2))), Learned::Something);
        assert_eq!(clocks.learn("a", &dated(TimeDelta::hours(2))), Learned::Nothing);
        assert!(clocks.now("a") - Utc::now() > TimeDelta::minutes(119));
        assert!((clocks.now("b") - Utc::now()).abs() < TimeDelta::minutes(1));
        assert_eq!(clocks.learn("a", &dated(TimeDelta::zero())), Learned::Something);
        assert!((clocks.now("a") - Utc::now()).abs() < TimeDelta::minutes(1));
    }
}
