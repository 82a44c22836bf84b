//! Background runs: MCP tasks of both revisions, idempotency keys, and `POST /runs`.

use std::time::Duration;

use onetool_state_postgres::testing::Server;
use reqwest::{Method, RequestBuilder, Response};
use serde_json::{Value as Json, json};

use crate::client::{HttpServer, PATIENCE, Project, eventually};

const ERA: &str = "2026-07-28";

const SLOW: &str = "\
import pathlib, time

def nap(seconds: float) -> str:
    time.sleep(seconds)
    return 'rested'

def count(file: str, seconds: float = 0) -> int:
    path = pathlib.Path(file)
    path.write_text((path.read_text() if path.exists() else '') + 'x')
    time.sleep(seconds)
    return len(path.read_text())
";

fn project(configuration: &str) -> Project {
    let project = Project::with(configuration);
    project.write(".onetool/tools/slow/slow_tools.py", SLOW);
    project
}

fn counting(project: &Project, seconds: f64) -> String {
    format!("slow.count(file='{}', seconds={seconds})", project.path().join("count").display())
}

fn times(project: &Project) -> usize {
    std::fs::read_to_string(project.path().join("count")).unwrap_or_default().len()
}

async fn finished(server: &HttpServer, id: &str) -> Json {
    let (status, body) = server.get(&format!("/runs/{id}?wait=60")).await;
    assert_eq!(status, 200, "{body}");
    assert!(body["finishedAt"].is_string(), "{body}");
    body
}

#[tokio::test]
async fn a_run_is_started_waited_for_listed_fetched_and_forgotten() {
    let project = project("");
    let server = project.serve_http().await;
    let (status, run) = server.post("/runs", json!({"command": "# first\nslow.nap(seconds=0.3)"})).await;
    assert_eq!((status, &run["status"], &run["title"]), (202, &json!("working"), &json!("# first")), "{run}");
    let id = run["id"].as_str().unwrap();
    let (status, early) = server.get(&format!("/runs/{id}/result")).await;
    assert_eq!((status, &early["error"]["code"]), (409, &json!("conflict")), "{early}");
    let ended = finished(&server, id).await;
    assert_eq!((&ended["status"], &ended["command"]), (&json!("completed"), &json!("# first\nslow.nap(seconds=0.3)")));
    let (status, result) = server.get(&format!("/runs/{id}/result")).await;
    assert_eq!((status, &result["text"], &result["isError"]), (200, &json!("rested"), &json!(false)), "{result}");

    let (_, failing) = server.post("/runs", json!({"command": "1/0"})).await;
    let failed = finished(&server, failing["id"].as_str().unwrap()).await;
    assert_eq!(failed["status"], "failed", "{failed}");
    let (_, page) = server.get("/runs?pageSize=1").await;
    assert_eq!(page["runs"][0]["id"], failing["id"], "the newest comes first: {page}");
    let (_, rest) = server.get(&format!("/runs?pageToken={}", page["nextPageToken"].as_str().unwrap())).await;
    assert_eq!((&rest["runs"][0]["id"], rest["runs"].as_array().unwrap().len()), (&run["id"], 1), "{rest}");

    assert_eq!(server.delete(&format!("/runs/{id}")).await.0, 204);
    assert_eq!(server.get(&format!("/runs/{id}")).await.0, 404);
    for (path, expected) in [("/runs/nonsense", 404), ("/runs?pageToken=x", 400), ("/runs?nope=1", 400)] {
        assert_eq!(server.get(path).await.0, expected, "{path}");
    }
    assert_eq!(server.post("/runs", json!({"code": "1"})).await.0, 400);
    let (_, document) = server.get("/openapi.json").await;
    for path in ["/runs", "/runs/{id}", "/runs/{id}/result", "/runs/{id}/cancel"] {
        assert!(document["paths"][path].is_object(), "{path} is documented");
    }
}

