//! Two servers on one PostgreSQL: what one stores, the other has.

use onetool_state_postgres::testing::Server;
use serde_json::json;

use crate::client::{HttpServer, PATIENCE, Project};

/// Asks until the answer has this status.
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
    assert!(body.to_string().contains("the shared state is unavailable"), "{body}");
    assert_eq!(server.get("/healthz").await.0, 200);
    let (status, body) = server.get("/readyz").await;
    assert_eq!((status, &body["reason"]), (503, &json!("the shared state is unavailable")));
    let health = client.ok("str(ot.health())").await;
    assert!(health.contains("the shared state is unavailable"), "{health}");
}
