//! The active calls of one connection: where their progress goes, and which client a server may ask on their behalf.
//!
//! A call carries its [`CallLink`] in the request itself; the connection registers it at the moment the request is
//! written, so that no message about a call can arrive too early. The references are weak: a call that ended, in
//! whatever way, is no longer found.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;

use onetool_sdk::{CallContext, ClientBridge, Progress};
use parking_lot::Mutex;
use rmcp::model::{ProgressNotificationParam, ProgressToken, RequestId};

/// Number of entries beyond which those of ended calls are removed.
const SWEEP_AT: usize = 64;

/// What a connection must know about a call.
pub(super) struct CallLink {
    ctx: CallContext,
    heard: Mutex<Heard>,
    /// Number of open questions to the client. While there is one, the server is not considered slow.
    questions: AtomicUsize,
    delivery: Mutex<Delivery>,
    asks: Asks,
}

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asks {
    ToolResult,
    Other,
}

/// How far a request has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Delivery {
    /// It waits for its turn.
    Waiting,
    /// It was written, at least in part, at this byte offset. Whether it was read is unknown.
    HandedOver { start: u64 },
    /// It was written, and the server ended without reading it.
    Unread,
}

struct Heard {
    at: Instant,
    done: f64,
    /// The last progress message.
    said: String,
}

/// The link as it travels inside a request.
#[derive(Clone)]
pub(super) struct LinkExtension(pub(super) Arc<CallLink>);

impl CallLink {
    pub(super) fn new(ctx: &CallContext, asks: Asks) -> Arc<Self> {
        let heard = Mutex::new(Heard { at: Instant::now(), done: f64::NEG_INFINITY, said: String::new() });
        let delivery = Mutex::new(Delivery::Waiting);
        Arc::new(Self { ctx: ctx.clone(), heard, questions: AtomicUsize::new(0), delivery, asks })
    }

    /// Called before each attempt to send the request.
    pub(super) fn begin(&self) {
        *self.delivery.lock() = Delivery::Waiting;
    }

    /// Called before the request is written at this byte offset.
    pub(super) fn hand_over(&self, start: u64) {
        *self.delivery.lock() = Delivery::HandedOver { start };
    }

    /// Whether the server may have read the request.
    pub(super) fn may_have_arrived(&self) -> bool {
        matches!(*self.delivery.lock(), Delivery::HandedOver { .. })
    }

    /// Bytes from this offset on were never read.
    fn never_read_from(&self, first: u64) {
        let mut delivery = self.delivery.lock();
        if matches!(*delivery, Delivery::HandedOver { start } if start >= first) {
            *delivery = Delivery::Unread;
        }
    }

    /// When the server last gave a sign of life about this call.
    pub(super) fn heard_at(&self) -> Instant {
        if self.questions.load(Ordering::Acquire) > 0 { Instant::now() } else { self.heard.lock().at }
    }

    /// Whether the server waits for the client.
    pub(super) fn has_open_question(&self) -> bool {
        self.questions.load(Ordering::Acquire) > 0
    }

    /// Records a sign of life with a progress message, which is forwarded if it is new.
    pub(super) fn tell(&self, message: &str) {
        let done = {
            let mut heard = self.heard.lock();
            heard.at = Instant::now();
            if message.is_empty() || heard.said == message {
                return;
            }
            message.clone_into(&mut heard.said);
            heard.done = heard.done.max(0.0) + 1.0;
            heard.done
        };
        self.ctx.progress.report(Progress { done, total: None, message: Some(message.to_owned()) });
    }

    /// Forwards progress. It must grow; progress that does not is still a sign of life.
    fn report(&self, progress: ProgressNotificationParam) {
        {
            let mut heard = self.heard.lock();
            heard.at = Instant::now();
            if progress.progress <= heard.done {
                return;
            }
            heard.done = progress.progress;
        }
        self.ctx.progress.report(Progress {
            done: progress.progress,
            total: progress.total,
            message: progress.message,
        });
    }
}

