//! The parent's side: one pool for all runs, and the conversation with a child during one run.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use monty_pool::{Checkout, Pool, PoolConfig, PoolError, ReplConfig, ResumeValue, TurnEvent, on_print_sync};
use monty_types::{ExcType, MontyException, MontyObject, NameLookupResult, ResourceLimits};
use onetool_sdk::{ToolError, Value};
use parking_lot::Mutex;
use tokio::sync::OnceCell;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::convert::{arguments, exception, from_monty, to_monty};
use super::objects::{HostObject, Objects};
use super::os_calls;
use crate::choose::is_builtin;
use crate::execution::{Execution, Failure, Frame, Limits, Program, shown_message};
use crate::{AWAITED_PREFIX, CallTarget, Host, Lookup};

/// How many children there are.
#[derive(Debug, Clone)]
pub struct MontySettings {
    /// The executable that serves as child when started with [`super::CHILD_ARGUMENT`].
    pub executable: PathBuf,
    /// Children that are started at once and kept.
    pub prewarmed: usize,
    /// Children at the most.
    pub max_children: usize,
    /// Runs that may wait for a child; more are refused.
    pub max_waiting: usize,
    /// How long a run waits for a child.
    pub wait: Duration,
}

/// The engine.
pub struct Monty {
    settings: MontySettings,
    pool: OnceCell<Pool>,
    waiting: AtomicUsize,
    /// Children that are being cleaned up after a run.
    finishing: Mutex<Vec<JoinHandle<()>>>,
}

/// A child is replaced after this many runs, so that no slow leak adds up.
const RUNS_PER_CHILD: u32 = 10_000;

/// Names and attributes are looked up beside calls: this many more suspensions than calls are served.
const LOOKUPS_PER_CALL: usize = 8;

/// Types are checked elsewhere, before a run.
const SKIP_TYPES: bool = true;

impl Monty {
    pub fn new(settings: MontySettings) -> Self {
        Self { settings, pool: OnceCell::new(), waiting: AtomicUsize::new(0), finishing: Mutex::default() }
    }

    /// Starts the children. Called early so that the first run finds them; runs call it too.
    pub async fn warm_up(&self) -> Result<(), Failure> {
        self.pool().await.map(drop)
    }

    /// Ends the idle children.
    pub async fn shutdown(&self) {
        if let Some(pool) = self.pool.get() {
            pool.close().await;
        }
    }

    async fn pool(&self) -> Result<&Pool, Failure> {
        let start = || async {
            let mut config = PoolConfig::subprocess(&self.settings.executable);
            config.max_processes = self.settings.max_children.max(1);
            config.min_processes = self.settings.prewarmed.min(config.max_processes);
            config.checkout_timeout = Some(self.settings.wait);
            config.max_checkouts_per_worker = Some(RUNS_PER_CHILD);
            Pool::new(config).await
        };
        self.pool.get_or_try_init(start).await.map_err(|error| Failure::Unavailable(error.to_string()))
    }

    /// Runs a program.
    pub async fn execute(
        &self,
        program: &Program,
        limits: &Limits,
        host: Arc<dyn Host>,
        cancel: CancellationToken,
    ) -> Execution {
        let mut run = Run {
            limits,
            host,
            objects: Objects::default(),
            printed: Printed { text: String::new(), truncated: false, cap: limits.max_printed },
            pending: FuturesUnordered::new(),
            finished: Vec::new(),
            renamed: Vec::new(),
            calls: 0,
        };
        let mut read_back = Vec::new();
        let outcome = tokio::select! {
            outcome = self.converse(program, &mut run, &mut read_back) => outcome,
            () = cancel.cancelled() => Err(Failure::Cancelled),
            () = tokio::time::sleep(limits.timeout) => Err(Failure::Timeout(limits.timeout)),
        };
        Execution {
            result: outcome,
            printed: run.printed.text,
            printed_truncated: run.printed.truncated,
            read_back,
            calls: run.calls,
        }
    }

