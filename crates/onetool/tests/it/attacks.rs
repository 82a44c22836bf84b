//! Attempts to get through, as data: every file in `cases/attacks/` sets up a project and lists attempts against a real
//! server in it. After each attempt the files that govern the server are as they were, nothing of what must not exist
//! exists, no answer shows a secret, and the next run works.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::client::{Answer, Client, HttpServer, Project};

/// Where attempts leave their mark if they succeed: `{marker}` in a file stands for this path.
const MARKER: &str = "pwned";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Attack {
    /// For the reader.
    #[serde(rename = "what")]
    _what: String,
    /// Files of the project.
    #[serde(default)]
    files: BTreeMap<String, String>,
    /// Symbolic links: name, and what it leads to.
    #[serde(default)]
    links: BTreeMap<String, String>,
    /// Second names of files.
    #[serde(default)]
    twins: BTreeMap<String, String>,
    /// Executable scripts.
    #[serde(default)]
    programs: BTreeMap<String, String>,
    #[serde(default)]
    arguments: Vec<String>,
    #[serde(default)]
    environment: BTreeMap<String, String>,
    /// `stdio` if none is named; `http` speaks MCP over HTTP.
    #[serde(default)]
    doors: Vec<Door>,
    /// Whether the project is a git repository with all its files added.
    #[serde(default)]
    repository: bool,
    /// Values that no answer may show.
    #[serde(default)]
    secrets: Vec<String>,
    attempts: Vec<Attempt>,
    /// Files that must not exist afterwards.
    #[serde(default)]
    absent: Vec<String>,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "snake_case")]
enum Door {
    Stdio,
    Http,
}

/// Code that must fail; or with more to say.
#[derive(Deserialize)]
#[serde(untagged)]
enum Attempt {
    Refused(String),
    Judged {
        run: String,
        /// Both engines are tried unless this says which.
        #[serde(default)]
        engine: Option<String>,
        /// What the answer must contain, whether it is an error or not.
        #[serde(default)]
        says: Option<String>,
        /// What must not be in it.
        #[serde(default)]
        never: Option<String>,
        /// Whether any answer will do: what counts is that nothing happened.
        #[serde(default)]
        harmless: bool,
    },
}

#[tokio::test(flavor = "multi_thread")]
async fn no_attempt_succeeds() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../cases/attacks");
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|end| end == "yaml"));
    files.sort();
    let mut attempts = 0;
    let mut successes = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let attack: Attack =
            serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        let doors = if attack.doors.is_empty() { vec![Door::Stdio] } else { attack.doors.clone() };
        for door in doors {
            attempts += try_all(&name, &attack, door, &mut successes).await;
        }
    }
    println!("{attempts} attempts, {} successes", successes.len());
    assert!(successes.is_empty(), "{} of {attempts} attempts succeeded:\n{}", successes.len(), successes.join("\n"));
    assert!(attempts >= 150, "only {attempts} attempts");
}

/// Keeps a server alive for as long as its client is used.
struct Session {
    client: Client,
    _server: Option<HttpServer>,
}

async fn try_all(name: &str, attack: &Attack, door: Door, successes: &mut Vec<String>) -> usize {
    let project = set_up(attack);
    let before = contents(&project);
    let session = open(&project, attack, door).await;
    let mut count = 0;
    for attempt in &attack.attempts {
        for code in variants(attempt) {
            count += 1;
            let code = code.replace("{marker}", &project.path().join(MARKER).display().to_string());
            let answer = session.client.run(&code).await;
            let mut failed = |why: String| {
                successes.push(format!("{name} ({door:?}): {why}\n    {code:.300}\n    -> {:.300}", answer.text));
            };
            judge(attempt, &answer, &mut failed);
            for secret in &attack.secrets {
                if answer.content.iter().any(|block| block.to_string().contains(secret.as_str())) {
                    failed(format!("the answer shows {secret}"));
                }
            }
            for path in attack.absent.iter().map(String::as_str).chain([MARKER]) {
                if project.path().join(path).exists() {
                    failed(format!("{path} exists"));
                    let _ = std::fs::remove_file(project.path().join(path));
                }
            }
            for (path, text) in &before {
                if std::fs::read_to_string(project.path().join(path)).ok().as_ref() != Some(text) {
                    failed(format!("{} was changed", path.display()));
                    std::fs::write(project.path().join(path), text).unwrap();
                }
            }
            let next = session.client.run("1 + 1").await;
            if next.text != "2" {
                failed(format!("the next run answers {:.200}", next.text));
            }
        }
    }
    count
}

