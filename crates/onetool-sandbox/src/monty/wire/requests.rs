//! Messages from the server to a child.

use std::time::Duration;

use super::{Build, Input, Output, WireError, put_byte, put_length, put_number, put_text, read_value};
use crate::execution::{Limits, Program};

const RUN: u8 = 1;
const ANSWER: u8 = 2;
const RESOLVED: u8 = 3;

const RETURN: u8 = 1;
const RAISE: u8 = 2;
const PENDING: u8 = 3;
const UNKNOWN: u8 = 4;

/// A request, with the values of the child's interpreter.
#[derive(Debug)]
pub(in crate::monty) enum Request<V> {
    Run(RunRequest<V>),
    /// The result of the last call or lookup.
    Answer(Answer<V>),
    /// Awaited calls that have ended.
    Resolved(Vec<(u32, Answer<V>)>),
}

#[derive(Debug)]
pub(in crate::monty) struct RunRequest<V> {
    pub(in crate::monty) max_compute: Duration,
    pub(in crate::monty) max_memory: usize,
    pub(in crate::monty) max_recursion: usize,
    /// Maximum size in bytes of one message back.
    pub(in crate::monty) max_message: usize,
    pub(in crate::monty) script_name: String,
    pub(in crate::monty) code: String,
    /// Names whose final values are wanted.
    pub(in crate::monty) read_back: Vec<String>,
    /// Names that are defined before the program starts.
    pub(in crate::monty) globals: Vec<(String, V)>,
}

#[derive(Debug)]
pub(in crate::monty) enum Answer<V> {
    Return(V),
    Raise {
        exception: String,
        message: String,
    },
    /// The call runs concurrently with the program, which will request its value later.
    Pending,
    /// There is no such name.
    Unknown,
}

/// Writes a request to run a program. `globals` globals must follow, each written by [`put_global`].
pub(in crate::monty) fn put_run(
    out: &mut impl Output,
    program: &Program,
    limits: &Limits,
    max_message: usize,
    globals: usize,
) {
    put_byte(out, RUN);
    put_number(out, u64::try_from(limits.max_compute.as_micros()).unwrap_or(u64::MAX));
    put_length(out, limits.max_memory);
    put_length(out, limits.max_recursion);
    put_length(out, max_message);
    put_text(out, &program.script_name);
    put_text(out, &program.code);
    put_length(out, program.read_back.len());
    for name in &program.read_back {
        put_text(out, name);
    }
    put_length(out, globals);
}

/// Writes the name of a global. Its value must follow.
pub(in crate::monty) fn put_global(out: &mut impl Output, name: &str) {
    put_text(out, name);
}

/// Begins an answer, which must follow.
pub(in crate::monty) fn put_answer(out: &mut impl Output) {
    put_byte(out, ANSWER);
}

/// Begins the answers of `length` awaited calls: for each, its id and its answer must follow.
pub(in crate::monty) fn put_resolved(out: &mut impl Output, length: usize) {
    put_byte(out, RESOLVED);
    put_length(out, length);
}

pub(in crate::monty) fn put_call_id(out: &mut impl Output, id: u32) {
    put_number(out, id.into());
}

/// Begins an answer that is a value. The value must follow.
pub(in crate::monty) fn put_return(out: &mut impl Output) {
    put_byte(out, RETURN);
}

pub(in crate::monty) fn put_raise(out: &mut impl Output, exception: &str, message: &str) {
    put_byte(out, RAISE);
    put_text(out, exception);
    put_text(out, message);
}

pub(in crate::monty) fn put_pending(out: &mut impl Output) {
    put_byte(out, PENDING);
}

pub(in crate::monty) fn put_unknown(out: &mut impl Output) {
    put_byte(out, UNKNOWN);
}

/// Reads a request.
pub(in crate::monty) fn read_request<B: Build>(
    mut input: Input<'_>,
    build: &mut B,
) -> Result<Request<B::Value>, WireError> {
    let request = match input.byte()? {
        RUN => Request::Run(read_run(&mut input, build)?),
        ANSWER => Request::Answer(read_answer(&mut input, build)?),
        RESOLVED => {
            let mut answers = Vec::new();
            for _ in 0..input.count()? {
                answers.push((input.small()?, read_answer(&mut input, build)?));
            }
            Request::Resolved(answers)
        }
        _ => return Err(WireError::Invalid("unknown kind of request")),
    };
    input.finish()?;
    Ok(request)
}

fn read_run<B: Build>(input: &mut Input<'_>, build: &mut B) -> Result<RunRequest<B::Value>, WireError> {
    let max_compute = Duration::from_micros(input.number()?);
    let (max_memory, max_recursion, max_message) = (input.small()?, input.small()?, input.small()?);
    let (script_name, code) = (input.text()?, input.text()?);
    let mut read_back = Vec::new();
    for _ in 0..input.count()? {
        read_back.push(input.text()?);
    }
    let mut globals = Vec::new();
    for _ in 0..input.count()? {
        globals.push((input.text()?, read_value(input, build)?));
    }
    Ok(RunRequest { max_compute, max_memory, max_recursion, max_message, script_name, code, read_back, globals })
}

fn read_answer<B: Build>(input: &mut Input<'_>, build: &mut B) -> Result<Answer<B::Value>, WireError> {
    match input.byte()? {
        RETURN => Ok(Answer::Return(read_value(input, build)?)),
        RAISE => Ok(Answer::Raise { exception: input.text()?, message: input.text()? }),
        PENDING => Ok(Answer::Pending),
        UNKNOWN => Ok(Answer::Unknown),
        _ => Err(WireError::Invalid("unknown kind of answer")),
    }
}
