//! `run(command)`: prepare, execute, present, and the one call path.

mod account;
mod catalog;
mod code;
mod direct;
mod fence_processor;
mod checked_progress;
mod gate;
pub mod keys;
mod nearest;
mod ot;
mod pack_proxy;
mod parameters;
mod permission;
mod precheck;
pub mod present;
mod project_pack;
mod replay;
mod runner;
mod settings;
mod snippets;
mod steps;
mod tool_loader;
mod toolbox;
mod type_check;

pub use catalog::{Catalog, CatalogPack, Clash};
pub use gate::{Gate, Verdict};
pub use ot::{Awaited, SearchIndex, Toolbox as ToolboxView, ot_pack};
pub use pack_proxy::PROJECTS;
pub use permission::{Permission, Permissions};
pub use project_pack::project_pack;
pub use runner::{RunReply, Runner};
pub use settings::{
    OutputSettings, RunSettings, ServerStatus, Snippet, SnippetParameter, StatsSettings, ToolboxState, Topic,
};
pub use snippets::check_template;
pub use steps::Steps;
pub use toolbox::{CallOutcome, Project, Recorder, RunOutcome, Shared, Toolbox, ToolboxParts};
