//! Tools written in Rust, in this process. One file a pack.

mod blocking;
pub mod file;
mod lines;
mod source;
pub mod standard;

pub use source::{NativePack, NativeSource};
