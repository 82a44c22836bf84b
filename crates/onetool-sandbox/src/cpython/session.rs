//! One program in one child: answers its requests until it is done, fails, or is stopped.
//!
//! Everything happens in one loop, so that nothing can wait for nothing: printed text is always read, answers are
//! written as fast as the child takes them, and requests are read only while there is room for their answers.

use std::collections::VecDeque;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use onetool_sdk::{Arguments, ErrorKind, ToolError, Value, WireError};
use serde_json::Value as Json;
use tokio::io::AsyncWriteExt as _;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::child::{Child, Printed};
use super::launch::CANNOT_CONFINE;
use super::protocol::{self, Failed, Lines, Message, Order, ReadFailure};
use crate::{CallTarget, Execution, Failure, Host, Limits, Program};

/// How long an interpreter may take to start.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a child may take to end by itself after its last message.
const END_GRACE: Duration = Duration::from_millis(200);
/// Calls of one program that run at once; more wait in the child.
const MAX_CONCURRENT_CALLS: usize = 64;
/// Bytes of answers that the child has not taken yet, above which no more requests are read.
const MAX_UNREAD_ANSWERS: usize = 1 << 20;
const SEGMENTATION_FAULT: i32 = 11;
/// What a message needs besides its value.
const MESSAGE_OVERHEAD: usize = 64 << 10;

/// What a session needs besides the child.
pub(super) struct Session<'a> {
    pub(super) program: &'a Program,
    pub(super) limits: &'a Limits,
    pub(super) host: Arc<dyn Host>,
    pub(super) cancel: CancellationToken,
    pub(super) wall: Option<&'a str>,
    pub(super) wall_required: bool,
}

/// How the loop ended.
enum Ending {
    Value(Json, Vec<(String, Json)>),
    Failed(Failed),
    Stopped(Failure),
    /// The child closed its end without a result.
    Lost,
}

type Answered = (u64, Result<Value, ToolError>);

