//! The outcome of each step, and its preview.

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

/// One step of a completed call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StepTrace {
    pub id: String,
    /// `pack.function`
    pub tool: String,
    /// Start time, as RFC 3339; absent for a step that did not start.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub started: Option<String>,
    pub ms: f64,
    pub ok: bool,
    /// `done`, `failed`, `skipped`, `cancelled` or `waiting`.
    pub status: String,
    /// Number of calls, over all items.
    pub attempts: u32,
    /// Number of items of a `forEach`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub items: Option<usize>,
    /// Identifies equal arguments without showing them.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub args_hash: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<String>,
}

/// One step of a previewed call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedStep {
    pub id: String,
    /// `pack.function`
    pub tool: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub version: Option<String>,
    /// Steps that must finish first.
    pub after: Vec<String>,
    /// References to unknown values stay as written.
    pub args: Json,
    #[serde(rename = "if", skip_serializing_if = "Option::is_none", default)]
    pub condition: Option<Json>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub for_each: Option<Json>,
}
