//! `ot.result`: read a stored result in pieces.

use onetool_sdk::{ErrorKind, Tool, ToolError, Value, define_tool};
use onetool_state::results::{Matching, Query, ResultError};
use schemars::JsonSchema;
use serde::Deserialize;
use tracing::info_span;

use super::span::observed;
use super::{ToolboxHandle, blocking};
use crate::{OutputSettings, ToolboxState};

/// Maximum bytes that code receives at once.
const PAGE_BYTES: usize = 16 << 20;
/// Maximum bytes shown, even if results of any size are shown.
const SHOWN_BYTES: usize = 256 * 1024;
/// Minimum of the shown bytes.
const SMALLEST_SHOWN: usize = 1024;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The handle that the summary of the result names.
    handle: String,
    /// The first line wanted; lines count from 1.
    #[serde(default = "first_line")]
    offset: i64,
    /// How many lines at most.
    #[serde(default = "hundred_lines")]
    limit: i64,
    /// Only lines that match this regular expression, in any case.
    #[serde(default)]
    search: Option<String>,
    /// Take search for words rather than a pattern, forgive typos, and show the best lines first.
    #[serde(default)]
    fuzzy: bool,
}

fn first_line() -> i64 {
    1
}

fn hundred_lines() -> i64 {
    100
}

pub(super) fn tool(toolbox: &ToolboxHandle) -> Tool {
    let toolbox = toolbox.clone();
    define_tool("result", "Read a stored result: lines by number, or by search.", move |input: Input, ctx| {
        let toolbox = toolbox.clone();
        let span = info_span!(
            "ot.result",
            handle = input.handle,
            offset = input.offset,
            limit = input.limit,
            search = input.search
        );
        observed(span, async move {
            let state = toolbox.state(&ctx.call)?;
            let cancel = ctx.call.cancel.clone();
            let deadline = ctx.call.deadline;
            blocking(move || {
                let keep_going = || !cancel.is_cancelled() && deadline.is_none_or(|at| std::time::Instant::now() < at);
                answer(&state, &input, &keep_going)
            })
            .await
        })
    })
    .with_returns("dict | str", "lines, total_lines, returned, offset, has_more; a text where there is no such result")
    .with_example("ot.result(handle=\"...\", offset=101, limit=50)")
}

fn answer(state: &ToolboxState, input: &Input, keep_going: &dyn Fn() -> bool) -> Result<Value, ToolError> {
    let matching = if input.fuzzy { Matching::Fuzzy } else { Matching::Regex };
    let query = Query::new(input.offset, input.limit, PAGE_BYTES).map_err(failure)?;
    let query = query.searching(input.search.as_deref().unwrap_or(""), matching);
    match state.results.query(&input.handle, &query, keep_going) {
        Ok(page) => Ok(page.to_value()),
        Err(error @ (ResultError::NotFound { .. } | ResultError::Expired { .. })) => Ok(Value::Str(error.to_string())),
        Err(error) => Err(failure(error)),
    }
}

/// Cuts a page to as many lines as fit in a reply, so that the page itself is not stored. Code gets all the lines that
/// it asked for.
pub(crate) fn shown(page: Value, settings: &OutputSettings) -> Value {
    let room = match settings.max_inline_size {
        0 => SHOWN_BYTES,
        size => (size / 5 * 4).clamp(SMALLEST_SHOWN, SHOWN_BYTES),
    };
    let Value::Dict(mut fields) = page else { return page };
    let Some(place) = fields.iter().position(|(key, value)| is(key, "lines") && matches!(value, Value::List(_))) else {
        return Value::Dict(fields);
    };
    let Value::List(lines) = &mut fields[place].1 else { return Value::Dict(fields) };
    let mut used = 0;
    let fitting = lines
        .iter()
        .take_while(|line| {
            used += line.to_json().to_string().len() + 4;
            used <= room
        })
        .count()
        .max(1);
    if fitting < lines.len() {
        lines.truncate(fitting);
        for (key, value) in &mut fields {
            if is(key, "returned") {
                *value = super::count(fitting);
            } else if is(key, "has_more") {
                *value = Value::Bool(true);
            }
        }
    }
    Value::Dict(fields)
}

fn is(key: &Value, name: &str) -> bool {
    key.as_str() == Some(name)
}

fn failure(error: ResultError) -> ToolError {
    match error {
        ResultError::Offset(_) | ResultError::Limit(_) => ToolError::value_error(error.to_string()),
        ResultError::Pattern(_) => {
            ToolError::value_error(error.to_string()).with_hint("fuzzy=True searches for plain words")
        }
        ResultError::Cancelled => ToolError::new(ErrorKind::Cancelled, error.to_string()),
        ResultError::State(_) => ToolError::raised("OSError", error.to_string()),
        ResultError::NotFound { .. } | ResultError::Expired { .. } => {
            ToolError::raised("LookupError", error.to_string())
        }
    }
}
