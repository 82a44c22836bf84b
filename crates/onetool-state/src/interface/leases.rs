//! Exclusive rights for a limited time: at most one holder per name.
//!
//! A slow holder may have lost its lease; its writes then carry a lower fence than the new holder's, so that they can
//! be recognized and refused.

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
    /// Takes the lease if it is free or has expired. `None` while another owner holds it.
    async fn acquire(&self, name: &str, owner: &str, ttl: Duration) -> Result<Option<Lease>, StateError>;

    /// Holds the lease for another `ttl` from now. Fails with [`StateError::LeaseLost`] if it is no longer held.
    async fn renew(&self, lease: &Lease, ttl: Duration) -> Result<(), StateError>;

    /// Releases the lease. Not being held any more is not an error.
    async fn release(&self, lease: &Lease) -> Result<(), StateError>;
}
