//! `prompts`: what clients are told.

use indexmap::IndexMap;
use onetool_config::{Section, keys};

use crate::ToolOverride;

keys! {
    /// What clients are told about this server, its tool and its packs.
    pub struct PromptKeys {
        /// Instructions of the server.
        instructions: Option<String> = None, live, example "Use run for everything.";
        /// Texts of tools: `run`, or another by its full name, instead of what it says itself.
        tools: IndexMap<String, PromptTool> = IndexMap::new(), live,
            example "{file.grep: {description: Find lines in files by a pattern, words: [ripgrep]}}";
        /// Instructions for packs, by name.
        packs: IndexMap<String, String> = IndexMap::new(), live,
            example "{file: Prefer file.edit over file.write for small changes.}";
    }
}

keys! {
    /// Texts of one tool.
    pub struct PromptTool {
        /// Description that clients see.
        description: Option<String> = None, live, example "Run Python with all tools at hand.";
        /// Words that a search finds it by, beside its own.
        words: Vec<String> = Vec::new(), live, example "[ripgrep]";
    }
}

pub const PROMPTS: Section<PromptKeys> = Section::new("prompts");

/// Descriptions and search words that replace those of tools, by full name.
pub fn overrides(keys: &PromptKeys) -> IndexMap<String, ToolOverride> {
    let of_others = keys.tools.iter().filter(|(name, _)| *name != "run");
    of_others
        .map(|(name, tool)| {
            (name.clone(), ToolOverride { description: tool.description.clone(), words: tool.words.clone() })
        })
        .collect()
}
