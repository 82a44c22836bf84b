//! The REST API of the real binary: bundles, tools, calls, access control, and bundles as packs.

mod access;
mod admin;
mod bundles;
mod comfort;
mod command_line;
mod crash;
mod exchange;
mod invoke;
mod packs;
mod ready_made;
mod reload;
mod sequences;
mod tools;

use std::collections::VecDeque;
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use parking_lot::Mutex;
use serde_json::{Value as Json, json};

use crate::client::{Answer, Client, HttpServer, PATIENCE, Project};

const SECRET: &str = "s3cr3t-key-of-the-tests";

/// A server that tools call. The path determines its answer: `/status/503`, `/slow`, `/away`; anything else is echoed.
struct Upstream {
    base: String,
    seen: Arc<Mutex<Vec<Json>>>,
    /// Statuses of the next answers, which take precedence over other rules.
    next: Arc<Mutex<VecDeque<u16>>>,
}

impl Upstream {
    async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let (seen, next) = (Arc::<Mutex<Vec<Json>>>::default(), Arc::<Mutex<VecDeque<u16>>>::default());
        let (log, planned) = (seen.clone(), next.clone());
        let router = Router::new().fallback(move |request: Request| answer(request, log.clone(), planned.clone()));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { base, seen, next }
    }

    fn hits(&self) -> usize {
        self.seen.lock().len()
    }
}

async fn answer(request: Request, seen: Arc<Mutex<Vec<Json>>>, next: Arc<Mutex<VecDeque<u16>>>) -> Response {
    let uri = request.uri().to_string();
    let method = request.method().to_string();
    let key = request.headers().get("x-key").map(|value| value.to_str().unwrap().to_owned());
    let body = axum::body::to_bytes(request.into_body(), 1 << 20).await.unwrap();
    let echo = json!({"method": method, "uri": uri, "key": key, "body": String::from_utf8_lossy(&body)});
    seen.lock().push(echo.clone());
    if let Some(status) = next.lock().pop_front() {
        return StatusCode::from_u16(status).unwrap().into_response();
    }
    match uri.split('?').next().unwrap().split('/').collect::<Vec<_>>().as_slice() {
        ["", "status", code] => (StatusCode::from_u16(code.parse().unwrap()).unwrap(), "told to").into_response(),
        ["", "slow"] => std::future::pending().await,
        ["", "away"] => (StatusCode::FOUND, [(header::LOCATION, "http://elsewhere.example.com/")]).into_response(),
        _ => echo.to_string().into_response(),
    }
}

/// An upstream, and a running server whose tools may call it.
struct Fixture {
    project: Project,
    upstream: Upstream,
    server: HttpServer,
}

impl Fixture {
    async fn start() -> Self {
        let upstream = Upstream::start().await;
        let project = project(&upstream, "");
        let server = project.serve_http().await;
        Self { project, upstream, server }
    }

    /// Creates a bundle; returns its path.
    async fn bundle(&self, slug: &str) -> String {
        let path = format!("/tools/bundles/{}", new_id());
        let (status, body) = self.server.put(&path, json!({"slug": slug, "secrets": ["API_KEY"]})).await;
        assert_eq!(status, 201, "{body}");
        path
    }

    /// Stores a tool; returns its path.
    async fn tool(&self, bundle: &str, slug: &str, version: &str, body: Json) -> String {
        let path = tool_path(bundle, slug, version);
        let (status, reply) = self.server.put(&path, body).await;
        assert_eq!(status, 201, "{reply}");
        path
    }

    /// A tool that requests this path of the upstream, with one argument, `city`.
    fn get(&self, path: &str) -> Json {
        let required: &[&str] = if path.contains("${city}") { &["city"] } else { &[] };
        json!({
            "type": "http",
            "description": "Asks the upstream",
            "impl": {"urlTemplate": format!("{}{path}", self.upstream.base)},
            "argSchema": {
                "type": "object",
                "properties": {"city": {"type": "string"}},
                "required": required,
                "additionalProperties": false,
            },
        })
    }

    async fn invoke(&self, tool: &str, args: Json) -> (u16, Json) {
        self.server.post(&format!("{tool}/invoke"), json!({"args": args})).await
    }

    /// The path of a built-in bundle.
    async fn built_in(&self, slug: &str) -> String {
        let (_, page) = self.server.get("/tools/bundles?includeDisabled=true&pageSize=256").await;
        let bundles = page["bundles"].as_array().unwrap();
        let found = bundles.iter().find(|bundle| bundle["slug"] == slug && bundle["isBuiltIn"] == true).unwrap();
        format!("/tools/bundles/{}", found["bundleID"].as_str().unwrap())
    }
}

fn project(upstream: &Upstream, more: &str) -> Project {
    let project = Project::with(&format!("http:\n  allowed_hosts: ['{}']\n  retries: 0\n{more}", upstream.base));
    project.write(".onetool/secrets.yaml", &format!("API_KEY: {SECRET}\n"));
    project
}

fn tool_path(bundle: &str, slug: &str, version: &str) -> String {
    format!("{bundle}/tools/{slug}/version/{version}")
}

fn new_id() -> String {
    uuid::Uuid::now_v7().to_string()
}

/// Runs code until its answer is as wanted: another process sees changes slightly later.
async fn eventually(client: &Client, code: &str, wanted: impl Fn(&Answer) -> bool) -> Answer {
    let until = tokio::time::Instant::now() + PATIENCE;
    loop {
        let answer = client.run(code).await;
        if wanted(&answer) {
            return answer;
        }
        assert!(tokio::time::Instant::now() < until, "{code}: {}", answer.text);
    }
}

fn slugs(page: &Json) -> Vec<&str> {
    let items = page["tools"].as_array().or_else(|| page["bundles"].as_array()).unwrap_or_else(|| panic!("{page}"));
    items.iter().map(|item| item["slug"].as_str().unwrap()).collect()
}
