//! Several servers with shared state: active work of one can be seen, ended and decided on another.

use std::time::Duration;

use onetool_state_postgres::testing::Server;
use reqwest::{Method, Response};
use serde_json::{Value as Json, json};
use tokio::time::Instant;

use crate::client::{HttpServer, PATIENCE, Project, reply};

const ANA: &str = "ana-ana-ana-ana-ana";
const EVE: &str = "eve-eve-eve-eve-eve";
const ROOT: &str = "root-root-root-root";
const SETTINGS: &str = "
server:
  tokens:
    - {token: ana-ana-ana-ana-ana, name: ana, scopes: [read, invoke]}
    - {token: eve-eve-eve-eve-eve, name: eve, scopes: [read, invoke]}
    - {token: root-root-root-root, name: root, scopes: [admin]}
security: {policy: {file.write: ask}}
run: {timeout: 600}
";
const LONG: &str = "import time; time.sleep(500); 'done'";

/// Two servers with shared state and separate folders.
struct Team {
    projects: [Project; 2],
    servers: [HttpServer; 2],
    database: Server,
}

impl Team {
    async fn start() -> Self {
        let database = tokio::task::spawn_blocking(Server::start).await.unwrap();
        let settings = format!("state: {}\n{SETTINGS}", database.database("team"));
        let projects = [Project::with(&settings), Project::with(&settings)];
        let servers = [projects[0].serve_http().await, projects[1].serve_http().await];
        for server in &servers {
            until("both are ready", async || (server.get("/readyz").await.0 == 200).then_some(())).await;
        }
        Self { projects, servers, database }
    }

    async fn ask(&self, server: usize, who: &str, method: Method, path: &str, body: Json) -> (u16, Json) {
        let request = self.servers[server].anonymous(method, path).bearer_auth(who);
        reply(if body.is_null() { request } else { request.json(&body) }).await
    }

