//! MCP over HTTP with clients that are idle, disconnected, malformed, or of another revision.

use std::time::Duration;

use futures_util::StreamExt as _;
use reqwest::{Method, RequestBuilder, Response};
use serde_json::{Value as Json, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::client::{HttpServer, PATIENCE, Project};

const ERA: &str = "2026-07-28";

fn post(server: &HttpServer, body: &Json) -> RequestBuilder {
    server.request(Method::POST, "/mcp").header("accept", "application/json, text/event-stream").json(body)
}

fn hello(id: u64) -> Json {
    json!({"jsonrpc": "2.0", "id": id, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}})
}

fn run(id: u64, command: &str) -> Json {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {
        "name": "run", "arguments": {"command": command}}})
}

/// The messages of a response, whether it is JSON or a stream of events.
async fn messages(response: Response) -> Vec<Json> {
    let text = tokio::time::timeout(PATIENCE, response.text()).await.expect("an end").unwrap();
    if let Ok(one) = serde_json::from_str(&text) {
        return vec![one];
    }
    text.lines()
        .filter_map(|line| line.strip_prefix("data:"))
        .filter_map(|data| serde_json::from_str(data.trim()).ok())
        .collect()
}

async fn answer(request: RequestBuilder) -> (u16, Json) {
    let response = request.send().await.unwrap();
    let status = response.status().as_u16();
    (status, messages(response).await.pop().unwrap_or_default())
}

fn text(answer: &Json) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"))
}

/// Opens a session of an older revision; returns its id.
async fn open(server: &HttpServer) -> String {
    let response = post(server, &hello(0)).send().await.unwrap();
    assert_eq!(response.status(), 200);
    let id = response.headers()["mcp-session-id"].to_str().unwrap().to_owned();
    response.bytes().await.unwrap();
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(post(server, &ready).header("mcp-session-id", &id).send().await.unwrap().status(), 202);
    id
}

/// An event id on a session's own stream; it begins with the first part of the session's id.
fn event_of(session: &str) -> String {
    format!("{}:common/7", session.split('.').next().unwrap())
}

/// A request of revision 2026-07-28.
fn stateless(server: &HttpServer, method: &str, params: Json, capabilities: Json) -> RequestBuilder {
    let mut params = params;
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": ERA,
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    });
    let name = params["name"].as_str().or(params["uri"].as_str()).map(str::to_owned);
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let request = post(server, &body).header("mcp-protocol-version", ERA).header("mcp-method", method);
    match name {
        Some(name) => request.header("mcp-name", name),
        None => request,
    }
}

fn command(command: &str) -> Json {
    json!({"name": "run", "arguments": {"command": command}})
}

#[tokio::test]
async fn a_session_that_was_idle_for_long_goes_on_and_a_deleted_one_is_over() {
    let project = Project::with("server: {session_idle: 0.2}\n");
    let server = project.serve_http().await;
    let session = open(&server).await;
    let log = || std::fs::read_to_string(project.path().join(".onetool/logs/onetool.log")).unwrap_or_default();
    crate::client::eventually("the idle session ends", || log().contains("an idle session ended")).await;
    let (status, reply) = answer(post(&server, &run(1, "40 + 2")).header("mcp-session-id", &session)).await;
    assert_eq!((status, text(&reply)), (200, "42"));
    let end = server.request(Method::DELETE, "/mcp").header("mcp-session-id", &session).send().await.unwrap();
    assert_eq!(end.status(), 204);
    let (status, reply) = answer(post(&server, &run(2, "1")).header("mcp-session-id", &session)).await;
    assert_eq!((status, &reply["error"]["code"]), (404, &json!(-32001)), "{reply}");
    assert!(reply["error"]["message"].as_str().unwrap().contains("hint: send initialize"), "{reply}");
}

