//! Spans arrive at a collector: the run is the trace, calls are its children, and their calls are theirs.

use axum::Json as Body;
use axum::http::HeaderMap;
use axum::routing::post;
use serde_json::Value as Json;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use crate::client::{PATIENCE, Project};

/// A collector on a free port.
struct Collector {
    endpoint: String,
    requests: mpsc::UnboundedReceiver<(HeaderMap, Json)>,
}

impl Collector {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let (sender, requests) = mpsc::unbounded_channel();
        let take = move |headers: HeaderMap, Body(body): Body<Json>| {
            let sender = sender.clone();
            async move {
                let _ = sender.send((headers, body));
                "{}"
            }
        };
        let app = axum::Router::new().route("/v1/traces", post(take));
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { endpoint, requests }
    }

    /// All spans so far; the sender has ended, so no more will come.
    fn spans(&mut self) -> Vec<Json> {
        let mut spans = Vec::new();
        while let Ok((_, body)) = self.requests.try_recv() {
            spans.extend(body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().clone());
        }
        spans
    }
}

async fn run(project: &Project, code: &str) -> String {
    let output = tokio::time::timeout(PATIENCE, project.command(&["run", code]).output()).await.unwrap().unwrap();
    String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap()
}

fn named<'a>(spans: &'a [Json], name: &str) -> &'a Json {
    spans.iter().find(|span| span["name"] == name).unwrap_or_else(|| panic!("no {name} in {spans:?}"))
}

fn number(span: &Json, key: &str) -> u128 {
    span[key].as_str().unwrap().parse().unwrap()
}

fn attribute(span: &Json, key: &str) -> Json {
    let attributes = span["attributes"].as_array().unwrap();
    attributes.iter().find(|attribute| attribute["key"] == key).map_or(Json::Null, |found| found["value"].clone())
}

#[tokio::test]
async fn a_run_is_a_trace_and_its_calls_are_children() {
    const TOOL: &str = "\
from onetool import call_tool
def outer() -> str:
    \"\"\"Call another.\"\"\"
    return call_tool('ot.version')
";
    let mut collector = Collector::start().await;
    let project = Project::with(&format!(
        "telemetry:\n  otlp_endpoint: {}/\n  service_name: mine\n  headers: {{X-Key: '${{KEY}}'}}\n",
        collector.endpoint
    ));
    project.write(".onetool/secrets.yaml", "KEY: a-long-key\n");
    project.write(".onetool/tools/deep/deep_tools.py", TOOL);
    let answer = run(&project, "deep.outer()\nfile.read('none')").await;
    assert!(answer.contains("FileNotFoundError"), "{answer}");

    let (headers, body) = collector.requests.recv().await.unwrap();
    assert_eq!(headers["x-key"], "a-long-key");
    assert_eq!(headers["content-type"], "application/json");
    assert_eq!(body["resourceSpans"][0]["resource"]["attributes"][0]["value"]["stringValue"], "mine");
    let spans = body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().clone();
    assert_eq!(spans.len(), 4, "{spans:?}");
    let root = named(&spans, "run");
    assert_eq!(root["parentSpanId"], Json::Null);
    assert_eq!((&root["kind"], &root["status"]["code"]), (&2.into(), &2.into()));
    let trace = root["traceId"].as_str().unwrap();
    assert!(trace.len() == 32 && trace.chars().all(|c| c.is_ascii_hexdigit()), "{trace}");
    let outer = named(&spans, "deep.outer");
    let inner = named(&spans, "ot.version");
    let read = named(&spans, "file.read");
    for (child, parent) in [(outer, root), (inner, outer), (read, root)] {
        assert_eq!(child["traceId"], *trace);
        assert_eq!(child["parentSpanId"], parent["spanId"], "{child}");
        assert!(number(child, "startTimeUnixNano") <= number(child, "endTimeUnixNano"), "{child}");
        assert!(number(child, "endTimeUnixNano") <= number(root, "endTimeUnixNano"), "{child}");
    }
    assert_eq!(attribute(read, "error.type")["stringValue"], "FileNotFoundError");
    assert_eq!(attribute(outer, "gen_ai.tool.name")["stringValue"], "deep.outer");
    assert_eq!(attribute(outer, "error.type"), Json::Null);
    // Every run has its own trace; the log names it, too.
    let log = std::fs::read_to_string(project.path().join(".onetool/logs/onetool.log")).unwrap();
    assert!(log.contains(trace), "{log}");
    run(&project, "1").await;
    let spans = collector.spans();
    assert_eq!(spans.len(), 1);
    assert_ne!(spans[0]["traceId"], *trace);
}

#[tokio::test]
async fn a_server_delivers_while_it_runs_and_a_reload_changes_where() {
    let mut first = Collector::start().await;
    let mut second = Collector::start().await;
    let project = Project::with(&format!("telemetry: {{otlp_endpoint: '{}'}}\n", first.endpoint));
    let client = project.serve().await;
    client.ok("1").await;
    let (_, body) = tokio::time::timeout(PATIENCE, first.requests.recv()).await.unwrap().unwrap();
    assert!(body.to_string().contains("\"run\""), "{body}");
    project.write(".onetool/onetool.yaml", &format!("telemetry: {{otlp_endpoint: '{}'}}\n", second.endpoint));
    client.ok("ot.reload()").await;
    client.ok("2").await;
    let (_, body) = tokio::time::timeout(PATIENCE, second.requests.recv()).await.unwrap().unwrap();
    assert!(body.to_string().contains("\"run\""), "{body}");
}

#[tokio::test]
async fn a_collector_that_is_gone_or_silent_costs_only_the_spans() {
    // It takes connections and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = |listener: &TcpListener| format!("http://user:a-long-password@{}", listener.local_addr().unwrap());
    let project = Project::with(&format!("telemetry: {{otlp_endpoint: '{}'}}\n", endpoint(&silent)));
    assert_eq!(run(&project, "1 + 1").await, "2\n");
    // Nobody is there.
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let project = Project::with(&format!("telemetry: {{otlp_endpoint: '{}'}}\n", endpoint(&gone)));
    drop(gone);
    let client = project.serve().await;
    client.ok("1").await;
    let patience = tokio::time::Instant::now() + PATIENCE;
    loop {
        let health = client.ok("ot.health()").await;
        assert!(!health.contains("a-long-password"), "{health}");
        if health.contains("telemetry: spans are not delivered") {
            break;
        }
        assert!(tokio::time::Instant::now() < patience, "{health}");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}
