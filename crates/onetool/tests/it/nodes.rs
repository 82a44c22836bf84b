//! Several servers behind a load balancer that alternates between them: sessions, questions and their answers.

use onetool_state_postgres::testing::Server;
use reqwest::{Method, RequestBuilder, Response};
use serde_json::{Value as Json, json};

use crate::client::{HttpServer, PATIENCE, Project};

const ERA: &str = "2026-07-28";
const ASKING: &str = "security: {policy: {file.write: ask}}\nbackground: {task_after: 0.2}\n\
                      http: {allowed_hosts: [example.com]}\nrun: {timeout: 600}\n";

/// Two servers with shared state and separate folders.
struct Team {
    projects: [Project; 2],
    servers: [HttpServer; 2],
    database: Option<Server>,
}

impl Team {
    async fn start() -> Self {
        let database = tokio::task::spawn_blocking(Server::start).await.unwrap();
        let settings = format!("state: {}\n{ASKING}", database.database("team"));
        let projects = [Project::with(&settings), Project::with(&settings)];
        let servers = [projects[0].serve_http().await, projects[1].serve_http().await];
        for server in &servers {
            let deadline = tokio::time::Instant::now() + PATIENCE;
            while server.get("/readyz").await.0 != 200 {
                assert!(tokio::time::Instant::now() < deadline, "not ready");
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        }
        Self { projects, servers, database: Some(database) }
    }

    async fn change_database(&mut self, change: fn(&mut Server)) {
        let mut database = self.database.take().unwrap();
        let changed = tokio::task::spawn_blocking(move || {
            change(&mut database);
            database
        });
        self.database = Some(changed.await.unwrap());
    }

    fn post(&self, server: usize, session: Option<&str>, body: &Json) -> RequestBuilder {
        let request = self.servers[server].request(Method::POST, "/mcp").timeout(PATIENCE);
        let request = request.header("accept", "application/json, text/event-stream").json(body);
        match session {
            Some(session) => request.header("mcp-session-id", session),
            None => request,
        }
    }

    async fn stateless(&self, server: usize, method: &str, mut params: Json, capabilities: Json) -> Json {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": ERA,
            "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": capabilities,
        });
        let name = params["name"].as_str().or(params["taskId"].as_str()).unwrap_or("-").to_owned();
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let request = self.post(server, None, &body).header("mcp-protocol-version", ERA).header("mcp-method", method);
        messages(request.header("mcp-name", name).send().await.unwrap()).await.pop().unwrap_or_default()
    }

    /// A session that the first server opened for a client that can be asked.
    async fn session(&self) -> String {
        let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}},
            "clientInfo": {"name": "legacy", "version": "1"}}});
        let response = self.post(0, None, &hello).send().await.unwrap();
        let id = response.headers()["mcp-session-id"].to_str().unwrap().to_owned();
        response.bytes().await.unwrap();
        id
    }

    async fn ask(&self, server: usize, session: &str, method: &str, params: Json) -> (u16, Json) {
        let body = json!({"jsonrpc": "2.0", "id": 5, "method": method, "params": params});
        let response = self.post(server, Some(session), &body).send().await.unwrap();
        let status = response.status().as_u16();
        (status, messages(response).await.pop().unwrap_or_default())
    }
}

async fn messages(response: Response) -> Vec<Json> {
    let text = response.text().await.unwrap();
    let events: Vec<Json> = text
        .lines()
        .filter_map(|line| line.strip_prefix("data:"))
        .filter_map(|data| serde_json::from_str(data.trim()).ok())
        .collect();
    if events.is_empty() { serde_json::from_str(&text).into_iter().collect() } else { events }
}

fn run(command: &str) -> Json {
    json!({"name": "run", "arguments": {"command": command}})
}

