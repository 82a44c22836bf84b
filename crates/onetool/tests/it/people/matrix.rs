//! Two principals on one server: neither can see, read, resume or cancel what belongs to the other.

use onetool_state_postgres::testing::Server;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value as Json, json};

use super::oauth::{Issuer, PUBLIC};
use super::token;
use crate::client::{Client, HttpServer, PATIENCE, Project, eventually, reply};

const ERA: &str = "2026-07-28";
const CONFIGURED: &str = "configured-configured-1";

const SLOW: &str = "\
import pathlib, time

def nap(seconds: float) -> str:
    time.sleep(seconds)
    return 'rested'

def mark(file: str) -> None:
    pathlib.Path(file).write_text('under way')
    time.sleep(600)
";

/// A server with one token of each kind.
struct Bench {
    project: Project,
    server: HttpServer,
    issuer: Issuer,
}

const POLICY: &str = "security: {policy: {file.delete: ask}}\n";

impl Bench {
    async fn start(state: &str) -> Self {
        Self::with(&format!("{state}{POLICY}")).await
    }

    async fn with(settings: &str) -> Self {
        let issuer = Issuer::start().await;
        let project = Project::with(&format!(
            "{settings}server:\n  public_url: {PUBLIC}\n  oauth: {{issuer: '{}'}}\n  tokens: [{{token: {CONFIGURED}, scopes: [read, invoke, admin]}}]\n",
            issuer.base
        ));
        project.write(".onetool/tools/slow/slow_tools.py", SLOW);
        let server = project.serve_http().await;
        Self { project, server, issuer }
    }

    /// Pairs of every kind of token.
    async fn pairs(&self) -> Vec<(&'static str, &'static str)> {
        let named = ["one", "two"]
            .map(|name| async move { token(&self.project, &[name, "--scope", "read,invoke,admin"]).await });
        let [one, two] = named;
        let (one, two) = (one.await, two.await);
        let all = json!({"scope": "onetool:read onetool:invoke onetool:admin"});
        let oauth: &'static str = self.issuer.good(all).leak();
        vec![(one, two), (one, CONFIGURED), (oauth, one), (CONFIGURED, oauth)]
    }

    fn ask(&self, token: &str, method: Method, path: &str) -> RequestBuilder {
        self.server.anonymous(method, path).bearer_auth(token)
    }

    async fn status(&self, token: &str, method: Method, path: &str) -> u16 {
        reply(self.ask(token, method, path)).await.0
    }

    async fn get(&self, token: &str, path: &str) -> Json {
        reply(self.ask(token, Method::GET, path)).await.1
    }

    async fn mcp(&mut self, token: &'static str) -> Client {
        self.server.token = Some(token);
        self.server.mcp().await
    }

    async fn rpc(&self, token: &str, session: Option<&str>, method: &str, params: Json) -> (u16, Json) {
        let body = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
        let request = self.ask(token, Method::POST, "/mcp").header("accept", "application/json, text/event-stream");
        let request = match session {
            Some(session) => request.header("mcp-session-id", session),
            None => request.header("mcp-protocol-version", ERA).header("mcp-method", method),
        };
        let name = params["name"].as_str().or(params["taskId"].as_str()).unwrap_or("-").to_owned();
        let response = request.header("mcp-name", name).json(&body).timeout(PATIENCE).send().await.unwrap();
        let status = response.status().as_u16();
        let text = response.text().await.unwrap();
        let last = text.lines().filter_map(|line| line.strip_prefix("data:")).next_back().unwrap_or(&text).to_owned();
        (status, serde_json::from_str(last.trim()).unwrap_or(Json::String(text)))
    }

