//! Runs that need the user's input from a client that cannot be asked while it waits.
//!
//! Since revision 2026-07-28 a server does not send requests. A run that asks for something is answered with what it
//! needs and a `requestState`; the client calls again with the answers and that state, and the run resumes. The state
//! is sealed: it is valid for one retry of the same command by the same principal, for a bounded time.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures_util::future::BoxFuture;
use onetool_run::RunReply;
use onetool_sdk::{ClientBridge, Progress, ProgressSink, ToolError};
use parking_lot::Mutex;
use rmcp::ErrorData;
use rmcp::model::{ClientCapabilities, InputRequest, InputRequests, InputResponses, ServerResult};
use serde_json::Value as Json;
use subtle::ConstantTimeEq as _;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::{CancellationToken, DropGuard};
use uuid::Uuid;

use super::asked::{AskedClient, Questions};
use crate::access::Principal;
use crate::background::LiveRun;

/// Maximum number of runs that wait for input; the one that has waited longest makes room for another.
const MAX_WAITING: usize = 256;
/// Maximum number of a run's questions that wait to be put into a reply.
const MAX_QUESTIONS: usize = 16;

/// A run's question, and the channel for its answer.
struct Question {
    request: InputRequest,
    answer: oneshot::Sender<Json>,
}

/// Sends the questions of such a run to its client.
pub(super) struct RoundTrips {
    questions: mpsc::Sender<Question>,
}

#[async_trait]
impl Questions for RoundTrips {
    async fn ask(&self, request: InputRequest) -> Result<Json, ToolError> {
        let (answer, answered) = oneshot::channel();
        let gone = || ToolError::unavailable("the client did not answer");
        self.questions.send(Question { request, answer }).await.map_err(|_| gone())?;
        answered.await.map_err(|_| gone())
    }
}

/// Work that may ask its client questions: a run, or a request to an upstream server.
pub(super) struct ActiveRun<T = RunReply> {
    work: BoxFuture<'static, T>,
    /// The outcome of work that panicked.
    failed: fn() -> T,
    questions: mpsc::Receiver<Question>,
    /// Questions sent to the client and not answered yet.
    open: BTreeMap<String, (InputRequest, oneshot::Sender<Json>)>,
    asked: usize,
    cancel: CancellationToken,
    _cancel_on_drop: DropGuard,
    pub(super) progress: Arc<RelayedProgress>,
}

/// The result of advancing a run.
pub(super) enum Step<T = RunReply> {
    Finished(T),
    NeedsInput(InputRequests),
}

impl<T: Send + 'static> ActiveRun<T> {
    /// Prepares a run; `start` gets the client to ask, the progress sink, and the token that cancels the run.
    pub(super) fn new(
        capabilities: ClientCapabilities,
        failed: fn() -> T,
        start: impl FnOnce(Arc<dyn ClientBridge>, Arc<RelayedProgress>, CancellationToken) -> BoxFuture<'static, T>,
    ) -> Self {
        let (sender, questions) = mpsc::channel(MAX_QUESTIONS);
        let progress = Arc::new(RelayedProgress::default());
        let cancel = CancellationToken::new();
        let client = Arc::new(AskedClient::new(capabilities, RoundTrips { questions: sender }));
        let work = start(client, progress.clone(), cancel.clone());
        Self {
            work,
            failed,
            questions,
            open: BTreeMap::new(),
            asked: 0,
            _cancel_on_drop: cancel.clone().drop_guard(),
            cancel,
            progress,
        }
    }

    /// Delivers the client's answers. Unanswered questions stay open.
    pub(super) fn answer(&mut self, answers: InputResponses) {
        for (key, answer) in answers {
            if let Some((_, waiting)) = self.open.remove(&key) {
                let _ = waiting.send(answer);
            }
        }
    }

    /// Continues until the run is finished or needs input. A cancelled request cancels the run.
    pub(super) async fn advance(&mut self, cancelled: &CancellationToken) -> Step<T> {
        if self.open.is_empty() {
            let question = tokio::select! {
                biased;
                reply = &mut self.work => return Step::Finished(reply),
                Some(question) = self.questions.recv() => question,
                () = cancelled.cancelled() => {
                    self.cancel.cancel();
                    return Step::Finished((&mut self.work).await);
                }
            };
            self.keep(question);
            while let Ok(question) = self.questions.try_recv() {
                self.keep(question);
            }
        }
        Step::NeedsInput(self.open.iter().map(|(key, (request, _))| (key.clone(), request.clone())).collect())
    }

    fn keep(&mut self, question: Question) {
        self.asked += 1;
        self.open.insert(format!("input-{}", self.asked), (question.request, question.answer));
    }

    /// Lets the run continue on its own while nobody waits for it: its limits apply, and its other calls finish.
    fn detach(mut self) -> Self {
        let work = std::mem::replace(&mut self.work, Box::pin(std::future::pending()));
        let running = crate::task::spawn(work);
        let failed = self.failed;
        self.work = Box::pin(async move { running.await.unwrap_or_else(|_| failed()) });
        self
    }
}

