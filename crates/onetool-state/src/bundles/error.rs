//! Why the store refused.

use crate::atomic::StoreError;

use super::names::NameError;

/// Each case is one that a caller answers differently.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    #[error("{0}")]
    NotFound(String),
    #[error("{0}")]
    Invalid(String),
    #[error(transparent)]
    Name(#[from] NameError),
    /// `<slug, version>` is taken, or the thing is not in the state that the change needs.
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
}
