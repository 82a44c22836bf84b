//! The pack against a real server on a socket.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use onetool_sdk::{ToolContext, ToolError, Value};
use parking_lot::Mutex;
use serde_json::{Value as Json, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;
use onetool_outbound::AllowedHosts;

/// A site: each path has a reply, with its `status line and headers` and its body.
struct Site {
    address: String,
    asked: Arc<AtomicUsize>,
    last: Arc<Mutex<String>>,
}

impl Site {
    async fn serve(replies: &[(&str, &str, &str)]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let replies: HashMap<String, (String, String)> = replies
            .iter()
            .map(|(path, head, body)| ((*path).to_owned(), ((*head).to_owned(), (*body).to_owned())))
            .collect();
        let (asked, last) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(String::new())));
        let (count, seen) = (asked.clone(), last.clone());
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (replies, count, seen) = (replies.clone(), count.clone(), seen.clone());
                tokio::spawn(async move {
                    let mut request = Vec::new();
                    let mut buffer = [0; 4096];
                    while !request.windows(4).any(|window| window == b"\r\n\r\n") {
                        match stream.read(&mut buffer).await {
                            Ok(read) if read > 0 => request.extend_from_slice(&buffer[..read]),
                            _ => return,
                        }
                    }
                    let text = String::from_utf8_lossy(&request).into_owned();
                    let target = text.split(' ').nth(1).unwrap_or_default().to_owned();
                    let path = target.split('?').next().unwrap_or_default();
                    if path != "/robots.txt" {
                        count.fetch_add(1, Ordering::SeqCst);
                        *seen.lock() = text;
                    }
                    if path == "/silent" {
                        std::future::pending::<()>().await;
                    }
                    let (head, body) = match replies.get(path) {
                        Some((head, body)) => (head.clone(), body.clone()),
                        None => ("404 Not Found".to_owned(), "nothing here".to_owned()),
                    };
                    let reply =
                        format!("HTTP/1.1 {head}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}", body.len());
                    let _ = stream.write_all(reply.as_bytes()).await;
                });
            }
        });
        Self { address, asked, last }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

const HTML: &str = "200 OK\r\nContent-Type: text/html";

fn allowed(rules: &[&str]) -> WebSettings {
    WebSettings {
        allowed_hosts: AllowedHosts::parse(rules.iter().copied()).unwrap(),
        timeout: Duration::from_secs(20),
        ..WebSettings::default()
    }
}

async fn call(pack: &NativePack, tool: &str, arguments: Json) -> Result<Value, ToolError> {
    let tool = pack.tools.iter().find(|known| known.name() == tool).unwrap();
    tool.execute(arguments, ToolContext::default()).await.map(ToolResult::into_value)
}

async fn fetched(pack: &NativePack, url: &str, format: &str) -> Result<Value, ToolError> {
    call(pack, "fetch", json!({"url": url, "format": format})).await
}

#[tokio::test]
async fn pages_come_in_every_format() {
    let html = "<title>T</title><main><h1>Head</h1><p>text <a href='/x'>link</a></p></main>";
    let site = Site::serve(&[
        ("/page", HTML, html),
        ("/data", "200 OK\r\nContent-Type: application/json", "{\"a\": [1]}"),
        ("/plain", "200 OK\r\nContent-Type: text/plain", "just text"),
        ("/file", "200 OK\r\nContent-Type: application/zip", "PK"),
    ])
    .await;
    let web = pack(allowed(&["127.0.0.1"]));
    let link = site.url("/x");
    let url = site.url("/page");
    assert_eq!(fetched(&web, &url, "auto").await.unwrap().str(), format!("# Head\n\ntext [link]({link})"));
    assert_eq!(fetched(&web, &url, "text").await.unwrap().str(), "Head\n\ntext link");
    assert_eq!(fetched(&web, &url, "html").await.unwrap().str(), html);
    assert_eq!(fetched(&web, &url, "bytes").await.unwrap(), Value::Bytes(html.as_bytes().to_vec()));
    let page = fetched(&web, &url, "page").await.unwrap().to_json();
    assert_eq!((&page["title"], &page["links"]), (&json!("T"), &json!([{"text": "link", "url": link}])));
    assert_eq!(site.asked.load(Ordering::SeqCst), 1, "the others came from the cache");
    assert_eq!(fetched(&web, &site.url("/data"), "auto").await.unwrap().to_json(), json!({"a": [1]}));
    assert_eq!(fetched(&web, &site.url("/plain"), "markdown").await.unwrap().str(), "just text");
    assert_eq!(fetched(&web, &site.url("/file"), "auto").await.unwrap(), Value::Bytes(b"PK".to_vec()));
    let error = fetched(&web, &site.url("/file"), "markdown").await.unwrap_err();
    assert!(error.text().contains("format=\"bytes\""), "{error}");
    assert!(fetched(&web, &url, "json").await.unwrap_err().message.contains("is not JSON"));
}

