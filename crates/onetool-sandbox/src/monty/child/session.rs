//! Runs one program in the interpreter, from start to end.

use std::io::{self, Read, Write};

use monty::{MontyRepl, ReplFunctionCall, ReplOsCall, ReplProgress, ReplStartError};
use monty_types::{
    CompileOptions, ExcType, ExtFunctionResult, MontyException, MontyFileHandle, MontyObject, NameLookupResult,
    OsFunctionCall, PrintWriter, ResourceLimits, ResourceTracker,
};

use super::convert::{MontyObjects, host_id, put_object};
use super::print::Printer;
use crate::budget::Budget;
use crate::monty::wire::events::{FailedEvent, put_await, put_call, put_done, put_failed, put_lookup, put_os_call};
use crate::monty::wire::frames::{self, MessageWriter, SendError};
use crate::monty::wire::requests::{Answer, Request, RunRequest, read_request};
use crate::monty::wire::{Input, MAX_DEPTH, TooDeep, ValueWriter, put_length, put_text};

/// What ended.
pub(super) enum Ended {
    Run,
    /// The server, or the pipe from it.
    Parent,
}

/// The pipes while one program runs.
pub(super) struct Session<'a, R, W> {
    pub(super) requests: &'a mut R,
    pub(super) events: &'a mut MessageWriter<W>,
}

type Progress = Result<ReplProgress, Box<ReplStartError>>;

impl<R: Read, W: Write> Session<'_, R, W> {
    /// Waits for a program, runs it and reports how it ended.
    pub(super) fn serve_run(&mut self) -> io::Result<Ended> {
        let Some(request) = next_request(self.requests)? else { return Ok(Ended::Parent) };
        let Request::Run(run) = request else { return Err(invalid("a program is expected")) };
        monty_alloc::set_limit(Some(run.max_memory), false).map_err(invalid)?;
        self.events.max_size = run.max_message;
        self.run(run)
    }

    fn run(&mut self, run: RunRequest<MontyObject>) -> io::Result<Ended> {
        let limits = ResourceLimits::default()
            .max_duration(run.max_compute)
            .max_memory(run.max_memory)
            .max_recursion_depth(run.max_recursion)
            // The server counts the calls that it answers.
            .max_suspensions(usize::MAX);
        let repl = MontyRepl::new(&run.script_name, ResourceTracker::new(limits), CompileOptions::default());
        let mut printer = Printer::new(self.events);
        let mut progress = repl.feed_start(&run.code, run.globals, PrintWriter::Callback(&mut printer));
        loop {
            let suspended = match progress {
                Err(failed) => return report(&mut printer, &failure(&failed.error)),
                Ok(ReplProgress::Complete { repl, value }) => {
                    return finish(&mut printer, repl, &value, &run.read_back);
                }
                Ok(suspended) => suspended,
            };
            progress = match announce(&mut printer, suspended)? {
                Announced::Answered(next) => next,
                Announced::TooLarge => {
                    let reason = format!("the arguments of a call have more than {} bytes", run.max_message);
                    return report(&mut printer, &FailedEvent::TooLarge(reason));
                }
                Announced::Suspended(suspended) => {
                    super::look_for_answer();
                    let Some(request) = next_request(self.requests)? else { return Ok(Ended::Parent) };
                    resume(suspended, request, PrintWriter::Callback(&mut printer))?
                }
            };
        }
    }
}

/// The state of a suspended program after it was announced.
enum Announced {
    /// The server has been told and will answer.
    Suspended(ReplProgress),
    /// The request cannot be sent: the program continues with an error.
    Answered(Progress),
    TooLarge,
}

