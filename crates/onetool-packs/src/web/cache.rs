//! A cache of replies, bounded by total size; the oldest are evicted first.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// A cached reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reply {
    /// The final address, after redirects.
    pub(super) url: reqwest::Url,
    pub(super) content_type: String,
    pub(super) body: Vec<u8>,
}

/// Replies by requested address.
pub(super) struct Cache {
    entries: Mutex<Entries>,
    ttl: Duration,
    max_bytes: usize,
}

#[derive(Default)]
struct Entries {
    by_url: HashMap<String, (Instant, Arc<Reply>)>,
    bytes: usize,
}

impl Cache {
    pub(super) fn new(ttl: Duration, max_bytes: usize) -> Self {
        Self { entries: Mutex::default(), ttl, max_bytes }
    }

    pub(super) fn get(&self, url: &str, now: Instant) -> Option<Arc<Reply>> {
        let entries = self.entries.lock();
        let (since, reply) = entries.by_url.get(url)?;
        (now.saturating_duration_since(*since) < self.ttl).then(|| reply.clone())
    }

    pub(super) fn put(&self, url: &str, reply: Arc<Reply>, now: Instant) {
        let size = reply.body.len() + url.len();
        // A single reply must not evict everything else.
        if self.ttl.is_zero() || size > self.max_bytes / 4 {
            return;
        }
        let mut entries = self.entries.lock();
        entries.remove(url);
        let dead: Vec<String> = entries
            .by_url
            .iter()
            .filter(|(_, (since, _))| now.saturating_duration_since(*since) >= self.ttl)
            .map(|(url, _)| url.clone())
            .collect();
        dead.iter().for_each(|url| entries.remove(url));
        while entries.bytes + size > self.max_bytes {
            let oldest = entries.by_url.iter().min_by_key(|(_, (since, _))| *since).map(|(url, _)| url.clone());
            let Some(oldest) = oldest else { break };
            entries.remove(&oldest);
        }
        entries.bytes += size;
        entries.by_url.insert(url.to_owned(), (now, reply));
    }
}

impl Entries {
    fn remove(&mut self, url: &str) {
        if let Some((_, reply)) = self.by_url.remove(url) {
            self.bytes -= reply.body.len() + url.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(bytes: usize) -> Arc<Reply> {
        let url = reqwest::Url::parse("https://example.org/").unwrap();
        Arc::new(Reply { url, content_type: String::new(), body: vec![b'x'; bytes] })
    }

    #[test]
    fn replies_age_and_the_oldest_make_room() {
        let cache = Cache::new(Duration::from_secs(10), 400);
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        for (second, url) in ["a", "b", "c", "d"].into_iter().enumerate() {
            cache.put(url, reply(99), at(second as u64));
        }
        assert!(cache.get("a", at(4)).is_some());
        cache.put("e", reply(99), at(5));
        assert!(cache.get("a", at(5)).is_none() && cache.get("b", at(5)).is_some());
        assert!(cache.get("b", at(11)).is_none(), "too old");
        cache.put("huge", reply(101), at(6));
        assert!(cache.get("huge", at(6)).is_none());
        cache.put("e", reply(10), at(12));
        assert_eq!(cache.entries.lock().bytes, 100 + 11, "d and e");
        let off = Cache::new(Duration::ZERO, 400);
        off.put("a", reply(1), start);
        assert!(off.get("a", start).is_none());
    }
}
