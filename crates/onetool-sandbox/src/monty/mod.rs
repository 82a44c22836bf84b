//! The first engine: Monty, a Python interpreter in Rust, in a pool of child processes of our own executable.
//!
//! No other crate names Monty, and in this one only [`child`] uses the interpreter: the server's side (`engine`, `run`,
//! `pool`, `process`) knows only the messages between the two ([`wire`]). A child that dies affects only its own run,
//! and the pool replaces it.

mod child;
mod clocks;
mod convert;
mod engine;
mod files;
mod objects;
mod pool;
mod process;
mod run;
mod wire;

pub use child::{Allocator, CHILD_ARGUMENT, serve};
pub use engine::Monty;
pub use pool::MontySettings;
