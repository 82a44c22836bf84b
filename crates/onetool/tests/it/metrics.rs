//! `/metrics`: its content for Prometheus, and access to it.

use reqwest::Method;
use serde_json::{Value as Json, json};

use crate::client::{HttpServer, PATIENCE, Project};

/// Parses the text with the official Python client of Prometheus: `{name{labels}: value}`, and the types.
const PARSER: &str = "
import json, sys
from prometheus_client.parser import text_string_to_metric_families
samples, kinds = {}, {}
for family in text_string_to_metric_families(sys.stdin.read()):
    kinds[family.name] = family.type
    for sample in family.samples:
        labels = ','.join(f'{k}={v}' for k, v in sorted(sample.labels.items()))
        samples[sample.name + '{' + labels + '}'] = sample.value
json.dump({'samples': samples, 'kinds': kinds}, sys.stdout)
";

async fn text(server: &HttpServer) -> String {
    let response = server.request(Method::GET, "/metrics").send().await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    response.text().await.unwrap()
}

async fn parsed(project: &Project, text: &str) -> Json {
    let file = project.write("metrics.txt", text);
    let mut command =
        project.program("uv", &["run", "--no-project", "--with", "prometheus-client", "python", "-c", PARSER]);
    command.stdin(std::fs::File::open(file).unwrap());
    let output = tokio::time::timeout(PATIENCE, command.output()).await.unwrap().unwrap();
    assert!(output.status.success(), "{}\n{text}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[tokio::test]
async fn a_real_parser_reads_what_was_counted() {
    let project = Project::with("servers:\n  off: {command: nothing, enabled: false}\n");
    let server = project.serve_http().await;
    let client = server.mcp().await;
    client.ok("1 + 1").await;
    client.ok("file.write('a.txt', 'x')\nfile.read('a.txt')").await;
    client.err("file.read('none.txt')").await;
    for pack in 0..3 {
        let (status, _) = server.post(&format!("/api/tools/nothing{pack}.there/invoke"), json!({"args": {}})).await;
        assert_eq!(status, 404);
    }
    assert_eq!(server.get("/no/such/place").await.0, 404);
    let text = text(&server).await;
    let read = parsed(&project, &text).await;
    let (samples, kinds) = (&read["samples"], &read["kinds"]);
    let at_least = |name: &str, least: f64| {
        let value = samples[name].as_f64().unwrap_or_else(|| panic!("no {name} in {text}"));
        assert!(value >= least, "{name}: {value}");
    };
    at_least("onetool_runs_total{outcome=ok}", 2.0);
    at_least("onetool_runs_total{outcome=error}", 1.0);
    at_least("onetool_run_duration_seconds_count{}", 3.0);
    at_least("onetool_run_duration_seconds_bucket{le=+Inf}", 3.0);
    assert_eq!(samples["onetool_calls_total{outcome=ok,pack=file}"], 2.0, "{text}");
    at_least("onetool_calls_total{outcome=raised,pack=file}", 1.0);
    at_least("onetool_call_errors_total{}", 2.0);
    at_least("onetool_call_duration_seconds_count{pack=file}", 3.0);
    assert_eq!(samples["onetool_calls_total{outcome=not_found,pack=nothing0}"], Json::Null);
    at_least("onetool_calls_total{outcome=not_found,pack=other}", 3.0);
    at_least("onetool_http_requests_total{method=POST,route=/mcp,status=200}", 3.0);
    at_least("onetool_http_requests_total{method=GET,route=other,status=404}", 1.0);
    at_least("onetool_http_request_duration_seconds_count{route=/mcp}", 3.0);
    at_least("onetool_http_connections{}", 1.0);
    at_least("onetool_mcp_sessions{}", 1.0);
    at_least("onetool_sandbox_children{engine=monty,state=idle}", 1.0);
    at_least("onetool_sandbox_children{engine=cpython,state=zygote}", 0.0);
    at_least("onetool_sandbox_waiting{engine=monty}", 0.0);
    at_least("onetool_workers{state=running}", 0.0);
    assert_eq!(samples["onetool_upstream_servers{state=disabled}"], 1.0);
    assert_eq!(samples["onetool_state_up{}"], 1.0);
    at_least(&format!("onetool_build_info{{version={}}}", env!("CARGO_PKG_VERSION")), 1.0);
    at_least("process_resident_memory_bytes{}", 1e6);
    assert_eq!(kinds["onetool_run_duration_seconds"], "histogram");
    assert_eq!(kinds["onetool_calls"], "counter");
    assert_eq!(kinds["onetool_runs_in_progress"], "gauge");
}

#[tokio::test]
async fn metrics_are_for_readers_and_for_their_own_token() {
    let project = Project::with(
        "server:\n  metrics_token: '${SCRAPE}'\n  tokens:\n    - {token: reader-reader-reader, scopes: [read]}\n    - {token: caller-caller-caller, scopes: [invoke]}\n",
    );
    project.write(".onetool/secrets.yaml", "SCRAPE: scrape-scrape-scrape\n");
    let server = project.serve_http().await;
    let status = async |path: &str, token: Option<&str>| {
        let request = server.anonymous(Method::GET, path);
        let request = match token {
            Some(token) => request.bearer_auth(token),
            None => request,
        };
        request.send().await.unwrap().status().as_u16()
    };
    assert_eq!(status("/metrics", None).await, 401);
    assert_eq!(status("/metrics", Some("caller-caller-caller")).await, 403);
    assert_eq!(status("/metrics", Some("wrong-wrong-wrong-wrong")).await, 401);
    assert_eq!(status("/metrics", Some("reader-reader-reader")).await, 200);
    assert_eq!(status("/metrics", Some("scrape-scrape-scrape")).await, 200);
    assert_eq!(status("/tools/bundles", Some("scrape-scrape-scrape")).await, 401);
    project.write(".onetool/onetool.yaml", "server: {metrics: false}\n");
    let until = tokio::time::Instant::now() + PATIENCE;
    while status("/metrics", Some("scrape-scrape-scrape")).await != 404 {
        assert!(tokio::time::Instant::now() < until, "metrics are never switched off");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}
