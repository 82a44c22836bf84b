//! Runs one program in one child: answers its requests until it is done, fails, or is stopped.
//!
//! Everything happens in one loop, so nothing can deadlock: printed text is always read, answers are written as fast as
//! the child takes them, and requests are read only while there is room for their answers.

use std::collections::{BTreeSet, VecDeque};
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use onetool_sdk::{ErrorKind, ToolError, Value};
use tokio::io::AsyncWriteExt as _;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::child::{Child, Printed};
use super::decode::DecodeError;
use super::encode::is_small;
use super::launch::CANNOT_CONFINE;
use super::protocol::{self, Failed, Message, Order, ReadFailure};
use crate::budget::Budget;
use crate::pipe::Talk;
use crate::{Execution, Failure, Host, Limits, Program};

/// How long an interpreter may take to start.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a child may take to exit after its last message.
const END_GRACE: Duration = Duration::from_millis(200);
/// Maximum number of concurrent calls of one program; more wait in the child.
const MAX_CONCURRENT_CALLS: usize = 64;
/// Bytes of unread answers above which no more requests are read.
const MAX_UNREAD_ANSWERS: usize = 1 << 20;
/// Bytes of unread answers above which no more are prepared: those that a program does not read must not pile up.
const MAX_WAITING_ANSWERS: usize = 4 << 20;
const SEGMENTATION_FAULT: i32 = 11;
/// Messages up to this many bytes are decoded and encoded in the loop; larger ones on a blocking thread.
pub(super) const SMALL_MESSAGE: usize = 16 << 10;
/// Up to this many names are looked up in the loop; more on a blocking thread.
const FEW_NAMES: usize = 32;
/// Lookups of names and attributes allowed per call of [`Limits::max_calls`].
const LOOKUPS_PER_CALL: usize = 8;
/// Lookups allowed whatever the limit on calls.
const MIN_LOOKUPS: usize = 10_000;
/// Extra bytes that a message needs besides its value.
const MESSAGE_OVERHEAD: usize = 64 << 10;

/// Everything a program needs besides its child.
pub(super) struct Conversation<'a> {
    pub(super) program: &'a Program,
    pub(super) limits: &'a Limits,
    pub(super) host: Arc<dyn Host>,
    pub(super) cancel: CancellationToken,
    /// Whether the child waits for another program afterwards.
    pub(super) keeps_names: bool,
}

/// Whether a child can run another program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChildState {
    Alive,
    Ended,
}

/// How the loop ended.
enum Ending {
    Value(Value, Vec<(String, Value)>),
    Failed(Failed),
    Stopped(Failure),
    /// The child closed its end without a result.
    Lost,
}

/// Work that another thread does for the program. No message is read meanwhile.
enum Background {
    Reading(JoinHandle<Result<Message, DecodeError>>),
    Naming(JoinHandle<Vec<u8>>),
}

enum Finished {
    Message(Result<Message, DecodeError>),
    Answer(Vec<u8>),
}

impl Background {
    async fn finish(background: &mut Option<Self>) -> Finished {
        let finished = match background {
            Some(Self::Reading(task)) => Finished::Message(task.await.unwrap_or(Err(DecodeError::Stopped))),
            Some(Self::Naming(task)) => Finished::Answer(task.await.unwrap_or_default()),
            None => std::future::pending().await,
        };
        *background = None;
        finished
    }
}

/// Tells the program's worker threads to stop when it has ended, however it ends.
struct StopGuard(Arc<AtomicBool>);

impl Drop for StopGuard {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Conversation<'_> {
    /// Runs the program. The caller must dismiss or keep a child that is still alive afterwards.
    pub(super) async fn run(&self, child: &mut Child) -> (Execution, ChildState) {
        let mut printed = Printed::new(self.limits.max_printed);
        let mut state = State { calls: 0, lookups: 0, ready: child.is_ready };
        let ending = match self.order(child) {
            Ok(order) => self.converse(child, &mut printed, &mut state, order).await,
            Err(failure) => Ending::Stopped(failure),
        };
        child.is_ready = state.ready;
        let status = if matches!(ending, Ending::Lost) {
            child.end(&mut printed, END_GRACE).await
        } else {
            // Text printed before its last message is already in the pipe.
            printed.drain(&child.printed);
            None
        };
        if state.ready {
            printed.show_rest(&*self.host);
        }
        let after = match ending {
            Ending::Value(..) | Ending::Failed(_) => ChildState::Alive,
            Ending::Stopped(_) | Ending::Lost => ChildState::Ended,
        };
        let (printed, printed_truncated) = printed.finish();
        let (result, read_back) = match ending {
            Ending::Value(value, read_back) => (Ok(value), read_back),
            Ending::Failed(mut failed) => {
                let read_back = std::mem::take(&mut failed.read_back);
                (Err(failure(failed)), read_back)
            }
            Ending::Stopped(failure) => (Err(failure), Vec::new()),
            Ending::Lost => (Err(self.lost(&state, status, &printed)), Vec::new()),
        };
        // Text that a child writes before it runs anything is ours, not the program's.
        let printed = if state.ready { printed } else { String::new() };
        (Execution { result, printed, printed_truncated, read_back, calls: state.calls }, after)
    }

