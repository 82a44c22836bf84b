//! `run(command)`: prepare, execute, present, and the one call path.

mod catalog;
mod ot;
pub mod present;
mod settings;

pub use catalog::{Catalog, CatalogPack, Clash};
pub use ot::{Toolbox, ot_pack};
pub use settings::{OutputSettings, ServerStatus, Snippet, SnippetParameter, StatsSettings, ToolboxState, Topic};
