//! What a call may ask for in its `_meta`.
//!
//! `anthropic/maxResultSizeChars` (the key that tells clients our own limit) is the most that the client takes: a larger
//! result is stored, and the reply is its summary. `onetool/structuredContent` asks for the value as `structuredContent`
//! *instead of* text, so that nobody pays for it twice.
//!
//! A run that only its request knows of is told the limit. The reply of one that is kept, a task or a run with a key, is kept
//! as it is: every request for it is answered as that request asks ([`Delivery`]), a task's as the call that made it asked.

use onetool_run::RunOptions;
use onetool_run::present::{self, Format};
use onetool_state::results::ResultStore;
use onetool_state::runs::RunRecord;
use rmcp::RoleServer;
use rmcp::model::{CallToolResponse, CallToolResult, ContentBlock};
use rmcp::service::RequestContext;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use super::Handler;

/// Tells clients that cut results by themselves how long ours may be, and us how long theirs may be.
pub(super) const MAX_RESULT_KEY: &str = "anthropic/maxResultSizeChars";
const STRUCTURED_KEY: &str = "onetool/structuredContent";
/// Where a run's record has them, in what it says of its client.
const RECORD_KEY: &str = "reply";
/// What a stored result is called in summaries.
const STORED_AS: &str = "run";

/// Read from a request, or from what is kept of one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ReplyPreferences {
    #[serde(skip_serializing_if = "Option::is_none")]
    max_chars: Option<usize>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_structured: bool,
}

impl ReplyPreferences {
    pub(super) fn of(context: &RequestContext<RoleServer>) -> Self {
        let limit = context.meta.get(MAX_RESULT_KEY).and_then(Json::as_u64);
        Self {
            max_chars: limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX)),
            is_structured: context.meta.get(STRUCTURED_KEY) == Some(&Json::Bool(true)),
        }
    }

    /// What the call asked for that made a task.
    pub(super) fn of_task(record: &RunRecord) -> Self {
        let kept = record.client.get(RECORD_KEY).cloned();
        kept.and_then(|kept| serde_json::from_value(kept).ok()).unwrap_or_default()
    }

    /// Keeps them with what a record says of its client.
    pub(crate) fn keep(self, client: &mut Json) {
        if self != Self::default()
            && let Json::Object(client) = client
            && let Ok(kept) = serde_json::to_value(self)
        {
            client.insert(RECORD_KEY.to_owned(), kept);
        }
    }

    /// These, and where they ask for nothing, those.
    pub(super) fn or(self, others: Self) -> Self {
        Self {
            max_chars: self.max_chars.or(others.max_chars),
            is_structured: self.is_structured || others.is_structured,
        }
    }

    /// What is left once a run has kept to the limit.
    pub(super) fn without_limit(self) -> Self {
        Self { max_chars: None, ..self }
    }

    /// For a run that ends with its request.
    pub(crate) fn options(self) -> RunOptions {
        RunOptions { max_inline: self.max_chars, ..RunOptions::default() }
    }
}

/// Gives results the form that was asked for.
pub(super) struct Delivery {
    is_structured: bool,
    limit: Option<Limit>,
}

struct Limit {
    chars: usize,
    store: ResultStore,
    preview_lines: usize,
}

impl Delivery {
    pub(super) fn new(handler: &Handler, preferences: ReplyPreferences, context: &RequestContext<RoleServer>) -> Self {
        let limit = preferences.max_chars.map(|chars| {
            let tools = handler.tools(context);
            let store = tools.state.results_of(&handler.asking(context));
            Limit { chars: chars.max(1), store, preview_lines: tools.state.output.preview_lines }
        });
        Self { is_structured: preferences.is_structured, limit }
    }

    pub(super) async fn response(self, response: CallToolResponse) -> CallToolResponse {
        match response {
            CallToolResponse::Complete(result) => self.result(result).await.into(),
            other => other,
        }
    }

    /// Errors stay as they are.
    pub(super) async fn result(self, mut result: CallToolResult) -> CallToolResult {
        if result.is_error == Some(true) {
            return result;
        }
        if let Some(limit) = self.limit
            && let Some(first) = result.content.first_mut()
            && let Some(text) = first.as_text().map(|block| &block.text)
            && text.len() > limit.chars
            && !is_summary(text)
        {
            *first = ContentBlock::text(limit.summary(text.clone()).await);
        }
        if self.is_structured { structured(result) } else { result }
    }
}

impl Limit {
    /// Stores a text; what is shown instead of it.
    async fn summary(self, text: String) -> String {
        let Self { chars, store, preview_lines } = self;
        let stored = crate::task::blocking(move || {
            let is_json = text.starts_with(['{', '[']) && serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok();
            let stored = if is_json {
                store.store_json(&text, STORED_AS, preview_lines)
            } else {
                store.store(&text, STORED_AS, preview_lines)
            };
            match stored {
                Ok(stored) => present::format(&stored.summary(None), Format::default()),
                // A disk that is full must not cost the model its result altogether.
                Err(error) => {
                    let shown: String = text.chars().take(chars).collect();
                    let size = text.len();
                    format!("{shown}\n[the whole result has {size} bytes and could not be stored: {error}]")
                }
            }
        });
        stored.await.unwrap_or_else(|_| "the result could not be stored".to_owned())
    }
}

/// Whether a result was stored already, and this is what is shown instead of it.
fn is_summary(text: &str) -> bool {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only whether it is there matters")]
    struct Shown {
        handle: String,
        total_lines: u64,
        size_bytes: u64,
        summary: String,
        preview: Vec<String>,
        query: String,
    }
    text.starts_with('{') && serde_json::from_str::<Shown>(text).is_ok()
}

/// A value as structured content. Text that is not JSON stays as it is.
fn structured(mut result: CallToolResult) -> CallToolResult {
    let value = result.content.first().and_then(|block| block.as_text()).and_then(|text| value_of(&text.text));
    if let Some(value) = value {
        result.content.remove(0);
        result.structured_content = Some(value);
    }
    result
}

/// What MCP takes is an object; any other value is its `result`.
fn value_of(text: &str) -> Option<Json> {
    match serde_json::from_str(text) {
        Ok(Json::Object(object)) => Some(Json::Object(object)),
        Ok(value) => Some(json!({"result": value})),
        // The words that Python has for what JSON calls otherwise.
        Err(_) => match text {
            "None" => Some(json!({"result": null})),
            "True" => Some(json!({"result": true})),
            "False" => Some(json!({"result": false})),
            _ => None,
        },
    }
}
