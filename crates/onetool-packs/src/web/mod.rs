//! The pack `web`: pages as text that a model can read, and searches.
//!
//! Every public address may be read. Addresses of this machine and of private networks must be named in the
//! configuration, even behind a redirect or a DNS name. A site's robots.txt is followed.

mod cache;
mod entities;
mod fetch;
mod html;
mod keys;
mod markdown;
mod robots;
mod search;
mod settings;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use futures_util::stream::{self, StreamExt as _};
use onetool_sdk::{CallContext, Progress, Tool, ToolError, ToolResult, Value, define_tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use self::cache::Reply;
use self::fetch::{Fetcher, Freshness};
pub use self::keys::{EngineKeys, WEB, WebKeys};
use self::markdown::Style;
use self::settings::MAX_URLS;
pub use self::settings::{Engine, EngineKind, WebSettings};
use crate::NativePack;

/// The pack `web`.
pub fn pack(settings: WebSettings) -> NativePack {
    let secrets: Vec<String> = settings.engines.iter().flat_map(|engine| engine.secrets.clone()).collect();
    let fetcher = Arc::new(Fetcher::new(settings));
    NativePack {
        name: "web",
        description: "Read web pages as Markdown, text, JSON or bytes, and search the web.",
        tools: vec![
            fetch_tool(fetcher.clone()).read_only(),
            fetch_all_tool(fetcher.clone()).read_only(),
            search::tool(fetcher).read_only().with_secrets(secrets),
        ],
    }
}

/// What a page is returned as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Format {
    Auto,
    Markdown,
    Text,
    Html,
    Json,
    Bytes,
    Page,
}