#[tokio::test]
async fn the_machine_and_its_network_are_out_of_reach() {
    let site = Site::serve(&[("/", HTML, "secret")]).await;
    let web = pack(WebSettings::default());
    let port = site.address.rsplit(':').next().unwrap();
    for host in ["127.0.0.1", "localhost", "[::1]", "2130706433", "0x7f.1", "[::ffff:127.0.0.1]"] {
        let error = fetched(&web, &format!("http://{host}:{port}/"), "auto").await.unwrap_err();
        assert_eq!(error.exception(), "PermissionError", "{host}: {error}");
        assert!(error.hint.as_ref().unwrap().contains("tools.web.allowed_hosts"), "{error:?}");
    }
    for address in ["file:///etc/passwd", "ftp://example.org/", "http://user:pw@example.org/"] {
        assert_eq!(fetched(&web, address, "auto").await.unwrap_err().exception(), "PermissionError", "{address}");
    }
    assert_eq!(site.asked.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_redirect_cannot_lead_out() {
    let inside = Site::serve(&[("/", HTML, "secret")]).await;
    let port = inside.address.rsplit(':').next().unwrap().to_owned();
    let away = format!("302 Found\r\nLocation: http://localhost:{port}/");
    let site = Site::serve(&[
        ("/away", &away, ""),
        ("/near", "301 Moved\r\nLocation: here", ""),
        ("/here", HTML, "arrived"),
        ("/loop", "302 Found\r\nLocation: /loop", ""),
        ("/file", "302 Found\r\nLocation: file:///etc/passwd", ""),
    ])
    .await;
    let web = pack(allowed(&[site.address.as_str()]));
    assert_eq!(fetched(&web, &site.url("/near"), "auto").await.unwrap().str(), "arrived");
    assert_eq!(fetched(&web, &site.url("/away"), "auto").await.unwrap_err().exception(), "PermissionError");
    assert_eq!(fetched(&web, &site.url("/file"), "auto").await.unwrap_err().exception(), "PermissionError");
    assert!(fetched(&web, &site.url("/loop"), "auto").await.unwrap_err().message.contains("more than 5 times"));
    assert_eq!(inside.asked.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn robots_are_followed_unless_the_configuration_says_otherwise() {
    let robots = ("/robots.txt", "200 OK\r\nContent-Type: text/plain", "User-agent: *\nDisallow: /private\n");
    let site = Site::serve(&[robots, ("/private", HTML, "x"), ("/open", HTML, "y")]).await;
    let web = pack(allowed(&["127.0.0.1"]));
    let error = fetched(&web, &site.url("/private"), "auto").await.unwrap_err();
    assert!(error.message.contains("robots.txt") && error.exception() == "PermissionError", "{error}");
    assert_eq!(fetched(&web, &site.url("/open"), "auto").await.unwrap().str(), "y");
    let rude = pack(WebSettings { follows_robots: false, ..allowed(&["127.0.0.1"]) });
    assert_eq!(fetched(&rude, &site.url("/private"), "auto").await.unwrap().str(), "x");
    let broken = Site::serve(&[("/robots.txt", "503 Down", ""), ("/", HTML, "x")]).await;
    assert!(fetched(&web, &broken.url("/"), "auto").await.is_err());
}

#[tokio::test]
async fn size_time_and_status_are_told() {
    let site = Site::serve(&[("/big", HTML, &"x".repeat(2000)), ("/bad", "500 Oops", "it broke")]).await;
    let web = pack(WebSettings { max_bytes: 1000, timeout: Duration::from_millis(300), ..allowed(&["127.0.0.1"]) });
    let error = fetched(&web, &site.url("/big"), "auto").await.unwrap_err();
    assert!(error.message.contains("more than 1000 bytes"), "{error}");
    let error = fetched(&web, &site.url("/bad"), "auto").await.unwrap_err();
    assert!(error.message.contains("500") && error.message.contains("it broke"), "{error}");
    let error = fetched(&web, &site.url("/silent"), "auto").await.unwrap_err();
    assert_eq!(error.exception(), "TimeoutError", "{error}");
}

#[tokio::test]
async fn many_pages_come_in_order_and_one_failure_stops_nothing() {
    let site = Site::serve(&[("/a", HTML, "A"), ("/b", HTML, "B")]).await;
    let web = pack(WebSettings { max_parallel: 2, ..allowed(&["127.0.0.1"]) });
    let urls = [site.url("/a"), site.url("/missing"), site.url("/b"), "http://10.0.0.1/".to_owned()];
    let all = call(&web, "fetch_all", json!({"urls": urls})).await.unwrap().to_json();
    assert_eq!((&all[0]["value"], &all[2]["value"]), (&json!("A"), &json!("B")));
    assert!(all[1]["error"].as_str().unwrap().contains("404"), "{all}");
    assert!(all[3]["error"].as_str().unwrap().contains("not allowed"), "{all}");
    let many: Vec<String> = (0..101).map(|n| format!("x.org/{n}")).collect();
    assert!(call(&web, "fetch_all", json!({"urls": many})).await.unwrap_err().message.contains("more than 100"));
}

#[tokio::test]
async fn engines_are_asked_with_their_key() {
    let answer = "{\"web\": {\"results\": [{\"title\": \"T\", \"url\": \"https://x\", \"description\": \"d\"}]}}";
    let json_type = "200 OK\r\nContent-Type: application/json";
    let other = "{\"results\": [{\"title\": \"U\", \"url\": \"https://y\", \"content\": \"c\"}]}";
    let site = Site::serve(&[("/brave", json_type, answer), ("/searx/search", json_type, other)]).await;
    let engine = |name: &str, kind, path, key: Option<&str>| Engine {
        name: name.to_owned(),
        kind,
        url: site.url(path),
        key: key.map(str::to_owned),
        secrets: Vec::new(),
    };
    let engines = vec![
        engine("brave", EngineKind::Brave, "/brave", Some("hunter2")),
        engine("local", EngineKind::SearXng, "/searx", None),
        engine("keyless", EngineKind::Tavily, "/tavily", None),
    ];
    let web = pack(WebSettings { engines, ..WebSettings::default() });
    let found = call(&web, "search", json!({"query": "a b&c"})).await.unwrap().to_json();
    assert_eq!(found, json!([{"title": "T", "url": "https://x", "snippet": "d"}]));
    let request = site.last.lock().to_lowercase();
    assert!(request.contains("x-subscription-token: hunter2") && request.contains("q=a+b%26c"), "{request}");
    let found = call(&web, "search", json!({"query": "x", "engine": "local"})).await.unwrap().to_json();
    assert_eq!(found[0]["title"], json!("U"));
    for (arguments, part) in [
        (json!({"query": " "}), "1 to 2000"),
        (json!({"query": "x", "engine": "nope"}), "not configured"),
        (json!({"query": "x", "engine": "keyless"}), "has no key"),
    ] {
        let error = call(&web, "search", arguments).await.unwrap_err();
        assert!(error.message.contains(part), "{error}");
    }
    let none = call(&pack(WebSettings::default()), "search", json!({"query": "x"})).await.unwrap_err();
    assert!(none.hint.unwrap().contains("tools: {web: {engines"));
}

#[test]
fn every_tool_is_described() {
    for tool in pack(WebSettings::default()).tools {
        let spec = tool.spec();
        assert!(spec.example.as_ref().is_some_and(|example| example.starts_with(&format!("web.{}(", spec.name))));
        assert_eq!(spec.signature.described_parameters().len(), spec.signature.parameters.len(), "{}", spec.name);
    }
}