    fn order(&self, child: &Child) -> Result<Vec<u8>, Failure> {
        let order = Order {
            code: &self.program.code,
            script_name: &self.program.script_name,
            read_back: &self.program.read_back,
            files: self.program.files,
            folder: &self.program.folder,
            timeout: self.limits.timeout.as_secs_f64(),
            max_memory: self.limits.max_memory,
            headroom: child.headroom,
            max_recursion: self.limits.max_recursion,
            max_value_bytes: self.limits.max_value_bytes,
            max_value_items: Budget::max_nodes(self.limits),
            keeps_names: self.keeps_names,
            // A session continues with the state that its earlier programs left.
            seed: if self.keeps_names { None } else { self.host.seed() },
        };
        let mut line = serde_json::to_vec(&order).map_err(|error| Failure::Crashed(error.to_string()))?;
        line.push(b'\n');
        Ok(line)
    }

    async fn converse(&self, child: &mut Child, printed: &mut Printed, state: &mut State, order: Vec<u8>) -> Ending {
        let stop = StopGuard(Arc::default());
        let talk = Talk::begin();
        child.lines.set_longest(Budget::max_message_bytes(self.limits).saturating_add(MESSAGE_OVERHEAD));
        let mut answers = Answers::default();
        answers.push(std::mem::take(&mut child.unsent));
        answers.push(order);
        let mut calls: FuturesUnordered<BoxFuture<'static, Ended>> = FuturesUnordered::new();
        // The one large result being encoded on a thread. No other is taken meanwhile, so that few are held at once.
        let mut writing: Option<JoinHandle<Answered>> = None;
        let mut background: Option<Background> = None;
        let mut unanswered = BTreeSet::new();
        // Total size of the arguments of pending calls, in bytes.
        let mut held = 0_usize;
        let mut printing = true;
        // The child has just been sent an answer and is expected to reply immediately.
        let mut is_prompt = false;
        let mut deadline = Instant::now() + if state.ready { self.limits.timeout } else { START_TIMEOUT };
        // The program's remaining compute time. The clock stops while it waits for the host.
        let mut compute_left = self.limits.max_compute;
        let mut computing_since: Option<Instant> = None;
        // Both are created once: registering a timer or a cancellation costs more than a tool call.
        let cancelled = self.cancel.cancelled();
        let alarm = tokio::time::sleep_until(deadline);
        tokio::pin!(cancelled, alarm);
        loop {
            let now = Instant::now();
            if !state.ready || !calls.is_empty() || writing.is_some() {
                compute_left =
                    compute_left.saturating_sub(computing_since.take().map_or(Duration::ZERO, |since| now - since));
            } else if computing_since.is_none() {
                computing_since = Some(now);
            }
            let compute_end = computing_since.map(|since| since + compute_left);
            // An alarm that fires too early is set again.
            let earliest = compute_end.map_or(deadline, |end| end.min(deadline));
            if earliest < alarm.deadline() {
                alarm.as_mut().reset(earliest);
            }
            let room = background.is_none()
                && answers.bytes < MAX_UNREAD_ANSWERS
                && calls.len() + usize::from(writing.is_some()) < MAX_CONCURRENT_CALLS
                && held <= Budget::max_held_bytes(self.limits);
            // The order matters: the loop does not sleep on a child whose answer is still to be written.
            let message = tokio::select! {
                biased;
                () = &mut cancelled => return Ending::Stopped(Failure::Cancelled),
                () = &mut alarm => {
                    let now = Instant::now();
                    if compute_end.is_some_and(|end| end <= now) {
                        return Ending::Stopped(Failure::Timeout(self.limits.max_compute));
                    }
                    if deadline <= now {
                        return Ending::Stopped(if state.ready {
                            Failure::Timeout(self.limits.timeout)
                        } else {
                            Failure::Unavailable(format!("Python did not start in {} s", START_TIMEOUT.as_secs()))
                        });
                    }
                    alarm.as_mut().reset(earliest);
                    continue;
                }
                written = child.input.write(answers.front()), if !answers.is_empty() => {
                    match written {
                        Ok(count) => {
                            answers.written(count);
                            let is_idle = answers.is_empty() && calls.is_empty() && writing.is_none() && child.lines.is_empty();
                            if std::mem::take(&mut is_prompt) && is_idle {
                                talk.look(&mut child.output);
                            }
                        }
                        // The child no longer reads; its last message or its exit says why.
                        Err(_) => answers.clear(),
                    }
                    continue;
                }
                Some(ended) = calls.next(), if !calls.is_empty() && writing.is_none() && answers.bytes < MAX_WAITING_ANSWERS => {
                    if ended.result.as_ref().is_ok_and(|value| !is_small(value)) {
                        let stop = Arc::clone(&stop.0);
                        let limit = self.limits.max_value_bytes;
                        writing = Some(tokio::task::spawn_blocking(move || ended.answer(limit, &stop)));
                        continue;
                    }
                    let answered = ended.answer(self.limits.max_value_bytes, &stop.0);
                    unanswered.remove(&answered.id);
                    held = held.saturating_sub(answered.weight);
                    answers.push(answered.line);
                    is_prompt = true;
                    continue;
                }
                written_down = Answered::finish(&mut writing), if writing.is_some() => {
                    // If the thread fails, the call gets no answer and the deadline ends it.
                    if let Some(answered) = written_down {
                        unanswered.remove(&answered.id);
                        held = held.saturating_sub(answered.weight);
                        answers.push(answered.line);
                    }
                    continue;
                }
                finished = Background::finish(&mut background), if background.is_some() => match finished {
                    Finished::Message(message) => message,
                    Finished::Answer(answer) => {
                        answers.push(answer);
                        continue;
                    }
                },
                line = child.lines.next(&mut child.output), if room => match line {
                    Ok(line) if line.len() <= SMALL_MESSAGE => {
                        protocol::message(&line, Budget::new(self.limits), &stop.0)
                    }
                    Ok(line) => {
                        background = Some(self.read_in_background(line, &stop));
                        continue;
                    }
                    Err(ReadFailure::Ended) => return Ending::Lost,
                    Err(ReadFailure::TooLong) => return Ending::Stopped(self.too_large()),
                },
                more = printed.read(&mut child.printed), if printing => {
                    printing = more;
                    if state.ready {
                        printed.show_new(&*self.host);
                    }
                    continue;
                }
            };
            match message {
                Ok(Message::Ready) if !state.ready => {
                    state.ready = true;
                    deadline = Instant::now() + self.limits.timeout;
                }
                Ok(Message::Unavailable(reason)) => return Ending::Stopped(Failure::Unavailable(reason)),
                Ok(Message::Lookup { id, names }) => {
                    if let Err(failure) = self.count_lookups(state, names.len()) {
                        return Ending::Stopped(failure);
                    }
                    if names.len() <= FEW_NAMES {
                        answers.push(protocol::line(&protocol::names_answer(id, &names, &*self.host, &stop.0)));
                    } else {
                        background = Some(self.look_up_in_background(id, names, &stop));
                    }
                }
                Ok(Message::Attribute { id, pack, name }) => {
                    if let Err(failure) = self.count_lookups(state, 1) {
                        return Ending::Stopped(failure);
                    }
                    answers.push(protocol::line(&protocol::attribute_answer(id, &pack, &name, &*self.host)));
                }
                Ok(Message::Call { id, target, arguments, weight }) => {
                    if state.calls >= self.limits.max_calls {
                        return Ending::Stopped(Failure::Calls(self.limits.max_calls));
                    }
                    state.calls += 1;
                    let host = Arc::clone(&self.host);
                    unanswered.insert(id);
                    held += weight;
                    calls.push(Box::pin(
                        async move { Ended { id, weight, result: host.call(target, arguments).await } },
                    ));
                }
                Ok(Message::Done { value, read_back }) => {
                    self.leave(child, answers, &unanswered);
                    return Ending::Value(value, read_back);
                }
                Ok(Message::Failed(failed)) => {
                    self.leave(child, answers, &unanswered);
                    return Ending::Failed(failed);
                }
                Err(DecodeError::Budget(exceeded)) => {
                    return Ending::Stopped(Failure::TooLarge(exceeded.to_string()));
                }
                Ok(Message::Ready) | Err(DecodeError::Malformed(..) | DecodeError::Stopped) => {
                    let reason = "the program disturbed the protocol of its sandbox".to_owned();
                    return Ending::Stopped(Failure::Crashed(reason));
                }
            }
        }
    }

