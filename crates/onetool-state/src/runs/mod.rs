//! Background runs: what is known of them while they run and after, for whoever started them.
//!
//! A run has a record (small, listed) and contents (its command, then its reply). Whoever executes a run changes its record
//! only in the state that it last saw, so that two processes never both believe that they have it. A process that
//! executes runs holds a lease; runs whose process lost it are interrupted, and whoever looks at them says so.
//!
//! Runs belong to an [`Owner`]; nobody reads, lists or cancels another's.

mod record;
mod store;
#[cfg(test)]
mod tests;

pub use record::{NewRun, Owner, RunId, RunOrigin, RunRecord, RunStatus};
pub use store::{Created, RunLimits, RunPage, RunStore, RunStoreError};
