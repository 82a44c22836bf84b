//! Helpers for tests: a project folder, a server in it, and runs against that server.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use reqwest::{Method, RequestBuilder};
use rmcp::RoleClient;
use rmcp::model::{CallToolRequestParams, CallToolResult};
use rmcp::service::{RunningService, ServiceExt as _};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use serde_json::{Value as Json, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

pub const BINARY: &str = env!("CARGO_BIN_EXE_onetool");

/// The program to test. `ONETOOL_BIN` names another one, such as a release build for measurements.
fn binary() -> String {
    std::env::var("ONETOOL_BIN").unwrap_or_else(|_| BINARY.to_owned())
}

/// Longer than anything in a test takes, unless it hangs.
pub const PATIENCE: Duration = Duration::from_mins(2);

/// A folder with a configuration, and its own home folder.
pub struct Project {
    folder: TempDir,
}

impl Project {
    pub fn empty() -> Self {
        Self::with("")
    }

    pub fn with(configuration: &str) -> Self {
        let project = Self { folder: tempfile::tempdir().unwrap() };
        project.write(".onetool/onetool.yaml", configuration);
        std::fs::create_dir_all(project.home()).unwrap();
        project
    }

    /// Copies a folder of the repository.
    pub fn copy_of(folder: &Path) -> Self {
        let project = Self::empty();
        copy(folder, project.path());
        project
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn home(&self) -> PathBuf {
        self.path().join("home")
    }

    pub fn write(&self, path: &str, text: &str) -> PathBuf {
        let path = self.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        self.program(&binary(), arguments)
    }

    /// Another program, with the environment of `onetool`.
    pub fn program(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .current_dir(self.path())
            .env("HOME", self.home())
            .env_remove("ONETOOL_CONFIG")
            .env_remove("ONETOOL_PROJECT")
            .env_remove("OT_SECRETS_FILE")
            .env_remove("XDG_CONFIG_HOME")
            .stdin(Stdio::null())
            .kill_on_drop(true);
        // Package caches are shared with the machine; everything else below home belongs to the project.
        for (name, folder) in [("UV_CACHE_DIR", ".cache/uv"), ("UV_PYTHON_INSTALL_DIR", ".local/share/uv/python")] {
            if std::env::var_os(name).is_none()
                && let Some(home) = std::env::home_dir()
            {
                command.env(name, home.join(folder));
            }
        }
        command
    }

    pub async fn serve(&self) -> Client {
        self.serve_with(&["serve"]).await
    }

    pub async fn serve_with(&self, arguments: &[&str]) -> Client {
        self.serve_in(arguments, &[]).await
    }

    /// With additional environment variables.
    pub async fn serve_in(&self, arguments: &[&str], environment: &[(String, String)]) -> Client {
        let mut command = self.command(arguments);
        command.envs(environment.iter().cloned());
        let transport = TokioChildProcess::new(command).unwrap();
        let pid = transport.id().unwrap();
        let service = ().serve(transport).await.unwrap();
        Client { service, pid }
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// A connected client.
pub struct Client {
    pub service: RunningService<RoleClient, ()>,
    pub pid: u32,
}

/// The answer of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    pub text: String,
    pub is_error: bool,
    pub content: Vec<Json>,
}

impl Answer {
    pub fn of(result: &CallToolResult) -> Self {
        let content: Vec<Json> = result.content.iter().map(|block| serde_json::to_value(block).unwrap()).collect();
        let text = content.iter().filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n");
        Self { text, is_error: result.is_error.unwrap_or(false), content }
    }
}

pub fn call(command: &str) -> CallToolRequestParams {
    let arguments = json!({"command": command}).as_object().unwrap().clone();
    CallToolRequestParams::new("run").with_arguments(arguments)
}

impl Client {
    pub async fn run(&self, command: &str) -> Answer {
        let result = tokio::time::timeout(PATIENCE, self.service.call_tool(call(command)))
            .await
            .unwrap_or_else(|_| panic!("no answer to {command:.80}"))
            .unwrap();
        Answer::of(&result)
    }

    /// The text of a run that must succeed.
    pub async fn ok(&self, command: &str) -> String {
        let answer = self.run(command).await;
        assert!(!answer.is_error, "{command:.200}\n{}", answer.text);
        answer.text
    }

    /// The text of a run that must fail.
    pub async fn err(&self, command: &str) -> String {
        let answer = self.run(command).await;
        assert!(answer.is_error, "{command:.200}\n{}", answer.text);
        answer.text
    }

    pub async fn json(&self, command: &str) -> Json {
        let text = self.ok(command).await;
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text:.500}"))
    }
}

/// Processes whose parent is `pid`.
pub fn children(pid: u32) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(child) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        let mut fields = stat.rsplit(')').next().unwrap_or("").split_whitespace();
        let (state, parent) = (fields.next(), fields.next());
        if state != Some("Z") && parent.and_then(|parent| parent.parse().ok()) == Some(pid) {
            found.push(child);
        }
    }
    found
}

