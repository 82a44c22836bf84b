//! Background runs: what is known of them while they run and after, for whoever started them.
//!
//! A run has a record (small, listed), contents (its command, then its reply) and a job (who executes it, and what it has
//! done so far). Whoever executes a run has a claim on its job, whose fence is in every write; a run whose process ended is
//! taken over by another, which reads the journal first.
//!
//! Runs belong to an [`Owner`]; nobody reads, lists or cancels another's.

mod approvals;
mod held;
mod record;
mod store;
#[cfg(test)]
mod tests;

pub use approvals::{ApprovalRecord, ApprovalStore, LIVE, LiveCall, Verdict};
pub use held::Taken;
pub(crate) use record::copied;
pub use record::{CallReport, NewRun, Owner, ReportedCall, RunId, RunOrigin, RunRecord, RunStatus};
pub use store::{Created, LEASE, REPORTED_CALLS, RunLimits, RunPage, RunStore, RunStoreError};
