//! Why shared state refused or failed.

use crate::atomic::StoreError;

/// Each case is one that a caller answers differently.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The document is not in the state that the change expected. Read it again.
    #[error("{0} has changed meanwhile")]
    Conflict(String),
    /// What the change was decided on is out of date. Read the changes, and decide again.
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
    /// The lease is not held any more: somebody else may have it.
    #[error("the lease {0} is not held any more")]
    LeaseLost(String),
    /// The backend can't be reached now. Nothing is known to have happened.
    #[error("the shared state is unavailable: {reason}\nhint: {hint}")]
    Unavailable { reason: String, hint: String },
    #[error(transparent)]
    Store(#[from] StoreError),
}
