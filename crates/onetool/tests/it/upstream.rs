//! Other MCP servers as packs, through the real binary.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use rmcp::model::{CallToolRequest, CallToolRequestParams, ClientRequest};
use rmcp::service::PeerRequestOptions;
use serde_json::json;

use crate::client::{PATIENCE, Project};

/// A server without dependencies, which can misbehave.
fn fixture(mode: &str) -> Project {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../onetool-proxy/tests/proxy/server.py");
    let server = json!({"command": "python3", "args": [file, "--mode", mode]});
    Project::with(&json!({"servers": {"up": server, "gone": {"command": "no-such-program-anywhere"}}}).to_string())
}

/// A server that uses the official Python package.
fn package_server() -> Project {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/package_server.py");
    // The package source depends on this machine, and a server does not inherit these variables.
    let is_of_packages = |name: &str| name == "HOME" || ["UV_", "PIP_"].iter().any(|prefix| name.starts_with(prefix));
    let environment: serde_json::Map<_, _> =
        std::env::vars().filter(|(name, _)| is_of_packages(name)).map(|(name, value)| (name, value.into())).collect();
    let server =
        json!({"command": "uv", "args": ["run", "--quiet", "--script", file], "env": environment, "timeout": 100});
    Project::with(&json!({"servers": {"package": server}}).to_string())
}

#[tokio::test]
async fn what_a_server_says_is_logged_and_not_shown_as_ours() {
    let project = fixture("chatty");
    let output = project.command(&["run", "up.echo(text='x')"]).output().await.unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "x\n");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let log = std::fs::read_to_string(project.path().join(".onetool/logs/onetool.log")).unwrap();
    assert!(log.contains("all is lost, it says"), "{log}");
}

#[tokio::test]
async fn one_call_alone_answers_as_it_does_among_others() {
    let project = fixture("normal");
    let client = project.serve().await;
    for call in [
        "up.echo(text='x')",
        "up.echo('x')",
        "up.add(a=1, b=2)",
        "up.several()",
        "up.image()",
        "up.fail()",
        "up.echo(txt='x')",
        "up.echo()",
        "up.echo(text=5)",
        "up.search_repos(query='q', per_page=3)",
        "up.read(uri='note://1')",
        "up.nothing()",
        "gone.echo(text='x')",
        "ot.version()",
        "file.read(path='no such file')",
    ] {
        let alone = client.run(call).await;
        let among = client.run(&format!("0\n{call}")).await;
        assert_eq!(alone.is_error, among.is_error, "{call}: {alone:?}");
        assert_eq!(alone.content.len(), among.content.len(), "{call}: {alone:?}");
        let (alone, among) = (without_times(&alone.text), without_times(&among.text));
        assert_eq!(alone, among.replace("line 2: ", "line 1: "), "{call}");
    }
}

#[tokio::test]
async fn one_call_alone_that_outlasts_its_run_is_told_so() {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../onetool-proxy/tests/proxy/server.py");
    let configuration = json!({
        "run": {"total_timeout": 1},
        "servers": {"up": {"command": "python3", "args": [file]}},
    });
    let project = Project::with(&configuration.to_string());
    let client = project.serve().await;
    // The first call may have to wait for the server.
    let patience = Instant::now() + PATIENCE;
    while client.run("up.echo(text='x')").await.text != "x" {
        assert!(Instant::now() < patience, "the server never answered");
    }
    let late = client.run("up.hang()").await;
    assert!(late.is_error && late.text.contains("run.total_timeout"), "{late:?}");
    assert!(late.text.contains("up.hang"), "{late:?}");
}