/// Tells the server what a program is waiting for.
fn announce<W: Write>(printer: &mut Printer<'_, W>, mut progress: ReplProgress) -> io::Result<Announced> {
    let events = printer.events();
    let written = match &progress {
        ReplProgress::FunctionCall(call) => write_call(events, call),
        ReplProgress::OsCall(call) => write_os_call(events, call),
        ReplProgress::NameLookup(lookup) => {
            put_lookup(events, &lookup.name, lookup.object_id().and_then(host_id));
            Ok(())
        }
        ReplProgress::ResolveFutures(state) => {
            put_await(events, state.pending_call_ids());
            Ok(())
        }
        ReplProgress::Complete { .. } => return Err(invalid("a complete program waits for nothing")),
    };
    if written.is_err() {
        events.take_back();
        let error = MontyException::new(ExcType::RuntimeError, Some(too_deep("an argument")));
        let next = match progress {
            ReplProgress::FunctionCall(call) => {
                call.resume(ExtFunctionResult::Error(error), PrintWriter::Callback(printer))
            }
            ReplProgress::OsCall(call) => call.resume(ExtFunctionResult::Error(error), PrintWriter::Callback(printer)),
            other => Ok(other),
        };
        return Ok(Announced::Answered(next));
    }
    match events.send() {
        Ok(()) => {
            // The server has the arguments now.
            if let ReplProgress::FunctionCall(call) = &mut progress {
                (call.args, call.kwargs) = (Vec::new(), Vec::new());
            }
            Ok(Announced::Suspended(progress))
        }
        Err(SendError::TooLarge) => Ok(Announced::TooLarge),
        Err(SendError::Io(error)) => Err(error),
    }
}

fn write_call<W: Write>(events: &mut MessageWriter<W>, call: &ReplFunctionCall) -> Result<(), TooDeep> {
    put_call(events, call.call_id, call.object_id.and_then(host_id), &call.function_name);
    put_length(events, call.args.len());
    call.args.iter().try_for_each(|value| put_object(events, value))?;
    put_length(events, call.kwargs.len());
    call.kwargs.iter().try_for_each(|(name, value)| {
        put_text(events, &name.to_string());
        put_object(events, value)
    })
}

fn write_os_call<W: Write>(events: &mut MessageWriter<W>, call: &ReplOsCall) -> Result<(), TooDeep> {
    // Named arguments follow positional ones, in a fixed order.
    let (mut arguments, named) = call.function_call.clone().to_args();
    arguments.extend(named.into_iter().map(|(_, value)| value));
    put_os_call(events, call.function_call.name(), arguments.len());
    arguments.iter().try_for_each(|value| match value {
        // A time zone is sent as its offset.
        MontyObject::TimeZone(zone) => {
            ValueWriter(events).time_delta(0, zone.offset_seconds, 0);
            Ok(())
        }
        value => put_object(events, value),
    })
}

/// Resumes a program with the server's answer.
fn resume(suspended: ReplProgress, request: Request<MontyObject>, print: PrintWriter<'_>) -> io::Result<Progress> {
    Ok(match (suspended, request) {
        (ReplProgress::FunctionCall(call), Request::Answer(answer)) => {
            let result = match answer {
                Answer::Return(value) => ExtFunctionResult::Return(value),
                Answer::Raise { exception, message } => ExtFunctionResult::Error(raise(&exception, message)),
                Answer::Pending => ExtFunctionResult::Future(call.call_id),
                Answer::Unknown => ExtFunctionResult::NotFound(call.function_name.clone()),
            };
            call.resume(result, print)
        }
        (ReplProgress::OsCall(call), Request::Answer(answer)) => {
            let result = match (answer, &call.function_call) {
                // The server has performed the opening; a file is its path and a position.
                (Answer::Return(_), OsFunctionCall::Open(opened)) => {
                    let (path, mode) = (opened.path.as_str().to_owned(), opened.mode);
                    let handle = MontyFileHandle { path, mode, position: 0 };
                    ExtFunctionResult::Return(MontyObject::FileHandle(handle))
                }
                (Answer::Return(value), _) => ExtFunctionResult::Return(value),
                (Answer::Raise { exception, message }, _) => ExtFunctionResult::Error(raise(&exception, message)),
                (Answer::Pending | Answer::Unknown, _) => ExtFunctionResult::Error(call.function_call.on_no_handler()),
            };
            call.resume(result, print)
        }
        (ReplProgress::NameLookup(lookup), Request::Answer(answer)) => {
            let result = match answer {
                Answer::Return(value) => NameLookupResult::Value(value),
                Answer::Raise { exception, message } => NameLookupResult::Error(raise(&exception, message)),
                Answer::Pending | Answer::Unknown => NameLookupResult::Undefined,
            };
            lookup.resume(result, print)
        }
        (ReplProgress::ResolveFutures(state), Request::Resolved(answers)) => {
            let results = answers.into_iter().map(|(id, answer)| (id, resolved(answer))).collect();
            state.resume(results, print)
        }
        _ => return Err(invalid("the answer does not fit the question")),
    })
}

