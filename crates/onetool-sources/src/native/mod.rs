//! Tools written in Rust, in this process. One file a pack.

mod source;

pub use source::{NativePack, NativeSource};
