//! The question whether to trust a folder: at the terminal, and through MCP clients that can ask their user.

use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use reqwest::Method;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationCapability,
    Implementation,
};
use rmcp::service::{RequestContext, RunningService, ServiceExt as _};
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use rmcp::{ClientHandler, ErrorData, RoleClient};
use serde_json::{Value as Json, json};

use crate::client::{Answer, BINARY, HttpServer, Project, call, reply};

/// A cloned repository with a tool file, a server, and a name that tries to inject lines.
fn cloned() -> Project {
    let project = Project::with(&format!(
        "servers:\n  evil: {{command: sh, args: [-c, \"touch {}; sleep 60\"]}}\n",
        "{project}/started"
    ));
    let text = std::fs::read_to_string(project.path().join(".onetool/onetool.yaml")).unwrap();
    project.write(".onetool/onetool.yaml", &text.replace("{project}", &project.path().display().to_string()));
    project.write(".onetool/tools/mine/mine_tools.py", "def f() -> int:\n    \"\"\"One.\"\"\"\n    return 1\n");
    for arguments in [&["init", "-q"][..], &["add", "-A"]] {
        let done = std::process::Command::new("git").args(arguments).current_dir(project.path()).status().unwrap();
        assert!(done.success());
    }
    project
}

/// The output of a command at a terminal where every question gets the same answer.
async fn at_terminal(project: &Project, answer: &str, arguments: &[&str]) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/terminal.py");
    let mut command = project.command(&[]);
    let environment: Vec<_> =
        command.as_std().get_envs().map(|(name, value)| (name.to_owned(), value.map(ToOwned::to_owned))).collect();
    command = tokio::process::Command::new("python3");
    command.arg(script).arg(answer).arg(BINARY).args(arguments).current_dir(project.path());
    for (name, value) in environment {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let output = command.output().await.unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[tokio::test]
async fn a_terminal_is_asked_and_a_no_changes_nothing() {
    let project = cloned();
    for answer in ["", "n", "maybe", "yes please"] {
        let shown = at_terminal(&project, answer, &["run", "mine.f()"]).await;
        assert_eq!(shown.matches("[y/N]").count(), 1, "{answer}: {shown}");
        assert!(shown.contains("server evil: runs sh -c touch"), "{shown}");
        assert!(shown.contains("mine_tools.py: Python, runs outside the sandbox"), "{shown}");
        assert!(shown.contains("onetool trust"), "{answer}: the call itself is refused: {shown}");
        assert!(!project.path().join("started").exists());
    }
    // Everything harmless works meanwhile, and data stays separate from messages.
    let shown = at_terminal(&project, "n", &["run", "1 + 1"]).await;
    assert!(shown.trim_end().ends_with('2'), "{shown}");
}

#[tokio::test]
async fn a_yes_at_the_terminal_trusts_the_folder_for_good() {
    let project = cloned();
    let shown = at_terminal(&project, "y", &["call", "mine.f"]).await;
    assert!(shown.contains("[y/N]") && shown.trim_end().ends_with('1'), "{shown}");
    let shown = at_terminal(&project, "n", &["run", "mine.f()"]).await;
    assert_eq!(shown.trim_end(), "1", "nobody is asked again");
}

#[tokio::test]
async fn without_a_terminal_or_with_the_environments_answer_nobody_is_asked() {
    let project = cloned();
    let output = project.command(&["run", "1 + 1"]).output().await.unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "2\n");
    assert!(!String::from_utf8_lossy(&output.stderr).contains("[y/N]"));
    let mut command = project.command(&["run", "mine.f()"]);
    let output = command.env("ONETOOL_TRUST", "1").output().await.unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "1\n", "{output:?}");
}

#[tokio::test]
async fn what_the_user_wrote_is_used_without_a_question() {
    let project = Project::empty();
    project.write(".onetool/tools/mine/mine_tools.py", "def f() -> int:\n    \"\"\"One.\"\"\"\n    return 1\n");
    assert_eq!(at_terminal(&project, "n", &["run", "mine.f()"]).await.trim_end(), "1");
    let client = User::that_answers(&project, json!({"trust": true})).await;
    assert_eq!(client.run("mine.f()").await.text, "1");
    assert_eq!(client.asked().len(), 0);
}

