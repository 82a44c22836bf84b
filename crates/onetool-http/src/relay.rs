//! Requests that only one of several servers can answer: a client's answers to questions of a run, and its wish to cancel it,
//! which its load balancer sent to another server than the one that executes the run.
//!
//! Such a request travels through the shared state, as a *letter*: a document that whoever it concerns takes, once, by
//! removing it, and answers with another. Servers look for letters only while something of theirs waits for an answer or takes
//! long, so nothing of this costs anything otherwise. Whose request it is travels with it; its bearer token does not.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use chrono::{DateTime, Utc};
use onetool_state::StateError;
use onetool_state::interface::{Change, Collection, Cursor, Document, Documents, Effort, Expect, Key};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;
use uuid::Uuid;

use crate::mcp::SESSION_HEADER;
use crate::{ApiError, Identity, PeerAddress, Principal, Scope, Service};

const LETTERS: Collection = Collection::named("letters");
/// Where answers are.
const REPLIES: &str = "reply";
/// A longer body is not an answer to a question.
const MAX_BODY: usize = 1 << 20;
/// The longest answer that is passed on.
const MAX_REPLY: usize = 8 << 20;
/// How often a server looks for letters while something waits for one, and for the answer to its own.
const LOOK: Duration = Duration::from_millis(100);
const LOOK_FOR_REPLY: Duration = Duration::from_millis(30);
/// A letter that nobody takes within this time is for nobody.
const TAKEN_WITHIN: Duration = Duration::from_secs(2);
/// Whoever has taken a letter says this often that it is being answered.
const BEAT: Duration = Duration::from_secs(4);
/// Without a word for this long, the server that took it has ended.
const SILENCE: Duration = Duration::from_secs(15);
/// Notifications that are on their way at one time while nobody waits for them.
const MAX_TOLD: usize = 64;
/// Letters and answers that nobody took go after this.
const OLD: chrono::TimeDelta = chrono::TimeDelta::minutes(30);
const SWEEP: Duration = Duration::from_mins(10);
/// What of a request's head its answer depends on.
const CARRIED: &[&str] = &[
    "accept",
    "content-type",
    "idempotency-key",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
    "traceparent",
    "tracestate",
    "user-agent",
];

/// What a request is about that only one server has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Subject {
    /// A run that waits for its client to call again with answers.
    Round(Uuid),
    /// A background run, by its id.
    Run(String),
    /// A question that a server asked in a session.
    Question { node: String },
    /// A call in a session that its client cancels, by its name.
    Call(String),
}

