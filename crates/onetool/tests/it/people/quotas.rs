//! Quotas of a principal.

use onetool_state_postgres::testing::Server;
use reqwest::Method;
use serde_json::{Value as Json, json};

use super::token;
use crate::client::{HttpServer, PATIENCE, Project, reply};

const SETTINGS: &str = "\
security:
  limits: {calls_per_minute: 1000}
  groups:
    slow: {members: [ana], limits: {calls_per_minute: 3}}
    single: {members: [bob], limits: {runs_at_once: 1}}
    short: {members: [cid], limits: {cpu_seconds_per_day: 1}}
";

#[tokio::test]
async fn a_place_is_free_at_every_server_as_soon_as_a_run_has_ended() {
    let database = tokio::task::spawn_blocking(Server::start).await.unwrap();
    let settings = format!("state: {}\nsecurity: {{limits: {{runs_at_once: 1}}}}\n", database.database("team"));
    let projects = [Project::with(&settings), Project::with(&settings)];
    let ana = token(&projects[0], &["ana"]).await;
    let mut servers = [projects[0].serve_http().await, projects[1].serve_http().await];
    for server in &mut servers {
        server.token = Some(ana);
        let until = tokio::time::Instant::now() + crate::client::PATIENCE;
        while server.get("/readyz").await.0 != 200 {
            assert!(tokio::time::Instant::now() < until, "it is never ready");
        }
    }
    for turn in 0..20 {
        let (status, body) = servers[turn % 2].post("/api/runs", json!({"command": "1"})).await;
        assert_eq!((status, &body["isError"]), (200, &json!(false)), "run {turn}: {body}");
    }
}

#[tokio::test]
async fn a_run_that_was_let_in_waits_for_its_place_when_it_goes_on() {
    let project = Project::with("security: {policy: {file.write: ask}, limits: {runs_at_once: 1}}\n");
    let ana = token(&project, &["ana", "--scope", "admin"]).await;
    let mut server = project.serve_http().await;
    server.token = Some(ana);
    let (status, run) = server.post("/runs", json!({"command": "file.write('a.txt', 'x')\n'written'"})).await;
    assert_eq!(status, 202, "{run}");
    let path = format!("/runs/{}", run["id"].as_str().unwrap());
    let until = tokio::time::Instant::now() + crate::client::PATIENCE;
    let approval = loop {
        let (_, view) = server.get(&path).await;
        if view["status"] == "suspended" {
            break view["approval"].as_str().unwrap().to_owned();
        }
        assert!(tokio::time::Instant::now() < until, "{view}");
    };
    let (status, other) = server.post("/runs", json!({"command": "import time\ntime.sleep(500)"})).await;
    assert_eq!(status, 202, "{other}");
    let until = tokio::time::Instant::now() + crate::client::PATIENCE;
    loop {
        let metrics = server.request(reqwest::Method::GET, "/metrics").send().await.unwrap().text().await.unwrap();
        if metrics.contains("onetool_runs_in_progress 1\n") {
            break;
        }
        assert!(tokio::time::Instant::now() < until, "the place is never taken");
    }
    let decide = server.post(&format!("/api/approvals/{approval}"), json!({"decision": "once"})).await;
    assert_eq!(decide.0, 204, "{}", decide.1);
    let (_, view) = server.get(&format!("{path}?wait=3")).await;
    assert!(["working", "queued"].contains(&view["status"].as_str().unwrap()), "it waits: {view}");
    let cancel = format!("/runs/{}/cancel", other["id"].as_str().unwrap());
    assert_eq!(server.post(&cancel, json!(null)).await.0, 200);
    let (_, view) = server.get(&format!("{path}?wait=60")).await;
    assert_eq!(view["status"], "completed", "{view}");
}

/// Calls `run("'in'")` over MCP with an idempotency key; returns its result.
async fn keyed_call(server: &HttpServer, key: &str) -> Json {
    const ERA: &str = "2026-07-28";
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": ERA,
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({"name": "run", "arguments": {"command": "'in'"}, "_meta": meta});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let request = server.request(Method::POST, "/mcp").header("accept", "application/json, text/event-stream");
    let request = request.header("mcp-protocol-version", ERA).header("mcp-method", "tools/call");
    let request = request.header("mcp-name", "run").header("idempotency-key", key);
    let text = request.json(&body).send().await.unwrap().text().await.unwrap();
    let data = text.lines().find_map(|line| line.strip_prefix("data:")).unwrap_or(&text);
    serde_json::from_str::<Json>(data).unwrap()["result"].clone()
}

