//! All sections, and what is generated from them.

use std::sync::LazyLock;

use onetool_config::{AnySection, INCLUDE, INHERIT, VERSION};

use crate::audit::AUDIT;
use crate::log::{LOG_DIR, LOG_LEVEL};
use crate::state::STATE;
use crate::telemetry::TELEMETRY;

/// The sections of this crate.
const OWN: &[&dyn AnySection] = &[&AUDIT, &STATE, &LOG_LEVEL, &LOG_DIR, &TELEMETRY];

/// Every section, in the order of the reference and of the commented example.
pub static SECTIONS: LazyLock<Vec<&'static dyn AnySection>> = LazyLock::new(|| {
    let of_files: &[&dyn AnySection] = &[&VERSION, &INCLUDE, &INHERIT];
    [
        of_files,
        onetool_run::keys::SECTIONS,
        onetool_proxy::keys::SECTIONS,
        onetool_worker::SECTIONS,
        onetool_packs::SECTIONS,
        &onetool_bundles::sections(),
        onetool_http::keys::SECTIONS,
        OWN,
    ]
    .concat()
});

/// `docs/configuration.md`.
pub fn reference() -> String {
    include_str!("reference.md").replace("{{ sections }}\n", &onetool_config::reference::markdown(&SECTIONS))
}

/// `examples/config/onetool.yaml`.
pub fn example() -> String {
    onetool_config::reference::example(&SECTIONS)
}

/// A JSON Schema of a configuration file.
pub fn schema() -> serde_json::Value {
    onetool_config::reference::json_schema(&SECTIONS)
}