impl Subject {
    /// What a message to `/mcp` is about, if it is one of those.
    fn of(headers: &HeaderMap, body: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        struct Message {
            method: Option<String>,
            id: Option<serde_json::Value>,
            params: Option<Params>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Params {
            request_state: Option<String>,
            task_id: Option<String>,
            request_id: Option<serde_json::Value>,
        }
        let has = |text: &[u8]| body.windows(text.len()).any(|window| window == text);
        let hints = [b"\"requestState\"", b"tasks/update".as_slice(), QUESTION.as_bytes(), CANCELLED.as_bytes()];
        if !hints.into_iter().any(has) {
            return None;
        }
        let message: Message = serde_json::from_slice(body).ok()?;
        let params = message.params.as_ref();
        match message.method.as_deref() {
            None => message.id?.as_str().and_then(question_node).map(|node| Self::Question { node: node.to_owned() }),
            Some("tasks/update") => params?.task_id.clone().filter(|id| Key::is_part(id)).map(Self::Run),
            Some(CANCELLED) => {
                let session = headers.get(SESSION_HEADER)?.to_str().ok()?;
                Some(Self::Call(call_name(session, params?.request_id.as_ref()?)))
            }
            Some(_) => {
                let state = URL_SAFE_NO_PAD.decode(params?.request_state.as_ref()?).ok()?;
                state.first_chunk::<16>().map(|id| Self::Round(Uuid::from_bytes(*id)))
            }
        }
    }

    fn folder(&self) -> String {
        match self {
            Self::Round(id) => format!("round-{}", id.simple()),
            Self::Run(id) => format!("run-{id}"),
            Self::Question { node } => format!("node-{node}"),
            Self::Call(name) => format!("call-{name}"),
        }
    }

    fn in_folder(folder: &str) -> Option<Self> {
        let (kind, name) = folder.split_once('-')?;
        match kind {
            "round" => name.parse().ok().map(Self::Round),
            "run" => Some(Self::Run(name.to_owned())),
            "node" => Some(Self::Question { node: name.to_owned() }),
            "call" => Some(Self::Call(name.to_owned())),
            _ => None,
        }
    }
}

/// The notification with which a client cancels a call.
const CANCELLED: &str = "notifications/cancelled";

/// The name of a call among all servers. Nobody learns a session's id from it.
pub(crate) fn call_name(session: &str, request: &serde_json::Value) -> String {
    let mut hasher = blake3::Hasher::new_derive_key("onetool call of a session");
    hasher.update(crate::mcp::own_id(session).as_bytes());
    hasher.update(&[0]);
    hasher.update(request.to_string().as_bytes());
    hasher.finalize().to_hex()[..32].to_owned()
}

/// Ids of questions that a server asks in a session begin so, where several servers share their state: an answer that
/// reaches another one says whom it is for, and is never taken for the answer to another question.
const QUESTION: &str = "onetool-";
const NODE_DIGITS: usize = 12;

/// The id of a question, as the client sees it.
pub(crate) fn question_id(node: &str, number: i64) -> String {
    format!("{QUESTION}{}-{number}", short(node))
}

/// The number of a question of this server.
pub(crate) fn question_number(node: &str, id: &str) -> Option<i64> {
    let (of, number) = id.strip_prefix(QUESTION)?.split_once('-')?;
    (of == short(node)).then(|| number.parse().ok()).flatten()
}

fn question_node(id: &str) -> Option<&str> {
    let (node, number) = id.strip_prefix(QUESTION)?.split_once('-')?;
    let is_node = node.len() == NODE_DIGITS && node.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_node && number.parse::<i64>().is_ok()).then_some(node)
}

fn short(node: &str) -> &str {
    node.get(..NODE_DIGITS).unwrap_or(node)
}

/// What this server has that others may get answers for.
pub(crate) trait Waiting: Send + Sync {
    /// Whether this is here.
    fn has(&self, subject: &Subject) -> bool;

    /// Whether anything waits for an answer.
    fn is_waiting(&self) -> bool;
}

/// A request on its way.
#[derive(Serialize, Deserialize)]
struct Letter {
    at: DateTime<Utc>,
    /// Where the answer is expected.
    reply: String,
    principal: Option<u64>,
    name: Option<String>,
    groups: Vec<String>,
    scopes: Vec<String>,
    address: Option<std::net::SocketAddr>,
    headers: Vec<(String, String)>,
    body: String,
}

/// What became of it.
#[derive(Serialize, Deserialize)]
struct Reply {
    at: DateTime<Utc>,
    /// Grows as long as it is being answered.
    beat: u64,
    answer: Option<Answer>,
}

#[derive(Serialize, Deserialize)]
struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    body: String,
}

struct Relay {
    service: Arc<dyn Service>,
    waiting: Box<dyn Waiting>,
    inner: Router,
    cursor: Mutex<Cursor>,
    /// Bounds letters whose senders do not wait for the answer.
    told: Arc<Semaphore>,
}

/// The same router, but a request that belongs to another server is answered by that one.
pub(crate) fn relayed(
    router: Router,
    service: &Arc<dyn Service>,
    waiting: Box<dyn Waiting>,
    stop: &CancellationToken,
) -> Router {
    let (service, inner, cursor) = (service.clone(), router.clone(), Mutex::new(Cursor::START));
    let relay = Arc::new(Relay { service, waiting, inner, cursor, told: Arc::new(Semaphore::new(MAX_TOLD)) });
    crate::task::spawn(watch(Arc::downgrade(&relay), stop.clone()));
    router.layer(middleware::from_fn_with_state(relay, pass))
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
    let subject = Subject::of(&parts.headers, &body).filter(|subject| !relay.waiting.has(subject));
    match subject {
        Some(subject @ Subject::Call(_)) => relay.tell(subject, &parts, &body).await,
        Some(subject) => {
            if let Some(response) = relay.send(&subject, &parts, &body).await {
                return response;
            }
        }
        None => {}
    }
    next.run(Request::from_parts(parts, Body::from(body))).await
}

