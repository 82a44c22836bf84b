//! Runs that survive their server: taken over, interrupted, resumed, suspended until a decision, placed by tags.

use std::path::{Path, PathBuf};
use std::process::Output;

use onetool_state_postgres::testing::Server;
use reqwest::Method;
use serde_json::{Value as Json, json};

use crate::client::{HttpServer, PATIENCE, Project, eventually};

const TOOLS: &str = "\
import pathlib, time
import onetool
from onetool import tool

@tool(read_only=True)
def look(file: str) -> int:
    return stall(file)

@onetool.tool(idempotent=True)
def put(file: str) -> int:
    return stall(file)

def stall(file: str) -> int:
    'The first time it never comes back.'
    count = note(file, 'asked')
    if count == 1:
        time.sleep(600)
    return count

def note(file: str, text: str, seconds: float = 0) -> int:
    path = pathlib.Path(file)
    with path.open('a') as out:
        out.write(text + '\\n')
    time.sleep(seconds)
    return len(path.read_text().splitlines())
";

/// A server whose tools never return the first time; one of them is declared read-only.
const UPSTREAM: &str = r#"
import json, pathlib, sys, time
schema = {"type": "object", "properties": {"file": {"type": "string"}}, "required": ["file"]}
tools = [{"name": "peek", "inputSchema": schema, "annotations": {"readOnlyHint": True}},
         {"name": "poke", "inputSchema": schema, "annotations": {"readOnlyHint": False, "idempotentHint": False}}]
for line in sys.stdin:
    message = json.loads(line)
    method, answer = message.get("method"), None
    if method == "initialize":
        answer = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "u", "version": "1"}}
    elif method == "tools/list":
        answer = {"tools": tools}
    elif method == "tools/call":
        path = pathlib.Path(message["params"]["arguments"]["file"])
        with path.open("a") as out:
            out.write("asked\n")
        if len(path.read_text().splitlines()) == 1:
            continue
        answer = {"content": [{"type": "text", "text": "answered"}]}
    if "id" in message:
        reply = {"result": answer} if answer is not None else {"error": {"code": -32601, "message": "unknown"}}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **reply}), flush=True)
"#;

/// Code that waits until its server has a certain file.
const UNTIL_GO: &str = "import os, time\nwhile not os.path.exists('go'):\n    time.sleep(0.05)\n";

fn project(configuration: &str) -> Project {
    let project = Project::with(configuration);
    project.write(".onetool/tools/notes/notes_tools.py", TOOLS);
    project.write("upstream.py", UPSTREAM);
    project
}

fn lines(path: &Path) -> Vec<String> {
    std::fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
}

async fn start(server: &HttpServer, command: &str) -> String {
    let (status, run) = server.post("/runs", json!({"command": command})).await;
    assert_eq!(status, 202, "{run}");
    run["id"].as_str().unwrap().to_owned()
}

