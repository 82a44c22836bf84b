//! The input and output of both engines: a program with its limits, and its outcome.

use std::time::Duration;

use onetool_sdk::{ToolError, Value};

/// File access for code. All access goes through the `file` pack, whichever Python function the code uses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FileAccess {
    Full,
    Read,
    #[default]
    Off,
}

onetool_config::choices!(FileAccess { "full" => Full, "read" => Read, "off" => Off });

/// A program to run.
#[derive(Debug, Clone, Default)]
pub struct Program {
    pub code: String,
    /// The name of the text in tracebacks.
    pub script_name: String,
    /// Packs that the program names: an engine may request them from the host in advance.
    pub packs: Vec<String>,
    /// Names that the program binds at its top level.
    pub binds: Vec<String>,
    /// Names whose final values are wanted, e.g. `__format__`.
    pub read_back: Vec<String>,
    pub files: FileAccess,
    /// The folder that relative paths start at.
    pub folder: String,
}

/// Resource limits of a program.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Compute time of the program itself; waiting for the host does not count.
    pub max_compute: Duration,
    /// Wall-clock time from start to end, including all waiting.
    pub timeout: Duration,
    /// Bytes.
    pub max_memory: usize,
    /// Calls to the host.
    pub max_calls: usize,
    pub max_recursion: usize,
    /// Bytes of printed text that are kept.
    pub max_printed: usize,
    /// Bytes of source.
    pub max_source: usize,
    /// Maximum size in bytes of one value passed between the program and the host.
    pub max_value_bytes: usize,
}

impl Limits {
    pub const DEFAULT: Self = Self {
        max_compute: Duration::from_secs(30),
        timeout: Duration::from_mins(10),
        max_memory: 256 << 20,
        max_calls: 10_000,
        max_recursion: 1000,
        max_printed: 1 << 20,
        max_source: 256 << 10,
        max_value_bytes: 256 << 20,
    };
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// A place in the program's own text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// From 1.
    pub line: u32,
    /// `None` at the top level.
    pub function: Option<String>,
}

/// Why a program produced no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// It raised; the innermost frame is the last.
    Raised {
        exception: String,
        message: String,
        frames: Vec<Frame>,
    },
    Timeout(Duration),
    Memory,
    /// It made more calls than this.
    Calls(usize),
    /// The engine's process died.
    Crashed(String),
    /// No process was free in time.
    Busy(String),
    Cancelled,
    TooLarge(String),
    /// The session cannot be used; says why and what to do.
    Session(String),
    /// The engine cannot run here; says why and what to do.
    Unavailable(String),
}

impl Failure {
    /// The failure of a call whose exception was not caught, on this line at the top level.
    pub fn raised_by(error: &ToolError, line: u32) -> Self {
        let exception = error.exception().to_owned();
        let message = shown_message(&exception, &error.text());
        Self::Raised { exception, message, frames: vec![Frame { line, function: None }] }
    }
}

/// Quotes the key of a `KeyError`, because Python shows its `repr` but the interpreter passes on its `str`.
pub(crate) fn shown_message(exception: &str, message: &str) -> String {
    let is_literal = message.starts_with(['\'', '"', '(', '[']) || message.parse::<f64>().is_ok();
    if exception != "KeyError" || is_literal || message.contains('\n') {
        message.to_owned()
    } else {
        Value::from(message).repr()
    }
}

/// The outcome of a program.
#[derive(Debug, Clone)]
pub struct Execution {
    /// The value of the last top-level expression statement, or `Value::None` if there is none.
    pub result: Result<Value, Failure>,
    pub printed: String,
    pub printed_truncated: bool,
    /// Those of [`Program::read_back`] that exist.
    pub read_back: Vec<(String, Value)>,
    /// How many calls reached the host.
    pub calls: usize,
}

impl Execution {
    /// The outcome of a program that did not run.
    pub(crate) fn failed(failure: Failure) -> Self {
        Self { result: Err(failure), printed: String::new(), printed_truncated: false, read_back: Vec::new(), calls: 0 }
    }
}
