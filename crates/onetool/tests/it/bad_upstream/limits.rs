//! Limits of requests and of the store.

use serde_json::{Value as Json, json};

use super::{BUNDLE, Bench};
use crate::client::Project;

#[tokio::test]
async fn bytes_sent_and_received_have_their_limits() {
    let bench = Bench::with("max_sent_bytes: 400, max_response_bytes: 1000").await;
    assert_eq!(bench.bundle(Json::Null).await.0, 201);
    bench.tool("send", json!({"method": "POST", "urlTemplate": "UP/open", "bodyTemplate": "{\"q\": ${q}}"})).await;
    let path = Bench::path("send");
    assert_eq!(bench.server.post(&path, json!({"args": {"q": "x".repeat(100)}})).await.0, 200);
    let (status, reply) = bench.server.post(&path, json!({"args": {"q": "x".repeat(500)}})).await;
    assert!(status == 413 && reply["error"]["hint"].as_str().unwrap().contains("http.max_sent_bytes"), "{reply}");
    bench.tool("small", json!({"urlTemplate": "UP/large?bytes=900"})).await;
    bench.tool("large", json!({"urlTemplate": "UP/large?bytes=1100"})).await;
    assert_eq!(bench.value("small").await.as_str().unwrap().len(), 900);
    let (status, reply) = bench.invoke("large").await;
    assert!(status == 413 && reply["error"]["hint"].as_str().unwrap().contains("http.max_response_bytes"), "{reply}");
}

#[tokio::test]
async fn only_what_may_be_repeated_is_and_retry_after_is_honoured() {
    let bench = Bench::with("retries: 2").await;
    assert_eq!(bench.bundle(Json::Null).await.0, 201);
    let tool = async |slug: &str, method: &str, url: &str, more: Json| {
        let mut http = json!({"method": method, "urlTemplate": url, "timeoutMs": 60000});
        http.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        bench.tool(slug, http).await;
        let started = std::time::Instant::now();
        let (status, reply) = bench.invoke(slug).await;
        (status, reply["meta"]["attempts"].as_u64().unwrap(), started.elapsed().as_secs(), reply)
    };
    let (status, attempts, seconds, reply) = tool("get", "GET", "UP/busy?times=1&after=2", json!({})).await;
    assert!((status, attempts) == (200, 2) && seconds >= 2, "{seconds} {reply}");
    let (status, attempts, _, _) = tool("put", "PUT", "UP/busy?times=2&after=0", json!({})).await;
    assert_eq!((status, attempts), (200, 3));
    let (status, attempts, _, _) = tool("too-often", "GET", "UP/busy?times=3&after=0&x=1", json!({})).await;
    assert_eq!((status, attempts), (502, 3));
    let (status, attempts, _, _) = tool("never", "GET", "UP/busy?times=1&after=0&x=2", json!({"maxRetries": 0})).await;
    assert_eq!((status, attempts), (502, 1));
    let (status, attempts, _, reply) = tool("post", "POST", "UP/busy?times=1&after=3&x=3", json!({})).await;
    assert_eq!((status, attempts), (502, 1));
    assert_eq!(reply["error"]["hint"], "try again in 3 s", "{reply}");
    // A wait that exceeds the call's deadline is not started.
    let (status, attempts, seconds, _) =
        tool("long", "GET", "UP/busy?times=1&after=600", json!({"timeoutMs": 3000})).await;
    assert!((status, attempts) == (502, 1) && seconds < 3, "{status} {attempts} {seconds}");
    // An interrupted reply is requested again, unless that could repeat an effect.
    let (status, attempts, _, _) = tool("cut", "GET", "UP/cut?times=1", json!({})).await;
    assert_eq!((status, attempts), (200, 2));
    let (status, attempts, _, _) = tool("cut-post", "POST", "UP/cut?times=1&x=1", json!({})).await;
    assert_eq!((status, attempts), (502, 1));
    let (status, _, _, _) = tool("slow", "GET", "UP/slow", json!({"timeoutMs": 300})).await;
    assert_eq!(status, 504);
}

#[tokio::test]
async fn bundles_and_their_tools_are_counted() {
    let project = Project::with(
        "http: {allowed_hosts: [127.0.0.1]}\nbundles: {max_bundles: 2, max_tools: 3, max_tools_per_bundle: 2}\n",
    );
    let server = project.serve_http().await;
    let other = BUNDLE.replace("f101", "f102");
    let third = BUNDLE.replace("f101", "f103");
    assert_eq!(server.put(&format!("/tools/bundles/{BUNDLE}"), json!({"slug": "a", "displayName": "A"})).await.0, 201);
    assert_eq!(server.put(&format!("/tools/bundles/{other}"), json!({"slug": "b", "displayName": "B"})).await.0, 201);
    let (status, reply) =
        server.put(&format!("/tools/bundles/{third}"), json!({"slug": "c", "displayName": "C"})).await;
    assert!(status == 413 && reply.to_string().contains("bundles.max_bundles"), "{reply}");
    // Replacing does not count as adding.
    assert_eq!(server.put(&format!("/tools/bundles/{other}"), json!({"slug": "b2", "displayName": "B"})).await.0, 200);
    let body = json!({"type": "http", "impl": {"urlTemplate": "http://127.0.0.1/"}});
    let put = async |bundle: &str, slug: &str| {
        server.put(&format!("/tools/bundles/{bundle}/tools/{slug}/version/v1"), body.clone()).await
    };
    assert_eq!(put(BUNDLE, "a").await.0, 201);
    assert_eq!(put(BUNDLE, "b").await.0, 201);
    let (status, reply) = put(BUNDLE, "c").await;
    assert!(status == 413 && reply.to_string().contains("bundles.max_tools_per_bundle"), "{reply}");
    assert_eq!(put(&other, "a").await.0, 201);
    let (status, reply) = put(&other, "b").await;
    assert!(status == 413 && reply.to_string().contains("bundles.max_tools"), "{reply}");
    assert_eq!(server.delete(&format!("/tools/bundles/{BUNDLE}/tools/a/version/v1")).await.0, 204);
    assert_eq!(put(&other, "b").await.0, 201);
}
