//! Live activity: the calls and runs in progress, the last ones that ended, and each change as it happens.
//!
//! Kept in memory only, and only while somebody may look: a server on standard input and output keeps nothing. Anyone
//! but an administrator sees only their own calls and runs ([`Viewer`]).

use std::collections::{HashMap, VecDeque};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use onetool_sdk::{Arguments, CallContext, Caller, EntryPoint, REDACTED, Requester, Value, names_a_secret};
use parking_lot::Mutex;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use crate::toolbox::{CallOutcome, RunOutcome};

/// Maximum number of events kept.
const KEPT: usize = 1_000;
/// Maximum number of calls and runs shown while in progress; further ones are shown when they end.
const SHOWN_UNDER_WAY: usize = 1_000;
/// Number of events a slow watcher may lag behind before it misses some.
const BEHIND: usize = 1_024;
/// Maximum characters kept of arguments, commands and errors.
const SHOWN_CHARS: usize = 2_000;
/// Error of a call or run that was dropped before it completed.
const ABANDONED: &str = "CancelledError: it was given up before it had an answer";

/// A call or run, in progress or ended.
#[derive(Debug, Clone, PartialEq)]
pub struct ActivityEvent {
    /// Increases from call to call; an event keeps its id when it ends.
    pub id: u64,
    pub kind: ActivityKind,
    pub run_id: Arc<str>,
    /// `pack.function`, or `run`.
    pub name: String,
    pub started_at: DateTime<Utc>,
    /// When it started; `None` once it has ended.
    pub running: Option<Instant>,
    /// How long it took; zero while in progress.
    pub duration: Duration,
    pub caller: Caller,
    /// The owner ([`CallContext::owner`]).
    pub owner: Arc<str>,
    pub requester: Arc<Requester>,
    pub error: Option<String>,
    /// The arguments as JSON, or the command; shortened and redacted.
    pub detail: String,
    pub chars_in: usize,
    pub chars_out: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActivityKind {
    Call,
    Run,
}

impl ActivityEvent {
    pub fn is_under_way(&self) -> bool {
        self.running.is_some()
    }

    /// How long it took, or has taken so far.
    pub fn elapsed(&self) -> Duration {
        self.running.map_or(self.duration, |since| since.elapsed())
    }

    /// When it ended, or when it started while it is in progress.
    pub fn at(&self) -> DateTime<Utc> {
        self.started_at + chrono::TimeDelta::from_std(self.duration).unwrap_or_default()
    }
}

/// Display name of a requester: the token's name or the OAuth subject; without authentication `stdio` or `local` for
/// requesters on this machine, and `anyone` for others.
pub fn principal_of(requester: &Requester) -> &str {
    match (&requester.principal, requester.door) {
        (Some(name), _) => name,
        (None, door @ (EntryPoint::Stdio | EntryPoint::Local)) => door.name(),
        (None, EntryPoint::Mcp | EntryPoint::Rest) => "anyone",
    }
}

/// Who is looking at the activity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Viewer {
    /// Sees everything.
    Administrator,
    /// Sees only their own.
    Owner(Arc<str>),
}

impl Viewer {
    pub fn sees(&self, event: &ActivityEvent) -> bool {
        match self {
            Self::Administrator => true,
            Self::Owner(owner) => event.owner == *owner,
        }
    }
}

/// A call or run that is starting.
#[derive(Debug, Clone, Copy)]
pub struct Beginning<'a> {
    pub kind: ActivityKind,
    pub name: &'a str,
    /// The arguments, or the command.
    pub detail: &'a str,
    pub chars_in: usize,
    /// Its cancellation token ends this call or run.
    pub ctx: &'a CallContext,
}

/// Calls and runs in progress, and the most recent ones.
pub struct Activity {
    is_watched: AtomicBool,
    kept: Mutex<Kept>,
    sender: broadcast::Sender<ActivityEvent>,
}

