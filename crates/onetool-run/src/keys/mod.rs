//! The configuration sections that `run(command)` owns, and their meaning.
//!
//! A value that cannot be read must not be more permissive than what was meant: an unreadable rule denies.

mod names;
mod output;
mod prompts;
mod run;
mod security;

use onetool_config::AnySection;

pub use names::{ALIAS, PROJECTS, SNIPPETS, TOOLS, TOPICS, aliases, projects, snippets, topics};
pub use output::{OUTPUT, STATS, output, stats};
pub use prompts::{PROMPTS, PromptKeys, overrides};
pub use run::{RUN, RunKeys};
pub use security::{SECURITY, SecurityKeys, groups, permissions, run_settings};

/// The sections of this crate.
pub const SECTIONS: &[&dyn AnySection] =
    &[&RUN, &OUTPUT, &ALIAS, &SNIPPETS, &PROJECTS, &SECURITY, &TOOLS, &TOPICS, &PROMPTS, &STATS];
