//! The content of a sequence: steps that call other tools.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use super::model::ErrorMode;

/// Steps that call other tools, each with the results of earlier ones.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SequenceImplementation {
    /// For all steps together.
    #[serde(default = "one_minute")]
    pub timeout_ms: u64,
    /// Maximum number of concurrent calls.
    #[serde(default = "eight")]
    pub max_parallel: usize,
    pub steps: Vec<SequenceStep>,
    /// The value, built from references; the result of the last step when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Json>,
}

fn one_minute() -> u64 {
    60_000
}

fn eight() -> usize {
    8
}

/// One call, or one per item of a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SequenceStep {
    pub id: String,
    /// `pack.function`
    pub tool: String,
    /// The version of a tool in a bundle; the newest enabled one when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub args: Map<String, Json>,
    /// The step is skipped if this is empty, zero, false or null. A leading `!` negates it.
    #[serde(default, rename = "if", skip_serializing_if = "Option::is_none")]
    pub condition: Option<Json>,
    /// A list: the tool is called once per item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_each: Option<Json>,
    /// The name of an item in references.
    #[serde(default = "item", rename = "as", skip_serializing_if = "is_item")]
    pub item_name: String,
    /// Maximum number of items processed at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_parallel: Option<usize>,
    /// Maximum number of items; a longer list is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_items: Option<usize>,
    /// Steps that must finish first, in addition to those it refers to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<StepRetry>,
    #[serde(default)]
    pub error_mode: ErrorMode,
    /// The value of a step that was skipped or, with `errorMode: empty`, failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Json>,
}

fn item() -> String {
    "item".to_owned()
}

fn is_item(name: &str) -> bool {
    name == "item"
}

/// When and how often a failed call is retried.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StepRetry {
    /// Maximum number of retries.
    pub max: u32,
    #[serde(default = "delay")]
    pub delay_ms: u64,
    /// Each wait is this many times as long as the previous one.
    #[serde(default = "two")]
    pub factor: f64,
    /// Wait for a random part of the time.
    #[serde(default = "yes")]
    pub jitter: bool,
    /// Statuses (`429`, `5xx`), `timeout`, `network`, or `any`.
    #[serde(default = "passing")]
    pub on: Vec<String>,
    /// Also retry a tool that may have an effect each time it is called.
    #[serde(default, rename = "unsafe", skip_serializing_if = "std::ops::Not::not")]
    pub allow_effects: bool,
}

fn delay() -> u64 {
    200
}

fn two() -> f64 {
    2.0
}

fn yes() -> bool {
    true
}

fn passing() -> Vec<String> {
    ["429", "5xx", "timeout", "network"].map(str::to_owned).to_vec()
}