fn judge(attempt: &Attempt, answer: &Answer, failed: &mut impl FnMut(String)) {
    match attempt {
        Attempt::Refused(_) if !answer.is_error => failed("it was not refused".to_owned()),
        Attempt::Refused(_) => {}
        Attempt::Judged { says, never, harmless, .. } => {
            if says.is_none() && !harmless && !answer.is_error {
                failed("it was not refused".to_owned());
            }
            if says.as_ref().is_some_and(|says| !answer.text.contains(says.as_str())) {
                failed(format!("the answer does not say {says:?}"));
            }
            if never.as_ref().is_some_and(|never| answer.text.contains(never.as_str())) {
                failed(format!("the answer says {never:?}"));
            }
        }
    }
}

/// The code for the engine that would take it, and for the full one.
fn variants(attempt: &Attempt) -> Vec<String> {
    let (code, engine) = match attempt {
        Attempt::Refused(code) => (code, None),
        Attempt::Judged { run, engine, .. } => (run, engine.as_deref()),
    };
    let full = format!("import zlib\n{code}");
    match engine {
        Some("monty" | "any") => vec![code.clone()],
        Some("cpython") => vec![full],
        _ => vec![code.clone(), full],
    }
}

fn set_up(attack: &Attack) -> Project {
    use std::os::unix::fs::PermissionsExt as _;
    let project = Project::empty();
    for (path, text) in &attack.files {
        let text = text.replace("{project}", &project.path().display().to_string());
        project.write(path, &text);
    }
    for (path, text) in &attack.programs {
        let text = text.replace("{marker}", &project.path().join(MARKER).display().to_string());
        let path = project.write(path, &text);
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    for (name, target) in &attack.links {
        let name = project.path().join(name);
        let _ = std::fs::remove_dir_all(&name);
        std::os::unix::fs::symlink(target, name).unwrap();
    }
    for (name, target) in &attack.twins {
        std::fs::hard_link(project.path().join(target), project.path().join(name)).unwrap();
    }
    if attack.repository {
        for arguments in [&["init", "-q"][..], &["add", "-A"]] {
            let done = std::process::Command::new("git").args(arguments).current_dir(project.path()).status().unwrap();
            assert!(done.success());
        }
    }
    project
}

/// The files that were set up, and what they hold.
fn contents(project: &Project) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders = vec![project.path().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() && !path.is_symlink() && path.file_name().is_some_and(|name| name != ".git") {
                folders.push(path);
            } else if let Ok(text) = std::fs::read_to_string(&path) {
                found.push((path.strip_prefix(project.path()).unwrap().to_owned(), text));
            }
        }
    }
    found
}

async fn open(project: &Project, attack: &Attack, door: Door) -> Session {
    let mut arguments: Vec<&str> = attack.arguments.iter().map(String::as_str).collect();
    let environment: Vec<(String, String)> = attack
        .environment
        .iter()
        .map(|(name, value)| (name.clone(), value.replace("{project}", &project.path().display().to_string())))
        .collect();
    match door {
        Door::Stdio => {
            arguments.push("serve");
            Session { client: project.serve_in(&arguments, &environment).await, _server: None }
        }
        Door::Http => {
            arguments.extend(["serve", "--http", "127.0.0.1:0"]);
            let server = project.serve_http_with(&arguments).await;
            Session { client: server.mcp().await, _server: Some(server) }
        }
    }
}
