//! Who may do something now: at most one holder a name, for a limited time.
//!
//! A holder that was slow may find its lease gone; whatever it then writes carries a fence that is lower than the new
//! holder's, so that the write can be told and refused.

use std::time::Duration;

use async_trait::async_trait;

use super::StateError;

/// A right that is held until it is released or expires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    pub name: String,
    pub owner: String,
    /// Grows with every holder of the name.
    pub fence: u64,
}

#[async_trait]
pub trait Leases: Send + Sync {
    /// Takes the lease if it is free or has expired. `None` while somebody else holds it.
    async fn acquire(&self, name: &str, owner: &str, ttl: Duration) -> Result<Option<Lease>, StateError>;

    /// Holds it for another `ttl` from now. Fails with [`StateError::LeaseLost`] where it is not held any more.
    async fn renew(&self, lease: &Lease, ttl: Duration) -> Result<(), StateError>;

    /// Gives it back. One that is not held any more is not an error.
    async fn release(&self, lease: &Lease) -> Result<(), StateError>;
}
