//! Which model the pack `llm` asks and how much it may send: one table of limits.

use std::time::Duration;

/// Settings of the pack `llm`: the keys of `tools.llm`.
#[derive(Debug, Clone)]
pub struct LlmSettings {
    /// `via`: whom to ask.
    pub via: Via,
    /// `endpoint` and what belongs to it.
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

/// Whom to ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Via {
    /// The client where it offers its model (sampling), else the endpoint.
    #[default]
    Auto,
    Client,
    Endpoint,
}

/// A server that speaks OpenAI's chat completions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Up to and without `/chat/completions`, such as `http://127.0.0.1:11434/v1`.
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

/// The largest answer that is read.
pub(super) const MAX_ANSWER_BYTES: usize = 8 << 20;
/// How often an answer that does not fit its schema is asked for again.
pub(super) const MAX_CORRECTIONS: usize = 2;
/// How much of a failed reply an error shows.
pub(super) const EXCERPT_CHARS: usize = 300;
