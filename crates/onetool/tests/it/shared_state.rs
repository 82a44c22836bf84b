//! Two servers with one PostgreSQL database: data stored by one is available to the other.

use onetool_state_postgres::testing::Server;
use serde_json::json;

use crate::client::{HttpServer, PATIENCE, Project};

/// Sends requests until the answer has this status.
async fn eventually(server: &HttpServer, path: &str, wanted: u16) {
    let until = tokio::time::Instant::now() + PATIENCE;
    loop {
        let (status, body) = server.get(path).await;
        if status == wanted {
            return;
        }
        assert!(tokio::time::Instant::now() < until, "{path}: {status} {body}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn two_servers_share_bundles_and_results() {
    let database = tokio::task::spawn_blocking(Server::start).await.unwrap();
    let address = database.database("team");
    let settings = format!("state: {address}\n");
    let projects = [Project::with(&settings), Project::with(&settings)];
    let (one, other) = (projects[0].serve_http().await, projects[1].serve_http().await);

    for server in [&one, &other] {
        eventually(server, "/readyz", 200).await;
    }
    let bundle = format!("/tools/bundles/{}", uuid::Uuid::now_v7());
    let (status, body) = one.put(&bundle, json!({"slug": "shared"})).await;
    assert_eq!(status, 201, "{body}");
    eventually(&other, &bundle, 200).await;

    let stored = one.mcp().await.ok("'\\n'.join(str(n) for n in range(20000))").await;
    let summary: serde_json::Value = serde_json::from_str(&stored).unwrap();
    let handle = summary["handle"].as_str().unwrap();
    let page = other.mcp().await.ok(&format!("ot.result(handle='{handle}', offset=20000)['lines']")).await;
    assert_eq!(page, "[\"19999\"]");
    for project in &projects {
        assert!(!project.path().join(".onetool/bundles").exists(), "nothing of it is in files");
        assert!(!project.path().join(".onetool/tmp").exists());
    }
}

#[tokio::test]
async fn without_its_database_a_server_runs_code_and_says_what_is_missing() {
    let project = Project::with("state: postgres://nobody@127.0.0.1:1/none\n");
    let server = project.serve_http().await;
    let client = server.mcp().await;
    assert_eq!(client.ok("1 + 1").await, "2");
    let (status, body) = server.put(&format!("/tools/bundles/{}", uuid::Uuid::now_v7()), json!({"slug": "x"})).await;
    assert_eq!(status, 503, "{body}");
    let error = &body["error"];
    assert!(error["message"].as_str().unwrap().starts_with("the shared state is unavailable"), "{body}");
    assert!(error["hint"].as_str().unwrap().contains("database"), "{body}");
    assert_eq!(server.get("/api/stats").await.0, 503);
    assert_eq!(server.get("/healthz").await.0, 200);
    let (status, body) = server.get("/readyz?state=optional").await;
    assert_eq!((status, &body["status"]), (200, &json!("degraded")), "{body}");
    let (status, body) = server.get("/readyz").await;
    assert_eq!((status, &body["reason"]), (503, &json!("the shared state is unavailable")));
    let health = client.ok("str(ot.health())").await;
    assert!(health.contains("the shared state is unavailable"), "{health}");
}

#[tokio::test]
async fn the_database_goes_and_comes_back_and_nothing_needs_a_restart() {
    let mut database = tokio::task::spawn_blocking(Server::start).await.unwrap();
    let address = database.database("team");
    let project = Project::with(&format!("state: {address}\nstats: {{flush_interval: 0.2}}\n"));
    let server = project.serve_http().await;
    eventually(&server, "/readyz", 200).await;
    let bundle = format!("/tools/bundles/{}", uuid::Uuid::now_v7());
    assert_eq!(server.put(&bundle, json!({"slug": "kept"})).await.0, 201);
    let client = server.mcp().await;
    let stored: serde_json::Value =
        serde_json::from_str(&client.ok("'\\n'.join(str(n) for n in range(20000))").await).unwrap();
    let handle = stored["handle"].as_str().unwrap().to_owned();
    assert!(metric(&server, "onetool_state_pool_connections{state=\"open\"}").await >= 1.0);

    database = tokio::task::spawn_blocking(move || {
        database.stop();
        database
    })
    .await
    .unwrap();
    eventually(&server, "/readyz", 503).await;
    // Operations without shared state continue to work, and so do cached ones.
    assert_eq!(client.ok("6 * 7").await, "42");
    assert_eq!(client.ok("file.write('a.txt', 'x') and 1").await, "1");
    assert_eq!(server.get(&bundle).await.0, 200);
    // The others report it within seconds.
    let (status, body) = server.put(&format!("/tools/bundles/{}", uuid::Uuid::now_v7()), json!({"slug": "new"})).await;
    assert_eq!(status, 503, "{body}");
    assert!(body.to_string().contains("the shared state is unavailable"), "{body}");
    let cut = client.run("'\\n'.join(str(n) for n in range(30000))").await;
    assert!(!cut.is_error && !cut.text.contains("handle\":"), "{:.300}", cut.text);
    let said = client.err(&format!("ot.result(handle='{handle}')")).await;
    assert!(said.contains("unavailable"), "{said}");
    assert!(client.ok("str(ot.health())").await.contains("the shared state is unavailable"));
    assert_eq!(metric(&server, "onetool_state_up").await, 0.0);

    let database = tokio::task::spawn_blocking(move || {
        database.restart();
        database
    })
    .await
    .unwrap();
    eventually(&server, "/readyz", 200).await;
    assert_eq!(server.put(&format!("/tools/bundles/{}", uuid::Uuid::now_v7()), json!({"slug": "new"})).await.0, 201);
    assert_eq!(client.ok(&format!("ot.result(handle='{handle}', offset=20000)['lines']")).await, "[\"19999\"]");
    // Pending statistics are written now.
    let until = tokio::time::Instant::now() + PATIENCE;
    loop {
        let stats = client.ok("str(ot.stats())").await;
        if stats.contains("file.write") {
            break;
        }
        assert!(tokio::time::Instant::now() < until, "{stats}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    drop(database);
}

async fn metric(server: &HttpServer, name: &str) -> f64 {
    let text = server.request(reqwest::Method::GET, "/metrics").send().await.unwrap().text().await.unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("no {name} in {text}"));
    line.trim().parse().unwrap()
}

#[tokio::test]
async fn two_servers_share_switches_saved_code_plans_shapes_and_rate_limits() {
    const TOOL: &str = "def one() -> int:\n    return 1\n\ndef rows() -> list:\n    return [{'id': 1, 'name': 'x'}]\n";
    let database = tokio::task::spawn_blocking(Server::start).await.unwrap();
    let address = database.database("team");
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let api = format!("http://{}", listener.local_addr().unwrap());
    let app = axum::Router::new().route("/", axum::routing::get(|| async { "[1]" }));
    tokio::spawn(async move { axum::serve(listener, app).await });
    let settings = format!("state: {address}\nhttp: {{allowed_hosts: ['{api}']}}\n");
    let projects = [Project::with(&settings), Project::with(&settings)];
    for project in &projects {
        project.write(".onetool/tools/mine/mine_tools.py", TOOL);
    }
    let (one, other) = (projects[0].serve_http().await, projects[1].serve_http().await);
    for server in [&one, &other] {
        eventually(server, "/readyz", 200).await;
    }
    let clients = [one.mcp().await, other.mcp().await];

    // A tool that is disabled here is disabled there.
    assert_eq!(clients[1].ok("mine.one()").await, "1");
    let (status, body) = one.patch("/api/tools/mine.one", json!({"isEnabled": false})).await;
    assert!(status < 300, "{status} {body}");
    let until = tokio::time::Instant::now() + PATIENCE;
    while !clients[1].run("mine.one()").await.is_error {
        assert!(tokio::time::Instant::now() < until, "the switch never arrives");
    }

    // Saved code, plans, and shapes of results.
    clients[0].ok("n = 2\not.save('doubled', 'Twice a number', parameters=['n'])\nn * 2").await;
    let until = tokio::time::Instant::now() + PATIENCE;
    while clients[1].run("saved.doubled(n=4)").await.text != "8" {
        assert!(tokio::time::Instant::now() < until, "{}", clients[1].run("saved.doubled(n=4)").await.text);
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    clients[0].ok("mine.rows()\nmine.rows()").await;
    let until = tokio::time::Instant::now() + PATIENCE;
    while !clients[1].run("str(ot.help('mine.rows'))").await.text.contains("name") {
        assert!(tokio::time::Instant::now() < until, "what was learned never arrives");
        clients[1].ok("mine.rows()\nmine.rows()").await;
    }

    // One limit for both servers.
    let bundle = format!("/tools/bundles/{}", uuid::Uuid::now_v7());
    assert_eq!(one.put(&bundle, json!({"slug": "api"})).await.0, 201);
    let tool = json!({"type": "http", "description": "Asks", "argSchema": {"type": "object"}, "maxCallsPerMinute": 10,
        "impl": {"urlTemplate": format!("{api}/")}});
    let (status, body) = one.put(&format!("{bundle}/tools/ask/version/v1"), tool).await;
    assert_eq!(status, 201, "{body}");
    eventually(&other, &format!("{bundle}/tools/ask/version/v1"), 200).await;
    let mut granted = 0;
    for round in 0..24 {
        let server = [&one, &other][round % 2];
        let (status, body) = server.post(&format!("{bundle}/tools/ask/version/v1/invoke"), json!({"args": {}})).await;
        match status {
            200 => granted += 1,
            429 => assert!(body.to_string().contains("10 times a minute"), "{body}"),
            _ => panic!("{status} {body}"),
        }
    }
    // One token is added every six seconds.
    assert!((10..=16).contains(&granted), "{granted}");
}
