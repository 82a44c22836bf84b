//! Groups: what a principal may call, and what they see of everything else.

use rmcp::model::ReadResourceRequestParams;
use serde_json::json;

use super::token;
use crate::client::Project;

const SETTINGS: &str = "\
security:
  policy: {file.delete: deny}
  groups:
    readers:
      members: [ana, 'ci-*']
      policy: {file.write: deny, 'file.move': ask, 'file.delete': allow}
      packs: [file, notes, weather]
      secrets: ['DB_*']
";

const NOTES: &str = "\
# /// script
# [tool.onetool]
# secrets = [\"API_KEY\"]
# ///
import os
pack = 'notes'

def secret() -> str:
    return 'never'
";

fn project() -> Project {
    let project = Project::with(SETTINGS);
    project.write(".onetool/tools/notes/notes_tools.py", NOTES);
    project
        .write(".onetool/tools/zebra/zebra_tools.py", "pack = 'zebra'\n\ndef gallop() -> str:\n    return 'hello'\n");
    project.write("x.txt", "text");
    project
}

#[tokio::test]
async fn a_group_takes_away_and_never_adds() {
    let project = project();
    let (ana, eve) = (token(&project, &["ana"]).await, token(&project, &["eve"]).await);
    let lost = token(&project, &["lost", "--group", "reders"]).await;
    let mut server = project.serve_http().await;
    server.token = Some(ana);
    let ana_mcp = server.mcp().await;
    assert_eq!(ana_mcp.ok("str(file.read('x.txt'))").await, "text");
    for (code, reason) in [
        ("file.write('y.txt', 'y')", "not available to 'ana'"),
        ("file.delete('x.txt')", "denied"),
        ("zebra.gallop()", "not available to you"),
        ("ot.timed(zebra.gallop)", "not available to you"),
        ("notes.secret()", "the secret API_KEY"),
        ("import zebra\nzebra.gallop()", "zebra"),
    ] {
        let text = ana_mcp.err(code).await;
        assert!(text.contains(reason), "{code}: {text}");
    }
    // A call that needs approval does not take effect before the answer, whether the run ends or waits.
    ana_mcp.run("file.move('x.txt', 'z.txt')").await;
    assert!(project.path().join("x.txt").exists() && !project.path().join("z.txt").exists());
    // The same through REST, where tools are called by name.
    for (tool, expected) in [("file.write", 403), ("zebra.gallop", 403), ("file.read", 200)] {
        let body = if tool == "file.read" { json!({"args": {"path": "x.txt"}}) } else { json!({"args": {}}) };
        let (status, body) = server.post(&format!("/api/tools/{tool}/invoke"), body).await;
        assert_eq!(status, expected, "{tool}: {body}");
    }
    server.token = Some(eve);
    let eve_mcp = server.mcp().await;
    assert_eq!(eve_mcp.ok("zebra.gallop()").await, "hello");
    assert!(eve_mcp.err("file.delete('x.txt')").await.contains("denied by policy"));
    server.token = Some(lost);
    let text = server.mcp().await.err("file.read('x.txt')").await;
    assert!(text.contains("reders") || text.contains("not available"), "{text}");
}

