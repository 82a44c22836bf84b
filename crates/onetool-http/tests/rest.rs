//! The REST API over real connections, with a real store and a real upstream.
#![expect(clippy::unwrap_used, reason = "what helps a test may fail it")]

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use indexmap::IndexMap;
use onetool_bundles::{
    AllowedHosts, BundleSource, GatedSource, HttpEngine, HttpSettings, ImportSettings, ReadyMade, Secrets,
    built_in_bundles,
};
use onetool_http::{
    AccessPolicy, AccessToken, ApiSettings, BackgroundSettings, Bundles, LogMessage, Scope, Served, ServerSettings,
    Service, router, serve_connections,
};
use onetool_outbound::client_builder;
use onetool_run::{
    CallOutcome, OutputSettings, Permissions, Recorder, RunOutcome, RunSettings, Runner, StatsSettings, Toolbox,
    ToolboxParts, ToolboxState,
};
use onetool_sandbox::monty::MontySettings;
use onetool_sandbox::{CPythonSettings, Sandbox};
use onetool_sdk::{NativePack, NativeSource, ToolContext, ToolError, ToolSource, define_tool};
use onetool_state::State;
use onetool_state::access_tokens::AccessTokens;
use onetool_state::audit::AuditLog;
use onetool_state::bundles::{BuiltInBundle, BundleId, BundleStore, Limits, Options};
use onetool_state::flat::{FlatFiles, FlatPlaces};
use onetool_state::interface::Retention;
use onetool_state::results::ResultStore;
use onetool_state::runs::RunStore;
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode};
use serde_json::{Value as Json, json};
use tokio::net::TcpListener;
use tokio::sync::{Notify, broadcast};
use tokio_util::sync::CancellationToken;
use tracing::level_filters::LevelFilter;

struct Vault;

impl Secrets for Vault {
    fn get(&self, _: &str, name: &str) -> Option<String> {
        (name == "API_KEY").then(|| "s3cr3t-key".to_owned())
    }
}

/// A toolbox with these sources and nothing else configured, as in a server.
struct Parts {
    runner: Runner,
    served: Arc<Served>,
    log: broadcast::Sender<LogMessage>,
    quiet: Arc<Notify>,
}

#[async_trait]
impl Service for Parts {
    fn runner(&self) -> &Runner {
        &self.runner
    }

    fn served(&self) -> Arc<Served> {
        self.served.clone()
    }

    fn log_messages(&self, _: LevelFilter) -> broadcast::Receiver<LogMessage> {
        self.log.subscribe()
    }

    async fn warm_up(&self) {}

    fn quiet(&self) {
        self.quiet.notify_one();
    }

    async fn shutdown(&self) {}
}

struct NoStatistics;