fn resolved(answer: Answer<MontyObject>) -> ExtFunctionResult {
    match answer {
        Answer::Return(value) => ExtFunctionResult::Return(value),
        Answer::Raise { exception, message } => ExtFunctionResult::Error(raise(&exception, message)),
        Answer::Pending | Answer::Unknown => {
            ExtFunctionResult::Error(raise("RuntimeError", "the awaited call has no value".to_owned()))
        }
    }
}

fn raise(exception: &str, message: String) -> MontyException {
    MontyException::new(exception.parse().unwrap_or(ExcType::RuntimeError), Some(message))
}

/// Reports the value of a program, and those of the requested names.
fn finish<W: Write>(
    printer: &mut Printer<'_, W>,
    repl: MontyRepl,
    value: &MontyObject,
    read_back: &[String],
) -> io::Result<Ended> {
    let read_back = read_names(repl, read_back);
    let events = printer.events();
    put_done(events);
    let mut written = put_object(events, value);
    put_length(events, read_back.len());
    for (name, value) in &read_back {
        put_text(events, name);
        written = written.and_then(|()| put_object(events, value));
    }
    if written.is_err() {
        events.take_back();
        let message = too_deep("the value");
        let raised = FailedEvent::Raised { exception: "RuntimeError".to_owned(), message, frames: Vec::new() };
        return report(printer, &raised);
    }
    match events.send() {
        Ok(()) => Ok(Ended::Run),
        Err(SendError::TooLarge) => {
            let reason = format!("the value has more than {} bytes", events.max_size);
            report(printer, &FailedEvent::TooLarge(reason))
        }
        Err(SendError::Io(error)) => Err(error),
    }
}

/// Returns the values of the names that are defined.
fn read_names(mut repl: MontyRepl, names: &[String]) -> Vec<(String, MontyObject)> {
    let mut values = Vec::new();
    for name in names {
        let mut progress = repl.feed_start(name, Vec::new(), PrintWriter::Disabled);
        repl = loop {
            progress = match progress {
                Ok(ReplProgress::Complete { repl, value }) => {
                    values.push((name.clone(), value));
                    break repl;
                }
                Ok(ReplProgress::NameLookup(lookup)) => {
                    lookup.resume(NameLookupResult::Undefined, PrintWriter::Disabled)
                }
                Ok(other) => break other.into_repl(),
                Err(failed) => break failed.repl,
            };
        };
    }
    values
}

fn failure(error: &MontyException) -> FailedEvent {
    let message = error.message().unwrap_or_default();
    match error.exc_type() {
        ExcType::TimeoutError if message.starts_with("time limit exceeded") => FailedEvent::Timeout,
        ExcType::MemoryError => FailedEvent::Memory,
        exception => FailedEvent::Raised {
            exception: exception.to_string(),
            message: message.to_owned(),
            frames: error.traceback().iter().map(|frame| (frame.start.line, frame.frame_name.clone())).collect(),
        },
    }
}

fn too_deep(what: &str) -> String {
    format!("{what} is nested more than {MAX_DEPTH} levels deep")
}

fn next_request(requests: &mut impl Read) -> io::Result<Option<Request<MontyObject>>> {
    let Some(message) = frames::read_request(requests)? else { return Ok(None) };
    let input = Input::new(&message, Budget::of_the_server());
    read_request(input, &mut MontyObjects).map(Some).map_err(invalid)
}

/// Reports how a program ended without a value.
fn report<W: Write>(printer: &mut Printer<'_, W>, failed: &FailedEvent) -> io::Result<Ended> {
    let events = printer.events();
    put_failed(events, failed);
    let mut sent = events.send();
    if matches!(sent, Err(SendError::TooLarge)) {
        let reason = format!("the message of an exception has more than {} bytes", events.max_size);
        put_failed(events, &FailedEvent::TooLarge(reason));
        sent = events.send();
    }
    match sent {
        Ok(()) => Ok(Ended::Run),
        Err(SendError::Io(error)) => Err(error),
        Err(SendError::TooLarge) => Err(invalid("not even a report may be sent")),
    }
}

fn invalid(reason: impl ToString) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason.to_string())
}
