//! The journal of one run: written before a call is made and after it returns, read when the run is repeated.
//!
//! A program is a function of the answers it gets. So a run whose process ended is run again from the beginning: calls
//! that were already made are answered from the journal, and only the ones after them are made. Read-only calls are
//! written too, but only together with the next line that matters, so they need no write of their own.
//!
//! **Invariant:** a call that must not be repeated is made only after its line is on disk under the current fence.
//! Without an outcome its effect is unknown, and it is never repeated unless somebody decides so.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use onetool_sdk::{Arguments, CallJournal, Effect, ErrorKind, JournaledCall, QualifiedName, Recall, ToolError, Value};
use onetool_state::interface::Claim;
use onetool_state::runs::{ApprovalRecord, CallReport, REPORTED_CALLS, ReportedCall, RunStore, RunStoreError};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::lines::{Line, Outcome, Unknown};
use crate::replay::weight;

/// Maximum size of an outcome. A larger one is recorded without its value, or not at all if the call may be repeated.
const MAX_OUTCOME: usize = 4 << 20;
/// Maximum number of clock readings recorded.
const MAX_TIMES: usize = 10_000;
/// How long a run that is being suspended waits for its other calls.
const SETTLE: Duration = Duration::from_secs(30);
/// Delay between attempts to write a line.
const PAUSE: Duration = Duration::from_millis(300);

/// A journal, in memory until it is attached to a record of the run.
pub struct Journal {
    inner: Mutex<Inner>,
    /// Admits one writer at a time, in order of arrival.
    held: tokio::sync::Mutex<Option<(RunStore, Claim)>>,
    is_attached: AtomicBool,
    /// Ends the run.
    stop: CancellationToken,
    seed: u64,
    is_continued: bool,
    /// Notified when a call ends.
    ended: Notify,
}

#[derive(Default)]
struct Inner {
    /// Recorded calls that have not been requested again.
    known: Vec<Known>,
    times: VecDeque<i64>,
    time_count: usize,
    /// Not written yet.
    pending: Vec<Line>,
    written: u64,
    next_call: u64,
    /// How often each call was requested.
    asked: HashMap<String, u64>,
    verdicts: HashMap<(String, u64), bool>,
    /// Calls in progress that must not be repeated.
    under_way: BTreeMap<u64, ReportedCall>,
    done: Vec<ReportedCall>,
    more_done: usize,
    bytes: usize,
    max_bytes: usize,
    has_gap: bool,
    fate: JournalState,
}

/// A call made by an earlier process.
struct Known {
    n: u64,
    tool: String,
    hash: String,
    args: String,
    is_free: bool,
    outcome: Option<Outcome>,
    unknown: Option<Unknown>,
}

impl Known {
    fn is_unanswered(&self) -> bool {
        matches!(self.outcome, None | Some(Outcome::Cut))
    }
}

/// State of the run besides its reply.
#[derive(Debug, Clone, Default)]
pub(super) enum JournalState {
    #[default]
    Running,
    /// It waits for a person.
    Suspended(Question),
    /// It made a different request than the first time.
    Strayed(String),
    /// Another process has taken it over.
    Lost,
}

/// What a person is asked to decide.
#[derive(Debug, Clone)]
pub(super) struct Question {
    pub(super) tool: String,
    pub(super) arguments: String,
    pub(super) hash: String,
    pub(super) nth: u64,
}

impl Journal {
    /// Creates the journal of a new run. Outcomes take at most `max_bytes`; `stop` ends the run.
    pub(crate) fn new(run: &str, max_bytes: usize, stop: CancellationToken) -> Self {
        Self::with(Inner { max_bytes, ..Inner::default() }, run, stop, false)
    }

