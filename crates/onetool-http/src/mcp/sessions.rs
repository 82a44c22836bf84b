//! MCP sessions over HTTP: their number, their owners and their end.
//!
//! A session that was idle for long, or that made room for another, ends without its client noticing: what the client
//! sent in `initialize` is remembered, and its next request restores the session, also after a restart
//! ([`super::archive`]). Only a client that deletes its session gets "not found" from then on.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use axum::http::{Extensions, HeaderMap, HeaderValue};
use futures_util::stream::{Stream, StreamExt as _};
use parking_lot::Mutex;
use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, NumberOrString, RequestId, ServerJsonRpcMessage};
use rmcp::transport::WorkerTransport;
use rmcp::transport::streamable_http_server::session::local::{
    LocalSessionManager, LocalSessionManagerError, LocalSessionWorker,
};
use rmcp::transport::streamable_http_server::session::{
    RestoreOutcome, ServerSseMessage, SessionId, SessionManager, SessionState, SessionStore, SessionStoreError,
};

use super::archive::{self, Archive};
use super::events::Events;
use super::http::SESSION_HEADER;
use super::tasks_2025;
use crate::PeerAddress;
use crate::access::Principal;
use crate::relay::{question_id, question_number};

/// Maximum number of ended sessions that are remembered.
const MAX_REMEMBERED: usize = 4096;
/// Maximum number and age of unanswered questions to clients that are remembered.
const MAX_QUESTIONS: usize = 4096;
const QUESTION_AGE: Duration = Duration::from_hours(1);
/// Poll interval for the end of a session at another server.
const CHECK_EVERY: Duration = Duration::from_secs(5);
/// The library's name for "from the beginning" of a session's own stream, on which nothing was sent yet.
const FROM_THE_START: &str = "0";
/// Follows a session's id in the ids of events on its own stream.
const OWN_STREAM: &str = ":common/";

tokio::task_local! {
    /// The owner of the request being served.
    pub(super) static OWNER: Owner;
}

/// Who opened a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) principal: Principal,
    pub(super) address: Option<IpAddr>,
}

impl Owner {
    /// Returns the owner of a request.
    pub(super) fn of(extensions: &Extensions) -> Self {
        Self {
            principal: extensions.get::<Principal>().copied().unwrap_or(Principal::Anyone),
            address: extensions.get::<PeerAddress>().map(|address| address.0.ip()),
        }
    }
}

/// Limits for the number of sessions and their idle time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SessionLimits {
    pub(super) idle: Duration,
    pub(super) all: usize,
    pub(super) per_client: usize,
}

/// All sessions.
pub(super) struct Sessions {
    inner: LocalSessionManager,
    events: Arc<Events>,
    records: Arc<Records>,
    limits: Box<dyn Fn() -> SessionLimits + Send + Sync>,
}

pub(super) struct Records {
    open: Mutex<HashMap<SessionId, Record>>,
    remembered: Mutex<HashMap<String, Remembered>>,
    /// Stores sessions beyond this process.
    archive: Option<Arc<Archive>>,
    /// Questions that clients have not answered, where the answers may arrive at other servers.
    questions: Mutex<HashMap<String, Instant>>,
}

struct Record {
    owner: Owner,
    last_used: Instant,
    /// Number of streams that the client has open.
    streams: usize,
}

struct Remembered {
    state: SessionState,
    principal: Principal,
    last_used: Instant,
    /// The sealed id that its client knows, if the session fits into it.
    sealed: Option<HeaderValue>,
    /// When its end at another server was last checked.
    checked: Instant,
}

/// No session can make room, because all have open streams.
#[derive(Debug, thiserror::Error)]
#[error("{count} sessions are in use; end one, or try again later")]
pub(super) struct SessionsFull {
    count: usize,
}

