//! What stands in the file of a sequence: steps that call other tools.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use super::model::ErrorMode;

/// Steps that call tools of the toolbox, each with what earlier ones gave.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SequenceImplementation {
    /// For all steps together.
    #[serde(default = "one_minute")]
    pub timeout_ms: u64,
    /// Calls under way at once.
    #[serde(default = "eight")]
    pub max_parallel: usize,
    pub steps: Vec<SequenceStep>,
    /// The value, made of references; without it, what the last step gave.
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
    /// Of a tool in a bundle; the newest enabled one when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub args: Map<String, Json>,
    /// The step is skipped where this is empty, zero, false or null. `!` in front turns it around.
    #[serde(default, rename = "if", skip_serializing_if = "Option::is_none")]
    pub condition: Option<Json>,
    /// A list: the tool is called once per item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_each: Option<Json>,
    /// What an item is called in references.
    #[serde(default = "item", rename = "as", skip_serializing_if = "is_item")]
    pub item_name: String,
    /// Items at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_parallel: Option<usize>,
    /// A longer list is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_items: Option<usize>,
    /// Steps that must end first, beside those that it refers to.
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

/// When and how often a failed call is made again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StepRetry {
    /// Calls after the first.
    pub max: u32,
    #[serde(default = "delay")]
    pub delay_ms: u64,
    /// Each wait is so many times the one before.
    #[serde(default = "two")]
    pub factor: f64,
    /// Wait a random part of the time.
    #[serde(default = "yes")]
    pub jitter: bool,
    /// Statuses (`429`, `5xx`), `timeout`, `network`, or `any`.
    #[serde(default = "passing")]
    pub on: Vec<String>,
    /// Retry a tool that may have an effect each time it is called.
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
