//! The only crate that writes files.

pub mod atomic;
pub mod bundles;
