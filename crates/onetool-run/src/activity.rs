//! What happens, for those who watch: the last calls and runs, and each new one as it ends.
//!
//! Kept in memory only, and only while somebody may look: a server on standard input and output keeps nothing.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use chrono::{DateTime, Utc};
use onetool_sdk::{Arguments, Caller, Value};
use parking_lot::Mutex;
use tokio::sync::broadcast;

use crate::toolbox::{CallOutcome, RunOutcome};

/// Events that are kept.
const KEPT: usize = 1_000;
/// Events that a slow watcher may be behind before it misses some.
const BEHIND: usize = 1_024;
/// Characters of arguments, commands and errors that are kept.
const SHOWN_CHARS: usize = 2_000;

/// A call or a run that has ended.
#[derive(Debug, Clone, PartialEq)]
pub struct ActivityEvent {
    /// Grows by one from event to event.
    pub id: u64,
    pub kind: ActivityKind,
    pub run_id: Arc<str>,
    /// `pack.function`, or `run`.
    pub name: String,
    /// When it ended.
    pub at: DateTime<Utc>,
    pub duration: Duration,
    pub caller: Caller,
    pub error: Option<String>,
    /// The arguments as JSON, or the command; shortened, without secrets.
    pub detail: String,
    pub chars_in: usize,
    pub chars_out: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActivityKind {
    Call,
    Run,
}

/// The last events.
pub struct Activity {
    is_watched: AtomicBool,
    kept: Mutex<Kept>,
    sender: broadcast::Sender<ActivityEvent>,
}

struct Kept {
    last_id: u64,
    events: VecDeque<ActivityEvent>,
}

impl Default for Activity {
    fn default() -> Self {
        Self {
            is_watched: AtomicBool::new(false),
            kept: Mutex::new(Kept { last_id: 0, events: VecDeque::new() }),
            sender: broadcast::Sender::new(BEHIND),
        }
    }
}

impl Activity {
    /// From now on events are kept.
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

    pub fn subscribe(&self) -> broadcast::Receiver<ActivityEvent> {
        self.sender.subscribe()
    }

    /// Keeps a call. `redact` takes secrets out of a text.
    pub fn call(&self, outcome: &CallOutcome<'_>, redact: impl Fn(String) -> String) {
        if !self.is_watched() {
            return;
        }
        let error = outcome.failure.map(|error| shortened(redact(format!("{}: {}", error.exception(), error.message))));
        self.push(ActivityEvent {
            id: 0,
            kind: ActivityKind::Call,
            run_id: outcome.ctx.run_id.clone(),
            name: outcome.name.to_string(),
            at: Utc::now(),
            duration: outcome.duration,
            caller: outcome.ctx.caller,
            error,
            detail: redact(outcome.arguments.unwrap_or_default().to_owned()),
            chars_in: outcome.chars_in,
            chars_out: outcome.chars_out,
        });
    }

    /// Keeps a run.
    pub fn run(&self, outcome: &RunOutcome<'_>, redact: impl Fn(String) -> String) {
        if !self.is_watched() {
            return;
        }
        let first_line = || outcome.text.lines().next().unwrap_or_default().to_owned();
        self.push(ActivityEvent {
            id: 0,
            kind: ActivityKind::Run,
            run_id: outcome.ctx.run_id.clone(),
            name: "run".to_owned(),
            at: Utc::now(),
            duration: outcome.duration,
            caller: outcome.ctx.caller,
            error: outcome.is_error.then(|| shortened(redact(first_line()))),
            detail: shortened(redact(outcome.command.chars().take(SHOWN_CHARS + 1).collect())),
            chars_in: outcome.command.len(),
            chars_out: outcome.chars_out,
        });
    }

    fn push(&self, mut event: ActivityEvent) {
        let mut kept = self.kept.lock();
        kept.last_id += 1;
        event.id = kept.last_id;
        if kept.events.len() == KEPT {
            kept.events.pop_front();
        }
        kept.events.push_back(event.clone());
        // Sent under the lock, so that watchers see events in order. Nobody listening is not a failure.
        let _ = self.sender.send(event);
    }
}

fn shortened(text: String) -> String {
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// Arguments as JSON, for people: values whose name says that they are secret are masked, and the rest is shortened
/// while it is written, so that a large argument costs nothing.
pub fn shown_arguments(arguments: &Arguments) -> String {
    let mut writer = Writer { text: String::new() };
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

/// Names whose values are nobody's business.
const SECRET_NAMES: &[&str] =
    &["password", "passwd", "secret", "token", "api_key", "apikey", "authorization", "credential", "private_key"];
const MASK: &str = "\"********\"";
const MAX_NESTING: usize = 8;

struct Writer {
    text: String,
}

impl Writer {
    fn is_full(&self) -> bool {
        self.text.len() >= SHOWN_CHARS
    }

    fn push(&mut self, text: &str) {
        if !self.is_full() {
            self.text.extend(text.chars().take(SHOWN_CHARS - self.text.len()));
        }
    }

    fn quoted(&mut self, text: &str) {
        let start: String = text.chars().take(SHOWN_CHARS).collect();
        self.push(&serde_json::Value::String(start).to_string());
    }

    fn member(&mut self, name: &str, value: &Value, depth: usize) {
        self.quoted(name);
        self.push(": ");
        let lower = name.to_lowercase().replace('-', "_");
        if SECRET_NAMES.iter().any(|secret| lower.contains(secret)) {
            self.push(MASK);
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
    fn secrets_are_masked_by_their_names() {
        assert_eq!(
            shown(json!({"user": "x", "Password": "hidden", "headers": {"X-Api-Key": "hidden", "a": [1, null, true]}})),
            r#"{"user": "x", "Password": "********", "headers": {"X-Api-Key": "********", "a": [1, null, true]}}"#
        );
    }

    #[test]
    fn large_arguments_are_shortened() {
        let text = shown(json!({"a": "ü".repeat(100_000), "b": vec![1; 100_000]}));
        assert!(text.chars().count() <= SHOWN_CHARS + 1, "{}", text.chars().count());
        assert!(text.ends_with('…'));
    }
}
