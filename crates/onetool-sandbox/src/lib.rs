//! Runs Python that a model wrote, in child processes without ambient authority.
//!
//! Two engines share one interface: Monty, fast and confined by construction, and a full CPython child, confined by the
//! kernel. Neither knows anything about packs beyond the [`Host`] trait.

mod budget;
mod census;
mod choose;
mod cpython;
mod execution;
mod host;
pub mod monty;
#[cfg(unix)]
mod pipe;
mod resident;
mod sandbox;
#[cfg(target_os = "linux")]
mod wall;

pub use census::Census;
pub use choose::{
    Engine, FAST_ENGINE, Need, SyntaxProblem, UnknownEngine, is_nested_deeply, is_standard_module, may_lack,
    needs_cpython, needs_cpython_in,
};
pub use cpython::{
    Begun, CPython, CPythonSettings, PackageSettings, SessionEnd, SessionInfo, SessionKey, SessionLimits, SessionRun,
    Sessions,
};
#[cfg(unix)]
pub use cpython::{LAUNCH_ARGUMENT, launch};
pub use execution::{Execution, Failure, FileAccess, Frame, Limits, Program};
pub use host::{CLOCK, CallTarget, Host, Lookup, REPEATING, WrittenName};
pub use resident::{give_back_code, give_back_grown_heap, give_back_heap, return_large_pieces};
pub use sandbox::Sandbox;
