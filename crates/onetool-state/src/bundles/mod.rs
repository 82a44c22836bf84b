//! Bundles of tools, kept as plain files.
//!
//! `<folder>/<bundle id>/bundle.json` and one `<tool id>.json` beside it a tool; slug and version stand inside, so
//! renaming moves nothing and no name is too long. The files are the truth: memory, the search index and the usage
//! counts are derived from them and follow when another process, or a person with an editor, changes them.
//!
//! **Invariant:** within a bundle `<slug, version>` is unique across processes; every change happens under one lock
//! file and reaches the disk before it is acknowledged. A file that can't be read is set aside and reported, never fatal.
//! Built-in bundles live in the same map and are served alike; only their `isEnabled` is kept on disk.

mod builtin;
mod changes;
mod draft;
mod error;
mod files;
mod keeper;
mod limits;
mod model;
mod names;
mod page;
mod scan;
mod search;
mod state;
mod store;
mod usage;
#[cfg(any(test, not(feature = "sqlite")))]
mod words_map;
#[cfg(feature = "sqlite")]
mod words_sqlite;

#[cfg(test)]
mod tests;

#[cfg(not(feature = "sqlite"))]
use words_map::Words;
#[cfg(feature = "sqlite")]
use words_sqlite::Words;

pub use builtin::{BuiltInBundle, BuiltInTool};
pub use draft::{BundleDraft, Precondition, ToolDraft, Written};
pub use error::BundleError;
pub use limits::Limits;
pub use model::{
    ApiKeyPlace, Auth, Bundle, ErrorMode, HttpImplementation, Implementation, NativeImplementation, ResponseEncoding,
    Tool,
};
pub use names::{BundleId, NameError, Slug, ToolId, Version};
pub use page::{Page, PageToken};
pub use state::{BundleView, ToolView};
pub use store::{BundleStore, Disabled, Enabled, Options, Problem, ToolCheck, ToolFilter};
pub use usage::Usage;