/// Removes durations, which differ each time.
fn without_times(text: &str) -> String {
    let is_number = |word: &&str| word.chars().all(|c| c.is_ascii_digit() || c == '.');
    text.split(' ').map(|word| if is_number(&word) { "N" } else { word }).collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn a_server_made_with_the_official_package_works_throughout() {
    let project = package_server();
    let client = project.serve().await;
    assert_eq!(client.run("package.echo(text='grüße')").await.text, "grüße");
    assert_eq!(client.run("package.weather(city='Rome')").await.text, r#"{"city":"Rome","degrees":21.5}"#);
    assert_eq!(client.run("package.names(count=2)").await.text, r#"["n0","n1"]"#);
    assert_eq!(client.run("package.picture()").await.content[0]["type"], "image");
    let broken = client.run("package.broken()").await;
    assert!(broken.is_error && broken.text.contains("Error executing tool broken"), "{broken:?}");
    assert_eq!(client.run("package.steps(count=3)").await.text, "done");
    assert_eq!(client.run("package.read(uri='note://a')").await.text, "a note named a");
    assert!(client.run("package.prompt('greeting', who='Ada')").await.text.contains("Greet Ada"));
    let wrong = client.run("package.names(count='many')").await;
    assert!(wrong.is_error && wrong.text.contains("package.names(count: int)"), "{wrong:?}");
}

#[tokio::test]
async fn cancelling_a_run_reaches_the_server() {
    let project = package_server();
    let client = project.serve().await;
    assert_eq!(client.run("package.echo(text='ready')").await.text, "ready");
    let note = project.path().join("note");
    let mut params = CallToolRequestParams::new("run");
    params.arguments =
        json!({"command": format!("package.slow(file={:?})", note.display().to_string())}).as_object().cloned();
    let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
    let handle = client.service.send_cancellable_request(request, PeerRequestOptions::no_options()).await.unwrap();
    // Once another call has been answered, the first one is certainly active.
    assert_eq!(client.run("package.echo(text='meanwhile')").await.text, "meanwhile");
    handle.cancel(Some("enough".to_owned())).await.unwrap();
    let started = Instant::now();
    while std::fs::read_to_string(&note).unwrap_or_default() != "cancelled" {
        assert!(started.elapsed() < PATIENCE, "the server was not told");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_prompt_takes_an_argument_named_name() {
    let project = fixture("normal");
    let client = project.serve().await;
    // The second one requires full Python.
    for engine in ["", "class Text(str): pass\n"] {
        let code = format!("{engine}x = up.prompt('label', name='Ada')\nx[0]['content']");
        assert_eq!(client.ok(&code).await, "Label Ada", "{engine}");
        let code = format!("{engine}x = up.prompt(name='greet', who='Ada')\nx[0]['content']");
        assert_eq!(client.ok(&code).await, "Greet Ada", "{engine}");
    }
}

#[tokio::test]
async fn a_server_that_hangs_is_told_of_and_not_waited_for_again() {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../onetool-proxy/tests/proxy/server.py");
    let slow = json!({"command": "python3", "args": [file, "--mode", "silent"], "timeout": 4, "retry_after": 300});
    // Waiting as long as discovery does after a start would exceed the timeout.
    let config = json!({"servers": {"slow": slow}, "run": {"total_timeout": 3}});
    let project = Project::with(&config.to_string());
    let tested = project.command(&["servers", "test", "slow"]).output().await.unwrap();
    let (out, err) = (String::from_utf8_lossy(&tested.stdout), String::from_utf8_lossy(&tested.stderr));
    assert_eq!(tested.status.code(), Some(1), "{out}{err}");
    assert!(err.contains("slow: waiting for the answer to ") && err.contains("so far, at most 4 s)"), "{err}");
    assert!(out.contains("it was not ready within 4 s"), "{out}");
    for code in ["len(ot.packs()) > 0", "len(ot.tools()) > 0", "len(ot.help()) > 0"] {
        let output = project.command(&["run", code]).output().await.unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "True\n", "{code}: {err}");
    }
    let client = project.serve().await;
    let mut answer = String::new();
    let started = Instant::now();
    while !answer.contains("the next try is due in") {
        assert!(started.elapsed() < PATIENCE, "{answer}");
        answer = client.run("slow.echo(text='x')").await.text;
    }
    assert!(answer.contains("it was not ready within 4 s"), "{answer}");
    let health = client.ok("ot.health()").await;
    assert!(health.contains("the next try is due in"), "{health}");
}
