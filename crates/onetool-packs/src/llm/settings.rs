//! The model that the pack `llm` uses, and its limits.

use std::time::Duration;

/// Settings of the pack `llm`: the keys of `tools.llm`.
#[derive(Debug, Clone)]
pub struct LlmSettings {
    /// `via`: which model to use.
    pub via: Via,
    /// `endpoint`, with its model and key.
    pub endpoint: Option<Endpoint>,
    /// The secrets that `key` names.
    pub secrets: Vec<String>,
    /// `max_tokens`: the longest answer.
    pub max_tokens: u32,
    /// `max_input_kb`: the largest input with its prompt.
    pub max_input_bytes: usize,
    /// `timeout`: the longest that an answer may take.
    pub timeout: Duration,
}

/// Which model to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Via {
    /// The client's model if it offers one (sampling), or else the endpoint.
    #[default]
    Auto,
    Client,
    Endpoint,
}

/// A server that speaks OpenAI's chat completions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The base URL without `/chat/completions`, such as `http://127.0.0.1:11434/v1`.
    pub url: String,
    pub model: String,
    pub key: Option<String>,
}

impl Default for LlmSettings {
    fn default() -> Self {
        Self {
            via: Via::Auto,
            endpoint: None,
            secrets: Vec::new(),
            max_tokens: 4096,
            max_input_bytes: 1 << 20,
            timeout: Duration::from_mins(2),
        }
    }
}

/// Maximum size of an answer.
pub(super) const MAX_ANSWER_BYTES: usize = 8 << 20;
/// How often the model is asked to correct an answer that does not match its schema.
pub(super) const MAX_CORRECTIONS: usize = 2;
/// How much of a failed reply an error quotes.
pub(super) const EXCERPT_CHARS: usize = 300;
