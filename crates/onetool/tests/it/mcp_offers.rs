//! What the server offers besides its tool: prompts, completion, change notifications, and the older transport.

use futures_util::StreamExt as _;
use reqwest::{Method, Response};
use rmcp::model::{GetPromptRequestParams, JsonObject};
use serde_json::{Value as Json, json};

use crate::client::{HttpServer, PATIENCE, Project};

const SNIPPETS: &str = "\
snippets:
  greet:
    description: Greets somebody
    params:
      name: {required: true, description: whom to greet}
      greeting: {default: hello}
    body: \"print({{ greeting | literal }}, {{ name | literal }})\"
";

fn arguments(pairs: Json) -> JsonObject {
    pairs.as_object().unwrap().clone()
}

#[tokio::test]
async fn snippets_are_prompts_with_arguments() {
    let project = Project::with(SNIPPETS);
    let client = project.serve().await;
    let prompts = client.service.list_prompts(None).await.unwrap().prompts;
    assert_eq!(prompts.len(), 1);
    let listed = serde_json::to_value(&prompts[0]).unwrap();
    assert_eq!(
        listed,
        json!({"name": "greet", "description": "Greets somebody", "arguments": [
            {"name": "name", "description": "whom to greet", "required": true},
            {"name": "greeting", "required": false},
        ]})
    );
    // A value stays a value, whatever it contains.
    let mut request = GetPromptRequestParams::new("greet");
    request.arguments = Some(arguments(json!({"name": "O'Neil\nfoo=bar"})));
    let prompt = serde_json::to_value(client.service.get_prompt(request).await.unwrap()).unwrap();
    assert_eq!(
        prompt["messages"][0]["content"]["text"],
        "Run this with the tool `run`:\n\n```python\nprint('hello', \"O'Neil\\nfoo=bar\")\n```"
    );
    for (name, given, reason) in [
        ("greet", json!({}), "missing parameter 'name'"),
        ("greet", json!({"name": "x", "nope": "y"}), "unknown parameter 'nope'"),
        ("nope", json!({}), "unknown prompt 'nope'"),
    ] {
        let mut request = GetPromptRequestParams::new(name);
        request.arguments = Some(arguments(given));
        let error = client.service.get_prompt(request).await.unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
}

#[tokio::test]
async fn names_of_tools_and_defaults_of_prompts_are_completed() {
    let project = Project::with(SNIPPETS);
    let client = project.serve().await;
    let complete = async |reference: Json, name: &str, value: &str| {
        let params = json!({"ref": reference, "argument": {"name": name, "value": value}});
        let request = serde_json::from_value(params).unwrap();
        client.service.complete(request).await.map(|result| result.completion.values)
    };
    let tool = json!({"type": "ref/resource", "uri": "ot://tool/{name}"});
    assert_eq!(complete(tool.clone(), "name", "file.re").await.unwrap(), ["file.read"]);
    assert!(complete(tool, "name", "zzz").await.unwrap().is_empty());
    let greet = json!({"type": "ref/prompt", "name": "greet"});
    assert_eq!(complete(greet.clone(), "greeting", "he").await.unwrap(), ["hello"]);
    assert!(complete(greet, "name", "").await.unwrap().is_empty());
    assert!(complete(json!({"type": "ref/prompt", "name": "nope"}), "x", "").await.is_err());
}

/// Reads an event stream until it contains everything in `wanted`.
async fn until(response: Response, wanted: &[&str]) -> String {
    let mut text = String::new();
    let mut stream = response.bytes_stream();
    let reading = async {
        while !wanted.iter().all(|wanted| text.contains(wanted)) {
            let chunk = stream.next().await.expect("the stream ended").unwrap();
            text.push_str(&String::from_utf8_lossy(&chunk));
        }
    };
    assert!(!tokio::time::timeout(PATIENCE, reading).await.is_err(), "never: {wanted:?} in {text}");
    text
}

const ERA: &str = "2026-07-28";

#[tokio::test]
async fn clients_of_both_eras_hear_of_changes() {
    let project = Project::with(SNIPPETS);
    let server = project.serve_http().await;
    let accept = "application/json, text/event-stream";
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}});
    let opened = server.request(Method::POST, "/mcp").header("accept", accept).json(&hello).send().await.unwrap();
    let session = opened.headers()["mcp-session-id"].clone();
    let post = |body: Json| {
        let request = server.request(Method::POST, "/mcp").header("accept", accept).json(&body);
        request.header("mcp-session-id", session.clone()).send()
    };
    post(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await.unwrap();
    let subscribed =
        post(json!({"jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": {"uri": "ot://tools"}}));
    let subscribed = subscribed.await.unwrap().text().await.unwrap();
    assert!(subscribed.contains("\"result\""), "{subscribed}");
    let listening = server.request(Method::GET, "/mcp").header("accept", "text/event-stream");
    let session_stream = listening.header("mcp-session-id", session.clone()).send().await.unwrap();

    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": ERA,
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let listen = json!({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": {
        "_meta": meta, "notifications": {"toolsListChanged": true, "promptsListChanged": true,
        "resourceSubscriptions": ["ot://tools"]}}});
    let stream = server.request(Method::POST, "/mcp").header("accept", accept).header("mcp-protocol-version", ERA);
    let stream = stream.header("mcp-method", "subscriptions/listen").json(&listen).send().await.unwrap();
    assert_eq!(stream.status(), 200);

    let change = async {
        // The state must be read once before a change can be noticed. Every further change counts too.
        for number in 0.. {
            tokio::time::sleep(std::time::Duration::from_millis(1500)).await;
            let description = format!("prompts: {{tools: {{run: {{description: Changed {number}}}}}}}\n");
            let snippet = format!("snippets: {{s{number}: '1'}}\n");
            project.write(".onetool/onetool.yaml", &format!("{description}{snippet}"));
            let tools = format!("def f{number}() -> int:\n    return 1\n");
            project.write(&format!(".onetool/tools/p{number}/p{number}_tools.py"), &tools);
        }
    };
    let both = async {
        for (response, era) in [(session_stream, "session"), (stream, "stream")] {
            let wanted = ["resources/updated", "tools/list_changed", "prompts/list_changed"];
            let text = until(response, &wanted).await;
            assert!(wanted.iter().all(|wanted| text.contains(wanted)), "{era}: {text}");
        }
    };
    tokio::select! {
        () = both => {}
        () = change => {}
    }
}

