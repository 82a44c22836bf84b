//! What shared state can do, whoever keeps it.
//!
//! Six interfaces: [`Documents`] (small, versioned, with compare-and-swap and a feed of changes), [`Blobs`] (large, read
//! in pieces, with expiry), [`Leases`] (who may do something now, with a fence), [`Limits`] (token buckets), [`Trail`]
//! (lines that are only appended) and [`Jobs`] (work that outlives its process, with a journal). A [`Backend`] offers all of them; [`crate::flat`] is the first, and `crate::contract`
//! says what every backend must do. The rules over them (bundles, results, statistics) know no backend.
//!
//! The methods are asynchronous because a backend may be a network away. Code that blocks anyway uses
//! [`wait`](crate::wait).

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

/// Everything that is kept in one place.
pub trait Backend: Send + Sync {
    /// Where state is kept, for people: a folder, or an address without its password.
    fn place(&self) -> String;

    fn documents(&self) -> Arc<dyn Documents>;

    /// Blobs that are kept as `retention` says. Cheap: ask whenever the settings may have changed.
    fn blobs(&self, retention: Retention) -> Arc<dyn Blobs>;

    fn leases(&self) -> Arc<dyn Leases>;

    fn limits(&self) -> Arc<dyn Limits>;

    fn trail(&self) -> Arc<dyn Trail>;

    fn jobs(&self) -> Arc<dyn Jobs>;

    /// Whether servers on other machines share it.
    fn is_shared(&self) -> bool {
        false
    }

    /// The connections that it holds, where it has some.
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
    /// Calls that wait for one.
    pub waiting: usize,
}

/// A backend, shared.
pub type State = Arc<dyn Backend>;
