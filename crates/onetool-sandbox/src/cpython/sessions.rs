//! Sessions: programs that share their names because one child runs them one after another.
//!
//! A session belongs to an owner and is identified by its name. Its child is an interpreter like any other, with the
//! same walls and limits, and is never shared with another owner. One program runs in it at a time; others wait for
//! their turn. When the child ends, the session ends with it, and the next use of the name is told why.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

use super::{CPython, KeptChild};
use crate::{Execution, Failure, Host, Limits, Program};

/// All owners together may have this many times the sessions that one owner may have.
const OWNERS: usize = 8;
/// Maximum number of ended sessions whose end is remembered.
const MAX_ENDED: usize = 256;
/// Maximum number of remembered names of a session.
const MAX_NAMES: usize = 500;

/// Identifies a session.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SessionKey {
    /// Nobody else can reach the session.
    pub owner: Arc<str>,
    pub name: String,
}

/// Limits on the number of sessions and their idle time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionLimits {
    /// Maximum number of sessions per owner.
    pub max: usize,
    /// A session that is unused for this long ends.
    pub idle: Duration,
}

impl Default for SessionLimits {
    fn default() -> Self {
        Self { max: 8, idle: Duration::from_mins(30) }
    }
}

/// Why a session ended without a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionEnd {
    /// It was unused for this long.
    Idle(Duration),
    /// One of its programs was stopped, or its process died.
    Failed(String),
}

impl std::fmt::Display for SessionEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Idle(time) => write!(f, "it was not used for {} s", time.as_secs()),
            Self::Failed(reason) => f.write_str(reason),
        }
    }
}

/// The state of the session when a program entered it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Begun {
    /// With the names of earlier programs.
    Continued,
    New,
    /// New, because the previous one ended.
    Again(SessionEnd),
}

/// The outcome of a program in a session.
#[derive(Debug)]
pub struct SessionRun {
    pub execution: Execution,
    pub begun: Begun,
    /// Why the session ended with this program, if it did.
    pub ended: Option<SessionEnd>,
}

/// A session as shown to its owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionInfo {
    pub name: String,
    pub age: Duration,
    /// Time since the last use; `None` while a program runs in it.
    pub idle: Option<Duration>,
    pub runs: u64,
    /// Names that its programs bound.
    pub names: Vec<String>,
}

/// A program to run in a session, with its limits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SessionProgram<'a> {
    pub(crate) program: &'a Program,
    pub(crate) limits: &'a Limits,
    pub(crate) session_limits: SessionLimits,
}

/// All sessions of all owners.
#[derive(Default)]
pub struct Sessions {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    open: HashMap<SessionKey, Arc<Slot>>,
    /// Newest last.
    ended: VecDeque<(SessionKey, SessionEnd)>,
}

struct Slot {
    /// Locked by the running program.
    place: tokio::sync::Mutex<Place>,
    facts: Mutex<Facts>,
}

/// Where the programs of a session run.
struct Place {
    /// The engine that the session began with: a reload does not replace its interpreter.
    engine: Arc<CPython>,
    child: Option<KeptChild>,
    /// The session has ended; its name may belong to a new one.
    is_closed: bool,
}

struct Facts {
    created: Instant,
    last_used: Instant,
    runs: u64,
    /// Programs that run or wait in the session.
    users: usize,
    ends_after_run: bool,
    names: BTreeSet<String>,
    /// Ends the session after it has been idle for too long.
    timer: Option<AbortHandle>,
}

