//! The types of requests and responses. The OpenAPI document is generated from them.

use std::num::NonZeroU32;

use chrono::{DateTime, Utc};
use indexmap::IndexMap;
use onetool_bundles::PlannedStep;
use onetool_sdk::{PackDocs, StepTrace};
use onetool_state::bundles::{
    AuthBlock, BundleDraft, BundleError, BundleView, Implementation, NameError, Page, PageToken,
    SequenceImplementation, ToolDraft, ToolView, Translation, Translations,
};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use utoipa::ToSchema;

use super::auth_model::{AuthBody, PaginateBody, StreamBody, present};
use super::body::{from_json, from_part};
use super::input::ToolPath;
use crate::ApiError;

/// A bundle to store.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BundleBody {
    /// Letters, digits and dashes, at most 64 characters.
    #[schema(pattern = r"^[\p{L}\p{Nd}-]{1,64}$", example = "weather")]
    pub slug: String,
    /// The slug when absent.
    #[serde(default)]
    #[schema(min_length = 1)]
    pub display_name: Option<String>,
    #[serde(default)]
    pub description: String,
    #[serde(default = "yes")]
    #[schema(default = true)]
    pub is_enabled: bool,
    /// Names of secrets that templates of its tools may use.
    #[serde(default)]
    pub secrets: Vec<String>,
    /// Authentication of its tools, unless they define their own.
    #[serde(default)]
    #[schema(value_type = Option<AuthBody>)]
    pub auth: Option<Json>,
    #[serde(default)]
    #[schema(value_type = std::collections::BTreeMap<String, TranslationBody>)]
    pub translations: TranslationsBody,
    /// The address of its documentation, for help; `off` shows none.
    #[serde(default)]
    #[schema(example = "https://example.org/docs")]
    pub docs: Option<String>,
}

fn yes() -> bool {
    true
}

impl BundleBody {
    pub fn draft(self) -> Result<BundleDraft, ApiError> {
        let docs = self.docs.filter(|docs| !docs.is_empty());
        if let Some(docs) = &docs
            && PackDocs::read(docs).is_none()
        {
            let message = format!("docs must be a web address or `off`, not '{docs}'");
            return Err(ApiError::from(BundleError::Invalid(message)).at("/docs"));
        }
        Ok(BundleDraft {
            display_name: display_name(self.display_name, &self.slug)?,
            slug: self.slug.parse().map_err(|error: NameError| ApiError::from(error).at("/slug"))?,
            description: self.description,
            is_enabled: self.is_enabled,
            secrets: self.secrets,
            auth: self.auth.map(|auth| auth_block("auth", auth)).transpose()?,
            translations: stored(self.translations),
            docs,
        })
    }
}

/// Returns the given name, which must not be empty, or the slug if none is given.
fn display_name(given: Option<String>, slug: &str) -> Result<String, ApiError> {
    match given {
        None => Ok(slug.to_owned()),
        Some(name) if name.trim().is_empty() => {
            Err(ApiError::invalid("displayName must not be empty; leave it out to show the slug").at("/displayName"))
        }
        Some(name) => Ok(name),
    }
}

/// By language, such as `de` or `pt-BR`.
type TranslationsBody = std::collections::BTreeMap<String, TranslationBody>;

/// A name and a description in one language.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TranslationBody {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub display_name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
}

fn stored(translations: TranslationsBody) -> Translations {
    let one = |(language, body): (String, TranslationBody)| {
        (language, Translation { display_name: body.display_name, description: body.description })
    };
    Translations(translations.into_iter().map(one).collect())
}

fn shown(translations: &Translations) -> TranslationsBody {
    let one = |(language, found): (&String, &Translation)| {
        let body = TranslationBody { display_name: found.display_name.clone(), description: found.description.clone() };
        (language.clone(), body)
    };
    translations.0.iter().map(one).collect()
}

/// Replaces the texts with the first available of `languages`.
fn translate(
    (display_name, description): (&mut String, &mut String),
    translations: &TranslationsBody,
    languages: &[String],
) {
    if translations.is_empty() || languages.is_empty() {
        return;
    }
    let all = stored(translations.clone());
    let (name, text) = all.choose(languages, display_name, description);
    let (name, text) = (name.to_owned(), text.to_owned());
    *display_name = name;
    *description = text;
}

impl BundleReply {
    pub(super) fn in_languages(mut self, languages: &[String]) -> Self {
        translate((&mut self.display_name, &mut self.description), &self.translations, languages);
        self
    }
}