#[tokio::test]
async fn a_background_run_can_be_cancelled_and_their_number_is_bounded() {
    let project = project("background: {max_active: 1}\n");
    let server = project.serve_http().await;
    let (_, run) = server.post("/runs", json!({"command": "slow.nap(seconds=60)"})).await;
    let (status, refused) = server.post("/runs", json!({"command": "1"})).await;
    assert_eq!(status, 503, "{refused}");
    assert!(refused["error"]["hint"].as_str().unwrap().contains("background.max_active"), "{refused}");
    let id = run["id"].as_str().unwrap();
    let (status, cancelled) = server.post(&format!("/runs/{id}/cancel"), Json::Null).await;
    assert_eq!((status, &cancelled["status"]), (200, &json!("cancelled")), "{cancelled}");
    let (status, result) = server.get(&format!("/runs/{id}/result?wait=5")).await;
    assert_eq!(status, 409, "{result}");
    assert_eq!(server.post("/runs", json!({"command": "1"})).await.0, 202, "there is room again");
}

#[tokio::test]
async fn what_a_token_started_belongs_to_it() {
    let tokens = "server:\n  tokens:\n    - {token: first-first-first-first, scopes: [invoke]}\n    - {token: other-other-other-other, scopes: [invoke, read, admin]}\n";
    let project = project(tokens);
    let mut server = project.serve_http().await;
    server.token = Some("first-first-first-first");
    let (_, run) = server.post("/runs", json!({"command": "'mine'"})).await;
    let path = format!("/runs/{}", run["id"].as_str().unwrap());
    finished(&server, run["id"].as_str().unwrap()).await;
    server.token = Some("other-other-other-other");
    for (method, path) in [
        (Method::GET, path.clone()),
        (Method::GET, format!("{path}/result")),
        (Method::POST, format!("{path}/cancel")),
        (Method::POST, format!("{path}/resume")),
        (Method::POST, format!("{path}/abandon")),
        (Method::DELETE, path.clone()),
    ] {
        assert_eq!(server.send(method, &path, Json::Null).await.0, 404, "{path}");
    }
    assert_eq!(server.get("/runs").await.1["runs"], json!([]));
    server.stop().await;
    // The owner is recognised after a restart, although no file contains the token.
    let mut server = project.serve_http().await;
    server.token = Some("first-first-first-first");
    assert_eq!(server.get(&format!("{path}/result")).await.1["text"], "mine");
}

#[tokio::test]
async fn a_run_is_interrupted_when_its_server_ends_and_nobody_knows_what_it_did() {
    let project = project("");
    let server = project.serve_http().await;
    let (_, run) = server.post("/runs", json!({"command": counting(&project, 600.0)})).await;
    eventually("the call is under way", || times(&project) == 1).await;
    server.kill().await;
    let server = project.serve_http().await;
    let ended = finished(&server, run["id"].as_str().unwrap()).await;
    assert_eq!(ended["status"], "interrupted", "{ended}");
    assert!(ended["message"].as_str().unwrap().starts_with("interrupted"), "{ended}");
    // A server that shuts down releases its runs.
    let (_, run) = server.post("/runs", json!({"command": counting(&project, 600.0)})).await;
    eventually("the call is under way", || times(&project) == 2).await;
    server.stop().await;
    let server = project.serve_http().await;
    let ended = finished(&server, run["id"].as_str().unwrap()).await;
    assert_eq!(ended["unknown"][0]["tool"], "slow.count", "{ended}");
    assert_eq!(times(&project), 2, "nothing was repeated");
}

