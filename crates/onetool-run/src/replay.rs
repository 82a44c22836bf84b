//! Repeats a run in a second engine when the fast one could not finish it, without repeating its calls.
//!
//! Some features that the fast engine lacks show only at run time: a sum of booleans, an exception with two arguments.
//! A program is a function of the answers it gets, so a [`Recording`] keeps them, and full Python runs the program
//! again on a [`Replay`] of them: calls that were already made are answered from the recording, and only later ones are
//! made.
//!
//! **Invariant:** no call is made twice. If the program makes a different call the second time, its first failure
//! stands.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use onetool_sandbox::{CLOCK, CallTarget, Failure, Host, Lookup, REPEATING};
use onetool_sdk::{Arguments, ToolError, Value};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// Maximum number of calls recorded.
const MAX_CALLS: usize = 500;
/// Maximum bytes of arguments and answers recorded.
const MAX_BYTES: usize = 8 << 20;
/// Maximum number of error texts remembered.
const MAX_ERRORS: usize = 100;
/// Bytes counted for a value besides its text.
const VALUE_BYTES: usize = 32;

/// A host that records its answers.
pub(crate) struct Recording {
    host: Arc<dyn Host>,
    log: Mutex<Log>,
    /// Bytes of printed text that the host received.
    printed: AtomicUsize,
}

struct Log {
    calls: Vec<Call>,
    bytes: usize,
    /// Whether nothing had to be left out.
    is_complete: bool,
    /// Errors that the host itself raised.
    errors: HashSet<String>,
}

struct Call {
    name: String,
    arguments: Arguments,
    /// `None` while the call is in progress.
    answer: Option<Result<Value, ToolError>>,
}

impl Recording {
    pub(crate) fn of(host: Arc<dyn Host>) -> Self {
        let log = Log { calls: Vec::new(), bytes: 0, is_complete: true, errors: HashSet::new() };
        Self { host, log: Mutex::new(log), printed: AtomicUsize::new(0) }
    }

    /// Whether another engine may succeed after this failure.
    pub(crate) fn may_help(&self, failure: &Failure) -> bool {
        let Failure::Raised { exception, message, .. } = failure else { return false };
        let log = self.log.lock();
        log.is_complete && onetool_sandbox::may_lack(exception) && !log.errors.contains(message)
    }

    /// The same host, for repeating the run. `stop` ends a run that diverges.
    pub(crate) fn replay(&self, stop: CancellationToken) -> Replay {
        let calls = std::mem::take(&mut self.log.lock().calls);
        Replay {
            host: self.host.clone(),
            left: Mutex::new(calls),
            strayed: AtomicBool::new(false),
            stop,
            shown: AtomicUsize::new(self.printed.load(Ordering::Relaxed)),
        }
    }

    fn noted<T>(&self, answer: Result<T, ToolError>) -> Result<T, ToolError> {
        if let Err(error) = &answer {
            let mut log = self.log.lock();
            if log.errors.len() < MAX_ERRORS {
                log.errors.insert(error.text());
            } else {
                log.is_complete = false;
            }
        }
        answer
    }
}

impl Log {
    /// Records that a call begins; returns its index.
    fn begin(&mut self, name: String, arguments: &Arguments) -> Option<usize> {
        let values = arguments.positional.iter().chain(arguments.named.values());
        self.take(values.map(|value| weight(value, MAX_BYTES)).sum());
        self.is_complete &= self.calls.len() < MAX_CALLS;
        self.is_complete.then(|| {
            self.calls.push(Call { name, arguments: arguments.clone(), answer: None });
            self.calls.len() - 1
        })
    }

    fn end(&mut self, place: Option<usize>, answer: &Result<Value, ToolError>) {
        self.take(answer.as_ref().map_or(0, |value| weight(value, MAX_BYTES)));
        if !self.is_complete {
            // An incomplete recording is useless.
            self.calls = Vec::new();
        }
        if let Some(call) = place.and_then(|place| self.calls.get_mut(place)) {
            call.answer = Some(answer.clone());
        }
    }

    fn take(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.is_complete &= self.bytes <= MAX_BYTES;
    }
}

#[async_trait]
impl Host for Recording {
    fn lookup(&self, name: &str) -> Result<Lookup, ToolError> {
        self.noted(self.host.lookup(name))
    }

    fn attribute(&self, pack: &str, name: &str) -> Result<Lookup, ToolError> {
        self.noted(self.host.attribute(pack, name))
    }

    fn printed(&self, text: &str) {
        self.printed.fetch_add(text.len(), Ordering::Relaxed);
        self.host.printed(text);
    }

