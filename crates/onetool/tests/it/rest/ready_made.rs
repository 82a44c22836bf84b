//! Ready-made bundles against recorded answers of their APIs.

use axum::Router;
use axum::extract::Request;
use axum::response::IntoResponse as _;
use serde_json::{Value as Json, json};

use super::slugs;
use crate::client::{HttpServer, Project};

/// Answers like the APIs, as far as the tools need it; and echoes what the tests check.
async fn recorded() -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let router = Router::new().fallback(|request: Request| async move {
        let path = request.uri().path().to_owned();
        let query = request.uri().query().unwrap_or_default().to_owned();
        let token = request.headers().get("authorization").map(|value| value.to_str().unwrap().to_owned());
        let key = request.headers().get("x-subscription-token").map(|value| value.to_str().unwrap().to_owned());
        let seen = format!("{} {}", token.or(key).unwrap_or_default(), query);
        let body = match path.as_str() {
            "/search/repositories" => json!({"total_count": 1, "items": [{"full_name": "o/r", "stargazers_count": 5, "description": seen}]}),
            "/repos/o/r/issues" => json!([{"number": 1, "title": "Broken", "state": "open", "user": {"login": "me"}, "body": null}]),
            "/repos/o/r/readme" => return "# Read me".into_response(),
            "/works" => json!({"results": [{"id": "W1", "title": "On things", "cited_by_count": 3, "doi": null}]}),
            "/w/api.php" if query.contains("list=search") => json!({"query": {"search": [{"title": "Oslo", "pageid": 1, "snippet": "<b>"}]}}),
            "/w/api.php" => json!({"query": {"pages": [{"title": "Oslo", "extract": "Oslo is"}]}}),
            "/v1/search" if request.method() == "GET" => json!({"results": [{"name": "Oslo", "country": "Norway", "latitude": 59.91, "longitude": 10.75}]}),
            "/v1/forecast" => json!({"latitude": 59.9, "current": {"temperature_2m": 3.5}, "daily": {"time": ["2026-01-01"]}, "timezone": query}),
            "/api/v1/search" => json!({"results": [{"id": "/vercel/next.js", "title": "Next.js"}]}),
            "/api/v1/vercel/next.js" => return "routing docs".into_response(),
            "/v1/scrape" => json!({"success": true, "data": {"markdown": "# Page", "metadata": {"title": seen}}}),
            "/v1/map" => json!({"links": ["https://a.example/1"]}),
            "/res/v1/web/search" => json!({"web": {"results": [{"title": "T", "url": "https://a.example", "description": seen}]}}),
            _ => return (axum::http::StatusCode::NOT_FOUND, path).into_response(),
        };
        body.to_string().into_response()
    });
    tokio::spawn(async move { axum::serve(listener, router).await });
    base
}

const PACKS: &[&str] = &["brave", "github", "openalex", "wikipedia", "open_meteo", "context7", "firecrawl"];

async fn started(secrets: &str) -> (Project, HttpServer) {
    let base = recorded().await;
    let urls: String = PACKS.iter().map(|pack| format!("  {pack}: {{url: '{base}'}}\n")).collect();
    let project = Project::with(&format!("http: {{allowed_hosts: ['{base}']}}\ntools:\n{urls}"));
    project.write(".onetool/secrets.yaml", secrets);
    let server = project.serve_http().await;
    (project, server)
}