    /// A session of revision 2025-11-25.
    async fn session(&self, token: &str) -> String {
        let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}});
        let request = self.ask(token, Method::POST, "/mcp").header("accept", "application/json, text/event-stream");
        let response = request.json(&hello).send().await.unwrap();
        let id = response.headers()["mcp-session-id"].to_str().unwrap().to_owned();
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let request = self.ask(token, Method::POST, "/mcp").header("accept", "application/json, text/event-stream");
        assert_eq!(request.header("mcp-session-id", &id).json(&ready).send().await.unwrap().status(), 202);
        id
    }

    /// An active run of each principal whose server died, as another server finds it.
    async fn interrupted(&mut self, pairs: &[(&'static str, &'static str)]) -> Vec<String> {
        let mut ids = Vec::new();
        for (number, (mine, _)) in pairs.iter().enumerate() {
            let file = self.project.path().join(format!("mark{number}"));
            let command = format!("slow.mark('{}')", file.display());
            let (_, run) = reply(self.ask(mine, Method::POST, "/runs").json(&json!({"command": command}))).await;
            ids.push(run["id"].as_str().unwrap_or_else(|| panic!("{run}")).to_owned());
            eventually("a call is under way", || file.exists()).await;
        }
        let other = self.project.serve_http().await;
        std::mem::replace(&mut self.server, other).kill().await;
        for ((mine, _), id) in pairs.iter().zip(&ids) {
            self.until(mine, id, "interrupted").await;
        }
        ids
    }

    async fn until(&self, token: &str, id: &str, wanted: &str) -> Json {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let run = self.get(token, &format!("/runs/{id}?wait=10")).await;
            if run["status"] == wanted {
                return run;
            }
            assert!(tokio::time::Instant::now() < deadline, "not {wanted}: {run}");
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    }

    /// Runs that wait for a decision of their owner, or for a permission.
    async fn check_decisions(&mut self, mine: &'static str, theirs: &'static str, interrupted: &str) {
        let (own, other) = (self.mcp(mine).await, self.mcp(theirs).await);
        let (_, run) =
            reply(self.ask(mine, Method::POST, "/runs").json(&json!({"command": "file.delete('x.txt')"}))).await;
        let suspended = run["id"].as_str().unwrap().to_owned();
        self.until(mine, &suspended, "suspended").await;
        for id in [interrupted, &suspended] {
            let path = format!("/runs/{id}");
            for body in [json!({}), json!({"unknown": "repeat"}), json!({"unknown": "raise"})] {
                let request = self.ask(theirs, Method::POST, &format!("{path}/resume")).json(&body);
                assert_eq!(reply(request).await.0, 404, "{body}");
            }
            for (method, path) in [
                (Method::POST, format!("{path}/abandon")),
                (Method::POST, format!("{path}/cancel")),
                (Method::DELETE, path.clone()),
                (Method::GET, path.clone()),
                (Method::GET, format!("{path}/result")),
            ] {
                assert_eq!(self.status(theirs, method, &path).await, 404, "{path}");
            }
            for unknown in ["repeat", "raise", "abandon"] {
                let text = other.err(&format!("ot.resume('{id}', unknown='{unknown}')")).await;
                assert!(text.contains("no such run"), "{text}");
            }
            assert!(!self.get(theirs, "/runs").await.to_string().contains(id));
        }
        let run = self.get(mine, &format!("/runs/{interrupted}")).await;
        assert_eq!((&run["status"], &run["unknown"][0]["tool"]), (&json!("interrupted"), &json!("slow.mark")), "{run}");
        assert_eq!(self.get(mine, &format!("/runs/{suspended}")).await["status"], "suspended");
        assert!(own.err(&format!("ot.resume('{suspended}')")).await.contains("still waits"));
        assert_eq!(self.status(mine, Method::DELETE, &format!("/runs/{suspended}")).await, 204);
        let given_up = own.ok(&format!("ot.resume('{interrupted}', unknown='abandon')")).await;
        assert!(given_up.contains("given up"), "{given_up}");
    }

    async fn check_all(&mut self) {
        let pairs = self.pairs().await;
        let interrupted = self.interrupted(&pairs).await;
        for ((mine, theirs), interrupted) in pairs.into_iter().zip(&interrupted) {
            self.check(mine, theirs).await;
            self.check_decisions(mine, theirs, interrupted).await;
        }
    }

    async fn check(&mut self, mine: &'static str, theirs: &'static str) {
        let (own, other) = (self.mcp(mine).await, self.mcp(theirs).await);
        // Sessions of runs.
        own.ok("__session__ = 's'\nx = 41").await;
        assert!(other.err("__session__ = 's'\nx").await.contains("NameError"));
        other.ok("__session__ = 's'\nx = 1").await;
        other.ok("ot.end_session(name='s')").await;
        assert!(!other.ok("str(ot.sessions())").await.contains("'s'"));
        assert_eq!(own.ok("__session__ = 's'\nx + 1").await, "42");
        own.ok("ot.end_session(name='s')").await;

        // Stored results.
        let stored = own.json("'\\n'.join(str(n) for n in range(20000))").await;
        let handle = stored["handle"].as_str().unwrap();
        let read = format!("ot.result(handle='{handle}', offset=20000)");
        assert!(own.ok(&read).await.contains("19999"));
        assert!(other.ok(&read).await.contains("Result not found"), "{handle}");
        let cache = format!("std.tool_output_cache(ref_id='{handle}')");
        assert!(own.ok(&format!("len({cache})")).await.parse::<usize>().unwrap() > 1000);
        assert!(other.err(&cache).await.contains("Result not found"));
        assert!(
            other
                .err(&format!("std.tool_output_cache_grep(ref_id='{handle}', pattern='1')"))
                .await
                .contains("not found")
        );
        let path = format!("/api/results/{handle}");
        assert_eq!(
            (self.status(mine, Method::GET, &path).await, self.status(theirs, Method::GET, &path).await),
            (200, 404)
        );
        assert!(!self.get(theirs, "/api/results").await.to_string().contains(handle));
        assert!(self.get(mine, "/api/results").await.to_string().contains(handle));

        // Plans.
        let plan = uuid::Uuid::new_v4().to_string();
        own.ok(&format!("std.todo_write(todos=[{{'content': '{plan}'}}])")).await;
        assert!(!other.ok("str(std.todo_read())").await.contains(&plan));
        other.ok("std.todo_write(todos=[])").await;
        assert!(own.ok("str(std.todo_read())").await.contains(&plan));

        self.check_runs(mine, theirs).await;
        self.check_tasks(mine, theirs).await;
    }

    /// Background runs, and runs of the admin page.
    async fn check_runs(&self, mine: &str, theirs: &str) {
        let start = |token: &str, key: &str| {
            let request = self.ask(token, Method::POST, "/runs").header("idempotency-key", key.to_owned());
            reply(request.json(&json!({"command": "slow.nap(seconds=60)"})))
        };
        let key = uuid::Uuid::new_v4().to_string();
        let (_, run) = start(mine, &key).await;
        let (_, twin) = start(theirs, &key).await;
        assert_ne!(run["id"], twin["id"], "a key means something to its owner alone");
        let path = format!("/runs/{}", run["id"].as_str().unwrap());
        for (method, path) in [
            (Method::GET, path.clone()),
            (Method::GET, format!("{path}/result")),
            (Method::POST, format!("{path}/cancel")),
            (Method::DELETE, path.clone()),
        ] {
            assert_eq!(self.status(theirs, method, &path).await, 404, "{path}");
        }
        assert!(!self.get(theirs, "/runs").await.to_string().contains(run["id"].as_str().unwrap()));
        assert_eq!(self.get(mine, &path).await["status"], "working");
        assert_eq!(self.status(mine, Method::POST, &format!("{path}/cancel")).await, 200);
        let path = format!("/runs/{}", twin["id"].as_str().unwrap());
        assert_eq!(self.status(theirs, Method::DELETE, &path).await, 204);

        let request = self.ask(mine, Method::POST, "/api/runs").header("accept", "text/event-stream");
        let mut stream = request.json(&json!({"command": "slow.nap(seconds=60)"})).send().await.unwrap();
        let mut seen = String::new();
        while !seen.contains("\n\n") {
            seen.push_str(&String::from_utf8_lossy(&stream.chunk().await.unwrap().unwrap()));
        }
        let started = seen.lines().find_map(|line| line.strip_prefix("data:")).unwrap();
        let started: Json = serde_json::from_str(started.trim()).unwrap();
        let path = format!("/api/runs/{}", started["run"].as_str().unwrap());
        assert_eq!(self.status(theirs, Method::DELETE, &path).await, 404);
        assert_eq!(self.status(mine, Method::DELETE, &path).await, 204);
    }

    /// MCP sessions, and tasks of both revisions.
    async fn check_tasks(&self, mine: &str, theirs: &str) {
        let (own, other) = (self.session(mine).await, self.session(theirs).await);
        assert_eq!(self.rpc(theirs, Some(&own), "tools/list", json!({})).await.0, 404);
        for method in [Method::GET, Method::DELETE] {
            let request = self.ask(theirs, method.clone(), "/mcp").header("mcp-session-id", &own);
            let response = request.header("accept", "text/event-stream").send().await.unwrap();
            assert_eq!(response.status(), 404, "{method}");
        }
        // A key is only valid for its owner, here too.
        let (key, mut made) = (uuid::Uuid::new_v4().to_string(), Vec::new());
        for (token, session) in [(mine, &own), (theirs, &other), (mine, &own)] {
            let params = json!({"name": "run", "arguments": {"command": "import uuid\nstr(uuid.uuid4())"},
                "_meta": {"onetool/idempotencyKey": key}});
            let (_, answer) = self.rpc(token, Some(session), "tools/call", params).await;
            made.push(answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned());
        }
        assert!(made[0] == made[2] && made[0] != made[1], "{made:?}");
        let nap = json!({"name": "run", "arguments": {"command": "slow.nap(seconds=60)"}, "task": {"ttl": 60000}});
        let (_, task) = self.rpc(mine, Some(&own), "tools/call", nap).await;
        let id = task["result"]["task"]["taskId"].as_str().unwrap_or_else(|| panic!("{task}")).to_owned();
        for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
            let (_, answer) = self.rpc(theirs, Some(&other), method, json!({"taskId": id})).await;
            assert!(answer["error"].is_object(), "{method}: {answer}");
        }
        let (_, listed) = self.rpc(theirs, Some(&other), "tasks/list", json!({})).await;
        assert!(!listed.to_string().contains(&id), "{listed}");
        // The same in the other revision, which shares the tasks.
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": ERA,
            "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
        });
        for method in ["tasks/get", "tasks/cancel", "tasks/update"] {
            let params = json!({"taskId": id, "inputResponses": {}, "_meta": meta});
            let (_, answer) = self.rpc(theirs, None, method, params).await;
            assert!(answer["error"].is_object(), "{method}: {answer}");
        }
        let (_, got) = self.rpc(mine, Some(&own), "tasks/get", json!({"taskId": id})).await;
        assert_eq!(got["result"]["status"], "working", "{got}");
        let (_, ended) = self.rpc(mine, None, "tasks/cancel", json!({"taskId": id, "_meta": meta})).await;
        assert!(ended["error"].is_null(), "{ended}");
    }
}

