//! A run that this process executes and that outlives the request that started it.
//!
//! Any open request may listen to it, answer its questions and take its reply; without one, the run continues.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use onetool_run::RunReply;
use onetool_run::durable::{Journal, Kept};
use onetool_sdk::{CallContext, Progress, ProgressSink, ToolError};
use onetool_state::runs::{Owner, RunId, RunStatus, Taken};
use parking_lot::Mutex;
use rmcp::model::{InputRequest, InputRequests, InputResponses};
use serde_json::Value as Json;
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;

use crate::mcp::{Questions, ReplyPreferences};

/// Maximum number of open questions of one run.
const MAX_QUESTIONS: usize = 16;
/// Maximum length of a message.
const MAX_MESSAGE: usize = 500;

pub(crate) struct LiveRun {
    pub(crate) id: RunId,
    pub(crate) owner: Owner,
    pub(crate) command: String,
    pub(crate) created_at: DateTime<Utc>,
    pub(crate) cancel: CancellationToken,
    state: Mutex<LiveState>,
    changed: watch::Sender<u64>,
    /// How the run is recorded. Locked while that changes.
    pub(super) recording: tokio::sync::Mutex<Recording>,
}

/// How a run is recorded for other processes.
pub(super) enum Recording {
    /// It was recorded before it began.
    Before,
    /// Not recorded yet: its progress is only in memory.
    Memory {
        journal: Arc<Journal>,
        ctx: Box<CallContext>,
        reply: ReplyPreferences,
    },
    /// It was recorded while it ran.
    Meanwhile {
        taken: Box<Taken>,
        kept: Kept,
    },
    Ended,
}

#[derive(Default)]
struct LiveState {
    open: BTreeMap<String, (InputRequest, oneshot::Sender<Json>)>,
    asked: usize,
    message: Option<String>,
    reply: Option<Arc<RunReply>>,
    listener: Option<Arc<dyn ProgressSink>>,
}

/// The result of waiting for a run.
pub(crate) enum LiveStep {
    Finished(Arc<RunReply>),
    NeedsInput(InputRequests),
}

impl LiveRun {
    pub(super) fn new(id: RunId, owner: Owner, command: String) -> Self {
        Self {
            id,
            owner,
            command,
            created_at: Utc::now(),
            cancel: CancellationToken::new(),
            state: Mutex::default(),
            changed: watch::channel(0).0,
            recording: tokio::sync::Mutex::new(Recording::Before),
        }
    }

    pub(crate) fn status(&self) -> RunStatus {
        let state = self.state.lock();
        match &state.reply {
            None if state.open.is_empty() => RunStatus::Working,
            None => RunStatus::InputRequired,
            Some(reply) => self.ends_as(reply),
        }
    }

    /// Returns the final status that a reply implies.
    fn ends_as(&self, reply: &RunReply) -> RunStatus {
        match reply.is_error {
            true if self.cancel.is_cancelled() => RunStatus::Cancelled,
            true => RunStatus::Failed,
            false => RunStatus::Completed,
        }
    }

    /// Returns its last progress message.
    pub(crate) fn message(&self) -> Option<String> {
        self.state.lock().message.clone()
    }

    /// Returns its open questions.
    pub(crate) fn questions(&self) -> InputRequests {
        self.state.lock().open.iter().map(|(key, (request, _))| (key.clone(), request.clone())).collect()
    }

    /// Delivers answers. Unanswered questions stay open.
    pub(crate) fn answer(&self, answers: InputResponses) {
        let mut state = self.state.lock();
        for (key, answer) in answers {
            if let Some((_, waiting)) = state.open.remove(&key) {
                let _ = waiting.send(answer);
            }
        }
        drop(state);
        self.tell();
    }

    /// Drops a question, because nobody can be asked.
    pub(crate) fn give_up(&self, key: &str) {
        self.state.lock().open.remove(key);
        self.tell();
    }

    /// Sends progress to `listener` too from now on.
    pub(crate) fn listen(&self, listener: Option<Arc<dyn ProgressSink>>) {
        self.state.lock().listener = listener;
    }

    /// Waits until it has ended, or has a question that is not among `known`.
    pub(crate) async fn advance(&self, known: &BTreeSet<String>) -> LiveStep {
        let mut changes = self.changed.subscribe();
        loop {
            changes.borrow_and_update();
            {
                let state = self.state.lock();
                if let Some(reply) = &state.reply {
                    return LiveStep::Finished(reply.clone());
                }
                let new = state.open.iter().filter(|(key, _)| !known.contains(*key));
                let new: InputRequests = new.map(|(key, (request, _))| (key.clone(), request.clone())).collect();
                if !new.is_empty() {
                    return LiveStep::NeedsInput(new);
                }
            }
            if changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Waits until it has ended.
    pub(crate) async fn reply(&self) -> Arc<RunReply> {
        let mut changes = self.changed.subscribe();
        loop {
            changes.borrow_and_update();
            if let Some(reply) = &self.state.lock().reply {
                return reply.clone();
            }
            if changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    pub(super) fn finish(&self, reply: Arc<RunReply>) {
        let mut state = self.state.lock();
        state.reply = Some(reply);
        state.listener = None;
        state.open.clear();
        drop(state);
        self.tell();
    }

    /// Notifies when its questions or its reply have changed.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    fn tell(&self) {
        self.changed.send_modify(|count| *count += 1);
    }
}

/// Remembers the last progress message, and forwards all reports to the listener.
pub(super) struct LiveProgress(pub(super) Arc<LiveRun>);

impl ProgressSink for LiveProgress {
    fn report(&self, progress: Progress) {
        let mut state = self.0.state.lock();
        if let Some(message) = progress.message.as_deref().filter(|message| !message.is_empty()) {
            state.message = Some(message.chars().take(MAX_MESSAGE).collect());
        }
        if let Some(listener) = &state.listener {
            listener.report(progress);
        }
    }
}

/// Sends the questions of such a run to its client.
pub(super) struct LiveClient {
    pub(super) run: Arc<LiveRun>,
    /// How long a question waits for its answer.
    pub(super) patience: Duration,
}

#[async_trait]
impl Questions for LiveClient {
    async fn ask(&self, request: InputRequest) -> Result<Json, ToolError> {
        let (answer, answered) = oneshot::channel();
        let key = {
            let mut state = self.run.state.lock();
            if state.open.len() >= MAX_QUESTIONS {
                return Err(ToolError::unavailable(format!("{MAX_QUESTIONS} questions wait for the client already")));
            }
            state.asked += 1;
            let key = format!("input-{}", state.asked);
            state.open.insert(key.clone(), (request, answer));
            key
        };
        self.run.tell();
        match tokio::time::timeout(self.patience, answered).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(_)) => Err(ToolError::unavailable("the client did not answer")),
            Err(_) => {
                self.run.give_up(&key);
                let seconds = self.patience.as_secs();
                Err(ToolError::unavailable(format!("the client did not answer within {seconds} s"))
                    .with_hint("server.input_timeout is the limit"))
            }
        }
    }
}
