//! A server that is told to stop finishes active work, accepts nothing new, and then ends.

use onetool_state_postgres::testing::Server;
use reqwest::Method;
use serde_json::{Value as Json, json};

use crate::client::{HttpServer, PATIENCE, Project, eventually, is_alive};

/// `gate.wait` reports that it was called, and returns when it is released.
const GATE: &str = "\
import pathlib, time

def wait(folder: str) -> str:
    (pathlib.Path(folder) / 'called').touch()
    while not (pathlib.Path(folder) / 'open').exists():
        time.sleep(0.01)
    return 'through'
";

fn project(configuration: &str) -> Project {
    let project = Project::with(configuration);
    project.write(".onetool/tools/gate/gate_tools.py", GATE);
    project
}

fn waiting(project: &Project) -> String {
    format!("gate.wait(folder='{}')", project.path().display())
}

async fn called(project: &Project) {
    let mark = project.path().join("called");
    eventually("the tool is called", || mark.exists()).await;
}

fn run_message(command: &str) -> Json {
    json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {
    "name": "run", "arguments": {"command": command},
    "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }}})
}

fn mcp(server: &HttpServer, command: &str) -> reqwest::RequestBuilder {
    server
        .request(Method::POST, "/mcp")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", "tools/call")
        .header("mcp-name", "run")
        .json(&run_message(command))
}

#[tokio::test]
async fn a_server_that_has_just_said_that_it_listens_ends_in_an_orderly_way() {
    let project = Project::empty();
    for _ in 0..5 {
        project.serve_http().await.stop().await;
    }
}

#[tokio::test]
async fn what_is_under_way_is_finished_and_nothing_new_begins() {
    let project = project("");
    let server = project.serve_http().await;
    assert_eq!(server.get("/readyz").await.0, 200);
    let news = server.request(Method::GET, "/api/events").header("accept", "text/event-stream").send().await.unwrap();
    assert_eq!(news.status(), 200);
    let run = server.request(Method::POST, "/api/runs").json(&json!({"command": waiting(&project)})).send();
    let run = tokio::spawn(run);
    let client = server.mcp().await;
    let called_by_mcp = tokio::spawn(mcp(&server, &waiting(&project)).send());
    called(&project).await;
    let metrics = |server: &HttpServer| server.request(Method::GET, "/metrics").send();
    let until = tokio::time::Instant::now() + PATIENCE;
    while !metrics(&server).await.unwrap().text().await.unwrap().contains("onetool_runs_in_progress 2\n") {
        assert!(tokio::time::Instant::now() < until, "two runs are never under way");
    }
    server.terminate();

    // Open event streams end; the admin page then connects to another server.
    tokio::time::timeout(PATIENCE, news.bytes()).await.expect("the stream ends").unwrap();
    let (status, body) = server.get("/readyz").await;
    assert_eq!((status, &body["reason"]), (503, &json!("the server is stopping")));
    assert_eq!(server.get("/healthz").await.0, 200);
    assert!(metrics(&server).await.unwrap().text().await.unwrap().contains("onetool_draining 1\n"));
    for request in [
        server.request(Method::POST, "/runs").json(&json!({"command": "1"})),
        server.request(Method::POST, "/api/runs").json(&json!({"command": "1"})),
        server.request(Method::GET, "/tools/bundles"),
    ] {
        let refused = request.send().await.unwrap();
        assert_eq!(refused.status(), 503);
        assert_eq!(refused.headers()["retry-after"], "2");
        assert_eq!(refused.headers()["connection"], "close");
        let body: Json = refused.json().await.unwrap();
        assert_eq!(body["error"]["code"], "stopping", "{body}");
        assert!(body["error"]["hint"].as_str().unwrap().contains("send it again"), "{body}");
    }
    let refused = mcp(&server, "1").send().await.unwrap();
    assert_eq!(refused.status(), 503);
    assert_eq!(refused.headers()["retry-after"], "2");
    let body: Json = refused.json().await.unwrap();
    assert_eq!((&body["id"], &body["error"]["code"]), (&json!(7), &json!(-32000)), "{body}");

    project.write("open", "");
    let answer: Json = run.await.unwrap().unwrap().json().await.unwrap();
    assert_eq!((&answer["text"], &answer["isError"]), (&json!("through"), &json!(false)), "{answer}");
    let answer = called_by_mcp.await.unwrap().unwrap().text().await.unwrap();
    assert!(answer.contains("\"through\""), "{answer}");
    drop(client);
    let status = server.ended().await;
    assert_eq!(status.code(), Some(0));
}

#[tokio::test]
async fn a_balancer_is_refused_a_connection_where_other_servers_share_the_state() {
    let database = tokio::task::spawn_blocking(Server::start).await.unwrap();
    let project = project(&format!("state: {}\n", database.database("team")));
    let server = project.serve_http().await;
    let run = server.request(Method::POST, "/api/runs").json(&json!({"command": waiting(&project)})).send();
    let run = tokio::spawn(run);
    called(&project).await;
    server.terminate();
    let until = tokio::time::Instant::now() + PATIENCE;
    loop {
        // A new client has no open connection.
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let asked = client.get(format!("{}/healthz", server.base)).send().await;
        if asked.is_err_and(|error| error.is_connect()) {
            break;
        }
        assert!(tokio::time::Instant::now() < until, "the port stays open");
    }
    project.write("open", "");
    let answer: Json = run.await.unwrap().unwrap().json().await.unwrap();
    assert_eq!((&answer["text"], &answer["isError"]), (&json!("through"), &json!(false)), "{answer}");
    assert_eq!(server.ended().await.code(), Some(0));
}

#[tokio::test]
async fn what_takes_too_long_is_cancelled_and_answered() {
    let project = project("server: {drain: 0.3}\n");
    let server = project.serve_http().await;
    let command = waiting(&project);
    let run = tokio::spawn(server.request(Method::POST, "/api/runs").json(&json!({"command": command})).send());
    let through_mcp = tokio::spawn(mcp(&server, &command).send());
    let arguments = json!({"args": {"folder": project.path()}});
    let call = tokio::spawn(server.request(Method::POST, "/api/tools/gate.wait/invoke").json(&arguments).send());
    let (status, background) = server.post("/runs", json!({"command": command})).await;
    assert_eq!(status, 202, "{background}");
    called(&project).await;
    let metrics = || async { server.request(Method::GET, "/metrics").send().await.unwrap().text().await.unwrap() };
    let until = tokio::time::Instant::now() + PATIENCE;
    while !metrics().await.contains("onetool_runs_in_progress 3\n") {
        assert!(tokio::time::Instant::now() < until, "three runs are never under way");
    }
    server.terminate();
    let answer: Json = run.await.unwrap().unwrap().json().await.unwrap();
    assert_eq!(answer["isError"], json!(true));
    let text = answer["text"].as_str().unwrap();
    assert!(text.contains("cancelled") && text.contains("hint: the server is stopping"), "{text}");
    let answer = through_mcp.await.unwrap().unwrap().text().await.unwrap();
    assert!(answer.contains("the server is stopping") && answer.contains("\"isError\":true"), "{answer}");
    let answer = call.await.unwrap().unwrap();
    let (status, body) = (answer.status().as_u16(), answer.text().await.unwrap());
    assert!(matches!(status, 409 | 503) && body.contains("the server is stopping"), "{status} {body}");
    assert_eq!(server.ended().await.code(), Some(0));
}

#[tokio::test]
async fn a_second_signal_ends_at_once() {
    let project = project("");
    let server = project.serve_http().await;
    let client = server.mcp().await;
    let run = tokio::spawn(mcp(&server, &waiting(&project)).send());
    called(&project).await;
    server.terminate();
    let until = tokio::time::Instant::now() + PATIENCE;
    while server.get("/readyz").await.0 != 503 {
        assert!(tokio::time::Instant::now() < until);
    }
    assert!(is_alive(client.pid));
    server.terminate();
    assert_eq!(server.ended().await.code(), Some(130));
    run.abort();
    drop(client);
}