#[tokio::test]
async fn what_is_taken_away_is_not_shown() {
    let project = project();
    let (ana, eve) = (token(&project, &["ana"]).await, token(&project, &["eve"]).await);
    let mut server = project.serve_http().await;
    for (who, sees) in [(ana, false), (eve, true)] {
        server.token = Some(who);
        let client = server.mcp().await;
        let mut shown = vec![
            ("ot.packs", client.ok("ot.packs(info='list')").await),
            ("ot.tools", client.ok("ot.tools(info='list')").await),
            ("ot.help", client.ok("str([n for n in str(ot.help(query='gallop')).split() if 'zebra' in n])").await),
        ];
        let tools = client.service.list_tools(None).await.unwrap();
        shown.push(("tools/list", serde_json::to_string(&tools).unwrap()));
        let resource = client.service.read_resource(ReadResourceRequestParams::new("ot://tools")).await.unwrap();
        shown.push(("ot://tools", serde_json::to_string(&resource).unwrap()));
        for path in ["/api/tools", "/api/packs", "/api/search?q=gallop", "/tools/bundles", "/tools/tools"] {
            let (status, body) = server.get(path).await;
            assert_eq!(status, 200, "{path}: {body}");
            shown.push((path, body.to_string()));
        }
        for (way, text) in &shown {
            let name = if way.starts_with("/tools") { "todo-read" } else { "zebra" };
            let name = if *way == "/tools/bundles" { "\"std\"" } else { name };
            assert_eq!(text.contains(name), sees, "{way}: {text:.600}");
        }
        let (_, tools) = server.get("/api/tools").await;
        assert_eq!(tools.to_string().contains("\"file.write\""), sees);
        assert_eq!(server.get("/api/tools/zebra.gallop").await.0, if sees { 200 } else { 404 });
        let one = client.service.read_resource(ReadResourceRequestParams::new("ot://tool/file.write")).await;
        assert_eq!(one.is_ok(), sees);
    }
}

/// A server that reports whether it has its token.
const KEYED: &str = r#"
import json, os, sys
for line in sys.stdin:
    message = json.loads(line)
    method, answer = message.get("method"), None
    if method == "initialize":
        answer = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "k", "version": "1"}}
    elif method == "tools/list":
        answer = {"tools": [{"name": "peek", "inputSchema": {"type": "object"}}]}
    elif method == "tools/call":
        answer = {"content": [{"type": "text", "text": "has " + os.environ["TOKEN"]}]}
    if "id" in message:
        reply = {"result": answer} if answer is not None else {"error": {"code": -32601, "message": "unknown"}}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **reply}), flush=True)
"#;

