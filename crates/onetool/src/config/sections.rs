//! All sections, and what is generated from them.

use onetool_config::{AnySection, INCLUDE, INHERIT, VERSION};

use crate::audit::AUDIT;
use crate::log::{LOG_DIR, LOG_LEVEL};
use crate::state::STATE;
use crate::telemetry::TELEMETRY;

/// Every section, in the order of the reference and of the commented example.
pub const SECTIONS: &[&dyn AnySection] = &[
    &VERSION,
    &INCLUDE,
    &INHERIT,
    &onetool_run::keys::RUN,
    &onetool_run::keys::OUTPUT,
    &onetool_run::keys::ALIAS,
    &onetool_run::keys::SNIPPETS,
    &onetool_run::keys::PROJECTS,
    &onetool_proxy::keys::SERVERS,
    &onetool_run::keys::SECURITY,
    &onetool_worker::TOOLS_DIR,
    &onetool_worker::WORKERS,
    &onetool_run::keys::TOOLS,
    &onetool_packs::file::FILE,
    &onetool_packs::llm::LLM,
    &onetool_run::keys::TOPICS,
    &onetool_bundles::PACKAGE,
    &onetool_bundles::BRAVE,
    &onetool_bundles::GITHUB,
    &onetool_bundles::OPENALEX,
    &onetool_bundles::WIKIPEDIA,
    &onetool_bundles::OPEN_METEO,
    &onetool_bundles::CONTEXT7,
    &onetool_bundles::FIRECRAWL,
    &onetool_packs::web::WEB,
    &onetool_bundles::HTTP,
    &onetool_bundles::BUNDLES,
    &onetool_bundles::SEQUENCES,
    &onetool_bundles::IMPORTS,
    &onetool_bundles::LOCALE,
    &onetool_http::keys::SERVER,
    &onetool_http::keys::BACKGROUND,
    &onetool_run::keys::PROMPTS,
    &onetool_run::keys::STATS,
    &AUDIT,
    &STATE,
    &LOG_LEVEL,
    &LOG_DIR,
    &TELEMETRY,
];

/// `docs/configuration.md`.
pub fn reference() -> String {
    include_str!("reference.md").replace("{{ sections }}\n", &onetool_config::reference::markdown(SECTIONS))
}

/// `examples/config/onetool.yaml`.
pub fn example() -> String {
    onetool_config::reference::example(SECTIONS)
}

/// A JSON Schema of a configuration file.
pub fn schema() -> serde_json::Value {
    onetool_config::reference::json_schema(SECTIONS)
}