impl ToolReply {
    pub(super) fn in_languages(mut self, languages: &[String]) -> Self {
        translate((&mut self.display_name, &mut self.description), &self.translations, languages);
        self
    }
}

impl BundlePage {
    pub(super) fn in_languages(mut self, languages: &[String]) -> Self {
        self.bundles = self.bundles.into_iter().map(|bundle| bundle.in_languages(languages)).collect();
        self
    }
}

impl ToolPage {
    pub(super) fn in_languages(mut self, languages: &[String]) -> Self {
        self.tools = self.tools.into_iter().map(|tool| tool.in_languages(languages)).collect();
        self
    }
}

/// The only field that may be patched.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EnabledBody {
    pub is_enabled: bool,
}

/// A stored bundle.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BundleReply {
    #[serde(rename = "bundleID")]
    pub bundle_id: String,
    pub slug: String,
    pub display_name: String,
    pub description: String,
    pub is_enabled: bool,
    pub is_built_in: bool,
    pub secrets: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<AuthBody>)]
    pub auth: Option<Json>,
    #[serde(skip_serializing_if = "std::collections::BTreeMap::is_empty", default)]
    #[schema(value_type = std::collections::BTreeMap<String, TranslationBody>)]
    pub translations: TranslationsBody,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub docs: Option<String>,
    pub tool_count: usize,
    /// Why none of its tools can be called: a secret or an address that is not set.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub disabled_reason: Option<String>,
    pub created_at: DateTime<Utc>,
    pub modified_at: DateTime<Utc>,
}

impl From<&BundleView> for BundleReply {
    fn from(view: &BundleView) -> Self {
        let bundle = &view.bundle;
        Self {
            bundle_id: bundle.id.to_string(),
            slug: bundle.slug.to_string(),
            display_name: bundle.display_name.clone(),
            description: bundle.description.clone(),
            is_enabled: bundle.is_enabled,
            is_built_in: bundle.is_built_in,
            secrets: bundle.secrets.clone(),
            auth: bundle.auth.as_ref().and_then(|auth| serde_json::to_value(auth).ok()),
            translations: shown(&bundle.translations),
            docs: bundle.docs.clone(),
            tool_count: view.tool_count,
            disabled_reason: view.disabled_reason.clone(),
            created_at: bundle.created_at,
            modified_at: bundle.modified_at,
        }
    }
}

/// A page of bundles.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BundlePage {
    pub bundles: Vec<BundleReply>,
    /// Asks for the next page, with the same filters. Absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub next_page_token: Option<String>,
}

impl From<Page<BundleView>> for BundlePage {
    fn from(page: Page<BundleView>) -> Self {
        let next_page_token = page.next.as_ref().map(|token| PageToken::as_str(token).to_owned());
        Self { bundles: page.items.iter().map(BundleReply::from).collect(), next_page_token }
    }
}

/// The implementation of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ToolType {
    #[serde(alias = "go")]
    Native,
    Http,
    Sequence,
}

/// A tool to store. Fields that the store sets (ids, times) may be present and are ignored; names must match the path.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolBody {
    #[serde(default)]
    pub schema_version: Option<String>,
    #[serde(default, rename = "bundleID")]
    pub bundle_id: Option<String>,
    #[serde(default, rename = "toolID")]
    pub tool_id: Option<String>,
    #[serde(default)]
    pub slug: Option<String>,
    #[serde(default)]
    pub version: Option<String>,
    /// The slug when absent.
    #[serde(default)]
    #[schema(min_length = 1)]
    pub display_name: Option<String>,
    #[serde(default)]
    pub description: String,
    #[serde(default)]
    pub tags: Vec<String>,
    #[serde(rename = "type")]
    pub kind: ToolType,
    /// `HttpBody`, `NativeBody` or `SequenceBody`, as `type` says.
    #[serde(rename = "impl")]
    #[schema(value_type = ImplementationBody)]
    pub implementation: Json,
    #[serde(default = "yes")]
    #[schema(default = true)]
    pub is_enabled: bool,
    #[serde(default)]
    pub is_built_in: bool,
    /// JSON Schema of the arguments.
    #[serde(default = "no_arguments")]
    #[schema(value_type = Object)]
    pub arg_schema: Json,
    /// JSON Schema of the value.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub output_schema: Option<Json>,
    #[serde(default)]
    #[schema(value_type = Option<u32>, minimum = 1)]
    pub max_calls_per_minute: Option<NonZeroU32>,
    /// A call that works, as code.
    #[serde(default)]
    pub example: Option<String>,
    #[serde(default)]
    #[schema(value_type = std::collections::BTreeMap<String, TranslationBody>)]
    pub translations: TranslationsBody,
    #[serde(default)]
    pub created_at: Option<String>,
    #[serde(default)]
    pub modified_at: Option<String>,
}

