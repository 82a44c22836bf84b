//! `tools.llm` of the configuration.

use std::time::Duration;

use onetool_config::{Expandable, MAX_KB, Reader, Section, Shape, choices, keys};

use super::settings::{Endpoint, LlmSettings, Via};

choices!(Via { "auto" => Auto, "client" => Client, "endpoint" => Endpoint });

keys! {
    /// The pack `llm`.
    pub struct LlmKeys {
        /// Whose model is asked: the client's where it offers one and else the endpoint (auto), or only one of them.
        via: Via = Via::Auto, live;
        /// A server that speaks OpenAI's chat completions, without /chat/completions.
        endpoint: Option<String> = None, live, example "http://127.0.0.1:11434/v1";
        /// The model that the endpoint is asked for.
        model: Option<String> = None, live, example "qwen3";
        /// The endpoint's key.
        key: Option<Expandable> = None, live;
        /// Longest answer.
        max_tokens: u32 [Shape::Count(1, 1_000_000)] = 4096, live;
        /// Largest input with its prompt.
        max_input_kb: usize [Shape::Count(1, MAX_KB)] = 1024, live;
        /// Longest time for an answer.
        timeout: Duration = Duration::from_mins(2), live;
    }
}

pub const LLM: Section<LlmKeys> = Section::new("tools.llm");

impl LlmSettings {
    /// Reads the section `tools.llm`.
    pub fn read(reader: &mut Reader) -> Self {
        let keys = reader.read(&LLM);
        let key = match keys.key.as_ref().map(|key| reader.expand(key)).transpose() {
            Ok(key) => key,
            Err(missing) => {
                reader.problem(&["tools", "llm", "key"], &format!("it names {missing}, which is not set"));
                None
            }
        };
        let endpoint = match (keys.endpoint, keys.model) {
            (Some(url), Some(model)) => Some(Endpoint { url, model, key }),
            (Some(_), None) => {
                reader.problem(&["tools", "llm", "endpoint"], "it needs tools.llm.model as well");
                None
            }
            (None, _) => None,
        };
        Self {
            via: keys.via,
            endpoint,
            secrets: keys.key.as_ref().map(|key| reader.secrets_in(key)).unwrap_or_default(),
            max_tokens: keys.max_tokens,
            max_input_bytes: keys.max_input_kb << 10,
            timeout: keys.timeout,
        }
    }
}