#[tokio::test]
async fn a_folder_in_use_stays_trusted_when_it_becomes_a_repository() {
    let project = Project::empty();
    project.write(".onetool/tools/mine/mine_tools.py", "def f() -> int:\n    \"\"\"One.\"\"\"\n    return 1\n");
    assert_eq!(project.serve().await.ok("mine.f()").await, "1");
    for arguments in [&["init", "-q"][..], &["add", "-A"]] {
        let done = std::process::Command::new("git").args(arguments).current_dir(project.path()).status().unwrap();
        assert!(done.success());
    }
    assert_eq!(project.serve().await.ok("mine.f()").await, "1");
}

/// A client whose user gives one answer to every question.
#[derive(Clone)]
struct Handler {
    answer: Option<Json>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        capabilities.elicitation = Some(ElicitationCapability::default());
        ClientConfig::new(capabilities, Implementation::new("test", "1"))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let request = serde_json::to_value(&request).unwrap();
        self.asked.lock().push(request["message"].as_str().unwrap_or_default().to_owned());
        Ok(match &self.answer {
            Some(content) => ElicitResult::new(ElicitationAction::Accept).with_content(content.clone()),
            None => ElicitResult::new(ElicitationAction::Decline),
        })
    }
}

struct User {
    service: RunningService<RoleClient, Handler>,
    handler: Handler,
}

impl User {
    async fn that_answers(project: &Project, content: Json) -> Self {
        Self::start(project, Some(content)).await
    }

    async fn start(project: &Project, answer: Option<Json>) -> Self {
        let transport = TokioChildProcess::new(project.command(&["serve"])).unwrap();
        let handler = Handler { answer, asked: Arc::default() };
        let service = handler.clone().serve(transport).await.unwrap();
        Self { service, handler }
    }

    /// With the answer in an environment variable.
    async fn start_decided(project: &Project, decision: &str) -> Self {
        let mut command = project.command(&["serve"]);
        command.env("ONETOOL_TRUST", decision);
        let handler = Handler { answer: Some(json!({"trust": true})), asked: Arc::default() };
        let service = handler.clone().serve(TokioChildProcess::new(command).unwrap()).await.unwrap();
        Self { service, handler }
    }

    /// A client with a session over HTTP.
    async fn over_http(server: &HttpServer, answer: Json) -> Self {
        let handler = Handler { answer: Some(answer), asked: Arc::default() };
        let transport = StreamableHttpClientTransport::from_uri(format!("{}/mcp", server.base));
        let service = handler.clone().serve(transport).await.unwrap();
        Self { service, handler }
    }

    async fn run(&self, command: &str) -> Answer {
        Answer::of(&self.service.call_tool(call(command)).await.unwrap())
    }

    fn asked(&self) -> Vec<String> {
        self.handler.asked.lock().clone()
    }
}

#[tokio::test]
async fn a_clients_user_is_asked_once_and_a_yes_brings_the_parts_to_life() {
    let project = cloned();
    let client = User::that_answers(&project, json!({"trust": true})).await;
    assert_eq!(client.run("mine.f()").await.text, "1");
    assert_eq!(client.run("mine.f()").await.text, "1");
    let asked = client.asked();
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert!(asked[0].contains("server evil: runs sh -c touch"), "{asked:?}");
    assert!(asked[0].contains(".onetool/tools/mine/mine_tools.py"), "{asked:?}");
    // Permanently: no other process asks.
    let other = User::start(&project, None).await;
    assert_eq!(other.run("mine.f()").await.text, "1");
    assert_eq!(other.asked().len(), 0);
}