    fn with(inner: Inner, run: &str, stop: CancellationToken, is_continued: bool) -> Self {
        let hash = blake3::derive_key("onetool random numbers of a run", run.as_bytes());
        let (first, _) = hash.split_first_chunk::<8>().unwrap_or((&[0; 8], &[]));
        Self {
            inner: Mutex::new(inner),
            held: tokio::sync::Mutex::new(None),
            is_attached: AtomicBool::new(false),
            stop,
            // An integer that both Python and JSON represent exactly.
            seed: u64::from_le_bytes(*first) >> 11,
            is_continued,
            ended: Notify::new(),
        }
    }

    /// Reads the journal of a run that an earlier process began.
    pub(super) fn read(
        run: &str,
        lines: &[String],
        approvals: &[ApprovalRecord],
        max_bytes: usize,
        stop: CancellationToken,
    ) -> Result<Self, String> {
        let mut inner = Inner { written: lines.len() as u64, max_bytes, ..Inner::default() };
        for line in lines {
            inner.bytes += line.len();
            let line: Line =
                serde_json::from_str(line).map_err(|error| format!("its journal cannot be read: {error}"))?;
            inner.take(line);
        }
        for approval in approvals {
            if let Some(verdict) = &approval.verdict {
                inner.verdicts.insert((approval.hash.clone(), approval.nth), verdict.is_allowed);
            }
        }
        Ok(Self::with(inner, run, stop, true))
    }

    /// Writes what has happened so far, and everything from now on.
    pub(crate) async fn attach(&self, store: &RunStore, claim: &Claim) -> Result<(), ToolError> {
        *self.held.lock().await = Some((store.clone(), claim.clone()));
        self.is_attached.store(true, Ordering::Release);
        self.flush().await
    }

    pub(super) fn stop(&self) -> &CancellationToken {
        &self.stop
    }

    /// What an earlier process left unclear; `None` if the run can continue.
    pub(super) fn trouble(&self) -> Option<(String, CallReport)> {
        let inner = self.inner.lock();
        let is_unknown = |call: &&Known| call.outcome.is_none() && call.unknown.is_none();
        let unknown: Vec<&Known> = inner.known.iter().filter(is_unknown).collect();
        let reason = if inner.has_gap {
            "its server ended, and not everything that it did was recorded".to_owned()
        } else if unknown.is_empty() {
            return None;
        } else {
            let names: Vec<&str> = unknown.iter().take(5).map(|call| call.tool.as_str()).collect();
            format!("its server ended while {} was under way; nobody knows whether it took place", names.join(", "))
        };
        Some((reason, inner.report()))
    }

    /// Completed calls, and calls with an unknown effect.
    pub(super) fn report(&self) -> CallReport {
        self.inner.lock().report()
    }

    /// Numbers of the calls that the journal cannot answer: unknown ones, and those whose outcome was too large.
    pub(super) fn unanswered(&self) -> Vec<u64> {
        self.inner.lock().known.iter().filter(|call| call.is_unanswered()).map(|call| call.n).collect()
    }

    pub(super) fn fate(&self) -> JournalState {
        let mut inner = self.inner.lock();
        if matches!(inner.fate, JournalState::Running)
            && let Some(left) = inner.known.iter().find(|call| !call.is_free)
        {
            let text = format!("it ended without asking for {}({}), which it did before", left.tool, left.args);
            inner.fate = JournalState::Strayed(text);
        }
        inner.fate.clone()
    }

    /// Whether the run waits for a person.
    pub fn is_suspended(&self) -> bool {
        matches!(self.inner.lock().fate, JournalState::Suspended(_))
    }

    /// Marks the run as taken over by another process; no further calls are made.
    pub(super) fn lose(&self) {
        self.inner.lock().fate = JournalState::Lost;
        self.stop.cancel();
    }

    /// Lets calls in progress finish without starting others, then writes everything.
    pub(super) async fn settle(&self, patience: Duration) {
        {
            let mut inner = self.inner.lock();
            if matches!(inner.fate, JournalState::Running) {
                inner.fate = JournalState::Lost;
            }
        }
        let _ = tokio::time::timeout(patience, self.until_quiet()).await;
        let _ = tokio::time::timeout(patience, self.flush()).await;
        self.stop.cancel();
    }