/// Progress of a run that is served by successive requests.
#[derive(Default)]
pub(super) struct RelayedProgress(Mutex<Option<Arc<dyn ProgressSink>>>);

impl RelayedProgress {
    /// Sends progress to `sink` from now on.
    pub(super) fn connect(&self, sink: Option<Arc<dyn ProgressSink>>) {
        *self.0.lock() = sink;
    }
}

impl ProgressSink for RelayedProgress {
    fn report(&self, progress: Progress) {
        if let Some(sink) = &*self.0.lock() {
            sink.report(progress);
        }
    }
}

/// What a state is bound to, besides its run.
#[derive(Clone, Copy)]
pub(super) struct Binding<'a> {
    pub(super) principal: Principal,
    pub(super) command: &'a str,
}

/// A state that cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("requestState is invalid, expired or used already, or belongs to another call; call run again without it")]
pub(super) struct InvalidState;

/// Runs that wait for a client's answers.
pub(super) struct WaitingRuns {
    key: [u8; 32],
    runs: Mutex<HashMap<Uuid, Waiting>>,
}

struct Waiting {
    run: ParkedRun,
    until: Instant,
}

/// A run that waits.
pub(super) enum ParkedRun {
    /// A run that belongs to a single request.
    Own(ActiveRun),
    /// A request for a prompt or a resource of an upstream server that needs input first.
    Offer(ActiveRun<Result<ServerResult, ErrorData>>),
    /// A run that other requests may join.
    Live(LiveHandle),
}

/// A live run; if it has no record, it is cancelled when this is dropped.
pub(super) struct LiveHandle {
    pub(super) run: Arc<LiveRun>,
    pub(super) cancel_on_drop: Option<DropGuard>,
}

impl Default for WaitingRuns {
    fn default() -> Self {
        let mut key = [0; 32];
        key[..16].copy_from_slice(Uuid::new_v4().as_bytes());
        key[16..].copy_from_slice(Uuid::new_v4().as_bytes());
        Self { key, runs: Mutex::default() }
    }
}

impl WaitingRuns {
    /// Keeps a run until its client calls again; returns the state that identifies it.
    pub(super) fn park(&self, run: ParkedRun, binding: Binding<'_>, patience: Duration) -> String {
        let id = Uuid::new_v4();
        let run = match run {
            ParkedRun::Own(run) => ParkedRun::Own(run.detach()),
            ParkedRun::Offer(run) => ParkedRun::Offer(run.detach()),
            live @ ParkedRun::Live(_) => live,
        };
        let mut runs = self.runs.lock();
        let now = Instant::now();
        runs.retain(|_, waiting| waiting.until > now);
        if runs.len() >= MAX_WAITING {
            let oldest = runs.iter().min_by_key(|(_, waiting)| waiting.until).map(|(id, _)| *id);
            oldest.map(|id| runs.remove(&id));
        }
        runs.insert(id, Waiting { run, until: now + patience });
        let mut state = id.as_bytes().to_vec();
        state.extend_from_slice(self.seal(id, binding).as_bytes());
        URL_SAFE_NO_PAD.encode(state)
    }

    /// Removes and returns the run that a state identifies.
    pub(super) fn take(&self, state: &str, binding: Binding<'_>) -> Result<ParkedRun, InvalidState> {
        let bytes = URL_SAFE_NO_PAD.decode(state).map_err(|_| InvalidState)?;
        let (id, seal) = bytes.split_first_chunk::<16>().ok_or(InvalidState)?;
        let id = Uuid::from_bytes(*id);
        if !bool::from(self.seal(id, binding).as_bytes().as_slice().ct_eq(seal)) {
            return Err(InvalidState);
        }
        let waiting = self.runs.lock().remove(&id).ok_or(InvalidState)?;
        if waiting.until <= Instant::now() { Err(InvalidState) } else { Ok(waiting.run) }
    }

    /// Whether a run waits here with this id.
    pub(super) fn has(&self, id: Uuid) -> bool {
        self.runs.lock().contains_key(&id)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.runs.lock().is_empty()
    }

    /// Drops, and so cancels, runs whose clients did not return.
    pub(super) fn sweep(&self) {
        let now = Instant::now();
        self.runs.lock().retain(|_, waiting| waiting.until > now);
    }

