//! Leases and limits.

use std::time::Duration;

use super::Open;
use crate::interface::{Rate, StateError};
use crate::leased::{LeasedLimits, Permit};

const LONG: Duration = Duration::from_mins(1);
const SHORT: Duration = Duration::from_millis(30);

pub(super) async fn check(open: Open<'_>) {
    let (one, other) = (open().leases(), open().leases());
    let mine = one.acquire("refresh", "node-1", LONG).await.unwrap().unwrap();
    assert_eq!(other.acquire("refresh", "node-2", LONG).await.unwrap(), None);
    assert_eq!(one.acquire("refresh", "node-1", LONG).await.unwrap(), None, "not even its owner takes it twice");
    let apart = other.acquire("another", "node-2", LONG).await.unwrap().unwrap();
    one.renew(&mine, LONG).await.unwrap();
    one.release(&mine).await.unwrap();
    let theirs = other.acquire("refresh", "node-2", SHORT).await.unwrap().unwrap();
    assert!(theirs.fence > mine.fence, "the fence grows: {theirs:?} after {mine:?}");
    assert!(matches!(one.renew(&mine, LONG).await, Err(StateError::LeaseLost(_))));
    one.release(&mine).await.unwrap();

    // The lease expires by itself, and its former holder gets an error.
    let next = loop {
        if let Some(lease) = one.acquire("refresh", "node-3", LONG).await.unwrap() {
            break lease;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    assert!(next.fence > theirs.fence);
    assert!(matches!(other.renew(&theirs, LONG).await, Err(StateError::LeaseLost(_))));
    other.release(&theirs).await.unwrap();
    one.renew(&next, LONG).await.unwrap();
    one.release(&next).await.unwrap();
    other.release(&apart).await.unwrap();
}

pub(super) async fn check_limits(open: Open<'_>) {
    let (one, other) = (open().limits(), open().limits());
    // So slow that nothing is refilled while the test runs.
    let rate = Rate { burst: 10, period: Duration::from_hours(10) };
    assert_eq!(one.take("calls", 4, rate).await.unwrap().tokens, 4);
    assert_eq!(other.take("calls", 4, rate).await.unwrap().tokens, 4);
    let rest = one.take("calls", 4, rate).await.unwrap();
    assert_eq!((rest.tokens, rest.retry_after), (2, None), "what is left is given");
    let none = other.take("calls", 1, rate).await.unwrap();
    assert_eq!(none.tokens, 0);
    let wait = none.retry_after.unwrap();
    assert!(wait <= Duration::from_hours(1) && wait > Duration::from_mins(50), "{wait:?}");
    assert_eq!(one.take("others", 1, rate).await.unwrap().tokens, 1);
    let nothing = Rate { burst: 0, period: LONG };
    assert_eq!(one.take("none", 1, nothing).await.unwrap().tokens, 0);

    // Two servers that take several tokens at once still respect the limit together, and lose no more than they hold.
    let leased = Rate { burst: 100, period: Duration::from_hours(100) };
    let servers = [LeasedLimits::new(open().limits()), LeasedLimits::new(open().limits())];
    let mut granted = 0;
    for round in 0..200 {
        if servers[round % 2].take("leased", leased).await == Permit::Granted {
            granted += 1;
        }
    }
    assert!((1..=100).contains(&granted), "{granted}: together no more than the limit");
    assert!(
        matches!(servers[0].take("leased", leased).await, Permit::Refused(wait) if wait <= Duration::from_hours(1))
    );
    assert_eq!(one.take("leased", 1, leased).await.unwrap().tokens, 0);
    assert_eq!(servers[0].take("somebody else's", leased).await, Permit::Granted);

    // The bucket refills.
    let fast = Rate { burst: 5, period: Duration::from_millis(50) };
    let mut taken = 0;
    while taken < 12 {
        let granted = one.take("fast", 5, fast).await.unwrap();
        assert!(granted.tokens <= 5);
        taken += granted.tokens;
        if let Some(wait) = granted.retry_after {
            tokio::time::sleep(wait).await;
        }
    }
}