impl Sessions {
    pub(super) fn new(
        events: Arc<Events>,
        limits: impl Fn() -> SessionLimits + Send + Sync + 'static,
        archive: Option<Arc<Archive>>,
    ) -> Self {
        let mut inner = LocalSessionManager::default().with_event_store(events.clone());
        // Sessions end by our rules: the library's timer would cut off long runs.
        inner.session_config.keep_alive = None;
        let (open, remembered, questions) = (Mutex::default(), Mutex::default(), Mutex::default());
        let records = Records { open, remembered, archive, questions };
        Self { inner, events, records: Arc::new(records), limits: Box::new(limits) }
    }

    /// Returns the records of ended sessions.
    pub(super) fn remembered(&self) -> Arc<Records> {
        self.records.clone()
    }

    /// Returns the number of open sessions.
    pub(super) fn count(&self) -> usize {
        self.records.open.lock().len()
    }

    /// Replaces a sealed id with the session's own id. A session unknown here is restored from it.
    pub(super) async fn unseal(&self, headers: &mut HeaderMap, principal: Principal) {
        let Some(given) = headers.get(SESSION_HEADER).and_then(|id| id.to_str().ok()).map(str::to_owned) else {
            return;
        };
        let own = archive::own_id(&given);
        let Some(archive) = self.records.archive.as_ref().filter(|_| own != given) else { return };
        let is_known = self.is_known(own);
        if !is_known && let Some(state) = archive.open(&given, principal).await {
            self.records.remember(own, state, principal, HeaderValue::from_str(&given).ok());
        }
        if is_known && self.records.is_due(own) && archive.is_ended(own, principal).await {
            self.end(&own.into()).await;
            self.records.remembered.lock().remove(own);
        }
        if let Ok(own) = HeaderValue::from_str(own) {
            headers.insert(SESSION_HEADER, own);
        }
    }

    /// Replaces a session's own id with its sealed id, for an answer that names its session.
    pub(super) fn seal(&self, headers: &mut HeaderMap) {
        let Some(id) = headers.get(SESSION_HEADER).and_then(|id| id.to_str().ok()) else { return };
        let sealed = self.records.remembered.lock().get(id).and_then(|known| known.sealed.clone());
        if let Some(sealed) = sealed {
            headers.insert(SESSION_HEADER, sealed);
        }
    }

    /// Whether another server may hold the events that a client missed, because they are not kept here.
    pub(super) fn may_be_elsewhere(&self, last_event_id: &str) -> bool {
        self.records.node().is_some()
            && last_event_id != FROM_THE_START
            && !last_event_id.contains(OWN_STREAM)
            && !self.events.keeps(last_event_id)
    }

    /// Whether questions with this mark were asked by this server.
    pub(super) fn is_node(&self, node: &str) -> bool {
        self.records.node().is_some_and(|own| own.starts_with(node))
    }

    /// Whether a client of any session has unanswered questions.
    pub(super) fn is_asking(&self) -> bool {
        let mut questions = self.records.questions.lock();
        questions.retain(|_, asked| asked.elapsed() < QUESTION_AGE);
        !questions.is_empty()
    }

    /// Whether a request of `principal` may use this session. An unknown session has no owner.
    pub(super) fn may_use(&self, id: &str, principal: Principal) -> bool {
        let owner = self.records.open.lock().get(id).map(|record| record.owner.principal);
        let owner = owner.or_else(|| self.records.remembered.lock().get(id).map(|remembered| remembered.principal));
        owner.is_none_or(|owner| owner == principal)
    }

    pub(super) fn is_open(&self, id: &str) -> bool {
        self.records.open.lock().contains_key(id)
    }

    /// Whether the session is open, or would be restored by its next request.
    pub(super) fn is_known(&self, id: &str) -> bool {
        self.is_open(id) || self.records.remembered.lock().contains_key(id)
    }

    /// Ends the sessions that have been idle longest, until `owner` may open another.
    pub(super) async fn make_room(&self, owner: Owner) -> Result<(), SessionsFull> {
        loop {
            let victim = {
                let limits = (self.limits)();
                let open = self.records.open.lock();
                let own = open.values().filter(|record| record.owner == owner).count();
                if own < limits.per_client && open.len() < limits.all {
                    return Ok(());
                }
                let is_candidate = |record: &Record| own < limits.per_client || record.owner == owner;
                open.iter()
                    .filter(|(_, record)| record.streams == 0 && is_candidate(record))
                    .min_by_key(|(_, record)| record.last_used)
                    .map(|(id, _)| id.clone())
                    .ok_or(SessionsFull { count: if own < limits.per_client { open.len() } else { own } })?
            };
            self.end(&victim).await;
        }
    }

