//! Tools written in Rust, in this process. One file a pack.

mod blocking;
pub mod diff;
pub mod file;
mod lines;
pub mod llm;
pub mod standard;
pub mod web;

pub use onetool_sdk::{NativePack, NativeSource};