#[tokio::test]
async fn a_key_whose_run_was_refused_is_let_in_later() {
    let project = Project::with("security: {limits: {runs_at_once: 1}}\n");
    let ana = token(&project, &["ana"]).await;
    let mut server = project.serve_http().await;
    server.token = Some(ana);
    let (status, first) = server.post("/runs", json!({"command": "import time\ntime.sleep(500)"})).await;
    assert_eq!(status, 202, "{first}");
    let until = tokio::time::Instant::now() + PATIENCE;
    while server.post("/api/runs", json!({"command": "1"})).await.0 != 429 {
        assert!(tokio::time::Instant::now() < until, "the place is never taken");
    }
    let keyed = async |path: &str, key: &str| {
        let request = server.request(Method::POST, path).header("idempotency-key", key);
        reply(request.json(&json!({"command": "'in'"}))).await
    };
    for path in ["/runs", "/api/runs"] {
        let (status, refused) = keyed(path, path).await;
        assert_eq!((status, &refused["error"]["code"]), (429, &json!("rate_limited")), "{refused}");
    }
    let refused = keyed_call(&server, "call").await;
    let text = refused["content"][0]["text"].as_str().unwrap();
    assert!(refused["isError"] == true && text.contains("1 run is under way already"), "{refused}");
    assert_eq!(server.get("/runs").await.1["runs"].as_array().unwrap().len(), 1, "nothing is kept of what was refused");

    let cancel = format!("/runs/{}/cancel", first["id"].as_str().unwrap());
    assert_eq!(server.post(&cancel, json!(null)).await.0, 200);
    let until = tokio::time::Instant::now() + PATIENCE;
    while server.post("/api/runs", json!({"command": "1"})).await.0 == 429 {
        assert!(tokio::time::Instant::now() < until, "there is room again");
    }
    let called = keyed_call(&server, "call").await;
    assert_eq!(called["content"][0]["text"], "in", "{called}");
    let (status, run) = keyed("/api/runs", "/api/runs").await;
    assert_eq!((status, &run["text"]), (200, &json!("in")), "{run}");
    let (status, run) = keyed("/runs", "/runs").await;
    assert_eq!(status, 202, "{run}");
    // An admitted run is found again by its key, even while the quota is exhausted.
    let (status, again) = keyed("/runs", "/runs").await;
    assert_eq!((status, &again["id"]), (200, &run["id"]), "{again}");
}

#[tokio::test]
async fn what_is_used_up_is_refused_with_the_time_to_try_again() {
    let project = Project::with(SETTINGS);
    project.write("x.txt", "text");
    project.write(
        ".onetool/tools/slow/slow_tools.py",
        "import time\n\ndef nap(seconds: float) -> str:\n    time.sleep(seconds)\n    return 'rested'\n",
    );
    let (ana, bob) = (token(&project, &["ana"]).await, token(&project, &["bob"]).await);
    let (cid, eve) = (token(&project, &["cid"]).await, token(&project, &["eve"]).await);
    let mut server = project.serve_http().await;

    server.token = Some(ana);
    let text = server.mcp().await.err("for n in range(10):\n    file.read('x.txt')").await;
    assert!(text.contains("3 calls were made within a minute") && text.contains("try again in"), "{text}");
    let response =
        server.request(reqwest::Method::POST, "/api/tools/file.read/invoke").json(&json!({"args": {"path": "x.txt"}}));
    let response = response.send().await.unwrap();
    assert_eq!(response.status(), 429);
    assert!(response.headers()["retry-after"].to_str().unwrap().parse::<u64>().unwrap() >= 1);
    server.token = Some(eve);
    server.mcp().await.ok("for n in range(10):\n    file.read('x.txt')").await;

    server.token = Some(bob);
    let (status, run) = server.post("/runs", json!({"command": "slow.nap(seconds=60)"})).await;
    assert_eq!(status, 202, "{run}");
    let until = tokio::time::Instant::now() + crate::client::PATIENCE;
    loop {
        let answer = server.mcp().await.run("1").await;
        if answer.is_error {
            assert!(answer.text.contains("1 run is under way already"), "{}", answer.text);
            break;
        }
        assert!(tokio::time::Instant::now() < until);
    }
    let (status, refused) = server.post("/api/runs", json!({"command": "1"})).await;
    assert_eq!((status, &refused["error"]["code"]), (429, &json!("rate_limited")), "{refused}");
    let path = format!("/runs/{}/cancel", run["id"].as_str().unwrap());
    assert_eq!(server.post(&path, json!(null)).await.0, 200);
    let client = server.mcp().await;
    let until = tokio::time::Instant::now() + crate::client::PATIENCE;
    while client.run("1").await.is_error {
        assert!(tokio::time::Instant::now() < until, "there is room again");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }

    server.token = Some(cid);
    let client = server.mcp().await;
    client.ok("import time\nend = time.time() + 1.5\nwhile time.time() < end:\n    pass").await;
    let text = client.err("1").await;
    assert!(text.contains("1 seconds of computing were used within a day"), "{text}");
}