pub fn is_alive(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

/// Waits until a condition holds.
pub async fn eventually(what: &str, condition: impl Fn() -> bool) {
    let until = tokio::time::Instant::now() + PATIENCE;
    while !condition() {
        assert!(tokio::time::Instant::now() < until, "never: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// `onetool serve --http` on a free port, and a way to talk to it.
pub struct HttpServer {
    pub base: String,
    pub token: Option<&'static str>,
    child: tokio::process::Child,
    http: reqwest::Client,
}

impl Project {
    pub async fn serve_http(&self) -> HttpServer {
        self.serve_http_at("127.0.0.1:0").await
    }

    pub async fn serve_http_at(&self, address: &str) -> HttpServer {
        self.serve_http_with(&["serve", "--http", address]).await
    }

    pub async fn serve_http_with(&self, arguments: &[&str]) -> HttpServer {
        self.serve_http_in(arguments, &[]).await
    }

    /// With additional environment variables.
    pub async fn serve_http_in(&self, arguments: &[&str], environment: &[(String, String)]) -> HttpServer {
        let mut command = self.command(arguments);
        command.envs(environment.iter().cloned());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let base = tokio::time::timeout(PATIENCE, async {
            loop {
                let line = lines.next_line().await.unwrap().expect("the server ended before it listened");
                if let Some(base) = line.strip_prefix("listening at ") {
                    break base.replace("0.0.0.0", "127.0.0.1");
                }
            }
        })
        .await
        .expect("the server never listened");
        // Drains further output, so that the server does not block.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        HttpServer { base, token: None, child, http: onetool_outbound::client_builder().build().unwrap() }
    }
}

impl HttpServer {
    /// A request without a token.
    pub fn anonymous(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.base)).timeout(PATIENCE)
    }

    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.anonymous(method, path);
        match self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    pub async fn send(&self, method: Method, path: &str, body: Json) -> (u16, Json) {
        let request = self.request(method, path);
        let request = if body.is_null() { request } else { request.json(&body) };
        reply(request).await
    }

    pub async fn get(&self, path: &str) -> (u16, Json) {
        self.send(Method::GET, path, Json::Null).await
    }

    pub async fn put(&self, path: &str, body: Json) -> (u16, Json) {
        self.send(Method::PUT, path, body).await
    }

    pub async fn patch(&self, path: &str, body: Json) -> (u16, Json) {
        self.send(Method::PATCH, path, body).await
    }

    pub async fn post(&self, path: &str, body: Json) -> (u16, Json) {
        self.send(Method::POST, path, body).await
    }

    pub async fn delete(&self, path: &str) -> (u16, Json) {
        self.send(Method::DELETE, path, Json::Null).await
    }

    /// An MCP client of this server.
    pub async fn mcp(&self) -> Client {
        self.connecting().await
    }

    /// The same, to be connected on another thread.
    pub fn connecting(&self) -> impl Future<Output = Client> + Send + 'static {
        let (address, token, pid) = (format!("{}/mcp", self.base), self.token, self.child.id().unwrap());
        async move {
            let mut config = StreamableHttpClientTransportConfig::with_uri(address);
            if let Some(token) = token {
                config = config.auth_header(token);
            }
            let service = ().serve(StreamableHttpClientTransport::from_config(config)).await.unwrap();
            Client { service, pid }
        }
    }

    /// Terminates the server, and waits until it has ended.
    pub async fn stop(self) {
        self.terminate();
        let status = self.ended().await;
        assert!(status.success(), "{status}");
    }

    /// Sends the server a termination signal.
    pub fn terminate(&self) {
        let pid = rustix::process::Pid::from_raw(self.child.id().unwrap() as i32).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    }

    /// Waits until the server has ended.
    pub async fn ended(mut self) -> std::process::ExitStatus {
        tokio::time::timeout(PATIENCE, self.child.wait()).await.expect("the server does not end").unwrap()
    }
}

impl HttpServer {
    /// Kills the server without warning.
    pub async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }
}

/// Returns status and JSON body; a body that is not JSON becomes a text.
pub async fn reply(request: RequestBuilder) -> (u16, Json) {
    let response = request.send().await.unwrap();
    let status = response.status().as_u16();
    let text = response.text().await.unwrap();
    (status, serde_json::from_str(&text).unwrap_or(Json::String(text)))
}
