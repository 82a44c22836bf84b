//! Tools written in Rust that run in this process. One module per pack.

mod blocking;
pub mod diff;
pub mod file;
mod lines;
pub mod llm;
mod packs;
pub mod standard;
pub mod web;

pub use onetool_sdk::{NativePack, NativeSource};
pub use packs::{PackServices, PackSettings, SECTIONS, fixed_packs, replaceable_packs};
