//! What code in the sandbox can reach: names, attributes and calls, answered by the host.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use onetool_sdk::{Arguments, ToolError, Value};

/// The answer to a name or an attribute.
#[derive(Debug, Clone, PartialEq)]
pub enum Lookup {
    /// An object whose attributes and methods the host answers, by this name.
    Pack(String),
    /// A function that the host executes, by this name. Of a pack when looked up as its attribute.
    Function(String),
    Value(Value),
    /// Nothing of that name: Python's own `NameError` or `AttributeError`.
    Undefined,
}

/// What is called.
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
    /// A global name that the code reads and does not define.
    fn lookup(&self, name: &str) -> Result<Lookup, ToolError>;

    /// An attribute of a pack.
    fn attribute(&self, pack: &str, name: &str) -> Result<Lookup, ToolError>;

    /// Text that the code has just printed, in pieces; all of it also comes with the result.
    fn printed(&self, _text: &str) {}

    /// What is done before the code runs, and takes long: packages are installed.
    fn progress(&self, _text: &str) {}

    /// The time, where the code must see the same again when it is run again.
    fn now(&self) -> Option<DateTime<Utc>> {
        None
    }

    /// Where random numbers begin, for the same reason. Code in full Python then asks the host for the time too, with
    /// calls to [`CLOCK`].
    fn seed(&self) -> Option<u64> {
        None
    }

    /// A call. Its failure is raised in the sandbox as [`ToolError::exception`].
    async fn call(&self, target: CallTarget, arguments: Arguments) -> Result<Value, ToolError>;
}

/// The name of a function as prepared code writes it: `f`, or, where the code awaits the call, `awaited__f`.
///
/// Such a call runs beside the code until its value is asked for. Whoever prepares the code marks calls that stand behind
/// `await` or inside `asyncio.gather`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrittenName<'a> {
    pub name: &'a str,
    pub is_awaited: bool,
}

impl<'a> WrittenName<'a> {
    /// What is put before the name of a call that is awaited.
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

/// The function that gives the time in microseconds since the epoch, where [`Host::seed`] says that the host decides over it.
pub const CLOCK: &str = "__onetool_now__";
/// The function that tells such code whether it still repeats what an earlier process has recorded. It then does not wait
/// again where it has waited.
pub const REPEATING: &str = "__onetool_repeating__";
