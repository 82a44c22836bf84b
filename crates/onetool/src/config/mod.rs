//! From files to settings: found, merged, checked section by section, resolved once.
//!
//! A mistake in one key costs that key alone. It becomes a note in `ot.health()`, with the file, the line, the key and
//! what was expected; the rest counts.

mod document;
mod entries;
mod files;
mod keys;
mod raw;
mod reader;
mod resolve;
mod secrets;
mod shape;
#[cfg(test)]
mod tests;

pub use files::{ConfigPlaces, NoSuchConfig, load};
pub use resolve::{Resolved, resolve};
