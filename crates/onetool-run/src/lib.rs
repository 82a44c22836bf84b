//! `run(command)`: prepare, execute, present, and the one call path.

mod account;
pub mod activity;
pub mod approvals;
mod catalog;
mod checked_progress;
mod code;
mod direct;
mod dry_run;
pub mod durable;
mod fence_processor;
mod gate;
pub mod groups;
pub mod keys;
mod learned;
mod logged_call;
mod nearest;
mod ot;
mod pack_proxy;
mod packages;
mod parameters;
mod permission;
mod precheck;
pub mod present;
mod project_pack;
pub mod quota;
mod replay;
mod runner;
mod saved;
pub mod search;
mod sessions;
mod settings;
mod shapes;
mod snippets;
mod steps;
mod switched;
mod tool_loader;
mod toolbox;
mod type_check;
mod validate;
mod work;

// Lets modules that tests share with examples use the crate's public name.
#[cfg(test)]
extern crate self as onetool_run;

pub use catalog::{Catalog, CatalogPack, Clash, ToolOverride};
pub use dry_run::DryRun;
pub use gate::{Gate, Verdict};
pub use learned::{LearnedShapes, Seen};
pub use logged_call::LoggedCall;
pub use ot::{Awaited, Found, FoundKind, SearchIndex, Toolbox as ToolboxView, ot_pack, pack_overview};
pub use pack_proxy::PROJECTS;
pub use permission::{Permission, Permissions};
pub use project_pack::project_pack;
pub use runner::{Admission, Refusal, RunOptions, RunReply, Runner};
pub use saved::{Replace, SavedCode, SavedEntry, SavedSource};
pub use settings::{
    OutputSettings, RunSettings, ServerStatus, Snippet, SnippetParameter, StatsSettings, ToolboxState, Topic,
};
pub use snippets::{check_template, expand_snippet};
pub use steps::{Steps, Unsent};
pub use switched::{SwitchedSource, switch_note};
pub use toolbox::{Approval, CallOutcome, Project, Recorder, RunOutcome, Shared, Toolbox, ToolboxParts};
pub use work::Work;
