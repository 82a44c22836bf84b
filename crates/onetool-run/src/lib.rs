//! `run(command)`: prepare, execute, present, and the one call path.

mod catalog;
mod settings;

pub use catalog::{Catalog, CatalogPack, Clash};
pub use settings::{OutputSettings, ServerStatus, Snippet, SnippetParameter, StatsSettings, ToolboxState, Topic};