#[tokio::test]
async fn anything_but_a_clear_yes_holds_for_the_process() {
    for answer in [None, Some(json!({})), Some(json!({"trust": false})), Some(json!({"trust": "yes"}))] {
        let project = cloned();
        let client = User::start(&project, answer.clone()).await;
        for _ in 0..2 {
            let refused = client.run("mine.f()").await;
            assert!(refused.is_error && refused.text.contains("onetool trust"), "{answer:?}: {refused:?}");
        }
        assert_eq!(client.run("1 + 1").await.text, "2");
        assert_eq!(client.asked().len(), 1, "{answer:?}");
        assert!(!project.path().join("started").exists());
        // The next process asks again.
        let next = User::that_answers(&project, json!({"trust": true})).await;
        assert_eq!(next.run("mine.f()").await.text, "1");
    }
}

#[tokio::test]
async fn the_environments_answer_spares_a_clients_user_the_question() {
    let project = cloned();
    let undecided = User::start_decided(&project, "0").await;
    assert!(undecided.run("mine.f()").await.text.contains("onetool trust"));
    assert_eq!(undecided.asked().len(), 0);
    let trusted = User::start_decided(&project, "1").await;
    assert_eq!(trusted.run("mine.f()").await.text, "1");
    assert_eq!(trusted.asked().len(), 0);
}

#[tokio::test]
async fn a_client_with_a_session_over_http_is_asked_too() {
    let project = cloned();
    let server = project.serve_http().await;
    let client = User::over_http(&server, json!({"trust": true})).await;
    assert_eq!(client.run("mine.f()").await.text, "1");
    assert_eq!(client.asked().len(), 1);
}

#[tokio::test]
async fn a_client_that_cannot_ask_is_told_the_next_step() {
    let project = cloned();
    let client = project.serve().await;
    assert!(client.err("mine.f()").await.contains("onetool trust"));
    assert_eq!(client.ok("1 + 1").await, "2");
}

/// A run of revision 2026-07-28, in which the server asks through a result.
async fn stateless_run(server: &HttpServer, command: &str, retry: Option<(&Json, Json)>) -> Json {
    let mut params = json!({"name": "run", "arguments": {"command": command}, "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
    }});
    if let Some((state, answers)) = retry {
        params["requestState"] = state.clone();
        params["inputResponses"] = answers;
    }
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let request = server
        .request(Method::POST, "/mcp")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", "tools/call")
        .header("mcp-name", "run")
        .json(&body);
    let (_, answer) = reply(request).await;
    match answer {
        Json::String(events) => {
            let last = events.lines().filter_map(|line| line.strip_prefix("data:")).next_back().unwrap();
            serde_json::from_str::<Json>(last.trim()).unwrap()["result"].clone()
        }
        answer => answer["result"].clone(),
    }
}

#[tokio::test]
async fn a_client_of_the_new_revision_is_asked_by_a_result() {
    let project = cloned();
    let server = project.serve_http().await;
    let asked = stateless_run(&server, "mine.f()", None).await;
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let (key, question) = asked["inputRequests"].as_object().unwrap().iter().next().unwrap();
    let message = question["params"]["message"].as_str().unwrap();
    assert!(message.contains("server evil: runs sh -c touch") && message.contains("Trust this folder?"), "{message}");
    let yes = json!({key: {"action": "accept", "content": {"trust": true}}});
    let answer = stateless_run(&server, "mine.f()", Some((&asked["requestState"], yes))).await;
    assert_eq!(answer["content"][0]["text"], "1", "{answer}");
}

#[tokio::test]
async fn a_token_without_the_scope_admin_cannot_trust_a_folder() {
    let tokens = "server: {tokens: [{token: iiiiiiiiiiiiiiiiiiii, scopes: [invoke]}, {token: aaaaaaaaaaaaaaaaaaaa, scopes: [admin]}]}\n";
    let project = cloned();
    project.write("home/.onetool/onetool.yaml", tokens);
    let mut server = project.serve_http().await;
    server.token = Some("iiiiiiiiiiiiiiiiiiii");
    let refused = stateless_run(&server, "mine.f()", None).await;
    assert!(refused["content"][0]["text"].as_str().unwrap().contains("onetool trust"), "{refused}");
    server.token = Some("aaaaaaaaaaaaaaaaaaaa");
    assert_eq!(stateless_run(&server, "mine.f()", None).await["resultType"], "input_required");
}
