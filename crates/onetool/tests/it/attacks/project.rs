//! Sets up the project of an attack, and a server in it.

use std::io::BufRead as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::MARKER;
use super::format::{Attack, Door};
use crate::client::{Client, HttpServer, Project};

fn part(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../cases/attacks/parts").join(name)
}

/// A program that runs next to the server until it is dropped.
pub(super) struct Beside {
    child: Child,
    port: String,
}

impl Beside {
    fn start(name: &str) -> Self {
        let mut child = Command::new("python3").arg(part(name)).stdout(Stdio::piped()).spawn().unwrap();
        let mut port = String::new();
        std::io::BufReader::new(child.stdout.take().unwrap()).read_line(&mut port).unwrap();
        Self { child, port: port.trim().to_owned() }
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(super) fn set_up(attack: &Attack) -> (Project, Option<Beside>) {
    use std::os::unix::fs::PermissionsExt as _;
    let project = Project::empty();
    let folder = project.path().display().to_string();
    let beside = attack.beside.as_deref().map(Beside::start);
    let port = beside.as_ref().map_or("0", |beside| &beside.port);
    for (path, text) in &attack.files {
        project.write(path, &text.replace("{project}", &folder).replace("{port}", port));
    }
    for (path, name) in &attack.parts {
        project.write(path, &std::fs::read_to_string(part(name)).unwrap());
    }
    for (path, text) in &attack.programs {
        let text = text.replace("{marker}", &project.path().join(MARKER).display().to_string());
        let path = project.write(path, &text);
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    for (name, target) in &attack.links {
        let name = project.path().join(name);
        let _ = std::fs::remove_dir_all(&name);
        std::fs::create_dir_all(name.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(target.replace("{project}", &folder), name).unwrap();
    }
    for (name, target) in &attack.twins {
        std::fs::hard_link(project.path().join(target), project.path().join(name)).unwrap();
    }
    if attack.repository {
        for arguments in [&["init", "-q"][..], &["add", "-A"]] {
            let done = Command::new("git").args(arguments).current_dir(project.path()).status().unwrap();
            assert!(done.success());
        }
    }
    (project, beside)
}

/// The files that were set up, and their contents.
pub(super) fn contents(project: &Project, attack: &Attack) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![project.path().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            let name = path.strip_prefix(project.path()).unwrap().to_owned();
            // Records of sessions and background runs change all the time, files being written have temporary names,
            // and lock files have no content.
            let last = path.file_name().unwrap_or_default().to_string_lossy();
            let is_its_own = name.starts_with(".onetool/runs")
                || (name.starts_with(".onetool") && (last == ".lock" || last.starts_with(".tmp-")));
            if attack.may_change.iter().any(|free| name.starts_with(free)) || is_its_own {
                continue;
            }
            if path.is_dir() && !path.is_symlink() && path.file_name().is_some_and(|name| name != ".git") {
                folders.push(path);
            } else if let Ok(text) = std::fs::read(&path) {
                found.push((name, text));
            }
        }
    }
    found
}

/// Keeps a server alive for as long as its clients are used.
pub(super) struct Session {
    pub(super) client: Client,
    pub(super) server: Option<HttpServer>,
}

pub(super) async fn open(project: &Project, attack: &Attack, door: Door) -> Session {
    let mut arguments: Vec<&str> = attack.arguments.iter().map(String::as_str).collect();
    let environment: Vec<(String, String)> = attack
        .environment
        .iter()
        .map(|(name, value)| (name.clone(), value.replace("{project}", &project.path().display().to_string())))
        .collect();
    match door {
        Door::Stdio => {
            arguments.push("serve");
            Session { client: project.serve_in(&arguments, &environment).await, server: None }
        }
        Door::Http | Door::Rest => {
            arguments.extend(["serve", "--http", "127.0.0.1:0"]);
            let mut server = project.serve_http_in(&arguments, &environment).await;
            server.token = attack.tokens.get("admin").map(|token| &*Box::leak(token.clone().into_boxed_str()));
            Session { client: server.mcp().await, server: Some(server) }
        }
    }
}