    fn now(&self) -> Option<DateTime<Utc>> {
        self.host.now()
    }

    fn seed(&self) -> Option<u64> {
        self.host.seed()
    }

    async fn call(&self, target: CallTarget, arguments: Arguments) -> Result<Value, ToolError> {
        let name = full_name(&target, &*self.host);
        let place = self.log.lock().begin(name, &arguments);
        let answer = self.host.call(target, arguments).await;
        self.log.lock().end(place, &answer);
        self.noted(answer)
    }
}

/// A host that answers from the recording first.
pub(crate) struct Replay {
    host: Arc<dyn Host>,
    /// Recorded calls that have not been requested again.
    left: Mutex<Vec<Call>>,
    strayed: AtomicBool,
    stop: CancellationToken,
    /// Bytes of printed text that the host received the first time and that have not been printed again.
    shown: AtomicUsize,
}

impl Replay {
    /// Whether the program made a different call than the first time.
    pub(crate) fn has_strayed(&self) -> bool {
        self.strayed.load(Ordering::Relaxed)
    }

    /// Returns the recorded answer; `None` if all have been given.
    fn answer(&self, target: &CallTarget, arguments: &Arguments) -> Option<Result<Value, ToolError>> {
        let mut left = self.left.lock();
        if left.is_empty() {
            return None;
        }
        let name = full_name(target, &*self.host);
        let made = left.iter().position(|call| call.name == name && call.arguments == *arguments);
        let answer = made.map(|place| left.remove(place)).and_then(|call| call.answer);
        Some(answer.unwrap_or_else(|| {
            self.strayed.store(true, Ordering::Relaxed);
            self.stop.cancel();
            Err(ToolError::internal("the run went another way than before"))
        }))
    }
}

#[async_trait]
impl Host for Replay {
    fn lookup(&self, name: &str) -> Result<Lookup, ToolError> {
        self.host.lookup(name)
    }

    fn attribute(&self, pack: &str, name: &str) -> Result<Lookup, ToolError> {
        self.host.attribute(pack, name)
    }

    fn printed(&self, text: &str) {
        let known = self.shown.load(Ordering::Relaxed).min(text.len());
        self.shown.fetch_sub(known, Ordering::Relaxed);
        if let Some(new) = text.get(known..).filter(|new| !new.is_empty()) {
            self.host.printed(new);
        }
    }

    fn progress(&self, text: &str) {
        self.host.progress(text);
    }

    fn now(&self) -> Option<DateTime<Utc>> {
        self.host.now()
    }

    fn seed(&self) -> Option<u64> {
        self.host.seed()
    }

    async fn call(&self, target: CallTarget, arguments: Arguments) -> Result<Value, ToolError> {
        // Requests by the engine itself are not recorded calls of the program.
        if matches!(&target, CallTarget::Function(name) if name == CLOCK || name == REPEATING) {
            return self.host.call(target, arguments).await;
        }
        match self.answer(&target, &arguments) {
            Some(answer) => answer,
            None => self.host.call(target, arguments).await,
        }
    }
}

/// Normalises a call's name: engines pass pack functions in two forms, and aliases by their own name or their target.
fn full_name(target: &CallTarget, host: &dyn Host) -> String {
    match target {
        CallTarget::Function(name) if name.contains('.') => name.clone(),
        CallTarget::Function(name) => match host.lookup(name) {
            Ok(Lookup::Function(function)) => function,
            _ => name.clone(),
        },
        CallTarget::Method { pack, function } => format!("{pack}.{function}"),
    }
}

