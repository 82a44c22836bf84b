//! Prompts and resources of upstream MCP servers: prompts as `server/prompt`, resources as `ot://server/{server}/{uri}`.
//!
//! Servers are asked concurrently, each for a bounded time; one that does not answer is left out of a list. A
//! policy that denies a server's `prompt` or `read` denies them here too.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::stream::{self, StreamExt as _};
use onetool_run::{Permission, Shared as Tools};
use onetool_sdk::{CallContext, Caller, ErrorKind, Offer, Origin, QualifiedName, ToolError, ToolSource};
use rmcp::ErrorData;
use rmcp::model::{
    CompleteRequestParams, CompleteResult, ErrorCode, Prompt, ReadResourceResult, Reference, Resource,
    ResourceContents, ResourceTemplate, ServerResult,
};
use serde::de::DeserializeOwned;
use serde_json::{Value as Json, json};

use super::offers::Wanted;

/// Timeout for a server's part of a list.
const PATIENCE: Duration = Duration::from_secs(5);
/// Maximum number of servers asked concurrently.
const AT_ONCE: usize = 16;
/// Prefix of the URI of an upstream resource.
const PREFIX: &str = "ot://server/";

/// The functions of a server's pack that represent its prompts and resources in policies.
const PROMPT: &str = "prompt";
const READ: &str = "read";

pub(super) async fn prompts(tools: &Arc<Tools>) -> Vec<Prompt> {
    let mut all: Vec<Prompt> = list(tools, PROMPT, Offer::Prompts).await;
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

pub(super) async fn resources(tools: &Arc<Tools>) -> Vec<Resource> {
    list(tools, READ, Offer::Resources).await
}

pub(super) async fn templates(tools: &Arc<Tools>) -> Vec<ResourceTemplate> {
    list(tools, READ, Offer::ResourceTemplates).await
}

/// Asks every server; names and URIs are prefixed with the server's name.
async fn list<T: DeserializeOwned>(tools: &Arc<Tools>, function: &str, offer: Offer) -> Vec<T> {
    let packs: Vec<String> = servers(tools).filter(|pack| is_allowed(tools, pack, function)).collect();
    let asking = packs.into_iter().map(|pack| {
        let (tools, offer) = (tools.clone(), offer.clone());
        async move {
            let ctx = context();
            let answer = tokio::time::timeout(PATIENCE, ask(&tools, &pack, offer, &ctx)).await;
            let items = match answer {
                Ok(Ok(Some(Json::Array(items)))) => items,
                Ok(Err(error)) => {
                    tracing::info!(pack, %error, "a server's prompts or resources are left out");
                    Vec::new()
                }
                _ => Vec::new(),
            };
            items.into_iter().filter_map(|item| serde_json::from_value(qualified(&pack, item)).ok()).collect::<Vec<T>>()
        }
    });
    stream::iter(asking).buffered(AT_ONCE).collect::<Vec<_>>().await.into_iter().flatten().collect()
}

fn servers(tools: &Tools) -> impl Iterator<Item = String> {
    let packs: Vec<String> = tools
        .catalog()
        .packs()
        .filter(|pack| matches!(pack.origin, Origin::Proxy { .. }))
        .map(|pack| pack.name.clone())
        .collect();
    packs.into_iter()
}

fn is_allowed(tools: &Tools, pack: &str, function: &str) -> bool {
    tools.permission(&QualifiedName::new(pack, function)) == Permission::Allow
}

fn context() -> CallContext {
    let mut ctx = CallContext::new(Caller::Run);
    ctx.deadline = Some(Instant::now() + PATIENCE);
    ctx
}

async fn ask(tools: &Tools, pack: &str, offer: Offer, ctx: &CallContext) -> Result<Option<Json>, ToolError> {
    let Some(entry) = tools.catalog().pack(pack) else { return Ok(None) };
    entry.source.offer(pack, offer, ctx).await
}

fn qualified(pack: &str, mut item: Json) -> Json {
    for (key, with) in [("uri", format!("{PREFIX}{pack}/")), ("uriTemplate", format!("{PREFIX}{pack}/"))] {
        if let Some(uri) = item.get(key).and_then(Json::as_str) {
            item[key] = format!("{with}{uri}").into();
        }
    }
    if let Some(name) = item.get("name").and_then(Json::as_str) {
        item["name"] = format!("{pack}/{name}").into();
    }
    item
}

/// Fetches a prompt or a resource of a server.
pub(super) async fn fetch(tools: &Arc<Tools>, wanted: Wanted, ctx: &CallContext) -> Result<ServerResult, ErrorData> {
    match wanted {
        Wanted::Prompt { name, arguments } => {
            let (pack, prompt) = name.split_once('/').unwrap_or((&name, ""));
            let offer = Offer::Prompt { name: prompt.to_owned(), arguments };
            one(tools, pack, PROMPT, offer, ctx).await.map(ServerResult::GetPromptResult)
        }
        Wanted::Resource { uri } => {
            let (pack, original) = parts_of(&uri).unwrap_or((&uri, ""));
            let offer = Offer::Read { uri: original.to_owned() };
            let mut result = one::<ReadResourceResult>(tools, pack, READ, offer, ctx).await?;
            for contents in &mut result.contents {
                match contents {
                    ResourceContents::TextResourceContents { uri, .. }
                    | ResourceContents::BlobResourceContents { uri, .. } => *uri = our_uri(pack, uri),
                    _ => {}
                }
            }
            Ok(ServerResult::ReadResourceResult(result))
        }
    }
}

/// Whether a name is of the form `server/prompt`.
pub(super) fn is_prompt(name: &str) -> bool {
    name.contains('/')
}

/// Splits `ot://server/{server}/{uri}` into the server and its own URI.
fn parts_of(uri: &str) -> Option<(&str, &str)> {
    uri.strip_prefix(PREFIX)?.split_once('/')
}

/// Completes an argument of a server's prompt or of its resource template; `None` if the reference is to neither.
pub(super) async fn complete(
    tools: &Arc<Tools>,
    request: &CompleteRequestParams,
    ctx: &CallContext,
) -> Option<Result<CompleteResult, ErrorData>> {
    let mut params = request.clone();
    params.meta = None;
    let (pack, function) = match &mut params.r#ref {
        Reference::Prompt(prompt) => {
            let (pack, name) = prompt.name.split_once('/')?;
            let pack = pack.to_owned();
            prompt.name = name.to_owned();
            (pack, PROMPT)
        }
        Reference::Resource(template) => {
            let (pack, uri) = parts_of(&template.uri)?;
            let pack = pack.to_owned();
            template.uri = uri.to_owned();
            (pack, READ)
        }
        _ => return None,
    };
    let params = serde_json::to_value(params).unwrap_or_default();
    Some(one(tools, &pack, function, Offer::Complete { params }, ctx).await)
}