#[tokio::test]
async fn a_session_goes_on_after_its_server_was_restarted_for_its_own_token() {
    let tokens = "server:\n  tokens:\n    - {token: first-first-first-first, scopes: [invoke]}\n    - {token: other-other-other-other, scopes: [invoke]}\n";
    let project = Project::with(tokens);
    let mut server = project.serve_http().await;
    server.token = Some("first-first-first-first");
    let session = open(&server).await;
    let kept = project.path().join(".onetool/runs/sessions");
    let count = || {
        std::fs::read_dir(&kept).map_or(0, |entries| {
            entries.flatten().filter(|entry| entry.path().extension().is_some_and(|kind| kind == "json")).count()
        })
    };
    assert_eq!(count(), 0, "its id says everything");
    server.stop().await;
    let mut server = project.serve_http().await;
    server.token = Some("other-other-other-other");
    assert_eq!(answer(post(&server, &run(1, "1")).header("mcp-session-id", &session)).await.0, 404);
    server.token = Some("first-first-first-first");
    let (status, reply) = answer(post(&server, &run(1, "40 + 2")).header("mcp-session-id", &session)).await;
    assert_eq!((status, text(&reply)), (200, "42"));
    let end = server.request(Method::DELETE, "/mcp").header("mcp-session-id", &session).send().await.unwrap();
    assert_eq!((end.status().as_u16(), count()), (204, 1), "only that it has ended is kept");
    server.stop().await;
    let mut server = project.serve_http().await;
    server.token = Some("first-first-first-first");
    assert_eq!(answer(post(&server, &run(1, "1")).header("mcp-session-id", &session)).await.0, 404);
}

#[tokio::test]
async fn what_a_client_asked_to_hear_of_holds_after_a_restart_of_its_server() {
    let project = Project::with("security: {warned: [ot.version]}\n");
    let kept = project.path().join(".onetool/runs/sessions");
    let count = || std::fs::read_dir(&kept).map_or(0, |files| files.flatten().filter(is_document).count());
    let server = project.serve_http().await;
    let session = open(&server).await;
    let ask = async |server: &HttpServer, method: &str, params: Json| {
        let body = json!({"jsonrpc": "2.0", "id": 5, "method": method, "params": params});
        let (_, reply) = answer(post(server, &body).header("mcp-session-id", &session)).await;
        assert!(reply["result"].is_object(), "{reply}");
    };
    ask(&server, "logging/setLevel", json!({"level": "warning"})).await;
    for uri in ["ot://tools", "ot://tool/file.read"] {
        ask(&server, "resources/subscribe", json!({"uri": uri})).await;
    }
    ask(&server, "resources/unsubscribe", json!({"uri": "ot://tool/file.read"})).await;
    server.stop().await;

    let server = project.serve_http().await;
    let listening = server.request(Method::GET, "/mcp").header("accept", "text/event-stream");
    let response = listening.header("mcp-session-id", &session).send().await.unwrap();
    assert_eq!(response.status(), 200);
    let mut stream = response.bytes_stream();
    let mut heard = String::new();
    let listen = async {
        while !heard.contains("resources/updated") || !heard.contains("notifications/message") {
            heard.push_str(&String::from_utf8_lossy(&stream.next().await.expect("the stream ended").unwrap()));
        }
    };
    let change = async {
        // The state must be read once before a change can be noticed. Every further change counts too.
        for number in 0.. {
            let tools = format!("def f{number}() -> int:\n    return 1\n");
            project.write(&format!(".onetool/tools/p{number}/p{number}_tools.py"), &tools);
            answer(stateless(&server, "tools/call", command("ot.version()"), json!({}))).await;
            tokio::time::sleep(Duration::from_millis(1500)).await;
        }
    };
    tokio::select! {
        heard = tokio::time::timeout(PATIENCE, listen) => heard.expect("what was asked for"),
        () = change => {}
    }
    assert!(heard.contains("ot://tools") && !heard.contains("ot://tool/file.read"), "{heard}");
    drop(stream);
    assert_eq!(count(), 1);
    let end = server.request(Method::DELETE, "/mcp").header("mcp-session-id", &session).send().await.unwrap();
    assert_eq!((end.status().as_u16(), count()), (204, 1), "only that it has ended is kept");
}

fn is_document(file: &std::fs::DirEntry) -> bool {
    file.path().extension().is_some_and(|kind| kind == "json")
}

