//! The preview of a sequence: what each step would call.

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

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