    async fn converse(
        &self,
        program: &Program,
        run: &mut Run<'_>,
        read_back: &mut Vec<(String, Value)>,
    ) -> Result<Value, Failure> {
        if program.code.len() > run.limits.max_source {
            return Err(Failure::TooLarge(format!(
                "the code has {} bytes; at most {} are allowed",
                program.code.len(),
                run.limits.max_source
            )));
        }
        let mut checkout = self.check_out(program, run.limits).await?;
        let packs = run.packs(&program.packs);
        match run.drive(&mut checkout, &program.code, packs).await {
            Ok(value) => {
                for name in &program.read_back {
                    if let Ok(value) = run.drive(&mut checkout, name, Vec::new()).await {
                        read_back.push((name.clone(), value));
                    }
                }
                self.finish_later(checkout);
                Ok(value)
            }
            Err(Stopped::Reusable(failure)) => {
                self.finish_later(checkout);
                Err(failure)
            }
            // Dropping the checkout kills the child.
            Err(Stopped::Discard(failure)) => Err(failure),
        }
    }

    /// Cleans a child up while the reply is on its way.
    fn finish_later(&self, checkout: Checkout) {
        let finishing = tokio::spawn(async move {
            let _ = checkout.finish().await;
        });
        self.finishing.lock().push(finishing);
    }

    async fn check_out(&self, program: &Program, limits: &Limits) -> Result<Checkout, Failure> {
        let pool = self.pool().await?;
        let config = ReplConfig {
            script_name: program.script_name.clone(),
            limits: Some(
                ResourceLimits::default()
                    .max_duration(limits.max_compute)
                    .max_memory(limits.max_memory)
                    .max_recursion_depth(limits.max_recursion)
                    .max_suspensions(limits.max_calls.saturating_mul(LOOKUPS_PER_CALL)),
            ),
            ..ReplConfig::default()
        };
        let waiting = Waiting::enter(&self.waiting);
        if waiting.place > self.settings.max_waiting + self.settings.max_children {
            return Err(Failure::Busy(format!(
                "{} runs are under way or waiting already",
                self.settings.max_waiting + self.settings.max_children
            )));
        }
        // A child that is being cleaned up is free in a moment: sooner than a new one would start.
        let finishing = std::mem::take(&mut *self.finishing.lock());
        for child in finishing {
            let _ = child.await;
        }
        // A child may have died while idle, or between our look and its first request; the next one is fresh.
        let mut attempts = 0;
        loop {
            match pool.checkout(&config).await {
                Ok(checkout) => return Ok(checkout),
                Err(PoolError::Exhausted) => {
                    return Err(Failure::Busy(format!("no sandbox became free within {:?}", self.settings.wait)));
                }
                Err(PoolError::Crashed { .. } | PoolError::Protocol(_)) if attempts < self.settings.max_children => {
                    attempts += 1;
                }
                Err(error) => return Err(Failure::Unavailable(error.to_string())),
            }
        }
    }
}

/// Counts runs between entering the queue and holding a child.
struct Waiting<'a> {
    count: &'a AtomicUsize,
    place: usize,
}

impl<'a> Waiting<'a> {
    fn enter(count: &'a AtomicUsize) -> Self {
        let place = count.fetch_add(1, Ordering::Relaxed) + 1;
        Self { count, place }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How a conversation ended without a value.
enum Stopped {
    /// The child is well and can serve the next run.
    Reusable(Failure),
    /// The child is gone or in an unknown state.
    Discard(Failure),
}

struct Printed {
    text: String,
    truncated: bool,
    cap: usize,
}

impl Printed {
    fn push(&mut self, text: &str) {
        let room = self.cap.saturating_sub(self.text.len());
        if text.len() <= room {
            self.text.push_str(text);
        } else {
            let end = (0..=room).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
            self.text.push_str(&text[..end]);
            self.truncated = true;
        }
    }
}

type Answer = (u32, Result<Value, ToolError>);

/// The state of one run.
struct Run<'a> {
    limits: &'a Limits,
    host: Arc<dyn Host>,
    objects: Objects,
    printed: Printed,
    /// Calls that the code awaits, under way.
    pending: FuturesUnordered<BoxFuture<'static, Answer>>,
    /// Calls that have ended and that the code has not asked for yet.
    finished: Vec<Answer>,
    /// Messages of exceptions whose type the interpreter does not have, with their real type.
    renamed: Vec<(String, String)>,
    calls: usize,
}

impl Run<'_> {
    /// Packs that the program will ask for, handed over with it: each saves a question. A builtin of the same name goes
    /// first, as it would if the program asked.
    fn packs(&mut self, names: &[String]) -> Vec<(String, MontyObject)> {
        let mut packs = Vec::new();
        for name in names.iter().filter(|name| !is_builtin(name)) {
            if let Ok(Lookup::Pack(pack)) = self.host.lookup(name) {
                packs.push((name.clone(), self.objects.pack(&pack)));
            }
        }
        packs
    }