#[tokio::test]
async fn in_files_neither_has_what_the_other_has() {
    let mut bench = Bench::start("").await;
    bench.check_all().await;
}

#[tokio::test]
async fn in_a_database_neither_has_what_the_other_has() {
    let database = tokio::task::spawn_blocking(Server::start).await.unwrap();
    let mut bench = Bench::start(&format!("state: {}\n", database.database("matrix"))).await;
    bench.check_all().await;
}

/// Two people without the scope `admin`, each with their own secrets.
const APART: &str = "\
security:
  policy: {file.delete: ask}
  groups:
    left: {members: [ann], secrets: ['LEFT_*']}
    right: {members: [bob], secrets: ['RIGHT_*']}
";

fn keyed(pack: &str, secret: &str) -> String {
    format!(
        "# /// script\n# [tool.onetool]\n# secrets = [\"{secret}\"]\n# ///\nfrom onetool import get_secret\npack = '{pack}'\n\n\
         def key() -> str:\n    return str(len(get_secret('{secret}')))\n"
    )
}

impl Bench {
    /// Neither can call, see or find a tool that uses the other's secret.
    async fn check_secrets(&mut self, mine: &'static str, theirs: &'static str, pack: &str, secret: &str) {
        let (own, other) = (self.mcp(mine).await, self.mcp(theirs).await);
        let call = format!("{pack}.key()");
        assert_eq!(own.ok(&call).await, "11");
        let refused = other.err(&call).await;
        assert!(refused.contains(secret) && !refused.contains("value-"), "{refused}");
        assert!(own.ok("ot.tools(info='list')").await.contains(&format!("{pack}.key")));
        assert!(!other.ok("ot.tools(info='list')").await.contains(&format!("{pack}.key")));
        let path = format!("/api/tools/{pack}.key");
        let (status, _) = reply(self.ask(mine, Method::GET, &path)).await;
        assert_eq!((status, self.status(theirs, Method::GET, &path).await), (200, 404));
        let invoke =
            |token: &str| reply(self.ask(token, Method::POST, &format!("{path}/invoke")).json(&json!({"args": {}})));
        assert_eq!(invoke(mine).await.0, 200);
        let (status, body) = invoke(theirs).await;
        assert!([403, 404].contains(&status), "{status} {body}");
        let (_, run) = reply(self.ask(theirs, Method::POST, "/runs").json(&json!({"command": call}))).await;
        let id = run["id"].as_str().unwrap();
        self.until(theirs, id, "failed").await;
        let result = self.get(theirs, &format!("/runs/{id}/result")).await;
        assert!(result["text"].as_str().is_some_and(|text| text != "11"), "{result}");
        for token in [mine, theirs] {
            for (method, path) in [(Method::GET, "/api/secrets"), (Method::PUT, "/api/secrets/LEFT_KEY")] {
                assert_eq!(self.status(token, method, path).await, 403, "{path}");
            }
        }
    }

