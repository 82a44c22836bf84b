//! Both eras of the protocol: detected, remembered, and detected again.

use std::time::Duration;

use onetool_proxy::{EraChoice, ProxySource, ServerKind, ServerSettings, ServerState};
use onetool_sdk::ToolSource as _;
use serde_json::json;

use crate::fixture::{House, HttpServer, call, connected, context, server, status, text};

/// The first requests that the server received, in order, up to its list of tools.
async fn openers(source: &ProxySource) -> Vec<String> {
    let methods = call(source, "fixture.methods", json!({})).await.unwrap().to_json();
    let methods: Vec<String> = serde_json::from_value(methods["methods"].clone()).unwrap();
    methods.into_iter().take_while(|method| method != "tools/list").collect()
}

#[tokio::test]
async fn a_server_of_the_newer_era_connects_however_it_refuses_the_older_one() {
    for refusal in ["-32601", "-32602", "-32600", "-32603", "silence", "exit"] {
        let house = House::new();
        let source = connected(&house, &["--mode", "modern", "--refuse", refusal]).await;
        assert_eq!(text(&source, "fixture.era", json!({})).await, "modern", "{refusal}");
        source.shutdown().await;
    }
}

#[tokio::test]
async fn a_server_of_the_older_era_connects_however_it_refuses_the_newer_one() {
    for refusal in ["-32602", "-32600", "-32603", "0", "silence", "exit", "later exit"] {
        let house = House::new();
        let mut settings = server("fixture", &["--refuse", refusal]);
        settings.probe = Duration::from_millis(200);
        let source = house.source(vec![settings]);
        source.settle("fixture", &context()).await.unwrap();
        assert_eq!(text(&source, "fixture.era", json!({})).await, "legacy", "{refusal}");
        source.shutdown().await;
    }
}

#[tokio::test]
async fn the_era_is_remembered_and_the_next_start_asks_once() {
    for (mode, first, then) in [
        ("normal", vec!["server/discover", "initialize"], vec!["initialize"]),
        ("modern", vec!["server/discover"], vec!["server/discover"]),
        ("dual", vec!["server/discover"], vec!["server/discover"]),
    ] {
        let house = House::new();
        let arguments = ["--mode", mode, "--refuse", "-32602"];
        let source = connected(&house, &arguments).await;
        assert_eq!(openers(&source).await, first, "{mode}");
        source.shutdown().await;
        let source = connected(&house, &arguments).await;
        assert_eq!(openers(&source).await, then, "{mode}");
        source.shutdown().await;
    }
}

#[tokio::test]
async fn a_server_that_changes_its_era_is_found_both_ways() {
    for refusal in ["-32602", "silence"] {
        let house = House::new();
        for mode in ["modern", "normal", "modern"] {
            // The same server by its command: its environment is not part of its identity.
            let mut settings = server("fixture", &["--refuse", refusal]);
            settings.probe = Duration::from_millis(200);
            if let ServerKind::Stdio { env, .. } = &mut settings.kind {
                env.insert("FIXTURE_MODE".into(), mode.into());
            }
            let source = house.source(vec![settings]);
            source.settle("fixture", &context()).await.unwrap();
            let expected = if mode == "modern" { "modern" } else { "legacy" };
            assert_eq!(text(&source, "fixture.era", json!({})).await, expected, "{refusal}");
            source.shutdown().await;
        }
    }
}

fn web(server: &HttpServer) -> ServerSettings {
    let mut settings = ServerSettings::http("web", format!("http://127.0.0.1:{}/mcp", server.port));
    if let ServerKind::Http { headers, .. } = &mut settings.kind {
        headers.insert("X-Key".into(), "sesame-open".into());
    }
    ServerSettings { timeout: Duration::from_secs(20), probe: Duration::from_millis(500), ..settings }
}

#[tokio::test]
async fn over_http_both_eras_are_found() {
    for (mode, refusal, era) in [
        ("modern", "-32600", "modern"),
        ("modern", "silence", "modern"),
        ("normal", "-32603", "legacy"),
        ("normal", "400", "legacy"),
    ] {
        let house = House::new();
        let server = HttpServer::start_on(&["--http", "--mode", mode, "--refuse", refusal], 0);
        for _ in 0..2 {
            let source = house.source(vec![web(&server)]);
            source.settle("web", &context()).await.unwrap();
            assert_eq!(text(&source, "web.era", json!({})).await, era, "{mode}, {refusal}");
            source.shutdown().await;
        }
    }
}

#[tokio::test]
async fn over_http_a_server_of_both_eras_gets_the_one_with_more_capabilities() {
    for (description, era, has_prompts) in [("poor", "legacy", true), ("rich", "modern", true)] {
        let house = House::new();
        let server = HttpServer::start_on(&["--http", "--mode", "dual", "--description", description], 0);
        let source = house.source(vec![web(&server)]);
        source.settle("web", &context()).await.unwrap();
        assert_eq!(text(&source, "web.era", json!({})).await, era, "{description}");
        let pack = crate::fixture::pack(&source, "web");
        assert_eq!(pack.tools.contains_key("prompts"), has_prompts);
        source.shutdown().await;
    }
}

#[tokio::test]
async fn the_configuration_can_say_the_era() {
    for (choice, expected) in [(EraChoice::Legacy, "legacy"), (EraChoice::Modern, "modern")] {
        let house = House::new();
        let settings = ServerSettings { era: choice, ..server("fixture", &["--mode", "dual"]) };
        let source = house.source(vec![settings]);
        source.settle("fixture", &context()).await.unwrap();
        assert_eq!(text(&source, "fixture.era", json!({})).await, expected);
        source.shutdown().await;
    }
    let house = House::new();
    let settings = ServerSettings { era: EraChoice::Legacy, ..server("fixture", &["--mode", "modern"]) };
    let source = house.source(vec![settings]);
    let error = source.settle("fixture", &context()).await.unwrap_err();
    assert!(error.message.contains("it refused initialize (error -32601)"), "{error}");
    assert_eq!(status(&source, "fixture").state, ServerState::Disconnected);
    source.shutdown().await;
}

#[tokio::test]
async fn a_server_that_refuses_everything_is_told_with_both_reasons() {
    let house = House::new();
    let source = house.source(vec![server("fixture", &["--mode", "modern", "--refuse", "-32600"])]);
    source.settle("fixture", &context()).await.unwrap();
    source.shutdown().await;
    let script = "import sys, json\nfor line in sys.stdin:\n    print(json.dumps({'jsonrpc': '2.0', 'id': \
                  json.loads(line)['id'], 'error': {'code': -32000, 'message': 'closed today'}}), flush=True)";
    let source = house.source(vec![ServerSettings::stdio("shut", "python3", ["-c", script])]);
    let error = source.settle("shut", &context()).await.unwrap_err();
    for opener in ["server/discover", "initialize"] {
        assert!(error.message.contains(&format!("{opener} (error -32000): closed today")), "{error}");
    }
    source.shutdown().await;
}
