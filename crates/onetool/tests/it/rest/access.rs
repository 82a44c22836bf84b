//! Access control of REST and MCP.

use reqwest::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{Fixture, Upstream, new_id, project};
use crate::client::{PATIENCE, Project, reply};

/// Sends bytes and reads the status of the answer; `None` if the server closed the connection without one.
async fn raw(base: &str, request: &str) -> Option<u16> {
    let mut stream = tokio::net::TcpStream::connect(base.strip_prefix("http://").unwrap()).await.unwrap();
    // The server may close the connection before it has read everything.
    let _ = stream.write_all(request.as_bytes()).await;
    let mut text = String::new();
    let _ = tokio::time::timeout(PATIENCE, stream.read_to_string(&mut text)).await.expect("an end");
    text.split(' ').nth(1).map(|status| status.parse().unwrap())
}

const HELLO: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;

#[tokio::test]
async fn foreign_hosts_and_origins_get_nothing() {
    let f = Fixture::start().await;
    let own = f.server.base.clone();
    let rest = || f.server.request(Method::GET, "/tools/bundles");
    let mcp = || {
        f.server
            .request(Method::POST, "/mcp")
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .body(HELLO)
    };
    let foreign = [
        ("origin", "http://evil.example.com"),
        ("origin", "null"),
        ("origin", "https://localhost.evil.example.com"),
        ("origin", "http://127.0.0.1:1"),
        ("host", "evil.example.com"),
        ("host", "localhost.evil.example.com"),
        ("host", "127.0.0.1.evil.example.com"),
    ];
    for (name, value) in foreign {
        for request in
            [rest(), mcp(), f.server.request(Method::GET, "/docs"), f.server.request(Method::GET, "/nowhere")]
        {
            assert_eq!(reply(request.header(name, value)).await.0, 403, "{name}: {value}");
        }
    }
    assert_eq!(reply(rest().header("origin", &own)).await.0, 200);
    assert_eq!(mcp().header("origin", &own).send().await.unwrap().status(), 200);
    let end = "Connection: close\r\n\r\n";
    assert_eq!(raw(&own, &format!("GET /tools/bundles HTTP/1.1\r\nHost: localhost\r\n{end}")).await, Some(200));
    assert_eq!(
        raw(&own, &format!("GET /tools/bundles HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n{end}")).await,
        Some(400)
    );
    assert_eq!(raw(&own, &format!("GET /tools/bundles HTTP/1.1\r\n{end}")).await, Some(400));
    assert_eq!(raw(&own, &format!("GET /tools/bundles HTTP/1.1\r\nHost: user@localhost\r\n{end}")).await, Some(400));
}

#[tokio::test]
async fn another_address_needs_tokens() {
    let project = Project::empty();
    let output = project.command(&["serve", "--http", "0.0.0.0:0"]).output().await.unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("no token is configured") && text.contains("server.tokens"), "{text}");
    let short = Project::with("server:\n  tokens: [{token: short, scopes: [admin]}]\n");
    let output = short.command(&["serve", "--http", "0.0.0.0:0"]).output().await.unwrap();
    assert_eq!(output.status.code(), Some(1));
}

const TOKENS: &str = "\
server:
  tokens:
    - {token: reader-reader-reader, scopes: [read]}
    - {token: caller-caller-caller, scopes: [invoke]}
    - {token: admin-admin-admin-admin, scopes: [admin]}
";