fn no_arguments() -> Json {
    serde_json::json!({"type": "object", "properties": {}, "additionalProperties": false})
}

/// The implementation, by `type`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum ImplementationBody {
    Http(Box<HttpBody>),
    Native(NativeBody),
    Sequence(SequenceBody),
}

/// Steps that call other tools. `${args.x}` and `${steps.id.value.y}` refer to arguments and to results of steps.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SequenceBody {
    /// Timeout for all steps together.
    #[schema(default = 60_000, minimum = 1)]
    pub timeout_ms: Option<u64>,
    /// Maximum number of concurrent calls.
    #[schema(default = 8, minimum = 1)]
    pub max_parallel: Option<usize>,
    pub steps: Vec<StepBody>,
    /// The value; that of the last step when absent.
    #[schema(value_type = Value)]
    pub output: Option<Json>,
}

/// One call, or one per item of `forEach`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepBody {
    #[schema(example = "repos", pattern = r"^[\p{L}\p{Nd}_-]{1,64}$")]
    pub id: String,
    /// `pack.function`
    #[schema(example = "github.list_repos")]
    pub tool: String,
    pub version: Option<String>,
    #[schema(value_type = Object)]
    pub args: Json,
    /// Skips the step where this refers to something empty, zero, false or null.
    #[serde(rename = "if")]
    pub condition: Option<String>,
    #[schema(value_type = Value)]
    pub for_each: Option<Json>,
    /// Name of an item in references.
    #[serde(rename = "as")]
    pub item_name: Option<String>,
    pub max_parallel: Option<usize>,
    pub max_items: Option<usize>,
    pub depends_on: Option<Vec<String>>,
    pub retry: Option<RetryBody>,
    pub error_mode: Option<ErrorModeBody>,
    #[schema(value_type = Value)]
    pub default: Option<Json>,
}

/// When and how often a failed call is made again.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RetryBody {
    #[schema(maximum = 10)]
    pub max: u32,
    pub delay_ms: Option<u64>,
    pub factor: Option<f64>,
    pub jitter: Option<bool>,
    /// Statuses such as `429` and `5xx`, `timeout`, `network` or `any`.
    pub on: Option<Vec<String>>,
    /// Also retry a tool that may have an effect each time.
    #[serde(rename = "unsafe")]
    pub allow_effects: Option<bool>,
}

/// Maximum length of a native function's name. One that this build lacks may be stored, so that nothing is lost.
const MAX_FUNCTION_CHARS: usize = 256;

/// A function of the server itself.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NativeBody {
    /// `pack.function`
    #[serde(alias = "goFunc")]
    #[schema(example = "file.read", min_length = 1, max_length = 256, pattern = r"^[^\x00-\x1f\x7f-\x9f]+$")]
    pub function: String,
}

/// An outbound request. `${name}` is an argument or a secret, `${name:-default}` has a default, `$${` is literal.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HttpBody {
    #[serde(default = "get")]
    #[schema(default = "GET")]
    pub method: String,
    #[schema(example = "https://api.example.com/v1/current?q=${city}")]
    pub url_template: String,
    #[serde(default)]
    #[schema(value_type = std::collections::BTreeMap<String, String>)]
    pub headers: IndexMap<String, String>,
    #[serde(default)]
    pub body_template: String,
    /// Overrides the bundle's; `null` for none.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schema(value_type = Option<AuthBody>)]
    pub auth: Option<Json>,
    /// Names of secrets that the templates use.
    #[serde(default)]
    pub secrets: Vec<String>,
    /// Statuses that are a success; any 2xx when empty.
    #[serde(default)]
    pub success_codes: Vec<u16>,
    /// For the whole call, retries and redirects included.
    #[serde(default = "ten_seconds")]
    #[schema(default = 10_000, minimum = 1)]
    pub timeout_ms: u64,
    #[serde(default)]
    pub response_encoding: EncodingBody,
    /// `$…` is a JSONPath, anything else, or after `regex:`, a regular expression.
    #[serde(default)]
    pub extract_expr: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<StreamBody>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paginate: Option<PaginateBody>,
    #[serde(default)]
    pub error_mode: ErrorModeBody,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 10)]
    pub max_retries: Option<u32>,
}

