//! The only crate that writes files.

pub mod atomic;
pub mod bundles;
pub mod fuzzy;
pub mod logs;
pub mod notifications;
pub mod results;
pub mod stats;