    async fn until_quiet(&self) {
        loop {
            let ended = self.ended.notified();
            if self.inner.lock().under_way.is_empty() {
                return;
            }
            ended.await;
        }
    }

    /// Writes pending lines. Does nothing while the journal is in memory.
    pub(super) async fn flush(&self) -> Result<(), ToolError> {
        let held = self.held.lock().await;
        let Some((store, claim)) = &*held else { return Ok(()) };
        let (first, lines) = {
            let mut inner = self.inner.lock();
            if inner.has_gap && inner.written == 0 {
                inner.pending = vec![Line::Gap];
            }
            let lines: Result<Vec<String>, _> = inner.pending.iter().map(serde_json::to_string).collect();
            (inner.written, lines.map_err(|error| ToolError::internal(error.to_string()))?)
        };
        if lines.is_empty() {
            return Ok(());
        }
        loop {
            let (store, claim, lines) = (store.clone(), claim.clone(), lines.clone());
            let written =
                tokio::task::spawn_blocking(move || store.append(&claim, first, &lines).map(|()| lines.len()));
            match written.await {
                Ok(Ok(count)) => {
                    let mut inner = self.inner.lock();
                    inner.pending.drain(..count);
                    inner.written += count as u64;
                    return Ok(());
                }
                Ok(Err(RunStoreError::Lost)) => {
                    self.lose();
                    return Err(lost());
                }
                // Retried with the same position, so lines that were written are not written twice.
                Ok(Err(error)) if !self.stop.is_cancelled() => {
                    tracing::warn!(%error, "a line of a run's journal could not be written yet");
                    tokio::select! {
                        () = tokio::time::sleep(PAUSE) => {}
                        () = self.stop.cancelled() => return Err(lost()),
                    }
                }
                Ok(Err(error)) => return Err(ToolError::unavailable(error.to_string())),
                Err(error) => return Err(ToolError::internal(format!("the journal failed inside: {error}"))),
            }
        }
    }
}

fn lost() -> ToolError {
    ToolError::new(ErrorKind::Cancelled, "another server has taken the run over")
}

impl Inner {
    /// Applies one line written by an earlier process.
    fn take(&mut self, line: Line) {
        match line {
            Line::Call { n, tool, hash, args } => {
                self.next_call = self.next_call.max(n + 1);
                self.known.retain(|call| call.n != n);
                self.known.push(Known { n, tool, hash, args, is_free: false, outcome: None, unknown: None });
            }
            Line::Done { n, tool, hash, args, free, outcome } => {
                self.next_call = self.next_call.max(n + 1);
                self.known.retain(|call| call.n != n);
                if !free {
                    self.note_done(ReportedCall { number: n, tool: tool.clone(), arguments: args.clone() });
                }
                let known = Known { n, tool, hash, args, is_free: free, outcome: Some(outcome), unknown: None };
                self.known.push(known);
            }
            Line::Time { at } => {
                self.time_count += 1;
                self.times.push_back(at);
            }
            Line::Again { calls, unknown } => {
                for call in self.known.iter_mut().filter(|call| call.is_unanswered() && calls.contains(&call.n)) {
                    call.unknown = Some(unknown);
                }
            }
            Line::Gap => self.has_gap = true,
        }
    }

    fn note_done(&mut self, call: ReportedCall) {
        if self.done.len() < REPORTED_CALLS {
            self.done.push(call);
        } else {
            self.more_done += 1;
        }
    }

    fn report(&self) -> CallReport {
        let unknown = self.known.iter().filter(|call| call.outcome.is_none());
        let unknown =
            unknown.map(|call| ReportedCall { number: call.n, tool: call.tool.clone(), arguments: call.args.clone() });
        let unknown: Vec<ReportedCall> = unknown.chain(self.under_way.values().cloned()).collect();
        let more = self.more_done + unknown.len().saturating_sub(REPORTED_CALLS);
        CallReport { done: self.done.clone(), unknown: unknown.into_iter().take(REPORTED_CALLS).collect(), more }
    }

