//! Errors of the bundle store.

use crate::atomic::StoreError;
use crate::interface::StateError;

use super::names::NameError;

/// Each variant is one that callers handle differently.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    #[error("{0}")]
    NotFound(String),
    #[error("{0}")]
    Invalid(String),
    #[error(transparent)]
    Name(#[from] NameError),
    /// `<slug, version>` is taken, or the bundle or tool is not in the state that the change requires.
    #[error("{0}")]
    Conflict(String),
    #[error("{0}; of a built-in only isEnabled may change")]
    BuiltIn(String),
    /// `If-Match` named another state.
    #[error("{0} has changed meanwhile; read it again")]
    Changed(String),
    #[error("{0}")]
    Limit(String),
    #[error("the page token does not fit this query; start again without it")]
    PageToken,
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The shared state failed or is unreachable.
    #[error(transparent)]
    State(StateError),
}

impl From<StateError> for BundleError {
    fn from(error: StateError) -> Self {
        match error {
            StateError::Store(error) => Self::Store(error),
            StateError::TooLarge(reason) => Self::Limit(reason),
            error => Self::State(error),
        }
    }
}