    /// Keeps unsent answers for the child's next program. Calls that end with this program are answered with that
    /// error, because a thread that the program left behind may wait for them.
    fn leave(&self, child: &mut Child, answers: Answers, unanswered: &BTreeSet<u64>) {
        if !self.keeps_names {
            return;
        }
        child.unsent = answers.into_bytes();
        let ended = ToolError::new(ErrorKind::Cancelled, "the run that made this call has ended");
        for id in unanswered {
            child.unsent.extend(protocol::call_answer(*id, &Err(ended.clone()), usize::MAX, &AtomicBool::new(false)));
        }
    }

    fn read_in_background(&self, line: Vec<u8>, stop: &StopGuard) -> Background {
        let (budget, stop) = (Budget::new(self.limits), Arc::clone(&stop.0));
        Background::Reading(tokio::task::spawn_blocking(move || protocol::message(&line, budget, &stop)))
    }

    fn look_up_in_background(&self, id: u64, names: Vec<String>, stop: &StopGuard) -> Background {
        let (host, stop) = (Arc::clone(&self.host), Arc::clone(&stop.0));
        Background::Naming(tokio::task::spawn_blocking(move || {
            protocol::line(&protocol::names_answer(id, &names, &*host, &stop))
        }))
    }

    fn count_lookups(&self, state: &mut State, names: usize) -> Result<(), Failure> {
        state.lookups = state.lookups.saturating_add(names);
        let limit = self.limits.max_calls.saturating_mul(LOOKUPS_PER_CALL).max(MIN_LOOKUPS);
        if state.lookups <= limit {
            return Ok(());
        }
        Err(Failure::TooLarge(format!("the program looked up more than {limit} names")))
    }