    /// Ends sessions that have been idle too long.
    pub(super) async fn end_idle(&self) {
        let limit = (self.limits)().idle;
        let idle: Vec<SessionId> = {
            let open = self.records.open.lock();
            let is_idle = |record: &Record| record.streams == 0 && record.last_used.elapsed() >= limit;
            open.iter().filter(|(_, record)| is_idle(record)).map(|(id, _)| id.clone()).collect()
        };
        for id in idle {
            self.end(&id).await;
            tracing::info!("an idle session ended");
        }
    }

    async fn end(&self, id: &SessionId) {
        if let Err(error) = self.close_session(id).await {
            tracing::debug!(%error, "a session did not end cleanly");
        }
    }

    fn begin(&self, id: SessionId) {
        let unknown = Owner { principal: Principal::Anyone, address: None };
        let owner = OWNER.try_with(|owner| *owner).unwrap_or(unknown);
        self.records.open.lock().insert(id, Record { owner, last_used: Instant::now(), streams: 0 });
    }

    fn in_use(&self, id: &SessionId) -> InUse {
        self.records.adjust(id, |record| record.streams += 1);
        InUse { records: self.records.clone(), id: id.clone() }
    }
}

impl Records {
    fn adjust(&self, id: &SessionId, change: impl FnOnce(&mut Record)) {
        if let Some(record) = self.open.lock().get_mut(id) {
            record.last_used = Instant::now();
            change(record);
        }
    }
}

/// A stream of a session; while it is open, the session is not idle.
struct InUse {
    records: Arc<Records>,
    id: SessionId,
}

impl Drop for InUse {
    fn drop(&mut self) {
        self.records.adjust(&self.id, |record| record.streams = record.streams.saturating_sub(1));
    }
}

fn counted<S>(stream: S, in_use: InUse) -> impl Stream<Item = ServerSseMessage> + Send + Sync + 'static
where
    S: Stream<Item = ServerSseMessage> + Send + Sync + 'static,
{
    stream.map(move |event| in_use.records.marked(event))
}

