//! A call as a stream of events: `progress`, then `result` or `error`. A client that disconnects ends the call.

use std::sync::Arc;

use axum::response::Response;
use onetool_sdk::{Progress, ProgressSink};
use parking_lot::Mutex;
use serde_json::{Map, Value as Json};
use tokio_util::sync::CancellationToken;

use super::admin::events::{EventSender, stream_of};
use super::input::ToolPath;
use super::invoke::{Invoker, Mode};

pub(super) use super::admin::events::wants_events;

/// Maximum size of the text queued for a slow reader, in bytes; more than a stream may have. The excess is dropped.
const MAX_WAITING: usize = 16 << 20;

/// Makes the call and answers with its events.
pub(super) fn answer(invoker: Invoker, path: ToolPath, args: Map<String, Json>) -> Response {
    let cancel = CancellationToken::new();
    stream_of(cancel.clone(), |sender| async move {
        let progress = Arc::new(JoinedProgress { sender: sender.clone(), waiting: Mutex::default() });
        let reply = tokio::select! {
            biased;
            () = cancel.cancelled() => return,
            reply = invoker.invoke(path, args, Mode::Send, progress.clone()) => reply,
        };
        let waiting = progress.waiting.lock().take();
        if let Some(rest) = waiting {
            sender.send_progress(rest).await;
        }
        match reply {
            Ok(reply) => sender.send("result", &reply).await,
            Err(error) => sender.send("error", &error.reply()).await,
        };
    })
}

/// Merges reports that a slow reader has no room for into the next, so that none of their text is lost.
struct JoinedProgress {
    sender: EventSender,
    waiting: Mutex<Option<Progress>>,
}

impl ProgressSink for JoinedProgress {
    fn report(&self, progress: Progress) {
        let mut waiting = self.waiting.lock();
        let joined = match waiting.take() {
            Some(before) => {
                let mut message = before.message.unwrap_or_default();
                let more = progress.message.unwrap_or_default();
                if message.len() + more.len() <= MAX_WAITING {
                    message.push_str(&more);
                }
                Progress { message: Some(message), ..progress }
            }
            None => progress,
        };
        *waiting = self.sender.offer_progress(joined).err();
    }
}
