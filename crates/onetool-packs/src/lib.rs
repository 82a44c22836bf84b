//! Tools written in Rust, in this process. One file a pack.

mod blocking;
pub mod file;
mod lines;
pub mod standard;

pub use onetool_sdk::{NativePack, NativeSource};