    /// A pending permission: the other can neither see it, nor decide it, nor continue its run.
    async fn check_approvals(&mut self, mine: &'static str, theirs: &'static str) {
        let (own, other) = (self.mcp(mine).await, self.mcp(theirs).await);
        let asked = own.err("file.delete('x.txt')").await;
        let after = |name: &str| {
            let (_, rest) = asked.split_once(name).unwrap_or_else(|| panic!("{asked}"));
            rest.split_whitespace().next().unwrap().to_owned()
        };
        let (approval, run) = (after("onetool approve "), after("run: "));
        for token in [theirs, mine] {
            assert_eq!(self.status(token, Method::GET, "/api/approvals").await, 403, "only `admin` decides");
            for decision in ["once", "deny"] {
                let request = self.ask(token, Method::POST, &format!("/api/approvals/{approval}"));
                assert_eq!(reply(request.json(&json!({"decision": decision}))).await.0, 403);
            }
        }
        for unknown in ["repeat", "raise", "abandon"] {
            let text = other.err(&format!("ot.resume('{run}', unknown='{unknown}')")).await;
            assert!(text.contains("no such run"), "{text}");
        }
        for (method, path) in [
            (Method::GET, format!("/runs/{run}")),
            (Method::GET, format!("/runs/{run}/result")),
            (Method::POST, format!("/runs/{run}/cancel")),
            (Method::POST, format!("/runs/{run}/resume")),
            (Method::POST, format!("/runs/{run}/abandon")),
            (Method::DELETE, format!("/runs/{run}")),
        ] {
            assert_eq!(self.status(theirs, method, &path).await, 404, "{path}");
        }
        assert!(!self.get(theirs, "/runs").await.to_string().contains(&run));
        let seen = self.get(theirs, "/api/activity").await;
        assert!(seen["events"].as_array().unwrap().iter().all(|event| event["run"] != run.as_str()), "{seen}");
        assert_eq!(self.get(mine, &format!("/runs/{run}")).await["status"], "suspended");
        assert!(own.err(&format!("ot.resume('{run}')")).await.contains("still waits"));
        assert_eq!(self.status(mine, Method::DELETE, &format!("/runs/{run}")).await, 204);

        // A question to one's own client: its state is useless to anybody else.
        let call = |token: &'static str, state: Option<&Json>| {
            let mut params = json!({"name": "run", "arguments": {"command": "file.delete('x.txt')"}, "_meta": {
                "io.modelcontextprotocol/protocolVersion": ERA,
                "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
            }});
            if let Some(state) = state {
                params["requestState"] = state.clone();
                params["inputResponses"] = json!({"input-1": {"action": "accept", "content": {"allow": true}}});
            }
            self.rpc(token, None, "tools/call", params)
        };
        let (_, first) = call(mine, None).await;
        let state = first["result"]["requestState"].clone();
        assert!(state.is_string(), "{first}");
        let (_, stolen) = call(theirs, Some(&state)).await;
        assert_eq!(stolen["error"]["code"], -32602, "{stolen}");
        let (_, answered) = call(mine, Some(&state)).await;
        assert!(answered["error"].is_null() && !answered.to_string().contains("permission"), "{answered}");
    }

    async fn check_people(&mut self) {
        for (pack, secret) in [("lefty", "LEFT_KEY"), ("righty", "RIGHT_KEY")] {
            self.project.write(&format!(".onetool/tools/{pack}/{pack}_tools.py"), &keyed(pack, secret));
        }
        self.project.write(".onetool/secrets.yaml", "LEFT_KEY: value-of-an\nRIGHT_KEY: value-of-bo\n");
        let other = self.project.serve_http().await;
        std::mem::replace(&mut self.server, other).stop().await;
        let ann = token(&self.project, &["ann", "--scope", "read,invoke"]).await;
        let bob = token(&self.project, &["bob", "--scope", "read,invoke"]).await;
        self.check_secrets(ann, bob, "lefty", "LEFT_KEY").await;
        self.check_secrets(bob, ann, "righty", "RIGHT_KEY").await;
        for (mine, theirs) in [(ann, bob), (bob, ann)] {
            self.check_approvals(mine, theirs).await;
        }
    }
}