async fn keyed(request: RequestBuilder, key: &str) -> (u16, Json) {
    let response = request.header("idempotency-key", key).send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

#[tokio::test]
async fn a_repeated_request_means_the_same_run() {
    let project = project("");
    let server = project.serve_http().await;
    let command = counting(&project, 0.3);
    let post = |command: &str| server.request(Method::POST, "/runs").json(&json!({"command": command}));
    let (first, run) = keyed(post(&command), "order-17").await;
    let (second, again) = keyed(post(&command), "order-17").await;
    assert_eq!((first, second, &run["id"]), (202, 200, &again["id"]));
    finished(&server, run["id"].as_str().unwrap()).await;
    let (third, _) = keyed(post(&command), "order-17").await;
    assert_eq!((third, times(&project)), (200, 1));
    let (other, refused) = keyed(post("2"), "order-17").await;
    assert_eq!(other, 409, "{refused}");
    assert_eq!(keyed(post("2"), &"k".repeat(300)).await.0, 400);
}

#[tokio::test]
async fn a_run_that_is_waited_for_may_have_a_key_too() {
    let project = project("");
    let server = project.serve_http().await;
    let command = counting(&project, 0.3);
    let post = |command: &str| server.request(Method::POST, "/api/runs").json(&json!({"command": command}));
    let (first, second) = tokio::join!(keyed(post(&command), "order-18"), keyed(post(&command), "order-18"));
    assert_eq!((first.0, second.0), (200, 200), "{first:?} {second:?}");
    assert_eq!((&first.1["run"], &first.1["text"]), (&second.1["run"], &second.1["text"]));
    let streamed = post(&command).header("accept", "text/event-stream").header("idempotency-key", "order-18");
    let events = streamed.send().await.unwrap().text().await.unwrap();
    assert!(events.contains("event: started") && events.contains("event: result"), "{events}");
    assert!(events.contains(first.1["run"].as_str().unwrap()), "{events}");
    assert_eq!(times(&project), 1);
    assert_eq!(keyed(post("2"), "order-18").await.0, 409);

    // A disconnecting client does not end it.
    let gone = post(&counting(&project, 1.0)).header("idempotency-key", "order-19");
    assert!(gone.timeout(std::time::Duration::from_millis(300)).send().await.is_err());
    let (status, answer) = keyed(post(&counting(&project, 1.0)), "order-19").await;
    assert_eq!((status, &answer["isError"], times(&project)), (200, &json!(false), 2), "{answer}");
}

// MCP

fn post(server: &HttpServer, body: &Json) -> RequestBuilder {
    server.request(Method::POST, "/mcp").header("accept", "application/json, text/event-stream").json(body)
}

async fn messages(response: Response) -> Vec<Json> {
    let text = tokio::time::timeout(PATIENCE, response.text()).await.expect("an end").unwrap();
    if let Ok(one) = serde_json::from_str(&text) {
        return vec![one];
    }
    let data = text.lines().filter_map(|line| line.strip_prefix("data:"));
    data.filter_map(|data| serde_json::from_str(data.trim()).ok()).collect()
}

async fn answer(request: RequestBuilder) -> Json {
    messages(request.send().await.unwrap()).await.pop().unwrap_or_default()
}

/// A session of revision 2025-11-25.
struct Session<'s> {
    server: &'s HttpServer,
    id: String,
    initialized: Json,
}

impl<'s> Session<'s> {
    async fn open(server: &'s HttpServer, version: &str, capabilities: Json) -> Self {
        let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": version, "capabilities": capabilities, "clientInfo": {"name": "t", "version": "1"}}});
        let response = post(server, &hello).send().await.unwrap();
        let id = response.headers()["mcp-session-id"].to_str().unwrap().to_owned();
        let initialized = messages(response).await.pop().unwrap()["result"].clone();
        let session = Self { server, id, initialized };
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(session.post(&ready).send().await.unwrap().status(), 202);
        session
    }

    fn post(&self, body: &Json) -> RequestBuilder {
        post(self.server, body).header("mcp-session-id", &self.id)
    }

    async fn ask(&self, method: &str, params: Json) -> Json {
        answer(self.post(&json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}))).await
    }

    async fn task(&self, command: &str) -> Json {
        let params = json!({"name": "run", "arguments": {"command": command}, "task": {"ttl": 60000}});
        let reply = self.ask("tools/call", params).await;
        let task = reply["result"]["task"].clone();
        assert!(task["taskId"].is_string(), "{reply}");
        task
    }
}

