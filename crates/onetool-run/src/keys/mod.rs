//! The sections of the configuration that `run(command)` owns, and what they mean.
//!
//! What cannot be read must not be laxer than what was meant: an unreadable rule denies.

mod names;
mod output;
mod prompts;
mod run;
mod security;

pub use names::{ALIAS, PROJECTS, SNIPPETS, TOOLS, TOPICS, aliases, projects, snippets, topics};
pub use output::{OUTPUT, STATS, output, stats};
pub use prompts::{PROMPTS, PromptKeys, overrides};
pub use run::{RUN, RunKeys};
pub use security::{SECURITY, SecurityKeys, groups, permissions, run_settings};
