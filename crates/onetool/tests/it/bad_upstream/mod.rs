//! HTTP tools against an upstream that misbehaves on purpose: a separate process, in another language, which verifies
//! signatures independently.

mod auth;
mod documentation;
mod limits;
mod pages;
mod streams;

use std::path::PathBuf;
use std::process::Stdio;

use serde_json::{Value as Json, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::client::{HttpServer, Project, reply};

const BUNDLE: &str = "018faf50-b7b6-7a01-9a05-a22a6e0af101";
const SECRETS: &str = "CLIENT_ID: client\nCLIENT_SECRET: s3cret/id\nREFRESH: refresh-0\nSIGNING: upstream-signing-secret\n\
                       KEY_ID: key-id\nAWS_KEY: AKIDEXAMPLE\nAWS_SECRET: aws/secret+key\nPLAIN: plain-api-key\n";

/// The upstream's process. It ends when its input is closed.
struct BadUpstream {
    base: String,
    http: reqwest::Client,
    _child: Child,
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/bad_upstream")
}

impl BadUpstream {
    async fn start() -> Self {
        let mut child = Command::new("python3")
            .arg(folder().join("server.py"))
            .arg(folder().join("test_only_modulus.txt"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let port = lines.next_line().await.unwrap().expect("the upstream says its port");
        let http = onetool_outbound::client_builder().no_proxy().build().unwrap();
        Self { base: format!("http://127.0.0.1:{port}"), http, _child: child }
    }

    async fn state(&self) -> Json {
        reply(self.http.get(format!("{}/state", self.base))).await.1
    }

    async fn redemptions(&self) -> u64 {
        self.state().await["redemptions"].as_u64().unwrap()
    }

    async fn set(&self, state: Json) {
        assert_eq!(reply(self.http.post(format!("{}/set", self.base)).json(&state)).await.0, 200);
    }

    /// Requests to paths with this prefix.
    async fn seen(&self, path: &str) -> Vec<Json> {
        let state = self.state().await;
        let seen = state["seen"].as_array().unwrap().iter();
        seen.filter(|one| one["path"].as_str().unwrap().starts_with(path)).cloned().collect()
    }
}

/// An upstream, and a project that may call it.
struct Bench {
    upstream: BadUpstream,
    project: Project,
    server: HttpServer,
}

impl Bench {
    async fn start() -> Self {
        Self::with("").await
    }

    /// With additional keys below `http`, as JSON members.
    async fn with(http: &str) -> Self {
        let upstream = BadUpstream::start().await;
        let project = Self::project(&upstream, http);
        let server = project.serve_http().await;
        Self { upstream, project, server }
    }

    fn project(upstream: &BadUpstream, http: &str) -> Project {
        let host = upstream.base.trim_start_matches("http://");
        let comma = if http.is_empty() { "" } else { ", " };
        let project = Project::with(&format!("http: {{allowed_hosts: [\"{host}\"]{comma}{http}}}\n"));
        let pem = std::fs::read_to_string(folder().join("test_only_key.pem")).unwrap();
        project.write(".onetool/secrets.yaml", &format!("{SECRETS}PRIVATE_KEY: {}\n", json!(pem)));
        project
    }

    /// Stores the bundle `svc` with this authentication.
    async fn bundle(&self, auth: Json) -> (u16, Json) {
        let auth = replace(auth, &self.upstream.base);
        self.server
            .put(&format!("/tools/bundles/{BUNDLE}"), json!({"slug": "svc", "displayName": "Service", "auth": auth}))
            .await
    }

    /// Stores a tool in it; `UP` in texts is replaced by the upstream's address.
    async fn tool(&self, slug: &str, implementation: Json) {
        let (status, reply) = self.try_tool(slug, implementation).await;
        assert_eq!(status, 201, "{reply}");
    }

    async fn try_tool(&self, slug: &str, implementation: Json) -> (u16, Json) {
        let schema = json!({"type": "object", "properties": {"q": {"type": "string"}}, "additionalProperties": false});
        let body = json!({"type": "http", "impl": replace(implementation, &self.upstream.base), "argSchema": schema});
        self.server.put(&format!("/tools/bundles/{BUNDLE}/tools/{slug}/version/v1"), body).await
    }

    fn path(slug: &str) -> String {
        format!("/tools/bundles/{BUNDLE}/tools/{slug}/version/v1/invoke")
    }

    async fn invoke(&self, slug: &str) -> (u16, Json) {
        self.server.post(&Self::path(slug), json!({"args": {}})).await
    }

    /// The value of a call that must succeed.
    async fn value(&self, slug: &str) -> Json {
        let (status, reply) = self.invoke(slug).await;
        assert_eq!(status, 200, "{slug}: {reply}");
        reply["value"].clone()
    }

    /// All file contents of the project's folder, except the secrets themselves.
    fn everything_written(&self) -> String {
        fn gather(folder: &std::path::Path, text: &mut String) {
            for entry in std::fs::read_dir(folder).unwrap().flatten() {
                if entry.file_type().unwrap().is_dir() {
                    gather(&entry.path(), text);
                } else if entry.file_name() != "secrets.yaml" {
                    text.push_str(&String::from_utf8_lossy(&std::fs::read(entry.path()).unwrap_or_default()));
                }
            }
        }
        let mut text = String::new();
        gather(&self.project.path().join(".onetool"), &mut text);
        text
    }
}

fn replace(json: Json, base: &str) -> Json {
    serde_json::from_str(&json.to_string().replace("UP/", &format!("{base}/"))).unwrap()
}

/// Fails if a text contains a secret.
fn assert_clean(text: &str) {
    for secret in
        ["s3cret/id", "s3cret%2F", "access-token-", "refresh-", "upstream-signing", "aws/secret", "plain-api-key"]
    {
        assert!(!text.contains(secret), "{secret} in {text:.2000}");
    }
}
