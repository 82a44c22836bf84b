//! Events of MCP streams, kept for clients that lose their connection: they reconnect with `Last-Event-ID` and get
//! the events they missed and those still to come.
//!
//! Events are kept for a bounded time after a stream's last event, and within a bounded number of bytes: the streams
//! that have been quiet longest are dropped first.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures_util::stream;
use parking_lot::Mutex;
use rmcp::model::{JsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_server::session::{
    EventId, EventStore, EventStoreError, EventStream, ServerSseMessage,
};
use tokio::sync::watch;

/// Limits for the events kept for clients that reconnect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ResumeLimits {
    /// Time after a stream's last event.
    pub(super) window: Duration,
    /// Total size of all streams.
    pub(super) bytes: usize,
}

/// The events of all streams.
pub(super) struct Events {
    kept: Arc<Mutex<Kept>>,
    limits: Box<dyn Fn() -> ResumeLimits + Send + Sync>,
}

#[derive(Default)]
struct Kept {
    streams: HashMap<String, Recorded>,
    bytes: usize,
}

struct Recorded {
    /// The index of the first event that is still kept.
    first: u64,
    events: VecDeque<(ServerSseMessage, usize)>,
    last: Instant,
    /// The request has its answer: no more events follow.
    is_finished: bool,
    /// Tells followers how many events there have been.
    count: watch::Sender<u64>,
}

impl Events {
    pub(super) fn new(limits: impl Fn() -> ResumeLimits + Send + Sync + 'static) -> Self {
        Self { kept: Arc::default(), limits: Box::new(limits) }
    }

    /// Whether events are kept for the stream of this event.
    pub(super) fn keeps(&self, event_id: &str) -> bool {
        event_id.rsplit_once('/').is_some_and(|(id, _)| self.kept.lock().streams.contains_key(id))
    }

    /// Drops events beyond the limits.
    pub(super) fn sweep(&self) {
        let limits = (self.limits)();
        self.kept.lock().shrink(limits);
    }
}

impl Kept {
    fn shrink(&mut self, limits: ResumeLimits) {
        let mut freed = 0;
        self.streams.retain(|_, stream| {
            // A quiet stream with followers is still needed.
            let stays = stream.last.elapsed() < limits.window || stream.count.receiver_count() > 0;
            if !stays {
                freed += stream.bytes();
            }
            stays
        });
        self.bytes -= freed;
        while self.bytes > limits.bytes {
            let oldest = self.streams.iter().min_by_key(|(_, stream)| stream.last).map(|(id, _)| id.clone());
            let Some(stream) = oldest.and_then(|id| self.streams.remove(&id)) else { return };
            self.bytes -= stream.bytes();
        }
    }

    fn add(&mut self, id: &str, event: &ServerSseMessage) -> EventId {
        let stream = self.streams.entry(id.to_owned()).or_insert_with(|| Recorded {
            first: 0,
            events: VecDeque::new(),
            last: Instant::now(),
            is_finished: false,
            count: watch::channel(0).0,
        });
        let index = stream.first + stream.events.len() as u64;
        let event_id = format!("{id}/{index}");
        let mut event = event.clone();
        event.event_id = Some(event_id.clone());
        let size = event.message.as_deref().map_or(0, size);
        stream.is_finished |= event.message.as_deref().is_some_and(is_answer);
        stream.events.push_back((event, size));
        stream.last = Instant::now();
        self.bytes += size;
        stream.count.send_replace(index + 1);
        event_id
    }
}

impl Recorded {
    fn bytes(&self) -> usize {
        self.events.iter().map(|(_, size)| size).sum()
    }
}

fn is_answer(message: &ServerJsonRpcMessage) -> bool {
    matches!(message, JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_))
}

/// A message's length as it is sent.
fn size(message: &ServerJsonRpcMessage) -> usize {
    struct Counter(usize);
    impl io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    let _ = serde_json::to_writer(&mut counter, message);
    counter.0
}

#[derive(Debug, thiserror::Error)]
#[error("no events are kept for this Last-Event-ID")]
struct Forgotten;

#[async_trait]
impl EventStore for Events {
    async fn store_event(&self, stream_id: &str, event: &ServerSseMessage) -> Result<EventId, EventStoreError> {
        let limits = (self.limits)();
        let mut kept = self.kept.lock();
        let id = kept.add(stream_id, event);
        if kept.bytes > limits.bytes {
            kept.shrink(limits);
        }
        Ok(id)
    }

