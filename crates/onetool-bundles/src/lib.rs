//! Tools that are outbound requests, sequences of tools, and bundles as packs.
//!
//! A template is parsed when its tool is stored: every `${variable}` is known by its place (path, query, header, JSON
//! string, JSON value) and escaped for it, and is an argument or a declared secret. A request leaves only for a host
//! that the configuration lists, checked again on the resolved address and on every redirect.
//!
//! **Invariant:** a secret's value appears in a request and nowhere else: replies, errors, dry runs and logs have it
//! masked. Start at [`HttpEngine`] for requests, at `sequence` for sequences, and at [`BundleSource`] for packs.

mod archive;
mod arguments;
mod auth;
mod body;
mod built_in;
mod engine;
mod exchange;
mod extract;
mod gate;
mod import;
mod limits;
mod paginate;
mod rate;
mod reply;
mod request;
mod retry;
mod schema_check;
mod secrets;
mod sections;
mod sequence;
mod source;
mod stream;
mod template;
mod url;

#[cfg(test)]
mod tests;

pub use archive::{Archive, ArchiveDocuments, export_bundle, open_archive};
pub use auth::{AuthReport, AuthStep, StepState};
pub use built_in::{PACKAGE, PackageKeys, PackageUrls, ReadyMade, ReadyMadeKeys, built_in_bundles};
pub use engine::{HttpEngine, Outcome, Preview};
pub use gate::GatedSource;
pub use import::{
    Format, IMPORTS, ImportKeys, ImportMode, ImportOptions, ImportSettings, Imported, ImportedTool, OnConflict,
    StoredBundle, StoredOutcome, StoredTool, Unexpressed, of_json, read_document, store_bundle, store_document,
};
pub use limits::{BUNDLES, BundleKeys, HTTP, HttpKeys, HttpSettings, LOCALE};
pub use onetool_outbound::{AllowedHosts, HostRuleError};
pub use request::DryRun;
pub use secrets::Secrets;
pub use sections::sections;
pub use sequence::{PlannedStep, SEQUENCES, SequenceKeys, SequenceSettings};
pub use source::BundleSource;
