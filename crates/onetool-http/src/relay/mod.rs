//! Requests that only one of several servers can answer, which a load balancer sent to another: a client's answers to
//! questions of a run, and the cancellation of a run or a call.
//!
//! Such a request travels through the shared state, as a *letter*: a document that the server concerned takes, once, by
//! removing it, and answers with another. Servers look for letters only while something of theirs waits for an answer
//! or takes long, so there is no cost otherwise. The requester's identity travels along; the bearer token does not.

mod letters;
mod subject;

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{Method, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use chrono::Utc;
use onetool_state::StateError;
use onetool_state::interface::{Change, Collection, Cursor, Documents, Effort, Expect, Key};
use onetool_state::runs::RunStoreError;
use parking_lot::{Mutex, RwLock};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

pub(crate) use subject::{Subject, call_name, question_id, question_number};

use crate::{ApiError, Identity, Service, outdated};
use letters::{Answer, Letter, REPLIES, Reply, letter};

const LETTERS: Collection = Collection::named("letters");
/// Maximum size of a body; longer ones are not answers to questions.
const MAX_BODY: usize = 1 << 20;
/// Poll intervals for letters while something waits for one, and for the answer to one's own letter.
const LOOK: Duration = Duration::from_millis(100);
const LOOK_FOR_REPLY: Duration = Duration::from_millis(30);
/// A letter that is not taken within this time concerns no server.
const TAKEN_WITHIN: Duration = Duration::from_secs(2);
/// Heartbeat interval of a server that is answering a letter.
const BEAT: Duration = Duration::from_secs(4);
/// A server that is silent for this long after taking a letter has ended.
const SILENCE: Duration = Duration::from_secs(15);
/// Maximum number of notifications in transit whose senders do not wait.
const MAX_TOLD: usize = 64;
/// Age at which letters and answers that nobody took are removed.
const OLD: chrono::TimeDelta = chrono::TimeDelta::minutes(30);
const SWEEP: Duration = Duration::from_mins(10);

/// What this server waits for, whose answers other servers may receive.
pub(crate) trait Waiting: Send + Sync {
    /// Whether the subject is on this server and accessible to `who`.
    fn has(&self, subject: &Subject, who: &Identity) -> bool;

    /// Whether anything waits for an answer.
    fn is_waiting(&self) -> bool;
}

/// A part of this server that answers letters.
pub(crate) struct Room {
    pub(crate) waiting: Box<dyn Waiting>,
    /// Handles requests whose identity is known.
    pub(crate) router: Router,
}

/// Forwards requests to other servers, and answers theirs.
pub(crate) struct Relay {
    service: Arc<dyn Service>,
    rooms: RwLock<Vec<Arc<Room>>>,
    cursor: Mutex<Cursor>,
    /// Limits letters whose senders do not wait for the answer.
    told: Arc<Semaphore>,
}

async fn pass(State(relay): State<Arc<Relay>>, request: Request, next: Next) -> Response {
    let length = request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    let is_small = length.is_some_and(|length: usize| length <= MAX_BODY);
    if request.method() != Method::POST || !is_small || !relay.is_shared() {
        return next.run(request).await;
    }
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, MAX_BODY).await else {
        return ApiError::invalid("the body could not be read").into_response();
    };
    let subject = Subject::of(&parts.headers, &body);
    let who = Identity::of(&parts.extensions);
    let subject = subject.filter(|subject| relay.room(subject, &who).is_none());
    match subject {
        Some(subject @ Subject::Call(_)) => relay.tell(subject, &parts, &body).await,
        Some(subject) => {
            if let Some(letter) = letter(&parts, &body)
                && let Ok(Some(response)) = relay.post(&subject, letter).await
            {
                return response;
            }
        }
        None => {}
    }
    next.run(Request::from_parts(parts, Body::from(body))).await
}

/// Polls for letters while something waits for one.
async fn watch(relay: Weak<Relay>, stop: CancellationToken) {
    let mut swept = Instant::now();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(LOOK) => {}
        }
        let Some(relay) = relay.upgrade() else { return };
        if !relay.is_shared() {
            continue;
        }
        let is_waiting = relay.rooms.read().iter().any(|room| room.waiting.is_waiting());
        if is_waiting && let Err(error) = relay.look().await {
            tracing::debug!(%error, "letters could not be looked for");
        }
        if swept.elapsed() >= SWEEP {
            swept = Instant::now();
            let _ = outdated::remove(&*relay.documents(), LETTERS, OLD).await;
        }
    }
}

impl Relay {
    /// Answers letters until `stop`.
    pub(crate) fn start(service: &Arc<dyn Service>, stop: &CancellationToken) -> Arc<Self> {
        let relay = Arc::new(Self {
            service: service.clone(),
            rooms: RwLock::default(),
            cursor: Mutex::new(Cursor::START),
            told: Arc::new(Semaphore::new(MAX_TOLD)),
        });
        crate::task::spawn(watch(Arc::downgrade(&relay), stop.clone()));
        relay
    }

    /// Registers a part of this server that answers letters.
    pub(crate) fn add(&self, room: Room) {
        self.rooms.write().push(Arc::new(room));
    }

    /// Wraps the MCP router so that a message that belongs to another server is answered there.
    pub(crate) fn relayed(self: &Arc<Self>, router: Router) -> Router {
        router.layer(middleware::from_fn_with_state(self.clone(), pass))
    }