struct Kept {
    last_id: u64,
    events: VecDeque<ActivityEvent>,
    /// By the span of the call or run.
    under_way: HashMap<NonZeroU64, (ActivityEvent, CancellationToken)>,
}

impl Default for Kept {
    fn default() -> Self {
        // Behind a load balancer a request may reach a different server than the one that reported the event, so ids
        // must not collide between servers. They stay within JavaScript's safe integers.
        let [a, b, c, d, ..] = *uuid::Uuid::new_v4().as_bytes();
        let last_id = u64::from(u32::from_le_bytes([a, b, c, d])) << 20;
        Self { last_id, events: VecDeque::new(), under_way: HashMap::new() }
    }
}

impl Kept {
    fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }
}

impl Default for Activity {
    fn default() -> Self {
        Self { is_watched: AtomicBool::new(false), kept: Mutex::default(), sender: broadcast::Sender::new(BEHIND) }
    }
}

/// A call or run in progress. Dropping it without an outcome records it as abandoned.
#[must_use]
pub struct UnderWay {
    activity: Arc<Activity>,
    span: NonZeroU64,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut kept = self.activity.kept.lock();
        let Some((mut event, _)) = kept.under_way.remove(&self.span) else { return };
        event.duration = event.elapsed();
        event.running = None;
        event.error = Some(ABANDONED.to_owned());
        self.activity.push(&mut kept, event);
    }
}

impl Activity {
    /// Starts keeping events.
    pub fn watch(&self) {
        self.is_watched.store(true, Ordering::Release);
    }

    pub fn is_watched(&self) -> bool {
        self.is_watched.load(Ordering::Acquire)
    }

    /// The last events, the oldest first.
    pub fn recent(&self) -> Vec<ActivityEvent> {
        self.kept.lock().events.iter().cloned().collect()
    }

    /// Calls and runs in progress, the oldest first.
    pub fn under_way(&self) -> Vec<ActivityEvent> {
        let mut events: Vec<ActivityEvent> =
            self.kept.lock().under_way.values().map(|(event, _)| event.clone()).collect();
        events.sort_by_key(|event| event.id);
        events
    }

    /// Receives each call and run when it starts and when it ends.
    pub fn subscribe(&self) -> broadcast::Receiver<ActivityEvent> {
        self.sender.subscribe()
    }

    /// Cancels a call or run in progress. Returns `false` if the viewer sees none with this id.
    pub fn cancel(&self, id: u64, viewer: &Viewer) -> bool {
        let found = {
            let kept = self.kept.lock();
            let mut entries = kept.under_way.values();
            entries.find(|(event, _)| event.id == id && viewer.sees(event)).map(|(_, cancel)| cancel.clone())
        };
        // Outside the lock: a woken task may need it.
        found.inspect(CancellationToken::cancel).is_some()
    }

    /// Whether the viewer sees a call or run in progress with this id.
    pub fn has(&self, id: u64, viewer: &Viewer) -> bool {
        self.kept.lock().under_way.values().any(|(event, _)| event.id == id && viewer.sees(event))
    }

    /// Whether anything has been in progress for longer than this.
    pub fn has_long(&self, longer_than: Duration) -> bool {
        self.kept.lock().under_way.values().any(|(event, _)| event.elapsed() > longer_than)
    }

    /// Shows a call or run as in progress until its outcome is recorded or the guard is dropped. `redact` removes
    /// secrets from a text.
    pub fn begin(self: &Arc<Self>, beginning: &Beginning<'_>, redact: impl Fn(String) -> String) -> Option<UnderWay> {
        let ctx = beginning.ctx;
        let span = ctx.span.id.filter(|_| self.is_watched())?;
        let detail = shortened(redact(beginning.detail.chars().take(SHOWN_CHARS + 1).collect()));
        let mut kept = self.kept.lock();
        if kept.under_way.len() >= SHOWN_UNDER_WAY {
            return None;
        }
        let event = ActivityEvent {
            id: kept.next_id(),
            name: beginning.name.to_owned(),
            detail,
            chars_in: beginning.chars_in,
            running: Some(Instant::now()),
            ..ended(beginning.kind, Duration::ZERO, ctx)
        };
        kept.under_way.insert(span, (event.clone(), ctx.cancel.clone()));
        // Sent under the lock, so that watchers see events in order. Having no listener is not an error.
        let _ = self.sender.send(event);
        Some(UnderWay { activity: self.clone(), span })
    }