impl Session<'_> {
    pub(super) async fn run(self, mut child: Child) -> Execution {
        let mut printed = Printed::new(self.limits.max_printed);
        let mut state = State { calls: 0, ready: false };
        let ending = match self.order() {
            Ok(order) => self.converse(&mut child, &mut printed, &mut state, order).await,
            Err(failure) => Ending::Stopped(failure),
        };
        let grace = if matches!(ending, Ending::Stopped(_)) { Duration::ZERO } else { END_GRACE };
        let status = child.end(&mut printed, grace).await;
        let (printed, printed_truncated) = printed.finish();
        let (result, read_back) = match ending {
            Ending::Value(value, read_back) => (received(value), read_back),
            Ending::Failed(mut failed) => {
                let read_back = std::mem::take(&mut failed.read_back);
                (Err(failure(failed)), read_back)
            }
            Ending::Stopped(failure) => (Err(failure), Vec::new()),
            Ending::Lost => (Err(self.lost(&state, status, &printed)), Vec::new()),
        };
        let read_back =
            read_back.into_iter().filter_map(|(name, wire)| Some((name, Value::from_wire(wire).ok()?))).collect();
        // What a child says before it runs anything is ours, not the program's.
        let printed = if state.ready { printed } else { String::new() };
        Execution { result, printed, printed_truncated, read_back, calls: state.calls }
    }

    fn order(&self) -> Result<Vec<u8>, Failure> {
        let order = Order {
            code: &self.program.code,
            script_name: &self.program.script_name,
            read_back: &self.program.read_back,
            timeout: self.limits.timeout.as_secs_f64(),
            max_memory: self.limits.max_memory,
            max_recursion: self.limits.max_recursion,
            max_value_bytes: self.limits.max_value_bytes,
            wall: self.wall,
            wall_required: self.wall_required,
        };
        let mut line = serde_json::to_vec(&order).map_err(|error| Failure::Crashed(error.to_string()))?;
        line.push(b'\n');
        Ok(line)
    }

    async fn converse(&self, child: &mut Child, printed: &mut Printed, state: &mut State, order: Vec<u8>) -> Ending {
        let mut lines = Lines::new(self.limits.max_value_bytes.saturating_add(MESSAGE_OVERHEAD));
        let mut answers = Answers::default();
        answers.push(order);
        let mut calls: FuturesUnordered<BoxFuture<'static, Answered>> = FuturesUnordered::new();
        let mut printing = true;
        let mut deadline = Instant::now() + START_TIMEOUT;
        // What the program may still compute. The clock stands still while it waits for the host.
        let mut compute_left = self.limits.max_compute;
        let mut computing_since: Option<Instant> = None;
        loop {
            let now = Instant::now();
            if !state.ready || !calls.is_empty() {
                compute_left =
                    compute_left.saturating_sub(computing_since.take().map_or(Duration::ZERO, |since| now - since));
            } else if computing_since.is_none() {
                computing_since = Some(now);
            }
            let compute_end = computing_since.map(|since| since + compute_left);
            let room = answers.bytes < MAX_UNREAD_ANSWERS && calls.len() < MAX_CONCURRENT_CALLS;
            tokio::select! {
                () = self.cancel.cancelled() => return Ending::Stopped(Failure::Cancelled),
                () = sleep_until(compute_end) => {
                    return Ending::Stopped(Failure::Timeout(self.limits.max_compute));
                }
                () = tokio::time::sleep_until(deadline) => {
                    return Ending::Stopped(if state.ready {
                        Failure::Timeout(self.limits.timeout)
                    } else {
                        Failure::Unavailable(format!("Python did not start in {} s", START_TIMEOUT.as_secs()))
                    });
                }
                more = printed.read(&mut child.printed), if printing => printing = more,
                written = child.input.write(answers.front()), if !answers.is_empty() => match written {
                    Ok(count) => answers.written(count),
                    // The child no longer reads; its own last message or its end says why.
                    Err(_) => answers.clear(),
                },
                Some((id, result)) = calls.next(), if !calls.is_empty() => self.answer(&mut answers, id, &result),
                line = lines.next(&mut child.output), if room || !state.ready => {
                    let message = match line {
                        Ok(line) => serde_json::from_slice::<Message>(&line),
                        Err(ReadFailure::Ended) => return Ending::Lost,
                        Err(ReadFailure::TooLong) => return Ending::Stopped(self.too_large()),
                    };
                    match message {
                        Ok(Message::Ready) if !state.ready => {
                            state.ready = true;
                            deadline = Instant::now() + self.limits.timeout;
                        }
                        Ok(Message::Unavailable(reason)) => return Ending::Stopped(Failure::Unavailable(reason)),
                        Ok(Message::Lookup { id, names }) => {
                            answers.push_json(&protocol::names_answer(id, &names, &*self.host));
                        }
                        Ok(Message::Attribute { id, pack, name }) => {
                            answers.push_json(&protocol::attribute_answer(id, &pack, &name, &*self.host));
                        }
                        Ok(Message::Call { id, pack, function, args, kwargs }) => {
                            if state.calls >= self.limits.max_calls {
                                return Ending::Stopped(Failure::Calls(self.limits.max_calls));
                            }
                            state.calls += 1;
                            let target = match pack {
                                Some(pack) => CallTarget::Method { pack, function },
                                None => CallTarget::Function(function),
                            };
                            match arguments(args, kwargs) {
                                Ok(arguments) => {
                                    let host = Arc::clone(&self.host);
                                    calls.push(Box::pin(async move { (id, host.call(target, arguments).await) }));
                                }
                                Err(error) => {
                                    answers.push_json(&protocol::error_answer(id, &ToolError::arguments(error.to_string())));
                                }
                            }
                        }
                        Ok(Message::Done { value, read_back }) => return Ending::Value(value, read_back),
                        Ok(Message::Failed(failed)) => return Ending::Failed(failed),
                        Ok(Message::Ready) | Err(_) => {
                            let reason = "the program disturbed the protocol of its sandbox".to_owned();
                            return Ending::Stopped(Failure::Crashed(reason));
                        }
                    }
                }
            }
        }
    }

    fn answer(&self, answers: &mut Answers, id: u64, result: &Result<Value, ToolError>) {
        let json = protocol::call_answer(id, result);
        let before = answers.bytes;
        answers.push_json(&json);
        if answers.bytes - before > self.limits.max_value_bytes {
            answers.take_back();
            let limit = self.limits.max_value_bytes;
            let error = ToolError::new(ErrorKind::TooLarge, format!("the result is larger than {limit} bytes"));
            answers.push_json(&protocol::error_answer(id, &error));
        }
    }

    fn too_large(&self) -> Failure {
        Failure::TooLarge(format!("a value of more than {} bytes", self.limits.max_value_bytes))
    }

    /// What the end of a child without a result means.
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
            // The clocks that the child set for itself: processor time and the alarm.
            Some(24 | 14) => Failure::Timeout(self.limits.timeout),
            // Where nothing but Python's own code runs, only the end of the stack is left to fault at.
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

struct State {
    calls: usize,
    ready: bool,
}

/// Lines on their way to the child.
#[derive(Default)]
struct Answers {
    lines: VecDeque<Vec<u8>>,
    /// How much of the first line is written.
    offset: usize,
    bytes: usize,
}

impl Answers {
    fn push(&mut self, line: Vec<u8>) {
        self.bytes += line.len();
        self.lines.push_back(line);
    }

    fn push_json(&mut self, json: &Json) {
        let mut line = json.to_string().into_bytes();
        line.push(b'\n');
        self.push(line);
    }

    /// Drops the last line, which must not have been offered yet.
    fn take_back(&mut self) {
        if let Some(line) = self.lines.pop_back() {
            self.bytes -= line.len();
        }
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
}

fn arguments(args: Vec<Json>, kwargs: Vec<(String, Json)>) -> Result<Arguments, WireError> {
    let positional = args.into_iter().map(Value::from_wire).collect::<Result<_, _>>()?;
    let named =
        kwargs.into_iter().map(|(name, wire)| Ok((name, Value::from_wire(wire)?))).collect::<Result<_, WireError>>()?;
    Ok(Arguments { positional, named })
}

fn received(wire: Json) -> Result<Value, Failure> {
    Value::from_wire(wire).map_err(|error| Failure::Crashed(format!("the program's value cannot be read: {error}")))
}

fn failure(mut failed: Failed) -> Failure {
    if failed.too_large {
        return Failure::TooLarge(failed.message);
    }
    if failed.exception == "MemoryError" {
        return Failure::Memory;
    }
    let frames = failed.take_frames();
    Failure::Raised { exception: failed.exception, message: failed.message, frames }
}

/// Sleeps until then; for ever where there is no end.
async fn sleep_until(end: Option<Instant>) {
    match end {
        Some(end) => tokio::time::sleep_until(end).await,
        None => std::future::pending().await,
    }
}
