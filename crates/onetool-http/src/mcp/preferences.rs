//! Preferences that a call states in its `_meta`.
//!
//! `anthropic/maxResultSizeChars` (the key that tells clients our own limit) is the most that the client accepts: a
//! larger result is stored, and the reply is its summary. `onetool/structuredContent` asks for the value as
//! `structuredContent` *instead of* text, so that it is not sent twice.
//!
//! A run that belongs to a single request gets the limit directly. A stored reply, of a task or a run with a key, is
//! stored unchanged: each request for it is answered by its own preferences ([`Delivery`]), a task by those of the call
//! that created it.

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

/// Tells clients that truncate results how long ours may be, and us how long theirs may be.
pub(super) const MAX_RESULT_KEY: &str = "anthropic/maxResultSizeChars";
const STRUCTURED_KEY: &str = "onetool/structuredContent";
/// Key of the preferences in the client part of a run's record.
const RECORD_KEY: &str = "reply";
/// Name of a stored result in summaries.
const STORED_AS: &str = "run";

/// Read from a request, or from the record of one.
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

    /// Returns the preferences of the call that created a task.
    pub(super) fn of_task(record: &RunRecord) -> Self {
        let kept = record.client.get(RECORD_KEY).cloned();
        kept.and_then(|kept| serde_json::from_value(kept).ok()).unwrap_or_default()
    }

    /// Stores them in the client part of a record.
    pub(crate) fn keep(self, client: &mut Json) {
        if self != Self::default()
            && let Json::Object(client) = client
            && let Ok(kept) = serde_json::to_value(self)
        {
            client.insert(RECORD_KEY.to_owned(), kept);
        }
    }

    /// Fills unset preferences from `others`.
    pub(super) fn or(self, others: Self) -> Self {
        Self {
            max_chars: self.max_chars.or(others.max_chars),
            is_structured: self.is_structured || others.is_structured,
        }
    }

    /// Returns the preferences that remain once a run has applied the limit.
    pub(super) fn without_limit(self) -> Self {
        Self { max_chars: None, ..self }
    }

    /// For a run that ends with its request.
    pub(crate) fn options(self) -> RunOptions {
        RunOptions { max_inline: self.max_chars, ..RunOptions::default() }
    }
}

/// Applies the requested form to results.
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

    /// Errors are not changed.
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
    /// Stores a text; returns its summary.
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
                // A full disk must not cost the model its entire result.
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

/// Whether this is already the summary of a stored result.
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

/// Moves a value to the structured content. Text that is not JSON stays as it is.
fn structured(mut result: CallToolResult) -> CallToolResult {
    let value = result.content.first().and_then(|block| block.as_text()).and_then(|text| value_of(&text.text));
    if let Some(value) = value {
        result.content.remove(0);
        result.structured_content = Some(value);
    }
    result
}

/// Returns an object, as MCP requires; any other value is wrapped as `result`.
fn value_of(text: &str) -> Option<Json> {
    match serde_json::from_str(text) {
        Ok(Json::Object(object)) => Some(Json::Object(object)),
        Ok(value) => Some(json!({"result": value})),
        // Python's spelling of values that JSON spells differently.
        Err(_) => match text {
            "None" => Some(json!({"result": null})),
            "True" => Some(json!({"result": true})),
            "False" => Some(json!({"result": false})),
            _ => None,
        },
    }
}
