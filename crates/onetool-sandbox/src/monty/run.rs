//! The exchange of messages with a child during one run.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use onetool_sdk::{Arguments, ToolError, Value};
use tokio::time::Instant;

use super::clocks;
use super::convert::put_value;
use super::files::Files;
use super::objects::{HostObject, Objects};
use super::process::Process;
use super::wire::events::{CallEvent, Event, FailedEvent};
use super::wire::requests::{
    put_answer, put_call_id, put_global, put_pending, put_raise, put_resolved, put_return, put_run, put_unknown,
};
use super::wire::{HostClass, MAX_DEPTH, ValueWriter};
use crate::budget::{Budget, weight};
use crate::choose::is_builtin;
use crate::execution::{Failure, Frame, Limits, Program, shown_message};
#[cfg(unix)]
use crate::pipe::Talk;
use crate::{CallTarget, Host, Lookup, WrittenName};

/// Lookups of names and attributes allowed per call of [`Limits::max_calls`].
const LOOKUPS_PER_CALL: usize = 8;

/// Maximum number of concurrent awaited calls of one program; more wait.
const MAX_CONCURRENT_CALLS: usize = 64;

/// A child ends its program at the limit itself. One that does not is killed after this much more time.
const COMPUTE_GRACE: Duration = Duration::from_secs(2);

/// A child that dies without any message after this long died because of the program.
const READING_TIME: Duration = Duration::from_millis(100);

/// How a conversation ended without a value.
pub(super) enum Stopped {
    /// The child is intact and can serve the next run.
    Reusable(Failure),
    /// The child is gone or in an unknown state.
    Discard(Failure),
}

/// Printed text, up to a limit.
pub(super) struct Printed {
    pub(super) text: String,
    pub(super) truncated: bool,
    max_bytes: usize,
}

impl Printed {
    /// Appends as much of the text as fits, and returns that part.
    fn push<'a>(&mut self, text: &'a str) -> Option<&'a str> {
        let room = self.max_bytes.saturating_sub(self.text.len());
        let end = (0..=room.min(text.len())).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
        self.text.push_str(&text[..end]);
        self.truncated |= end < text.len();
        (end > 0).then_some(&text[..end])
    }
}

type CallResult = Result<Value, ToolError>;

/// The state of one run.
pub(super) struct Run<'a> {
    limits: &'a Limits,
    host: Arc<dyn Host>,
    objects: Objects,
    printed: Printed,
    /// Pending calls that the code awaits.
    pending: FuturesUnordered<BoxFuture<'static, (u32, usize, CallResult)>>,
    /// Size of the arguments of these calls, in bytes.
    held: usize,
    /// Calls that have ended and that the code has not requested yet.
    finished: Vec<(u32, CallResult)>,
    /// Size of their results, in bytes.
    kept: usize,
    /// Messages of exceptions whose type the interpreter lacks, with their real type.
    renamed: Vec<(String, String)>,
    calls: usize,
    lookups: usize,
    /// How long the child has computed, as measured by the server.
    computed: Duration,
    /// Whether the child has sent anything.
    heard: bool,
    #[cfg(unix)]
    talk: Talk,
}

impl<'a> Run<'a> {
    pub(super) fn new(limits: &'a Limits, host: Arc<dyn Host>) -> Self {
        Self {
            limits,
            host,
            objects: Objects::default(),
            printed: Printed { text: String::new(), truncated: false, max_bytes: limits.max_printed },
            pending: FuturesUnordered::new(),
            held: 0,
            kept: 0,
            finished: Vec::new(),
            renamed: Vec::new(),
            calls: 0,
            lookups: 0,
            computed: Duration::ZERO,
            heard: false,
            #[cfg(unix)]
            talk: Talk::begin(),
        }
    }

    pub(super) fn limits(&self) -> &Limits {
        self.limits
    }

    /// Whether the child probably died before it read the program. In any case the program has done nothing.
    pub(super) fn is_untouched(&self) -> bool {
        !self.heard && self.computed < READING_TIME
    }

    /// Returns the printed text, and how many calls reached the host.
    pub(super) fn into_account(self) -> (Printed, usize) {
        (self.printed, self.calls)
    }

