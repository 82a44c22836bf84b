//! Tools written in Python, each file in a persistent worker process of its own.
//!
//! A file is *read* to know what it offers (`tool_file`; never run for that), and *run* at the first call: `uv` creates
//! the environment that its PEP 723 block requires (`environment`), and a small host in Python (`worker_host.py`)
//! imports the file there and serves calls over private descriptors (`live`). `pool` decides which workers exist;
//! `source` is the interface for the rest of the program.
//!
//! **Invariant:** nothing that a tool prints, closes, forks or breaks affects another tool or this process; at worst
//! its own calls fail and the next one gets a new worker.

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
pub use settings::{
    NoServices, SECTIONS, TOOLS_DIR, WORKERS, WorkerKeys, WorkerLimits, WorkerServices, WorkerSettings,
};
pub use source::WorkerSource;