#[tokio::test]
async fn a_token_opens_what_its_scopes_say() {
    let upstream = Upstream::start().await;
    let project = project(&upstream, TOKENS);
    let mut server = project.serve_http_at("0.0.0.0:0").await;
    let bundle = format!("/tools/bundles/{}", new_id());
    let invoke = format!("{bundle}/tools/a/version/v1/invoke");
    // The permissions of each: read, write, call (there is nothing to call), MCP.
    for (token, read, write, call, mcp) in [
        (None, 401, 401, 401, 401),
        (Some("nobody-nobody-nobody"), 401, 401, 401, 401),
        (Some("reader-reader-reader"), 200, 403, 403, 403),
        (Some("caller-caller-caller"), 403, 403, 404, 200),
        (Some("admin-admin-admin-admin"), 200, 201, 404, 200),
    ] {
        server.token = token;
        assert_eq!(server.get("/tools/bundles").await.0, read, "{token:?} reads");
        assert_eq!(server.put(&bundle, json!({"slug": "x"})).await.0, write, "{token:?} writes");
        assert_eq!(server.post(&invoke, json!({"args": {}})).await.0, call, "{token:?} calls");
        let hello = server
            .request(Method::POST, "/mcp")
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .body(HELLO);
        assert_eq!(hello.send().await.unwrap().status(), mcp, "{token:?} speaks MCP");
    }
    server.token = Some("caller-caller-caller");
    assert_eq!(server.mcp().await.ok("1 + 1").await, "2");
}

#[tokio::test]
async fn a_token_that_cannot_be_read_opens_to_nobody() {
    let project = Project::with("server:\n  tokens: [{token: '${NO_SUCH_VARIABLE_HERE}', scopes: [admin]}]\n");
    let mut server = project.serve_http().await;
    for token in [None, Some("${NO_SUCH_VARIABLE_HERE}")] {
        server.token = token;
        assert_eq!(server.get("/tools/bundles").await.0, 401);
    }
}

#[tokio::test]
async fn a_browser_that_knows_the_address_alone_finds_the_page() {
    let f = Fixture::start().await;
    let page = f.server.request(Method::GET, "/").send().await.unwrap();
    assert_eq!((page.status().as_u16(), page.url().path()), (200, "/"));
    assert!(page.text().await.unwrap().contains("<title>OneTool</title>"));
}

#[tokio::test]
async fn too_much_is_refused() {
    let upstream = Upstream::start().await;
    let project = project(&upstream, "server: {max_body_bytes: 10000}\n");
    let server = project.serve_http().await;
    let large = json!({"slug": "x", "description": "x".repeat(20_000)});
    let (status, body) = server.put(&format!("/tools/bundles/{}", new_id()), large).await;
    assert_eq!((status, &body["error"]["code"]), (413, &json!("too_large")));
    let large =
        server.request(Method::POST, "/mcp").header("content-type", "application/json").body("x".repeat(50_000));
    let refused = large.header("accept", "application/json, text/event-stream").send().await.unwrap();
    assert_eq!(refused.status().as_u16(), 413);
    let header = "x".repeat(1_000_000);
    let status = raw(&server.base, &format!("GET /docs HTTP/1.1\r\nHost: localhost\r\nX-A: {header}\r\n\r\n")).await;
    assert!(matches!(status, Some(431) | None), "{status:?}");
    assert_eq!(server.get("/tools/bundles").await.0, 200);
}

#[tokio::test]
async fn connections_that_are_kept_for_later_keep_nobody_out() {
    let f = Fixture::start().await;
    let address = f.server.base.strip_prefix("http://").unwrap();
    let mut kept = Vec::new();
    for _ in 0..600 {
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET /tools/bundles HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
        // The answer arrives although the earlier connections are open; they would time out after half a minute.
        let mut head = [0; 12];
        let answered = tokio::time::timeout(std::time::Duration::from_secs(20), stream.read_exact(&mut head)).await;
        answered.expect("a connection is kept out").unwrap();
        assert_eq!(&head, b"HTTP/1.1 200");
        kept.push(stream);
    }
    // Nor do connections that never finish their request.
    for _ in 0..600 {
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET /tools/bundles HTTP/1.1\r\nHost: loc").await.unwrap();
        kept.push(stream);
    }
    let request = f.server.request(Method::GET, "/tools/bundles").timeout(std::time::Duration::from_secs(20));
    assert_eq!(request.send().await.expect("a request is kept out").status(), 200);
    assert_eq!(f.server.get("/tools/bundles").await.0, 200);
}