    /// Records a call. `redact` removes secrets from a text.
    pub fn call(&self, outcome: &CallOutcome<'_>, redact: impl Fn(String) -> String) {
        if !self.is_watched() {
            return;
        }
        let error = outcome.failure.map(|error| shortened(redact(format!("{}: {}", error.exception(), error.message))));
        self.end(outcome.ctx, || ActivityEvent {
            name: outcome.name.to_string(),
            error,
            detail: redact(outcome.arguments.unwrap_or_default().to_owned()),
            chars_in: outcome.chars_in,
            chars_out: outcome.chars_out,
            ..ended(ActivityKind::Call, outcome.duration, outcome.ctx)
        });
    }

    /// Records a run.
    pub fn run(&self, outcome: &RunOutcome<'_>, redact: impl Fn(String) -> String) {
        if !self.is_watched() {
            return;
        }
        let first_line = || outcome.text.lines().next().unwrap_or_default().to_owned();
        self.end(outcome.ctx, || ActivityEvent {
            name: "run".to_owned(),
            error: outcome.is_error.then(|| shortened(redact(first_line()))),
            detail: shortened(redact(outcome.command.chars().take(SHOWN_CHARS + 1).collect())),
            chars_in: outcome.command.len(),
            chars_out: outcome.chars_out,
            ..ended(ActivityKind::Run, outcome.duration, outcome.ctx)
        });
    }

    fn end(&self, ctx: &CallContext, event: impl FnOnce() -> ActivityEvent) {
        let mut event = event();
        let mut kept = self.kept.lock();
        let shown = ctx.span.id.and_then(|span| kept.under_way.remove(&span));
        event.id = shown.map_or_else(|| kept.next_id(), |(shown, _)| shown.id);
        self.push(&mut kept, event);
    }

    fn push(&self, kept: &mut Kept, event: ActivityEvent) {
        if kept.events.len() == KEPT {
            kept.events.pop_front();
        }
        kept.events.push_back(event.clone());
        let _ = self.sender.send(event);
    }
}

/// Builds the part of an event that calls and runs share.
fn ended(kind: ActivityKind, duration: Duration, ctx: &CallContext) -> ActivityEvent {
    ActivityEvent {
        id: 0,
        kind,
        run_id: ctx.run_id.clone(),
        name: String::new(),
        started_at: Utc::now() - chrono::TimeDelta::from_std(duration).unwrap_or_default(),
        running: None,
        duration,
        caller: ctx.caller,
        owner: ctx.owner.clone(),
        requester: ctx.requester.clone(),
        error: None,
        detail: String::new(),
        chars_in: 0,
        chars_out: 0,
    }
}