#[tokio::test]
async fn a_client_that_comes_back_too_late_for_what_it_missed_hears_what_comes_next() {
    let project = Project::with("server: {resume_window: 0.1}\n");
    let server = project.serve_http().await;
    let accept = "application/json, text/event-stream";
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}});
    let opened = server.request(Method::POST, "/mcp").header("accept", accept).json(&hello).send().await.unwrap();
    let session = opened.headers()["mcp-session-id"].to_str().unwrap().to_owned();
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let ready = server.request(Method::POST, "/mcp").header("accept", accept).json(&ready);
    assert_eq!(ready.header("mcp-session-id", &session).send().await.unwrap().status(), 202);
    let listening = server.request(Method::GET, "/mcp").header("accept", "text/event-stream");
    // Event ids begin with the first part of the session's id.
    let missed = format!("{}:common/7", session.split('.').next().unwrap());
    let listening = listening.header("mcp-session-id", &session).header("last-event-id", missed);
    let stream = listening.send().await.unwrap();
    let change = async {
        for number in 0.. {
            tokio::time::sleep(std::time::Duration::from_millis(1500)).await;
            project.write(".onetool/onetool.yaml", &format!("snippets: {{s{number}: '1'}}\n"));
        }
    };
    tokio::select! {
        _ = until(stream, &["prompts/list_changed"]) => {}
        () = change => {}
    }
}