    fn stray(&mut self, text: String) -> ToolError {
        if matches!(self.fate, JournalState::Running) {
            self.fate = JournalState::Strayed(text);
        }
        ToolError::internal("the run went another way than before")
    }

    fn require_running(&self) -> Result<(), ToolError> {
        match &self.fate {
            JournalState::Running => Ok(()),
            JournalState::Suspended(_) => Err(ToolError::new(ErrorKind::Cancelled, "the run waits for a permission")),
            JournalState::Strayed(_) => Err(ToolError::internal("the run went another way than before")),
            JournalState::Lost => Err(lost()),
        }
    }

    /// Reserves space for this many bytes; `false` if there is not enough.
    fn reserve(&mut self, bytes: usize) -> bool {
        if self.bytes.saturating_add(bytes) > self.max_bytes {
            return false;
        }
        self.bytes += bytes;
        true
    }
}

/// Identifies a call by its tool, version and arguments.
fn hash(name: &QualifiedName, version: Option<&str>, arguments: &Arguments) -> String {
    let positional: Vec<_> = arguments.positional.iter().map(Value::to_wire).collect();
    let named: BTreeMap<&String, _> = arguments.named.iter().map(|(name, value)| (name, value.to_wire())).collect();
    let text = serde_json::json!([name.to_string(), version, positional, named]).to_string();
    blake3::hash(text.as_bytes()).to_hex()[..32].to_owned()
}

#[async_trait]
impl CallJournal for Journal {
    fn recall(
        &self,
        name: &QualifiedName,
        version: Option<&str>,
        arguments: &Arguments,
        effect: Effect,
    ) -> Result<Recall, ToolError> {
        let hash = hash(name, version, arguments);
        let mut inner = self.inner.lock();
        inner.require_running()?;
        let asked = inner.asked.entry(hash.clone()).or_default();
        let nth = *asked;
        *asked += 1;
        let Some(place) = inner.known.iter().position(|call| call.hash == hash) else {
            let other = inner.known.iter().find(|call| !call.is_free);
            if let Some(other) = other.filter(|_| !effect.may_repeat()) {
                let shown = crate::activity::shown_arguments(arguments);
                let text = format!("it asked for {name}({shown}) where {}({}) was recorded", other.tool, other.args);
                let error = inner.stray(text);
                drop(inner);
                self.stop.cancel();
                return Err(error);
            }
            let number = inner.next_call;
            inner.next_call += 1;
            return Ok(Recall::New(JournaledCall { number, hash, nth, effect }));
        };
        let known = inner.known.remove(place);
        let was_made = known.outcome.is_some();
        if let Some(outcome) = known.outcome.and_then(Outcome::given) {
            return Ok(Recall::Known(outcome));
        }
        match known.unknown {
            Some(Unknown::Raise) => Ok(Recall::Known(Err(ToolError::unavailable(if was_made {
                format!("{name} took place, but what it gave was too large to be kept")
            } else {
                format!("nobody knows whether {name} took place: the server that called it ended")
            })))),
            None if was_made => {
                let error = inner.stray(format!("the outcome of {name} was too large to be kept"));
                drop(inner);
                self.stop.cancel();
                Err(error)
            }
            _ => Ok(Recall::New(JournaledCall { number: known.n, hash, nth, effect })),
        }
    }

    async fn begin(&self, name: &QualifiedName, call: &JournaledCall, shown: String) -> Result<(), ToolError> {
        {
            let mut inner = self.inner.lock();
            inner.require_running()?;
            if call.effect.may_repeat() {
                return Ok(());
            }
            let tool = name.to_string();
            let report = ReportedCall { number: call.number, tool: tool.clone(), arguments: shown.clone() };
            inner.under_way.insert(call.number, report);
            inner.pending.push(Line::Call { n: call.number, tool, hash: call.hash.clone(), args: shown });
        }
        let flushed = self.flush().await;
        // The run may have been lost or suspended while the line was written.
        let outcome = flushed.and_then(|()| self.inner.lock().require_running());
        if outcome.is_err() {
            self.inner.lock().under_way.remove(&call.number);
            self.ended.notify_waiters();
        }
        outcome
    }

