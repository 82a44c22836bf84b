//! The types of requests and responses.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use onetool_run::activity::{ActivityEvent, ActivityKind, principal_of};
use onetool_run::approvals::ApprovalRequest;
use onetool_sdk::{Origin, Part};
use onetool_state::stats::{Bar, Report};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use utoipa::ToSchema;

/// The current identity and its scopes.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionReply {
    pub version: String,
    /// The project's folder; absent without the scope `read`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Name of the token's holder.
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

/// The implementation of a pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum PackKind {
    Native,
    Python,
    Mcp,
    Bundle,
}

impl PackKind {
    pub(super) fn of(origin: &Origin) -> Self {
        match origin {
            Origin::Native => Self::Native,
            Origin::Worker { .. } => Self::Python,
            Origin::Proxy { .. } => Self::Mcp,
            Origin::Bundle { .. } => Self::Bundle,
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PackRow {
    pub name: String,
    pub kind: PackKind,
    pub description: String,
    pub is_enabled: bool,
    /// Whether it can be switched off.
    pub is_switchable: bool,
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
    /// Failures by exception type.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub error_types: BTreeMap<String, u64>,
    /// Use over time, as far as statistics exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chart: Option<ChartReply>,
    /// The last call since the server started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_at: Option<DateTime<Utc>>,
}

/// Calls over time, without gaps.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChartReply {
    /// Seconds per bar.
    pub bar_seconds: i64,
    /// The oldest first.
    pub bars: Vec<BarRow>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BarRow {
    pub start: DateTime<Utc>,
    pub calls: u64,
    pub errors: u64,
    /// Context tokens saved.
    pub context_saved: u64,
}

impl From<&Report> for ChartReply {
    fn from(report: &Report) -> Self {
        let row = |bar: &Bar| BarRow {
            start: bar.start,
            calls: bar.calls,
            errors: bar.errors,
            context_saved: bar.context_saved,
        };
        Self { bar_seconds: report.bar_seconds, bars: report.timeline.iter().map(row).collect() }
    }
}

/// Calls of a period, their outcomes and savings.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatsReply {
    /// `day`, `week`, `month` or `all`.
    pub period: String,
    /// Whether statistics are kept at all.
    pub is_enabled: bool,
    pub runs: u64,
    pub calls: u64,
    pub errors: u64,
    pub average_ms: f64,
    /// Context tokens saved.
    pub context_saved: u64,
    pub time_saved_ms: u64,
    pub savings_usd: f64,
    pub cost_usd: f64,
    /// How the savings were computed, in words.
    pub computed: BTreeMap<String, String>,
    pub chart: ChartReply,
    /// The most called first, at most 100.
    pub tools: Vec<ToolStatsRow>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolStatsRow {
    pub tool: String,
    pub calls: u64,
    pub errors: u64,
    pub average_ms: f64,
    pub max_ms: f64,
}

/// The observed return type of a tool.
#[derive(Debug, Serialize, ToSchema)]
pub struct LearnedRow {
    /// Number of results examined.
    pub times: u64,
    /// As a Python type.
    pub shape: String,
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
    /// Present if the tool does not declare what it returns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub learned: Option<LearnedRow>,
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
    /// The last of them that failed, the newest first. Empty without the scope `admin`.
    pub failures: Vec<ActivityRow>,
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

/// A call or a run.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ActivityRow {
    /// The same while it is in progress and after it ended.
    pub id: u64,
    /// `call` or `run`.
    pub kind: String,
    pub run: String,
    pub name: String,
    /// When it ended; when it started, while it is in progress.
    pub at: DateTime<Utc>,
    pub is_under_way: bool,
    /// How long it took, or has taken so far.
    pub duration_ms: f64,
    pub caller: String,
    /// Principal: the name of a token, the subject of an OAuth token, or `stdio`, `local` and `anyone` where none was
    /// needed.
    pub principal: String,
    /// Name that the client reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The server that it runs on, where several share their state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The interface used: `mcp`, `stdio`, `rest` or `local`.
    pub door: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
            at: event.at(),
            is_under_way: event.is_under_way(),
            duration_ms: event.elapsed().as_secs_f64() * 1e3,
            caller: event.caller.name().to_owned(),
            principal: principal_of(&event.requester).to_owned(),
            client: event.requester.client.clone(),
            door: event.requester.door.name().to_owned(),
            node: None,
            name: event.name,
            error: event.error,
            detail: event.detail,
            chars_in: event.chars_in,
            chars_out: event.chars_out,
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ActivityReply {
    /// The server that answers, where several share their state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Activity that has ended at the server that answers, the oldest first.
    pub events: Vec<ActivityRow>,
    /// Activity in progress, the oldest first: all of this server, and at others what has lasted for a second.
    pub under_way: Vec<ActivityRow>,
}

/// A call that waits for a person.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalRow {
    pub id: String,
    pub tool: String,
    /// As JSON, shortened, values with secret names masked.
    pub arguments: String,
    pub run: String,
    pub caller: String,
    /// The principal, as in the activity; absent for a run that waits without its process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// Name that the client reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    pub at: DateTime<Utc>,
    /// The configuration files that `always` writes a rule into.
    pub always_writes: Vec<String>,
}

impl ApprovalRow {
    pub(super) fn new(request: ApprovalRequest, always_writes: Vec<String>) -> Self {
        Self {
            always_writes,
            id: request.id,
            tool: request.tool.to_string(),
            arguments: request.arguments,
            run: request.run_id.to_string(),
            caller: request.caller.name().to_owned(),
            principal: request.requester.as_deref().map(|who| principal_of(who).to_owned()),
            client: request.requester.as_deref().and_then(|who| who.client.clone()),
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

/// The result of a run.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunReplyBody {
    pub run: String,
    pub text: String,
    pub is_error: bool,
    pub parts: Vec<PartRow>,
    pub duration_ms: f64,
}

/// Content besides the text.
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
    /// Lines of the whole result, regardless of a search.
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
    /// State of its sign-in, if it has or needs one.
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
    /// Address to open in a browser.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// The callback of a sign-in, if the browser cannot return by itself.
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
    /// Address to open in a browser.
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

/// A tool that differs from its accepted version.
#[derive(Debug, Serialize, ToSchema)]
pub struct ChangedTool {
    pub server: String,
    pub tool: String,
    /// The accepted text, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// The current text.
    pub now: String,
    /// Line-by-line diff of both. Empty if the accepted text is not known.
    pub diff: Vec<DiffLine>,
    /// Digest of the current text; an acceptance with this digest accepts nothing else.
    pub digest: String,
}

impl ChangedTool {
    pub fn new(server: String, tool: String, before: Option<String>, now: String, diff: Vec<DiffLine>) -> Self {
        let digest = blake3::hash(now.as_bytes()).to_hex()[..32].to_owned();
        Self { server, tool, before, now, diff, digest }
    }
}

/// Confirms which changes were reviewed before they are accepted.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AcceptBody {
    /// The digests of all accepted changes. Without them, the current state is accepted.
    #[serde(default)]
    pub digests: Option<Vec<String>>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct DiffLine {
    pub change: LineChange,
    pub text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum LineChange {
    Same,
    Removed,
    Added,
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
    /// Path of the file, if the subject is a configuration file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The line of the file, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    pub message: String,
}

/// Whether the contents of the folder may run.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrustReply {
    pub folder: String,
    /// Whether everything in the folder is in effect.
    pub is_trusted: bool,
    /// Whether the trust is stored, and so can be revoked.
    pub is_recorded: bool,
    /// Whether `ONETOOL_TRUST` decides for this server.
    pub is_decided: bool,
    /// Parts that are disabled until the folder is trusted, one line each.
    pub held_back: Vec<String>,
}

/// A decision on the folder.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct TrustBody {
    /// The folder as returned by `GET`, so that nobody trusts another by accident.
    pub folder: String,
    pub is_trusted: bool,
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

/// A secret; its value is never shown.
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
