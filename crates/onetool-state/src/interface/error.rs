//! Errors of shared state.

use crate::atomic::StoreError;

/// Each variant is one that callers handle differently.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The document is not in the state that the change expected. Read it again.
    #[error("{0} has changed meanwhile")]
    Conflict(String),
    /// The change was based on outdated state. Read the changes, and decide again.
    #[error("{0} has changed meanwhile")]
    Stale(String),
    #[error("not found: {0}")]
    NotFound(String),
    #[error("expired: {0}")]
    Expired(String),
    #[error("{0}")]
    TooLarge(String),
    #[error("{0}")]
    Invalid(String),
    /// The lease is no longer held: another holder may have it.
    #[error("the lease {0} is not held any more")]
    LeaseLost(String),
    /// The backend is unreachable. Nothing is known to have happened.
    #[error("the shared state is unavailable: {reason}\nhint: {hint}")]
    Unavailable { reason: String, hint: String },
    #[error(transparent)]
    Store(#[from] StoreError),
}
