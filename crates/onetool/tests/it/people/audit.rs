//! The audit log: runs, calls, refusals and changes, on the command line and over REST.

use std::time::Duration;

use onetool_state_postgres::testing::Server;
use serde_json::{Value as Json, json};

use super::token;
use crate::client::{HttpServer, PATIENCE, Project};

/// The lines that `onetool audit` prints.
async fn lines(project: &Project, arguments: &[&str]) -> Vec<Json> {
    let output = project.command(&[&["audit"], arguments].concat()).output().await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

async fn records(server: &HttpServer, query: &str) -> Vec<Json> {
    let (status, body) = server.get(&format!("/api/audit?{query}")).await;
    assert_eq!(status, 200, "{body}");
    body["records"].as_array().unwrap().clone()
}

#[tokio::test]
async fn every_run_call_refusal_and_change_leaves_a_line() {
    let project = Project::with("security: {policy: {file.delete: deny}}\n");
    project.write("x.txt", "text");
    let (ana, root) = (token(&project, &["ana"]).await, token(&project, &["root", "--scope", "admin"]).await);
    let mut server = project.serve_http().await;
    server.token = Some(ana);
    let client = server.mcp().await;
    client.ok("file.read('x.txt')").await;
    client.ok("file.read(path='x.txt')").await;
    client.err("file.delete('x.txt')").await;
    assert_eq!(server.get("/api/audit").await.0, 403);
    server.token = Some("not-a-token-at-all");
    assert_eq!(server.get("/tools/bundles").await.0, 401);
    server.token = Some(root);
    assert_eq!(server.post("/api/tokens", json!({"name": "eve"})).await.0, 201);

    let calls = records(&server, "principal=ana&event=call&tool=file.*").await;
    let seen: Vec<_> =
        calls.iter().map(|call| (call["tool"].as_str().unwrap(), call["outcome"].as_str().unwrap())).collect();
    assert_eq!(seen, [("file.delete", "denied"), ("file.read", "ok"), ("file.read", "ok")], "{calls:?}");
    assert_eq!(calls[1]["argumentsHash"], calls[2]["argumentsHash"], "equal calls have equal hashes");
    assert!(calls[1]["argumentsHash"].as_str().unwrap().len() == 64 && calls[1]["arguments"].is_null());
    assert_eq!((&calls[0]["door"], calls[0]["durationMs"].is_number()), (&json!("mcp"), true));
    assert!(calls[0]["client"].is_string() && calls[0]["run"].is_string(), "{calls:?}");
    assert_eq!(records(&server, "principal=ana&event=run").await.len(), 3);
    let refused = records(&server, "event=auth").await;
    assert!(refused.iter().any(|line| line["error"].as_str().unwrap().contains("not known")), "{refused:?}");
    assert!(refused.iter().any(|line| line["principal"] == "ana" && line["error"].as_str().unwrap().contains("scope")));
    assert!(refused.iter().all(|line| line["address"] == "127.0.0.1"), "{refused:?}");
    let changes = records(&server, "event=admin").await;
    assert_eq!((&changes[0]["principal"], &changes[0]["tool"]), (&json!("root"), &json!("POST /api/tokens")));
    let all = serde_json::to_string(&records(&server, "limit=1000").await).unwrap();
    assert!(!all.contains("not-a-token") && !all.contains(&ana[8..]), "{all}");
    for bad in ["event=x", "outcome=fine", "limit=0", "since=yesterday", "tool=[", "nope=1"] {
        assert_eq!(server.get(&format!("/api/audit?{bad}")).await.0, 400, "{bad}");
    }
    let export = server.request(reqwest::Method::GET, "/api/audit/export?event=call").send().await.unwrap();
    assert_eq!(export.headers()["content-type"], "application/x-ndjson");
    assert_eq!(export.text().await.unwrap().lines().filter(|line| line.contains("file.read")).count(), 2);
    server.stop().await;

    let found =
        lines(&project, &["search", "--principal", "ana", "--outcome", "denied", "--since", "1h", "--json"]).await;
    assert!(found.iter().any(|line| line["tool"] == "file.delete"), "{found:?}");
    let last = lines(&project, &["tail", "-n", "1", "--event", "call", "--json"]).await;
    assert_eq!(last.len(), 1);
    let all = lines(&project, &["export"]).await;
    assert!(all.len() > 8 && all.is_sorted_by_key(|line| line["ts"].as_str().unwrap().to_owned()));
    let shown = project.command(&["audit", "tail"]).output().await.unwrap();
    assert!(String::from_utf8_lossy(&shown.stdout).contains("file.delete"));
}

#[tokio::test]
async fn behind_a_trusted_proxy_the_address_is_the_clients() {
    for (trusted, expected) in [("[127.0.0.0/8]", "203.0.113.9"), ("[192.0.2.0/24]", "127.0.0.1"), ("[]", "127.0.0.1")]
    {
        let project = Project::with(&format!("server: {{trusted_proxies: {trusted}}}\n"));
        let root = token(&project, &["root", "--scope", "admin"]).await;
        let mut server = project.serve_http().await;
        // The client's own claim comes first; the proxy appends the address of its client.
        let told = "198.51.100.1, 203.0.113.9, 127.0.0.2";
        let refused = server.anonymous(reqwest::Method::GET, "/tools/bundles").header("x-forwarded-for", told);
        assert_eq!(refused.send().await.unwrap().status(), 401);
        server.token = Some(root);
        let made = server.request(reqwest::Method::POST, "/api/tokens").header("x-forwarded-for", told);
        assert_eq!(made.json(&json!({"name": "eve"})).send().await.unwrap().status(), 201);
        for event in ["auth", "admin"] {
            let lines = records(&server, &format!("event={event}")).await;
            assert_eq!(lines[0]["address"], expected, "{trusted} {event}: {lines:?}");
        }
        server.stop().await;
    }
}

#[tokio::test]
async fn arguments_are_written_down_only_where_that_is_wanted() {
    for (setting, has_hash, has_arguments) in [("full", true, true), ("off", false, false)] {
        let project = Project::with(&format!("audit: {{arguments: {setting}}}\n"));
        project.write(".onetool/secrets.yaml", "KEY: open-sesame-please\n");
        let command = "ot.notify(topic='x', message='open-sesame-please')";
        project.command(&["run", command]).output().await.unwrap();
        let run = &lines(&project, &["search", "--event", "run", "--json"]).await[0];
        assert_eq!(
            (run["argumentsHash"].is_string(), run["arguments"].is_string()),
            (has_hash, has_arguments),
            "{run}"
        );
        assert!(!run.to_string().contains("open-sesame"), "{run}");
        assert_eq!(run["door"], "local");
    }
    let off = Project::with("audit: {enabled: false}\n");
    off.command(&["run", "1"]).output().await.unwrap();
    assert!(!off.path().join(".onetool/audit").exists());
    assert!(!off.command(&["audit", "tail"]).output().await.unwrap().status.success());
}

#[tokio::test]
async fn what_is_too_old_is_gone() {
    let project = Project::with("audit: {retention: 3600}\n");
    let old = json!({"ts": "2020-01-01T00:00:00Z", "event": "run", "outcome": "ok", "principal": "old"});
    project.write(".onetool/audit/audit.jsonl", &format!("{old}\n").repeat(50));
    assert_eq!(lines(&project, &["export"]).await.len(), 0);
    let server = project.serve_http().await;
    server.mcp().await.ok("1").await;
    let file = project.path().join(".onetool/audit/audit.jsonl");
    crate::client::eventually("the old lines go", || !std::fs::read_to_string(&file).unwrap().contains("2020")).await;
    server.stop().await;
    assert!(!lines(&project, &["export"]).await.is_empty());
}

async fn stopped(mut database: Server) -> Server {
    tokio::task::spawn_blocking(move || {
        database.stop();
        database
    })
    .await
    .unwrap()
}

#[tokio::test]
async fn lines_wait_while_the_database_is_away() {
    let database = tokio::task::spawn_blocking(Server::start).await.unwrap();
    let settings = format!(
        "state: {}\nserver: {{tokens: [{{token: root-root-root-root, name: root, scopes: [admin]}}]}}\n",
        database.database("audit")
    );
    let projects = [Project::with(&settings), Project::with(&settings)];
    let (mut one, mut other) = (projects[0].serve_http().await, projects[1].serve_http().await);
    (one.token, other.token) = (Some("root-root-root-root"), Some("root-root-root-root"));
    let client = one.mcp().await;
    client.ok("'before'").await;
    let until = async |count: usize| {
        let end = tokio::time::Instant::now() + PATIENCE;
        loop {
            let (status, body) = other.get("/api/audit?event=run&principal=root").await;
            if status == 200 && body["records"].as_array().unwrap().len() == count {
                return;
            }
            assert!(tokio::time::Instant::now() < end, "{count}: {body}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    until(1).await;
    let mut database = stopped(database).await;
    client.ok("'meanwhile'").await;
    let _database = tokio::task::spawn_blocking(move || {
        database.restart();
        database
    })
    .await
    .unwrap();
    until(2).await;
}