#[tokio::test]
async fn tasks_of_2025_are_created_listed_cancelled_and_their_results_fetched() {
    let project = project("");
    let server = project.serve_http().await;
    let session = Session::open(&server, "2025-11-25", json!({})).await;
    let offered = json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}});
    assert_eq!(session.initialized["capabilities"]["tasks"], offered, "{}", session.initialized);
    let tools = session.ask("tools/list", json!({})).await;
    assert_eq!(tools["result"]["tools"][0]["execution"]["taskSupport"], "optional", "{tools}");

    let task = session.task("slow.nap(seconds=0.5)").await;
    assert_eq!((&task["status"], &task["ttl"]), (&json!("working"), &json!(60000)), "{task}");
    let id = json!({"taskId": task["taskId"]});
    let got = session.ask("tasks/get", id.clone()).await;
    assert_eq!((&got["result"]["taskId"], &got["result"]["status"]), (&task["taskId"], &json!("working")), "{got}");
    // Asking for the result waits for it.
    let result = session.ask("tasks/result", id.clone()).await;
    assert_eq!(result["result"]["content"][0]["text"], "rested", "{result}");
    let related = &result["result"]["_meta"]["io.modelcontextprotocol/related-task"];
    assert_eq!(related["taskId"], task["taskId"]);
    assert!(result["result"].get("resultType").is_none(), "{result}");
    let done = session.ask("tasks/get", id.clone()).await;
    assert_eq!(done["result"]["status"], "completed", "{done}");
    let late = session.ask("tasks/cancel", id).await;
    assert_eq!(late["error"]["code"], -32602, "a task that has ended cannot be cancelled: {late}");

    let failing = session.task("1/0").await;
    let result = session.ask("tasks/result", json!({"taskId": failing["taskId"]})).await;
    assert_eq!(result["result"]["isError"], true, "{result}");
    let long = session.task("slow.nap(seconds=60)").await;
    let cancelled = session.ask("tasks/cancel", json!({"taskId": long["taskId"]})).await;
    assert_eq!(cancelled["result"]["status"], "cancelled", "{cancelled}");
    let listed = session.ask("tasks/list", json!({})).await;
    let statuses: Vec<&str> =
        listed["result"]["tasks"].as_array().unwrap().iter().map(|task| task["status"].as_str().unwrap()).collect();
    assert_eq!(statuses, ["cancelled", "failed", "completed"], "{listed}");
    for params in [json!({"taskId": "nope"}), json!({})] {
        let unknown = session.ask("tasks/get", params).await;
        assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
    }
    // Without task support it is a normal call.
    let older = Session::open(&server, "2025-06-18", json!({})).await;
    assert!(older.initialized["capabilities"]["tasks"].is_null(), "{}", older.initialized);
    assert!(older.ask("tools/list", json!({})).await["result"]["tools"][0]["execution"].is_null());
    assert_eq!(older.ask("tasks/list", json!({})).await["error"]["code"], -32601);
}