/// Our name for a resource of an upstream server.
pub(super) fn our_uri(pack: &str, uri: &str) -> String {
    format!("{PREFIX}{pack}/{uri}")
}

/// Whether a URI is such a name.
pub(super) fn is_ours(uri: &str) -> bool {
    parts_of(uri).is_some()
}

/// A resource that is watched at its server as long as this value lives.
pub(super) struct Watch {
    source: Arc<dyn ToolSource>,
    pack: String,
    uri: String,
}

impl Drop for Watch {
    fn drop(&mut self) {
        let (source, pack, uri) = (self.source.clone(), std::mem::take(&mut self.pack), std::mem::take(&mut self.uri));
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { source.unwatch(&pack, &uri).await });
        }
    }
}

/// Watches the resource `ot://server/{server}/{uri}`; `None` where the URI is not of that form.
pub(super) async fn watch(tools: &Arc<Tools>, uri: &str) -> Option<Result<Watch, ErrorData>> {
    let (pack, original) = parts_of(uri)?;
    let unknown = || not_found(READ, format!("no server '{pack}' that offers this"));
    if !servers(tools).any(|server| server == pack) || !is_allowed(tools, pack, READ) {
        return Some(Err(unknown()));
    }
    let Some(entry) = tools.catalog().pack(pack) else { return Some(Err(unknown())) };
    let source = entry.source.clone();
    Some(match source.watch(pack, original, &context()).await {
        Ok(true) => Ok(Watch { source, pack: pack.to_owned(), uri: original.to_owned() }),
        Ok(false) => Err(unknown()),
        Err(error) => Err(failed(READ, &error)),
    })
}

async fn one<T: DeserializeOwned>(
    tools: &Arc<Tools>,
    pack: &str,
    function: &str,
    offer: Offer,
    ctx: &CallContext,
) -> Result<T, ErrorData> {
    let unknown = || not_found(function, format!("no server '{pack}' that offers this"));
    if !servers(tools).any(|server| server == pack) {
        return Err(unknown());
    }
    if !is_allowed(tools, pack, function) {
        let message = format!("{pack}.{function} is not allowed by security.policy");
        return Err(ErrorData::new(ErrorCode::INVALID_REQUEST, message, None));
    }
    let answer = ask(tools, pack, offer, ctx).await.map_err(|error| failed(function, &error))?.ok_or_else(unknown)?;
    serde_json::from_value(answer).map_err(|error| {
        ErrorData::internal_error(format!("the server '{pack}' sent an invalid answer: {error}"), None)
    })
}

/// Returns the protocol's error for an unknown resource or an unknown prompt.
fn not_found(function: &str, message: String) -> ErrorData {
    let code = if function == READ { ErrorCode::RESOURCE_NOT_FOUND } else { ErrorCode::INVALID_PARAMS };
    ErrorData::new(code, message, None)
}

fn failed(function: &str, error: &ToolError) -> ErrorData {
    let message = error.message.clone();
    let mut told = match error.kind {
        ErrorKind::NotFound | ErrorKind::Upstream { status: Some(404) } => not_found(function, message),
        ErrorKind::Arguments => ErrorData::invalid_params(message, None),
        _ => ErrorData::internal_error(message, None),
    };
    told.data = error.hint.as_ref().map(|hint| json!({"hint": hint}));
    told
}
