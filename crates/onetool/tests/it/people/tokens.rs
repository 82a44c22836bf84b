//! Named tokens: created, listed, used, revoked, expired; on the command line, over REST, across servers.

use std::time::Duration;

use onetool_state_postgres::testing::Server;
use reqwest::Method;
use serde_json::{Value as Json, json};

use super::{command, token};
use crate::client::{HttpServer, PATIENCE, Project};

async fn status(server: &HttpServer, method: Method, path: &str, token: &str) -> u16 {
    let request = server.anonymous(method, path).bearer_auth(token).json(&json!({}));
    request.send().await.unwrap().status().as_u16()
}

/// Sends requests until the answer has this status.
async fn until(server: &HttpServer, token: &str, wanted: u16) {
    let end = tokio::time::Instant::now() + PATIENCE;
    while status(server, Method::GET, "/tools/bundles", token).await != wanted {
        assert!(tokio::time::Instant::now() < end, "never {wanted}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_token_is_made_used_listed_and_revoked_on_the_command_line() {
    let project = Project::empty();
    let server = project.serve_http().await;
    assert_eq!(server.get("/tools/bundles").await.0, 200, "nobody needs a token yet");
    let reader = token(&project, &["ana", "--scope", "read", "--expires", "30d"]).await;
    let admin = token(&project, &["root.1", "--scope", "admin", "--group", "a,b"]).await;
    let end = tokio::time::Instant::now() + PATIENCE;
    while server.get("/tools/bundles").await.0 != 401 {
        assert!(tokio::time::Instant::now() < end, "from now on everybody does");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    until(&server, reader, 200).await;
    assert_eq!(status(&server, Method::POST, "/runs", reader).await, 403);
    assert_eq!(status(&server, Method::GET, "/api/tokens", reader).await, 403);
    assert_eq!(status(&server, Method::GET, "/api/tokens", admin).await, 200);

    let again = project.command(&["tokens", "create", "ana"]).output().await.unwrap();
    assert!(!again.status.success());
    let text = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(text.contains("a token named 'ana' already") && text.contains("hint: "), "{text}");
    for bad in [
        &["tokens", "create", "a b"][..],
        &["tokens", "create", "x", "--scope", "root"],
        &["tokens", "create", "x", "--expires", "soon"],
        &["tokens", "revoke", "nobody"],
    ] {
        assert!(!project.command(bad).output().await.unwrap().status.success(), "{bad:?}");
    }
    let listed = command(&project, &["tokens", "list", "--json"]).await;
    assert_eq!(listed[0]["name"], "ana");
    assert_eq!(listed[0]["scopes"], json!(["read"]));
    assert!(listed[0]["expiresAt"].is_string() && listed[1]["expiresAt"].is_null(), "{listed}");
    assert_eq!(listed[1]["groups"], json!(["a", "b"]));
    assert!(!listed.to_string().contains(&reader[8..]), "{listed}");
    let shown = project.command(&["tokens", "list"]).output().await.unwrap();
    assert!(String::from_utf8_lossy(&shown.stdout).contains("ana"));

    let id = listed[0]["id"].as_str().unwrap();
    command(&project, &["tokens", "revoke", id, "--json"]).await;
    until(&server, reader, 401).await;
    assert_eq!(server.get("/tools/bundles").await.0, 401);
    command(&project, &["tokens", "revoke", "root.1", "--json"]).await;
    until(&server, admin, 401).await;
    assert_eq!(server.get("/tools/bundles").await.0, 401, "the last token that goes does not open the server");
    let audited = project.command(&["audit", "search", "--event", "admin", "--json"]).output().await.unwrap();
    let audited = String::from_utf8_lossy(&audited.stdout);
    assert!(audited.contains("onetool tokens create ana") && audited.contains("revoke root.1"), "{audited}");
    // No file contains any part of the tokens.
    let files = walk(project.path());
    assert!(!files.contains(&reader[8..]) && !files.contains(&admin[8..]));
}

fn walk(folder: &std::path::Path) -> String {
    let mut text = String::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            text.push_str(&walk(&path));
        } else if let Ok(bytes) = std::fs::read(&path) {
            text.push_str(&String::from_utf8_lossy(&bytes));
        }
    }
    text
}

#[tokio::test]
async fn tokens_are_managed_over_rest_and_their_use_is_noted() {
    let project = Project::with("server: {tokens: [{token: root-root-root-root, name: root, scopes: [admin]}]}\n");
    let mut server = project.serve_http().await;
    server.token = Some("root-root-root-root");
    let (status, made) =
        server.post("/api/tokens", json!({"name": "ci", "groups": [], "expiresInSeconds": 3600})).await;
    assert_eq!(status, 201, "{made}");
    assert_eq!(made["scopes"], json!(["read", "invoke"]));
    let token: &'static str = made["token"].as_str().unwrap().to_owned().leak();
    assert_eq!(server.post("/api/tokens", json!({"name": "ci"})).await.0, 409);
    for bad in
        [json!({}), json!({"name": "../x"}), json!({"name": "y", "scopes": ["all"]}), json!({"name": "y", "x": 1})]
    {
        assert_eq!(server.post("/api/tokens", bad.clone()).await.0, 400, "{bad}");
    }
    let (_, who) = crate::client::reply(server.anonymous(Method::GET, "/api/session").bearer_auth(token)).await;
    assert_eq!((&who["principal"], &who["scopes"]), (&json!("ci"), &json!(["read", "invoke"])), "{who}");
    let end = tokio::time::Instant::now() + PATIENCE;
    loop {
        let (_, listed) = server.get("/api/tokens").await;
        assert!(!listed.to_string().contains(&token[8..]), "{listed}");
        if listed["tokens"][0]["lastUsedAt"].is_string() {
            break;
        }
        assert!(tokio::time::Instant::now() < end, "{listed}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(server.delete("/api/tokens/ci").await.0, 204);
    assert_eq!(server.delete("/api/tokens/ci").await.0, 404);
    let (status, _) = crate::client::reply(server.anonymous(Method::GET, "/tools/bundles").bearer_auth(token)).await;
    assert_eq!(status, 401);
    let (_, short) = server.post("/api/tokens", json!({"name": "short", "expiresInSeconds": 1})).await;
    until(&server, short["token"].as_str().unwrap(), 401).await;
    let (_, document) = server.get("/openapi.json").await;
    assert!(document["paths"]["/api/tokens"]["post"].is_object());
}

#[tokio::test]
async fn a_server_for_other_machines_starts_with_a_named_token() {
    let project = Project::empty();
    let refused = project.command(&["serve", "--http", "0.0.0.0:0"]).output().await.unwrap();
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && text.contains("onetool tokens create"), "{text}");
    let token = token(&project, &["ana"]).await;
    let mut server = project.serve_http_at("0.0.0.0:0").await;
    assert_eq!(server.get("/tools/bundles").await.0, 401);
    server.token = Some(token);
    assert_eq!(server.get("/tools/bundles").await.0, 200);
    assert_eq!(server.mcp().await.ok("1 + 1").await, "2");
    command(&project, &["tokens", "revoke", "ana", "--json"]).await;
    until(&server, token, 401).await;
    assert_eq!(server.anonymous(Method::GET, "/tools/bundles").send().await.unwrap().status(), 401);
}

#[tokio::test]
async fn a_revocation_reaches_another_server() {
    let database = tokio::task::spawn_blocking(Server::start).await.unwrap();
    let settings = format!("state: {}\n", database.database("people"));
    let projects = [Project::with(&settings), Project::with(&settings)];
    let token = token(&projects[0], &["ana"]).await;
    let other = projects[1].serve_http().await;
    until(&other, token, 200).await;
    command(&projects[0], &["tokens", "revoke", "ana", "--json"]).await;
    until(&other, token, 401).await;
    assert_eq!(command(&projects[1], &["tokens", "list", "--json"]).await, Json::Array(Vec::new()));
}