    async fn drive(
        &mut self,
        checkout: &mut Checkout,
        code: &str,
        inputs: Vec<(String, MontyObject)>,
    ) -> Result<Value, Stopped> {
        let mut event = {
            let mut on_print = on_print_sync(|_, text: &str| self.printed.push(text));
            checkout.feed(code, inputs, Vec::new(), SKIP_TYPES, &mut on_print).await
        };
        loop {
            event = match event {
                Err(error) => return Err(self.stopped(error)),
                Ok(TurnEvent::Complete(value)) => return Ok(from_monty(value, &self.objects)),
                Ok(TurnEvent::NameLookup { name, object_id }) => {
                    let answer = self.look_up(&name, object_id.and_then(|id| self.objects.get(id).cloned()));
                    let mut on_print = on_print_sync(|_, text: &str| self.printed.push(text));
                    checkout.resume_name_lookup(answer, &mut on_print).await
                }
                Ok(TurnEvent::OsCall { function_name, args, .. }) => {
                    let answer = os_calls::answer(&function_name, &args);
                    let mut on_print = on_print_sync(|_, text: &str| self.printed.push(text));
                    checkout.resume(answer, &mut on_print).await
                }
                Ok(TurnEvent::FunctionCall { function_name, args, kwargs, call_id, object_id }) => {
                    self.calls += 1;
                    if self.calls > self.limits.max_calls {
                        return Err(Stopped::Discard(Failure::Calls(self.limits.max_calls)));
                    }
                    let answer = self.call(call_id, function_name, args, kwargs, object_id).await;
                    self.resume(checkout, answer).await
                }
                Ok(TurnEvent::ResolveFutures { pending_call_ids }) => {
                    let results = self.resolve(&pending_call_ids).await;
                    let mut on_print = on_print_sync(|_, text: &str| self.printed.push(text));
                    checkout.resume_futures(results, &mut on_print).await
                }
            };
        }
    }

    /// Resumes a call. An answer that cannot be sent (too large, too deep) is raised as an error instead.
    async fn resume(&mut self, checkout: &mut Checkout, answer: ResumeValue) -> Result<TurnEvent, PoolError> {
        let is_value = matches!(answer, ResumeValue::Return(_));
        let mut on_print = on_print_sync(|_, text: &str| self.printed.push(text));
        match checkout.resume(answer, &mut on_print).await {
            Err(PoolError::Runtime(unsent)) if is_value && unsent.traceback().is_empty() => {
                checkout.resume(ResumeValue::Error(unsent), &mut on_print).await
            }
            other => other,
        }
    }

    fn look_up(&mut self, name: &str, object: Option<HostObject>) -> NameLookupResult {
        let found = match &object {
            Some(HostObject::Pack(pack)) => self.host.attribute(pack, name),
            Some(HostObject::Part(_)) => Ok(Lookup::Undefined),
            None => self.host.lookup(name),
        };
        match found {
            Ok(Lookup::Pack(pack)) => NameLookupResult::Value(self.objects.pack(&pack)),
            Ok(Lookup::Function(function)) => {
                let name = match object {
                    Some(HostObject::Pack(pack)) => format!("{pack}.{function}"),
                    _ => function,
                };
                NameLookupResult::Value(MontyObject::Function { name, docstring: None })
            }
            Ok(Lookup::Value(value)) => NameLookupResult::Value(to_monty(value, &mut self.objects)),
            Ok(Lookup::Undefined) => NameLookupResult::Undefined,
            Err(error) => NameLookupResult::Error(self.exception(&error)),
        }
    }

