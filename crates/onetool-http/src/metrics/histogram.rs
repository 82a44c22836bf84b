//! Durations in fixed buckets: adding takes a few instructions and never blocks.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the buckets, in seconds.
pub const BOUNDS: [f64; 16] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0];

#[derive(Debug, Default)]
pub struct Histogram {
    /// The last bucket counts durations beyond every bound.
    buckets: [AtomicU64; BOUNDS.len() + 1],
    nanoseconds: AtomicU64,
}

/// A snapshot of a histogram.
#[derive(Debug, Clone, PartialEq)]
pub struct HistogramValue {
    /// Per bucket, not cumulative.
    pub buckets: [u64; BOUNDS.len() + 1],
    pub count: u64,
    /// Seconds.
    pub sum: f64,
}

impl Histogram {
    pub fn add(&self, took: Duration) {
        let seconds = took.as_secs_f64();
        let bucket = BOUNDS.iter().position(|bound| seconds <= *bound).unwrap_or(BOUNDS.len());
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    pub fn value(&self) -> HistogramValue {
        let mut buckets = [0; BOUNDS.len() + 1];
        for (value, bucket) in buckets.iter_mut().zip(&self.buckets) {
            *value = bucket.load(Ordering::Relaxed);
        }
        let sum = Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed)).as_secs_f64();
        HistogramValue { buckets, count: buckets.iter().sum(), sum }
    }
}