#[tokio::test]
async fn clients_of_both_eras_hear_what_servers_of_both_eras_tell() {
    let file = std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../onetool-proxy/tests/proxy/server.py");
    let upstream = |mode: &str| json!({"command": "python3", "args": [file, "--mode", mode, "--news"]});
    let project =
        Project::with(&json!({"servers": {"old": upstream("normal"), "new": upstream("modern")}}).to_string());
    let server = project.serve_http().await;
    let client = server.mcp().await;
    for pack in ["old", "new"] {
        client.ok(&format!("{pack}.echo(text='x')")).await;
    }
    let accept = "application/json, text/event-stream";
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}});
    let opened = server.request(Method::POST, "/mcp").header("accept", accept).json(&hello).send().await.unwrap();
    let session = opened.headers()["mcp-session-id"].clone();
    let post = |body: Json| {
        let request = server.request(Method::POST, "/mcp").header("accept", accept).json(&body);
        request.header("mcp-session-id", session.clone()).send()
    };
    post(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await.unwrap();
    let uris = ["ot://server/old/note://1", "ot://server/new/note://1"];
    for uri in uris {
        let subscribe = json!({"jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": {"uri": uri}});
        let subscribed = post(subscribe).await.unwrap().text().await.unwrap();
        assert!(subscribed.contains("\"result\""), "{subscribed}");
    }
    let listening = server.request(Method::GET, "/mcp").header("accept", "text/event-stream");
    let session_stream = listening.header("mcp-session-id", session.clone()).send().await.unwrap();
    let listen = json!({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": {
        "_meta": {"io.modelcontextprotocol/protocolVersion": ERA, "io.modelcontextprotocol/clientCapabilities": {}},
        "notifications": {"promptsListChanged": true, "resourcesListChanged": true, "resourceSubscriptions": uris}}});
    let stream = server.request(Method::POST, "/mcp").header("accept", accept).header("mcp-protocol-version", ERA);
    let stream = stream.header("mcp-method", "subscriptions/listen").json(&listen).send().await.unwrap();
    let publish = async {
        loop {
            for pack in ["old", "new"] {
                for what in ["prompts", "resources", "note://1"] {
                    client.ok(&format!("{pack}.publish(what='{what}')")).await;
                }
            }
            tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        }
    };
    let heard = async {
        for (response, era) in [(session_stream, "session"), (stream, "stream")] {
            let wanted = [
                "notifications/prompts/list_changed",
                "notifications/resources/list_changed",
                "ot://server/old/note://1",
                "ot://server/new/note://1",
            ];
            let text = until(response, &wanted).await;
            assert!(wanted.iter().all(|wanted| text.contains(wanted)), "{era}: {text}");
        }
    };
    tokio::select! {
        () = heard => {}
        () = publish => {}
    }
}

async fn message(server: &HttpServer, path: &str, body: Json) -> u16 {
    server.request(Method::POST, path).json(&body).send().await.unwrap().status().as_u16()
}