    /// Runs a program in a child and returns its value, and those of the names to read back.
    pub(super) async fn drive(
        &mut self,
        process: &mut Process,
        program: &Program,
    ) -> Result<(Value, Vec<(String, Value)>), Stopped> {
        self.start(process, program);
        loop {
            let event = self.turn(process).await.map_err(Stopped::Discard)?;
            match event {
                // The next event follows without an answer.
                Event::Print(_) => {}
                Event::Done { value, read_back } => return Ok((value, read_back)),
                Event::Failed(failed) => return Err(self.failed(failed)),
                Event::Lookup { name, object } => {
                    self.lookups += 1;
                    if self.lookups > self.limits.max_calls.saturating_mul(LOOKUPS_PER_CALL) {
                        return Err(Stopped::Discard(Failure::Calls(self.limits.max_calls)));
                    }
                    self.look_up(process, &name, object);
                }
                Event::OsCall { function, arguments } => {
                    self.lookups += 1;
                    if self.lookups > self.limits.max_calls.saturating_mul(LOOKUPS_PER_CALL) {
                        return Err(Stopped::Discard(Failure::Calls(self.limits.max_calls)));
                    }
                    let answer = match clocks::answer(&function, &arguments, &*self.host) {
                        Some(value) => Some(Ok(value)),
                        None => self.file(program, &function, &arguments).await?,
                    };
                    put_answer(process.begin());
                    match answer {
                        Some(answer) => self.put_result(process, answer),
                        None => put_unknown(process.message()),
                    }
                }
                Event::Call(call) => {
                    self.calls += 1;
                    if self.calls > self.limits.max_calls {
                        return Err(Stopped::Discard(Failure::Calls(self.limits.max_calls)));
                    }
                    self.call(process, call).await?;
                }
                Event::Await(calls) => self.resolve(process, &calls).await,
            }
        }
    }

    /// Writes the request to run a program. Packs that it will need are sent along, which saves a lookup each. A
    /// builtin of the same name takes precedence, as it would in a lookup.
    fn start(&mut self, process: &mut Process, program: &Program) {
        let is_pack = |name: &&String| !is_builtin(name) && matches!(self.host.lookup(name), Ok(Lookup::Pack(_)));
        let packs: Vec<&String> = program.packs.iter().filter(is_pack).collect();
        let message = process.begin();
        put_run(message, program, self.limits, Budget::max_message_bytes(self.limits), packs.len());
        for name in packs {
            put_global(message, name);
            let pack = match self.host.lookup(name) {
                Ok(Lookup::Pack(pack)) => pack,
                _ => name.clone(),
            };
            ValueWriter(message).host_object(HostClass::Pack, self.objects.pack(&pack), &[]);
        }
    }

    /// Sends the message and waits for an event that needs an answer. The time that the child takes is limited.
    async fn turn(&mut self, process: &mut Process) -> Result<Event<Value>, Failure> {
        let start = Instant::now();
        let left = self.limits.max_compute.saturating_add(COMPUTE_GRACE).saturating_sub(self.computed);
        let exchange = async {
            process.send().await?;
            #[cfg(unix)]
            process.look(&self.talk);
            loop {
                let event = process.receive(self.limits, &mut self.objects).await?;
                self.heard = true;
                match event {
                    Event::Print(text) => {
                        if let Some(new) = self.printed.push(&text) {
                            self.host.printed(new);
                        }
                    }
                    event => return Ok(event),
                }
            }
        };
        let event = match tokio::time::timeout(left, exchange).await {
            Ok(event) => event,
            Err(_) => Err(Failure::Timeout(self.limits.max_compute)),
        };
        self.computed += start.elapsed();
        event
    }

    /// Performs a file operation, which is a tool call.
    async fn file(
        &mut self,
        program: &Program,
        function: &str,
        arguments: &[Value],
    ) -> Result<Option<CallResult>, Stopped> {
        let files = Files {
            host: &*self.host,
            access: program.files,
            folder: &program.folder,
            max_bytes: self.limits.max_memory,
        };
        let answer = files.answer(function, arguments).await;
        if answer.is_some() {
            self.calls += 1;
            if self.calls > self.limits.max_calls {
                return Err(Stopped::Discard(Failure::Calls(self.limits.max_calls)));
            }
        }
        Ok(answer)
    }

    fn look_up(&mut self, process: &mut Process, name: &str, object: Option<u32>) {
        let pack = match object.map(|id| self.objects.get(id)) {
            None => None,
            Some(Some(HostObject::Pack(pack))) => Some(pack.clone()),
            Some(Some(HostObject::Part(_)) | None) => {
                put_answer(process.begin());
                return put_unknown(process.message());
            }
        };
        let found = match &pack {
            Some(pack) => self.host.attribute(pack, name),
            None => self.host.lookup(name),
        };
        put_answer(process.begin());
        match found {
            Ok(Lookup::Pack(pack)) => {
                put_return(process.message());
                ValueWriter(process.message()).host_object(HostClass::Pack, self.objects.pack(&pack), &[]);
            }
            Ok(Lookup::Function(function)) => {
                put_return(process.message());
                let name = match pack {
                    Some(pack) => format!("{pack}.{function}"),
                    None => function,
                };
                ValueWriter(process.message()).function(&name);
            }
            Ok(Lookup::Value(value)) => self.put_result(process, Ok(value)),
            Ok(Lookup::Undefined) => put_unknown(process.message()),
            Err(error) => self.put_result(process, Err(error)),
        }
    }