    /// Lets the server that has the subject answer a request without a body. `None` if none has it.
    pub(crate) async fn forward(&self, subject: &Subject, parts: &Parts) -> Result<Option<Response>, ApiError> {
        let Some(letter) = letter(parts, &Bytes::new()).filter(|_| self.is_shared()) else { return Ok(None) };
        self.post(subject, letter).await.map_err(|error| RunStoreError::from(error).into())
    }

    fn room(&self, subject: &Subject, who: &Identity) -> Option<Arc<Room>> {
        self.rooms.read().iter().find(|room| room.waiting.has(subject, who)).cloned()
    }

    fn is_shared(&self) -> bool {
        self.service.served().state.is_shared()
    }

    fn documents(&self) -> Arc<dyn Documents> {
        self.service.served().state.documents()
    }

    /// Forwards a notification to another server, if one is concerned, without waiting for it.
    async fn tell(self: &Arc<Self>, subject: Subject, parts: &Parts, body: &Bytes) {
        let Some(letter) = letter(parts, body) else { return };
        let relay = self.clone();
        match self.told.clone().try_acquire_owned() {
            Ok(permit) => drop(crate::task::spawn(async move {
                let _ = relay.post(&subject, letter).await;
                drop(permit);
            })),
            Err(_) => drop(relay.post(&subject, letter).await),
        }
    }

    /// Lets another server answer a request. `None` if none is concerned.
    async fn post(&self, subject: &Subject, (id, letter): (String, Letter)) -> Result<Option<Response>, StateError> {
        let documents = self.documents();
        let key: Key = format!("{}/{id}", subject.folder()).parse()?;
        let content = serde_json::to_vec(&letter).map_err(|error| StateError::Invalid(error.to_string()))?;
        let revision = documents.put(LETTERS, &key, &content, &Expect::Absent.into()).await?;
        let reply: Key = format!("{REPLIES}/{id}").parse()?;
        let (mut beat, mut heard) = (None, Instant::now());
        loop {
            tokio::time::sleep(LOOK_FOR_REPLY).await;
            if let Ok(Some(found)) = documents.get(LETTERS, &reply).await
                && let Ok(found) = serde_json::from_slice::<Reply>(&found.content)
            {
                if let Some(answer) = found.answer {
                    let _ = documents.delete(LETTERS, &reply, &Expect::Anything.into()).await;
                    return Ok(Some(answer.into_response()));
                }
                if beat != Some(found.beat) {
                    (beat, heard) = (Some(found.beat), Instant::now());
                }
            }
            if beat.is_none() && heard.elapsed() >= TAKEN_WITHIN {
                match documents.delete(LETTERS, &key, &Expect::Revision(revision.clone()).into()).await {
                    // Another server is taking it right now.
                    Err(StateError::Conflict(_)) => beat = Some(0),
                    Ok(()) => return Ok(None),
                    Err(error) => return Err(error),
                }
            }
            if heard.elapsed() >= SILENCE {
                let message = "the server that executed the run has ended";
                let hint = match subject {
                    Subject::RestRun(_) | Subject::Activity(_) => "its run has ended with it",
                    _ => "call again without the answers",
                };
                return Ok(Some(ApiError::busy(message).with_hint(hint).into_response()));
            }
        }
    }

    /// Takes the letters for this server.
    async fn look(self: &Arc<Self>) -> Result<(), StateError> {
        let documents = self.documents();
        let since = *self.cursor.lock();
        let changes = documents.changes(LETTERS, since, Effort::Usual).await?;
        *self.cursor.lock() = changes.cursor;
        for change in changes.changes {
            let Change::Put(document) = change else { continue };
            let Some(subject) = document.key.folder().and_then(Subject::in_folder) else { continue };
            let Ok(letter) = serde_json::from_slice::<Letter>(&document.content) else { continue };
            let Some(room) = self.room(&subject, &letter.identity()) else { continue };
            let expect = Expect::Revision(document.revision);
            // Exactly one server answers: the one that removes it.
            if documents.delete(LETTERS, &document.key, &expect.into()).await.is_ok() {
                let relay = self.clone();
                crate::task::spawn(async move { relay.answer(&room, letter).await });
            }
        }
        Ok(())
    }

    async fn answer(&self, room: &Room, letter: Letter) {
        let Ok(reply) = letter.reply.parse::<Key>() else { return };
        let Some(request) = letter.into_request() else { return };
        let documents = self.documents();
        let answering = async {
            let response = room.router.clone().oneshot(request).await.unwrap_or_else(|never| match never {});
            Answer::of(response).await
        };
        tokio::pin!(answering);
        let mut beat = 1;
        loop {
            write(&*documents, &reply, beat, None).await;
            beat += 1;
            tokio::select! {
                answer = &mut answering => return write(&*documents, &reply, beat, Some(answer)).await,
                () = tokio::time::sleep(BEAT) => {}
            }
        }
    }
}

async fn write(documents: &dyn Documents, reply: &Key, beat: u64, answer: Option<Answer>) {
    let content = serde_json::to_vec(&Reply { at: Utc::now(), beat, answer }).unwrap_or_default();
    if let Err(error) = documents.put(LETTERS, reply, &content, &Expect::Anything.into()).await {
        tracing::warn!(%error, "an answer for another server could not be passed on");
    }
}
