//! Tools written in Rust, in this process. One file a pack.

mod blocking;
pub mod file;
mod lines;
mod source;

pub use source::{NativePack, NativeSource};