    async fn end(
        &self,
        name: &QualifiedName,
        call: &JournaledCall,
        outcome: &Result<Value, ToolError>,
    ) -> Result<(), ToolError> {
        let is_free = call.effect.may_repeat();
        let was_cut = matches!(outcome, Err(ToolError { kind: ErrorKind::Cancelled, .. })) && self.stop.is_cancelled();
        {
            let mut inner = self.inner.lock();
            let report = inner.under_way.remove(&call.number);
            if !was_cut {
                let size = outcome.as_ref().map_or(256, |value| weight(value, MAX_OUTCOME));
                let fits = size <= MAX_OUTCOME && inner.reserve(size);
                let line = Line::Done {
                    n: call.number,
                    tool: name.to_string(),
                    hash: call.hash.clone(),
                    args: report.as_ref().map(|report| report.arguments.clone()).unwrap_or_default(),
                    free: is_free,
                    outcome: if fits { Outcome::of(outcome) } else { Outcome::Cut },
                };
                if fits || !is_free {
                    inner.pending.push(line);
                }
                if let Some(report) = report {
                    inner.note_done(report);
                }
            } else if let Some(report) = report {
                // Its effect is unknown.
                inner.known.push(Known {
                    n: call.number,
                    tool: report.tool,
                    hash: call.hash.clone(),
                    args: report.arguments,
                    is_free: false,
                    outcome: None,
                    unknown: None,
                });
            }
        }
        self.ended.notify_waiters();
        if is_free || was_cut {
            return Ok(());
        }
        // The outcome must be on disk before the run acts on it.
        self.flush().await
    }

    fn verdict(&self, call: &JournaledCall) -> Option<bool> {
        self.inner.lock().verdicts.get(&(call.hash.clone(), call.nth)).copied()
    }

    fn can_suspend(&self) -> bool {
        let inner = self.inner.lock();
        !inner.has_gap && matches!(inner.fate, JournalState::Running | JournalState::Suspended(_))
    }

    fn is_recorded(&self) -> bool {
        self.is_attached.load(Ordering::Acquire)
    }

    async fn suspend(&self, name: &QualifiedName, call: &JournaledCall, shown: String) -> ToolError {
        {
            let mut inner = self.inner.lock();
            if matches!(inner.fate, JournalState::Running) {
                let (tool, hash) = (name.to_string(), call.hash.clone());
                inner.fate = JournalState::Suspended(Question { tool, arguments: shown, hash, nth: call.nth });
            }
        }
        // Other calls in progress finish first.
        let _ = tokio::time::timeout(SETTLE, self.until_quiet()).await;
        self.stop.cancel();
        ToolError::new(ErrorKind::Cancelled, format!("{name} waits for a permission"))
    }

    fn now(&self) -> DateTime<Utc> {
        let mut inner = self.inner.lock();
        if let Some(at) = inner.times.pop_front().and_then(DateTime::from_timestamp_micros) {
            return at;
        }
        let now = DateTime::from_timestamp_micros(Utc::now().timestamp_micros()).unwrap_or_else(Utc::now);
        if inner.time_count < MAX_TIMES {
            inner.time_count += 1;
            inner.pending.push(Line::Time { at: now.timestamp_micros() });
        }
        now
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn is_continued(&self) -> bool {
        self.is_continued
    }

    fn is_repeating(&self) -> bool {
        let inner = self.inner.lock();
        !(inner.known.is_empty() && inner.times.is_empty())
    }
}

#[cfg(test)]
#[path = "journal_tests.rs"]
mod tests;
