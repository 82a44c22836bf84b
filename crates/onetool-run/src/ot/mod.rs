//! The `ot` pack: what the toolbox reports about itself. One file per tool.
//!
//! Every function returns a native value (dict, list, text) and leaves formatting to the presenter. Each call reads one
//! [`ToolboxState`], taken when it begins, so that an answer is never half old and half new.

mod aliases;
mod config;
mod describe;
mod find;
mod health;
mod help;
mod notify;
mod overview;
mod packs;
mod reload;
mod result;
mod resume;
mod save;
mod search;
mod sessions;
mod snippets;
mod span;
mod stats;
mod timed;
mod tools;
mod version;

use std::sync::{Arc, Weak};

use async_trait::async_trait;
use onetool_sandbox::Sessions;
use onetool_sdk::{CallContext, ToolError, Value};
use onetool_sdk::{Effect, NativePack};
use onetool_state::stats::StatsRecorder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use find::{Found, FoundKind};
pub use overview::pack_overview;
pub(crate) use result::shown as shown_result;
pub use search::SearchIndex;

use crate::{Runner, ToolboxState};

/// What a call may briefly wait for while servers are starting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Awaited {
    /// The tools of servers that have never connected.
    Tools,
    /// Whether servers can be reached.
    Outcomes,
}

/// What the `ot` pack needs from its toolbox.
#[async_trait]
pub trait Toolbox: Send + Sync {
    /// The toolbox as it is now.
    fn state(&self) -> Arc<ToolboxState>;

    /// The toolbox as the caller sees it: with their tools and results.
    fn state_for(&self, _ctx: &CallContext) -> Arc<ToolboxState> {
        self.state()
    }

    /// Waits briefly for servers that are starting for the first time, never longer than `ctx` allows.
    async fn settle(&self, awaited: Awaited, ctx: &CallContext);

    /// The sessions of runs.
    fn sessions(&self) -> Arc<Sessions>;

    /// Runs code as part of a call, and returns its value.
    async fn evaluate(&self, code: &str, ctx: &CallContext) -> Result<Value, ToolError>;

    /// The runner, if runs are recorded and can be resumed.
    fn runner(&self) -> Option<Runner> {
        None
    }

    /// Reloads the configuration. Blocks; on an error the last valid state remains.
    fn reload(&self) -> Result<(), ToolError>;
}

/// Creates the pack. It holds its toolbox weakly, because the toolbox holds the pack.
pub fn ot_pack(toolbox: Weak<dyn Toolbox>, stats: Arc<StatsRecorder>) -> NativePack {
    let toolbox = ToolboxHandle(toolbox);
    NativePack {
        name: "ot",
        description: "About this toolbox: find tools, read stored results, see health and statistics",
        tools: vec![
            tools::tool(&toolbox).read_only(),
            packs::tool(&toolbox).read_only(),
            aliases::tool(&toolbox).read_only(),
            snippets::tool(&toolbox).read_only(),
            config::tool(&toolbox).read_only(),
            health::tool(&toolbox).read_only(),
            help::tool(&toolbox).read_only(),
            notify::tool(&toolbox),
            reload::tool(&toolbox).with_effect(Effect::Idempotent),
            stats::tool(&toolbox, stats).with_effect(Effect::Idempotent),
            result::tool(&toolbox).read_only(),
            sessions::list(&toolbox).read_only(),
            sessions::end(&toolbox).with_effect(Effect::Idempotent),
            save::tool(&toolbox).with_effect(Effect::Idempotent),
            resume::tool(&toolbox).with_effect(Effect::Transparent),
            timed::tool().with_effect(Effect::Transparent),
            version::tool().read_only(),
        ],
    }
}

/// How much is told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Info {
    List,
    Sig,
    #[default]
    Min,
    Full,
}

#[derive(Clone)]
struct ToolboxHandle(Weak<dyn Toolbox>);

impl ToolboxHandle {
    fn get(&self) -> Result<Arc<dyn Toolbox>, ToolError> {
        self.0.upgrade().ok_or_else(|| ToolError::unavailable("the toolbox is shutting down"))
    }

    fn state(&self, ctx: &CallContext) -> Result<Arc<ToolboxState>, ToolError> {
        self.get().map(|toolbox| toolbox.state_for(ctx))
    }

    /// The state, after a brief wait for servers that have just started.
    async fn settled(&self, awaited: Awaited, ctx: &CallContext) -> Result<Arc<ToolboxState>, ToolError> {
        let toolbox = self.get()?;
        toolbox.settle(awaited, ctx).await;
        Ok(toolbox.state_for(ctx))
    }
}

/// A case-insensitive substring filter.
struct Filter(Option<String>);

impl Filter {
    fn new(pattern: Option<&str>) -> Self {
        Self(pattern.filter(|text| !text.is_empty()).map(str::to_lowercase))
    }

    fn accepts(&self, text: &str) -> bool {
        self.0.as_ref().is_none_or(|pattern| text.to_lowercase().contains(pattern))
    }
}

fn dict<K: Into<String>>(pairs: impl IntoIterator<Item = (K, Value)>) -> Value {
    Value::Dict(pairs.into_iter().map(|(key, value)| (Value::Str(key.into()), value)).collect())
}

fn texts<T: Into<String>>(items: impl IntoIterator<Item = T>) -> Value {
    Value::List(items.into_iter().map(|text| Value::Str(text.into())).collect())
}

fn count(number: usize) -> Value {
    Value::Int(i64::try_from(number).unwrap_or(i64::MAX))
}

/// The message when no entry matches.
fn no_match(kind: &str, all: &str, pattern: Option<&str>) -> String {
    match pattern {
        Some(pattern) => format!("No {kind} matches '{pattern}'. Use {all} to see all."),
        None => format!("There is no {kind}."),
    }
}

/// The first non-empty line.
fn first_line(text: &str) -> &str {
    text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("")
}

/// Runs file I/O on a thread where blocking is allowed.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|error| Err(ToolError::internal(format!("the work ended early: {error}"))))
}

#[cfg(test)]
mod tests;
