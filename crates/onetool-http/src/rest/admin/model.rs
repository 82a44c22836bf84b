//! What crosses the wire.

use chrono::{DateTime, Utc};
use onetool_run::activity::{ActivityEvent, ActivityKind};
use onetool_run::approvals::ApprovalRequest;
use onetool_sdk::{Caller, Part};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use utoipa::ToSchema;

/// Who is there and what they may do.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionReply {
    pub version: String,
    /// The project's folder; absent without the scope `read`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Whose token was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    pub token_required: bool,
    /// `read`, `invoke`, `admin`.
    pub scopes: Vec<String>,
}

/// A code from `onetool ui`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CodeBody {
    pub code: String,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct TokenReply {
    /// A bearer token for as long as the server runs.
    pub token: String,
}

/// What stands behind a pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum PackKind {
    Native,
    Python,
    Mcp,
    Bundle,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PackRow {
    pub name: String,
    pub kind: PackKind,
    pub description: String,
    pub is_enabled: bool,
    pub tool_count: usize,
    /// A file, a server's name or a bundle's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolRow {
    /// `pack.function`
    pub name: String,
    pub pack: String,
    pub kind: PackKind,
    pub summary: String,
    pub is_enabled: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disabled_reason: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct ToolboxReply {
    pub packs: Vec<PackRow>,
    pub tools: Vec<ToolRow>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct PacksReply {
    pub packs: Vec<PackRow>,
}

/// A version of a bundle's tool.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct VersionRow {
    pub version: String,
    #[serde(rename = "bundleID")]
    pub bundle_id: String,
    pub slug: String,
    pub is_enabled: bool,
    pub modified_at: DateTime<Utc>,
}

/// How often a tool was called, over all time.
#[derive(Debug, Default, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UseReply {
    pub calls: u64,
    pub errors: u64,
    pub average_ms: f64,
    /// Of the calls since the server started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_at: Option<DateTime<Utc>>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolDetailReply {
    #[serde(flatten)]
    pub row: ToolRow,
    pub description: String,
    /// As Python source.
    pub signature: String,
    #[schema(value_type = Value)]
    pub input_schema: Json,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    pub output_schema: Option<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub returns: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub example: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub versions: Vec<VersionRow>,
    #[serde(rename = "use")]
    pub used: UseReply,
    /// Calls since the server started, the newest first. Empty without the scope `admin`.
    pub recent: Vec<ActivityRow>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct SearchReply {
    pub hits: Vec<HitRow>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct HitRow {
    /// `tool`, `pack`, `snippet` or `alias`.
    pub kind: String,
    pub name: String,
    pub summary: String,
}

/// A call or a run that has ended.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ActivityRow {
    pub id: u64,
    /// `call` or `run`.
    pub kind: String,
    pub run: String,
    pub name: String,
    pub at: DateTime<Utc>,
    pub duration_ms: f64,
    pub caller: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The arguments or the command, shortened, secrets masked.
    pub detail: String,
    pub chars_in: usize,
    pub chars_out: usize,
}

impl From<ActivityEvent> for ActivityRow {
    fn from(event: ActivityEvent) -> Self {
        let kind = match event.kind {
            ActivityKind::Call => "call",
            ActivityKind::Run => "run",
        };
        Self {
            id: event.id,
            kind: kind.to_owned(),
            run: event.run_id.to_string(),
            name: event.name,
            at: event.at,
            duration_ms: event.duration.as_secs_f64() * 1e3,
            caller: caller_name(event.caller).to_owned(),
            error: event.error,
            detail: event.detail,
            chars_in: event.chars_in,
            chars_out: event.chars_out,
        }
    }
}

pub(super) fn caller_name(caller: Caller) -> &'static str {
    match caller {
        Caller::Run => "run",
        Caller::Rest => "rest",
        Caller::Cli => "cli",
        Caller::Rust => "rust",
        Caller::Tool => "tool",
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub struct ActivityReply {
    /// The oldest first.
    pub events: Vec<ActivityRow>,
}

/// A call that waits for a person.
#[derive(Debug, Serialize, ToSchema)]
pub struct ApprovalRow {
    pub id: String,
    pub tool: String,
    /// As JSON, shortened, values with secret names masked.
    pub arguments: String,
    pub run: String,
    pub caller: String,
    pub at: DateTime<Utc>,
}

impl From<ApprovalRequest> for ApprovalRow {
    fn from(request: ApprovalRequest) -> Self {
        Self {
            id: request.id,
            tool: request.tool.to_string(),
            arguments: request.arguments,
            run: request.run_id.to_string(),
            caller: caller_name(request.caller).to_owned(),
            at: request.at,
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub struct ApprovalsReply {
    pub approvals: Vec<ApprovalRow>,
}

#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum DecisionBody {
    Once,
    Session,
    Always,
    Deny,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ApprovalBody {
    pub decision: DecisionBody,
}

/// A command to run.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RunBody {
    pub command: String,
}

/// What a run gave.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunReplyBody {
    pub run: String,
    pub text: String,
    pub is_error: bool,
    pub parts: Vec<PartRow>,
    pub duration_ms: f64,
}

/// Content beside the text.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PartRow {
    /// `text`, `image` or the kind that MCP gives it.
    pub kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

impl From<Part> for PartRow {
    fn from(part: Part) -> Self {
        use base64::Engine as _;
        let row = |kind: &str| Self { kind: kind.to_owned(), mime_type: None, data: None, text: None };
        match part {
            Part::Text(text) => Self { text: Some(text), ..row("text") },
            Part::Image { media_type, data } => Self {
                mime_type: Some(media_type),
                data: Some(base64::engine::general_purpose::STANDARD.encode(data)),
                ..row("image")
            },
            Part::Other(json) => Self {
                text: Some(json.to_string()),
                ..row(json.get("type").and_then(Json::as_str).unwrap_or("content"))
            },
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResultRow {
    pub handle: String,
    pub tool: String,
    pub created_at: DateTime<Utc>,
    pub bytes: u64,
    pub lines: u64,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct ResultsReply {
    /// The newest first.
    pub results: Vec<ResultRow>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResultPageReply {
    pub lines: Vec<String>,
    pub offset: u64,
    /// Of the whole result, whatever was searched for.
    pub total_lines: u64,
    pub has_more: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ServerKind {
    /// An upstream MCP server.
    Server,
    /// A Python tool file.
    Worker,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerRow {
    pub name: String,
    pub kind: ServerKind,
    pub state: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub tool_count: usize,
    /// A file, a command or an address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// How it stands with its sign-in, where there is one or should be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth: Option<SignInRow>,
}

/// A sign-in to a server.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SignInRow {
    /// `signed in` or `needs sign-in`.
    pub state: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_in: Option<u64>,
    /// What to open in a browser.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// What the browser was sent back with, where it can't come back by itself.
#[derive(Debug, Default, Deserialize, ToSchema)]
pub struct SignInRequest {
    /// The address, its query, or the code alone. Without it, a sign-in begins.
    #[serde(default)]
    pub callback: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SignInReply {
    pub signed_in: bool,
    /// What to open in a browser.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct ServersReply {
    pub servers: Vec<ServerRow>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct LogReply {
    /// The oldest first.
    pub lines: Vec<String>,
}

/// A tool that is not what was accepted.
#[derive(Debug, Serialize, ToSchema)]
pub struct ChangedTool {
    pub server: String,
    pub tool: String,
    /// What it says now.
    pub now: String,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct PinsReply {
    pub pins: Vec<ChangedTool>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct ConfigFile {
    pub path: String,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct ConfigProblem {
    /// `info`, `warning` or `error`.
    pub severity: String,
    /// A file, a server, a key.
    pub subject: String,
    pub message: String,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct TokenRow {
    pub name: String,
    pub scopes: Vec<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct ConfigReply {
    pub files: Vec<ConfigFile>,
    pub problems: Vec<ConfigProblem>,
    pub tokens: Vec<TokenRow>,
}

/// A secret; its value is never told.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretRow {
    pub name: String,
    pub is_set: bool,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct SecretsReply {
    pub secrets: Vec<SecretRow>,
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SecretBody {
    pub value: String,
}