#[tokio::test]
async fn they_are_off_until_their_secret_is_set_or_somebody_enables_them() {
    let (_project, server) = started("GITHUB_TOKEN: ghp_token\n").await;
    let client = server.mcp().await;
    assert!(client.ok("github.get_readme(owner='o', repo='r')").await.contains("# Read me"));
    let missing = client.err("firecrawl.scrape(url='https://a.example')").await;
    assert!(missing.contains("FIRECRAWL_API_KEY"), "{missing}");
    let off = client.err("wikipedia.search(query='Oslo')").await;
    assert!(off.contains("onetool bundles enable wikipedia"), "{off}");
    let (_, listed) = server.get("/tools/bundles?pageSize=256").await;
    assert!(!slugs(&listed).contains(&"wikipedia"), "{listed}");
    let (_, off) = server.get("/tools/bundles/firecrawl").await;
    assert!(off["disabledReason"].as_str().unwrap_or_default().contains("FIRECRAWL_API_KEY"), "{off}");
    let (_, tools) = server.get("/tools/tools?bundleIDs=firecrawl&includeDisabled=true").await;
    assert!(tools["tools"][0]["disabledReason"].as_str().unwrap().contains("FIRECRAWL_API_KEY"), "{tools}");
    assert_eq!(server.patch("/tools/bundles/wikipedia", json!({"isEnabled": true})).await.0, 200);
    assert!(client.ok("wikipedia.search(query='Oslo')").await.contains("Oslo"));
    assert_eq!(server.put("/tools/bundles/wikipedia", json!({"slug": "wikipedia"})).await.0, 403);
    let (status, mine) = server.post("/tools/bundles", json!({"slug": "github"})).await;
    assert_eq!(status, 201, "a user's own bundle may have the name: {mine}");
}

#[tokio::test]
async fn every_one_answers() {
    let secrets =
        "GITHUB_TOKEN: ghp_token\nBRAVE_API_KEY: brave-key\nCONTEXT7_API_KEY: c7-key\nFIRECRAWL_API_KEY: fc-key\n";
    let (_project, server) = started(secrets).await;
    for bundle in ["openalex", "wikipedia", "open-meteo"] {
        assert_eq!(server.patch(&format!("/tools/bundles/{bundle}"), json!({"isEnabled": true})).await.0, 200);
    }
    let client = server.mcp().await;
    for (code, part) in [
        ("github.search_repositories(query='x y')[0]['description']", "Bearer [REDACTED] q=x%20y&per_page=10&page=1"),
        ("github.list_issues(owner='o', repo='r')[0]['title']", "Broken"),
        ("openalex.search_works(query='things')[0]['title']", "On things"),
        ("wikipedia.article(title='Oslo')", "Oslo is"),
        ("open_meteo.find_place(name='Oslo')[0]['latitude']", "59.91"),
        ("open_meteo.forecast(latitude=1, longitude=2)['current']", "3.5"),
        ("open_meteo.weather_in(town='Oslo')", "Norway"),
        ("context7.search_libraries(query='next')[0]['id']", "/vercel/next.js"),
        ("context7.get_docs(owner='vercel', project='next.js')", "routing docs"),
        ("firecrawl.scrape(url='https://a.example')['metadata']['title']", "Bearer [REDACTED]"),
        ("firecrawl.map_site(url='https://a.example')[0]", "https://a.example/1"),
        ("brave.web_search(query='x')[0]['description']", "[REDACTED] q=x&count=10"),
    ] {
        let text = client.ok(code).await;
        assert!(text.contains(part), "{code}: {text}");
    }
}

#[tokio::test]
async fn every_tool_has_arguments_that_are_described_a_shape_and_an_example() {
    let (_project, server) = started("").await;
    for pack in PACKS {
        let slug = pack.replace('_', "-");
        let (_, page) =
            server.get(&format!("/tools/tools?bundleIDs={slug}&includeDisabled=true&recommendedPageSize=256")).await;
        let tools: &Vec<Json> = page["tools"].as_array().unwrap_or_else(|| panic!("{page}"));
        assert!(!tools.is_empty(), "{pack}");
        for tool in tools {
            let name = format!("{pack}.{}", tool["slug"].as_str().unwrap().replace('-', "_"));
            assert!(
                tool["example"].as_str().is_some_and(|example| example.starts_with(&name)),
                "{name}: {}",
                tool["example"]
            );
            assert!(tool["outputSchema"].is_object(), "{name}");
            for (argument, schema) in tool["argSchema"]["properties"].as_object().unwrap() {
                let is_told = schema.get("description").is_some() || schema.get("enum").is_some();
                assert!(is_told, "{name}({argument}) is not described");
            }
        }
    }
}
