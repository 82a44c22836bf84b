//! Results of calls, and what happens during them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use onetool_proxy::ServerState;
use onetool_sdk::{ClientBridge, ErrorKind, Part, Progress, ProgressSink, ToolError, ToolSource, Value};
use parking_lot::Mutex;
use serde_json::{Value as Json, json};

use crate::fixture::{House, call, call_in, connected, context, status, text};

#[tokio::test]
async fn results_become_values() {
    let house = House::new();
    let source = connected(&house, &[]).await;
    assert_eq!(text(&source, "fixture.echo", json!({"text": "grüße"})).await, "grüße");
    assert_eq!(call(&source, "fixture.add", json!({"a": 1, "b": 2})).await.unwrap(), Value::Int(3));
    assert_eq!(text(&source, "fixture.several", json!({})).await, "one\ntwo");
    let image = Value::Part(Part::Image { media_type: "image/png".into(), data: b"\x89PNG".to_vec() });
    assert_eq!(
        call(&source, "fixture.image", json!({})).await.unwrap(),
        Value::List(vec![Value::Str("look".into()), image])
    );
    let error = call(&source, "fixture.fail", json!({})).await.unwrap_err();
    assert_eq!(error.to_string(), "RuntimeError: it did not work");
    source.shutdown().await;
}

#[tokio::test]
async fn names_that_python_cannot_spell_reach_the_server_as_its_own() {
    let house = House::new();
    let source = connected(&house, &[]).await;
    for name in ["per-page", "per_page"] {
        let answer = text(&source, "fixture.search_repos", json!({"query": "x", name: 5})).await;
        assert_eq!(serde_json::from_str::<Json>(&answer).unwrap(), json!({"query": "x", "per-page": 5}));
    }
    source.shutdown().await;
}

#[tokio::test]
async fn resources_and_prompts_are_functions() {
    let house = House::new();
    let source = connected(&house, &[]).await;
    let resources = call(&source, "fixture.resources", json!({})).await.unwrap();
    assert_eq!(
        resources.to_json(),
        json!([{"uri": "note://1", "name": "a note", "description": "xy"}, {"uriTemplate": "note://{id}", "name": "notes"}])
    );
    assert_eq!(text(&source, "fixture.read", json!({"uri": "note://1"})).await, "text of note://1");
    let prompts = call(&source, "fixture.prompts", json!({})).await.unwrap();
    assert_eq!(prompts.to_json(), json!([{"name": "greet", "arguments": [{"name": "who", "required": true}]}]));
    let prompt = call(&source, "fixture.prompt", json!({"name": "greet", "who": "Ada"})).await.unwrap();
    assert_eq!(prompt.to_json(), json!([{"role": "user", "content": "Greet Ada"}]));
    source.shutdown().await;
}

#[derive(Default)]
struct Kept(Mutex<Vec<Progress>>);

impl ProgressSink for Kept {
    fn report(&self, progress: Progress) {
        self.0.lock().push(progress);
    }
}

#[tokio::test]
async fn all_progress_comes_in_order_before_the_result() {
    let house = House::new();
    let source = connected(&house, &[]).await;
    let kept = Arc::new(Kept::default());
    let mut ctx = context();
    ctx.progress = kept.clone();
    call_in(&source, "fixture.steps", json!({"count": 50, "pause": 0}), &ctx).await.unwrap();
    let expected: Vec<Progress> = (1..=50)
        .map(|step| Progress { done: f64::from(step), total: Some(50.0), message: Some(format!("step {step}")) })
        .collect();
    assert_eq!(*kept.0.lock(), expected);
    source.shutdown().await;
}

#[tokio::test]
async fn progress_postpones_the_timeout() {
    let house = House::new();
    let mut settings = crate::fixture::server("fixture", &[]);
    settings.timeout = Duration::from_secs(5);
    let source = house.source(vec![settings]);
    while status(&source, "fixture").state != ServerState::Connected {
        let _ = source.settle("fixture", &context()).await;
    }
    let started = Instant::now();
    assert_eq!(text(&source, "fixture.steps", json!({"count": 6, "pause": 1})).await, "done");
    assert!(started.elapsed() > Duration::from_secs(5));
    source.shutdown().await;
}