/// Why a server's question cannot be forwarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NobodyToAsk {
    /// No call is active, or none of them has a client that can be asked.
    NoClient,
    /// Several callers have active calls, and the question does not say which one it is for.
    Ambiguous,
}

impl NobodyToAsk {
    pub(super) fn message(self) -> &'static str {
        match self {
            Self::NoClient => "no client that can be asked is waiting for a call to this server",
            Self::Ambiguous => "several clients have calls under way, and the request does not say which it is for",
        }
    }
}

/// A client to ask, and the calls concerned. While this exists, those calls have an open question.
pub(super) struct Question {
    pub(super) client: Arc<dyn ClientBridge>,
    links: Vec<Arc<CallLink>>,
}

impl Question {
    pub(super) fn new(client: Arc<dyn ClientBridge>, links: Vec<Arc<CallLink>>) -> Self {
        for link in &links {
            link.questions.fetch_add(1, Ordering::AcqRel);
        }
        Self { client, links }
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        for link in &self.links {
            link.heard.lock().at = Instant::now();
            link.questions.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

#[derive(Default)]
struct Notes {
    by_token: HashMap<ProgressToken, Weak<CallLink>>,
    by_request: HashMap<RequestId, Weak<CallLink>>,
}

/// All active calls of one connection.
#[derive(Default)]
pub(super) struct CallsUnderWay {
    notes: Mutex<Notes>,
}

impl CallsUnderWay {
    pub(super) fn note(&self, id: RequestId, token: Option<ProgressToken>, link: &Arc<CallLink>) {
        let mut notes = self.notes.lock();
        if notes.by_request.len() >= SWEEP_AT {
            notes.by_request.retain(|_, link| link.strong_count() > 0);
            notes.by_token.retain(|_, link| link.strong_count() > 0);
        }
        notes.by_request.insert(id, Arc::downgrade(link));
        if let Some(token) = token {
            notes.by_token.insert(token, Arc::downgrade(link));
        }
    }

    /// Whether a tool call waits for the reply to this request.
    pub(super) fn awaits_tool_result(&self, id: &RequestId) -> bool {
        let notes = self.notes.lock();
        notes.by_request.get(id).and_then(Weak::upgrade).is_some_and(|link| link.asks == Asks::ToolResult)
    }

    /// The server is gone; bytes from this offset on were never read.
    pub(super) fn never_read_from(&self, first: u64) {
        for link in self.notes.lock().by_request.values().filter_map(Weak::upgrade) {
            link.never_read_from(first);
        }
    }

    pub(super) fn progress(&self, progress: ProgressNotificationParam) {
        let link = self.notes.lock().by_token.get(&progress.progress_token).and_then(Weak::upgrade);
        if let Some(link) = link {
            link.report(progress);
        }
    }

    /// The client for a question that came with the reply to `request`, or, if the transport does not say, for any
    /// active call. A question is never put to a client that may belong to another caller.
    pub(super) fn question_for(&self, request: Option<&RequestId>) -> Result<Question, NobodyToAsk> {
        let notes = self.notes.lock();
        let links: Vec<Arc<CallLink>> = match request {
            Some(id) => notes.by_request.get(id).and_then(Weak::upgrade).into_iter().collect(),
            None => notes.by_request.values().filter_map(Weak::upgrade).collect(),
        };
        drop(notes);
        let first = links.first().ok_or(NobodyToAsk::NoClient)?;
        let client = first.ctx.client.clone().ok_or(NobodyToAsk::NoClient)?;
        let same = |link: &Arc<CallLink>| {
            link.ctx.run_id == first.ctx.run_id
                || link.ctx.client.as_ref().is_some_and(|other| Arc::ptr_eq(other, &client))
        };
        if links.iter().all(same) { Ok(Question::new(client, links)) } else { Err(NobodyToAsk::Ambiguous) }
    }
}
