//! Bundles as packs: tools stored over REST are called by `run`, over HTTP and over standard input and output.

use serde_json::json;

use super::{Fixture, SECRET, eventually, tool_path};

#[tokio::test]
async fn what_is_stored_is_callable_at_once_by_http_and_by_stdio() {
    let f = Fixture::start().await;
    let (http, stdio) = (f.server.mcp().await, f.project.serve().await);
    for client in [&http, &stdio] {
        assert!(client.err("weather_now.in_town(city='Oslo')").await.contains("NameError"));
    }
    let bundle = f.bundle("weather-now").await;
    let mut body = f.get("/in/${city}?k=${API_KEY}");
    body["impl"]["extractExpr"] = json!("$.uri");
    f.tool(&bundle, "in-town", "v1", body).await;
    assert!(!http.run("weather_now.in_town(city='Oslo')").await.is_error, "at once where it was stored");
    eventually(&stdio, "weather_now.in_town(city='Oslo')", |answer| !answer.is_error).await;
    for client in [&http, &stdio] {
        assert_eq!(client.ok("weather_now.in_town(city='São')").await, "/in/S%C3%A3o?k=[REDACTED]");
        assert_eq!(client.ok("weather_now.in_town('Oslo')").await, "/in/Oslo?k=[REDACTED]");
        let wrong = client.err("weather_now.in_town(town='Oslo')").await;
        assert!(wrong.contains("city"), "the signature is shown: {wrong}");
        assert!(client.ok("ot.tools(pattern='weather_now')").await.contains("weather_now.in_town"));
    }
    let sent = f.upstream.seen.lock().pop().unwrap();
    assert_eq!(sent["uri"], format!("/in/Oslo?k={SECRET}"));
}

#[tokio::test]
async fn the_newest_version_answers_and_another_can_be_picked() {
    let f = Fixture::start().await;
    let client = f.server.mcp().await;
    let bundle = f.bundle("own").await;
    for version in ["v1", "v2"] {
        let mut body = f.get(&format!("/{version}"));
        body["impl"]["extractExpr"] = json!("$.uri");
        f.tool(&bundle, "which", version, body).await;
    }
    assert_eq!(client.ok("own.which()").await, "/v2");
    assert_eq!(client.ok("own.which(_version='v1')").await, "/v1");
    for version in ["v1", "v2"] {
        let (status, body) = f.invoke(&tool_path(&bundle, "which", version), json!({})).await;
        assert_eq!((status, &body["value"]), (200, &json!(format!("/{version}"))), "{body}");
    }
    assert_eq!(f.server.patch(&tool_path(&bundle, "which", "v2"), json!({"isEnabled": false})).await.0, 200);
    assert_eq!(client.ok("own.which()").await, "/v1");
    assert_eq!(f.server.patch(&bundle, json!({"isEnabled": false})).await.0, 200);
    let off = client.err("own.which()").await;
    assert!(off.contains("NameError") && off.contains("the bundle 'own' is switched off"), "{off}");
    let file = f.built_in("file").await;
    assert_eq!(f.server.patch(&file, json!({"isEnabled": false})).await.0, 200);
    let off = client.err("file.list()").await;
    assert!(off.contains("the bundle 'file' is switched off"), "{off}");
}

#[tokio::test]
async fn a_native_tool_that_is_switched_off_is_gone_from_runs() {
    let f = Fixture::start().await;
    let (http, stdio) = (f.server.mcp().await, f.project.serve().await);
    let bundle = f.built_in("file").await;
    let write = tool_path(&bundle, "write", "v1");
    http.ok("file.write('a.txt', 'one')").await;
    assert_eq!(f.server.patch(&write, json!({"isEnabled": false})).await.0, 200);
    assert!(http.run("file.write('b.txt', 'two')").await.is_error, "at once where it was switched");
    eventually(&stdio, "'file.write' in str(ot.tools())", |answer| answer.text == "False").await;
    for client in [&http, &stdio] {
        let refused = client.err("file.write('b.txt', 'two')").await;
        assert!(refused.contains("has no function 'write'") || refused.contains("no attribute 'write'"), "{refused}");
        assert!(!client.ok("ot.tools(pattern='file.')").await.contains("file.write"));
        assert!(client.ok("file.read('a.txt')").await.contains("one"));
    }
    assert!(!f.project.path().join("b.txt").exists());
    assert_eq!(f.server.patch(&write, json!({"isEnabled": true})).await.0, 200);
    http.ok("file.write('b.txt', 'two')").await;
}