fn auto() -> Format {
    Format::Auto
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FetchInput {
    /// The page's address.
    url: String,
    /// auto (Markdown for HTML, a value for JSON, text for other text, bytes for the rest), markdown, text, html, json,
    /// bytes, or page: a dict with url, title, text, links and `content_type`.
    #[serde(default = "auto")]
    format: Format,
    /// Whether to ask the site again although the page was read a moment ago.
    #[serde(default)]
    fresh: bool,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FetchAllInput {
    /// The pages' addresses, up to 100.
    urls: Vec<String>,
    /// As in web.fetch.
    #[serde(default = "auto")]
    format: Format,
    /// Whether to ask the sites again although the pages were read a moment ago.
    #[serde(default)]
    fresh: bool,
}

fn freshness(fresh: bool) -> Freshness {
    if fresh { Freshness::Fresh } else { Freshness::Cached }
}

fn fetch_tool(fetcher: Arc<Fetcher>) -> Tool {
    define_tool(
        "fetch",
        "Read a web page: what it says as Markdown, without navigation, scripts and styles.",
        move |input: FetchInput, ctx| {
            let fetcher = fetcher.clone();
            async move {
                let value = fetch(&fetcher, &input.url, input.format, freshness(input.fresh), &ctx.call).await?;
                Ok::<_, ToolError>(ToolResult::from(value))
            }
        },
    )
    .with_example("web.fetch(url=\"https://example.org\")")
    .with_returns("Any", "the text; for JSON its value, for pictures and other files their bytes; for page a dict")
}

fn fetch_all_tool(fetcher: Arc<Fetcher>) -> Tool {
    define_tool(
        "fetch_all",
        "Read several web pages side by side. A page that fails does not stop the others.",
        move |input: FetchAllInput, ctx| {
            let fetcher = fetcher.clone();
            async move {
                if input.urls.len() > MAX_URLS {
                    return Err(ToolError::value_error(format!(
                        "{} addresses are more than {MAX_URLS}",
                        input.urls.len()
                    ))
                    .with_hint("call it several times"));
                }
                Ok(ToolResult::from(fetch_all(fetcher, input, ctx.call.clone()).await))
            }
        },
    )
    .with_example("web.fetch_all(urls=[\"https://example.org\", \"https://example.com\"])")
    .with_returns("list[dict]", "for each address, in the given order: url, and value or error")
}

async fn fetch_all(fetcher: Arc<Fetcher>, input: FetchAllInput, ctx: CallContext) -> Value {
    let (total, at_once) = (input.urls.len(), fetcher.settings.max_parallel.max(1));
    let (format, freshness) = (input.format, freshness(input.fresh));
    let progress = ctx.progress.clone();
    let work = input.urls.into_iter().enumerate().map(move |(at, url)| {
        let (fetcher, ctx) = (fetcher.clone(), ctx.clone());
        async move {
            let outcome = fetch(&fetcher, &url, format, freshness, &ctx).await;
            (at, url, outcome)
        }
    });
    let mut pages = stream::iter(work).buffer_unordered(at_once);
    let mut found: Vec<Option<Value>> = vec![None; total];
    let mut done = 0;
    while let Some((at, url, outcome)) = pages.next().await {
        done += 1;
        progress.report(Progress { done: f64::from(done), total: Some(total as f64), message: Some(url.clone()) });
        let (name, value) = match outcome {
            Ok(value) => ("value", value),
            Err(error) => ("error", Value::from(error.text())),
        };
        let pairs = vec![(Value::from("url"), Value::from(url)), (Value::from(name), value)];
        found[at] = Some(Value::Dict(pairs));
    }
    Value::List(found.into_iter().flatten().collect())
}

async fn fetch(
    fetcher: &Fetcher,
    url: &str,
    format: Format,
    freshness: Freshness,
    ctx: &CallContext,
) -> Result<Value, ToolError> {
    let reply = fetcher.get(url, freshness, ctx).await?;
    // Large pages take a while: do not block the async threads.
    tokio::task::spawn_blocking(move || shown(&reply, format))
        .await
        .map_err(|error| ToolError::internal(format!("the page could not be read: {error}")))?
}

fn shown(reply: &Reply, format: Format) -> Result<Value, ToolError> {
    let kind = Kind::of(reply);
    let text = || onetool_outbound::decode_text(&reply.body, &reply.content_type);
    let page = |style| markdown::read(&text(), &reply.url, style);
    Ok(match (format, kind) {
        (Format::Bytes, _) | (Format::Auto, Kind::Binary) => Value::Bytes(reply.body.clone()),
        (Format::Json, _) => json_value(reply)?,
        (Format::Auto, Kind::Json) => json_value(reply).unwrap_or_else(|_| Value::from(text())),
        (Format::Page, Kind::Html) => {
            let page = page(Style::Markdown);
            let links: Vec<Json> = page.links.iter().map(|(text, url)| json!({"text": text, "url": url})).collect();
            Value::from_json(json!({
                "url": reply.url.as_str(), "title": page.title, "text": page.text, "links": links,
                "content_type": reply.content_type,
            }))
        }
        (_, Kind::Binary) => {
            return Err(ToolError::value_error(format!("{} is not text ({})", reply.url, reply.content_type))
                .with_hint("format=\"bytes\" returns it as it is"));
        }
        (Format::Page, _) => Value::from_json(json!({
            "url": reply.url.as_str(), "title": "", "text": text(), "links": [], "content_type": reply.content_type,
        })),
        (Format::Auto | Format::Markdown, Kind::Html) => Value::from(page(Style::Markdown).text),
        (Format::Text, Kind::Html) => Value::from(page(Style::Plain).text),
        (Format::Html | Format::Auto | Format::Markdown | Format::Text, _) => Value::from(text()),
    })
}

fn json_value(reply: &Reply) -> Result<Value, ToolError> {
    let text = onetool_outbound::decode_text(&reply.body, &reply.content_type);
    let json: Json = serde_json::from_str(&text)
        .map_err(|error| ToolError::value_error(format!("{} is not JSON: {error}", reply.url)))?;
    Ok(Value::from_json(json))
}

/// The kind of content of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Html,
    Json,
    Text,
    Binary,
}

impl Kind {
    /// Determined by the content type, or else by how the content begins.
    fn of(reply: &Reply) -> Self {
        let media = reply.content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        match media.as_str() {
            "text/html" | "application/xhtml+xml" => Self::Html,
            "application/json" => Self::Json,
            media if media.ends_with("+json") => Self::Json,
            media if media.starts_with("text/") || media.ends_with("+xml") || media.ends_with("/xml") => Self::Text,
            "application/javascript" | "application/yaml" | "application/x-yaml" | "application/toml" => Self::Text,
            "" | "application/octet-stream" => Self::guessed(&reply.body),
            _ => Self::Binary,
        }
    }

    fn guessed(body: &[u8]) -> Self {
        let start = &body[..body.len().min(1024)];
        if start.contains(&0) {
            return Self::Binary;
        }
        let text = String::from_utf8_lossy(start).trim_start().to_ascii_lowercase();
        match text.as_str() {
            text if text.starts_with("<!doctype html") || text.starts_with("<html") => Self::Html,
            text if text.starts_with(['{', '[']) => Self::Json,
            _ if std::str::from_utf8(body).is_ok() => Self::Text,
            _ => Self::Binary,
        }
    }
}