impl Sessions {
    /// Runs a program in a session, creating the session if it does not exist.
    pub(crate) async fn run(
        self: &Arc<Self>,
        engine: Arc<CPython>,
        key: &SessionKey,
        order: SessionProgram<'_>,
        host: Arc<dyn Host>,
        cancel: CancellationToken,
    ) -> SessionRun {
        let refused = |failure| SessionRun { execution: Execution::failed(failure), begun: Begun::New, ended: None };
        loop {
            let (slot, begun) = match self.enter(&engine, key, order.session_limits) {
                Ok(entered) => entered,
                Err(reason) => return refused(Failure::Session(reason)),
            };
            let _user = User { sessions: self, key, slot: &slot, limits: order.session_limits };
            let wait = engine.settings().queue_timeout;
            let place = tokio::select! {
                () = cancel.cancelled() => return refused(Failure::Cancelled),
                place = tokio::time::timeout(wait, slot.place.lock()) => place,
            };
            let Ok(mut place) = place else {
                return refused(Failure::Session(format!(
                    "session '{}' is in use by another run, which did not end in {} s\nhint: wait for it, or use another session",
                    key.name,
                    wait.as_secs()
                )));
            };
            if place.is_closed {
                continue;
            }
            let Place { engine, child, .. } = &mut *place;
            let execution = engine.execute_kept(child, order.program, order.limits, host, cancel).await;
            {
                let mut facts = slot.facts.lock();
                facts.runs += 1;
                let room = MAX_NAMES.saturating_sub(facts.names.len());
                facts.names.extend(order.program.binds.iter().take(room).cloned());
            }
            let did_run = !matches!(execution.result, Err(Failure::Busy(_) | Failure::Unavailable(_)));
            let ended = place.child.is_none().then(|| SessionEnd::Failed(reason(&execution))).filter(|_| did_run);
            let is_wanted = !slot.facts.lock().ends_after_run;
            if place.child.is_none() || !is_wanted {
                place.is_closed = true;
                place.child = None;
                self.close(key, &slot, ended.clone().filter(|_| is_wanted));
            }
            return SessionRun { execution, begun, ended };
        }
    }

    /// Returns the session's slot, creating it if it does not exist and the limits allow another.
    fn enter(
        &self,
        engine: &Arc<CPython>,
        key: &SessionKey,
        limits: SessionLimits,
    ) -> Result<(Arc<Slot>, Begun), String> {
        let mut state = self.state.lock();
        if let Some(slot) = state.open.get(key) {
            let mut facts = slot.facts.lock();
            facts.users += 1;
            if let Some(timer) = facts.timer.take() {
                timer.abort();
            }
            return Ok((Arc::clone(slot), Begun::Continued));
        }
        let own: Vec<&str> =
            state.open.keys().filter(|other| other.owner == key.owner).map(|other| other.name.as_str()).collect();
        if own.len() >= limits.max {
            let mut own = own;
            own.sort_unstable();
            return Err(format!(
                "{} sessions are open ({}), and run.max_sessions allows {}\nhint: end one with ot.end_session(name), or use one of them",
                own.len(),
                own.join(", "),
                limits.max
            ));
        }
        if state.open.len() >= limits.max.saturating_mul(OWNERS) {
            return Err(format!(
                "{} sessions of all clients are open\nhint: try again later, or raise run.max_sessions",
                state.open.len()
            ));
        }
        let before = state.ended.iter().position(|(ended, _)| ended == key).and_then(|at| state.ended.remove(at));
        let now = Instant::now();
        let slot = Arc::new(Slot {
            place: tokio::sync::Mutex::new(Place { engine: Arc::clone(engine), child: None, is_closed: false }),
            facts: Mutex::new(Facts {
                created: now,
                last_used: now,
                runs: 0,
                users: 1,
                ends_after_run: false,
                names: BTreeSet::new(),
                timer: None,
            }),
        });
        state.open.insert(key.clone(), Arc::clone(&slot));
        Ok((slot, before.map_or(Begun::New, |(_, end)| Begun::Again(end))))
    }

    /// Removes a session from the open ones, unless its name already belongs to another session.
    fn close(&self, key: &SessionKey, slot: &Arc<Slot>, end: Option<SessionEnd>) {
        let mut state = self.state.lock();
        if state.open.get(key).is_some_and(|open| Arc::ptr_eq(open, slot)) {
            state.open.remove(key);
        }
        if let Some(end) = end {
            state.ended.push_back((key.clone(), end));
            if state.ended.len() > MAX_ENDED {
                state.ended.pop_front();
            }
        }
    }

    /// Called when a program leaves its session: starts the idle timer unless other programs use the session.
    fn leave(self: &Arc<Self>, key: &SessionKey, slot: &Arc<Slot>, limits: SessionLimits) {
        let mut facts = slot.facts.lock();
        facts.users -= 1;
        facts.last_used = Instant::now();
        if facts.users > 0 {
            return;
        }
        let (sessions, key, slot) = (Arc::downgrade(self), key.clone(), Arc::downgrade(slot));
        let timer = tokio::spawn(async move {
            tokio::time::sleep(limits.idle).await;
            if let (Some(sessions), Some(slot)) = (Weak::upgrade(&sessions), Weak::upgrade(&slot)) {
                sessions.expire(&key, &slot, limits.idle);
            }
        });
        facts.timer = Some(timer.abort_handle());
    }