#[tokio::test]
async fn a_run_that_takes_longer_than_a_session_may_be_idle_is_answered() {
    let project = Project::with("server: {session_idle: 0.2}\n");
    project.write(
        ".onetool/tools/slow/slow_tools.py",
        "import time\n\ndef nap(seconds: float) -> str:\n    time.sleep(seconds)\n    return 'rested'\n",
    );
    let server = project.serve_http().await;
    let session = open(&server).await;
    let (status, reply) =
        answer(post(&server, &run(1, "slow.nap(seconds=1.5)")).header("mcp-session-id", &session)).await;
    assert_eq!((status, text(&reply)), (200, "rested"));
}

#[tokio::test]
async fn abandoned_sessions_lock_nobody_out_and_come_back() {
    let project = Project::with("server: {max_sessions: 4, max_sessions_per_client: 3}\n");
    let server = project.serve_http().await;
    let mut sessions = Vec::new();
    for _ in 0..8 {
        sessions.push(open(&server).await);
    }
    let (status, reply) = answer(stateless(&server, "tools/call", command("1 + 1"), json!({}))).await;
    assert_eq!((status, text(&reply)), (200, "2"));
    for session in &sessions {
        let (status, reply) = answer(post(&server, &run(1, "2 + 2")).header("mcp-session-id", session)).await;
        assert_eq!((status, text(&reply)), (200, "4"));
    }
    // Sessions with an open stream are in use: they are not evicted, and new clients are refused.
    let mut streams = Vec::new();
    for session in sessions.iter().rev().take(3) {
        let listening = server.request(Method::GET, "/mcp").header("accept", "text/event-stream");
        let response = listening.header("mcp-session-id", session).send().await.unwrap();
        assert_eq!(response.status(), 200);
        streams.push(response);
    }
    let refused = post(&server, &hello(9)).send().await.unwrap();
    assert_eq!((refused.status().as_u16(), &refused.headers()["retry-after"]), (503, &"5".parse().unwrap()));
    let (status, reply) = answer(stateless(&server, "tools/call", command("3"), json!({}))).await;
    assert_eq!((status, text(&reply)), (200, "3"), "a request without a session needs no room");
    streams.pop();
    let started = std::time::Instant::now();
    while post(&server, &hello(10)).send().await.unwrap().status() != 200 {
        assert!(started.elapsed() < PATIENCE, "a stream that ended makes room");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_session_belongs_to_the_token_that_opened_it() {
    let tokens = "server:\n  tokens:\n    - {token: first-first-first-first, scopes: [invoke]}\n    - {token: other-other-other-other, scopes: [invoke]}\n";
    let project = Project::with(tokens);
    let mut server = project.serve_http().await;
    server.token = Some("first-first-first-first");
    let session = open(&server).await;
    server.token = Some("other-other-other-other");
    assert_eq!(answer(post(&server, &run(1, "1")).header("mcp-session-id", &session)).await.0, 404);
    let resumed = server.request(Method::GET, "/mcp").header("accept", "text/event-stream");
    let resumed = resumed.header("mcp-protocol-version", ERA).header("last-event-id", event_of(&session));
    assert_eq!(resumed.send().await.unwrap().status(), 404, "nor do its events, in any revision");
    server.token = Some("first-first-first-first");
    assert_eq!(answer(post(&server, &run(1, "1")).header("mcp-session-id", &session)).await.0, 200);
}

#[tokio::test]
async fn an_answer_that_was_missed_is_delivered_after_the_fact_and_while_it_is_made() {
    let project = Project::empty();
    project.write(
        ".onetool/tools/slow/slow_tools.py",
        "import time\n\ndef nap(seconds: float) -> str:\n    time.sleep(seconds)\n    return 'rested'\n",
    );
    let server = project.serve_http().await;
    let session = open(&server).await;
    let request = post(&server, &run(7, "slow.nap(seconds=1)")).header("mcp-session-id", &session);
    let mut stream = request.send().await.unwrap().bytes_stream();
    let first = stream.next().await.unwrap().unwrap();
    let first = String::from_utf8(first.to_vec()).unwrap();
    let last_id = first.lines().find_map(|line| line.strip_prefix("id:")).expect(&first).trim().to_owned();
    drop(stream);
    let resume = || {
        let request = server.request(Method::GET, "/mcp").header("accept", "text/event-stream");
        request.header("mcp-session-id", &session).header("last-event-id", &last_id)
    };
    // The first time the run is still active, the second time it is over.
    for _ in 0..2 {
        let (status, reply) = answer(resume()).await;
        assert_eq!((status, &reply["id"], text(&reply)), (200, &json!(7), "rested"));
    }
}

#[tokio::test]
async fn malformed_bodies_get_json_rpc_errors() {
    let project = Project::empty();
    let server = project.serve_http().await;
    let session = open(&server).await;
    let send = |body: &'static str, kind: &'static str| {
        let request = server.request(Method::POST, "/mcp").header("accept", "application/json, text/event-stream");
        answer(request.header("content-type", kind).header("mcp-session-id", &session).body(body))
    };
    for (body, kind, status, code, id) in [
        ("{nope", "application/json", 400, -32700, json!(null)),
        ("", "application/json", 400, -32700, json!(null)),
        ("[]", "application/json", 400, -32600, json!(null)),
        ("{}", "application/json", 400, -32600, json!(null)),
        (r#"{"jsonrpc":"2.0","id":8,"method":"tools/call","params":[1]}"#, "application/json", 400, -32600, json!(8)),
        (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, "application/json", 400, -32600, json!(1.5)),
        (r#"{"jsonrpc":"2.0","id":3,"method":"ping"}"#, "text/plain", 415, -32600, json!(3)),
    ] {
        let (found, reply) = send(body, kind).await;
        assert_eq!((found, &reply["error"]["code"], &reply["id"]), (status, &json!(code), &id), "{body}: {reply}");
    }
    let lone =
        r#"{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"run","arguments":{"command":"'\ud800'"}}}"#;
    assert_eq!(send(lone, "application/json").await.0, 200, "half a surrogate pair is understood as on standard input");
    let missing =
        json!({"jsonrpc": "2.0", "id": 5, "method": "resources/read", "params": {"uri": "ot://tool/no.such"}});
    let (_, reply) = answer(post(&server, &missing).header("mcp-session-id", &session)).await;
    assert_eq!(
        (&reply["error"]["code"], &reply["error"]["data"]["uri"]),
        (&json!(-32002), &json!("ot://tool/no.such"))
    );
}

#[tokio::test]
async fn what_the_new_revision_removed_is_not_found_there() {
    let project = Project::empty();
    let server = project.serve_http().await;
    for (method, params) in [
        ("ping", json!({})),
        ("logging/setLevel", json!({"level": "info"})),
        ("resources/subscribe", json!({"uri": "ot://tools"})),
        // With any parameters.
        ("initialize", json!({})),
        ("logging/setLevel", json!({})),
        ("resources/unsubscribe", json!({})),
        ("no/such", json!({})),
    ] {
        let (status, reply) = answer(stateless(&server, method, params, json!({}))).await;
        assert_eq!((status, &reply["error"]["code"]), (404, &json!(-32601)), "{method}: {reply}");
    }
    let (_, reply) = answer(stateless(&server, "resources/read", json!({"uri": "ot://x"}), json!({}))).await;
    assert_eq!(
        (&reply["error"]["code"], &reply["error"]["data"]["uri"]),
        (&json!(-32602), &json!("ot://x")),
        "{reply}"
    );
}

/// Sends one request on an open connection; returns the status and whether the connection closes.
async fn exchange(stream: &mut tokio::net::TcpStream, request: &[u8]) -> (u16, bool) {
    stream.write_all(request).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(tokio::time::timeout(PATIENCE, stream.read_u8()).await.expect("an answer").unwrap());
    }
    let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).map_or(0, |n| n.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), head.contains("connection: close"))
}

#[tokio::test]
async fn a_refusal_leaves_the_connection_usable_or_announces_its_end() {
    let project = Project::with("server: {max_body_bytes: 10000}\n");
    let server = project.serve_http().await;
    let address = server.base.strip_prefix("http://").unwrap();
    let request = |path: &str, extra: &str, length: usize| {
        let head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\n{extra}Content-Length: {length}\r\n\r\n");
        [head.as_bytes(), &vec![b'x'; length]].concat()
    };
    let follow_up = b"GET /tools/bundles HTTP/1.1\r\nHost: localhost\r\n\r\n";
    for (path, extra, expected) in [
        ("/nowhere", "", 404),
        ("/docs", "", 405),
        ("/mcp", "Origin: http://evil.example.com\r\n", 403),
        ("/mcp", "Content-Type: application/json\r\n", 413),
    ] {
        for length in [20_000, 200_000] {
            let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
            assert_eq!(exchange(&mut stream, &request(path, extra, length)).await, (expected, false), "{path}");
            assert_eq!(exchange(&mut stream, follow_up).await, (200, false), "after {path}");
        }
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\n{extra}Content-Length: 9000000\r\n\r\n");
        assert_eq!(exchange(&mut stream, head.as_bytes()).await, (expected, true), "{path} announces the end");
    }
}

const ASKING: &str = "security: {policy: {file.write: ask}}\n";

#[tokio::test]
async fn a_client_of_the_new_revision_is_asked_by_a_result_and_its_state_holds_once() {
    let project = Project::with(ASKING);
    let server = project.serve_http().await;
    let code = "file.write('a.txt', 'x'); file.write('b.txt', 'y'); 'done'";
    let call = |state: Option<&str>, responses: Json| {
        let mut params = command(code);
        if let Some(state) = state {
            params["requestState"] = json!(state);
            params["inputResponses"] = responses;
        }
        answer(stateless(&server, "tools/call", params, json!({"elicitation": {}})))
    };
    let (status, first) = call(None, json!({})).await;
    assert_eq!((status, &first["result"]["resultType"]), (200, &json!("input_required")), "{first}");
    let requests = first["result"]["inputRequests"].as_object().unwrap();
    let (key, question) = requests.iter().next().unwrap();
    assert_eq!(question["method"], "elicitation/create");
    assert!(question["params"]["message"].as_str().unwrap().contains("file.write"), "{question}");
    let state = first["result"]["requestState"].as_str().unwrap();
    let yes = |key: &str| json!({key: {"action": "accept", "content": {"allow": true}}});

    let other = if state.ends_with('A') { 'E' } else { 'A' };
    let forged = format!("{}{other}", &state[..state.len() - 1]);
    let (_, refused) = call(Some(&forged), yes(key)).await;
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    let (_, second) = call(Some(state), yes(key)).await;
    assert_eq!(second["result"]["resultType"], "input_required", "the second call asks too: {second}");
    let (_, again) = call(Some(state), yes(key)).await;
    assert_eq!(again["error"]["code"], -32602, "a state holds once: {again}");
    let key = second["result"]["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    let state = second["result"]["requestState"].as_str().unwrap();
    let (_, last) = call(Some(state), yes(&key)).await;
    assert_eq!(text(&last), "done", "{last}");
    assert_eq!(std::fs::read_to_string(project.path().join("b.txt")).unwrap(), "y");
}

#[tokio::test]
async fn a_refusal_of_the_user_and_a_client_that_cannot_ask_are_told_apart() {
    let project = Project::with(ASKING);
    let server = project.serve_http().await;
    let code = command("file.write('a.txt', 'x')");
    let (_, reply) = answer(stateless(&server, "tools/call", code.clone(), json!({}))).await;
    assert!(text(&reply).contains("onetool approve") && !text(&reply).contains("declined"), "{reply}");
    let (_, asked) = answer(stateless(&server, "tools/call", code.clone(), json!({"elicitation": {}}))).await;
    let key = asked["result"]["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    let mut retry = code;
    retry["requestState"] = asked["result"]["requestState"].clone();
    retry["inputResponses"] = json!({key: {"action": "decline"}});
    let (_, reply) = answer(stateless(&server, "tools/call", retry, json!({"elicitation": {}}))).await;
    assert!(text(&reply).contains("the user declined"), "{reply}");
    assert!(!project.path().join("a.txt").exists());
}

#[tokio::test]
async fn a_log_level_holds_for_its_own_request() {
    let project = Project::empty();
    let server = project.serve_http().await;
    let mut params = command("1");
    params["_meta"] = json!({});
    let request = |level: Option<&str>| {
        let mut meta = json!({
            "io.modelcontextprotocol/protocolVersion": ERA,
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        if let Some(level) = level {
            meta["io.modelcontextprotocol/logLevel"] = json!(level);
        }
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params":
            {"name": "run", "arguments": {"command": "1"}, "_meta": meta}});
        post(&server, &body)
            .header("mcp-protocol-version", ERA)
            .header("mcp-method", "tools/call")
            .header("mcp-name", "run")
    };
    let logged = |messages: &[Json]| messages.iter().filter(|one| one["method"] == "notifications/message").count();
    let with = messages(request(Some("debug")).send().await.unwrap()).await;
    assert!(logged(&with) > 0, "{with:?}");
    assert_eq!(text(with.last().unwrap()), "1");
    let without = messages(request(None).send().await.unwrap()).await;
    assert_eq!(logged(&without), 0, "{without:?}");
}

#[tokio::test]
async fn a_call_may_ask_for_a_structured_value_and_for_a_shorter_result() {
    let project = Project::empty();
    let server = project.serve_http().await;
    let session = open(&server).await;
    let call = async |command: &str, meta: Json| {
        let mut body = run(1, command);
        body["params"]["_meta"] = meta;
        answer(post(&server, &body).header("mcp-session-id", &session)).await.1["result"].clone()
    };
    let plain = call("{'a': [1, 2]}", json!({})).await;
    assert_eq!(
        (&plain["content"][0]["text"], plain.get("structuredContent")),
        (&json!("{\"a\":[1,2]}"), None),
        "{plain}"
    );
    let wanted = json!({"onetool/structuredContent": true});
    let structured = call("{'a': [1, 2]}", wanted.clone()).await;
    assert_eq!((&structured["structuredContent"], &structured["content"]), (&json!({"a": [1, 2]}), &json!([])));
    assert_eq!(call("[1, None]", wanted.clone()).await["structuredContent"], json!({"result": [1, null]}));
    assert_eq!(call("1 / 0", wanted).await["isError"], true, "an error stays a text");

    let short = json!({"anthropic/maxResultSizeChars": 100});
    let stored = call("'x' * 1000", short.clone()).await;
    assert!(stored["content"][0]["text"].as_str().unwrap().contains("handle"), "{stored}");
    assert_eq!(call("'x' * 50", short).await["content"][0]["text"], "x".repeat(50));
    let large = call("'x' * 60000", json!({"anthropic/maxResultSizeChars": 1_000_000})).await;
    assert!(large["content"][0]["text"].as_str().unwrap().contains("handle"), "our own limit holds: {large}");
}

/// Plain calls bypass the library's transport, without any visible difference.
#[tokio::test]
async fn a_plain_call_is_answered_as_the_library_answers_it() {
    let project = Project::with("");
    let server = project.serve_http().await;
    let asks = json!({"elicitation": {}});
    for (params, capabilities) in [
        (command("1 + 1"), json!({})),
        (command("print('é')"), json!({})),
        (command("1 / 0"), json!({})),
        (command("undefined_name"), asks),
        (json!({"name": "run", "arguments": {}}), json!({})),
        (json!({"name": "run", "arguments": {"command": 1}}), json!({})),
        (json!({"name": "other", "arguments": {"command": "1"}}), json!({})),
    ] {
        let plain = stateless(&server, "tools/call", params.clone(), capabilities.clone());
        // A duplicate header makes the request take the library's path.
        let library = stateless(&server, "tools/call", params.clone(), capabilities.clone())
            .header("content-type", "application/json");
        assert_eq!(answer(plain).await, answer(library).await, "{params}");
    }
}

#[tokio::test]
async fn a_client_that_leaves_cancels_its_plain_call() {
    let project = Project::with("");
    let server = project.serve_http().await;
    let request = stateless(&server, "tools/call", command("while True: pass"), json!({}));
    assert!(tokio::time::timeout(Duration::from_millis(500), request.send()).await.is_err());
    let log = || std::fs::read_to_string(project.path().join(".onetool/logs/onetool.log")).unwrap_or_default();
    crate::client::eventually("the run ends", || log().contains("\"outcome\":\"error\"")).await;
}