#[tokio::test]
async fn a_tool_that_uses_a_secret_of_others_is_not_there() {
    let project = Project::with(
        "servers:
  keyed: {command: python3, args: [keyed.py], env: {TOKEN: '${API_KEY}'}}
  open: {command: python3, args: [keyed.py], env: {TOKEN: '${DB_KEY}'}}
tools:
  web: {engines: {brave: {key: '${API_KEY}'}}}
  llm: {endpoint: 'http://127.0.0.1:9/v1', model: m, key: '${API_KEY}'}
http: {allowed_hosts: ['127.0.0.1:9']}
security:
  groups:
    readers: {members: [ana], secrets: ['DB_*']}
",
    );
    project.write("keyed.py", KEYED);
    project.write(".onetool/secrets.yaml", "API_KEY: one-one-one\nDB_KEY: two-two-two\n");
    project.write(".onetool/tools/notes/notes_tools.py", NOTES);
    let (ana, eve) = (token(&project, &["ana"]).await, token(&project, &["eve"]).await);
    let admin = token(&project, &["boss", "--scope", "read,invoke,admin"]).await;
    let mut server = project.serve_http().await;
    server.token = Some(admin);
    let bundle = "018faf50-b7b6-7a01-9a05-a22a6e0af101";
    let (status, body) = server
        .put(&format!("/tools/bundles/{bundle}"), json!({"slug": "shop", "secrets": ["API_KEY", "DB_KEY"]}))
        .await;
    assert!(status < 300, "{body}");
    for (slug, secret) in [("list", "DB_KEY"), ("order", "API_KEY")] {
        let tool = json!({"type": "http", "argSchema": {"type": "object"},
            "impl": {"urlTemplate": "http://127.0.0.1:9/", "headers": {"X-Key": format!("${{{secret}}}")}}});
        let (status, body) = server.put(&format!("/tools/bundles/{bundle}/tools/{slug}/version/v1"), tool).await;
        assert!(status < 300, "{body}");
    }
    let vault = "018faf50-b7b6-7a01-9a05-a22a6e0af102";
    server.put(&format!("/tools/bundles/{vault}"), json!({"slug": "vault", "secrets": ["API_KEY"]})).await;
    let tool = json!({"type": "http", "argSchema": {"type": "object"},
        "impl": {"urlTemplate": "http://127.0.0.1:9/", "headers": {"X-Key": "${API_KEY}"}}});
    let (status, body) = server.put(&format!("/tools/bundles/{vault}/tools/open/version/v1"), tool.clone()).await;
    assert!(status < 300, "{body}");
    for (who, sees) in [(ana, false), (eve, true)] {
        server.token = Some(who);
        let client = server.mcp().await;
        // Bundles and their tools, through every listing.
        let found = |is_there: bool| if is_there { 200 } else { 404 };
        for (path, is_there) in [
            (format!("/tools/bundles/{vault}"), sees),
            (format!("/tools/bundles/{vault}/export"), sees),
            (format!("/tools/bundles/{vault}/tools/open/version/v1"), sees),
            (format!("/tools/bundles/{bundle}"), true),
            (format!("/tools/bundles/{bundle}/export"), true),
            (format!("/tools/bundles/{bundle}/tools/order/version/v1"), sees),
            (format!("/tools/bundles/{bundle}/tools/list/version/v1"), true),
        ] {
            let response = server.request(reqwest::Method::GET, &path).send().await.unwrap();
            assert_eq!(response.status(), found(is_there), "{path}");
            if path.ends_with("/export") && is_there {
                let bytes = response.bytes().await.unwrap();
                let has = |name: &[u8]| bytes.windows(name.len()).any(|part| part == name);
                assert!(path.contains(vault) || (has(b"list") && has(b"order") == sees), "{path}");
            }
        }
        for (path, body, is_there) in [
            (format!("/tools/bundles/{vault}/preview"), json!({"tool": tool, "args": {}}), sees),
            (format!("/tools/bundles/{vault}/auth/test"), json!({}), sees),
            (format!("/tools/bundles/{bundle}/auth/test"), json!({}), sees),
            (format!("/tools/bundles/{vault}/tools/open/version/v1/invoke?dryRun=true"), json!({}), sees),
            (format!("/tools/bundles/{bundle}/tools/order/version/v1/invoke?dryRun=true"), json!({}), sees),
            (format!("/tools/bundles/{bundle}/tools/list/version/v1/invoke?dryRun=true"), json!({}), true),
        ] {
            let (status, body) = server.post(&path, body).await;
            assert_eq!(status, found(is_there), "{path}: {body}");
        }
        assert_eq!(client.ok("open.peek()").await, "has [REDACTED]");
        let hidden = ["keyed.peek", "web.search", "llm.ask", "notes.secret", "shop.order"];
        let shown = ["open.peek", "web.fetch", "shop.list"];
        let (_, listed) = server.get("/api/tools").await;
        let tools = client.ok("ot.tools(info='list')").await;
        for tool in hidden {
            assert_eq!(listed.to_string().contains(&format!("\"{tool}\"")), sees, "/api/tools: {tool}");
            assert_eq!(tools.contains(tool), sees, "ot.tools: {tool} in {tools}");
            assert_eq!(server.get(&format!("/api/tools/{tool}")).await.0, if sees { 200 } else { 404 }, "{tool}");
        }
        for tool in shown {
            assert!(listed.to_string().contains(&format!("\"{tool}\"")) && tools.contains(tool), "{tool}");
        }
        let packs = client.ok("ot.packs(info='list')").await;
        assert_eq!((packs.contains("keyed"), packs.contains("llm")), (sees, sees), "{packs}");
        if sees {
            assert_eq!(client.ok("keyed.peek()").await, "has [REDACTED]");
            continue;
        }
        for code in ["keyed.peek()", "llm.ask(prompt='x')", "web.search(query='x')", "notes.secret()", "shop.order()"] {
            let text = client.err(code).await;
            assert!(text.contains("the secret API_KEY") && !text.contains("one-one-one"), "{code}: {text}");
            let name = code.split('(').next().unwrap();
            let (status, body) = server.post(&format!("/api/tools/{name}/invoke"), json!({"args": {}})).await;
            assert!([403, 404].contains(&status), "{name}: {status} {body}");
        }
    }
}