impl Recorder for NoStatistics {
    fn call(&self, _: &CallOutcome<'_>) {}
    fn run(&self, _: &RunOutcome<'_>) {}
}

fn runner(sources: Vec<Arc<dyn ToolSource>>, folder: &std::path::Path) -> Runner {
    let toolbox = Toolbox::new(ToolboxParts {
        gate: onetool_run::Gate::default(),
        sources,
        state: ToolboxState {
            catalog: Arc::default(),
            aliases: IndexMap::new(),
            snippets: IndexMap::new(),
            instructions: IndexMap::new(),
            servers: Vec::new(),
            topics: Vec::new(),
            output: OutputSettings {
                max_inline_size: 50_000,
                result_ttl: Duration::from_mins(1),
                preview_lines: 10,
                max_media_bytes: 8 << 20,
                result_store_dir: folder.join("tmp"),
                max_store_bytes: 1 << 30,
            },
            results: ResultStore::in_folder(folder.join("tmp"), Retention::default()),
            trail: None,
            stats: StatsSettings {
                enabled: false,
                file: folder.join("stats.jsonl"),
                flush_interval: Duration::from_secs(30),
                context_per_call: None,
                time_overhead_per_call_ms: None,
                input_cost: 0.0,
                output_cost: 0.0,
                chars_per_token: 4.0,
                shapes: false,
            },
            folder: folder.to_owned(),
            storage: Vec::new(),
            engine: String::new(),
            notes: Vec::new(),
            overrides: IndexMap::default(),
            docs: IndexMap::default(),
            groups: Arc::default(),
            quotas: Arc::default(),
            saved: Arc::new(onetool_run::SavedCode::nowhere()),
            learned: Arc::new(onetool_run::LearnedShapes::disabled()),
            permissions: Permissions::default(),
            search: Arc::default(),
        },
        projects: IndexMap::new(),
        recorder: Arc::new(NoStatistics),
    });
    // No test here runs code: nothing is started.
    let monty = MontySettings {
        executable: std::env::current_exe().unwrap(),
        prewarmed: 0,
        max_children: 1,
        max_waiting: 1,
        wait: Duration::from_secs(1),
        idle_timeout: Duration::from_mins(1),
    };
    Runner::new(toolbox, Arc::new(Sandbox::new(monty, CPythonSettings::default())), RunSettings::default())
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Greeting {
    name: String,
}

fn native_packs() -> Vec<NativePack> {
    let greet = define_tool("say_hello", "Greets.", |input: Greeting, _: ToolContext| async move {
        if input.name == "nobody" {
            Err(ToolError::value_error("nobody is there"))
        } else {
            Ok(format!("hello {}", input.name))
        }
    });
    vec![NativePack { name: "demo", description: "Greetings", tools: vec![greet] }]
}

struct Server {
    base: String,
    upstream: String,
    client: Client,
    stop: CancellationToken,
    gate: Arc<Gate>,
    quiet: Arc<Notify>,
    _folder: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn listen(router: Router, stop: &CancellationToken) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(serve_connections(listener, router, stop.clone()));
    format!("http://{address}")
}

/// Holds a request until a test releases it.
#[derive(Default)]
struct Gate {
    entered: Notify,
    opened: Notify,
}

/// Echoes the request, or fails as requested.
fn upstream(gate: Arc<Gate>) -> Router {
    use axum::extract::{Path, RawQuery};
    Router::new().route(
        "/{what}",
        axum::routing::any(|Path(what): Path<String>, RawQuery(query): RawQuery| async move {
            if what == "wait" {
                gate.entered.notify_one();
                gate.opened.notified().await;
            }
            let status = what.parse::<u16>().ok().and_then(|code| StatusCode::from_u16(code).ok());
            let body = json!({"what": what, "query": query, "temp": 21});
            (status.unwrap_or(StatusCode::OK), body.to_string())
        }),
    )
}

impl Server {
    async fn start() -> Self {
        Self::with_tokens(Vec::new()).await
    }

    async fn with_tokens(tokens: Vec<AccessToken>) -> Self {
        let stop = CancellationToken::new();
        let gate = Arc::new(Gate::default());
        let upstream = listen(upstream(gate.clone()), &stop).await;
        let folder = tempfile::tempdir().unwrap();
        let settings = HttpSettings {
            allowed_hosts: AllowedHosts::parse([upstream.as_str()]).unwrap(),
            max_retries: 0,
            ..HttpSettings::default()
        };
        let engine = Arc::new(HttpEngine::new(settings, Arc::new(Vault)));
        let native: Arc<dyn ToolSource> = Arc::new(NativeSource::new(native_packs()));
        let mut built_in: Vec<BuiltInBundle> = native.packs().iter().map(|pack| BuiltInBundle::native(pack)).collect();
        built_in.extend(built_in_bundles(&ReadyMade::default(), &|_| true));
        let state: State = Arc::new(FlatFiles::new(FlatPlaces::new(folder.path()).with_bundles(folder.path())));
        let store = BundleStore::open(Options {
            state: state.clone(),
            limits: Limits::default(),
            built_in,
            native_functions: vec!["demo.say_hello".to_owned()],
            check: engine.checker(),
            check_bundle: engine.bundle_checker(),
        })
        .unwrap();
        let source = Arc::new(BundleSource::new(store.clone(), engine.clone()));
        let gated: Arc<dyn ToolSource> = Arc::new(GatedSource::new(native, store.clone()));
        let runner = runner(vec![gated, source.clone()], folder.path());
        let served = Arc::new(Served {
            instructions: None,
            run_description: None,
            server: ServerSettings {
                tokens,
                api: ApiSettings { max_body_bytes: 64 * 1024, ..ApiSettings::default() },
                ..ServerSettings::default()
            },
            bundles: Bundles { store, source, engine, imports: ImportSettings::default() },
            runs: RunStore::new(&state, "test"),
            tokens: Arc::new(AccessTokens::new(&state)),
            audit: Arc::new(AuditLog::disabled()),
            state,
            background: BackgroundSettings::default(),
            quiet_after: Duration::from_millis(50),
        });
        let quiet = Arc::<Notify>::default();
        let service = Arc::new(Parts { runner, served, log: broadcast::channel(1).0, quiet: quiet.clone() });
        let base = listen(router(service, IpAddr::V4(Ipv4Addr::LOCALHOST), &stop).unwrap(), &stop).await;
        Self {
            base,
            upstream,
            client: client_builder().no_proxy().build().unwrap(),
            stop,
            gate,
            quiet,
            _folder: folder,
        }
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}{path}", self.base))
    }

    async fn send(&self, method: Method, path: &str, body: Json) -> (StatusCode, Json) {
        read(self.request(method, path).json(&body).send().await.unwrap()).await
    }

    async fn get(&self, path: &str) -> (StatusCode, Json) {
        read(self.request(Method::GET, path).send().await.unwrap()).await
    }

    async fn bundle(&self) -> String {
        let path = format!("/tools/bundles/{}", BundleId::generate());
        let (status, body) =
            self.send(Method::PUT, &path, json!({"slug": "weather-now", "displayName": "Weather"})).await;
        assert_eq!(status, StatusCode::CREATED, "{body}");
        path
    }

    fn tool(&self, template: &str) -> Json {
        json!({
            "type": "http",
            "description": "fetches",
            "argSchema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"],
                "additionalProperties": false},
            "impl": {"urlTemplate": format!("{}{template}", self.upstream)},
        })
    }
}

