//! Every section of the configuration, collected from the crates that own them, and the resulting settings.
//!
//! [`onetool_config`] declares, checks and reads keys; [`SECTIONS`] lists the sections.

mod resolve;
mod sections;
#[cfg(test)]
mod tests;

pub use onetool_config::{ConfigPlaces, load, secrets_file};
pub use resolve::{Resolved, resolve};
#[cfg(test)]
use sections::SECTIONS;
pub use sections::{example, reference, schema};
