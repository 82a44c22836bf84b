//! Spans arrive at a collector: the run is the trace, its calls are children, and nested calls are children of those.

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

    /// All spans so far; the sender has ended, so no more will arrive.
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
    // Every run has its own trace, which the log names too.
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
    // Accepts connections and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = |listener: &TcpListener| format!("http://user:a-long-password@{}", listener.local_addr().unwrap());
    let project = Project::with(&format!("telemetry: {{otlp_endpoint: '{}'}}\n", endpoint(&silent)));
    assert_eq!(run(&project, "1 + 1").await, "2\n");
    // Nothing listens.
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

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// The spans of a trace at a collector, once there are as many as expected.
async fn trace_of(collector: &mut Collector, count: usize) -> Vec<Json> {
    let mut spans: Vec<Json> = Vec::new();
    let until = tokio::time::Instant::now() + PATIENCE;
    while spans.len() < count {
        let request = tokio::time::timeout_at(until, collector.requests.recv()).await;
        let (_, body) = request.unwrap_or_else(|_| panic!("only {spans:?}")).unwrap();
        let new = body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap();
        spans.extend(new.iter().filter(|span| span["traceId"] == TRACE).cloned());
    }
    spans
}

#[tokio::test]
async fn a_request_s_trace_goes_through_to_tools_servers_and_workers() {
    const TOOL: &str = "\
from onetool import trace_headers
def seen() -> dict:
    return trace_headers()
";
    // An HTTP API that echoes its request.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let api = format!("http://{}", listener.local_addr().unwrap());
    let echo = |headers: HeaderMap| async move {
        let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap().to_owned());
        Body(serde_json::json!({"parent": text("traceparent"), "state": text("tracestate")}))
    };
    tokio::spawn(
        async move { axum::serve(listener, axum::Router::new().route("/echo", axum::routing::get(echo))).await },
    );
    let mut collector = Collector::start().await;
    let behind = Project::with(&format!("telemetry: {{otlp_endpoint: '{}'}}\n", collector.endpoint));
    let upstream = behind.serve_http().await;
    let project = Project::with(&format!(
        "telemetry: {{otlp_endpoint: '{}'}}\nservers:\n  behind: {{url: '{}/mcp'}}\nhttp: {{allowed_hosts: ['127.0.0.1']}}\n",
        collector.endpoint, upstream.base
    ));
    project.write(".onetool/tools/worker/worker_tools.py", TOOL);
    let server = project.serve_http().await;
    let bundle = format!("/tools/bundles/{}", uuid::Uuid::now_v7());
    let (status, body) = server.put(&bundle, serde_json::json!({"slug": "api"})).await;
    assert_eq!(status, 201, "{body}");
    let tool = serde_json::json!({
        "type": "http", "description": "Tells what it was sent", "argSchema": {"type": "object"},
        "impl": {"urlTemplate": format!("{api}/echo")}
    });
    let (status, body) = server.put(&format!("{bundle}/tools/echo/version/v1"), tool).await;
    assert_eq!(status, 201, "{body}");

    let command = "[worker.seen(), api.echo(), behind.run(command='6 * 7')]";
    let answer = server
        .request(reqwest::Method::POST, "/api/runs")
        .header("traceparent", PARENT)
        .header("tracestate", "vendor=1")
        .json(&serde_json::json!({"command": command}))
        .send()
        .await
        .unwrap();
    let answer: Json = answer.json().await.unwrap();
    assert_eq!(answer["isError"], false, "{answer}");
    let seen: Json = serde_json::from_str(answer["text"].as_str().unwrap()).unwrap();
    let spans = trace_of(&mut collector, 5).await;
    let root = spans.iter().find(|span| span["parentSpanId"] == "00f067aa0ba902b7").expect("the request's run");
    assert_eq!(root["name"], "run");
    let parent_of = |name: &str, written: &Json| {
        let span = named(&spans, name);
        assert_eq!(span["parentSpanId"], root["spanId"], "{span}");
        assert_eq!(*written, format!("00-{TRACE}-{}-01", span["spanId"].as_str().unwrap()), "{name}");
    };
    parent_of("worker.seen", &seen[0]["traceparent"]);
    parent_of("api.echo", &seen[1]["parent"]);
    assert_eq!((&seen[0]["tracestate"], &seen[1]["state"]), (&"vendor=1".into(), &"vendor=1".into()), "{seen}");
    // The run of the nested server is part of our call.
    let call = named(&spans, "behind.run");
    let inner = spans.iter().find(|span| span["name"] == "run" && span["spanId"] != root["spanId"]).unwrap();
    assert_eq!(inner["parentSpanId"], call["spanId"]);
    // The log contains both the run and the trace.
    let log = std::fs::read_to_string(project.path().join(".onetool/logs/onetool.log")).unwrap();
    let line = log.lines().find(|line| line.contains("\"worker.seen\"") && line.contains("duration_ms")).unwrap();
    let line: Json = serde_json::from_str(line).unwrap();
    assert_eq!((&line["trace"], &line["run"]), (&TRACE.into(), &attribute(root, "onetool.run_id")["stringValue"]));
}