/// Approximate size of a value in bytes; stops counting at `limit`.
pub(crate) fn weight(value: &Value, limit: usize) -> usize {
    let mut bytes = VALUE_BYTES;
    let mut waiting = vec![value];
    while let Some(value) = waiting.pop() {
        bytes += VALUE_BYTES;
        match value {
            Value::Str(text) | Value::Path(text) | Value::Opaque(text) => bytes += text.len(),
            Value::Bytes(raw) => bytes += raw.len(),
            Value::List(items) | Value::Tuple(items) | Value::Set(items) | Value::FrozenSet(items) => {
                waiting.extend(items);
            }
            Value::Dict(pairs) => waiting.extend(pairs.iter().flat_map(|(key, value)| [key, value])),
            Value::Record { fields, .. } => waiting.extend(fields.iter().map(|(_, value)| value)),
            Value::BigInt(number) => bytes += usize::try_from(number.bits() / 8).unwrap_or(limit),
            // Images and similar content.
            Value::Part(_) => bytes = limit,
            Value::None
            | Value::Bool(_)
            | Value::Int(_)
            | Value::Float(_)
            | Value::Date(_)
            | Value::DateTime(_)
            | Value::Time(_)
            | Value::TimeDelta(_)
            | Value::Exception { .. } => {}
        }
        if bytes >= limit {
            return limit + 1;
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts its calls and returns the count.
    #[derive(Default)]
    struct Counter(AtomicUsize);

    #[async_trait]
    impl Host for Counter {
        fn lookup(&self, name: &str) -> Result<Lookup, ToolError> {
            Err(ToolError::raised("NameError", format!("no {name}")))
        }

        fn attribute(&self, _: &str, name: &str) -> Result<Lookup, ToolError> {
            Ok(Lookup::Function(name.to_owned()))
        }

        async fn call(&self, _: CallTarget, _: Arguments) -> Result<Value, ToolError> {
            Ok(Value::Int(self.0.fetch_add(1, Ordering::Relaxed) as i64))
        }
    }

    fn method(function: &str) -> CallTarget {
        CallTarget::Method { pack: "p".to_owned(), function: function.to_owned() }
    }

    fn one(text: &str) -> Arguments {
        Arguments { positional: vec![Value::from(text)], ..Arguments::default() }
    }

    fn raised(exception: &str, message: &str) -> Failure {
        Failure::Raised { exception: exception.to_owned(), message: message.to_owned(), frames: Vec::new() }
    }

    #[tokio::test]
    async fn what_was_called_is_answered_and_only_the_rest_is_called() {
        let recording = Recording::of(Arc::new(Counter::default()));
        recording.call(method("f"), one("a")).await.unwrap();
        recording.call(method("f"), one("b")).await.unwrap();
        assert!(recording.may_help(&raised("TypeError", "x")));
        let replay = recording.replay(CancellationToken::new());
        // In another order, as concurrent calls may be.
        let target = CallTarget::Function("p.f".to_owned());
        assert_eq!(replay.call(target, one("b")).await, Ok(Value::Int(1)));
        assert_eq!(replay.call(method("f"), one("a")).await, Ok(Value::Int(0)));
        assert_eq!(replay.call(method("f"), one("a")).await, Ok(Value::Int(2)));
        assert!(!replay.has_strayed());
    }

    /// Collects what is printed.
    #[derive(Default)]
    struct Screen(Mutex<String>);

    #[async_trait]
    impl Host for Screen {
        fn lookup(&self, _: &str) -> Result<Lookup, ToolError> {
            Ok(Lookup::Undefined)
        }

        fn attribute(&self, _: &str, _: &str) -> Result<Lookup, ToolError> {
            Ok(Lookup::Undefined)
        }

        fn printed(&self, text: &str) {
            self.0.lock().push_str(text);
        }

        async fn call(&self, _: CallTarget, _: Arguments) -> Result<Value, ToolError> {
            Ok(Value::None)
        }
    }

    #[test]
    fn what_was_printed_is_not_shown_twice() {
        let screen = Arc::new(Screen::default());
        let recording = Recording::of(screen.clone());
        recording.printed("one\ntwo\n");
        let replay = recording.replay(CancellationToken::new());
        for piece in ["one\n", "two\nth", "ree\n"] {
            replay.printed(piece);
        }
        assert_eq!(*screen.0.lock(), "one\ntwo\nthree\n");
    }

    #[tokio::test]
    async fn another_call_than_before_is_not_made() {
        let host = Arc::new(Counter::default());
        let recording = Recording::of(host.clone());
        recording.call(method("f"), one("a")).await.unwrap();
        let stop = CancellationToken::new();
        let replay = recording.replay(stop.clone());
        replay.call(method("f"), one("z")).await.unwrap_err();
        assert!(replay.has_strayed() && stop.is_cancelled());
        assert_eq!(host.0.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn no_second_run_for_what_the_host_raised_or_what_was_not_kept() {
        let recording = Recording::of(Arc::new(Counter::default()));
        recording.lookup("x").unwrap_err();
        assert!(!recording.may_help(&raised("ValueError", "no x")));
        assert!(!recording.may_help(&raised("ZeroDivisionError", "division by zero")));
        assert!(!recording.may_help(&Failure::Memory));
        assert!(recording.may_help(&raised("ValueError", "other")));
        recording.call(method("f"), one(&"x".repeat(MAX_BYTES))).await.unwrap();
        assert!(!recording.may_help(&raised("ValueError", "other")));
    }
}
