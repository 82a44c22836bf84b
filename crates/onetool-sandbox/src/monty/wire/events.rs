//! Messages from a child to the server. Everything here is hostile input until it is decoded.

use super::{Build, Input, Output, WireError, put_byte, put_length, put_number, put_optional, put_text, read_value};

const PRINT: u8 = 1;
const CALL: u8 = 2;
const OS_CALL: u8 = 3;
const LOOKUP: u8 = 4;
const AWAIT: u8 = 5;
const DONE: u8 = 6;
const FAILED: u8 = 7;

const RAISED: u8 = 1;
const TIMEOUT: u8 = 2;
const MEMORY: u8 = 3;
const TOO_LARGE: u8 = 4;
const BROKEN: u8 = 5;

/// Maximum number of traceback frames that are sent and accepted.
pub(in crate::monty) const MAX_FRAMES: usize = 100;

/// An event, with the server's values.
#[derive(Debug)]
pub(in crate::monty) enum Event<V> {
    Print(String),
    Call(CallEvent<V>),
    /// A call to the operating system.
    OsCall {
        function: String,
        arguments: Vec<V>,
    },
    /// A lookup of a name, global or on an object of the host.
    Lookup {
        name: String,
        object: Option<u32>,
    },
    /// The program needs the value of one of these calls.
    Await(Vec<u32>),
    Done {
        value: V,
        read_back: Vec<(String, V)>,
    },
    Failed(FailedEvent),
}

#[derive(Debug)]
pub(in crate::monty) struct CallEvent<V> {
    pub(in crate::monty) id: u32,
    /// The object of the host whose method is called.
    pub(in crate::monty) object: Option<u32>,
    pub(in crate::monty) function: String,
    pub(in crate::monty) positional: Vec<V>,
    pub(in crate::monty) named: Vec<(String, V)>,
    /// Memory of all this after decoding, in bytes.
    pub(in crate::monty) weight: usize,
}

/// How a program ended without a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::monty) enum FailedEvent {
    Raised {
        exception: String,
        message: String,
        /// Line and function, innermost last.
        frames: Vec<(u32, Option<String>)>,
    },
    Timeout,
    Memory,
    /// Something to be sent is too large; says what.
    TooLarge(String),
    /// The interpreter itself failed; the child ends.
    Broken(String),
}

pub(in crate::monty) fn put_print(out: &mut impl Output, text: &str) {
    put_byte(out, PRINT);
    put_text(out, text);
}

/// Begins a call. The arguments must follow: a length and values, a length and names with values.
pub(in crate::monty) fn put_call(out: &mut impl Output, id: u32, object: Option<u32>, function: &str) {
    put_byte(out, CALL);
    put_number(out, id.into());
    put_optional(out, object, |out, object| put_number(out, object.into()));
    put_text(out, function);
}

/// Begins a call to the operating system. `arguments` values must follow.
pub(in crate::monty) fn put_os_call(out: &mut impl Output, function: &str, arguments: usize) {
    put_byte(out, OS_CALL);
    put_text(out, function);
    put_length(out, arguments);
}

pub(in crate::monty) fn put_lookup(out: &mut impl Output, name: &str, object: Option<u32>) {
    put_byte(out, LOOKUP);
    put_text(out, name);
    put_optional(out, object, |out, object| put_number(out, object.into()));
}

pub(in crate::monty) fn put_await(out: &mut impl Output, calls: &[u32]) {
    put_byte(out, AWAIT);
    put_length(out, calls.len());
    for &id in calls {
        put_number(out, id.into());
    }
}

/// Begins the end of a program. Its value must follow, then a length, and names with values.
pub(in crate::monty) fn put_done(out: &mut impl Output) {
    put_byte(out, DONE);
}

pub(in crate::monty) fn put_failed(out: &mut impl Output, failed: &FailedEvent) {
    put_byte(out, FAILED);
    match failed {
        FailedEvent::Raised { exception, message, frames } => {
            put_byte(out, RAISED);
            put_text(out, exception);
            put_text(out, message);
            put_length(out, frames.len().min(MAX_FRAMES));
            for (line, function) in &frames[frames.len().saturating_sub(MAX_FRAMES)..] {
                put_number(out, (*line).into());
                put_optional(out, function.as_deref(), |out, function| put_text(out, function));
            }
        }
        FailedEvent::Timeout => put_byte(out, TIMEOUT),
        FailedEvent::Memory => put_byte(out, MEMORY),
        FailedEvent::TooLarge(what) => {
            put_byte(out, TOO_LARGE);
            put_text(out, what);
        }
        FailedEvent::Broken(reason) => {
            put_byte(out, BROKEN);
            put_text(out, reason);
        }
    }
}

/// Reads an event.
pub(in crate::monty) fn read_event<B: Build>(
    mut input: Input<'_>,
    build: &mut B,
) -> Result<Event<B::Value>, WireError> {
    let event = match input.byte()? {
        PRINT => Event::Print(input.text()?),
        CALL => Event::Call(CallEvent {
            id: input.small()?,
            object: input.optional(Input::small)?,
            function: input.name()?,
            positional: read_values(&mut input, build)?,
            named: read_named(&mut input, build)?,
            weight: input.budget.spent(),
        }),
        OS_CALL => Event::OsCall { function: input.name()?, arguments: read_values(&mut input, build)? },
        LOOKUP => Event::Lookup { name: input.name()?, object: input.optional(Input::small)? },
        AWAIT => {
            let mut calls = Vec::new();
            for _ in 0..input.count()? {
                input.budget.charge_node()?;
                calls.push(input.small()?);
            }
            Event::Await(calls)
        }
        DONE => {
            input.budget.allow_any_digits();
            Event::Done { value: read_value(&mut input, build)?, read_back: read_named(&mut input, build)? }
        }
        FAILED => Event::Failed(read_failed(&mut input)?),
        _ => return Err(WireError::Invalid("unknown kind of event")),
    };
    input.finish()?;
    Ok(event)
}

fn read_values<B: Build>(input: &mut Input<'_>, build: &mut B) -> Result<Vec<B::Value>, WireError> {
    let mut values = Vec::new();
    for _ in 0..input.count()? {
        values.push(read_value(input, build)?);
    }
    Ok(values)
}

fn read_named<B: Build>(input: &mut Input<'_>, build: &mut B) -> Result<Vec<(String, B::Value)>, WireError> {
    let mut values = Vec::new();
    for _ in 0..input.count()? {
        let name = input.name()?;
        values.push((name, read_value(input, build)?));
    }
    Ok(values)
}

fn read_failed(input: &mut Input<'_>) -> Result<FailedEvent, WireError> {
    match input.byte()? {
        RAISED => {
            let (exception, message) = (input.text()?, input.text()?);
            let length = input.count()?;
            if length > MAX_FRAMES {
                return Err(WireError::Invalid("a traceback is too long"));
            }
            let mut frames = Vec::new();
            for _ in 0..length {
                frames.push((input.small()?, input.optional(Input::text)?));
            }
            Ok(FailedEvent::Raised { exception, message, frames })
        }
        TIMEOUT => Ok(FailedEvent::Timeout),
        MEMORY => Ok(FailedEvent::Memory),
        TOO_LARGE => Ok(FailedEvent::TooLarge(input.text()?)),
        BROKEN => Ok(FailedEvent::Broken(input.text()?)),
        _ => Err(WireError::Invalid("unknown kind of failure")),
    }
}
