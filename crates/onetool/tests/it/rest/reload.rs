//! A reload takes effect for HTTP too.

use serde_json::json;

use super::{Fixture, Upstream, new_id, project, tool_path};

#[tokio::test]
async fn hosts_that_are_allowed_by_a_reload_count_for_new_tools_and_calls() {
    let f = Fixture::start().await;
    let client = f.server.mcp().await;
    let bundle = f.bundle("weather").await;
    let other = Upstream::start().await;
    let mut body = f.get("/");
    body["impl"] = json!({"urlTemplate": format!("{}/moved", other.base), "extractExpr": "$.uri"});
    let path = tool_path(&bundle, "now", "v1");
    assert_eq!(f.server.put(&path, body.clone()).await.0, 400);
    f.project.write(".onetool/onetool.yaml", &format!("http:\n  allowed_hosts: ['{}']\n", other.base));
    client.ok("ot.reload()").await;
    let (status, stored) = f.server.put(&path, body).await;
    assert_eq!(status, 201, "{stored}");
    assert_eq!(f.invoke(&path, json!({})).await.1["value"], "/moved");
    assert_eq!(client.ok("weather.now()").await, "/moved", "the session is still there");
}

#[tokio::test]
async fn tokens_change_with_a_reload_and_a_bad_one_keeps_the_old() {
    let upstream = Upstream::start().await;
    let tokens = |token: &str| format!("server:\n  tokens: [{{token: {token}, scopes: [admin]}}]\n");
    let project = project(&upstream, &tokens("first-first-first-1"));
    let mut server = project.serve_http().await;
    server.token = Some("first-first-first-1");
    let client = server.mcp().await;
    project.write(".onetool/onetool.yaml", &tokens("short"));
    client.ok("ot.reload()").await;
    assert_eq!(server.get("/tools/bundles").await.0, 200, "the old one still counts");
    project.write(".onetool/onetool.yaml", &tokens("second-second-second"));
    client.ok("ot.reload()").await;
    assert_eq!(server.get("/tools/bundles").await.0, 401);
    server.token = Some("second-second-second");
    assert_eq!(server.put(&format!("/tools/bundles/{}", new_id()), json!({"slug": "x"})).await.0, 201);
}
