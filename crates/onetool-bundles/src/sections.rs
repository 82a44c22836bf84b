//! The configuration sections of this crate.

use onetool_config::AnySection;

use super::built_in::{PACKAGE, ready_made_sections};
use super::import::IMPORTS;
use super::limits::{BUNDLES, HTTP, LOCALE};
use super::sequence::SEQUENCES;

/// The sections, in the order of the reference.
pub fn sections() -> Vec<&'static dyn AnySection> {
    let mut sections: Vec<&'static dyn AnySection> = vec![&PACKAGE];
    sections.extend(ready_made_sections());
    let others: [&'static dyn AnySection; 5] = [&HTTP, &BUNDLES, &SEQUENCES, &IMPORTS, &LOCALE];
    sections.extend(others);
    sections
}
