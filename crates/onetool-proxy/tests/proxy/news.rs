//! Notifications and questions that servers send by themselves, in both eras.

use std::sync::Arc;

use async_trait::async_trait;
use onetool_proxy::ProxySource;
use onetool_sdk::{Arguments, CallContext, ClientBridge, SourceChange, ToolCall, ToolError, ToolSource as _, Value};
use parking_lot::Mutex;
use serde_json::{Value as Json, json};
use tokio::sync::broadcast::Receiver;

use crate::fixture::{House, HttpServer, call, call_in, connected, context, pack, text, until};

const ERAS: [&str; 2] = ["normal", "modern"];

async fn next(changes: &mut Receiver<SourceChange>) -> SourceChange {
    tokio::time::timeout(std::time::Duration::from_secs(20), changes.recv()).await.unwrap().unwrap()
}

/// Waits until the server has our subscription, which it reports when it publishes something without listeners.
async fn is_listened_to(source: &ProxySource, what: &str) {
    for _ in 0..500 {
        if text(source, "fixture.publish", json!({"what": "note://nobody"})).await.contains(what) {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    panic!("nobody listens for {what}");
}

#[tokio::test]
async fn changes_of_lists_are_passed_on() {
    for era in ERAS {
        let house = House::new();
        let source = connected(&house, &["--mode", era, "--news"]).await;
        let mut changes = source.changes().unwrap();
        if era == "modern" {
            is_listened_to(&source, "promptsListChanged").await;
        }
        let generation = source.generation();
        text(&source, "fixture.publish", json!({"what": "prompts"})).await;
        assert_eq!(next(&mut changes).await, SourceChange::Prompts { pack: "fixture".into() }, "{era}");
        text(&source, "fixture.publish", json!({"what": "resources"})).await;
        assert_eq!(next(&mut changes).await, SourceChange::Resources { pack: "fixture".into() }, "{era}");
        text(&source, "fixture.change", json!({"description": "another"})).await;
        if era == "modern" {
            text(&source, "fixture.publish", json!({"what": "tools"})).await;
        }
        until("the new tool is there", || pack(&source, "fixture").tools.contains_key("extra")).await;
        assert_ne!(source.generation(), generation);
        source.shutdown().await;
    }
}

#[tokio::test]
async fn watched_resources_are_told_of_until_nobody_watches() {
    for era in ERAS {
        let house = House::new();
        let source = connected(&house, &["--mode", era, "--news"]).await;
        let mut changes = source.changes().unwrap();
        for _ in 0..2 {
            assert!(source.watch("fixture", "note://1", &context()).await.unwrap(), "{era}");
        }
        is_listened_to(&source, "note://1").await;
        text(&source, "fixture.publish", json!({"what": "note://2"})).await;
        text(&source, "fixture.publish", json!({"what": "note://1"})).await;
        let expected = SourceChange::Resource { pack: "fixture".into(), uri: "note://1".into() };
        assert_eq!(next(&mut changes).await, expected, "{era}");
        source.unwatch("fixture", "note://1").await;
        assert!(text(&source, "fixture.publish", json!({"what": "x://"})).await.contains("note://1"), "{era}");
        source.unwatch("fixture", "note://1").await;
        for _ in 0..500 {
            if !text(&source, "fixture.publish", json!({"what": "x://"})).await.contains("note://1") {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        assert!(!text(&source, "fixture.publish", json!({"what": "x://"})).await.contains("note://1"), "{era}");
        source.shutdown().await;
    }
}

#[tokio::test]
async fn what_is_watched_outlives_the_server() {
    for era in ERAS {
        let house = House::new();
        let source = connected(&house, &["--mode", era, "--news"]).await;
        let mut changes = source.changes().unwrap();
        source.watch("fixture", "note://1", &context()).await.unwrap();
        call(&source, "fixture.crash", json!({})).await.unwrap_err();
        is_listened_to(&source, "note://1").await;
        text(&source, "fixture.publish", json!({"what": "note://1"})).await;
        let expected = SourceChange::Resource { pack: "fixture".into(), uri: "note://1".into() };
        while next(&mut changes).await != expected {}
        source.shutdown().await;
    }
}

#[tokio::test]
async fn a_server_that_does_not_tell_says_so() {
    let house = House::new();
    let source = connected(&house, &[]).await;
    let error = source.watch("fixture", "note://1", &context()).await.unwrap_err();
    assert!(error.message.contains("does not tell when its resources change"), "{error}");
    assert!(!source.watch("nobody", "note://1", &context()).await.unwrap());
    source.shutdown().await;
}

/// Answers every question, and records it.
#[derive(Default)]
struct Client(Mutex<Vec<Json>>);

#[async_trait]
impl ClientBridge for Client {
    async fn elicit(&self, params: Json) -> Result<Json, ToolError> {
        self.0.lock().push(params.clone());
        Ok(if params["mode"] == "url" {
            json!({"action": "accept"})
        } else {
            json!({"action": "accept", "content": {"name": "Ada"}})
        })
    }

    async fn sample(&self, params: Json) -> Result<Json, ToolError> {
        self.0.lock().push(params);
        Ok(json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": "Hi"}}))
    }
}

fn with(client: &Arc<Client>) -> CallContext {
    let mut ctx = context();
    ctx.client = Some(client.clone());
    ctx
}

#[tokio::test]
async fn questions_reach_the_client_in_both_eras_and_over_both_transports() {
    for era in ERAS {
        for over_http in [false, true] {
            let house = House::new();
            let http = over_http.then(|| HttpServer::start_on(&["--http", "--mode", era, "--news"], 0));
            let source = match &http {
                Some(server) => {
                    let url = format!("http://127.0.0.1:{}/mcp", server.port);
                    let mut settings = onetool_proxy::ServerSettings::http("fixture", url);
                    if let onetool_proxy::ServerKind::Http { headers, .. } = &mut settings.kind {
                        headers.insert("X-Key".into(), "sesame-open".into());
                    }
                    let source = house.source(vec![settings]);
                    source.settle("fixture", &context()).await.unwrap();
                    source
                }
                None => connected(&house, &["--mode", era, "--news"]).await,
            };
            for what in ["form", "url", "sample"] {
                let client = Arc::new(Client::default());
                let answer = call_in(&source, "fixture.want", json!({"what": what}), &with(&client)).await;
                let answer = answer.unwrap_or_else(|error| panic!("{era}, {over_http}, {what}: {error}")).to_json();
                let asked = client.0.lock().clone();
                assert_eq!(asked.len(), 1, "{era}, {what}");
                match what {
                    "form" => {
                        assert_eq!(answer["content"]["name"], "Ada", "{era}");
                        assert_eq!(asked[0]["message"], "Your name?");
                    }
                    "url" => {
                        assert_eq!(answer["action"], "accept", "{era}");
                        assert_eq!(asked[0]["url"], "https://example.org/in");
                    }
                    _ => {
                        assert_eq!(answer["content"]["text"], "Hi", "{era}");
                        assert_eq!(asked[0]["maxTokens"], 5);
                    }
                }
            }
            source.shutdown().await;
        }
    }
}

#[tokio::test]
async fn a_prompt_can_take_an_argument_named_name() {
    let house = House::new();
    let source = connected(&house, &[]).await;
    let pack = pack(&source, "fixture");
    let tool = pack.tools["prompt"].clone();
    assert_eq!(tool.signature.render("prompt"), "prompt(name: str, /, **arguments) -> list[dict]");
    let arguments = Arguments { positional: vec!["label".into()], ..Arguments::named([("name", Value::from("Ada"))]) };
    let value = source.call(ToolCall { pack, tool, version: None, arguments }, &context()).await.unwrap();
    assert_eq!(value.to_json(), json!([{"role": "user", "content": "Label Ada"}]));
    source.shutdown().await;
}
