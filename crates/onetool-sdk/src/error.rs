//! Why a call failed. One type for every kind of tool, so that every interface can show it in its own way: Python
//! raises [`ToolError::exception`], REST returns [`ErrorKind`]'s status, a terminal prints it.

use std::fmt;
use std::time::Duration;

/// What went wrong, in terms that a caller may act on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ErrorKind {
    /// No pack or tool of that name.
    NotFound,
    /// The arguments do not fit the signature or the schema.
    Arguments,
    /// Policy, sandbox or configuration forbids it.
    Denied,
    /// Too many calls; try again after this long.
    RateLimited { retry_after: Duration },
    /// The call exceeded its time limit.
    Timeout,
    /// The caller gave up.
    Cancelled,
    /// The tool's process, server or environment is not available now.
    Unavailable,
    /// A remote side answered with a failure.
    Upstream { status: Option<u16> },
    /// The tool itself raised this Python exception (or an equivalent).
    Raised { exception: String },
    /// The tool's result does not match its declared output.
    Output,
    /// An argument or a result is larger than a limit allows.
    TooLarge,
    /// The current state forbids it (disabled, already exists, changed meanwhile).
    Conflict,
    /// A bug in OneTool.
    Internal,
}

/// A failed call: what happened, and what to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolError {
    pub kind: ErrorKind,
    pub message: String,
    pub hint: Option<String>,
    /// Where in the arguments, or in the value, the error is: a JSON pointer.
    pub pointer: Option<String>,
    /// The tool's own traceback, trimmed, if there is one. For logs and for `json` errors.
    pub traceback: Option<String>,
}

impl ToolError {
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: None, pointer: None, traceback: None }
    }

    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, message)
    }

    pub fn arguments(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Arguments, message)
    }

    pub fn denied(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Denied, message)
    }

    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unavailable, message)
    }

    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, message)
    }

    /// The tool raised a Python exception of the type `exception`, e.g. `ValueError`.
    pub fn raised(exception: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Raised { exception: exception.into() }, message)
    }

    pub fn value_error(message: impl Into<String>) -> Self {
        Self::raised("ValueError", message)
    }

    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Sets the location of the error.
    #[must_use]
    pub fn at(mut self, pointer: impl Into<String>) -> Self {
        self.pointer = Some(pointer.into()).filter(|pointer| !pointer.is_empty());
        self
    }

    /// Returns the Python exception type that code in the sandbox sees.
    pub fn exception(&self) -> &str {
        match &self.kind {
            ErrorKind::NotFound => "AttributeError",
            ErrorKind::Arguments => "TypeError",
            ErrorKind::Denied => "PermissionError",
            ErrorKind::Timeout => "TimeoutError",
            ErrorKind::Output | ErrorKind::TooLarge => "ValueError",
            ErrorKind::Raised { exception } => exception,
            ErrorKind::RateLimited { .. }
            | ErrorKind::Cancelled
            | ErrorKind::Unavailable
            | ErrorKind::Upstream { .. }
            | ErrorKind::Conflict
            | ErrorKind::Internal => "RuntimeError",
        }
    }

    /// Returns message and hint as one text; [`split_hint`] splits it again.
    pub fn text(&self) -> String {
        match &self.hint {
            Some(hint) => format!("{}{HINT}{hint}", self.message),
            None => self.message.clone(),
        }
    }
}

/// Separates a message from its hint wherever both are one text, such as in a Python exception.
const HINT: &str = "\nhint: ";

/// Splits the result of [`ToolError::text`] into message and hint.
pub fn split_hint(text: &str) -> (&str, Option<&str>) {
    text.split_once(HINT).map_or((text, None), |(message, hint)| (message, Some(hint)))
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.exception(), self.message)
    }
}

impl std::error::Error for ToolError {}