    async fn call(&mut self, process: &mut Process, call: CallEvent<Value>) -> Result<(), Stopped> {
        let CallEvent { id, object, function, positional, named, weight } = call;
        let arguments = Arguments { positional, named: named.into_iter().collect() };
        let WrittenName { name, is_awaited } = WrittenName::read(&function);
        let function = name.to_owned();
        let target = match object.map(|id| self.objects.get(id)) {
            Some(Some(HostObject::Pack(pack))) => CallTarget::Method { pack: pack.clone(), function },
            Some(Some(HostObject::Part(_)) | None) => {
                put_answer(process.begin());
                put_unknown(process.message());
                return Ok(());
            }
            None => match function.split_once('.') {
                Some((pack, function)) => CallTarget::Method { pack: pack.to_owned(), function: function.to_owned() },
                None => CallTarget::Function(function),
            },
        };
        let host = self.host.clone();
        if is_awaited {
            self.held += weight;
            self.pending.push(Box::pin(async move { (id, weight, host.call(target, arguments).await) }));
            // If too much is pending, the program waits.
            while self.pending.len() > MAX_CONCURRENT_CALLS || self.held > Budget::max_held_bytes(self.limits) {
                if !self.finish_one().await {
                    break;
                }
                // The program itself would run out of memory if it held them all.
                if self.kept > self.limits.max_memory {
                    return Err(Stopped::Discard(Failure::Memory));
                }
            }
            put_answer(process.begin());
            put_pending(process.message());
            return Ok(());
        }
        let result = host.call(target, arguments).await;
        put_answer(process.begin());
        self.put_result(process, result);
        Ok(())
    }

    /// Waits until a pending call has ended. Returns `false` if there is none.
    async fn finish_one(&mut self) -> bool {
        let Some((id, weight, result)) = self.pending.next().await else { return false };
        self.held = self.held.saturating_sub(weight);
        self.kept = self.kept.saturating_add(kept(&result));
        self.finished.push((id, result));
        true
    }

    /// Waits until at least one of the calls has ended, and sends all results that are ready.
    async fn resolve(&mut self, process: &mut Process, wanted: &[u32]) {
        while !self.finished.iter().any(|(id, _)| wanted.contains(id)) {
            if !self.finish_one().await {
                let missing = || Err(ToolError::internal("the awaited call is not under way"));
                self.finished.extend(wanted.iter().map(|&id| (id, missing())));
            }
        }
        let (ready, rest): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.finished).into_iter().partition(|(id, _)| wanted.contains(id));
        self.finished = rest;
        put_resolved(process.begin(), ready.len());
        for (id, result) in ready {
            self.kept = self.kept.saturating_sub(kept(&result));
            put_call_id(process.message(), id);
            self.put_result(process, result);
        }
    }

    /// Adds the result of a call to the message. One that cannot be sent (too large, too deep) becomes an error.
    fn put_result(&mut self, process: &mut Process, result: CallResult) {
        let message = process.message();
        let start = message.len();
        let error = match result {
            Ok(value) => {
                put_return(message);
                let max_bytes = self.limits.max_value_bytes;
                match put_value(message, value, &mut self.objects) {
                    Ok(()) if message.len() - start <= max_bytes => return,
                    Ok(()) => ToolError::raised("RuntimeError", format!("a value has more than {max_bytes} bytes")),
                    Err(_) => {
                        let reason = format!("a value is nested more than {MAX_DEPTH} levels deep");
                        ToolError::raised("RuntimeError", reason)
                    }
                }
            }
            Err(error) => error,
        };
        message.truncate(start);
        let text = raised_text(&error);
        put_raise(message, error.exception(), &text);
        self.renamed.push((text, error.exception().to_owned()));
    }

    fn failed(&self, failed: FailedEvent) -> Stopped {
        match failed {
            FailedEvent::Timeout => Stopped::Reusable(Failure::Timeout(self.limits.max_compute)),
            FailedEvent::Memory => Stopped::Discard(Failure::Memory),
            FailedEvent::TooLarge(reason) => Stopped::Reusable(Failure::TooLarge(reason)),
            FailedEvent::Broken(reason) => Stopped::Discard(Failure::Crashed(reason)),
            FailedEvent::Raised { exception, message, frames } => {
                let real = self.renamed.iter().rev().find(|(text, _)| *text == message);
                let exception = match real {
                    Some((_, real)) if exception == "RuntimeError" => real.clone(),
                    _ => exception,
                };
                let message = shown_message(&exception, &message);
                let frames = frames.into_iter().map(|(line, function)| Frame { line, function }).collect();
                Stopped::Reusable(Failure::Raised { exception, message, frames })
            }
        }
    }
}

/// Size of a result here, in bytes.
fn kept(result: &CallResult) -> usize {
    result.as_ref().map_or(0, weight)
}

/// Returns the exception's argument. A missing key is shown by its `repr`, which the interpreter produces again.
fn raised_text(error: &ToolError) -> String {
    let text = error.text();
    let key = text.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
    match key.filter(|key| error.exception() == "KeyError" && !key.contains(['\'', '\\', '\n'])) {
        Some(key) => key.to_owned(),
        None => text,
    }
}