/// Looks for letters while something waits for one.
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
        if relay.waiting.is_waiting()
            && let Err(error) = relay.look().await
        {
            tracing::debug!(%error, "letters could not be looked for");
        }
        if swept.elapsed() >= SWEEP {
            swept = Instant::now();
            let _ = relay.sweep().await;
        }
    }
}

impl Relay {
    fn is_shared(&self) -> bool {
        self.service.served().state.is_shared()
    }

    fn documents(&self) -> Arc<dyn Documents> {
        self.service.served().state.documents()
    }

    /// Has another server hear of a notification, if one is concerned. Whoever sent it does not wait for that.
    async fn tell(self: &Arc<Self>, subject: Subject, parts: &Parts, body: &Bytes) {
        let Some(letter) = letter(parts, body) else { return };
        let relay = self.clone();
        match self.told.clone().try_acquire_owned() {
            Ok(permit) => drop(crate::task::spawn(async move {
                relay.post(&subject, letter).await;
                drop(permit);
            })),
            Err(_) => drop(relay.post(&subject, letter).await),
        }
    }

    /// Has another server answer a request. `None` where none is concerned, or the state is away.
    async fn send(&self, subject: &Subject, parts: &Parts, body: &Bytes) -> Option<Response> {
        self.post(subject, letter(parts, body)?).await
    }

    async fn post(&self, subject: &Subject, (id, letter): (String, Letter)) -> Option<Response> {
        let documents = self.documents();
        let key: Key = format!("{}/{id}", subject.folder()).parse().ok()?;
        let content = serde_json::to_vec(&letter).ok()?;
        let revision = documents.put(LETTERS, &key, &content, &Expect::Absent.into()).await.ok()?;
        let reply: Key = format!("{REPLIES}/{id}").parse().ok()?;
        let (mut beat, mut heard) = (None, Instant::now());
        loop {
            tokio::time::sleep(LOOK_FOR_REPLY).await;
            if let Ok(Some(found)) = documents.get(LETTERS, &reply).await
                && let Ok(found) = serde_json::from_slice::<Reply>(&found.content)
            {
                if let Some(answer) = found.answer {
                    let _ = documents.delete(LETTERS, &reply, &Expect::Anything.into()).await;
                    return Some(answer.into_response());
                }
                if beat != Some(found.beat) {
                    (beat, heard) = (Some(found.beat), Instant::now());
                }
            }
            if beat.is_none() && heard.elapsed() >= TAKEN_WITHIN {
                match documents.delete(LETTERS, &key, &Expect::Revision(revision.clone()).into()).await {
                    // Somebody takes it just now.
                    Err(StateError::Conflict(_)) => beat = Some(0),
                    _ => return None,
                }
            }
            if heard.elapsed() >= SILENCE {
                let message = "the server that executed the run has ended";
                return Some(ApiError::busy(message).with_hint("call again without the answers").into_response());
            }
        }
    }

    /// Takes the letters that are for this server.
    async fn look(self: &Arc<Self>) -> Result<(), StateError> {
        let documents = self.documents();
        let since = *self.cursor.lock();
        let changes = documents.changes(LETTERS, since, Effort::Usual).await?;
        *self.cursor.lock() = changes.cursor;
        for change in changes.changes {
            let Change::Put(document) = change else { continue };
            let subject = document.key.folder().and_then(Subject::in_folder);
            if subject.is_some_and(|subject| self.waiting.has(&subject)) {
                let expect = Expect::Revision(document.revision.clone());
                // Once: whoever removes it answers it.
                if documents.delete(LETTERS, &document.key, &expect.into()).await.is_ok() {
                    let relay = self.clone();
                    crate::task::spawn(async move { relay.answer(&document).await });
                }
            }
        }
        Ok(())
    }