fn shortened(text: String) -> String {
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// Formats arguments as JSON for display: values with secret names are masked, and the rest is shortened while it is
/// written, so that a large argument costs nothing.
pub fn shown_arguments(arguments: &Arguments) -> String {
    let mut writer = Writer::new(SHOWN_CHARS);
    writer.push("{");
    let positional = arguments.positional.iter().enumerate().map(|(index, value)| (index.to_string(), value));
    let named = arguments.named.iter().map(|(name, value)| (name.clone(), value));
    for (index, (name, value)) in positional.chain(named).enumerate() {
        if index > 0 {
            writer.push(", ");
        }
        writer.member(&name, value, 0);
    }
    writer.push("}");
    if writer.is_full() {
        writer.text.push('…');
    }
    writer.text
}

/// The beginning of a value as JSON.
pub(crate) fn beginning(value: &Value, chars: usize) -> String {
    let mut writer = Writer::new(chars);
    writer.value(value, 1);
    writer.text
}

/// Maximum characters shown of each argument in an approval request, and of its name.
const ASKED_CHARS: usize = 200;
const ASKED_NAME: usize = 60;
/// Arguments beyond this many are shown by name only.
const ASKED_ARGUMENTS: usize = 40;

/// Formats arguments for an approval: every argument by name, each shortened separately so that none hides the others.
pub(crate) fn asked_arguments(arguments: &Arguments) -> String {
    let positional = arguments.positional.iter().enumerate().map(|(index, value)| (index.to_string(), value));
    let named = arguments.named.iter().map(|(name, value)| (name.clone(), value));
    let mut shown = Vec::new();
    for (index, (name, value)) in positional.chain(named).enumerate() {
        let (mut label, mut writer) = (Writer::new(ASKED_NAME), Writer::new(ASKED_CHARS));
        label.quoted(&name);
        if index >= ASKED_ARGUMENTS {
            writer.text.push('…');
        } else if names_a_secret(&name) {
            writer.quoted(REDACTED);
        } else {
            writer.value(value, 1);
            if let (true, Some(length)) = (writer.is_full(), value.as_str().map(|text| text.chars().count())) {
                writer.text.push_str(&format!("… [{length} characters]"));
            } else if writer.is_full() {
                writer.text.push('…');
            }
        }
        shown.push(format!("{}: {}", label.text, writer.text));
    }
    // Invisible characters could change how the text reads.
    format!("{{{}}}", shown.join(", ")).chars().map(crate::permission::visible).collect()
}

const MAX_NESTING: usize = 8;

struct Writer {
    text: String,
    limit: usize,
}

impl Writer {
    fn new(limit: usize) -> Self {
        Self { text: String::new(), limit }
    }

    fn is_full(&self) -> bool {
        self.text.len() >= self.limit
    }

    fn push(&mut self, text: &str) {
        if !self.is_full() {
            self.text.extend(text.chars().take(self.limit - self.text.len()));
        }
    }

    fn quoted(&mut self, text: &str) {
        let start: String = text.chars().take(self.limit).collect();
        self.push(&serde_json::Value::String(start).to_string());
    }

    fn member(&mut self, name: &str, value: &Value, depth: usize) {
        self.quoted(name);
        self.push(": ");
        if names_a_secret(name) {
            self.quoted(REDACTED);
        } else {
            self.value(value, depth + 1);
        }
    }

    fn value(&mut self, value: &Value, depth: usize) {
        if self.is_full() || depth > MAX_NESTING {
            self.push("…");
            return;
        }
        match value {
            Value::Str(text) | Value::Path(text) | Value::Opaque(text) => self.quoted(text),
            Value::List(items) | Value::Tuple(items) | Value::Set(items) | Value::FrozenSet(items) => {
                self.push("[");
                for (index, item) in items.iter().enumerate() {
                    if self.is_full() {
                        break;
                    }
                    if index > 0 {
                        self.push(", ");
                    }
                    self.value(item, depth + 1);
                }
                self.push("]");
            }
            Value::Dict(pairs) => {
                self.push("{");
                for (index, (key, value)) in pairs.iter().enumerate() {
                    if self.is_full() {
                        break;
                    }
                    if index > 0 {
                        self.push(", ");
                    }
                    match key.as_str() {
                        Some(name) => self.member(name, value, depth),
                        None => self.member(&key.repr(), value, depth),
                    }
                }
                self.push("}");
            }
            Value::Bytes(bytes) => self.quoted(&format!("[{} bytes]", bytes.len())),
            Value::Part(part) => self.quoted(&part.placeholder()),
            other => {
                let json = other.to_json().to_string();
                self.push(&json);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(value: serde_json::Value) -> String {
        let serde_json::Value::Object(map) = value else { panic!("an object is needed") };
        shown_arguments(&Arguments::from_json(map))
    }

    #[test]
    fn whoever_decides_sees_every_argument() {
        let serde_json::Value::Object(map) = json!({
            "comment": "x".repeat(10_000), "repo": "prod\u{202e}", "data": [["y".repeat(10_000)], 1], "force": true,
            "password": "hunter2",
        }) else {
            panic!("an object is needed")
        };
        let asked = asked_arguments(&Arguments::from_json(map));
        for part in
            ["… [10000 characters]", "\"repo\": \"prod\u{fffd}\"", "\"data\": [[\"yyy", "\"force\": true", REDACTED]
        {
            assert!(asked.contains(part), "{part}: {asked}");
        }
        assert!(asked.len() < 1000 && !asked.contains("hunter2"), "{asked}");
        let many = Arguments::named((0..60).map(|index| (format!("argument{index}"), Value::Int(index))));
        assert!(asked_arguments(&many).contains("\"argument59\": …"));
    }

    fn watched() -> Arc<Activity> {
        let activity = Arc::new(Activity::default());
        activity.watch();
        activity
    }

    fn context(owner: &str) -> CallContext {
        CallContext { owner: owner.into(), ..CallContext::new(Caller::Rest) }.within()
    }

    fn begin(activity: &Arc<Activity>, ctx: &CallContext) -> Option<UnderWay> {
        let beginning = Beginning { kind: ActivityKind::Call, name: "p.f", detail: "{}", chars_in: 2, ctx };
        activity.begin(&beginning, |text| text)
    }

    #[test]
    fn what_is_given_up_ends_with_an_error() {
        let activity = watched();
        let mut events = activity.subscribe();
        let guard = begin(&activity, &context("a"));
        let shown = activity.under_way();
        assert!(shown[0].is_under_way() && principal_of(&shown[0].requester) == "local", "{shown:?}");
        drop(guard);
        assert_eq!(activity.under_way(), []);
        let ended = activity.recent();
        assert_eq!((ended.len(), ended[0].id, ended[0].error.as_deref()), (1, shown[0].id, Some(ABANDONED)));
        assert!(events.try_recv().unwrap().is_under_way());
        assert!(!events.try_recv().unwrap().is_under_way());
    }

    #[test]
    fn only_owners_and_administrators_cancel() {
        let activity = watched();
        let ctx = context("a");
        let _guard = begin(&activity, &ctx);
        let id = activity.under_way()[0].id;
        assert!(!activity.cancel(id, &Viewer::Owner("b".into())));
        assert!(!activity.cancel(id + 1, &Viewer::Administrator) && !ctx.cancel.is_cancelled());
        assert!(activity.cancel(id, &Viewer::Owner("a".into())) && ctx.cancel.is_cancelled());
    }

    #[test]
    fn at_most_a_thousand_are_shown_while_under_way() {
        let activity = watched();
        let guards: Vec<_> = (0..=SHOWN_UNDER_WAY).map(|_| begin(&activity, &context("a"))).collect();
        assert_eq!(guards.iter().flatten().count(), SHOWN_UNDER_WAY);
        assert_eq!(activity.under_way().len(), SHOWN_UNDER_WAY);
    }

    #[test]
    fn secrets_are_masked_by_their_names() {
        assert_eq!(
            shown(json!({"user": "x", "Password": "hidden", "headers": {"X-Api-Key": "hidden", "a": [1, null, true]}})),
            r#"{"user": "x", "Password": "[REDACTED]", "headers": {"X-Api-Key": "[REDACTED]", "a": [1, null, true]}}"#
        );
    }

    #[test]
    fn large_arguments_are_shortened() {
        let text = shown(json!({"a": "ü".repeat(100_000), "b": vec![1; 100_000]}));
        assert!(text.chars().count() <= SHOWN_CHARS + 1, "{}", text.chars().count());
        assert!(text.ends_with('…'));
    }
}
