//! The lines of a journal: what a run did, in order. One JSON object each.

use std::time::Duration;

use onetool_sdk::{ErrorKind, ToolError, Value};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

/// One line.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "k", rename_all = "snake_case")]
pub(super) enum Line {
    /// A call that must not be repeated is about to be made.
    Call {
        n: u64,
        tool: String,
        hash: String,
        /// For display.
        #[serde(default)]
        args: String,
    },
    /// The outcome of a call.
    Done {
        n: u64,
        tool: String,
        hash: String,
        #[serde(default)]
        args: String,
        /// The call may be repeated.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        free: bool,
        outcome: Outcome,
    },
    /// The run read the clock; microseconds since the epoch.
    Time { at: i64 },
    /// Somebody decided how to handle calls whose outcome is unknown.
    Again { calls: Vec<u64>, unknown: Unknown },
    /// Not everything after this line is recorded.
    Gap,
}

/// How to handle a call that may or may not have taken place.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unknown {
    /// Makes the call again.
    #[default]
    Repeat,
    /// Raises an error in the code.
    Raise,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Outcome {
    Value(Json),
    Error(KeptError),
    /// Too large to store.
    Cut,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct KeptError {
    kind: String,
    message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    exception: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pointer: Option<String>,
}

impl Outcome {
    pub(super) fn of(outcome: &Result<Value, ToolError>) -> Self {
        match outcome {
            Ok(value) => Self::Value(value.to_wire()),
            Err(error) => Self::Error(KeptError::of(error)),
        }
    }

    /// What the code received; `None` if it was not stored.
    pub(super) fn given(self) -> Option<Result<Value, ToolError>> {
        match self {
            Self::Value(json) => Value::from_wire(json).ok().map(Ok),
            Self::Error(error) => Some(Err(error.given())),
            Self::Cut => None,
        }
    }
}

impl KeptError {
    fn of(error: &ToolError) -> Self {
        let (mut exception, mut status, mut retry_after_ms) = (None, None, None);
        let kind = match &error.kind {
            ErrorKind::NotFound => "not_found",
            ErrorKind::Arguments => "arguments",
            ErrorKind::Denied => "denied",
            ErrorKind::RateLimited { retry_after } => {
                retry_after_ms = Some(u64::try_from(retry_after.as_millis()).unwrap_or(u64::MAX));
                "rate_limited"
            }
            ErrorKind::Timeout => "timeout",
            ErrorKind::Cancelled => "cancelled",
            ErrorKind::Unavailable => "unavailable",
            ErrorKind::Upstream { status: code } => {
                status = *code;
                "upstream"
            }
            ErrorKind::Raised { exception: name } => {
                exception = Some(name.clone());
                "raised"
            }
            ErrorKind::Output => "output",
            ErrorKind::TooLarge => "too_large",
            ErrorKind::Conflict => "conflict",
            ErrorKind::Internal => "internal",
        };
        let (kind, message) = (kind.to_owned(), error.message.clone());
        let (hint, pointer) = (error.hint.clone(), error.pointer.clone());
        Self { kind, message, exception, status, retry_after_ms, hint, pointer }
    }

    fn given(self) -> ToolError {
        let kind = match self.kind.as_str() {
            "not_found" => ErrorKind::NotFound,
            "arguments" => ErrorKind::Arguments,
            "denied" => ErrorKind::Denied,
            "rate_limited" => {
                ErrorKind::RateLimited { retry_after: Duration::from_millis(self.retry_after_ms.unwrap_or_default()) }
            }
            "timeout" => ErrorKind::Timeout,
            "cancelled" => ErrorKind::Cancelled,
            "unavailable" => ErrorKind::Unavailable,
            "upstream" => ErrorKind::Upstream { status: self.status },
            "raised" => ErrorKind::Raised { exception: self.exception.unwrap_or_else(|| "RuntimeError".to_owned()) },
            "output" => ErrorKind::Output,
            "too_large" => ErrorKind::TooLarge,
            "conflict" => ErrorKind::Conflict,
            _ => ErrorKind::Internal,
        };
        ToolError { kind, message: self.message, hint: self.hint, pointer: self.pointer, traceback: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_code_got_it_gets_again() {
        let errors = [
            ToolError::raised("KeyError", "'x'").with_hint("h").at("/a"),
            ToolError::new(ErrorKind::Upstream { status: Some(502) }, "bad"),
            ToolError::new(ErrorKind::RateLimited { retry_after: Duration::from_millis(1500) }, "slow"),
            ToolError::denied("no"),
        ];
        let values = [Value::None, Value::Bytes(vec![0, 255]), Value::Tuple(vec![Value::Int(1), Value::from("é\n")])];
        let outcomes = errors.into_iter().map(Err).chain(values.into_iter().map(Ok));
        for outcome in outcomes {
            let text = serde_json::to_string(&Outcome::of(&outcome)).unwrap();
            assert!(!text.contains('\n'));
            let read: Outcome = serde_json::from_str(&text).unwrap();
            assert_eq!(read.given(), Some(outcome));
        }
        assert_eq!(Outcome::Cut.given(), None);
    }
}