async fn until(server: &HttpServer, id: &str, wanted: &str) -> Json {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        let (_, run) = server.get(&format!("/runs/{id}?wait=10")).await;
        if run["status"] == wanted {
            return run;
        }
        let goes_on = ["queued", "working", "suspended"].contains(&run["status"].as_str().unwrap_or_default());
        assert!(goes_on && tokio::time::Instant::now() < deadline, "not {wanted}: {run}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

async fn result(server: &HttpServer, id: &str) -> String {
    until(server, id, "completed").await;
    let (status, body) = server.get(&format!("/runs/{id}/result")).await;
    assert_eq!(status, 200, "{body}");
    body["text"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn another_server_goes_on_with_the_runs_of_one_that_was_killed() {
    let database = tokio::task::spawn_blocking(Server::start).await.unwrap();
    let settings = format!(
        "state: {}\nserver: {{drain: 2}}\nservers: {{up: {{command: python3, args: [upstream.py], timeout: 300}}}}\n",
        database.database("durable")
    );
    let projects = [project(&settings), project(&settings), project(&settings)];
    // The first server never gets the file that runs wait for.
    for project in &projects[1..] {
        project.write("go", "");
    }
    let file = |name: &str| -> PathBuf { projects[0].path().join(name) };
    let note = |name: &str, text: &str, seconds: f64| {
        format!("notes.note(file='{}', text={text}, seconds={seconds})", file(name).display())
    };
    let one = projects[0].serve_http().await;
    // Known outcomes are not repeated.
    let plain = format!("a = {}\n{UNTIL_GO}[a, {}]", note("plain", "'first'", 0.0), note("plain", "'second'", 0.0));
    // Random values and clocks give the same results again.
    let chance = format!(
        "import datetime, random, secrets, time, uuid\n\
         t = [random.random(), secrets.token_hex(4), str(uuid.uuid4()), time.time(), datetime.datetime.now().isoformat()]\n\
         {}\n{UNTIL_GO}{}\nisinstance(datetime.datetime.now(), datetime.datetime)",
        note("chance", "str(t)", 0.0),
        note("chance", "str(t)", 0.0)
    );
    // The outcome of an active call is unknown.
    let unknown = format!(
        "{}\ntry:\n    {}\nexcept Exception as error:\n    r = str(error)\nr",
        note("unknown", "'before'", 0.0),
        note("unknown", "'during'", 600.0)
    );
    // Code that behaves differently the second time is stopped.
    let strays = format!("import time\nx = str(time.perf_counter_ns())\n{}\n{UNTIL_GO}", note("strays", "x", 0.0));
    // Tools declared as read-only or idempotent are called again.
    let [look, put] = ["look", "put"].map(|name| format!("notes.{name}(file='{}')", file(name).display()));
    let [peek, poke] = ["peek", "poke"].map(|name| format!("up.{name}(file='{}')", file(name).display()));
    let mut ids = Vec::new();
    for command in [&plain, &chance, &unknown, &strays, &look, &put, &peek, &poke] {
        ids.push(start(&one, command).await);
    }
    for (name, count) in
        [("plain", 1), ("chance", 1), ("unknown", 2), ("strays", 1), ("look", 1), ("put", 1), ("peek", 1), ("poke", 1)]
    {
        eventually(name, || lines(&file(name)).len() == count).await;
    }
    // A tool's effect is visible before its outcome is recorded: only counted outcomes are known.
    let deadline = tokio::time::Instant::now() + PATIENCE;
    let counted = |text: &str| {
        let parts = [r#"outcome="ok""#, r#"pack="notes""#, "} 4"];
        text.lines()
            .any(|line| line.starts_with("onetool_calls_total{") && parts.iter().all(|part| line.contains(part)))
    };
    while !counted(&one.request(Method::GET, "/metrics").send().await.unwrap().text().await.unwrap()) {
        assert!(tokio::time::Instant::now() < deadline, "four calls are never counted");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    one.kill().await;
    let (two, three) = (projects[1].serve_http().await, projects[2].serve_http().await);

    assert_eq!(result(&two, &ids[0]).await, "[1,2]");
    assert_eq!(lines(&file("plain")), ["first", "second"]);
    assert_eq!(result(&three, &ids[1]).await, "True");
    let chances = lines(&file("chance"));
    assert!(chances.len() == 2 && chances[0] == chances[1], "{chances:?}");

    for (name, id) in [("look", &ids[4]), ("put", &ids[5])] {
        assert_eq!(result(&two, id).await, "2", "{name}");
        assert_eq!(lines(&file(name)).len(), 2, "{name}: once by each server");
    }
    assert_eq!(result(&three, &ids[6]).await, "answered");
    let ended = until(&three, &ids[7], "interrupted").await;
    assert_eq!(ended["unknown"][0]["tool"], "up.poke", "{ended}");
    assert_eq!((lines(&file("peek")).len(), lines(&file("poke")).len()), (2, 1));

    let ended = until(&three, &ids[2], "interrupted").await;
    assert_eq!(ended["done"].as_array().unwrap().len(), 1, "{ended}");
    assert_eq!(ended["unknown"][0]["tool"], "notes.note", "{ended}");
    assert!(ended["unknown"][0]["arguments"].as_str().unwrap().contains("during"), "{ended}");
    assert!(
        ended["finishedAt"].is_string() && ended["message"].as_str().unwrap().starts_with("interrupted"),
        "{ended}"
    );
    let (status, resumed) = two.post(&format!("/runs/{}/resume", ids[2]), json!({"unknown": "raise"})).await;
    // A server may have taken it already.
    assert!(status == 202 && ["queued", "working"].map(|one| json!(one)).contains(&resumed["status"]), "{resumed}");
    let text = result(&three, &ids[2]).await;
    assert!(text.contains("nobody knows whether notes.note took place"), "{text}");
    assert_eq!(lines(&file("unknown")), ["before", "during"], "neither was repeated");

    let ended = until(&two, &ids[3], "interrupted").await;
    assert!(ended["message"].as_str().unwrap().contains("another way"), "{ended}");
    assert_eq!(lines(&file("strays")).len(), 1, "what it wanted instead was not done");
    let path = format!("/runs/{}/abandon", ids[3]);
    assert_eq!(three.post(&path, Json::Null).await.1["status"], "cancelled");
    assert_eq!(three.post(&path, Json::Null).await.0, 409);

    // A server that shuts down releases its runs.
    std::fs::remove_file(projects[1].path().join("go")).unwrap();
    let handed = start(&two, &plain.replace("/plain", "/handed")).await;
    eventually("handed", || lines(&file("handed")).len() == 1).await;
    two.stop().await;
    assert_eq!(result(&three, &handed).await, "[1,2]");
}

#[tokio::test]
async fn runs_wait_for_a_server_that_has_their_tags() {
    let database = tokio::task::spawn_blocking(Server::start).await.unwrap();
    let settings = format!("state: {}\n", database.database("tags"));
    let (plain, other) = (Project::with(&settings), project(&format!("{settings}server: {{tags: [gpu]}}\n")));
    let one = plain.serve_http().await;
    let tagged = async |tags: Json| one.post("/runs", json!({"command": "6 * 7", "tags": tags})).await.1;
    let (gpu, pack, nobody) =
        (tagged(json!(["gpu"])).await, tagged(json!(["pack:notes"])).await, tagged(json!(["moon"])).await);
    assert_eq!((&gpu["status"], &gpu["tags"]), (&json!("queued"), &json!(["gpu"])), "{gpu}");
    let here = tagged(json!(["pack:file"])).await;
    assert_eq!(here["status"], "working", "it is here: {here}");
    let _other = other.serve_http().await;
    for run in [&gpu, &pack, &here] {
        assert_eq!(result(&one, run["id"].as_str().unwrap()).await, "42");
    }
    let id = nobody["id"].as_str().unwrap();
    // Queued runs that no server can take appear in the metrics of every server.
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        let text = one.request(Method::GET, "/metrics").send().await.unwrap().text().await.unwrap();
        let has = |line: &str| text.lines().any(|found| found == line);
        let age = text.lines().find_map(|line| line.strip_prefix("onetool_queue_oldest_seconds "));
        let age: f64 = age.unwrap_or("0").parse().unwrap();
        if has("onetool_queue_runs 1") && has("onetool_queue_tagged_runs{tag=\"moon\"} 1") && age > 0.0 {
            break;
        }
        assert!(tokio::time::Instant::now() < deadline, "{text}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert_eq!(one.get(&format!("/runs/{id}")).await.1["status"], "queued");
    assert_eq!(one.post(&format!("/runs/{id}/cancel"), Json::Null).await.1["status"], "cancelled");
    assert_eq!(tagged(json!([""])).await["error"]["code"], "invalid");
}

const ASKING: &str = "security: {policy: {file.write: ask}}\n";

/// The ids of the approval and of the run in a reply.
fn named(text: &str) -> (String, String) {
    let after = |label: &str| {
        let rest = text.split_once(label).unwrap_or_else(|| panic!("no {label} in {text}")).1;
        rest.split_whitespace().next().unwrap().to_owned()
    };
    (after("onetool approve "), after("run: "))
}

async fn onetool(project: &Project, arguments: &[&str]) -> (Output, String) {
    let output = project.command(arguments).output().await.unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    (output, text)
}

#[tokio::test]
async fn a_run_waits_for_a_permission_without_a_process() {
    let project = project(ASKING);
    let counted = project.path().join("counted");
    let command =
        format!("n = notes.note(file='{}', text='once')\nfile.write('a.txt', 'x')\nf'done {{n}}'", counted.display());
    // A client that cannot be asked: its run waits, even after its server has ended.
    let client = project.serve().await;
    let text = client.err(&command).await;
    assert!(text.contains("needs the user's permission") && text.contains("a.txt"), "{text}");
    let (approval, run) = named(&text);
    let still = client.err(&format!("ot.resume('{run}')")).await;
    assert!(still.contains("still waits") && still.contains(&approval), "{still}");
    drop(client);
    let (_, listed) = onetool(&project, &["approve"]).await;
    assert!(listed.contains(&approval) && listed.contains("file.write"), "{listed}");
    let (_, listed) = onetool(&project, &["runs", "list"]).await;
    assert!(listed.contains("suspended"), "{listed}");
    assert!(!project.path().join("a.txt").exists());
    // No server runs: the approving command continues the run.
    let (output, text) = onetool(&project, &["approve", &approval[..8]]).await;
    assert!(output.status.success() && text.contains("done 1"), "{text}");
    assert_eq!(lines(&counted), ["once"], "what it did before is not done again");
    assert_eq!(std::fs::read_to_string(project.path().join("a.txt")).unwrap(), "x");
    let (output, text) = onetool(&project, &["approve", &approval]).await;
    assert!(!output.status.success() && text.contains("decided already"), "{text}");
    // Its result is available later.
    let client = project.serve().await;
    assert_eq!(client.ok(&format!("ot.resume('{run}')")).await, "done 1");
    assert!(client.err("ot.resume('00000000000000000000000000000000')").await.contains("no such run"));
    // A denial is final.
    let (approval, run) = named(&client.err("file.write('b.txt', 'x')\n'written'").await);
    let (_, text) = onetool(&project, &["deny", &approval]).await;
    assert!(text.contains("denied"), "{text}");
    let text = client.err(&format!("ot.resume('{run}')")).await;
    assert!(text.contains("PermissionError") && text.contains("declined"), "{text}");
    assert!(!project.path().join("b.txt").exists());
}

#[tokio::test]
async fn a_background_run_is_approved_on_the_page_and_goes_on_after_a_restart() {
    let project = project(ASKING);
    let server = project.serve_http().await;
    let id = start(&server, "file.write('a.txt', 'x')\n'written'").await;
    let waiting = until(&server, &id, "suspended").await;
    let approval = waiting["approval"].as_str().unwrap().to_owned();
    assert!(waiting["message"].as_str().unwrap().contains("file.write"), "{waiting}");
    // In a direct call, a client that cannot be asked gets the same message, with the place to decide.
    let text = server.mcp().await.err("file.write('c.txt', 'x')").await;
    assert!(text.contains(&format!("{}/#/approvals", server.base)), "{text}");
    server.kill().await;

    let server = project.serve_http().await;
    let shown = async || server.get("/api/approvals").await.1["approvals"].to_string();
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while !shown().await.contains(&approval) {
        assert!(tokio::time::Instant::now() < deadline, "it is shown");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    let (status, body) = server.post(&format!("/api/approvals/{approval}"), json!({"decision": "once"})).await;
    assert_eq!(status, 204, "{body}");
    assert_eq!(result(&server, &id).await, "written");
    assert!(project.path().join("a.txt").exists() && !project.path().join("c.txt").exists());
    assert_eq!(server.post(&format!("/api/approvals/{approval}"), json!({"decision": "once"})).await.0, 404);
    // A cancelled run waits for nobody.
    let id = start(&server, "file.write('d.txt', 'x')").await;
    let approval = until(&server, &id, "suspended").await["approval"].as_str().unwrap().to_owned();
    assert_eq!(server.post(&format!("/runs/{id}/cancel"), Json::Null).await.1["status"], "cancelled");
    assert_eq!(server.post(&format!("/api/approvals/{approval}"), json!({"decision": "once"})).await.0, 404);
}

#[tokio::test]
async fn a_decision_whose_server_died_at_once_lets_its_run_go_on() {
    let project = project(ASKING);
    let server = project.serve_http().await;
    let id = start(&server, "file.write('a.txt', 'x')\n'written'").await;
    let approval = until(&server, &id, "suspended").await["approval"].as_str().unwrap().to_owned();
    server.kill().await;
    // Simulates a crash after the decision was written and before anybody was notified.
    let folder = project.path().join(".onetool/runs/approvals");
    let file = std::fs::read_dir(folder)
        .unwrap()
        .flatten()
        .find(|file| file.path().is_file() && file.file_name().to_string_lossy().contains(&approval));
    let file = file.expect("the permission has a file").path();
    let mut document: Json = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    document["verdict"] = json!({"is_allowed": true, "at": "2026-01-01T00:00:00Z", "by": "admin page"});
    std::fs::write(&file, document.to_string()).unwrap();

    let server = project.serve_http().await;
    assert_eq!(result(&server, &id).await, "written");
}

#[tokio::test]
async fn nobody_who_decides_in_time_is_a_no() {
    let project = project(&format!("{ASKING}background: {{approval_ttl: 0.2}}\n"));
    let server = project.serve_http().await;
    let id = start(&server, "file.write('a.txt', 'x')").await;
    let ended = until(&server, &id, "failed").await;
    let (_, body) = server.get(&format!("/runs/{id}/result")).await;
    assert!(body["text"].as_str().unwrap().contains("PermissionError"), "{ended} {body}");
    assert!(!project.path().join("a.txt").exists());
}

#[tokio::test]
async fn every_run_is_recorded_where_the_configuration_says_so() {
    let project = project("run: {durable: true}\n");
    let server = project.serve_http().await;
    assert_eq!(server.mcp().await.ok("6 * 7").await, "42");
    let (_, page) = server.get("/runs").await;
    assert_eq!(
        (&page["runs"][0]["title"], &page["runs"][0]["status"]),
        (&json!("6 * 7"), &json!("completed")),
        "{page}"
    );
}