#[tokio::test]
async fn a_question_of_one_server_is_answered_at_another() {
    let team = Team::start().await;
    let call = run("file.write('a.txt', 'x'); file.write('b.txt', 'y'); 'done'");
    let capabilities = json!({"elicitation": {}});
    let mut answer = team.stateless(0, "tools/call", call.clone(), capabilities.clone()).await;
    // Each retry reaches a different server than the previous one.
    for server in [1, 0] {
        assert_eq!(answer["result"]["resultType"], "input_required", "{answer}");
        let key = answer["result"]["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
        let mut retry = call.clone();
        retry["requestState"] = answer["result"]["requestState"].clone();
        retry["inputResponses"] = json!({key: {"action": "accept", "content": {"allow": true}}});
        answer = team.stateless(server, "tools/call", retry.clone(), capabilities.clone()).await;
        let again = team.stateless(1 - server, "tools/call", retry, capabilities.clone()).await;
        assert_eq!(again["error"]["code"], -32602, "a state holds once, wherever: {again}");
    }
    assert_eq!(answer["result"]["content"][0]["text"], "done", "{answer}");
    assert!(team.projects[0].path().join("b.txt").exists(), "the first server has made the calls");
    assert!(!team.projects[1].path().join("a.txt").exists());
    let letters = "SELECT count(*) FROM onetool_documents WHERE collection = 'letters' AND content IS NOT NULL";
    let left = team.database.as_ref().unwrap().ask("team", letters);
    assert_eq!(left, "0", "nothing is left on the way");
}

#[tokio::test]
async fn a_task_is_answered_at_another_server() {
    let team = Team::start().await;
    let capabilities = json!({"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}});
    let command = "import time; time.sleep(0.6); file.write('a.txt', 'x'); 'done'";
    let created = team.stateless(0, "tools/call", run(command), capabilities.clone()).await;
    let id = created["result"]["taskId"].clone();
    assert!(id.is_string(), "{created}");
    let until = async |wanted: &str, server: usize| {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let got = team.stateless(server, "tasks/get", json!({"taskId": id}), capabilities.clone()).await;
            if got["result"]["status"] == wanted {
                return got["result"].clone();
            }
            assert!(tokio::time::Instant::now() < deadline, "{got}");
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    // Its question is known to all servers.
    let asking = until("input_required", 1).await;
    let key = asking["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    let answers = json!({"taskId": id, "inputResponses": {key: {"action": "accept", "content": {"allow": true}}}});
    let updated = team.stateless(1, "tasks/update", answers, capabilities.clone()).await;
    assert!(updated["error"].is_null(), "{updated}");
    assert_eq!(until("completed", 1).await["result"]["content"][0]["text"], "done");
}

#[tokio::test]
async fn a_session_of_an_older_revision_works_on_every_server() {
    let mut team = Team::start().await;
    let session = team.session().await;
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(team.post(1, Some(&session), &ready).send().await.unwrap().status(), 202, "at once, at the other one");
    for server in [1, 0, 1] {
        let (status, listed) = team.ask(server, &session, "tools/list", json!({})).await;
        assert_eq!((status, &listed["result"]["tools"][0]["name"]), (200, &json!("run")), "{listed}");
    }

    // The second server asks, and the first gets the answer.
    let call = json!({"jsonrpc": "2.0", "id": 9, "method": "tools/call",
        "params": run("file.write('a.txt', 'x'); 'done'")});
    let mut stream = team.post(1, Some(&session), &call).send().await.unwrap();
    let mut seen = String::new();
    let question = loop {
        let question = seen
            .lines()
            .filter_map(|line| serde_json::from_str::<Json>(line.strip_prefix("data:")?.trim()).ok())
            .find(|message| message["method"] == "elicitation/create");
        if let Some(question) = question {
            break question;
        }
        let chunk = tokio::time::timeout(PATIENCE, stream.chunk()).await.unwrap().unwrap();
        seen.push_str(&String::from_utf8_lossy(&chunk.unwrap_or_else(|| panic!("it ended: {seen}"))));
    };
    let yes = json!({"jsonrpc": "2.0", "id": question["id"],
        "result": {"action": "accept", "content": {"allow": true}}});
    let accepted = team.post(0, Some(&session), &yes).send().await.unwrap();
    assert_eq!(accepted.status(), 202);
    let rest = tokio::time::timeout(PATIENCE, stream.text()).await.unwrap().unwrap();
    assert!(rest.contains("done"), "{seen}{rest}");

    // Another session, and the state becomes unavailable: a session id is self-contained.
    let session = team.session().await;
    team.change_database(Server::stop).await;
    let (status, listed) = team.ask(1, &session, "tools/list", json!({})).await;
    assert_eq!((status, &listed["result"]["tools"][0]["name"]), (200, &json!("run")), "{listed}");
    team.change_database(Server::restart).await;

    // A session that its client has ended is over on all servers, and a forged one is refused.
    let session = team.session().await;
    let ended =
        team.servers[0].request(Method::DELETE, "/mcp").header("mcp-session-id", &session).send().await.unwrap();
    assert_eq!(ended.status(), 204);
    for server in [0, 1] {
        assert_eq!(team.ask(server, &session, "tools/list", json!({})).await.0, 404);
        let forged = format!("{}x", &session[..session.len() - 3]);
        assert_eq!(team.ask(server, &forged, "tools/list", json!({})).await.0, 404);
    }
}

#[tokio::test]
async fn what_a_client_watches_at_one_server_is_told_on_its_stream_at_another() {
    let team = Team::start().await;
    let session = team.session().await;
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(team.post(0, Some(&session), &ready).send().await.unwrap().status(), 202);
    // The stream is open on the second server before the first receives the subscription.
    let stream = team.servers[1].request(Method::GET, "/mcp").header("accept", "text/event-stream");
    let mut stream = stream.header("mcp-session-id", &session).send().await.unwrap();
    assert_eq!(stream.status(), 200);
    let (status, watched) = team.ask(0, &session, "resources/subscribe", json!({"uri": "ot://tools"})).await;
    assert_eq!((status, &watched["error"]), (200, &Json::Null), "{watched}");
    let mut seen = String::new();
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while !seen.contains("notifications/resources/updated") {
        assert!(tokio::time::Instant::now() < deadline, "it is never told: {seen}");
        // Tools are added until the second server knows of the subscription.
        let bundle = format!("/tools/bundles/{}", uuid::Uuid::now_v7());
        let slug = format!("b{}", uuid::Uuid::new_v4().simple());
        assert_eq!(team.servers[0].put(&bundle, json!({"slug": slug})).await.0, 201);
        let tool = json!({"type": "http", "description": "asks", "argSchema": {"type": "object"},
            "impl": {"urlTemplate": "https://example.com/"}});
        assert_eq!(team.servers[0].put(&format!("{bundle}/tools/t/version/v1"), tool).await.0, 201);
        let pause = std::time::Duration::from_secs(1);
        if let Ok(chunk) = tokio::time::timeout(pause, stream.chunk()).await {
            let chunk = chunk.unwrap().unwrap_or_else(|| panic!("it ended: {seen}"));
            seen.push_str(&String::from_utf8_lossy(&chunk));
        }
    }
}

#[tokio::test]
async fn who_looks_at_one_server_decides_at_another() {
    let team = Team::start().await;
    let looking = team.servers[0].request(Method::GET, "/api/events").header("accept", "text/event-stream");
    let looking = looking.send().await.unwrap();
    assert_eq!(looking.status(), 200);
    let asking = team.servers[0].post("/api/runs", json!({"command": "file.write('b.txt', 'x')\n'written'"}));
    let (_, answer) = tokio::time::timeout(PATIENCE, asking).await.expect("it waits where only one server knows of it");
    let text = answer["text"].as_str().unwrap();
    let after = |mark: &str| text.split(mark).nth(1).and_then(|rest| rest.split_whitespace().next()).unwrap();
    let decide = format!("/api/approvals/{}", after("onetool approve "));
    let (status, said) = team.servers[1].post(&decide, json!({"decision": "once"})).await;
    assert_eq!(status, 204, "{said}");
    let (_, run) = team.servers[1].get(&format!("/runs/{}?wait=60", after("run: "))).await;
    assert_eq!(run["status"], "completed", "{run}");
}

#[tokio::test]
async fn a_run_is_cancelled_whichever_server_hears_of_it() {
    let team = Team::start().await;
    let session = team.session().await;
    let metrics = async |wanted: &str| {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let response = team.servers[0].request(Method::GET, "/metrics").send().await.unwrap();
            let text = response.text().await.unwrap();
            if text.lines().any(|line| line == wanted) {
                return;
            }
            assert!(tokio::time::Instant::now() < deadline, "never {wanted}: {text}");
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    let call = json!({"jsonrpc": "2.0", "id": 9, "method": "tools/call",
        "params": run("import time; time.sleep(500); 'done'")});
    let stream = team.post(0, Some(&session), &call).send().await.unwrap();
    metrics("onetool_runs_in_progress 1").await;
    let cancel = |request: Json| json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": request}});
    for request in [json!("9"), json!(8), json!(9)] {
        assert_eq!(team.post(1, Some(&session), &cancel(request)).send().await.unwrap().status(), 202);
    }
    metrics("onetool_runs_in_progress 0").await;
    metrics("onetool_runs_total{outcome=\"error\"} 1").await;
    let rest = tokio::time::timeout(PATIENCE, stream.text()).await.unwrap().unwrap();
    assert!(!rest.contains("done"), "{rest}");
    let letters = "SELECT count(*) FROM onetool_documents WHERE collection = 'letters' AND content IS NOT NULL";
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while team.database.as_ref().unwrap().ask("team", letters) != "0" {
        assert!(tokio::time::Instant::now() < deadline, "something is left on the way");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn a_server_that_does_not_keep_what_a_client_missed_says_so() {
    let team = Team::start().await;
    let session = team.session().await;
    let call = json!({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": run("'done'")});
    let seen = team.post(0, Some(&session), &call).send().await.unwrap().text().await.unwrap();
    let event = seen.lines().find_map(|line| line.strip_prefix("id:")).expect(&seen).trim().to_owned();
    let resume = async |server: usize, event: &str| {
        let request = team.servers[server].request(Method::GET, "/mcp").header("accept", "text/event-stream");
        let request = request.header("mcp-session-id", &session).header("last-event-id", event).timeout(PATIENCE);
        request.send().await.unwrap()
    };
    let refused = resume(1, &event).await;
    assert_eq!((refused.status().as_u16(), refused.headers().contains_key("retry-after")), (503, true));
    let refused: Json = refused.json().await.unwrap();
    assert!(refused["error"]["message"].as_str().unwrap().contains("another one may"), "{refused}");
    let missed = resume(0, &event).await.text().await.unwrap();
    assert!(missed.contains("done"), "{missed}");
    // The session's own stream can be resumed on any server.
    let own = format!("{}:common/7", session.split('.').next().unwrap());
    assert_eq!(resume(1, &own).await.status(), 200);
    let end = team.servers[0].request(Method::DELETE, "/mcp").header("mcp-session-id", &session).send().await.unwrap();
    assert_eq!(end.status(), 204);
    assert_eq!(resume(0, &event).await.status(), 404, "a session that has ended is over");
}
