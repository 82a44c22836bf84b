//! Tools that answer later, called like any other.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use onetool_proxy::ProxySource;
use onetool_sdk::{ClientBridge, ErrorKind, Progress, ProgressSink, ToolError, ToolSource as _};
use parking_lot::Mutex;
use serde_json::{Value as Json, json};

use crate::fixture::{House, call, call_in, connected, context, text};

#[expect(clippy::unwrap_used, reason = "an answer that is not JSON is a test that fails")]
async fn statuses(source: &ProxySource) -> Vec<Json> {
    let tasks: Vec<Json> = serde_json::from_str(&text(source, "fixture.tasks", json!({})).await).unwrap();
    tasks.iter().map(|task| task["status"].clone()).collect()
}

#[derive(Default)]
struct Told(Mutex<Vec<String>>);

impl ProgressSink for Told {
    fn report(&self, progress: Progress) {
        self.0.lock().extend(progress.message);
    }
}

#[tokio::test]
async fn what_a_task_gives_is_what_the_call_gives() {
    let house = House::new();
    let source = connected(&house, &[]).await;
    let told = Arc::new(Told::default());
    let mut ctx = context();
    ctx.progress = told.clone();
    let answer = call_in(&source, "fixture.later", json!({"what": "bread"}), &ctx).await.unwrap();
    assert_eq!(answer.as_str(), Some("bread, later"));
    assert_eq!(told.0.lock()[..3], ["look 0", "look 1", "look 2"]);
    let error = call(&source, "fixture.later", json!({"what": "stop"})).await.unwrap_err();
    assert!(error.to_string().contains("the server cancelled"), "{error}");
    source.shutdown().await;
}

#[tokio::test]
async fn a_task_that_fails_fails_its_call() {
    let house = House::new();
    let source = connected(&house, &[]).await;
    // This one is also refused in the other way: the reference implementation reports a failed tool.
    let error = call(&source, "fixture.later", json!({"what": "fail"})).await.unwrap_err();
    assert_eq!(error.to_string(), "RuntimeError: it did not work, later");
    assert_eq!(statuses(&source).await, ["completed"]);
    source.shutdown().await;
}

struct Client;

#[async_trait]
impl ClientBridge for Client {
    async fn elicit(&self, params: Json) -> Result<Json, ToolError> {
        assert_eq!(params["message"], "Which?");
        Ok(json!({"action": "decline"}))
    }

    async fn sample(&self, _: Json) -> Result<Json, ToolError> {
        Err(ToolError::unavailable("not here"))
    }
}

#[tokio::test]
async fn what_a_task_asks_reaches_the_client() {
    let house = House::new();
    let source = connected(&house, &[]).await;
    let mut ctx = context();
    ctx.client = Some(Arc::new(Client));
    let answer = call_in(&source, "fixture.later", json!({"what": "ask"}), &ctx).await.unwrap();
    assert_eq!(answer.to_json(), json!({"action": "decline"}));
    source.shutdown().await;
}

#[tokio::test]
async fn a_caller_that_leaves_takes_its_task_along() {
    let house = House::new();
    let source = Arc::new(connected(&house, &[]).await);
    let ctx = context();
    let cancel = ctx.cancel.clone();
    let calling = tokio::spawn({
        let source = source.clone();
        async move { call_in(&source, "fixture.later", json!({"what": "never"}), &ctx).await }
    });
    let patience = Instant::now() + Duration::from_secs(20);
    while statuses(&source).await != ["working"] {
        assert!(Instant::now() < patience, "no task was made");
    }
    cancel.cancel();
    assert_eq!(calling.await.unwrap().unwrap_err().kind, ErrorKind::Cancelled);
    while statuses(&source).await != ["cancelled"] {
        assert!(Instant::now() < patience, "the task goes on");
    }
    source.shutdown().await;
}

#[tokio::test]
async fn tasks_that_a_server_makes_by_itself_are_calls_too() {
    let house = House::new();
    let source = Arc::new(connected(&house, &["--mode", "modern"]).await);
    let told = Arc::new(Told::default());
    let mut ctx = context();
    ctx.progress = told.clone();
    let answer = call_in(&source, "fixture.later", json!({"what": "bread"}), &ctx).await.unwrap();
    assert_eq!(answer.as_str(), Some("bread, later"));
    assert_eq!(told.0.lock()[..2], ["look 0", "look 1"]);
    let error = call(&source, "fixture.later", json!({"what": "fail"})).await.unwrap_err();
    assert_eq!(error.message, "fixture.later: it did not work, later");
    let error = call(&source, "fixture.later", json!({"what": "stop"})).await.unwrap_err();
    assert!(error.message.contains("the server cancelled"), "{error}");
    let mut ctx = context();
    ctx.client = Some(Arc::new(Client));
    let answer = call_in(&source, "fixture.later", json!({"what": "ask"}), &ctx).await.unwrap();
    assert_eq!(answer.to_json(), json!({"action": "decline"}));
    let ctx = context();
    let cancel = ctx.cancel.clone();
    let calling = tokio::spawn({
        let source = source.clone();
        async move { call_in(&source, "fixture.later", json!({"what": "never"}), &ctx).await }
    });
    let patience = Instant::now() + Duration::from_secs(20);
    while statuses(&source).await.last() != Some(&json!("working")) {
        assert!(Instant::now() < patience, "no task was made");
    }
    cancel.cancel();
    assert_eq!(calling.await.unwrap().unwrap_err().kind, ErrorKind::Cancelled);
    while statuses(&source).await.last() != Some(&json!("cancelled")) {
        assert!(Instant::now() < patience, "the task goes on");
    }
    source.shutdown().await;
}
