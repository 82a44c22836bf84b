//! From files to settings: found, merged, checked section by section, resolved once.
//!
//! A mistake in one key costs that key alone. It becomes a note in `ot.health()`, with the file, the line, the key and
//! what was expected; the rest counts.

mod files;
mod locate;
mod raw;
mod resolve;
mod secrets;

pub use files::{ConfigPlaces, load};
pub use resolve::{Resolved, resolve};
