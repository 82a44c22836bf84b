//! Signing in to upstream servers through the binary, with a real authorization server.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use serde_json::json;

use crate::client::{PATIENCE, Project};

/// An MCP server with its own authorization server.
struct Guarded {
    child: Child,
    port: u16,
}

impl Guarded {
    fn start() -> Self {
        let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../onetool-proxy/tests/proxy/oauth_server.py");
        let mut child = Command::new("python3").arg(file).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        Self { child, port: line.trim().parse().unwrap() }
    }

    fn project(&self) -> Project {
        let url = format!("http://127.0.0.1:{}/mcp", self.port);
        Project::with(&json!({"servers": {"web": {"url": url}}}).to_string())
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn visit(url: &str) -> u16 {
    onetool_outbound::client_builder().build().unwrap().get(url).send().await.unwrap().status().as_u16()
}

/// A browser that follows the address it is given and closes itself.
fn browser(project: &Project) -> PathBuf {
    let path = project.write(
        "browser",
        "#!/usr/bin/env python3\nimport sys, urllib.request\nurllib.request.urlopen(sys.argv[1], timeout=20).read()\n",
    );
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    path
}

#[tokio::test]
async fn a_server_is_signed_in_to_and_out_of_on_the_command_line() {
    let guarded = Guarded::start();
    let project = guarded.project();
    let run = |arguments: &'static [&'static str]| {
        let mut command = project.command(arguments);
        command.env("BROWSER", browser(&project));
        async move {
            let output = command.output().await.unwrap();
            let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
            (text(output.stdout), text(output.stderr), output.status.code())
        }
    };
    let (_, err, code) = run(&["run", "web.whoami()"]).await;
    assert_eq!(code, Some(1));
    assert!(err.contains("it needs a sign-in") && err.contains("run: onetool servers login web"), "{err}");
    let (out, err, code) = run(&["servers", "login", "web"]).await;
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(out.contains("/authorize?response_type=code") && out.contains("signed in: web"), "{out}");
    let (out, err, _) = run(&["run", "web.whoami()"]).await;
    assert!(out.starts_with("client-1 of"), "{out}{err}");
    let (out, ..) = run(&["servers", "list", "--json"]).await;
    assert!(out.contains("\"state\": \"signed in\"") || out.contains("\"state\":\"signed in\""), "{out}");
    // No tool can read the credentials, in any way.
    let folder = project.home().join(".onetool/credentials");
    let file = std::fs::read_dir(&folder).unwrap().flatten().map(|entry| entry.path());
    let file = file.filter(|path| path.is_file()).max_by_key(|path| std::fs::metadata(path).unwrap().len()).unwrap();
    let stored = std::fs::read_to_string(&file).unwrap();
    let token = stored.split_once("\"rt-").and_then(|(_, rest)| rest.split_once('"')).expect("a refresh token").0;
    let client = project.serve().await;
    for code in [
        format!("file.read(path={:?})", file.display().to_string()),
        format!("open({:?}).read()", file.display().to_string()),
        format!("file.grep(pattern='rt-', path={:?})", folder.display().to_string()),
        "file.grep(pattern='rt-', path='.')".to_owned(),
    ] {
        let answer = client.run(&code).await;
        assert!(!answer.text.contains(token) && !answer.text.contains("access_token"), "{code}: {answer:?}");
    }
    let (out, ..) = run(&["servers", "logout", "web"]).await;
    assert_eq!(out, "signed out: web\n");
    assert!(!std::fs::read_to_string(&file).unwrap().contains("\"rt-"));
    let (_, err, code) = run(&["servers", "login", "nobody"]).await;
    assert!(code == Some(1) && err.contains("no server is named 'nobody'; there are: web"), "{err}");
}

/// A user of a server on another machine is redirected back to it.
#[tokio::test]
async fn a_public_server_takes_the_browser_back() {
    let guarded = Guarded::start();
    let url = format!("http://127.0.0.1:{}/mcp", guarded.port);
    let project = Project::with(
        &json!({"servers": {"web": {"url": url}}, "server": {"public_url": "https://Tools.example.org/", "tokens": [{"token": "t0ken-of-the-admin", "scopes": ["admin", "read", "invoke"]}]}})
            .to_string(),
    );
    let server = project.serve_http().await;
    let client = onetool_outbound::client_builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let login = format!("{}/api/servers/web/login", server.base);
    let begun = client.post(&login).bearer_auth("t0ken-of-the-admin").json(&json!({})).send().await.unwrap();
    let begun: serde_json::Value = begun.json().await.unwrap();
    let shown = client.get(begun["url"].as_str().unwrap_or_else(|| panic!("{begun}"))).send().await.unwrap();
    let back = shown.headers()["location"].to_str().unwrap().to_owned();
    let query = back.strip_prefix("https://Tools.example.org/oauth/callback?").unwrap_or_else(|| panic!("{back}"));
    // Without a token, under the public name; a callback without a pending sign-in is refused.
    let visit = async |query: &str| {
        let visited = client.get(format!("{}/oauth/callback?{query}", server.base)).header("Host", "tools.example.org");
        let answer = visited.send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    };
    let (status, page) = visit("code=x&state=<b>").await;
    assert!(status == 400 && page.contains("begin it again"), "{status} {page}");
    let (status, page) = visit(query).await;
    assert!(status == 200 && page.contains("You are signed in to web"), "{status} {page}");
    let (status, _) = visit(query).await;
    assert_eq!(status, 400);
    let listed =
        client.get(format!("{}/api/servers", server.base)).bearer_auth("t0ken-of-the-admin").send().await.unwrap();
    let listed: serde_json::Value = listed.json().await.unwrap();
    assert_eq!(listed["servers"][0]["auth"]["state"], "signed in", "{listed}");
}

#[tokio::test]
async fn a_server_tells_where_to_sign_in_and_the_admin_page_does_it() {
    let guarded = Guarded::start();
    let project = guarded.project();
    let server = project.serve_http().await;
    let client = server.mcp().await;
    let started = Instant::now();
    let mut health = String::new();
    while !health.contains("/authorize?") {
        assert!(started.elapsed() < PATIENCE, "{health}");
        health = client.ok("ot.health()").await;
    }
    let (status, begun) = server.post("/api/servers/web/login", json!({})).await;
    assert_eq!(status, 200, "{begun}");
    let url = begun["url"].as_str().unwrap();
    assert!(health.contains(url), "one address: {url} and {health}");
    assert_eq!(visit(url).await, 200);
    let mut answer = String::new();
    while !answer.starts_with("client-1 of") {
        assert!(started.elapsed() < PATIENCE, "{answer}");
        answer = client.run("web.whoami()").await.text;
    }
    let (_, listed) = server.get("/api/servers").await;
    assert_eq!(listed["servers"][0]["auth"]["state"], "signed in", "{listed}");
    let (status, out) = server.post("/api/servers/web/logout", json!({})).await;
    assert_eq!((status, &out["signedIn"]), (200, &json!(false)), "{out}");
    let (status, wrong) = server.post("/api/servers/nobody/login", json!({})).await;
    assert_eq!(status, 404, "{wrong}");
    let (status, wrong) = server.post("/api/servers/web/login", json!({"callback": "?code=x&state=y"})).await;
    assert_eq!(status, 409, "{wrong}");
}
