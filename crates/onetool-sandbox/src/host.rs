//! What code in the sandbox can reach: names, attributes and calls, answered by the host.

use async_trait::async_trait;
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

    /// A call. Its failure is raised in the sandbox as [`ToolError::exception`].
    async fn call(&self, target: CallTarget, arguments: Arguments) -> Result<Value, ToolError>;
}

/// A call to a function whose name has this prefix is awaited by the code: it runs beside the code until its value is
/// asked for. Whoever prepares the code adds the prefix where a call stands behind `await` or inside `asyncio.gather`.
pub const AWAITED_PREFIX: &str = "awaited__";