    async fn call(
        &mut self,
        call_id: u32,
        function: String,
        args: Vec<MontyObject>,
        kwargs: Vec<(MontyObject, MontyObject)>,
        object_id: Option<monty_types::MontyUuid>,
    ) -> ResumeValue {
        let arguments = arguments(args, kwargs, &self.objects);
        let (function, awaited) = match function.strip_prefix(AWAITED_PREFIX) {
            Some(function) => (function.to_owned(), true),
            None => (function, false),
        };
        let target = match object_id.and_then(|id| self.objects.get(id)) {
            Some(HostObject::Pack(pack)) => CallTarget::Method { pack: pack.clone(), function },
            Some(HostObject::Part(_)) => return ResumeValue::NotFound,
            None => match function.split_once('.') {
                Some((pack, function)) => CallTarget::Method { pack: pack.to_owned(), function: function.to_owned() },
                None => CallTarget::Function(function),
            },
        };
        let host = self.host.clone();
        if awaited {
            self.pending.push(Box::pin(async move { (call_id, host.call(target, arguments).await) }));
            return ResumeValue::Future;
        }
        match host.call(target, arguments).await {
            Ok(value) => ResumeValue::Return(to_monty(value, &mut self.objects)),
            Err(error) => ResumeValue::Error(self.exception(&error)),
        }
    }

    /// Waits until at least one of the calls has ended, and hands over all that have.
    async fn resolve(&mut self, wanted: &[u32]) -> Vec<(u32, ResumeValue)> {
        while !self.finished.iter().any(|(id, _)| wanted.contains(id)) {
            match self.pending.next().await {
                Some(answer) => self.finished.push(answer),
                None => {
                    return wanted
                        .iter()
                        .map(|&id| {
                            let error = ToolError::internal("the awaited call is not under way");
                            (id, ResumeValue::Error(exception(&error)))
                        })
                        .collect();
                }
            }
        }
        let (ready, rest) = std::mem::take(&mut self.finished).into_iter().partition(|(id, _)| wanted.contains(id));
        self.finished = rest;
        let ready: Vec<Answer> = ready;
        ready
            .into_iter()
            .map(|(id, result)| match result {
                Ok(value) => (id, ResumeValue::Return(to_monty(value, &mut self.objects))),
                Err(error) => (id, ResumeValue::Error(self.exception(&error))),
            })
            .collect()
    }

    fn exception(&mut self, error: &ToolError) -> MontyException {
        let exception = exception(error);
        if exception.exc_type().to_string() != error.exception() {
            self.renamed.push((error.text(), error.exception().to_owned()));
        }
        exception
    }

    fn stopped(&self, error: PoolError) -> Stopped {
        match error {
            PoolError::Runtime(exception) => self.raised(exception),
            PoolError::Timeout { .. } => Stopped::Discard(Failure::Timeout(self.limits.max_compute)),
            other => Stopped::Discard(Failure::Crashed(other.to_string())),
        }
    }

    fn raised(&self, raised: MontyException) -> Stopped {
        let message = raised.message().unwrap_or_default();
        match raised.exc_type() {
            ExcType::TimeoutError if message.starts_with("time limit exceeded") => {
                return Stopped::Reusable(Failure::Timeout(self.limits.max_compute));
            }
            ExcType::MemoryError => return Stopped::Discard(Failure::Memory),
            ExcType::RuntimeError if message.starts_with("suspension limit") => {
                return Stopped::Reusable(Failure::Calls(self.limits.max_calls));
            }
            _ => {}
        }
        let exception = self
            .renamed
            .iter()
            .rev()
            .find(|(text, _)| text == message)
            .map_or_else(|| raised.exc_type().to_string(), |(_, name)| name.clone());
        let frames = raised
            .traceback()
            .iter()
            .map(|frame| Frame { line: frame.start.line, function: frame.frame_name.clone() })
            .collect();
        let message = shown_message(&exception, message);
        Stopped::Reusable(Failure::Raised { exception, message, frames })
    }
}
