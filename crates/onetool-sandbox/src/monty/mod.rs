//! The first engine: Monty, a Python interpreter in Rust, in a pool of child processes of our own executable.
//!
//! No other crate names Monty. A child that dies takes only its own run with it, and the pool replaces it.

mod checker;
mod child;
mod convert;
mod engine;
mod objects;
mod os_calls;
mod stream;

pub(crate) use checker::Checker;
pub use checker::Finding;
pub use child::{Allocator, CHILD_ARGUMENT, serve};
pub use engine::{Monty, MontySettings};