#[tokio::test]
async fn in_files_secrets_and_approvals_are_each_ones_own() {
    Bench::with(APART).await.check_people().await;
}

#[tokio::test]
async fn in_a_database_secrets_and_approvals_are_each_ones_own() {
    let database = tokio::task::spawn_blocking(Server::start).await.unwrap();
    let settings = format!("state: {}\n{APART}", database.database("people"));
    Bench::with(&settings).await.check_people().await;
}

#[tokio::test]
async fn without_the_scope_nobody_sees_what_others_do() {
    let bench = Bench::start("").await;
    let plain = token(&bench.project, &["plain", "--scope", "read,invoke"]).await;
    for (method, path) in [
        (Method::GET, "/api/approvals"),
        (Method::POST, "/api/approvals/x"),
        (Method::GET, "/api/secrets"),
        (Method::PUT, "/api/secrets/X"),
        (Method::GET, "/api/config"),
        (Method::GET, "/api/tokens"),
        (Method::GET, "/api/audit"),
        (Method::GET, "/api/audit/export"),
        (Method::GET, "/api/results"),
        (Method::GET, "/api/results/x"),
        (Method::GET, "/api/servers"),
        (Method::GET, "/api/servers/x/log"),
    ] {
        assert_eq!(bench.status(plain, method, path).await, 403, "{path}");
    }
    let (_, tool) = reply(bench.ask(plain, Method::GET, "/api/tools/file.read")).await;
    assert_eq!(tool["recent"], json!([]), "{tool}");
}

