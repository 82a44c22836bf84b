//! The interfaces of shared state, independent of the backend.
//!
//! Six interfaces: [`Documents`] (small, versioned, with compare-and-swap and a feed of changes), [`Blobs`] (large,
//! read in pieces, with expiry), [`Leases`] (exclusive rights, with a fence), [`Limits`] (token buckets), [`Trail`]
//! (append-only lines) and [`Jobs`] (work that outlives its process, with a journal). A [`Backend`] offers all of them;
//! [`crate::flat`] is the first, and `crate::contract` tests what every backend must do. The rules over them (bundles,
//! results, statistics) know no backend.
//!
//! The methods are asynchronous because a backend may be across a network. Blocking code uses [`wait`](crate::wait).

mod blobs;
mod chunks;
mod documents;
mod error;
mod jobs;
mod leases;
mod limits;
mod trail;

use std::sync::Arc;

pub use blobs::{BlobId, BlobInfo, BlobWriter, Blobs, NewBlob, Retention};
pub use chunks::Chunks;
pub use documents::{
    Change, Changes, Collection, Condition, Cursor, Document, Documents, Effort, Expect, Guard, Key, Revision,
};
pub use error::StateError;
pub use jobs::{Backlog, Claim, Holder, JobState, Jobs, MAX_BACKLOG_TAGS, Rest};
pub use leases::{Lease, Leases};
pub use limits::{Bucket, Granted, Limits, Rate};
pub use trail::{IsOld, Merge, Position, Stream, Trail, TrailRead, Visit, VisitBack};

/// All state that is kept in one place.
pub trait Backend: Send + Sync {
    /// Where state is kept, for display: a folder, or an address without its password.
    fn place(&self) -> String;

    fn documents(&self) -> Arc<dyn Documents>;

    /// Blobs with this retention. Cheap: call it whenever the settings may have changed.
    fn blobs(&self, retention: Retention) -> Arc<dyn Blobs>;

    fn leases(&self) -> Arc<dyn Leases>;

    fn limits(&self) -> Arc<dyn Limits>;

    fn trail(&self) -> Arc<dyn Trail>;

    fn jobs(&self) -> Arc<dyn Jobs>;

    /// Whether servers on other machines share this state.
    fn is_shared(&self) -> bool {
        false
    }

    /// The status of its connections, if it has any.
    fn pool(&self) -> Option<PoolStatus> {
        None
    }
}

/// The connections to a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolStatus {
    pub max: usize,
    pub open: usize,
    pub idle: usize,
    /// Number of calls waiting for a connection.
    pub waiting: usize,
}

/// A backend, shared.
pub type State = Arc<dyn Backend>;