    fn expire(&self, key: &SessionKey, slot: &Arc<Slot>, idle: Duration) {
        let Ok(mut place) = slot.place.try_lock() else { return };
        if slot.facts.lock().users == 0 && !place.is_closed {
            place.is_closed = true;
            place.child = None;
            self.close(key, slot, Some(SessionEnd::Idle(idle)));
        }
    }

    /// Ends a session, after the program that runs in it. Returns `false` if there is no such session.
    pub fn end(&self, key: &SessionKey) -> bool {
        let Some(slot) = self.state.lock().open.get(key).cloned() else { return false };
        slot.facts.lock().ends_after_run = true;
        if let Ok(mut place) = slot.place.try_lock() {
            place.is_closed = true;
            place.child = None;
            drop(place);
            self.close(key, &slot, None);
        }
        true
    }

    /// Ends all sessions of an owner that has disconnected.
    pub fn end_all_of(&self, owner: &str) {
        let own: Vec<SessionKey> = self.state.lock().open.keys().filter(|key| *key.owner == *owner).cloned().collect();
        for key in own {
            self.end(&key);
        }
    }

    /// Ends all sessions.
    pub fn shutdown(&self) {
        let all: Vec<SessionKey> = self.state.lock().open.keys().cloned().collect();
        for key in all {
            self.end(&key);
        }
    }

    /// Returns the number of sessions of all owners.
    pub fn count(&self) -> usize {
        self.state.lock().open.len()
    }

    /// Returns the names of the sessions of all owners.
    pub fn names(&self) -> Vec<String> {
        self.state.lock().open.keys().map(|key| key.name.clone()).collect()
    }

    /// Returns the sessions of an owner, sorted by name.
    pub fn of(&self, owner: &str) -> Vec<SessionInfo> {
        let state = self.state.lock();
        let own = state.open.iter().filter(|(key, _)| *key.owner == *owner);
        let mut found: Vec<SessionInfo> = own
            .map(|(key, slot)| {
                let facts = slot.facts.lock();
                SessionInfo {
                    name: key.name.clone(),
                    age: facts.created.elapsed(),
                    idle: (facts.users == 0).then(|| facts.last_used.elapsed()),
                    runs: facts.runs,
                    names: facts.names.iter().cloned().collect(),
                }
            })
            .collect();
        found.sort_by(|one, other| one.name.cmp(&other.name));
        found
    }

    /// Returns the session that an owner used last.
    pub fn last_of(&self, owner: &str) -> Option<SessionKey> {
        let state = self.state.lock();
        let own = state.open.iter().filter(|(key, _)| *key.owner == *owner);
        own.max_by_key(|(_, slot)| slot.facts.lock().last_used).map(|(key, _)| key.clone())
    }
}

impl std::fmt::Debug for Sessions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sessions").field("count", &self.count()).finish()
    }
}

/// A program that runs in a session or waits for it.
struct User<'a> {
    sessions: &'a Arc<Sessions>,
    key: &'a SessionKey,
    slot: &'a Arc<Slot>,
    limits: SessionLimits,
}

impl Drop for User<'_> {
    fn drop(&mut self) {
        self.sessions.leave(self.key, self.slot, self.limits);
    }
}

/// Says why a program's child is gone.
fn reason(execution: &Execution) -> String {
    match &execution.result {
        Err(Failure::Timeout(limit)) => format!("its last run was stopped after {} s", limit.as_secs_f64()),
        Err(Failure::Cancelled) => "its last run was cancelled".to_owned(),
        Err(Failure::Calls(limit)) => format!("its last run made more than {limit} tool calls"),
        Err(Failure::TooLarge(reason) | Failure::Crashed(reason)) => format!("its last run was stopped: {reason}"),
        Err(Failure::Raised { message, .. }) => format!("its process died: {message}"),
        Err(Failure::Memory) => "its process ran out of memory".to_owned(),
        Err(Failure::Busy(reason) | Failure::Unavailable(reason) | Failure::Session(reason)) => {
            reason.lines().next().unwrap_or_default().to_owned()
        }
        Ok(_) => "its process ended".to_owned(),
    }
}