    fn seal(&self, id: Uuid, binding: Binding<'_>) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(id.as_bytes());
        hasher.update(&binding.principal.fingerprint().to_le_bytes());
        hasher.update(binding.command.as_bytes());
        hasher.finalize()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn elicit(text: &str) -> Json {
        json!({"message": text, "requestedSchema": {"type": "object", "properties": {}}})
    }

    fn asking(capabilities: ClientCapabilities) -> ActiveRun {
        ActiveRun::new(capabilities, super::super::runs::failed_inside, |client, _, _| {
            Box::pin(async move {
                let (a, b) = tokio::join!(client.elicit(elicit("a")), client.elicit(elicit("b")));
                let text = format!("{:?} {:?}", a.map(|a| a["action"].clone()), b.map(|b| b["action"].clone()));
                RunReply { text, parts: Vec::new(), is_error: false }
            })
        })
    }

    fn elicitation() -> ClientCapabilities {
        serde_json::from_value(json!({"elicitation": {}})).unwrap()
    }

    const BINDING: Binding<'static> = Binding { principal: Principal::Anyone, command: "x" };

    #[tokio::test]
    async fn questions_that_come_together_are_asked_together_and_each_is_answered() {
        let never = CancellationToken::new();
        let mut run = asking(elicitation());
        let Step::NeedsInput(requests) = run.advance(&never).await else { panic!("it asks") };
        assert_eq!(requests.len(), 2);
        let waiting = WaitingRuns::default();
        let state = waiting.park(ParkedRun::Own(run), BINDING, Duration::from_mins(1));
        let Ok(ParkedRun::Own(mut run)) = waiting.take(&state, BINDING) else { panic!("it waits") };
        run.answer(InputResponses::from([("input-1".to_owned(), json!({"action": "accept", "content": {}}))]));
        let Step::NeedsInput(requests) = run.advance(&never).await else { panic!("one is open") };
        assert_eq!(requests.keys().collect::<Vec<_>>(), ["input-2"]);
        run.answer(InputResponses::from([("input-2".to_owned(), json!({"action": "nonsense"}))]));
        let Step::Finished(reply) = run.advance(&never).await else { panic!("all is answered") };
        assert_eq!(reply.text, r#"Ok(String("accept")) Ok(String("cancel"))"#);
    }

    #[tokio::test]
    async fn a_state_holds_once_and_for_its_own_call_alone() {
        let waiting = WaitingRuns::default();
        let park = || waiting.park(ParkedRun::Own(asking(elicitation())), BINDING, Duration::from_mins(1));
        let state = park();
        assert!(waiting.take(&state, Binding { command: "y", ..BINDING }).is_err());
        assert!(waiting.take(&format!("{state}A"), BINDING).is_err());
        assert!(waiting.take("", BINDING).is_err());
        assert!(waiting.take(&state, BINDING).is_ok());
        assert!(waiting.take(&state, BINDING).is_err());
        let late = waiting.park(ParkedRun::Own(asking(elicitation())), BINDING, Duration::ZERO);
        assert!(waiting.take(&late, BINDING).is_err());
        let first = park();
        for _ in 0..MAX_WAITING {
            park();
        }
        assert!(waiting.take(&first, BINDING).is_err(), "the oldest made room");
    }

    #[tokio::test]
    async fn a_client_is_asked_only_in_the_ways_that_it_knows() {
        let ask = async |capabilities: Json, params: Json| {
            let capabilities = serde_json::from_value(json!({"elicitation": capabilities})).unwrap();
            let mut run = ActiveRun::new(capabilities, super::super::runs::failed_inside, |client, _, _| {
                Box::pin(async move {
                    let answer = client.elicit(params).await;
                    let text = answer.map_or_else(|error| error.to_string(), |answer| answer.to_string());
                    RunReply { text, parts: Vec::new(), is_error: false }
                })
            });
            match run.advance(&CancellationToken::new()).await {
                Step::Finished(reply) => reply.text,
                Step::NeedsInput(_) => "asked".to_owned(),
            }
        };
        let address = || json!({"mode": "url", "message": "m", "url": "https://example.org/in", "elicitationId": "e"});
        for (capabilities, form, url) in [
            (json!({}), "asked", "cannot have its user open an address"),
            (json!({"form": {}}), "asked", "cannot have its user open an address"),
            (json!({"url": {}}), "has no forms", "asked"),
            (json!({"form": {}, "url": {}}), "asked", "asked"),
        ] {
            let (of_form, of_url) =
                (ask(capabilities.clone(), elicit("a")).await, ask(capabilities.clone(), address()).await);
            assert!(of_form.contains(form) && of_url.contains(url), "{capabilities}: {of_form}; {of_url}");
        }
    }

    #[tokio::test]
    async fn a_client_that_cannot_be_asked_is_not_asked() {
        let mut run = asking(ClientCapabilities::default());
        let Step::Finished(reply) = run.advance(&CancellationToken::new()).await else { panic!("nothing to ask") };
        assert!(reply.text.contains("does not support elicitation"), "{}", reply.text);
    }
}
