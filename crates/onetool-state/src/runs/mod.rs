//! Background runs: what is known about them, during and after, for their owner.
//!
//! A run has a record (small, listed), contents (its command, then its reply) and a job (who executes it, and its
//! journal so far). The process that executes a run has a claim on its job, whose fence is in every write; if that
//! process ends, another one takes the run over, and reads the journal first.
//!
//! Runs belong to an [`Owner`]; no one can read, list or cancel those of another owner.

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