async fn read(response: Response) -> (StatusCode, Json) {
    let status = response.status();
    let text = response.text().await.unwrap();
    (status, if text.is_empty() { Json::Null } else { serde_json::from_str(&text).unwrap() })
}

#[tokio::test]
async fn a_tool_is_stored_once_read_switched_called_and_deleted() {
    let server = Server::start().await;
    let bundle = server.bundle().await;
    let path = format!("{bundle}/tools/current/version/v1.0");
    let response = server.request(Method::PUT, &path).json(&server.tool("/${city}?k=${API_KEY}")).send().await.unwrap();
    assert_eq!(response.status(), StatusCode::CREATED);
    let etag = response.headers()["etag"].to_str().unwrap().to_owned();
    assert_eq!(response.headers()["location"], path.as_str());
    let stored: Json = response.json().await.unwrap();
    assert_eq!(
        (&stored["slug"], &stored["version"], &stored["callCount"]),
        (&json!("current"), &json!("v1.0"), &json!(0))
    );

    let (status, body) = server.send(Method::PUT, &path, server.tool("/other")).await;
    assert_eq!((status, &body["error"]["code"]), (StatusCode::CONFLICT, &json!("conflict")), "{body}");

    let fresh = server.request(Method::GET, &path).header("if-none-match", &etag).send().await.unwrap();
    assert_eq!(fresh.status(), StatusCode::NOT_MODIFIED);

    let invoke = format!("{path}/invoke");
    let (status, body) = server.send(Method::POST, &invoke, json!({"args": {"city": "oslo"}})).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    assert_eq!(
        (&body["ok"], &body["value"]["what"], &body["meta"]["status"]),
        (&json!(true), &json!("oslo"), &json!(200))
    );
    assert_eq!(body["value"]["query"], "k=[REDACTED]");
    let (status, body) = server.send(Method::POST, &invoke, json!({"args": {"town": "oslo"}})).await;
    assert_eq!((status, &body["ok"]), (StatusCode::BAD_REQUEST, &json!(false)), "{body}");
    let (status, body) = server.send(Method::POST, &invoke, json!({"args": {"city": "503"}})).await;
    assert_eq!((status, &body["meta"]["status"]), (StatusCode::BAD_GATEWAY, &json!(503)), "{body}");
    let (status, body) =
        server.send(Method::POST, &format!("{invoke}?dryRun=true"), json!({"args": {"city": "x y"}})).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(body["request"]["url"], format!("{}/x%20y?k=REDACTED", server.upstream));

    let stale = server.request(Method::PATCH, &path).header("if-match", "\"nope\"").json(&json!({"isEnabled": false}));
    assert_eq!(stale.send().await.unwrap().status(), StatusCode::PRECONDITION_FAILED);
    let (status, body) = server.send(Method::PATCH, &path, json!({"isEnabled": false, "slug": "x"})).await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "{body}");
    let fresh = server.request(Method::PATCH, &path).header("if-match", &etag).json(&json!({"isEnabled": false}));
    assert_eq!(fresh.send().await.unwrap().status(), StatusCode::OK);
    let (status, _) = server.send(Method::POST, &invoke, json!({"args": {"city": "oslo"}})).await;
    assert_eq!(status, StatusCode::CONFLICT);
    let (_, body) = server.get(&path).await;
    assert_eq!((&body["isEnabled"], &body["callCount"]), (&json!(false), &json!(2)), "a refused call does not count");

    let (status, _) = server.send(Method::DELETE, &bundle, Json::Null).await;
    assert_eq!(status, StatusCode::CONFLICT);
    assert_eq!(server.send(Method::DELETE, &path, Json::Null).await.0, StatusCode::NO_CONTENT);
    assert_eq!(server.get(&path).await.0, StatusCode::NOT_FOUND);
    assert_eq!(server.send(Method::DELETE, &bundle, Json::Null).await.0, StatusCode::NO_CONTENT);
    assert_eq!(server.get(&bundle).await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_disabled_bundle_takes_no_change_inside() {
    let server = Server::start().await;
    let bundle = server.bundle().await;
    let path = format!("{bundle}/tools/current/version/v1");
    assert_eq!(server.send(Method::PUT, &path, server.tool("/a")).await.0, StatusCode::CREATED);
    assert_eq!(server.send(Method::PATCH, &bundle, json!({"isEnabled": false})).await.0, StatusCode::OK);
    let second = format!("{bundle}/tools/current/version/v2");
    assert_eq!(server.send(Method::PUT, &second, server.tool("/a")).await.0, StatusCode::CONFLICT);
    assert_eq!(server.send(Method::PATCH, &path, json!({"isEnabled": false})).await.0, StatusCode::CONFLICT);
    let (_, listed) = server.get("/tools/bundles?includeDisabled=false").await;
    assert!(!listed.to_string().contains("weather-now"));
    let (_, listed) = server.get("/tools/bundles?includeDisabled=true").await;
    assert!(listed.to_string().contains("weather-now"));
    assert_eq!(server.send(Method::PATCH, &bundle, json!({"isEnabled": true})).await.0, StatusCode::OK);
    assert_eq!(server.send(Method::PUT, &second, server.tool("/b")).await.0, StatusCode::CREATED);
    for (version, what) in [("v1", "a"), ("v2", "b")] {
        let invoke = format!("{bundle}/tools/current/version/{version}/invoke");
        let (status, body) = server.send(Method::POST, &invoke, json!({"args": {"city": "x"}})).await;
        assert_eq!((status, &body["value"]["what"]), (StatusCode::OK, &json!(what)), "{body}");
    }
}

#[tokio::test]
async fn built_ins_are_listed_called_and_switched_only() {
    let server = Server::start().await;
    let (_, listed) = server.get("/tools/bundles").await;
    let bundles = listed["bundles"].as_array().unwrap();
    let slugs: HashMap<&str, &Json> = bundles.iter().map(|one| (one["slug"].as_str().unwrap(), one)).collect();
    let demo = slugs["demo"];
    assert_eq!(demo["isBuiltIn"], true);
    assert!(slugs.contains_key("brave") && slugs.contains_key("package"));
    let bundle = format!("/tools/bundles/{}", demo["bundleID"].as_str().unwrap());
    let path = format!("{bundle}/tools/say-hello/version/v1");
    let invoke = format!("{path}/invoke");
    let (status, body) = server.send(Method::POST, &invoke, json!({"args": {"name": "you"}})).await;
    assert_eq!((status, &body["value"]), (StatusCode::OK, &json!("hello you")), "{body}");
    let (status, body) = server.send(Method::POST, &invoke, json!({"args": {"name": "nobody"}})).await;
    assert_eq!((status, &body["error"]["code"]), (StatusCode::UNPROCESSABLE_ENTITY, &json!("raised")), "{body}");
    assert_eq!(server.send(Method::PUT, &bundle, json!({"slug": "x"})).await.0, StatusCode::FORBIDDEN);
    assert_eq!(server.send(Method::DELETE, &bundle, Json::Null).await.0, StatusCode::FORBIDDEN);
    assert_eq!(server.send(Method::DELETE, &path, Json::Null).await.0, StatusCode::FORBIDDEN);
    assert_eq!(
        server.send(Method::PUT, &format!("{bundle}/tools/x/version/v1"), server.tool("/a")).await.0,
        StatusCode::FORBIDDEN
    );
    assert_eq!(server.send(Method::PATCH, &path, json!({"isEnabled": false})).await.0, StatusCode::OK);
    assert_eq!(server.send(Method::POST, &invoke, json!({"args": {"name": "you"}})).await.0, StatusCode::CONFLICT);
    let (_, body) = server.get("/tools/tools?includeDisabled=true&recommendedPageSize=256").await;
    let npm = body["tools"].as_array().unwrap().iter().find(|tool| tool["slug"] == "npm").unwrap().clone();
    assert_eq!(npm["isEnabled"], false);
    assert!(npm["disabledReason"].as_str().unwrap().contains("tools.package.npm_url"));
}

#[tokio::test]
async fn lists_and_searches_are_paged_and_tokens_are_bound() {
    let server = Server::start().await;
    let bundle = server.bundle().await;
    let id = bundle.rsplit('/').next().unwrap();
    for number in 0..5 {
        let path = format!("{bundle}/tools/current-{number}/version/v1");
        assert_eq!(server.send(Method::PUT, &path, server.tool("/a")).await.0, StatusCode::CREATED);
    }
    let mut seen = Vec::new();
    let mut token = String::new();
    loop {
        let (status, page) = server.get(&format!("/tools?bundleIDs={id}&recommendedPageSize=2{token}")).await;
        assert_eq!(status, StatusCode::OK, "{page}");
        seen.extend(page["tools"].as_array().unwrap().iter().map(|tool| tool["slug"].as_str().unwrap().to_owned()));
        let Some(next) = page["nextPageToken"].as_str() else { break };
        token = format!("&pageToken={next}");
    }
    assert_eq!(seen, ["current-4", "current-3", "current-2", "current-1", "current-0"]);
    let (status, body) = server.get(&format!("/tools/tools?recommendedPageSize=2{token}")).await;
    assert_eq!((status, &body["error"]["code"]), (StatusCode::BAD_REQUEST, &json!("bad_page_token")));
    let (_, found) = server.get("/tools/tools/search?q=curren&pageSize=3").await;
    assert_eq!(found["tools"].as_array().unwrap().len(), 3);
    let (_, same) = server.get("/tools/search?q=curren&pageSize=3").await;
    assert_eq!(found, same);
    let (status, nothing) = server.get("/tools/search?q=-").await;
    assert_eq!((status, &nothing["tools"]), (StatusCode::OK, &json!([])), "a query of punctuation finds nothing");
    for bad in [
        "/tools/search",
        "/tools?recommendedPageSize=0",
        "/tools?nope=1",
        "/tools?pageToken=x",
        "/tools/bundles?includeDisabled=maybe",
        "/tools/bundles?pageSize=1&pageSize=2",
    ] {
        assert_eq!(server.get(bad).await.0, StatusCode::BAD_REQUEST, "{bad}");
    }
    // Text that is not an id may be a slug.
    for unknown in ["/nowhere", "/tools?bundleIDs=1", "/tools/bundles/not-an-id"] {
        assert_eq!(server.get(unknown).await.0, StatusCode::NOT_FOUND, "{unknown}");
    }
    assert_eq!(server.send(Method::POST, "/tools/search", Json::Null).await.0, StatusCode::METHOD_NOT_ALLOWED);
}

#[tokio::test]
async fn bad_bodies_are_refused() {
    let server = Server::start().await;
    let bundle = server.bundle().await;
    let path = format!("{bundle}/tools/current/version/v1");
    let mut tool = server.tool("/${nope}");
    let (status, body) = server.send(Method::PUT, &path, tool.clone()).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(body["error"]["message"].as_str().unwrap().contains("neither an argument nor a secret"), "{body}");
    tool["impl"]["urlTemplate"] = json!("https://elsewhere.example.com/");
    assert_eq!(server.send(Method::PUT, &path, tool.clone()).await.0, StatusCode::BAD_REQUEST);
    tool["impl"]["surprise"] = json!(1);
    assert_eq!(server.send(Method::PUT, &path, tool.clone()).await.0, StatusCode::BAD_REQUEST);
    for bad in ["a_b", "a%2Fb", "%20", &"x".repeat(65)] {
        let path = format!("{bundle}/tools/{bad}/version/v1");
        assert_eq!(server.send(Method::PUT, &path, server.tool("/a")).await.0, StatusCode::BAD_REQUEST, "{bad}");
    }
    let large = server.send(Method::PUT, &path, json!({"description": "x".repeat(70_000)})).await;
    assert_eq!(large.0, StatusCode::PAYLOAD_TOO_LARGE);
    let plain = server.request(Method::PUT, &path).body("{}").send().await.unwrap();
    assert_eq!(plain.status(), StatusCode::UNSUPPORTED_MEDIA_TYPE);
    let broken =
        server.request(Method::PUT, &path).header("content-type", "application/json").body("{").send().await.unwrap();
    assert_eq!(broken.status(), StatusCode::BAD_REQUEST);
    let mut seed = server.tool("/${city}");
    seed["slug"] = json!("current");
    seed["version"] = json!("v1");
    seed["schemaVersion"] = json!("xyz");
    seed["isBuiltIn"] = json!(false);
    seed["createdAt"] = json!("2024-05-14T13:44:00Z");
    assert_eq!(server.send(Method::PUT, &path, seed).await.0, StatusCode::CREATED, "a whole tool.json is taken");
    let mut go = server.tool("/a");
    go["type"] = json!("go");
    go["impl"] = json!({"goFunc": "github.com/acme/agent/tools.Weather"});
    let (status, body) = server.send(Method::PUT, &format!("{bundle}/tools/old/version/v1"), go).await;
    assert_eq!(
        (status, &body["type"], &body["isEnabled"]),
        (StatusCode::CREATED, &json!("native"), &json!(false)),
        "{body}"
    );
}

#[tokio::test]
async fn tokens_scopes_hosts_and_origins_are_checked() {
    let token =
        |text: &str, scope| AccessToken { token: text.to_owned(), name: None, groups: Vec::new(), scopes: vec![scope] };
    let server = Server::with_tokens(vec![
        token("reader-reader-reader", Scope::Read),
        token("caller-caller-caller", Scope::Invoke),
        token("admin-admin-admin-1", Scope::Admin),
    ])
    .await;
    let status = |method: Method, path: String, token: &'static str| {
        let request = server.request(method, &path).bearer_auth(token).json(&json!({"slug": "x"}));
        async move { request.send().await.unwrap().status() }
    };
    let list = || "/tools/bundles".to_owned();
    let put = || format!("/tools/bundles/{}", BundleId::generate());
    let invoke = || format!("{}/tools/a/version/v1/invoke", put());
    assert_eq!(server.get(&list()).await.0, StatusCode::UNAUTHORIZED);
    assert_eq!(status(Method::GET, list(), "wrong-wrong-wrong").await, StatusCode::UNAUTHORIZED);
    assert_eq!(status(Method::GET, list(), "reader-reader-reader").await, StatusCode::OK);
    assert_eq!(status(Method::PUT, put(), "reader-reader-reader").await, StatusCode::FORBIDDEN);
    assert_eq!(status(Method::POST, invoke(), "reader-reader-reader").await, StatusCode::FORBIDDEN);
    assert_eq!(status(Method::GET, list(), "caller-caller-caller").await, StatusCode::FORBIDDEN);
    assert_eq!(status(Method::POST, invoke(), "caller-caller-caller").await, StatusCode::BAD_REQUEST);
    assert_eq!(status(Method::PUT, put(), "admin-admin-admin-1").await, StatusCode::CREATED);

    let open = Server::start().await;
    let with = |headers: &[(&'static str, String)]| {
        let mut request = open.request(Method::GET, "/tools/bundles");
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        async move { request.send().await.unwrap().status() }
    };
    assert_eq!(with(&[("host", "evil.example.com".to_owned())]).await, StatusCode::FORBIDDEN);
    assert_eq!(with(&[("origin", "http://evil.example.com".to_owned())]).await, StatusCode::FORBIDDEN);
    assert_eq!(with(&[("origin", "null".to_owned())]).await, StatusCode::FORBIDDEN);
    assert_eq!(with(&[("origin", open.base.clone())]).await, StatusCode::OK);
    assert_eq!(with(&[("origin", open.base.clone()), ("origin", open.base.clone())]).await, StatusCode::BAD_REQUEST);
    assert_eq!(with(&[("host", "localhost".to_owned())]).await, StatusCode::OK);
    assert!(AccessPolicy::new("0.0.0.0".parse().unwrap(), &ServerSettings::default(), None).is_err());
}

#[tokio::test]
async fn a_call_in_flight_ends_well_when_the_server_stops() {
    let server = Server::start().await;
    let bundle = server.bundle().await;
    let path = format!("{bundle}/tools/current/version/v1");
    assert_eq!(server.send(Method::PUT, &path, server.tool("/${city}")).await.0, StatusCode::CREATED);
    let call = server.request(Method::POST, &format!("{path}/invoke")).json(&json!({"args": {"city": "wait"}})).send();
    let call = tokio::spawn(call);
    server.gate.entered.notified().await;
    server.stop.cancel();
    server.gate.opened.notify_one();
    let (status, body) = read(call.await.unwrap().unwrap()).await;
    assert_eq!((status, &body["value"]["what"]), (StatusCode::OK, &json!("wait")), "{body}");
    assert!(
        client_builder().build().unwrap().get(format!("{}/docs", server.base)).send().await.is_err(),
        "nobody new comes in"
    );
}

#[tokio::test]
async fn the_description_names_every_route_and_the_page_stands_alone() {
    let server = Server::start().await;
    let (status, document) = server.get("/openapi.json").await;
    assert_eq!(status, StatusCode::OK);
    let tool = "/tools/bundles/{bundleID}/tools/{toolSlug}/version/{version}";
    for (path, methods) in [
        ("/tools/bundles", vec!["get"]),
        ("/tools/bundles/{bundleID}", vec!["get", "put", "patch", "delete"]),
        (tool, vec!["get", "put", "patch", "delete"]),
        (&format!("{tool}/invoke"), vec!["post"]),
        ("/tools/tools", vec!["get"]),
        ("/tools/tools/search", vec!["get"]),
    ] {
        for method in methods {
            assert!(document["paths"][path][method].is_object(), "{method} {path}");
        }
    }
    let security = |path: &str, method: &str| document["paths"][path][method]["security"].clone();
    assert_eq!(security("/tools/bundles", "get"), json!([{}, {"bearer": ["read"]}]));
    assert_eq!(security(tool, "patch"), json!([{}, {"bearer": ["admin"]}]));
    assert_eq!(security(&format!("{tool}/invoke"), "post"), json!([{}, {"bearer": ["invoke"]}]));
    let body = &document["paths"][&format!("{tool}/invoke")]["post"]["requestBody"];
    assert_ne!(body["required"], true, "a call without arguments needs no body: {body}");
    for path in ["/docs", "/docs/app.js", "/docs/style.css"] {
        let response = server.request(Method::GET, path).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        assert!(response.headers()["content-security-policy"].to_str().unwrap().starts_with("default-src 'none'"));
        assert!(!response.text().await.unwrap().contains("://"), "{path} fetches nothing from elsewhere");
    }
}

#[tokio::test]
async fn after_a_burst_the_service_is_told_that_it_is_quiet() {
    let server = Server::start().await;
    for _ in 0..32 {
        server.client.get(format!("{}/healthz", server.base)).send().await.unwrap();
    }
    tokio::time::timeout(Duration::from_mins(1), server.quiet.notified()).await.expect("it is told");
}