impl SessionManager for Sessions {
    type Error = LocalSessionManagerError;
    type Transport = WorkerTransport<LocalSessionWorker>;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Self::Error> {
        let (id, transport) = self.inner.create_session().await?;
        self.begin(id.clone());
        Ok((id, transport))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Self::Error> {
        self.inner.initialize_session(id, message).await.map(tasks_2025::offered)
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Self::Error> {
        self.inner.has_session(id).await
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Self::Error> {
        self.records.open.lock().remove(id);
        self.inner.close_session(id).await
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let in_use = self.in_use(id);
        Ok(counted(self.inner.create_stream(id, message).await?, in_use))
    }

    async fn accept_message(&self, id: &SessionId, message: ClientJsonRpcMessage) -> Result<(), Self::Error> {
        self.records.adjust(id, |_| {});
        self.inner.accept_message(id, self.records.unmarked(message)).await
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let in_use = self.in_use(id);
        Ok(counted(self.inner.create_standalone_stream(id).await?, in_use))
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let in_use = self.in_use(id);
        let is_own = last_event_id.strip_prefix(&**id).is_some_and(|rest| rest.starts_with(OWN_STREAM));
        if last_event_id != FROM_THE_START {
            match self.inner.resume(id, last_event_id).await {
                Ok(stream) => return Ok(counted(stream.right_stream(), in_use)),
                Err(error) if !is_own => return Err(error),
                // The missed events are gone, or were kept by another server: the client receives only new ones.
                Err(_) => {}
            }
        }
        Ok(counted(self.inner.create_standalone_stream(id).await?.left_stream(), in_use))
    }

    async fn restore_session(&self, id: SessionId) -> Result<RestoreOutcome<Self::Transport>, Self::Error> {
        let outcome = self.inner.restore_session(id.clone()).await?;
        if matches!(outcome, RestoreOutcome::Restored(_)) {
            self.begin(id);
        }
        Ok(outcome)
    }
}

fn principal() -> Principal {
    OWNER.try_with(|owner| owner.principal).unwrap_or(Principal::Anyone)
}

impl Records {
    fn node(&self) -> Option<String> {
        self.archive.as_ref().and_then(|archive| archive.node())
    }

    /// Whether it is time to check a session's end at other servers.
    fn is_due(&self, id: &str) -> bool {
        if self.node().is_none() {
            return false;
        }
        let mut remembered = self.remembered.lock();
        let Some(session) = remembered.get_mut(id).filter(|session| session.checked.elapsed() >= CHECK_EVERY) else {
            return false;
        };
        session.checked = Instant::now();
        true
    }

    /// Adds this server's mark to a question, where there are several servers. Other messages are unchanged.
    fn marked(&self, mut event: ServerSseMessage) -> ServerSseMessage {
        let Some(JsonRpcMessage::Request(request)) = event.message.as_deref() else { return event };
        let (Some(node), NumberOrString::Number(number)) = (self.node(), &request.id) else { return event };
        let id = question_id(&node, *number);
        let mut request = request.clone();
        request.id = RequestId::String(id.as_str().into());
        let mut questions = self.questions.lock();
        if questions.len() < MAX_QUESTIONS {
            questions.insert(id, Instant::now());
        }
        event.message = Some(Arc::new(JsonRpcMessage::Request(request)));
        event
    }

    /// Removes the mark from an answer to such a question.
    fn unmarked(&self, mut message: ClientJsonRpcMessage) -> ClientJsonRpcMessage {
        let id = match &mut message {
            JsonRpcMessage::Response(response) => Some(&mut response.id),
            JsonRpcMessage::Error(error) => error.id.as_mut(),
            _ => None,
        };
        if let Some(id) = id
            && let NumberOrString::String(text) = &*id
            && let Some(number) = self.node().and_then(|node| question_number(&node, text))
        {
            self.questions.lock().remove(&**text);
            *id = RequestId::Number(number);
        }
        message
    }

    fn remember(&self, id: &str, state: SessionState, principal: Principal, sealed: Option<HeaderValue>) {
        let mut remembered = self.remembered.lock();
        if remembered.len() >= MAX_REMEMBERED {
            let oldest = remembered.iter().min_by_key(|(_, one)| one.last_used).map(|(id, _)| id.clone());
            oldest.map(|id| remembered.remove(&id));
        }
        let now = Instant::now();
        remembered.insert(id.to_owned(), Remembered { state, principal, last_used: now, sealed, checked: now });
    }
}

#[async_trait]
impl SessionStore for Records {
    async fn load(&self, id: &str) -> Result<Option<SessionState>, SessionStoreError> {
        if let Some(remembered) = self.remembered.lock().get_mut(id) {
            remembered.last_used = Instant::now();
            return Ok(Some(remembered.state.clone()));
        }
        let Some(archive) = &self.archive else { return Ok(None) };
        let kept = archive.read(id, principal()).await;
        if let Some(state) = &kept {
            self.remember(id, state.clone(), principal(), None);
        }
        Ok(kept)
    }

    async fn store(&self, id: &str, state: &SessionState) -> Result<(), SessionStoreError> {
        let mut sealed = None;
        if let Some(archive) = &self.archive {
            sealed = archive.seal(id, principal(), state).await.and_then(|id| HeaderValue::try_from(id).ok());
            if sealed.is_none() {
                archive.write(id, principal(), state.clone()).await;
            }
        }
        self.remember(id, state.clone(), principal(), sealed);
        Ok(())
    }

    async fn delete(&self, id: &str) -> Result<(), SessionStoreError> {
        self.remembered.lock().remove(id);
        if let Some(archive) = &self.archive {
            archive.end(id, principal()).await;
        }
        Ok(())
    }
}
