//! What became of each step, and what would.

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

/// One step of a call that was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StepTrace {
    pub id: String,
    /// `pack.function`
    pub tool: String,
    /// When it began, as RFC 3339; absent for a step that never did.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub started: Option<String>,
    pub ms: f64,
    pub ok: bool,
    /// `done`, `failed`, `skipped`, `cancelled` or `waiting`.
    pub status: String,
    /// Calls that were made, over all items.
    pub attempts: u32,
    /// Items of a `forEach`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub items: Option<usize>,
    /// Tells equal arguments from others without showing them.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub args_hash: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<String>,
}

/// One step of a call that is only shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedStep {
    pub id: String,
    /// `pack.function`
    pub tool: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub version: Option<String>,
    /// Steps that end first.
    pub after: Vec<String>,
    /// References to what is not known yet stay as they are written.
    pub args: Json,
    #[serde(rename = "if", skip_serializing_if = "Option::is_none", default)]
    pub condition: Option<Json>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub for_each: Option<Json>,
}
