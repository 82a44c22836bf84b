//! Argument schemas: generated from Rust types, and compiled into what each model provider accepts.
//!
//! [`compile_schema`] reports what it could not express; those constraints still hold when the call comes back, because
//! a tool validates against its own schema. [`Strip`] undoes the one change of meaning that compiling makes: an
//! optional argument that must be sent becomes nullable, and its `null` means that it was left out.

mod compile;
mod composition;
mod definition;
mod dialect;
mod limits;
mod provider_names;
mod strip;

pub use compile::{CompiledSchema, GivenUp, compile_schema};
pub(crate) use definition::definition_schema;
pub use dialect::Provider;
pub use limits::lint_request;
pub use provider_names::{MAX_PROVIDER_NAME, ProviderNames};
pub use strip::Strip;
