//! Shared state: the interfaces, the rules over them, and flat files as the first backend.
//!
//! [`interface`] defines what a backend can do, [`flat`] implements it with plain files, `contract` is the test suite
//! that every backend must pass. [`access_tokens`], [`audit`], [`bundles`], [`results`], [`runs`] and [`stats`] are
//! rules over those interfaces and name no backend.

pub mod access_tokens;
pub mod atomic;
pub mod audit;
mod batched;
pub mod bundles;
#[cfg(any(test, feature = "contract"))]
pub mod contract;
mod copy;
pub mod flat;
pub mod fuzzy;
pub mod interface;
mod leased;
pub mod logs;
pub mod notifications;
pub mod results;
pub mod runs;
pub mod stats;
pub mod switches;
mod wait;

pub use copy::{Copied, copy};
pub use interface::{Backend, State, StateError};
pub use leased::{LeasedLimits, Permit};
pub use wait::wait;
