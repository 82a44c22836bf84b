//! The content of the documents.

use std::num::NonZeroU32;

use chrono::{DateTime, Utc};
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::auth::{AuthBlock, ToolAuth};
use super::names::{BundleId, Slug, ToolId, Version};
use super::response::{PageRule, StreamRule};
use super::schema_form::SchemaForm;
use super::sequence::SequenceImplementation;
use super::translations::Translations;

/// The schema version that this build writes.
pub(crate) const SCHEMA_VERSION: &str = "1";

/// A named container of tools with one switch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Bundle {
    #[serde(default)]
    pub schema_version: String,
    #[serde(rename = "bundleID")]
    pub id: BundleId,
    pub slug: Slug,
    #[serde(default)]
    pub display_name: String,
    #[serde(default)]
    pub description: String,
    #[serde(default = "yes")]
    pub is_enabled: bool,
    #[serde(default)]
    pub is_built_in: bool,
    /// Names of secrets that templates of its tools may use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
    /// The authentication of its tools, unless they have their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<AuthBlock>,
    /// By language.
    #[serde(default, skip_serializing_if = "Translations::is_empty")]
    pub translations: Translations,
    /// The address of its documentation, or `off`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub docs: Option<String>,
    pub created_at: DateTime<Utc>,
    pub modified_at: DateTime<Utc>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soft_deleted_at: Option<DateTime<Utc>>,
}

/// A callable action. Its schemas are JSON; only code that reads many tools at once holds them in another form.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "S: SchemaForm + Deserialize<'de>"))]
#[expect(private_bounds, reason = "nobody else has other forms")]
pub struct Tool<S: SchemaForm = Json> {
    #[serde(default)]
    pub schema_version: String,
    #[serde(rename = "toolID")]
    pub id: ToolId,
    #[serde(rename = "bundleID")]
    pub bundle_id: BundleId,
    pub slug: Slug,
    pub version: Version,
    #[serde(default)]
    pub display_name: String,
    #[serde(default)]
    pub description: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    #[serde(flatten)]
    pub implementation: Implementation,
    #[serde(default = "yes")]
    pub is_enabled: bool,
    #[serde(default)]
    pub is_built_in: bool,
    #[serde(default = "S::of_no_arguments")]
    pub arg_schema: S,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<S>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_calls_per_minute: Option<NonZeroU32>,
    /// A working call, as code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub example: Option<String>,
    /// By language.
    #[serde(default, skip_serializing_if = "Translations::is_empty")]
    pub translations: Translations,
    pub created_at: DateTime<Utc>,
    pub modified_at: DateTime<Utc>,
}

fn yes() -> bool {
    true
}

/// The schema of a tool without arguments.
pub(crate) fn any_object() -> Json {
    serde_json::json!({"type": "object", "properties": {}, "additionalProperties": false})
}

/// Every `type` that this build can read.
pub(crate) const KNOWN_TYPES: &[&str] = &["native", "go", "http", "sequence"];

/// `type` and `impl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "impl")]
pub enum Implementation {
    #[serde(rename = "native", alias = "go")]
    Native(NativeImplementation),
    #[serde(rename = "http")]
    Http(Box<HttpImplementation>),
    #[serde(rename = "sequence")]
    Sequence(Box<SequenceImplementation>),
}

impl Implementation {
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Native(_) => "native",
            Self::Http(_) => "http",
            Self::Sequence(_) => "sequence",
        }
    }

    /// The tools that it calls: `pack.function`, and the version if it names one.
    pub(crate) fn calls(&self) -> Vec<(String, Option<String>)> {
        match self {
            Self::Http(_) => Vec::new(),
            Self::Native(native) => vec![(native.function.clone(), None)],
            Self::Sequence(sequence) => {
                sequence.steps.iter().map(|step| (step.tool.clone(), step.version.clone())).collect()
            }
        }
    }
}

/// A function built into this process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NativeImplementation {
    /// `pack.function`.
    #[serde(alias = "goFunc")]
    pub function: String,
}

/// An outbound request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpImplementation {
    #[serde(default = "get")]
    pub method: String,
    pub url_template: String,
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub headers: IndexMap<String, String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub body_template: String,
    #[serde(default, skip_serializing_if = "ToolAuth::is_inherited")]
    pub auth: ToolAuth,
    /// Names of secrets that its templates use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
    /// Statuses that count as success; any 2xx when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub success_codes: Vec<u16>,
    /// For the whole call, including retries and redirects.
    #[serde(default = "ten_seconds")]
    pub timeout_ms: u64,
    #[serde(default)]
    pub response_encoding: ResponseEncoding,
    /// `$…` is a JSONPath, anything else (or after `regex:`) a regular expression.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub extract_expr: String,
    /// The response is a stream of events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<StreamRule>,
    /// The response is one page of several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paginate: Option<PageRule>,
    #[serde(default)]
    pub error_mode: ErrorMode,
    /// Maximum number of retries; the configured number when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_retries: Option<u32>,
}

fn get() -> String {
    "GET".to_owned()
}

fn ten_seconds() -> u64 {
    10_000
}

impl HttpImplementation {
    /// A GET of `url_template` with defaults for the rest.
    pub fn get(url_template: impl Into<String>) -> Self {
        Self {
            method: get(),
            url_template: url_template.into(),
            headers: IndexMap::new(),
            body_template: String::new(),
            auth: ToolAuth::Inherited,
            secrets: Vec::new(),
            success_codes: Vec::new(),
            timeout_ms: ten_seconds(),
            response_encoding: ResponseEncoding::Json,
            extract_expr: String::new(),
            stream: None,
            paginate: None,
            error_mode: ErrorMode::Fail,
            max_retries: None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ResponseEncoding {
    #[default]
    Json,
    Text,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ErrorMode {
    #[default]
    Fail,
    /// A failed request yields no value instead of an error.
    Empty,
}