fn get() -> String {
    "GET".to_owned()
}

fn ten_seconds() -> u64 {
    10_000
}

#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum EncodingBody {
    #[default]
    Json,
    Text,
}

#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum ErrorModeBody {
    #[default]
    Fail,
    Empty,
}

impl ToolBody {
    /// Returns the draft to store at `path`; names in the body must match it.
    pub fn draft(self, path: &ToolPath) -> Result<ToolDraft, ApiError> {
        for (field, given, named) in [
            ("bundleID", &self.bundle_id, path.bundle.to_string()),
            ("slug", &self.slug, path.slug.to_string()),
            ("version", &self.version, path.version.to_string()),
        ] {
            if given.as_ref().is_some_and(|given| *given != named) {
                return Err(ApiError::invalid(format!("{field} in the body is not the path's '{named}'")));
            }
        }
        if self.is_built_in {
            return Err(ApiError::invalid("isBuiltIn can't be set"));
        }
        Ok(ToolDraft {
            implementation: self.implementation()?,
            display_name: display_name(self.display_name, path.slug.as_str())?,
            description: self.description,
            tags: self.tags,
            is_enabled: self.is_enabled,
            arg_schema: self.arg_schema,
            output_schema: self.output_schema,
            max_calls_per_minute: self.max_calls_per_minute,
            example: self.example,
            translations: stored(self.translations),
        })
    }

    /// Reads `impl` according to `type`.
    fn implementation(&self) -> Result<Implementation, ApiError> {
        let wrong = |error: serde_json::Error| ApiError::invalid(format!("impl: {error}"));
        let (kind, body) = match self.kind {
            ToolType::Http => {
                let body: HttpBody = from_part("impl", self.implementation.clone())?;
                if let Some(auth) = body.auth.as_ref().filter(|auth| !auth.is_null()) {
                    auth_block("impl.auth", auth.clone())?;
                }
                ("http", serde_json::to_value(body).map_err(wrong)?)
            }
            ToolType::Sequence => {
                let body: SequenceImplementation = from_part("impl", self.implementation.clone())?;
                ("sequence", serde_json::to_value(body).map_err(wrong)?)
            }
            ToolType::Native => {
                let body: NativeBody = from_part("impl", self.implementation.clone())?;
                let length = body.function.chars().count();
                if length == 0 || length > MAX_FUNCTION_CHARS || body.function.contains(char::is_control) {
                    return Err(ApiError::invalid(format!(
                        "impl: a function's name has 1 to {MAX_FUNCTION_CHARS} characters, none of them a control character"
                    )));
                }
                ("native", serde_json::to_value(body).map_err(wrong)?)
            }
        };
        serde_json::from_value(serde_json::json!({"type": kind, "impl": body})).map_err(wrong)
    }
}

/// Reads an `auth` block strictly; `key` is its path.
fn auth_block(key: &str, auth: Json) -> Result<AuthBlock, ApiError> {
    let body: AuthBody = from_part(key, auth)?;
    let wrong = |error: serde_json::Error| ApiError::invalid(format!("{key}: {error}"));
    serde_json::from_value(serde_json::to_value(body).map_err(wrong)?).map_err(wrong)
}

/// Checks that a stored bundle's document has the form of a body.
pub(super) fn check_bundle(document: &Json) -> Result<(), ApiError> {
    let mut document = document.clone();
    if let Some(document) = document.as_object_mut() {
        for key in STORED_KEYS {
            document.remove(*key);
        }
    }
    let body: BundleBody = from_json(document)?;
    body.auth.map_or(Ok(()), |auth| auth_block("auth", auth).map(drop))
}

/// Keys that the store sets in a bundle's document.
const STORED_KEYS: &[&str] = &["bundleID", "createdAt", "isBuiltIn", "modifiedAt", "schemaVersion", "softDeletedAt"];

/// Checks that a stored tool's document has the form of a body.
pub(super) fn check_tool(document: &Json) -> Result<(), ApiError> {
    let body: ToolBody = from_json(document.clone())?;
    body.implementation().map(drop)
}

