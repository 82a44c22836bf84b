//! Configuration: every key is declared once, by the crate that uses it.
//!
//! An owner declares its keys with [`keys!`] (name, type, limits, default, documentation, when a change takes effect)
//! and a [`Section`] with their place. The checker ([`Shape`]), the typed value, the reference, the JSON Schema and the
//! commented example ([`reference`]) are derived from the declarations. [`load`] finds and merges the files; a
//! [`Reader`] returns sections and collects their problems, each with its file, line and key.
//!
//! A mistake affects only its own key: it becomes a note for `ot.health()`, and everything else stays in effect.

mod document;
pub mod edit;
mod expandable;
mod files;
mod git_index;
mod home;
mod keys_macro;
mod reader;
pub mod reference;
mod secrets;
mod section;
mod shape;
mod trust;
mod trust_record;
mod value;

#[doc(hidden)]
pub use serde_json;

pub use expandable::{Expandable, expand_with};
pub use files::{
    ConfigPlaces, INCLUDE, INHERIT, LoadedConfig, MissingConfig, VERSION, expand_home, load, load_trusted,
    local_package,
};
pub use git_index::separate_git_folders;
pub use home::{contains_home, home_folder};
pub use reader::{Outcome, Reader, RestartKeys};
pub use secrets::{Secrets, secrets_file};
pub use section::{AnySection, Section};
pub use shape::{
    Effect, Key, MAX_BYTES, MAX_COUNT, MAX_KB, MAX_MB, Shape, ShapeProblem, ShapeProblemKind, fit, quoted, short,
};
pub use trust::{FileTrust, UNTRUSTED, is_trust_decided};
pub use trust_record::TrustRecord;
pub use value::ConfigValue;
