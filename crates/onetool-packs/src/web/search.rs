//! `web.search`: sends a query to a configured engine, with the same result format for all engines.

use std::sync::Arc;

use onetool_sdk::{CallContext, Tool, ToolError, ToolResult, define_tool};
use reqwest::{Method, Url};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::fetch::Fetcher;
use super::settings::{Engine, EngineKind, MAX_HITS, MAX_QUERY_CHARS};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SearchInput {
    /// What to look for.
    query: String,
    /// How many results, up to 50.
    #[serde(default = "ten")]
    count: usize,
    /// An engine of the configuration. Left out: the first one.
    #[serde(default)]
    engine: Option<String>,
}

fn ten() -> usize {
    10
}

pub(super) fn tool(fetcher: Arc<Fetcher>) -> Tool {
    define_tool(
        "search",
        "Search the web with an engine of the configuration (tools.web.engines).",
        move |input: SearchInput, ctx| {
            let fetcher = fetcher.clone();
            async move { search(&fetcher, &input, &ctx.call).await }
        },
    )
    .with_example("web.search(query=\"rust sandbox seccomp\", count=5)")
    .with_returns("list[dict]", "title, url and snippet of each result, the best first")
}

async fn search(fetcher: &Fetcher, input: &SearchInput, ctx: &CallContext) -> Result<ToolResult, ToolError> {
    let query = input.query.trim();
    if query.is_empty() || query.chars().count() > MAX_QUERY_CHARS {
        return Err(ToolError::value_error(format!("the query must have 1 to {MAX_QUERY_CHARS} characters")));
    }
    if input.count == 0 {
        return Err(ToolError::value_error("count must be at least 1").at("/count"));
    }
    let count = input.count.clamp(1, MAX_HITS);
    let engine = engine(&fetcher.settings.engines, input.engine.as_deref())?;
    let mut url = Url::parse(&engine.url).map_err(|error| {
        ToolError::value_error(format!("tools.web.engines.{}.url is not an address: {error}", engine.name))
    })?;
    let key = match (&engine.key, engine.kind.needs_key()) {
        (None, true) => {
            return Err(ToolError::unavailable(format!("the search engine '{}' has no key", engine.name)).with_hint(
                format!("set tools.web.engines.{}.key, for example to a secret: \"${{NAME}}\"", engine.name),
            ));
        }
        (key, _) => key.clone().unwrap_or_default(),
    };
    let (method, headers, body) = match engine.kind {
        EngineKind::Brave => {
            url.query_pairs_mut().append_pair("q", query).append_pair("count", &count.min(20).to_string());
            (Method::GET, vec![("X-Subscription-Token", key)], None)
        }
        EngineKind::SearXng => {
            if !url.path().ends_with("/search") {
                let path = format!("{}/search", url.path().trim_end_matches('/'));
                url.set_path(&path);
            }
            url.query_pairs_mut().append_pair("q", query).append_pair("format", "json");
            (Method::GET, Vec::new(), None)
        }
        EngineKind::Tavily => {
            let body = json!({"query": query, "max_results": count.min(20)});
            (Method::POST, vec![("Authorization", format!("Bearer {key}"))], Some(body))
        }
    };
    let answer = fetcher.ask(&url, method, &headers, body, ctx).await?;
    Ok(Json::from(hits(engine.kind, &answer, count)).into())
}

fn engine<'a>(engines: &'a [Engine], name: Option<&str>) -> Result<&'a Engine, ToolError> {
    let Some(first) = engines.first() else {
        return Err(ToolError::unavailable("no search engine is configured").with_hint(
            "add one to onetool.yaml: tools: {web: {engines: {brave: {key: \"${BRAVE_API_KEY}\"}}}} (or tavily; or searxng with its url)",
        ));
    };
    let Some(name) = name else { return Ok(first) };
    engines.iter().find(|engine| engine.name == name).ok_or_else(|| {
        let known: Vec<&str> = engines.iter().map(|engine| engine.name.as_str()).collect();
        ToolError::value_error(format!("the search engine '{name}' is not configured"))
            .with_hint(format!("configured: {}", known.join(", ")))
    })
}

/// Parses the results of an engine; entries without an address are skipped.
fn hits(kind: EngineKind, answer: &Json, count: usize) -> Vec<Json> {
    let list = match kind {
        EngineKind::Brave => answer.pointer("/web/results"),
        EngineKind::SearXng | EngineKind::Tavily => answer.get("results"),
    };
    let snippet = match kind {
        EngineKind::Brave => "description",
        EngineKind::SearXng | EngineKind::Tavily => "content",
    };
    let text = |entry: &Json, name: &str| {
        let text = entry.get(name).and_then(Json::as_str).unwrap_or_default();
        // Brave highlights the matching words.
        super::entities::decode(&text.replace("<strong>", "").replace("</strong>", ""))
    };
    list.and_then(Json::as_array)
        .into_iter()
        .flatten()
        .filter(|entry| entry.get("url").is_some_and(Json::is_string))
        .take(count)
        .map(|entry| json!({"title": text(entry, "title"), "url": entry["url"], "snippet": text(entry, snippet)}))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_every_engine_have_one_shape() {
        let found = json!([{"title": "T", "url": "https://x", "snippet": "a & b"}]);
        let brave = json!({"web": {"results": [{"title": "T", "url": "https://x", "description": "<strong>a</strong> &amp; b"}, {"title": "no url"}]}});
        let other = json!({"results": [{"title": "T", "url": "https://x", "content": "a & b"}, {"title": "U", "url": "https://y"}]});
        assert_eq!(Json::from(hits(EngineKind::Brave, &brave, 5)), found);
        assert_eq!(Json::from(hits(EngineKind::SearXng, &other, 1)), found);
        assert_eq!(hits(EngineKind::Tavily, &json!({"error": "x"}), 5), Vec::<Json>::new());
    }
}
