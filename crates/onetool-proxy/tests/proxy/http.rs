//! Servers over HTTP.

use std::sync::Arc;
use std::time::Duration;

use onetool_proxy::{ServerKind, ServerSettings, ServerState};
use onetool_sdk::{ErrorKind, Progress, ProgressSink, ToolSource, Value};
use parking_lot::Mutex;
use serde_json::json;

use crate::calls::Ada;
use crate::fixture::{House, HttpServer, call, call_in, context, status, text, until};

fn settings(server: &HttpServer, path: &str, key: &str) -> ServerSettings {
    let mut settings = ServerSettings::http("web", format!("http://127.0.0.1:{}{path}", server.port));
    if let ServerKind::Http { headers, .. } = &mut settings.kind {
        headers.insert("X-Key".into(), key.into());
    }
    ServerSettings { timeout: Duration::from_secs(10), ..settings }
}

#[derive(Default)]
struct Kept(Mutex<Vec<f64>>);

impl ProgressSink for Kept {
    fn report(&self, progress: Progress) {
        self.0.lock().push(progress.done);
    }
}

#[tokio::test]
async fn streamable_http_works_like_stdio() {
    let house = House::new();
    let server = HttpServer::start("--http");
    let source = house.source(vec![settings(&server, "/mcp", "sesame-open")]);
    let _ = source.settle("web", &context()).await;
    assert_eq!(status(&source, "web").state, ServerState::Connected, "{:?}", source.status());
    assert_eq!(text(&source, "web.echo", json!({"text": "x"})).await, "x");
    assert_eq!(call(&source, "web.add", json!({"a": 1, "b": 2})).await.unwrap(), Value::Int(3));
    let kept = Arc::new(Kept::default());
    let mut ctx = context();
    ctx.progress = kept.clone();
    call_in(&source, "web.steps", json!({"count": 3, "pause": 0}), &ctx).await.unwrap();
    assert_eq!(*kept.0.lock(), [1.0, 2.0, 3.0]);
    source.shutdown().await;
}

#[tokio::test]
async fn a_refused_key_is_told_without_the_key() {
    let house = House::new();
    let server = HttpServer::start("--http");
    let source = house.source(vec![settings(&server, "/mcp?token=hush-hush", "wrong-key")]);
    let _ = source.settle("web", &context()).await;
    let status = status(&source, "web");
    assert_eq!(status.state, ServerState::Disconnected);
    let reason = status.reason.unwrap();
    assert!(reason.contains("403"), "{reason}");
    assert!(!reason.contains("wrong-key") && !reason.contains("hush-hush"), "{reason}");
    source.shutdown().await;
}

#[tokio::test]
async fn a_server_that_disappears_is_told_and_found_again() {
    let house = House::new();
    let mut server = HttpServer::start("--http");
    let source = house.source(vec![settings(&server, "/mcp", "sesame-open")]);
    let _ = source.settle("web", &context()).await;
    server.stop();
    let error = call(&source, "web.echo", json!({"text": "x"})).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(!error.message.contains("rmcp"), "{error}");
    until("it is found out", || status(&source, "web").state == ServerState::Disconnected).await;
    // Meanwhile the client notices that the old connections have ended, as it does over time.
    let port = server.port;
    let _again = tokio::task::spawn_blocking(move || HttpServer::start_on(&["--http"], port)).await.unwrap();
    assert_eq!(text(&source, "web.echo", json!({"text": "x"})).await, "x");
    assert_eq!(source.health(), []);
    source.shutdown().await;
}

#[tokio::test]
async fn cancelling_over_http_returns_at_once() {
    let house = House::new();
    let server = HttpServer::start("--http");
    let source = house.source(vec![settings(&server, "/mcp", "sesame-open")]);
    let _ = source.settle("web", &context()).await;
    let ctx = context();
    let cancel = ctx.cancel.clone();
    let hang = call_in(&source, "web.hang", json!({}), &ctx);
    let (outcome, ()) = tokio::join!(hang, async {
        text(&source, "web.echo", json!({"text": "x"})).await;
        cancel.cancel();
    });
    assert_eq!(outcome.unwrap_err().kind, ErrorKind::Cancelled);
    source.shutdown().await;
}

#[tokio::test]
async fn a_question_beside_the_first_call_is_not_missed() {
    let house = House::new();
    let server = HttpServer::start_on(&["--http", "--mode", "aside"], 0);
    let source = house.source(vec![settings(&server, "/mcp", "sesame-open")]);
    let _ = source.settle("web", &context()).await;
    let mut ctx = context();
    ctx.client = Some(Arc::new(Ada));
    let answer = call_in(&source, "web.ask", json!({}), &ctx).await.unwrap();
    assert_eq!(answer.to_json(), json!({"action": "accept", "content": {"name": "Ada"}}));
    source.shutdown().await;
}

#[tokio::test]
async fn servers_of_the_older_kind_work_too() {
    let house = House::new();
    let server = HttpServer::start("--sse");
    let source = house.source(vec![settings(&server, "/sse", "any")]);
    let _ = source.settle("web", &context()).await;
    assert_eq!(status(&source, "web").state, ServerState::Connected, "{:?}", source.status());
    assert_eq!(text(&source, "web.echo", json!({"text": "x\ny"})).await, "x\ny");
    text(&source, "web.change", json!({"description": "another"})).await;
    until("the new tool is there", || status(&source, "web").tool_count == 22).await;
    source.shutdown().await;
}

#[tokio::test]
async fn an_answer_without_end_fails_its_call_and_no_other() {
    for (flags, path) in
        [(&["--http", "--mode", "json"] as &[&str], "/mcp"), (&["--http"], "/mcp"), (&["--sse"], "/sse")]
    {
        let house = House::new();
        let server = HttpServer::start_on(flags, 0);
        let limited = ServerSettings { max_message_bytes: 1 << 20, ..settings(&server, path, "sesame-open") };
        let source = house.source(vec![limited]);
        let _ = source.settle("web", &context()).await;
        let fits = call(&source, "web.echo", json!({"text": "y".repeat(900 << 10)})).await.unwrap();
        assert!(matches!(fits, Value::Str(text) if text.len() == 900 << 10), "{flags:?}");
        let error = call(&source, "web.large", json!({"kib": 2048})).await.unwrap_err();
        assert!(error.message.contains("more than 1 MiB"), "{flags:?}: {error}");
        assert_eq!(text(&source, "web.echo", json!({"text": "x"})).await, "x", "{flags:?}");
        source.shutdown().await;
    }
}

#[tokio::test]
async fn a_server_that_was_restarted_gets_the_call_that_the_old_one_could_not() {
    let house = House::new();
    let mut server = HttpServer::start("--http");
    let source = house.source(vec![settings(&server, "/mcp", "sesame-open")]);
    let _ = source.settle("web", &context()).await;
    server.stop();
    let _again = HttpServer::start_on(&["--http"], server.port);
    assert_eq!(text(&source, "web.echo", json!({"text": "x"})).await, "x");
    source.shutdown().await;
}
