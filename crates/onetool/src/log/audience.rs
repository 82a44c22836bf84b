//! Clients that subscribe to the log. Without subscribers, no message is formatted.

use std::sync::LazyLock;

use onetool_http::LogMessage;
use serde_json::Value as Json;
use tokio::sync::broadcast;
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use super::{FILTERS, OURS, lines};

/// Number of messages that are queued for a slow client; it misses older ones.
const QUEUE: usize = 256;

static MESSAGES: LazyLock<broadcast::Sender<LogMessage>> = LazyLock::new(|| broadcast::channel(QUEUE).0);

/// Subscribes to our own messages, at least down to `level`; the listener filters out more detailed ones.
pub fn listen(level: LevelFilter) -> broadcast::Receiver<LogMessage> {
    let receiver = MESSAGES.subscribe();
    if let Some(filters) = FILTERS.get() {
        let mut asked = filters.asked.lock();
        if level > *asked {
            *asked = level;
            let _ = filters.audience.reload(Targets::new().with_target(OURS, level));
        }
    }
    receiver
}

pub(super) struct Audience;

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Audience {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, ctx: Context<'_, S>) {
        lines::begin(attributes, id, &ctx);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, ctx: Context<'_, S>) {
        lines::add(id, values, &ctx);
    }

    fn on_event(&self, event: &Event<'_>, ctx: Context<'_, S>) {
        if MESSAGES.receiver_count() == 0 {
            return;
        }
        let text = lines::line(event, &ctx);
        let data = serde_json::from_str(&text).unwrap_or(Json::String(text));
        let _ = MESSAGES.send(LogMessage { level: *event.metadata().level(), data });
    }
}
