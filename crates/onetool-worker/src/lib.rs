//! Tools written in Python, each file in a persistent worker process of its own.
//!
//! A file is *read* to know what it offers (`tool_file`; never run for it), and *run* at the first call: `uv` makes the
//! environment that its PEP 723 block asks for (`environment`), and a small host in Python (`worker_host.py`) imports
//! the file there and serves calls over private descriptors (`live`). `pool` decides which workers exist; `source`
//! is what the rest of the program sees.
//!
//! **Invariant:** nothing that a tool prints, closes, forks or breaks reaches another tool or this process; the worst is
//! an error for its own calls and a new worker for the next one.

mod annotation;
mod classes;
mod declared;
mod discover;
mod docstring;
mod environment;
mod live;
mod log_budget;
mod metadata;
mod pool;
mod protocol;
mod registry;
mod requests;
mod scaffold;
mod settings;
mod source;
mod stderr;
mod supervisor;
mod tool_file;

pub use discover::{governing_files, untrusted_files};
pub use scaffold::scaffold;
pub use settings::{NoServices, TOOLS_DIR, WORKERS, WorkerKeys, WorkerLimits, WorkerServices, WorkerSettings};
pub use source::WorkerSource;