#[tokio::test]
async fn http_with_sse_of_the_first_revision_is_served_behind_its_switch() {
    let project = Project::empty();
    let off = project.serve_http().await;
    let (status, reply) = off.get("/sse").await;
    assert_eq!(status, 404);
    assert!(reply["error"]["hint"].as_str().unwrap().contains("server.legacy_sse: true"), "{reply}");

    let project = Project::with("server: {legacy_sse: true}\n");
    let server = project.serve_http().await;
    let mut stream = server.request(Method::GET, "/sse").send().await.unwrap().bytes_stream();
    let mut text = String::new();
    let mut read_until = async |wanted: &str| {
        let reading = async {
            while !text.contains(wanted) {
                text.push_str(&String::from_utf8_lossy(&stream.next().await.expect("an event").unwrap()));
            }
        };
        tokio::time::timeout(PATIENCE, reading).await.unwrap_or_else(|_| panic!("never {wanted}"));
        text.clone()
    };
    let first = read_until("\n\n").await;
    assert!(first.starts_with("event: endpoint\n"), "{first}");
    let path = first.lines().find_map(|line| line.strip_prefix("data: ")).unwrap().to_owned();
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}});
    assert_eq!(message(&server, &path, hello).await, 202);
    assert!(read_until("\"serverInfo\"").await.contains("\"protocolVersion\":\"2024-11-05\""));
    assert_eq!(message(&server, &path, json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await, 202);
    let run = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
        "name": "run", "arguments": {"command": "6 * 7"}}});
    assert_eq!(message(&server, &path, run.clone()).await, 202);
    read_until("\"text\":\"42\"").await;
    assert_eq!(message(&server, &path, json!({"nope": 1})).await, 400);
    drop(stream);
    let started = std::time::Instant::now();
    while message(&server, &path, run.clone()).await != 404 {
        assert!(started.elapsed() < PATIENCE, "the session ends with its stream");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn one_client_cannot_take_every_session_of_the_older_transport() {
    let project = Project::with("server: {legacy_sse: true, max_sessions: 8, max_sessions_per_client: 2}\n");
    let server = project.serve_http().await;
    let open = async || server.request(Method::GET, "/sse").send().await.unwrap();
    let streams = [open().await, open().await];
    let refused = open().await;
    assert_eq!((refused.status().as_u16(), refused.headers().contains_key("retry-after")), (503, true));
    drop(streams);
    let started = std::time::Instant::now();
    while open().await.status() != 200 {
        assert!(started.elapsed() < PATIENCE, "a stream that ended makes room");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn prompts_and_resources_of_upstream_servers_come_through() {
    let file = std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../onetool-proxy/tests/proxy/server.py");
    let server = json!({"command": "python3", "args": [file, "--mode", "normal"]});
    let configured = |policy: Json| {
        let gone = json!({"command": "no-such-program-anywhere"});
        let policy = json!({"policy": policy});
        Project::with(&json!({"servers": {"up": server, "gone": gone}, "security": policy}).to_string())
    };
    let project = configured(json!({}));
    let client = project.serve().await;
    client.ok("up.echo(text='x')").await;
    let prompts = client.service.list_prompts(None).await.unwrap().prompts;
    assert_eq!(prompts.iter().map(|prompt| prompt.name.as_str()).collect::<Vec<_>>(), ["up/greet"]);
    let mut request = GetPromptRequestParams::new("up/greet");
    request.arguments = Some(arguments(json!({"who": "Ada"})));
    let prompt = serde_json::to_string(&client.service.get_prompt(request).await.unwrap()).unwrap();
    assert!(prompt.contains("Ada"), "{prompt}");

    let resources = client.service.list_resources(None).await.unwrap().resources;
    let uris: Vec<&str> = resources.iter().map(|resource| resource.uri.as_str()).collect();
    assert_eq!(uris, ["ot://tools", "ot://server/up/note://1"]);
    assert_eq!(resources[1].description.as_deref(), Some("xy"), "invisible characters are gone");
    let templates = client.service.list_resource_templates(None).await.unwrap().resource_templates;
    assert!(templates.iter().any(|template| template.uri_template.starts_with("ot://server/up/")), "{templates:?}");
    let read = async |client: &crate::client::Client, uri: &str| {
        client.service.read_resource(rmcp::model::ReadResourceRequestParams::new(uri)).await
    };
    let note = serde_json::to_value(read(&client, "ot://server/up/note://1").await.unwrap()).unwrap();
    assert_eq!(note["contents"][0]["uri"], "ot://server/up/note://1", "{note}");
    let missing = read(&client, "ot://server/nobody/note://1").await.unwrap_err().to_string();
    assert!(missing.contains("no server 'nobody'"), "{missing}");

    let strict = configured(json!({"up.prompt": "deny", "up.read": "deny"}));
    let client = strict.serve().await;
    client.ok("up.echo(text='x')").await;
    assert!(client.service.list_prompts(None).await.unwrap().prompts.is_empty());
    let denied = read(&client, "ot://server/up/note://1").await.unwrap_err().to_string();
    assert!(denied.contains("up.read is not allowed by security.policy"), "{denied}");
}

/// A client with a folder as its root.
struct Rooted(std::sync::Mutex<String>);

impl rmcp::ClientHandler for Rooted {
    fn get_info(&self) -> rmcp::model::ClientConfig {
        let mut info = rmcp::model::ClientConfig::default();
        info.capabilities = serde_json::from_value(json!({"roots": {"listChanged": true}})).unwrap();
        info
    }

    #[expect(deprecated, reason = "clients of today still have roots")]
    async fn list_roots(
        &self,
        _: rmcp::service::RequestContext<rmcp::RoleClient>,
    ) -> Result<rmcp::model::ListRootsResult, rmcp::ErrorData> {
        let roots = json!({"roots": [{"uri": format!("file://{}", self.0.lock().unwrap())}]});
        Ok(serde_json::from_value(roots).unwrap())
    }
}

#[tokio::test]
async fn roots_of_the_client_are_file_roots_only_where_the_configuration_says_so() {
    let elsewhere = tempfile::tempdir().unwrap();
    std::fs::write(elsewhere.path().join("note.txt"), "theirs\n").unwrap();
    let command = format!("file.read('{}/note.txt', line_numbers=False)", elsewhere.path().display());
    for (configuration, expected) in [("", None), ("tools: {file: {client_roots: true}}\n", Some("theirs"))] {
        let project = Project::with(configuration);
        let transport = rmcp::transport::TokioChildProcess::new(project.command(&["serve"])).unwrap();
        let client = Rooted(std::sync::Mutex::new(elsewhere.path().display().to_string()));
        let service = rmcp::service::ServiceExt::serve(client, transport).await.unwrap();
        let run = async || crate::client::Answer::of(&service.call_tool(crate::client::call(&command)).await.unwrap());
        let answer = run().await;
        match expected {
            Some(text) => assert!(answer.text.contains(text), "{answer:?}"),
            None => assert!(answer.text.contains("is outside the folders"), "{answer:?}"),
        }
        // A change of the roots takes effect from then on.
        *service.service().0.lock().unwrap() = project.path().display().to_string();
        service.notify_roots_list_changed().await.unwrap();
        let until = tokio::time::Instant::now() + PATIENCE;
        while !run().await.text.contains("is outside the folders") {
            assert!(tokio::time::Instant::now() < until, "the roots have changed");
        }
    }
}

#[tokio::test]
async fn programs_below_a_clients_root_are_not_replaced() {
    let theirs = tempfile::tempdir().unwrap();
    let programs = theirs.path().join(".venv/bin");
    std::fs::create_dir_all(&programs).unwrap();
    std::fs::write(theirs.path().join(".venv/pyvenv.cfg"), "home = /usr/bin\n").unwrap();
    let project = Project::with("tools: {file: {client_roots: true}}\n");
    let mut command = project.command(&["serve"]);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(programs).chain(std::env::split_paths(&path));
    command.env("PATH", std::env::join_paths(folders).unwrap());
    let transport = rmcp::transport::TokioChildProcess::new(command).unwrap();
    let client = Rooted(std::sync::Mutex::new(theirs.path().display().to_string()));
    let service = rmcp::service::ServiceExt::serve(client, transport).await.unwrap();
    for (name, expected) in [
        (".venv/bin/python3", "is protected"),
        (".venv/lib/python3.12/site-packages/sitecustomize.py", "is protected"),
        ("note.txt", "note.txt"),
    ] {
        let code = format!("file.write('{}/{name}', 'x')", theirs.path().display());
        let answer = crate::client::Answer::of(&service.call_tool(crate::client::call(&code)).await.unwrap());
        assert!(answer.text.contains(expected), "{name}: {answer:?}");
        assert_eq!(theirs.path().join(name).exists(), expected == name, "{name}");
    }
}

/// A project with an upstream server of each revision.
fn both_eras() -> Project {
    let file = std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../onetool-proxy/tests/proxy/server.py");
    let upstream = |mode: &str| json!({"command": "python3", "args": [file, "--mode", mode, "--news"]});
    Project::with(&json!({"servers": {"old": upstream("normal"), "new": upstream("modern")}}).to_string())
}

#[tokio::test]
async fn servers_complete_their_own_prompts_and_templates() {
    let project = both_eras();
    let client = project.serve().await;
    for pack in ["old", "new"] {
        client.ok(&format!("{pack}.echo(text='x')")).await;
        let complete = async |params: Json| {
            let request = serde_json::from_value(params).unwrap();
            client.service.complete(request).await.map(|result| result.completion.values)
        };
        let prompt = json!({"type": "ref/prompt", "name": format!("{pack}/greet")});
        let typed = |value: &str| json!({"ref": prompt, "argument": {"name": "who", "value": value}});
        assert_eq!(complete(typed("Ad")).await.unwrap(), ["Ada", "Adam"], "{pack}");
        let mut with_context = typed("[");
        with_context["context"] = json!({"arguments": {"a": "b"}});
        assert_eq!(complete(with_context).await.unwrap(), [r#"["greet", {"arguments": {"a": "b"}}]"#], "{pack}");
        let template = json!({"type": "ref/resource", "uri": format!("ot://server/{pack}/note://{{id}}")});
        let values = complete(json!({"ref": template, "argument": {"name": "id", "value": "["}})).await.unwrap();
        assert_eq!(values, [r#"["note://{id}", null]"#], "{pack}");
    }
    let unknown = json!({"ref": {"type": "ref/prompt", "name": "nobody/x"}, "argument": {"name": "a", "value": ""}});
    let error = client.service.complete(serde_json::from_value(unknown).unwrap()).await.unwrap_err().to_string();
    assert!(error.contains("no server 'nobody'"), "{error}");
}

/// A client whose user is named Ada.
struct Answering;

impl rmcp::ClientHandler for Answering {
    fn get_info(&self) -> rmcp::model::ClientConfig {
        let mut info = rmcp::model::ClientConfig::default();
        info.capabilities = serde_json::from_value(json!({"elicitation": {}})).unwrap();
        info
    }

    async fn create_elicitation(
        &self,
        _: rmcp::model::ElicitRequestParams,
        _: rmcp::service::RequestContext<rmcp::RoleClient>,
    ) -> Result<rmcp::model::ElicitResult, rmcp::ErrorData> {
        Ok(serde_json::from_value(json!({"action": "accept", "content": {"name": "Ada"}})).unwrap())
    }
}

#[tokio::test]
async fn prompts_and_resources_that_want_to_know_something_ask_clients_of_both_eras() {
    let project = both_eras();
    let transport = rmcp::transport::TokioChildProcess::new(project.command(&["serve"])).unwrap();
    let older = rmcp::service::ServiceExt::serve(Answering, transport).await.unwrap();
    let server = project.serve_http().await;
    let newer = async |method: &str, params: Json| {
        let mut params = params;
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": ERA,
            "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
        });
        let name = params["name"].as_str().or(params["uri"].as_str()).unwrap().to_owned();
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let request = server.request(Method::POST, "/mcp").header("accept", "application/json, text/event-stream");
        let request = request.header("mcp-protocol-version", ERA).header("mcp-method", method).header("mcp-name", name);
        let text = request.json(&body).send().await.unwrap().text().await.unwrap();
        let data = text.lines().filter_map(|line| line.strip_prefix("data:")).next_back().unwrap_or(&text);
        serde_json::from_str::<Json>(data.trim()).unwrap_or_else(|_| panic!("{text}"))
    };
    let client = server.mcp().await;
    for pack in ["old", "new"] {
        client.ok(&format!("{pack}.echo(text='x')")).await;
        older.call_tool(crate::client::call(&format!("{pack}.echo(text='x')"))).await.unwrap();
        let prompt = older.get_prompt(GetPromptRequestParams::new(format!("{pack}/form"))).await.unwrap();
        assert!(serde_json::to_string(&prompt).unwrap().contains("for Ada"), "{pack}: {prompt:?}");
        let uri = format!("ot://server/{pack}/form");
        let read = older.read_resource(rmcp::model::ReadResourceRequestParams::new(&uri)).await.unwrap();
        assert!(serde_json::to_string(&read).unwrap().contains("for Ada"), "{pack}: {read:?}");

        for (method, params) in [
            ("prompts/get", json!({"name": format!("{pack}/form"), "arguments": {"b": "1", "a": "2"}})),
            ("resources/read", json!({"uri": uri})),
        ] {
            let asked = newer(method, params.clone()).await;
            assert_eq!(asked["result"]["resultType"], "input_required", "{pack} {method}: {asked}");
            let key = asked["result"]["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
            let mut retry = params.clone();
            retry["requestState"] = asked["result"]["requestState"].clone();
            retry["inputResponses"] = json!({key: {"action": "accept", "content": {"name": "Bob"}}});
            let mut other = retry.clone();
            other[if method == "prompts/get" { "name" } else { "uri" }] = json!(format!("ot://server/{pack}/note://1"));
            let refused = newer(method, other).await;
            assert!(refused["error"]["message"].as_str().unwrap().contains("requestState is invalid"), "{refused}");
            let answered = newer(method, retry.clone()).await;
            assert!(answered["result"].to_string().contains("for Bob"), "{pack} {method}: {answered}");
            let again = newer(method, retry).await;
            assert_eq!(again["error"]["code"], -32602, "a state holds once: {again}");
        }
    }
    let gone = newer("resources/read", json!({"uri": "ot://server/old/note://gone"})).await;
    let told = (&gone["error"]["code"], &gone["error"]["data"]["uri"]);
    assert_eq!(told, (&json!(-32602), &json!("ot://server/old/note://gone")), "{gone}");
}
