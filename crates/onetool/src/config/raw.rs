//! The configuration as types. What is read into them was checked against [`super::keys`] before.

use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::Value as Json;

#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default, deny_unknown_fields)]
pub(super) struct Run {
    pub(super) engine: Option<String>,
    pub(super) timeout: Option<f64>,
    pub(super) total_timeout: Option<f64>,
    pub(super) max_memory_mb: Option<usize>,
    pub(super) max_calls: Option<usize>,
    pub(super) max_recursion: Option<usize>,
    pub(super) max_source_kb: Option<usize>,
    pub(super) max_printed_kb: Option<usize>,
    pub(super) max_error_kb: Option<usize>,
    pub(super) type_check: Option<bool>,
    pub(super) prewarm: Option<usize>,
    pub(super) max_parallel: Option<usize>,
    pub(super) max_waiting: Option<usize>,
    pub(super) max_wait: Option<f64>,
    pub(super) python: Option<String>,
    pub(super) allow_unconfined: Option<bool>,
    pub(super) zygote: Option<bool>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default, deny_unknown_fields)]
pub(super) struct Output {
    pub(super) max_inline_size: Option<usize>,
    pub(super) result_ttl: Option<u64>,
    pub(super) preview_lines: Option<usize>,
    pub(super) result_store_dir: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default, deny_unknown_fields)]
pub(super) struct Stats {
    pub(super) enabled: Option<bool>,
    pub(super) persist_dir: Option<String>,
    pub(super) persist_path: Option<String>,
    pub(super) flush_interval_seconds: Option<u64>,
    pub(super) context_per_call: Option<u64>,
    pub(super) time_overhead_per_call_ms: Option<u64>,
    pub(super) cost_per_million_input_tokens: Option<f64>,
    pub(super) cost_per_million_output_tokens: Option<f64>,
    pub(super) chars_per_token: Option<f64>,
    pub(super) model: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default, deny_unknown_fields)]
pub(super) struct Workers {
    pub(super) idle_timeout: Option<f64>,
    pub(super) call_timeout: Option<f64>,
    pub(super) startup_timeout: Option<f64>,
    pub(super) max: Option<usize>,
    pub(super) max_queue: Option<usize>,
    pub(super) max_memory_mb: Option<u64>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default, deny_unknown_fields)]
pub(super) struct Security {
    pub(super) sanitize: Sanitize,
    pub(super) blocked: Vec<String>,
    pub(super) warned: Vec<String>,
    pub(super) allow: Vec<String>,
    /// Pattern to `allow`, `ask` or `deny`; the first that matches counts.
    pub(super) policy: IndexMap<String, Json>,
    pub(super) validate_code: Option<bool>,
    pub(super) enabled: Option<bool>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default, deny_unknown_fields)]
pub(super) struct Sanitize {
    pub(super) enabled: bool,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default, deny_unknown_fields)]
pub(super) struct Server {
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
    pub(super) enabled: Option<bool>,
    pub(super) url: Option<String>,
    pub(super) headers: IndexMap<String, String>,
    pub(super) command: Option<String>,
    pub(super) args: Vec<String>,
    pub(super) env: IndexMap<String, String>,
    pub(super) env_allow: Vec<String>,
    pub(super) cwd: Option<String>,
    pub(super) timeout: Option<f64>,
    pub(super) max_message_mb: Option<usize>,
    pub(super) tools: ServerTools,
    pub(super) pin: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default, deny_unknown_fields)]
pub(super) struct ServerTools {
    pub(super) include: Vec<String>,
    pub(super) exclude: Vec<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default, deny_unknown_fields)]
pub(super) struct SnippetEntry {
    pub(super) description: String,
    pub(super) params: IndexMap<String, SnippetParam>,
    pub(super) body: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default, deny_unknown_fields)]
pub(super) struct SnippetParam {
    pub(super) required: Option<bool>,
    pub(super) default: Option<Json>,
    pub(super) description: Option<String>,
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default, deny_unknown_fields)]
pub(super) struct ProjectEntry {
    pub(super) path: Option<String>,
    pub(super) attrs: IndexMap<String, Json>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default, deny_unknown_fields)]
pub(super) struct Prompts {
    pub(super) instructions: Option<String>,
    pub(super) tools: PromptTools,
    pub(super) packs: IndexMap<String, String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default, deny_unknown_fields)]
pub(super) struct PromptTools {
    pub(super) run: PromptTool,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default, deny_unknown_fields)]
pub(super) struct PromptTool {
    pub(super) description: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default, deny_unknown_fields)]
pub(super) struct MsgPack {
    pub(super) topics: Vec<TopicEntry>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default, deny_unknown_fields)]
pub(super) struct TopicEntry {
    pub(super) pattern: String,
    pub(super) file: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default, deny_unknown_fields)]
pub(super) struct FilePack {
    pub(super) roots: Vec<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default, deny_unknown_fields)]
pub(super) struct Bundles {
    pub(super) dir: Option<String>,
}

/// Requests that HTTP tools make.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default, deny_unknown_fields)]
pub(super) struct Http {
    pub(super) allowed_hosts: Vec<String>,
    pub(super) retries: Option<u32>,
    pub(super) max_sent_bytes: Option<usize>,
    pub(super) max_response_bytes: Option<usize>,
    pub(super) max_timeout: Option<f64>,
    pub(super) max_calls_per_minute: Option<std::num::NonZeroU32>,
}

/// Addresses of package registries.
#[expect(clippy::struct_field_names, reason = "the fields are the keys")]
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default, deny_unknown_fields)]
pub(super) struct Packages {
    pub(super) npm_url: Option<String>,
    pub(super) pypi_url: Option<String>,
    pub(super) crates_url: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default, deny_unknown_fields)]
pub(super) struct HttpServer {
    pub(super) bind: Option<String>,
    pub(super) tokens: Vec<Token>,
    pub(super) allowed_hosts: Vec<String>,
    pub(super) allowed_origins: Vec<String>,
    pub(super) max_body_bytes: Option<usize>,
    pub(super) request_timeout: Option<f64>,
    pub(super) invoke_timeout: Option<f64>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default, deny_unknown_fields)]
pub(super) struct Token {
    pub(super) token: String,
    pub(super) scopes: Vec<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default, deny_unknown_fields)]
pub(super) struct Telemetry {
    pub(super) otlp_endpoint: Option<String>,
    pub(super) service_name: Option<String>,
    pub(super) headers: IndexMap<String, String>,
}
