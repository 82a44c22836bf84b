//! Replies that are streams of events.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value as Json, json};

use super::Bench;
use crate::client::PATIENCE;

fn chat(url: &str) -> Json {
    json!({"urlTemplate": url, "stream": {"text": "$.choices[0].delta.content", "error": "$.error.message"}, "timeoutMs": 60000})
}

/// Makes a call with an event stream; returns names and data, in order.
async fn events(bench: &Bench, slug: &str) -> Vec<(String, Json)> {
    let request = bench.server.request(Method::POST, &Bench::path(slug)).header("Accept", "text/event-stream");
    let response = request.json(&json!({"args": {}})).send().await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let text = response.text().await.unwrap();
    let field = |block: &str, name: &str| {
        block.lines().find_map(|line| line.strip_prefix(&format!("{name}: "))).map(str::to_owned)
    };
    text.split("\n\n")
        .filter_map(|block| Some((field(block, "event")?, serde_json::from_str(&field(block, "data")?).unwrap())))
        .collect()
}

#[tokio::test]
async fn texts_are_joined_and_forwarded_as_they_come() {
    let bench = Bench::start().await;
    assert_eq!(bench.bundle(Json::Null).await.0, 201);
    bench.tool("chat", chat("UP/sse?pause=0.02")).await;
    let (status, reply) = bench.invoke("chat").await;
    assert_eq!((status, &reply["value"]), (200, &json!("Hello wörld")), "{reply}");
    assert_eq!(reply["meta"]["events"], json!(5));
    let events = events(&bench, "chat").await;
    let (last, progress) = events.split_last().unwrap();
    assert_eq!((last.0.as_str(), &last.1["ok"], &last.1["value"]), ("result", &json!(true), &json!("Hello wörld")));
    assert!(progress.iter().all(|(name, _)| name == "progress"), "{progress:?}");
    let joined: String = progress.iter().map(|(_, data)| data["message"].as_str().unwrap()).collect();
    assert_eq!(joined, "Hello wörld");
    // Also as a function in code.
    let client = bench.server.mcp().await;
    assert_eq!(client.ok("svc.chat()").await, "Hello wörld");
}

#[tokio::test]
async fn lines_of_json_and_other_results() {
    let bench = Bench::start().await;
    assert_eq!(bench.bundle(Json::Null).await.0, 201);
    bench.tool("all", json!({"urlTemplate": "UP/ndjson", "stream": {}})).await;
    bench.tool("numbers", json!({"urlTemplate": "UP/ndjson", "stream": {}, "extractExpr": "$[*].n"})).await;
    bench
        .tool("last", json!({"urlTemplate": "UP/ndjson", "stream": {"result": "last"}, "extractExpr": "$.text"}))
        .await;
    bench
        .tool(
            "word",
            json!({"urlTemplate": "UP/ndjson", "stream": {"text": "$.text"}, "extractExpr": "line (\\d)line"}),
        )
        .await;
    assert_eq!(bench.value("all").await[2], json!({"n": 2, "text": "line 2"}));
    assert_eq!(bench.value("numbers").await, json!([0, 1, 2]));
    assert_eq!(bench.value("last").await, "line 2");
    assert_eq!(bench.value("word").await, "0");
    // An upstream without a stream may send one reply.
    bench.tool("plain", json!({"urlTemplate": "UP/open", "stream": {}, "extractExpr": "$.path"})).await;
    assert_eq!(bench.value("plain").await, "/open");
    for (stream, reason) in [
        (json!({"result": "text"}), "stream.text"),
        (json!({"text": "$["}), "stream.text"),
        (json!({"txt": "$.a"}), "txt"),
        (json!({"done": ""}), "stream.done"),
    ] {
        let (status, reply) = bench.try_tool("bad", json!({"urlTemplate": "UP/sse", "stream": stream})).await;
        assert!(status == 400 && reply["error"]["message"].as_str().unwrap().contains(reason), "{reply}");
    }
}

