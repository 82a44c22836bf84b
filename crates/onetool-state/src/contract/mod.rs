//! The requirements for every backend, as tests. A backend's own tests call [`check`] with a function that opens it,
//! and [`check_processes`] with one that starts this test binary again.
//!
//! Each call of `open` acts as another process: it must see what the others write.
#![expect(clippy::unwrap_used, clippy::print_stdout, clippy::panic, reason = "these are tests that other crates run")]

mod blobs;
mod documents;
mod jobs;
mod leases;
mod processes;
mod trail;

use crate::interface::State;

pub use processes::{ROLE, check_processes, play};

/// Opens the backend again, as another process would.
pub type Open<'a> = &'a (dyn Fn() -> State + Send + Sync);

/// Checks everything that one process can check. The state must be empty.
pub async fn check(open: Open<'_>) {
    documents::check(open).await;
    blobs::check(open).await;
    leases::check(open).await;
    leases::check_limits(open).await;
    trail::check(open).await;
    jobs::check(open).await;
}
