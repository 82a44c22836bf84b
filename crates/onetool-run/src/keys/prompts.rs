//! `prompts`: what clients are told.

use indexmap::IndexMap;
use onetool_config::{Section, keys};

keys! {
    /// What clients are told about this server, its tool and its packs.
    pub struct PromptKeys {
        /// Instructions of the server.
        instructions: Option<String> = None, live, example "Use run for everything.";
        /// Texts of tools.
        tools: PromptTools = PromptTools::default(), live;
        /// Instructions for packs, by name.
        packs: IndexMap<String, String> = IndexMap::new(), live,
            example "{file: Prefer file.edit over file.write for small changes.}";
    }
}

keys! {
    /// Texts of tools.
    pub struct PromptTools {
        /// The tool `run`.
        run: PromptTool = PromptTool::default(), live;
    }
}

keys! {
    /// Texts of one tool.
    pub struct PromptTool {
        /// Description that clients see.
        description: Option<String> = None, live, example "Run Python with all tools at hand.";
    }
}

pub const PROMPTS: Section<PromptKeys> = Section::new("prompts");