#[tokio::test]
async fn a_trace_in_the_message_counts_too_and_an_invalid_one_does_not() {
    let mut collector = Collector::start().await;
    let project = Project::with(&format!("telemetry: {{otlp_endpoint: '{}'}}\n", collector.endpoint));
    let client = project.serve().await;
    let mut call = crate::client::call("1 + 1");
    let meta = serde_json::json!({"traceparent": PARENT});
    call.meta = Some(serde_json::from_value(meta).unwrap());
    client.service.call_tool(call).await.unwrap();
    let spans = trace_of(&mut collector, 1).await;
    assert_eq!(spans[0]["parentSpanId"], "00f067aa0ba902b7");
    let mut call = crate::client::call("1 + 1");
    call.meta = Some(serde_json::from_value(serde_json::json!({"traceparent": "00-zz-01"})).unwrap());
    client.service.call_tool(call).await.unwrap();
    let (_, body) = tokio::time::timeout(PATIENCE, collector.requests.recv()).await.unwrap().unwrap();
    let span = &body["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
    assert_eq!(span["parentSpanId"], Json::Null, "{span}");
}

#[tokio::test]
async fn measurements_are_delivered_too() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let (sender, mut metrics) = mpsc::unbounded_channel();
    let take = move |Body(body): Body<Json>| {
        let _ = sender.send(body);
        async { "{}" }
    };
    let app = axum::Router::new().route("/v1/traces", post(|| async { "{}" })).route("/v1/metrics", post(take));
    tokio::spawn(async move { axum::serve(listener, app).await });
    let project =
        Project::with(&format!("telemetry: {{otlp_endpoint: '{endpoint}/v1/traces', metrics_interval: 0.1}}\n"));
    let client = project.serve().await;
    client.ok("file.write('a', 'b')").await;
    let until = tokio::time::Instant::now() + PATIENCE;
    loop {
        let body: Json = tokio::time::timeout_at(until, metrics.recv()).await.expect("measurements").unwrap();
        let families = body["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().unwrap().clone();
        let family = |name: &str| families.iter().find(|family| family["name"] == name).cloned().unwrap_or_default();
        let points = family("onetool_calls_total")["sum"]["dataPoints"].as_array().cloned().unwrap_or_default();
        let Some(point) = points.iter().find(|point| attribute(point, "pack")["stringValue"] == "file") else {
            continue;
        };
        assert_eq!(point["asDouble"], 1.0, "{point}");
        let time = &family("onetool_run_duration_seconds")["histogram"]["dataPoints"][0];
        if time["count"] == "1" {
            assert_eq!(
                time["bucketCounts"].as_array().unwrap().len(),
                time["explicitBounds"].as_array().unwrap().len() + 1
            );
            break;
        }
    }
}
