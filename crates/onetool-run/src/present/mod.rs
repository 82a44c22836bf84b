//! How values are shown.

mod yaml;

pub(crate) use yaml::quoted;
pub use yaml::{to_ot_display, to_yaml_block, to_yaml_flow};