#[tokio::test]
async fn broken_streams_fail_and_say_how() {
    let bench = Bench::start().await;
    assert_eq!(bench.bundle(Json::Null).await.0, 201);
    bench.tool("cut", chat("UP/sse?cut=1")).await;
    bench.tool("error", chat("UP/sse?error=1")).await;
    bench.tool("html", chat("UP/html")).await;
    let mut unended = chat("UP/sse?open=1");
    unended["stream"]["done"] = json!("[DONE]");
    bench.tool("unended", unended).await;
    bench.tool("open", chat("UP/sse?open=1")).await;
    for (slug, reason) in [
        ("cut", "broke off its stream after 4 events"),
        ("error", "reports in its stream: overloaded"),
        ("html", "answered with text/html"),
        ("unended", "ended its stream without '[DONE]'"),
    ] {
        let (status, reply) = bench.invoke(slug).await;
        assert_eq!(status, 502, "{reply}");
        assert!(reply["error"]["message"].as_str().unwrap().contains(reason), "{reply}");
    }
    assert_eq!(bench.value("open").await, "Hello wörld");
    // Nothing is repeated once a stream has begun.
    assert_eq!(bench.upstream.seen("/sse?cut").await.len(), 1);
    let events = events(&bench, "cut").await;
    let (name, data) = events.last().unwrap();
    assert_eq!(
        (name.as_str(), &data["ok"], &data["error"]["code"]),
        ("error", &json!(false), &json!("upstream")),
        "{data}"
    );
}

#[tokio::test]
async fn events_bytes_silence_and_time_are_limited() {
    let bench =
        Bench::with("max_stream_events: 20, max_stream_bytes: 20000, max_stream_idle: 1, max_stream_time: 3").await;
    assert_eq!(bench.bundle(Json::Null).await.0, 201);
    let endless = |query: &str| json!({"urlTemplate": format!("UP/endless?{query}"), "stream": {}, "timeoutMs": 60000});
    bench.tool("events", endless("pause=0")).await;
    bench.tool("bytes", endless("pause=0&size=5000")).await;
    bench.tool("time", endless("pause=0.5")).await;
    bench.tool("silent", json!({"urlTemplate": "UP/silent", "stream": {}, "timeoutMs": 60000})).await;
    for (slug, status, reason) in [
        ("events", 413, "more than 20 events"),
        ("bytes", 413, "more than 20000 bytes"),
        ("time", 504, "did not end its stream within 3000 ms"),
        ("silent", 504, "sent nothing for 1 s, after 1 events"),
    ] {
        let (got, reply) = bench.invoke(slug).await;
        assert_eq!(got, status, "{reply}");
        assert!(reply["error"]["message"].as_str().unwrap().contains(reason), "{reply}");
        assert!(reply["error"]["hint"].as_str().unwrap().contains("http.max_stream_"), "{reply}");
    }
    gone(&bench, 3).await;
}

#[tokio::test]
async fn a_client_that_goes_away_ends_the_upstreams_work() {
    let bench = Bench::start().await;
    assert_eq!(bench.bundle(Json::Null).await.0, 201);
    bench
        .tool("endless", json!({"urlTemplate": "UP/endless", "stream": {"text": "$.text"}, "timeoutMs": 600000}))
        .await;
    let request = bench.server.request(Method::POST, &Bench::path("endless")).header("Accept", "text/event-stream");
    let mut response = request.json(&json!({"args": {}})).send().await.unwrap();
    let first = response.chunk().await.unwrap().unwrap();
    assert!(String::from_utf8_lossy(&first).contains("event: progress"), "{first:?}");
    drop(response);
    gone(&bench, 1).await;
    // Also when a run is cancelled.
    let client = bench.server.mcp().await;
    let request = rmcp::model::ClientRequest::CallToolRequest(rmcp::model::CallToolRequest::new(crate::client::call(
        "svc.endless()",
    )));
    let options = rmcp::service::PeerRequestOptions::no_options();
    let handle = client.service.send_cancellable_request(request, options).await.unwrap();
    let begun = async || bench.upstream.seen("/endless").await.len() >= 2;
    while !begun().await {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    handle.cancel(Some("enough".to_owned())).await.unwrap();
    gone(&bench, 2).await;
}

/// Waits until the upstream has noticed this number of disconnected clients.
async fn gone(bench: &Bench, count: u64) {
    let until = tokio::time::Instant::now() + PATIENCE;
    while bench.upstream.state().await["gone"].as_u64().unwrap() < count {
        assert!(tokio::time::Instant::now() < until, "the upstream still has its clients");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