    async fn answer(&self, document: &Document) {
        let Ok(letter) = serde_json::from_slice::<Letter>(&document.content) else { return };
        let Ok(reply) = letter.reply.parse::<Key>() else { return };
        let Some(request) = letter.into_request() else { return };
        let documents = self.documents();
        let answering = async {
            let response = self.inner.clone().oneshot(request).await.unwrap_or_else(|never| match never {});
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

    /// Removes what nobody took.
    async fn sweep(&self) -> Result<(), StateError> {
        #[derive(Deserialize)]
        struct Dated {
            at: DateTime<Utc>,
        }
        let documents = self.documents();
        for change in documents.changes(LETTERS, Cursor::START, Effort::Usual).await?.changes {
            let Change::Put(document) = change else { continue };
            let at = serde_json::from_slice::<Dated>(&document.content).map(|dated| dated.at);
            if at.is_ok_and(|at| Utc::now() - at < OLD) {
                continue;
            }
            documents.delete(LETTERS, &document.key, &Expect::Revision(document.revision).into()).await?;
        }
        Ok(())
    }
}

async fn write(documents: &dyn Documents, reply: &Key, beat: u64, answer: Option<Answer>) {
    let content = serde_json::to_vec(&Reply { at: Utc::now(), beat, answer }).unwrap_or_default();
    if let Err(error) = documents.put(LETTERS, reply, &content, &Expect::Anything.into()).await {
        tracing::warn!(%error, "an answer for another server could not be passed on");
    }
}

fn carried(headers: &HeaderMap) -> Vec<(String, String)> {
    let text = |name: &&str| Some(((*name).to_owned(), headers.get(*name)?.to_str().ok()?.to_owned()));
    CARRIED.iter().filter_map(text).collect()
}

fn letter(parts: &Parts, body: &Bytes) -> Option<(String, Letter)> {
    let id = Uuid::new_v4().simple().to_string();
    let identity = Identity::of(&parts.extensions);
    let letter = Letter {
        at: Utc::now(),
        reply: format!("{REPLIES}/{id}"),
        principal: match identity.principal {
            Principal::Anyone => None,
            Principal::Token(fingerprint) => Some(fingerprint),
        },
        name: identity.name.clone(),
        groups: identity.groups.clone(),
        scopes: identity.scopes.iter().map(|scope| scope.name().to_owned()).collect(),
        address: parts.extensions.get::<PeerAddress>().map(|address| address.0),
        headers: carried(&parts.headers),
        body: std::str::from_utf8(body).ok()?.to_owned(),
    };
    Some((id, letter))
}

impl Letter {
    fn into_request(self) -> Option<Request> {
        let mut request = Request::post("/mcp").header(header::HOST, "localhost").body(Body::from(self.body)).ok()?;
        for (name, value) in self.headers {
            request.headers_mut().insert(name.parse::<HeaderName>().ok()?, HeaderValue::try_from(value).ok()?);
        }
        let identity = Identity {
            principal: self.principal.map_or(Principal::Anyone, Principal::Token),
            name: self.name,
            groups: self.groups,
            scopes: self.scopes.iter().filter_map(|scope| Scope::named(scope)).collect(),
        };
        if let Some(address) = self.address {
            request.extensions_mut().insert(PeerAddress(address));
        }
        request.extensions_mut().insert(identity.principal);
        request.extensions_mut().insert(Arc::new(identity));
        Some(request)
    }
}

impl Answer {
    async fn of(response: Response) -> Self {
        let (parts, body) = response.into_parts();
        let kept = |name: HeaderName| {
            let value = parts.headers.get(&name)?.to_str().ok()?.to_owned();
            Some((name.to_string(), value))
        };
        let headers = [header::CONTENT_TYPE, header::RETRY_AFTER].into_iter().filter_map(kept).collect();
        match to_bytes(body, MAX_REPLY).await {
            Ok(body) => Self { status: parts.status.as_u16(), headers, body: STANDARD.encode(&body) },
            Err(_) => Self { status: StatusCode::BAD_GATEWAY.as_u16(), headers: Vec::new(), body: String::new() },
        }
    }

    fn into_response(self) -> Response {
        let body = STANDARD.decode(self.body).unwrap_or_default();
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = StatusCode::from_u16(self.status).unwrap_or(StatusCode::BAD_GATEWAY);
        for (name, value) in self.headers {
            if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), HeaderValue::try_from(value)) {
                response.headers_mut().insert(name, value);
            }
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn subject(body: serde_json::Value) -> Option<Subject> {
        let mut headers = HeaderMap::new();
        headers.insert(SESSION_HEADER, HeaderValue::from_static("s1.sealed"));
        Subject::of(&headers, body.to_string().as_bytes())
    }

    #[test]
    fn only_answers_to_questions_are_somebody_elses() {
        let id = Uuid::new_v4();
        let state = URL_SAFE_NO_PAD.encode([id.as_bytes().as_slice(), &[7; 32]].concat());
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": "run", "arguments": {"command": "1"}, "requestState": state}});
        assert_eq!(subject(call), Some(Subject::Round(id)));
        let update = json!({"id": 1, "method": "tasks/update", "params": {"taskId": "abc", "inputResponses": {}}});
        assert_eq!(subject(update), Some(Subject::Run("abc".to_owned())));
        let node = "0123456789abcdef0123456789abcdef";
        let answer = json!({"jsonrpc": "2.0", "id": question_id(node, 3), "result": {"action": "accept"}});
        assert_eq!(subject(answer), Some(Subject::Question { node: "0123456789ab".to_owned() }));
        assert_eq!(question_number(node, &question_id(node, 3)), Some(3));
        assert_eq!(question_number("ffffffffffffffff", &question_id(node, 3)), None);
        let cancel = json!({"method": "notifications/cancelled", "params": {"requestId": 9, "reason": "x"}});
        assert_eq!(subject(cancel), Some(Subject::Call(call_name("s1", &json!(9)))));
        assert_ne!(call_name("s1", &json!(9)), call_name("s1", &json!("9")));
        for other in [
            json!({"method": "notifications/cancelled", "params": {}}),
            json!({"id": 1, "method": "tools/call", "params": {"arguments": {"command": "'requestState'"}}}),
            json!({"id": 1, "method": "tools/call", "params": {"requestState": "?"}}),
            json!({"id": 1, "method": "tasks/update", "params": {"taskId": "../x"}}),
            json!({"id": 7, "result": {"text": "onetool-0123456789ab-1"}}),
            json!({"id": "onetool-x-1", "result": {}}),
            json!([]),
        ] {
            assert_eq!(subject(other.clone()), None, "{other}");
        }
        for subject in [
            Subject::Round(id),
            Subject::Run("a-b".to_owned()),
            Subject::Question { node: "n".to_owned() },
            Subject::Call("c".to_owned()),
        ] {
            assert_eq!(Subject::in_folder(&subject.folder()), Some(subject));
        }
    }

    #[test]
    fn a_letter_says_whose_it_is_and_holds_no_token() {
        let mut request = Request::post("/mcp")
            .header("authorization", "Bearer secret-secret")
            .header("mcp-session-id", "s")
            .body(Body::empty())
            .unwrap();
        let ana = Identity {
            principal: Principal::Token(7),
            name: Some("ana".to_owned()),
            groups: vec!["team".to_owned()],
            scopes: vec![Scope::Invoke],
        };
        request.extensions_mut().insert(Arc::new(ana.clone()));
        let (parts, _) = request.into_parts();
        let (_, letter) = letter(&parts, &Bytes::from_static(b"{}")).unwrap();
        let text = serde_json::to_string(&letter).unwrap();
        assert!(!text.contains("secret"), "{text}");
        let request = serde_json::from_str::<Letter>(&text).unwrap().into_request().unwrap();
        assert_eq!(*Identity::of(request.extensions()), ana);
        assert_eq!(request.extensions().get::<Principal>(), Some(&Principal::Token(7)));
        assert_eq!(request.headers()["mcp-session-id"], "s");
    }
}
