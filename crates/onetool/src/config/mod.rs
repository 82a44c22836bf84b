//! Every section of the configuration, collected from the crates that own them, and what they mean together.
//!
//! How keys are declared, checked and read is [`onetool_config`]'s business; which sections exist is [`SECTIONS`]'s.

mod resolve;
mod sections;
#[cfg(test)]
mod tests;

pub use onetool_config::{ConfigPlaces, load, secrets_file};
pub use resolve::{Resolved, resolve};
#[cfg(test)]
use sections::SECTIONS;
pub use sections::{example, reference, schema};