/// A stored tool.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolReply {
    pub schema_version: String,
    #[serde(rename = "toolID")]
    pub tool_id: String,
    #[serde(rename = "bundleID")]
    pub bundle_id: String,
    pub slug: String,
    pub version: String,
    pub display_name: String,
    pub description: String,
    pub tags: Vec<String>,
    #[serde(rename = "type")]
    pub kind: ToolType,
    #[serde(rename = "impl")]
    #[schema(value_type = ImplementationBody)]
    pub implementation: Json,
    /// Also false when there is nothing to call; see `disabledReason`.
    pub is_enabled: bool,
    pub is_built_in: bool,
    /// Why the tool can't be called now.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub disabled_reason: Option<String>,
    #[schema(value_type = Object)]
    pub arg_schema: Json,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<Object>)]
    pub output_schema: Option<Json>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub max_calls_per_minute: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub example: Option<String>,
    #[serde(skip_serializing_if = "std::collections::BTreeMap::is_empty", default)]
    #[schema(value_type = std::collections::BTreeMap<String, TranslationBody>)]
    pub translations: TranslationsBody,
    pub created_at: DateTime<Utc>,
    pub modified_at: DateTime<Utc>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub last_called_at: Option<DateTime<Utc>>,
    pub call_count: u64,
}

impl From<ToolView> for ToolReply {
    fn from(view: ToolView) -> Self {
        let tool = view.tool;
        let (kind, implementation) = match &tool.implementation {
            Implementation::Native(native) => (ToolType::Native, serde_json::to_value(native)),
            Implementation::Http(http) => (ToolType::Http, serde_json::to_value(http)),
            Implementation::Sequence(sequence) => (ToolType::Sequence, serde_json::to_value(sequence)),
        };
        Self {
            schema_version: tool.schema_version,
            tool_id: tool.id.to_string(),
            bundle_id: tool.bundle_id.to_string(),
            slug: tool.slug.to_string(),
            version: tool.version.to_string(),
            display_name: tool.display_name,
            description: tool.description,
            tags: tool.tags,
            kind,
            implementation: implementation.unwrap_or_default(),
            is_enabled: tool.is_enabled && view.is_available,
            is_built_in: tool.is_built_in,
            disabled_reason: view.disabled_reason,
            arg_schema: tool.arg_schema,
            output_schema: tool.output_schema,
            max_calls_per_minute: tool.max_calls_per_minute.map(NonZeroU32::get),
            example: tool.example,
            translations: shown(&tool.translations),
            created_at: tool.created_at,
            modified_at: tool.modified_at,
            last_called_at: view.usage.last_called_at,
            call_count: view.usage.call_count,
        }
    }
}

/// A page of tools.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolPage {
    pub tools: Vec<ToolReply>,
    /// Asks for the next page, with the same filters. Absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub next_page_token: Option<String>,
}

impl From<Page<ToolView>> for ToolPage {
    fn from(page: Page<ToolView>) -> Self {
        let next_page_token = page.next.as_ref().map(|token| PageToken::as_str(token).to_owned());
        Self { tools: page.items.into_iter().map(ToolReply::from).collect(), next_page_token }
    }
}

/// A call.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct InvokeBody {
    #[serde(default)]
    #[schema(value_type = Object)]
    pub args: serde_json::Map<String, Json>,
}

/// The result of a call.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InvokeReply {
    pub ok: bool,
    #[serde(default)]
    #[schema(value_type = Value)]
    pub value: Json,
    /// What would be sent: in place of a value, for a dry run.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub request: Option<RequestReply>,
    /// What would be called: in place of a value, for a dry run of a sequence.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<Vec<Object>>)]
    pub steps: Option<Vec<PlannedStep>>,
    pub meta: CallMeta,
}

/// A request that a dry run would send, secrets masked.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RequestReply {
    pub method: String,
    pub url: String,
    #[schema(value_type = std::collections::BTreeMap<String, String>)]
    pub headers: IndexMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub body: Option<String>,
    /// Secrets that the call needs and that are not set.
    pub missing_secrets: Vec<String>,
}

/// How a call went.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CallMeta {
    pub duration_ms: f64,
    /// The upstream's last status.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub status: Option<u16>,
    /// Requests that were sent.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub attempts: Option<u32>,
    /// The outcome of each step of a sequence.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Object>)]
    pub trace: Vec<StepTrace>,
    /// Number of pages requested.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pages: Option<u32>,
    /// Why a list is incomplete: maxPages, maxItems, maxBytes or repeatedPage.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cut: Option<String>,
    /// Number of events in a stream.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub events: Option<usize>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

/// A failure.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ErrorReply {
    pub ok: bool,
    pub error: ErrorBody,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub meta: Option<CallMeta>,
}

/// What went wrong, and what to do next.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ErrorBody {
    /// One word for programs.
    pub code: String,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub hint: Option<String>,
    /// JSON pointer to the error in the body, the arguments or the value.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pointer: Option<String>,
}