    async fn replay_events_after(&self, last_event_id: &str) -> Result<EventStream, EventStoreError> {
        let (id, index) = last_event_id.rsplit_once('/').ok_or(Forgotten)?;
        let next = index.parse::<u64>().map_err(|_| Forgotten)? + 1;
        let count = {
            let kept = self.kept.lock();
            let stream = kept.streams.get(id).ok_or(Forgotten)?;
            if next < stream.first || next > stream.first + stream.events.len() as u64 {
                return Err(Forgotten.into());
            }
            stream.count.subscribe()
        };
        let follower = Follower { kept: self.kept.clone(), id: id.to_owned(), next, count };
        Ok(Box::pin(stream::unfold(follower, Follower::next)))
    }
}

/// Reads one stream from a given event on, and waits for more until the stream is finished.
struct Follower {
    kept: Arc<Mutex<Kept>>,
    id: String,
    next: u64,
    count: watch::Receiver<u64>,
}

enum Step {
    Event(ServerSseMessage),
    Wait,
    End,
}

impl Follower {
    async fn next(mut self) -> Option<(ServerSseMessage, Self)> {
        loop {
            self.count.mark_unchanged();
            match self.step() {
                Step::Event(event) => return Some((event, self)),
                Step::Wait => self.count.changed().await.ok()?,
                Step::End => return None,
            }
        }
    }

    fn step(&mut self) -> Step {
        let kept = self.kept.lock();
        let Some(stream) = kept.streams.get(&self.id) else { return Step::End };
        let Some(offset) = self.next.checked_sub(stream.first) else { return Step::End };
        match stream.events.get(usize::try_from(offset).unwrap_or(usize::MAX)) {
            Some((event, _)) => {
                self.next += 1;
                Step::Event(event.clone())
            }
            None if stream.is_finished => Step::End,
            None => Step::Wait,
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt as _;
    use rmcp::model::{EmptyObject, RequestId, ServerResult};

    use super::*;

    const WIDE: ResumeLimits = ResumeLimits { window: Duration::from_mins(1), bytes: 1 << 20 };

    fn answer() -> ServerSseMessage {
        let result = ServerResult::EmptyResult(EmptyObject {});
        ServerSseMessage::from_message(JsonRpcMessage::response(result, RequestId::Number(1)))
    }

    fn priming() -> ServerSseMessage {
        ServerSseMessage::retry(Duration::from_secs(1))
    }

    #[tokio::test]
    async fn what_was_missed_and_what_comes_later_is_delivered_once() {
        let events = Events::new(|| WIDE);
        let first = events.store_event("a", &priming()).await.unwrap();
        let other = events.store_event("b", &answer()).await.unwrap();
        let mut following = events.replay_events_after(&first).await.unwrap();
        let last = events.store_event("a", &answer()).await.unwrap();
        assert_eq!(following.next().await.unwrap().event_id, Some(last.clone()));
        assert!(following.next().await.is_none(), "an answered request's stream ends");
        let mut again = events.replay_events_after(&first).await.unwrap();
        assert_eq!(again.next().await.unwrap().event_id, Some(last.clone()), "it can be asked for again");
        assert!(events.replay_events_after(&last).await.unwrap().next().await.is_none());
        assert_ne!(other, last);
        for unknown in ["", "a", "a/x", "a/9", "c/0", "a/-1"] {
            assert!(events.replay_events_after(unknown).await.is_err(), "{unknown}");
        }
    }

    #[tokio::test]
    async fn the_quietest_streams_are_forgotten_first() {
        let size = size(answer().message.as_deref().unwrap());
        let events = Events::new(move || ResumeLimits { bytes: 2 * size, ..WIDE });
        for stream in ["a", "b", "c"] {
            events.store_event(stream, &priming()).await.unwrap();
            events.store_event(stream, &answer()).await.unwrap();
        }
        assert!(events.replay_events_after("a/0").await.is_err());
        assert!(events.replay_events_after("c/0").await.is_ok());
        let brief = Events::new(|| ResumeLimits { window: Duration::ZERO, ..WIDE });
        brief.store_event("a", &priming()).await.unwrap();
        brief.sweep();
        assert!(brief.replay_events_after("a/0").await.is_err());
    }
}
