//! HTTP tools against a real upstream on loopback.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use onetool_sdk::{Arguments, CallContext, Caller, ErrorKind, ReportSlot, ToolCall, ToolError, ToolSource, Value};
use onetool_state::bundles::{
    Auth, BundleDraft, BundleId, BundleStore, ErrorMode, HttpImplementation, Implementation, Limits, Options,
    Precondition, ResponseEncoding, ToolDraft,
};
use onetool_state::flat::{FlatFiles, FlatPlaces};
use serde_json::{Value as Json, json};

use super::*;

struct Vault(HashMap<&'static str, &'static str>);

impl Secrets for Vault {
    fn get(&self, _: &str, name: &str) -> Option<String> {
        self.0.get(name).map(|value| (*value).to_owned())
    }
}

/// A request that the upstream received.
#[derive(Debug, Clone)]
struct Seen {
    line: String,
    headers: Vec<String>,
    body: String,
}

/// Answers each request with `answer`, and records it.
struct Upstream {
    port: u16,
    seen: Receiver<Seen>,
}

impl Upstream {
    fn start(answer: impl Fn(&Seen, usize) -> String + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (sender, seen) = channel();
        let answer = Arc::new(answer);
        std::thread::spawn(move || {
            let count = Arc::new(std::sync::atomic::AtomicUsize::new(0));
            for stream in listener.incoming().flatten() {
                let (answer, sender, count) = (answer.clone(), sender.clone(), count.clone());
                std::thread::spawn(move || {
                    let mut reader = BufReader::new(stream.try_clone().unwrap());
                    let mut stream: TcpStream = stream;
                    while let Some(seen) = read_request(&mut reader) {
                        let number = count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                        let reply = answer(&seen, number);
                        let _ = sender.send(seen);
                        if stream.write_all(reply.as_bytes()).is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Self { port, seen }
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    fn next(&self) -> Seen {
        self.seen.recv_timeout(Duration::from_secs(5)).unwrap()
    }
}

fn read_request(reader: &mut BufReader<TcpStream>) -> Option<Seen> {
    let mut line = String::new();
    if reader.read_line(&mut line).ok()? == 0 {
        return None;
    }
    let mut headers = Vec::new();
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let header = header.trim_end().to_owned();
        if header.is_empty() {
            break;
        }
        if let Some(value) = header.to_lowercase().strip_prefix("content-length: ") {
            length = value.parse().unwrap();
        }
        headers.push(header);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Seen { line: line.trim_end().to_owned(), headers, body: String::from_utf8(body).unwrap() })
}

fn reply(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n{headers}\r\n{body}", body.len())
}

struct Bench {
    source: BundleSource,
    store: BundleStore,
    bundle: BundleId,
    _folder: tempfile::TempDir,
}

impl Bench {
    fn new(rules: &[String]) -> Self {
        let settings = HttpSettings {
            allowed_hosts: AllowedHosts::parse(rules.iter().map(String::as_str)).unwrap(),
            max_response_bytes: 10_000,
            ..HttpSettings::default()
        };
        let vault = Vault(HashMap::from([("API_KEY", "s3cr3t/key"), ("PASS", "pa55word")]));
        let engine = Arc::new(HttpEngine::new(settings, Arc::new(vault)));
        let folder = tempfile::tempdir().unwrap();
        let store = BundleStore::open(Options {
            state: Arc::new(FlatFiles::new(FlatPlaces::new(folder.path()).with_bundles(folder.path()))),
            limits: Limits::default(),
            built_in: built_in_bundles(&ReadyMade::default(), &|_| true),
            native_functions: Vec::new(),
            check: engine.checker(),
            check_bundle: engine.bundle_checker(),
        })
        .unwrap();
        let bundle = BundleId::generate();
        let draft = BundleDraft::new("my-demo".parse().unwrap());
        store.put_bundle(bundle, draft, &Precondition::None).unwrap();
        Self { source: BundleSource::new(store.clone(), engine), store, bundle, _folder: folder }
    }

    fn for_upstream(upstream: &Upstream) -> Self {
        Self::new(&[format!("127.0.0.1:{}", upstream.port)])
    }

    fn put(&self, version: &str, http: HttpImplementation, schema: Json) -> Result<(), String> {
        self.put_draft(version, draft(http, schema))
    }

    fn put_draft(&self, version: &str, draft: ToolDraft) -> Result<(), String> {
        let name = ("go-there".parse().unwrap(), version.parse().unwrap());
        self.store
            .put_tool(self.bundle, (&name.0, &name.1), draft, &Precondition::None)
            .map(drop)
            .map_err(|error| error.to_string())
    }

    async fn call(&self, arguments: Json) -> Result<Json, ToolError> {
        self.call_in(arguments, &CallContext::new(Caller::Rust)).await
    }

    async fn call_in(&self, arguments: Json, ctx: &CallContext) -> Result<Json, ToolError> {
        self.call_version(None, arguments, ctx).await
    }

    async fn call_version(&self, version: Option<&str>, arguments: Json, ctx: &CallContext) -> Result<Json, ToolError> {
        let packs = self.source.packs();
        let pack = packs.iter().find(|pack| pack.name == "my_demo").unwrap().clone();
        let tool = pack.tools.get("go_there").unwrap().clone();
        let Json::Object(arguments) = arguments else { panic!("not an object") };
        let call =
            ToolCall { pack, tool, version: version.map(str::to_owned), arguments: Arguments::from_json(arguments) };
        self.source.call(call, ctx).await.map(|value| value.to_json())
    }
}

fn draft(http: HttpImplementation, schema: Json) -> ToolDraft {
    ToolDraft {
        display_name: String::new(),
        description: "goes there".to_owned(),
        tags: Vec::new(),
        implementation: Implementation::Http(Box::new(http)),
        is_enabled: true,
        arg_schema: schema,
        output_schema: None,
        max_calls_per_minute: None,
        example: None,
        translations: onetool_state::bundles::Translations::default(),
    }
}

fn text_schema(names: &[&str], required: &[&str]) -> Json {
    let properties: serde_json::Map<String, Json> = names.iter().map(|name| ((*name).to_owned(), json!({}))).collect();
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

#[tokio::test]
async fn every_place_is_escaped_in_its_own_way() {
    let upstream = Upstream::start(|_, _| reply("200 OK", "", "{\"a\": {\"b\": 7}}"));
    let bench = Bench::for_upstream(&upstream);
    let mut http = HttpImplementation::get(
        upstream.url("/v1/${city}/x?q=${q}&n=${n}&tag=${tag}&none=${none}&d=${d:-a b}&lit=$${x}"),
    );
    http.method = "POST".to_owned();
    http.headers.insert("X-Who".to_owned(), "me/${version} ${q}".to_owned());
    http.headers.insert("X-None".to_owned(), "${none}".to_owned());
    http.body_template = r#"{"q": "${q}", "n": ${n}, "none": ${none}}"#.to_owned();
    http.extract_expr = "$.a.b".to_owned();
    bench.put("v1", http, text_schema(&["city", "q", "n", "tag", "none", "d"], &["city", "n"])).unwrap();
    let value =
        bench.call(json!({"city": "a/b?c", "q": "x&y=\"1\"", "n": 1_234_567, "tag": ["p", "q r"]})).await.unwrap();
    assert_eq!(value, json!(7));
    let seen = upstream.next();
    assert_eq!(seen.line, "POST /v1/a%2Fb%3Fc/x?q=x%26y%3D%221%22&n=1234567&tag=p&tag=q%20r&d=a%20b&lit=${x} HTTP/1.1");
    assert_eq!(seen.body, r#"{"q":"x&y=\"1\"","n":1234567}"#);
    assert!(seen.headers.contains(&"x-who: me/v1 x&y=\"1\"".to_owned()), "{:?}", seen.headers);
    assert!(!seen.headers.iter().any(|header| header.starts_with("x-none")));
    for city in ["..", ".", ""] {
        let refused = bench.call(json!({"city": city, "n": 1})).await.unwrap_err();
        assert_eq!((refused.kind, refused.pointer.as_deref()), (ErrorKind::Arguments, Some("/city")), "{city}");
    }
    let broken = bench.call(json!({"city": "c", "n": 1, "q": "a\r\nX-Evil: 1"})).await.unwrap_err();
    assert_eq!(broken.kind, ErrorKind::Arguments);
}

#[tokio::test]
async fn a_bad_tool_is_refused_when_stored() {
    let bench = Bench::new(&["api.example.com".to_owned()]);
    let refused = |change: &dyn Fn(&mut HttpImplementation), needle: &str| {
        let mut http = HttpImplementation::get("https://api.example.com/${a}");
        change(&mut http);
        let error = bench.put("v1", http, text_schema(&["a", "opt"], &["a"])).unwrap_err();
        assert!(error.contains(needle), "{error}");
    };
    refused(&|http| http.url_template = "ftp://x".to_owned(), "http://");
    refused(&|http| http.url_template = "https://${a}/".to_owned(), "written out");
    refused(&|http| http.url_template = "https://u:p@api.example.com/".to_owned(), "user name");
    refused(&|http| http.url_template = "https://other.example.com/".to_owned(), "not allowed");
    refused(&|http| http.url_template.push_str("?k=${NOPE}"), "neither an argument nor a secret");
    refused(&|http| http.body_template = "{".to_owned(), "bodyTemplate");
    refused(&|http| http.extract_expr = "$[".to_owned(), "extractExpr");
    refused(&|http| http.method = "BREW".to_owned(), "not a method");
    refused(&|http| drop(http.headers.insert("Host".to_owned(), "x".to_owned())), "not a tool's to set");
    refused(&|http| http.secrets.push("a".to_owned()), "both");
    let error = bench.put("v1", HttpImplementation::get("https://api.example.com/"), json!({"type": 7})).unwrap_err();
    assert!(error.contains("argSchema"), "{error}");
}

#[tokio::test]
async fn secrets_go_out_and_never_come_back() {
    let upstream = Upstream::start(|seen, _| {
        let body = json!({"echo": format!("{} {:?}", seen.line, seen.headers), "s3cr3t/key": "s3cr3t/key"}).to_string();
        if seen.line.contains("fail") { reply("500 No", "", &body) } else { reply("200 OK", "", &body) }
    });
    let bench = Bench::for_upstream(&upstream);
    let mut http = HttpImplementation::get(upstream.url("/${mode}?key=${API_KEY}"));
    http.auth = Auth::Basic { username: "me".to_owned(), password: "${PASS}".to_owned() }.into();
    bench.put("v1", http, text_schema(&["mode"], &["mode"])).unwrap();
    let value = bench.call(json!({"mode": "ok"})).await.unwrap().to_string();
    let seen = upstream.next();
    assert!(seen.line.contains("key=s3cr3t%2Fkey"), "{}", seen.line);
    assert!(seen.headers.contains(&"authorization: Basic bWU6cGE1NXdvcmQ=".to_owned()), "{:?}", seen.headers);
    let error = bench.call(json!({"mode": "fail"})).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Upstream { status: Some(500) });
    for text in [value, error.text()] {
        assert!(text.contains("REDACTED"), "{text}");
        for secret in ["s3cr3t", "pa55word", "bWU6cGE1NXdvcmQ="] {
            assert!(!text.contains(secret), "{text}");
        }
    }
}

#[tokio::test]
async fn redirects_are_checked_and_credentials_stay_home() {
    let inner = Upstream::start(|_, _| reply("200 OK", "", "\"there\""));
    let target = inner.url("/x");
    let upstream = Upstream::start(move |_, _| reply("302 Found", &format!("Location: {target}\r\n"), ""));
    let http = || {
        let mut http = HttpImplementation::get(upstream.url("/"));
        http.headers.insert("X-Key".to_owned(), "${API_KEY}".to_owned());
        http.headers.insert("X-Plain".to_owned(), "1".to_owned());
        http.auth = Auth::Bearer { token: "${PASS}".to_owned() }.into();
        http
    };
    let bench = Bench::for_upstream(&upstream);
    bench.put("v1", http(), text_schema(&[], &[])).unwrap();
    assert_eq!(bench.call(json!({})).await.unwrap_err().kind, ErrorKind::Denied);
    let bench = Bench::new(&["127.0.0.1".to_owned()]);
    bench.put("v1", http(), text_schema(&[], &[])).unwrap();
    assert_eq!(bench.call(json!({})).await.unwrap(), json!("there"));
    let names: Vec<String> =
        inner.next().headers.iter().filter_map(|line| line.split(':').next().map(str::to_owned)).collect();
    assert!(names.contains(&"x-plain".to_owned()), "{names:?}");
    assert!(!names.contains(&"x-key".to_owned()) && !names.contains(&"authorization".to_owned()), "{names:?}");
}

#[tokio::test]
async fn a_name_that_leads_inside_is_refused() {
    let upstream = Upstream::start(|_, _| reply("200 OK", "", "1"));
    let url = format!("http://localhost:{}/", upstream.port);
    let bench = Bench::new(&["*".to_owned()]);
    bench.put("v1", HttpImplementation::get(&url), text_schema(&[], &[])).unwrap();
    let error = bench.call(json!({})).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Denied, "{error}");
    let bench = Bench::new(&["localhost".to_owned()]);
    bench.put("v1", HttpImplementation::get(&url), text_schema(&[], &[])).unwrap();
    assert_eq!(bench.call(json!({})).await.unwrap(), json!(1));
}

#[tokio::test]
async fn what_may_be_repeated_is_repeated_and_nothing_else() {
    let upstream = Upstream::start(|seen, number| {
        if number == 0 || seen.line.starts_with("POST") {
            reply("503 Busy", "Retry-After: 0\r\n", "busy")
        } else {
            reply("200 OK", "", "\"ok\"")
        }
    });
    let bench = Bench::for_upstream(&upstream);
    bench.put("v1", HttpImplementation::get(upstream.url("/")), text_schema(&[], &[])).unwrap();
    let slot = ReportSlot::default();
    let ctx = CallContext { report: Some(slot.clone()), ..CallContext::new(Caller::Rest) };
    assert_eq!(bench.call_in(json!({}), &ctx).await.unwrap(), json!("ok"));
    let report = slot.take().unwrap();
    assert_eq!((report.status, report.attempts), (Some(200), 2));
    let mut post = HttpImplementation::get(upstream.url("/"));
    post.method = "POST".to_owned();
    bench.put("v2", post, text_schema(&[], &[])).unwrap();
    let error = bench.call(json!({})).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Upstream { status: Some(503) });
    assert_eq!([upstream.next(), upstream.next(), upstream.next()].len(), 3);
    assert!(upstream.seen.try_recv().is_err(), "the POST was sent once");
    assert_eq!(bench.call_version(Some("v1"), json!({}), &CallContext::new(Caller::Rust)).await.unwrap(), json!("ok"));
    assert_eq!(
        bench.call_version(Some("v9"), json!({}), &CallContext::new(Caller::Rust)).await.unwrap_err().kind,
        ErrorKind::NotFound
    );
}

#[tokio::test]
async fn every_call_has_its_report_however_many_are_under_way() {
    const CALLS: usize = 1100;
    let upstream = Upstream::start(|_, _| reply("200 OK", "", "\"ok\""));
    let bench = Bench::for_upstream(&upstream);
    bench.put("v1", HttpImplementation::get(upstream.url("/")), text_schema(&[], &[])).unwrap();
    let waiting: Vec<(ReportSlot, CallContext)> = (0..CALLS)
        .map(|_| {
            let slot = ReportSlot::default();
            (slot.clone(), CallContext { report: Some(slot), ..CallContext::new(Caller::Rest) })
        })
        .collect();
    for few in waiting.chunks(20) {
        let calls = few.iter().map(|(_, ctx)| bench.call_in(json!({}), ctx));
        for value in futures_util::future::join_all(calls).await {
            assert_eq!(value.unwrap(), json!("ok"));
        }
    }
    let statuses = waiting.iter().filter_map(|(slot, _)| slot.take()?.status);
    assert_eq!(statuses.filter(|status| *status == 200).count(), CALLS);
}

#[tokio::test]
async fn error_mode_output_schema_and_encoding() {
    let upstream = Upstream::start(|seen, _| {
        if seen.line.contains("bad") { reply("404 None", "", "gone") } else { reply("200 OK", "", "price: $42 today") }
    });
    let bench = Bench::for_upstream(&upstream);
    let mut http = HttpImplementation::get(upstream.url("/${mode}"));
    http.error_mode = ErrorMode::Empty;
    http.response_encoding = ResponseEncoding::Text;
    http.extract_expr = r"regex:\$(\d+)".to_owned();
    let mut tool = draft(http, text_schema(&["mode"], &["mode"]));
    tool.output_schema = Some(json!({"type": "string", "pattern": "^4"}));
    bench.put_draft("v1", tool.clone()).unwrap();
    assert_eq!(bench.call(json!({"mode": "good"})).await.unwrap(), json!("42"));
    assert_eq!(bench.call(json!({"mode": "bad"})).await.unwrap(), Json::Null);
    tool.output_schema = Some(json!({"type": "integer"}));
    bench.put_draft("v2", tool).unwrap();
    assert_eq!(bench.call(json!({"mode": "good"})).await.unwrap_err().kind, ErrorKind::Output);
    assert_eq!(bench.call(json!({"mode": "good", "more": 1})).await.unwrap_err().kind, ErrorKind::Arguments);
}

#[tokio::test]
async fn size_time_rate_and_cancellation_end_a_call() {
    let upstream = Upstream::start(|seen, _| {
        if seen.line.contains("slow") {
            // A partial reply: the rest never arrives.
            "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf".to_owned()
        } else {
            reply("200 OK", "", &"9".repeat(10_001))
        }
    });
    let bench = Bench::for_upstream(&upstream);
    let mut http = HttpImplementation::get(upstream.url("/${mode}"));
    http.timeout_ms = 300;
    let mut tool = draft(http, text_schema(&["mode"], &["mode"]));
    tool.max_calls_per_minute = std::num::NonZeroU32::new(3);
    bench.put_draft("v1", tool).unwrap();
    assert_eq!(bench.call(json!({"mode": "large"})).await.unwrap_err().kind, ErrorKind::TooLarge);
    assert_eq!(bench.call(json!({"mode": "slow"})).await.unwrap_err().kind, ErrorKind::Timeout);
    let ctx = CallContext { deadline: Some(Instant::now() + Duration::from_mins(1)), ..CallContext::new(Caller::Rust) };
    ctx.cancel.cancel();
    assert_eq!(bench.call_in(json!({"mode": "slow"}), &ctx).await.unwrap_err().kind, ErrorKind::Cancelled);
    let error = bench.call(json!({"mode": "slow"})).await.unwrap_err();
    assert!(matches!(error.kind, ErrorKind::RateLimited { .. }), "{error}");
}

#[tokio::test]
async fn built_in_bundles_are_packs_and_unconfigured_tools_are_not() {
    let bench = Bench::new(&[]);
    let packs = bench.source.packs();
    let brave = packs.iter().find(|pack| pack.name == "brave").unwrap();
    assert_eq!(brave.tools.keys().collect::<Vec<_>>(), ["image_search", "news_search", "video_search", "web_search"]);
    assert!(
        brave.tools["web_search"]
            .signature
            .render("brave.web_search")
            .starts_with("brave.web_search(query: str, count: int = 10")
    );
    assert!(!packs.iter().any(|pack| pack.name == "package"));
    assert!(!packs.iter().any(|pack| pack.name == "my_demo"), "an empty bundle is not a pack");
    let tools = bench.store.tools(
        &onetool_state::bundles::ToolFilter { disabled: onetool_state::bundles::Disabled::Shown, ..Default::default() },
        100,
        None,
    );
    let npm = tools.unwrap().items.into_iter().find(|view| view.tool.slug.as_str() == "npm").unwrap();
    assert_eq!(npm.disabled_reason.unwrap(), "configure tools.package.npm_url with the registry's address");
}

#[tokio::test]
async fn a_dry_run_sends_nothing_and_shows_no_secret() {
    let upstream = Upstream::start(|_, _| reply("200 OK", "", "1"));
    let bench = Bench::for_upstream(&upstream);
    let mut http = HttpImplementation::get(upstream.url("/${a}?key=${API_KEY}"));
    http.auth = Auth::Basic { username: "me".to_owned(), password: "${UNSET}".to_owned() }.into();
    http.secrets = vec!["UNSET".to_owned()];
    bench.put("v1", http, text_schema(&["a"], &["a"])).unwrap();
    let view = bench.store.tools_of(bench.bundle).unwrap().remove(0);
    let bundle = bench.store.bundle(bench.bundle).unwrap().bundle;
    let engine = HttpEngine::new(HttpSettings::default(), Arc::new(Vault(HashMap::from([("API_KEY", "s3cr3t/key")]))));
    let arguments = Arguments::named([("a", Value::from("x y"))]).named;
    let Preview::Request(shown) = engine.dry_run(&bundle, &view.tool, &arguments).unwrap() else {
        panic!("no request")
    };
    assert_eq!(shown.url, upstream.url("/x%20y?key=REDACTED"));
    assert_eq!(shown.headers["authorization"], "Basic REDACTED");
    assert_eq!(shown.missing_secrets, ["UNSET"]);
    let wrong = engine.dry_run(&bundle, &view.tool, &Arguments::default().named).unwrap_err();
    assert_eq!(wrong.kind, ErrorKind::Arguments);
    assert!(upstream.seen.try_recv().is_err());
}
