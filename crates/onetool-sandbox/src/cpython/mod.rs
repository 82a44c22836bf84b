//! The second engine: full CPython, confined by the kernel.
//!
//! Each program gets its own process, which is never reused: no state can leak from one run to the next. Only the
//! programs of one session share one (`sessions`). The process is our own executable, started again as a launcher that
//! confines itself and becomes Python (`launch`, `wall`), runs `engine_host.py`, and talks to the [`Host`](crate::Host)
//! through `conversation`.
//!
//! **Invariant:** no user code runs in a process that could open a file outside Python's own library, reach the
//! network, start a process or signal another one, unless the settings say `allow_unconfined`. A program that finds the
//! descriptors of the protocol can only make the calls that it could make anyway, and they are counted the same.

#[cfg(unix)]
mod child;
#[cfg(unix)]
mod conversation;
#[cfg(unix)]
mod decode;
#[cfg(unix)]
mod encode;
#[cfg(unix)]
mod engine;
#[cfg(unix)]
mod host_program;
#[cfg(unix)]
mod interpreter;
#[cfg(unix)]
mod launch;
#[cfg(unix)]
mod layout;
#[cfg(unix)]
mod packages;
#[cfg(unix)]
mod protocol;
mod sessions;
mod settings;
#[cfg(unix)]
mod spares;
#[cfg(not(unix))]
mod unsupported;
#[cfg(target_os = "linux")]
mod zygote;
#[cfg(all(unix, not(target_os = "linux")))]
#[path = "zygote_unsupported.rs"]
mod zygote;

#[cfg(target_os = "linux")]
use crate::wall;

#[cfg(unix)]
pub use engine::CPython;
#[cfg(unix)]
pub(crate) use engine::KeptChild;
#[cfg(unix)]
pub use launch::{LAUNCH_ARGUMENT, launch};
pub(crate) use sessions::SessionProgram;
pub use sessions::{Begun, SessionEnd, SessionInfo, SessionKey, SessionLimits, SessionRun, Sessions};
pub use settings::{CPythonSettings, PackageSettings};
#[cfg(not(unix))]
pub use unsupported::CPython;
#[cfg(not(unix))]
pub(crate) use unsupported::KeptChild;
