//! Bundles of tools, kept as documents.
//!
//! `<bundle id>/bundle` is a bundle and `<bundle id>/<tool id>` one of its tools (as files: `bundle.json`, and one
//! `<tool id>.json` beside it per tool); slug and version are part of the content, so renaming moves nothing and no
//! name is too long. The documents are authoritative: memory, the search index and the usage counts are derived from
//! them and follow when another process, or a person with an editor, changes them.
//!
//! **Invariant:** within a bundle, `<slug, version>` is unique across processes. A change is decided on a snapshot, and
//! takes place only if nothing in the bundle has changed meanwhile; it is durable before it is acknowledged. An invalid
//! document is set aside and reported, never fatal. Built-in bundles live in the same map and are served alike; only
//! their `isEnabled` is stored.

mod auth;
mod builtin;
mod changes;
mod draft;
mod error;
mod feed;
mod import_plan;
mod keeper;
mod limits;
mod model;
mod names;
mod page;
mod response;
mod schema_form;
mod search;
mod sequence;
mod state;
mod store;
mod translations;
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

pub use auth::{
    ApiKeyPlace, ApplyEntry, ApplyPlace, Auth, AuthBlock, AuthTest, ClientAuth, HmacAuth, HmacPreset, JwtAlgorithm,
    NonceRule, OAuth2Auth, OAuth2Grant, SecretEncoding, SigV4Auth, SigV4Payload, SignatureAlgorithm, SignatureEncoding,
    TimestampFormat, TimestampOffset, TimestampRule, ToolAuth,
};
pub use builtin::{BuiltInBundle, BuiltInTool};
pub use draft::{BundleDraft, PackedDraft, Precondition, ToolDraft, Written};
pub use error::BundleError;
pub use import_plan::{ImportPlan, ImportTarget};
pub use limits::Limits;
pub use model::{Bundle, ErrorMode, HttpImplementation, Implementation, NativeImplementation, ResponseEncoding, Tool};
pub use names::{BundleId, NameError, Slug, ToolId, Version};
pub use page::{Page, PageToken};
pub use response::{PageKind, PagePlace, PageRule, StreamFormat, StreamResult, StreamRule};
pub use sequence::{SequenceImplementation, SequenceStep, StepRetry};
pub use state::{BundleView, ToolView};
pub use store::{
    BundleCheck, BundleStore, Disabled, Enabled, NativeTool, Neighbours, Options, Problem, ToolCheck, ToolFilter,
};
pub use translations::{Translation, Translations, accepted_languages, is_language};
pub use usage::Usage;