#[tokio::test]
async fn a_task_of_2025_asks_on_the_connection_that_waits_for_its_result() {
    let project = project("security: {policy: {file.write: ask}}\n");
    let server = project.serve_http().await;
    let session = Session::open(&server, "2025-11-25", json!({"elicitation": {}})).await;
    let task = session.task("file.write('a.txt', 'x'); 'done'").await;
    let id = task["taskId"].as_str().unwrap();
    let until = tokio::time::Instant::now() + PATIENCE;
    while session.ask("tasks/get", json!({"taskId": id})).await["result"]["status"] != "input_required" {
        assert!(tokio::time::Instant::now() < until, "it asks");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let waiting = session.post(&json!({"jsonrpc": "2.0", "id": 9, "method": "tasks/result", "params": {"taskId": id}}));
    let mut stream = waiting.send().await.unwrap();
    let mut seen = String::new();
    while !seen.contains("elicitation/create") {
        seen.push_str(&String::from_utf8_lossy(&stream.chunk().await.unwrap().expect("a question")));
    }
    let question: Json = seen
        .lines()
        .filter_map(|line| line.strip_prefix("data:"))
        .filter_map(|data| serde_json::from_str::<Json>(data.trim()).ok())
        .find(|message| message["method"] == "elicitation/create")
        .unwrap();
    assert_eq!(question["params"]["_meta"]["io.modelcontextprotocol/related-task"]["taskId"], id, "{question}");
    let yes = json!({"jsonrpc": "2.0", "id": question["id"], "result":
        {"action": "accept", "content": {"allow": true}}});
    assert_eq!(session.post(&yes).send().await.unwrap().status(), 202);
    let rest = stream.text().await.unwrap();
    assert!(rest.contains("\"text\":\"done\""), "{rest}");
}

/// A request of revision 2026-07-28.
fn stateless(server: &HttpServer, method: &str, params: Json, capabilities: Json, key: Option<&str>) -> RequestBuilder {
    let mut params = params;
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(ERA);
    params["_meta"]["io.modelcontextprotocol/clientInfo"] = json!({"name": "t", "version": "1"});
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities;
    if let Some(key) = key {
        params["_meta"]["onetool/idempotencyKey"] = json!(key);
    }
    let name = params["name"].as_str().or(params["taskId"].as_str()).map(str::to_owned);
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let request = post(server, &body).header("mcp-protocol-version", ERA).header("mcp-method", method);
    match name {
        Some(name) => request.header("mcp-name", name),
        None => request,
    }
}

fn run(command: &str) -> Json {
    json!({"name": "run", "arguments": {"command": command}})
}

fn tasks() -> Json {
    json!({"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}})
}

#[tokio::test]
async fn a_slow_run_becomes_a_task_for_a_client_of_2026_that_takes_tasks() {
    let project = project("background: {task_after: 0.2}\n");
    let server = project.serve_http().await;
    let ask = |method: &'static str, params: Json| answer(stateless(&server, method, params, tasks(), None));
    let quick = ask("tools/call", run("1 + 1")).await;
    assert_eq!(quick["result"]["content"][0]["text"], "2", "{quick}");
    let mut brief = run("'x' * 1000");
    brief["_meta"] = json!({"anthropic/maxResultSizeChars": 100});
    let brief = ask("tools/call", brief).await;
    assert!(brief["result"]["content"][0]["text"].as_str().unwrap().contains("handle"), "{brief}");
    let created = ask("tools/call", run("slow.nap(seconds=1)")).await;
    let task = &created["result"];
    assert_eq!((&task["resultType"], &task["status"]), (&json!("task"), &json!("working")), "{created}");
    let id = json!({"taskId": task["taskId"]});
    let until = tokio::time::Instant::now() + PATIENCE;
    let done = loop {
        let got = ask("tasks/get", id.clone()).await;
        if got["result"]["status"] != "working" {
            break got;
        }
        assert!(tokio::time::Instant::now() < until, "{got}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert_eq!(done["result"]["status"], "completed", "{done}");
    assert_eq!(done["result"]["result"]["content"][0]["text"], "rested", "{done}");

    let created = ask("tools/call", run("slow.nap(seconds=60)")).await;
    let id = json!({"taskId": created["result"]["taskId"]});
    assert!(ask("tasks/cancel", id.clone()).await["error"].is_null());
    assert_eq!(ask("tasks/get", id.clone()).await["result"]["status"], "cancelled");
    let without = answer(stateless(&server, "tasks/get", id, json!({}), None)).await;
    assert_eq!(without["error"]["code"], -32021, "{without}");
    let plain = answer(stateless(&server, "tools/call", run("slow.nap(seconds=1)"), json!({}), None)).await;
    assert_eq!(plain["result"]["content"][0]["text"], "rested", "others wait: {plain}");
    assert_eq!(ask("tasks/get", json!({"taskId": "nope"})).await["error"]["code"], -32602);
}

#[tokio::test]
async fn what_a_call_asks_of_its_reply_holds_for_keys_and_tasks_too() {
    let project = project("background: {task_after: 0.2}\n");
    let server = project.serve_http().await;
    let session = Session::open(&server, "2025-11-25", json!({})).await;
    let brief = json!({"anthropic/maxResultSizeChars": 100});
    let text = |reply: &Json| reply["result"]["content"][0]["text"].as_str().unwrap_or_default().to_owned();
    let summary = |reply: &Json| serde_json::from_str::<Json>(&text(reply)).unwrap_or_else(|_| panic!("{reply}"));
    let asking = |command: &str, meta: &Json, key: Option<&str>| {
        let mut call = run(command);
        call["_meta"] = meta.clone();
        if let Some(key) = key {
            call["_meta"]["onetool/idempotencyKey"] = json!(key);
        }
        call
    };

    // A run with a key, in a session: each request is answered as it asks.
    let stored = session.ask("tools/call", asking("'x' * 1000", &brief, Some("one"))).await;
    assert_eq!(summary(&stored)["size_bytes"], 1000, "{stored}");
    let handle = summary(&stored)["handle"].as_str().unwrap().to_owned();
    let read = session.ask("tools/call", run(&format!("len(ot.result(handle='{handle}')['lines'][0])"))).await;
    assert_eq!(read["result"]["isError"], false, "{read}");
    let whole = session.ask("tools/call", asking("'x' * 1000", &json!({}), Some("one"))).await;
    assert_eq!(text(&whole), "x".repeat(1000));
    let short = session.ask("tools/call", asking("'x' * 50", &brief, Some("short"))).await;
    assert_eq!(text(&short), "x".repeat(50));
    let large = session.ask("tools/call", asking("'x' * 60000", &brief, Some("large"))).await;
    assert_eq!(summary(&large)["size_bytes"], 60000, "what is a summary already stays: {large}");

    // The same without a session.
    let call = asking("'y' * 1000", &brief, None);
    let stored = answer(stateless(&server, "tools/call", call, json!({}), Some("two"))).await;
    assert_eq!(summary(&stored)["size_bytes"], 1000, "{stored}");

    // Tasks: the result has the form that the call asked for.
    let result = async |command: &str, meta: Json, own: Json| {
        let mut call = asking(command, &meta, None);
        call["task"] = json!({"ttl": 60000});
        let created = session.ask("tools/call", call).await;
        let id = &created["result"]["task"]["taskId"];
        assert!(id.is_string(), "{created}");
        session.ask("tasks/result", json!({"taskId": id, "_meta": own})).await
    };
    let stored = result("'z' * 1000", brief.clone(), json!({})).await;
    assert_eq!(summary(&stored)["size_bytes"], 1000, "{stored}");
    let stored = result("'z' * 1000", json!({}), brief.clone()).await;
    assert_eq!(summary(&stored)["size_bytes"], 1000, "{stored}");
    assert_eq!(text(&result("'z' * 1000", json!({}), json!({})).await), "z".repeat(1000));
    let structured = result("{'a': 1}", json!({"onetool/structuredContent": true}), json!({})).await;
    assert_eq!(structured["result"]["structuredContent"], json!({"a": 1}), "{structured}");

    // A run with a key that became a task.
    let call = asking("slow.nap(seconds=1) * 100", &brief, None);
    let created = answer(stateless(&server, "tools/call", call, tasks(), Some("three"))).await;
    let done = match created["result"]["taskId"].as_str() {
        None => created,
        Some(id) => loop {
            let got = answer(stateless(&server, "tasks/get", json!({"taskId": id}), tasks(), None)).await;
            if got["result"]["status"] != "working" {
                break json!({"result": got["result"]["result"]});
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        },
    };
    assert_eq!(summary(&done)["size_bytes"], 600, "{done}");
}

#[tokio::test]
async fn a_task_of_2026_is_answered_by_an_update() {
    let project = project("background: {task_after: 0.2}\nsecurity: {policy: {file.write: ask}}\n");
    let server = project.serve_http().await;
    let ask = |method: &'static str, params: Json| answer(stateless(&server, method, params, tasks(), None));
    let created = ask("tools/call", run("slow.nap(seconds=1); file.write('a.txt', 'x'); 'done'")).await;
    let id = created["result"]["taskId"].clone();
    assert!(id.is_string(), "{created}");
    let until = tokio::time::Instant::now() + PATIENCE;
    let status = async |wanted: &str| loop {
        let got = ask("tasks/get", json!({"taskId": id})).await;
        if got["result"]["status"] == wanted {
            break got["result"].clone();
        }
        assert!(tokio::time::Instant::now() < until, "{got}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let asking = status("input_required").await;
    let (key, question) = asking["inputRequests"].as_object().unwrap().iter().next().unwrap();
    assert!(question["params"]["message"].as_str().unwrap().contains("file.write"), "{question}");
    let answers = json!({key: {"action": "accept", "content": {"allow": true}}});
    let updated = ask("tasks/update", json!({"taskId": id, "inputResponses": answers})).await;
    assert!(updated["error"].is_null(), "{updated}");
    assert_eq!(status("completed").await["result"]["content"][0]["text"], "done");
}

#[tokio::test]
async fn a_call_that_is_sent_again_after_a_broken_connection_is_the_same_run() {
    let project = project("");
    let server = project.serve_http().await;
    let command = counting(&project, 1.5);
    let call = |key: &'static str| stateless(&server, "tools/call", run(&command), json!({}), Some(key));
    // The first request is abandoned midway.
    let given_up = tokio::time::timeout(Duration::from_millis(600), call("k1").send()).await;
    drop(given_up);
    let again = answer(call("k1")).await;
    assert_eq!(again["result"]["content"][0]["text"], "1", "{again}");
    assert_eq!(answer(call("k1")).await["result"], again["result"], "also after it has ended");
    assert_eq!(times(&project), 1);
    let other = answer(stateless(&server, "tools/call", run("2"), json!({}), Some("k1"))).await;
    assert_eq!(other["result"]["isError"], true, "{other}");
    // Sessions and the header work the same, and share the key's run.
    let session = Session::open(&server, "2025-06-18", json!({})).await;
    let body = json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": run(&command)});
    let older = answer(session.post(&body).header("idempotency-key", "k1")).await;
    assert_eq!(older["result"]["content"][0]["text"], "1", "{older}");
    assert_eq!(times(&project), 1);
}

#[tokio::test]
async fn two_servers_on_one_database_share_background_runs() {
    let database = tokio::task::spawn_blocking(Server::start).await.unwrap();
    let address = database.database("runs");
    let settings = format!("state: {address}\n");
    let projects = [project(&settings), project(&settings)];
    let (one, other) = (projects[0].serve_http().await, projects[1].serve_http().await);
    let (status, run) = one.post("/runs", json!({"command": "slow.nap(seconds=1)"})).await;
    assert_eq!(status, 202, "{run}");
    let id = run["id"].as_str().unwrap();
    finished(&other, id).await;
    assert_eq!(other.get(&format!("/runs/{id}/result")).await.1["text"], "rested");
    assert_eq!(other.get("/runs").await.1["runs"][0]["id"], id);
    let (_, long) = one.post("/runs", json!({"command": "slow.nap(seconds=600)"})).await;
    let path = format!("/runs/{}/cancel", long["id"].as_str().unwrap());
    assert_eq!(other.post(&path, Json::Null).await.1["status"], "cancelled");
    // The same key on both servers is one run.
    let command = counting(&projects[0], 0.5);
    let post = |server: &HttpServer| {
        let request = server.request(Method::POST, "/runs").json(&json!({"command": command}));
        keyed(request, "both")
    };
    let (first, second) = tokio::join!(post(&one), post(&other));
    assert_eq!(first.1["id"], second.1["id"], "{first:?} {second:?}");
    finished(&one, first.1["id"].as_str().unwrap()).await;
    assert_eq!(times(&projects[0]), 1);
    assert!(!projects[0].path().join(".onetool/runs").exists(), "nothing of it is in files");
}