#[tokio::test]
async fn cancelling_returns_at_once_and_tells_the_server() {
    let house = House::new();
    let source = Arc::new(connected(&house, &[]).await);
    let ctx = context();
    let cancel = ctx.cancel.clone();
    let task = tokio::spawn({
        let source = source.clone();
        async move { call_in(&source, "fixture.hang", json!({}), &ctx).await }
    });
    // The call has started once the server answers a later one.
    text(&source, "fixture.echo", json!({"text": "x"})).await;
    cancel.cancel();
    assert_eq!(task.await.unwrap().unwrap_err().kind, ErrorKind::Cancelled);
    // A call that is dropped is cancelled too.
    let dropped = tokio::time::timeout(Duration::from_millis(200), call(&source, "fixture.hang", json!({}))).await;
    assert!(dropped.is_err());
    let started = Instant::now();
    loop {
        let cancelled: Vec<Json> = serde_json::from_str(&text(&source, "fixture.cancelled", json!({})).await).unwrap();
        if cancelled.len() == 2 {
            break;
        }
        assert!(started.elapsed() < Duration::from_secs(20), "the server heard of {cancelled:?} only");
    }
    source.shutdown().await;
}

#[tokio::test]
async fn a_call_that_takes_too_long_ends_with_its_deadline() {
    let house = House::new();
    let source = connected(&house, &[]).await;
    let mut ctx = context();
    ctx.deadline = Some(Instant::now() + Duration::from_millis(300));
    let error = call_in(&source, "fixture.hang", json!({}), &ctx).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Timeout);
    // The server is pinged, and answers.
    assert_eq!(text(&source, "fixture.echo", json!({"text": "x"})).await, "x");
    source.shutdown().await;
}

pub(crate) struct Ada;

#[async_trait]
impl ClientBridge for Ada {
    async fn elicit(&self, params: Json) -> Result<Json, ToolError> {
        assert_eq!(params["message"], "Your name?");
        assert_eq!(params["requestedSchema"]["properties"]["name"]["type"], "string");
        Ok(json!({"action": "accept", "content": {"name": "Ada"}}))
    }

    async fn sample(&self, _: Json) -> Result<Json, ToolError> {
        Err(ToolError::unavailable("not here"))
    }
}

#[tokio::test]
async fn a_servers_question_goes_to_the_client_of_the_call() {
    let house = House::new();
    let source = connected(&house, &[]).await;
    let mut ctx = context();
    ctx.client = Some(Arc::new(Ada));
    let answer = call_in(&source, "fixture.ask", json!({}), &ctx).await.unwrap();
    assert_eq!(answer.to_json(), json!({"action": "accept", "content": {"name": "Ada"}}));
    let refused = text(&source, "fixture.ask", json!({})).await;
    assert!(refused.contains("no client that can be asked"), "{refused}");
    source.shutdown().await;
}

#[tokio::test]
async fn a_server_of_the_newest_protocol_is_found_and_its_questions_answered() {
    let house = House::new();
    let source = connected(&house, &["--mode", "modern"]).await;
    assert_eq!(text(&source, "fixture.echo", json!({"text": "x"})).await, "x");
    let mut ctx = context();
    ctx.client = Some(Arc::new(Ada));
    let answer = call_in(&source, "fixture.ask", json!({}), &ctx).await.unwrap();
    assert_eq!(answer.to_json(), json!({"action": "accept", "content": {"name": "Ada"}}));
    let refused = call(&source, "fixture.ask", json!({})).await.unwrap_err();
    assert!(refused.message.contains("no client to ask"), "{refused}");
    source.shutdown().await;
}

#[tokio::test]
async fn a_question_that_may_be_for_somebody_else_is_refused() {
    let house = House::new();
    let source = Arc::new(connected(&house, &[]).await);
    let other = context();
    let cancel = other.cancel.clone();
    let task = tokio::spawn({
        let source = source.clone();
        async move { call_in(&source, "fixture.hang", json!({}), &other).await }
    });
    text(&source, "fixture.echo", json!({"text": "x"})).await;
    let mut ctx = context();
    ctx.client = Some(Arc::new(Ada));
    let refused = call_in(&source, "fixture.ask", json!({}), &ctx).await.unwrap();
    assert!(refused.to_json().to_string().contains("client"), "{refused:?}");
    cancel.cancel();
    let _ = task.await;
    source.shutdown().await;
}

#[tokio::test]
async fn calls_run_side_by_side() {
    let house = House::new();
    let source = connected(&house, &[]).await;
    // None of them ends before all have started.
    let calls = (0..20).map(|_| call(&source, "fixture.meet", json!({"count": 20})));
    for outcome in futures_util::future::join_all(calls).await {
        assert_eq!(outcome.unwrap(), Value::Str("met".into()));
    }
    source.shutdown().await;
}
