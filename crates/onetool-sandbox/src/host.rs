//! What code in the sandbox can reach: names, attributes and calls, answered by the host.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use onetool_sdk::{Arguments, ToolError, Value};

/// The answer to a name or an attribute.
#[derive(Debug, Clone, PartialEq)]
pub enum Lookup {
    /// An object whose attributes and methods the host answers, by this name.
    Pack(String),
    /// A function that the host executes, by this name. A pack's function when looked up as the pack's attribute.
    Function(String),
    Value(Value),
    /// No such name: raises Python's own `NameError` or `AttributeError`.
    Undefined,
}

/// The target of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallTarget {
    /// A plain function: an alias, a helper, a builtin that the engine lacks.
    Function(String),
    /// `pack.function`.
    Method { pack: String, function: String },
}

/// The way from the sandbox to everything else. Calls run concurrently where the code awaits several at once.
#[async_trait]
pub trait Host: Send + Sync {
    /// Looks up a global name that the code reads but does not define.
    fn lookup(&self, name: &str) -> Result<Lookup, ToolError>;

    /// Looks up an attribute of a pack.
    fn attribute(&self, pack: &str, name: &str) -> Result<Lookup, ToolError>;

    /// Receives text that the code has just printed, in pieces; the result also contains all of it.
    fn printed(&self, _text: &str) {}

    /// Reports slow work before the code runs, such as installing packages.
    fn progress(&self, _text: &str) {}

    /// Returns the time, if the code must see the same time when it is run again.
    fn now(&self) -> Option<DateTime<Utc>> {
        None
    }

    /// Returns the seed for random numbers, for the same reason. Full Python code then also asks the host for the time,
    /// with calls to [`CLOCK`].
    fn seed(&self) -> Option<u64> {
        None
    }

    /// Executes a call. A failure is raised in the sandbox as [`ToolError::exception`].
    async fn call(&self, target: CallTarget, arguments: Arguments) -> Result<Value, ToolError>;
}

/// The name of a function as prepared code writes it: `f`, or, where the code awaits the call, `awaited__f`.
///
/// Such a call runs concurrently with the code until its value is needed. The code is prepared by marking calls behind
/// `await` or inside `asyncio.gather`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrittenName<'a> {
    pub name: &'a str,
    pub is_awaited: bool,
}

impl<'a> WrittenName<'a> {
    /// The prefix of an awaited call's name.
    pub const AWAITED_MARK: &'static str = "awaited__";

    pub fn read(written: &'a str) -> Self {
        match written.strip_prefix(Self::AWAITED_MARK) {
            Some(name) => Self { name, is_awaited: true },
            None => Self { name: written, is_awaited: false },
        }
    }
}

impl std::fmt::Display for WrittenName<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mark = if self.is_awaited { Self::AWAITED_MARK } else { "" };
        write!(f, "{mark}{}", self.name)
    }
}

/// The function that returns the time in microseconds since the epoch, if [`Host::seed`] makes the host decide it.
pub const CLOCK: &str = "__onetool_now__";
/// The function that tells such code whether it is still repeating what an earlier process recorded. If so, it does not
/// repeat its waits.
pub const REPEATING: &str = "__onetool_repeating__";