/// A principal's active runs, once they match the condition.
async fn under_way(bench: &Bench, token: &str, is_there: impl Fn(&[Json]) -> bool) -> Vec<Json> {
    let until = tokio::time::Instant::now() + PATIENCE;
    loop {
        let seen = bench.get(token, "/api/activity").await;
        let rows = seen["underWay"].as_array().unwrap_or_else(|| panic!("{seen}")).clone();
        if is_there(&rows) {
            return rows;
        }
        assert!(tokio::time::Instant::now() < until, "{seen}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

/// Reads rows of a stream up to the first that matches.
async fn rows_until(stream: &mut reqwest::Response, event: &str, is_last: impl Fn(&Json) -> bool) -> Vec<Json> {
    let (mut text, mut rows) = (String::new(), Vec::new());
    loop {
        let chunk = tokio::time::timeout(PATIENCE, stream.chunk()).await.unwrap().unwrap().unwrap();
        text.push_str(&String::from_utf8_lossy(&chunk));
        while let Some(end) = text.find("\n\n") {
            let block: String = text.drain(..end + 2).collect();
            let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim();
            if field("event:") != event {
                continue;
            }
            let row: Json = serde_json::from_str(field("data:")).unwrap();
            rows.push(row.clone());
            if is_last(&row) {
                return rows;
            }
        }
    }
}

#[tokio::test]
async fn everybody_sees_and_cancels_what_is_their_own_while_it_is_under_way() {
    let mut bench = Bench::start("").await;
    let ann = token(&bench.project, &["ann", "--scope", "read,invoke"]).await;
    let bob = token(&bench.project, &["bob", "--scope", "read,invoke"]).await;
    let mut all = bench.ask(CONFIGURED, Method::GET, "/api/events").send().await.unwrap();
    let mut bobs = bench.ask(bob, Method::GET, "/api/events").send().await.unwrap();
    let request = bench.ask(ann, Method::POST, "/api/runs").header("user-agent", "ann-agent/1");
    let anns = tokio::spawn(reply(request.json(&json!({"command": "slow.nap(seconds=600)"}))));
    let client = bench.mcp(bob).await;
    let run = tokio::spawn(async move { client.err("slow.nap(seconds=601)").await });

    let both = under_way(&bench, CONFIGURED, |rows| rows.iter().filter(|row| row["name"] == "slow.nap").count() == 2);
    let both = both.await;
    let find = |rows: &[Json], principal: &str, kind: &str| {
        let found = rows.iter().find(|row| row["principal"] == principal && row["kind"] == kind);
        found.cloned().unwrap_or_else(|| panic!("{principal} {kind}: {rows:?}"))
    };
    let (call, bobs_run) = (find(&both, "ann", "call"), find(&both, "bob", "run"));
    assert_eq!((&call["client"], &call["door"]), (&json!("ann-agent/1"), &json!("rest")), "{call}");
    assert_eq!((&call["isUnderWay"], &call["run"]), (&json!(true), &find(&both, "ann", "run")["run"]), "{call}");
    assert_eq!(bobs_run["door"], "mcp", "{bobs_run}");
    assert!(bobs_run["client"].is_string() && bobs_run["detail"] == "slow.nap(seconds=601)", "{bobs_run}");

    // Without the scope, one sees and ends only one's own runs.
    let own = under_way(&bench, ann, |rows| rows.len() == 2).await;
    assert!(own.iter().all(|row| row["principal"] == "ann"), "{own:?}");
    let path = |row: &Json| format!("/api/activity/{}", row["id"]);
    assert_eq!(bench.status(bob, Method::DELETE, &path(&call)).await, 404);
    assert_eq!(bench.status(ann, Method::DELETE, &path(&call)).await, 204);
    let (_, ended) = anns.await.unwrap();
    assert_eq!(ended["isError"], true, "{ended}");
    assert!(ended["text"].as_str().unwrap().contains("was cancelled"), "{ended}");
    // An administrator can end any run.
    assert_eq!(bench.status(CONFIGURED, Method::DELETE, &path(&bobs_run)).await, 204);
    assert!(run.await.unwrap().contains("cancelled"));
    under_way(&bench, CONFIGURED, <[Json]>::is_empty).await;
    assert_eq!(bench.status(CONFIGURED, Method::DELETE, &path(&bobs_run)).await, 404);

    let seen = bench.get(ann, "/api/activity").await;
    let events = seen["events"].as_array().unwrap();
    assert!(events.len() == 2 && events.iter().all(|row| row["principal"] == "ann"), "{seen}");
    let same = events.iter().find(|row| row["id"] == call["id"]).unwrap();
    assert_eq!((&same["isUnderWay"], same["error"].is_string()), (&json!(false), true), "{same}");
    let filtered = bench.get(CONFIGURED, "/api/activity?principal=bob").await;
    let filtered = filtered["events"].as_array().unwrap();
    assert!(!filtered.is_empty() && filtered.iter().all(|row| row["principal"] == "bob"), "{filtered:?}");

    let started = rows_until(&mut all, "started", |row| row["id"] == bobs_run["id"]).await;
    assert!(started.iter().all(|row| row["isUnderWay"] == true), "{started:?}");
    let is_bobs_end = |row: &Json| row["id"] == bobs_run["id"];
    let ended = rows_until(&mut bobs, "activity", is_bobs_end).await;
    assert!(ended.iter().all(|row| row["principal"] == "bob"), "{ended:?}");
}

#[tokio::test]
async fn whoever_may_not_decide_is_not_waited_for() {
    let bench = Bench::start("").await;
    let plain = token(&bench.project, &["plain", "--scope", "read,invoke"]).await;
    let stream = bench.ask(plain, Method::GET, "/api/events").send().await.unwrap();
    assert_eq!(stream.status(), 200);
    // Nobody can answer: the call is refused, or the run suspended, at once.
    let request = bench.ask(plain, Method::POST, "/api/tools/file.delete/invoke");
    let (status, answer) = reply(request.json(&json!({"args": {"path": "x"}}))).await;
    assert_eq!(status, 403, "{answer}");
}