    fn too_large(&self) -> Failure {
        Failure::TooLarge(format!("a value of more than {} bytes", self.limits.max_value_bytes))
    }

    /// Interprets the end of a child without a result.
    fn lost(&self, state: &State, status: Option<ExitStatus>, printed: &str) -> Failure {
        if !state.ready {
            let reason = printed.trim();
            let confined = status.and_then(|status| status.code()) == Some(CANNOT_CONFINE);
            return Failure::Unavailable(if confined {
                format!(
                    "full Python cannot be confined here: {reason}\nhint: use the monty engine, or opt in to unconfined Python in the configuration"
                )
            } else {
                format!("Python did not start: {reason}")
            });
        }
        match status.and_then(|status| status.signal()) {
            // The limits that the child set for itself: processor time and the alarm.
            Some(24 | 14) => Failure::Timeout(self.limits.timeout),
            // Where only Python's own code runs, the only possible cause is a stack overflow.
            Some(SEGMENTATION_FAULT) => Failure::Raised {
                exception: "RecursionError".to_owned(),
                message: "the program recursed deeper than its stack allows, and its process ended".to_owned(),
                frames: Vec::new(),
            },
            Some(signal) => Failure::Crashed(format!("the Python process was ended by signal {signal}")),
            None => Failure::Crashed(match status.and_then(|status| status.code()) {
                Some(code) => format!("the Python process ended itself with status {code}"),
                None => "the Python process closed its side and went on".to_owned(),
            }),
        }
    }
}

/// A call that has ended.
struct Ended {
    id: u64,
    /// Size of its arguments.
    weight: usize,
    result: Result<Value, ToolError>,
}

impl Ended {
    fn answer(self, limit: usize, stop: &AtomicBool) -> Answered {
        let line = protocol::call_answer(self.id, &self.result, limit, stop);
        Answered { id: self.id, weight: self.weight, line }
    }
}

/// A call whose answer is ready.
struct Answered {
    id: u64,
    weight: usize,
    line: Vec<u8>,
}

impl Answered {
    async fn finish(writing: &mut Option<JoinHandle<Self>>) -> Option<Self> {
        let answered = match writing {
            Some(task) => task.await.ok(),
            None => std::future::pending().await,
        };
        *writing = None;
        answered
    }
}

struct State {
    calls: usize,
    lookups: usize,
    ready: bool,
}

/// Lines to be written to the child.
#[derive(Default)]
struct Answers {
    lines: VecDeque<Vec<u8>>,
    /// How many bytes of the first line are written.
    offset: usize,
    bytes: usize,
}

impl Answers {
    fn push(&mut self, line: Vec<u8>) {
        if line.is_empty() {
            return;
        }
        self.bytes += line.len();
        self.lines.push_back(line);
    }

    fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    fn front(&self) -> &[u8] {
        self.lines.front().map_or(&[], |line| &line[self.offset..])
    }

    fn written(&mut self, count: usize) {
        self.offset += count;
        self.bytes -= count;
        if self.lines.front().is_some_and(|line| line.len() == self.offset) {
            self.lines.pop_front();
            self.offset = 0;
        }
    }

    fn clear(&mut self) {
        *self = Self::default();
    }

    /// Returns the bytes that are not written yet.
    fn into_bytes(mut self) -> Vec<u8> {
        if let Some(first) = self.lines.front_mut() {
            first.drain(..self.offset);
        }
        self.lines.into_iter().flatten().collect()
    }
}

fn failure(failed: Failed) -> Failure {
    if failed.too_large {
        return Failure::TooLarge(failed.message);
    }
    if failed.exception == "MemoryError" {
        return Failure::Memory;
    }
    Failure::Raised { exception: failed.exception, message: failed.message, frames: failed.frames }
}