    async fn get(&self, server: usize, who: &str, path: &str) -> Json {
        let (status, body) = self.ask(server, who, Method::GET, path, Json::Null).await;
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    async fn delete(&self, server: usize, who: &str, path: &str) -> u16 {
        self.ask(server, who, Method::DELETE, path, Json::Null).await.0
    }

    /// The event stream of one server.
    async fn events(&self, server: usize, who: &str) -> Events {
        let request = self.servers[server].anonymous(Method::GET, "/api/events").bearer_auth(who);
        Events::of(request.header("accept", "text/event-stream").send().await.unwrap())
    }

    /// Starts a long run on the first server; returns its id and its events.
    async fn run(&self, who: &str, key: Option<&str>) -> (String, Events) {
        let request = self.servers[0].anonymous(Method::POST, "/api/runs").bearer_auth(who);
        let request = request.header("accept", "text/event-stream").json(&json!({"command": LONG}));
        let request = match key {
            Some(key) => request.header("idempotency-key", key),
            None => request,
        };
        let mut events = Events::of(request.send().await.unwrap());
        let started = events.until("started", |_| true).await;
        (started["run"].as_str().unwrap().to_owned(), events)
    }

    /// Pending permissions, as listed by one server.
    async fn waiting(&self, server: usize) -> Vec<Json> {
        self.get(server, ROOT, "/api/approvals").await["approvals"].as_array().unwrap().clone()
    }

    /// The only waiting call, once a server lists it.
    async fn one_waiting(&self, server: usize) -> Json {
        let listed = until("it is listed", async || Some(self.waiting(server).await).filter(|list| !list.is_empty()));
        let mut listed = listed.await;
        assert_eq!(listed.len(), 1, "it is listed once: {listed:?}");
        listed.remove(0)
    }

    async fn nothing_waits(&self) {
        for server in [0, 1] {
            until("nothing waits", async || self.waiting(server).await.is_empty().then_some(())).await;
        }
    }

    async fn decide(&self, server: usize, id: &Json, decision: &str) -> u16 {
        let path = format!("/api/approvals/{}", id.as_str().unwrap());
        self.ask(server, ROOT, Method::POST, &path, json!({"decision": decision})).await.0
    }

    /// Calls a tool that needs permission on the first server, over REST.
    fn write(&self) -> tokio::task::JoinHandle<(u16, Json)> {
        let request = self.servers[0].anonymous(Method::POST, "/api/tools/file.write/invoke").bearer_auth(ANA);
        let request = request.json(&json!({"args": {"path": "a.txt", "content": "x"}}));
        tokio::spawn(reply(request))
    }
}

async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(Instant::now() < deadline, "never: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Server-sent events, one at a time.
struct Events {
    response: Response,
    text: String,
}

impl Events {
    fn of(response: Response) -> Self {
        assert_eq!(response.status(), 200);
        Self { response, text: String::new() }
    }

    /// The next event of this name that matches.
    async fn until(&mut self, name: &str, is_wanted: impl Fn(&Json) -> bool) -> Json {
        let deadline = Instant::now() + PATIENCE;
        loop {
            while let Some((event, rest)) = self.text.split_once("\n\n") {
                let (event, rest) = (event.to_owned(), rest.to_owned());
                self.text = rest;
                let field = |field: &str| event.lines().find_map(|line| line.strip_prefix(field)).map(str::trim);
                let data = field("data:").and_then(|data| serde_json::from_str(data).ok()).unwrap_or_default();
                if field("event:") == Some(name) && is_wanted(&data) {
                    return data;
                }
            }
            let chunk = tokio::time::timeout_at(deadline, self.response.chunk()).await;
            let chunk = chunk.unwrap_or_else(|_| panic!("no {name}")).unwrap().unwrap_or_else(|| panic!("no {name}"));
            self.text.push_str(&String::from_utf8_lossy(&chunk));
        }
    }
}

#[tokio::test]
async fn a_run_over_rest_is_ended_at_whichever_server_is_asked() {
    let team = Team::start().await;
    for key in [None, Some("once")] {
        let (id, mut events) = team.run(ANA, key).await;
        let path = format!("/api/runs/{id}");
        for (server, who) in [(1, EVE), (1, ROOT), (0, EVE)] {
            assert_eq!(team.delete(server, who, &path).await, 404, "it is somebody else's: {key:?} {server} {who}");
        }
        assert_eq!(team.delete(1, ANA, &path).await, 204, "{key:?}");
        let ended = events.until("result", |_| true).await;
        assert_eq!(ended["isError"], true, "{ended}");
        assert_eq!(team.delete(1, ANA, &path).await, 404, "it has ended: {key:?}");
    }
    for nobody in
        ["/api/runs/0123456789abcdef0123456789abcdef", "/api/runs/nonsense", "/api/activity/x", "/api/activity/7"]
    {
        assert_eq!(team.delete(1, ROOT, nobody).await, 404, "{nobody}");
    }
    let letters = "SELECT count(*) FROM onetool_documents WHERE collection = 'letters' AND content IS NOT NULL";
    assert_eq!(team.database.ask("team", letters), "0", "nothing is left on the way");
}

#[tokio::test]
async fn what_is_under_way_at_one_server_is_seen_and_ended_at_another() {
    let team = Team::start().await;
    let mut watching = team.events(1, ROOT).await;
    let (run, mut events) = team.run(ANA, None).await;
    let row = watching.until("started", |row| row["kind"] == "run" && row["run"] == run.as_str()).await;
    assert_eq!((&row["principal"], &row["isUnderWay"]), (&json!("ana"), &json!(true)), "{row}");
    let seen = async |server: usize, who: &str| {
        let reply = team.get(server, who, "/api/activity").await;
        let rows = reply["underWay"].as_array().unwrap().clone();
        (rows.into_iter().filter(|row| row["run"] == run.as_str()).collect::<Vec<_>>(), reply["node"].clone())
    };
    let (own, first) = seen(0, ROOT).await;
    let (others, second) = seen(1, ROOT).await;
    assert_eq!((own.len(), others.len()), (1, 1), "each is listed once: {own:?} {others:?}");
    assert!(first.is_string() && second.is_string() && first != second, "{first} {second}");
    assert_eq!((&own[0]["node"], &others[0]["node"], &others[0]["id"]), (&first, &first, &own[0]["id"]));
    assert_eq!((seen(1, ANA).await.0.len(), seen(1, EVE).await.0.len()), (1, 0), "everybody sees their own");
    let of_eve = team.get(1, ROOT, "/api/activity?principal=eve").await;
    assert_eq!(of_eve["underWay"], json!([]), "{of_eve}");

    let path = format!("/api/activity/{}", row["id"]);
    assert_eq!(team.delete(1, EVE, &path).await, 404);
    assert_eq!(team.delete(1, ROOT, &path).await, 204);
    assert_eq!(events.until("result", |_| true).await["isError"], true);
    let ended = watching.until("activity", |ended| ended["id"] == row["id"]).await;
    assert!(ended["isUnderWay"] == false && ended["error"].is_string(), "{ended}");
    until("it is gone", async || seen(1, ROOT).await.0.is_empty().then_some(())).await;
}

#[tokio::test]
async fn a_call_that_waits_at_one_server_is_decided_at_another() {
    let team = Team::start().await;
    let (status, refused) = team.write().await.unwrap();
    assert_eq!(status, 403, "nobody looks: {refused}");

    let watching = team.events(1, ROOT).await;
    let written = team.projects[0].path().join("a.txt");
    for (server, decision, expected) in [(1, "once", 200), (0, "once", 200), (1, "deny", 403)] {
        let call = until("the first server knows that somebody looks", async || {
            let call = team.write();
            tokio::time::sleep(Duration::from_millis(300)).await;
            (!call.is_finished()).then_some(call)
        });
        let call = call.await;
        let (there, here) = (team.one_waiting(1).await, team.one_waiting(0).await);
        assert_eq!((&there["id"], &there["principal"]), (&here["id"], &json!("ana")), "{there} {here}");
        assert_eq!((&there["tool"], &there["run"], &there["caller"]), (&here["tool"], &here["run"], &here["caller"]));
        assert_eq!(team.decide(server, &there["id"], decision).await, 204);
        assert_eq!(team.decide(1 - server, &there["id"], "deny").await, 404, "one decision counts");
        let (status, body) = call.await.unwrap();
        assert_eq!(status, expected, "{decision} at {server}: {body}");
        assert_eq!(std::fs::remove_file(&written).is_ok(), expected == 200);
        team.nothing_waits().await;
    }
    let left = "SELECT count(*) FROM onetool_documents WHERE collection = 'approvals' AND content IS NOT NULL";
    until("nothing is left", async || (team.database.ask("team", left) == "0").then_some(())).await;

    // On the command line of the other machine.
    let call = team.write();
    let waiting = team.one_waiting(1).await;
    let approve = team.projects[1].command(&["approve", waiting["id"].as_str().unwrap()]).output().await.unwrap();
    assert!(approve.status.success(), "{}", String::from_utf8_lossy(&approve.stderr));
    assert_eq!(call.await.unwrap().0, 200);
    team.nothing_waits().await;

    // For the rest of the session, on the first server.
    let call = team.write();
    let waiting = team.one_waiting(1).await;
    assert_eq!(team.decide(1, &waiting["id"], "session").await, 204);
    assert_eq!(call.await.unwrap().0, 200);
    assert_eq!(team.write().await.unwrap().0, 200, "nobody is asked again");
    drop(watching);
}

#[tokio::test]
async fn a_run_whose_client_is_asked_may_be_decided_at_another_server() {
    let team = Team::start().await;
    let post = |server: usize, session: Option<&str>, body: &Json| {
        let request = team.servers[server].anonymous(Method::POST, "/mcp").bearer_auth(ANA);
        let request = request.header("accept", "application/json, text/event-stream").json(body);
        match session {
            Some(session) => request.header("mcp-session-id", session),
            None => request,
        }
    };
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "legacy", "version": "1"}}});
    let opened = post(0, None, &hello).send().await.unwrap();
    let session = opened.headers()["mcp-session-id"].to_str().unwrap().to_owned();
    opened.bytes().await.unwrap();
    let call = json!({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params":
        {"name": "run", "arguments": {"command": "file.write('a.txt', 'x'); 'done'"}}});
    let stream = post(0, Some(&session), &call).send().await.unwrap();
    let waiting = team.one_waiting(1).await;
    assert_eq!((&waiting["principal"], &waiting["client"]), (&json!("ana"), &json!("legacy 1")), "{waiting}");
    assert_eq!(team.decide(1, &waiting["id"], "once").await, 204);
    let text = tokio::time::timeout(PATIENCE, stream.text()).await.unwrap().unwrap();
    assert!(text.contains("elicitation/create") && text.contains("done"), "{text}");
}

#[tokio::test]
async fn a_server_that_dies_leaves_nothing_that_waits_or_is_under_way() {
    let mut team = Team::start().await;
    let watching = team.events(1, ROOT).await;
    let call = until("the first server knows that somebody looks", async || {
        let call = team.write();
        tokio::time::sleep(Duration::from_millis(300)).await;
        (!call.is_finished()).then_some(call)
    });
    let call = call.await;
    let waiting = team.one_waiting(1).await;
    let open = async |team: &Team| !team.get(1, ROOT, "/api/activity").await["underWay"].as_array().unwrap().is_empty();
    until("it is under way", async || open(&team).await.then_some(())).await;
    let spare = team.projects[0].serve_http().await;
    std::mem::replace(&mut team.servers[0], spare).kill().await;
    call.abort();
    until("nothing waits", async || team.waiting(1).await.is_empty().then_some(())).await;
    assert_eq!(team.decide(1, &waiting["id"], "once").await, 404, "nobody would hear of it");
    until("nothing is under way", async || (!open(&team).await).then_some(())).await;
    drop(watching);
}
