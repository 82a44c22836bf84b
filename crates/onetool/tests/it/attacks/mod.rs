//! Attacks as data: every file in `cases/attacks/` sets up a project and lists attempts against a real server in it.
//! After each attempt the files that control the server are unchanged, no forbidden file exists, no answer shows a
//! secret, and the next run works. Throughout, the server stays within its memory limit, and other clients get their
//! answers.

mod format;
mod observer;
mod project;
mod promises;

use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::StreamExt as _;
use reqwest::Method;

use crate::client::{Answer, HttpServer, Project};
use format::{Attack, Attempt, Door, RestAttempt};
use observer::{Figures, Observer};
use project::{Session, contents, open, set_up};

/// Where a successful attempt leaves its mark: `{marker}` in a file is replaced by this path.
const MARKER: &str = "pwned";
/// Memory limit of the server and all its children.
const MAX_MEMORY: u64 = 900 << 20;
/// How long another client may wait for an answer, on a busy machine.
const MAX_WAIT: Duration = Duration::from_secs(10);
/// Maximum text of one answer.
const MAX_TEXT: usize = 256 << 10;
/// Maximum size of one answer.
const MAX_ANSWER: usize = 16 << 20;
/// Selects a single file.
const ONLY: &str = "ONETOOL_ATTACK";

#[tokio::test(flavor = "multi_thread")]
async fn no_attempt_succeeds() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../cases/attacks");
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|end| end == "yaml"));
    files.sort();
    let only = std::env::var(ONLY).ok();
    let mut work = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let attack: Attack =
            serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        if only.as_ref().is_none_or(|only| *only == name) {
            let attack = std::sync::Arc::new(attack);
            work.extend(attack.doors().into_iter().map(|door| (name.clone(), attack.clone(), door)));
        }
    }
    // Most attempts wait for a timeout, so three files at once take hardly longer than one.
    let at_once = std::env::var("ONETOOL_ATTACKS_AT_ONCE").ok().and_then(|count| count.parse().ok()).unwrap_or(3);
    let outcomes: Vec<Outcome> = futures_util::stream::iter(work)
        .map(|(name, attack, door)| tokio::spawn(async move { try_all(&name, &attack, door).await }))
        .buffer_unordered(at_once)
        .map(Result::unwrap)
        .collect()
        .await;
    let attempts: usize = outcomes.iter().map(|outcome| outcome.attempts).sum();
    let figures = outcomes.iter().fold(Figures::default(), |sum, outcome| sum.with(outcome.figures));
    let successes: Vec<String> = outcomes.into_iter().flat_map(|outcome| outcome.successes).collect();
    println!(
        "{attempts} attempts, {} successes; peak {} MB, slowest 2 + 2 of {}: {} ms",
        successes.len(),
        figures.peak >> 20,
        figures.asked,
        figures.slowest.as_millis()
    );
    assert!(successes.is_empty(), "{} of {attempts} attempts succeeded:\n{}", successes.len(), successes.join("\n"));
    assert!(only.is_some() || attempts >= 600, "only {attempts} attempts");
}

struct Outcome {
    attempts: usize,
    successes: Vec<String>,
    figures: Figures,
}

async fn try_all(name: &str, attack: &Attack, door: Door) -> Outcome {
    let (project, _beside) = set_up(attack);
    let session = open(&project, attack, door).await;
    let mut scene =
        Scene { name, attack, door, before: contents(&project, attack), project, session, successes: vec![] };
    let observer = Observer::start(scene.session.client.pid, scene.session.server.as_ref()).await;
    let mut attempts = 0;
    if door == Door::Rest {
        for attempt in &attack.requests {
            attempts += 1;
            scene.send(attempt).await;
        }
    } else {
        for attempt in &attack.attempts {
            for code in attempt.variants() {
                attempts += 1;
                scene.run(attempt, &code).await;
                if std::env::var_os(ONLY).is_some() && door == Door::Http {
                    println!("    (somebody else waited for {:?})", observer.slow());
                }
            }
        }
    }
    let figures = observer.finish().await;
    let Scene { mut successes, project, session, .. } = scene;
    println!("{name} ({door:?}): {attempts} attempts, peak {} MB, slowest {:?}", figures.peak >> 20, figures.slowest);
    if figures.peak > MAX_MEMORY {
        successes.push(format!("{name} ({door:?}): the server and its children took {} MB", figures.peak >> 20));
    }
    if figures.slowest > MAX_WAIT {
        successes.push(format!("{name} ({door:?}): somebody else waited for {:?}", figures.slowest));
    }
    drop(session);
    for secret in &attack.secrets {
        for path in showing(&project, secret) {
            successes.push(format!("{name} ({door:?}): {} shows {secret}", path.display()));
        }
    }
    Outcome { attempts, successes, figures }
}

/// Logs and stored results that contain this text.
fn showing(project: &Project, secret: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> =
        ["logs", "results", "stats", "cache"].iter().map(|name| project.path().join(".onetool").join(name)).collect();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if std::fs::read(&path).is_ok_and(|bytes| String::from_utf8_lossy(&bytes).contains(secret)) {
                found.push(path);
            }
        }
    }
    found
}

/// A project with its server, and the attempts so far.
struct Scene<'a> {
    name: &'a str,
    attack: &'a Attack,
    door: Door,
    project: Project,
    before: Vec<(PathBuf, Vec<u8>)>,
    session: Session,
    successes: Vec<String>,
}

impl Scene<'_> {
    async fn run(&mut self, attempt: &Attempt, code: &str) {
        let code = code.replace("{marker}", &self.project.path().join(MARKER).display().to_string());
        let answer = self.session.client.run(&code).await;
        let mut why = judge(attempt, &answer);
        let size: usize = answer.content.iter().map(|block| block.to_string().len()).sum();
        if answer.text.len() > MAX_TEXT || size > MAX_ANSWER {
            why.push(format!("the answer has {size} bytes"));
        }
        let shown: Vec<String> = answer.content.iter().map(ToString::to_string).collect();
        why.extend(self.check(&shown).await);
        self.note(why, &code, &answer.text);
    }

    async fn send(&mut self, attempt: &RestAttempt) {
        let Some(server) = &self.session.server else { return };
        if let Some(wire) = &attempt.wire {
            let answer = self.send_raw(server, wire).await;
            let status = answer.rsplit("HTTP/1.1 ").next().and_then(|last| last.get(..3)?.parse().ok()).unwrap_or(0);
            return self.judge_reply(attempt, status, &answer, "").await;
        }
        let (method, path) = attempt.request.split_once(' ').unwrap();
        let mut request = self.request(server, method, path, attempt);
        for (name, value) in &attempt.headers {
            request = request.header(name, value);
        }
        if let Some(raw) = &attempt.raw {
            let is_typed = attempt.headers.keys().any(|name| name.eq_ignore_ascii_case("content-type"));
            request = if is_typed { request } else { request.header("content-type", "application/json") };
            request = request.body(raw.repeat(attempt.times.unwrap_or(1)));
        } else if !attempt.body.is_null() {
            request = request.json(&attempt.body);
        }
        let (status, headers, text) = match request.send().await {
            Ok(response) => {
                let (status, headers) = (response.status().as_u16(), format!("{:?}", response.headers()));
                (status, headers, response.text().await.unwrap_or_default())
            }
            // The server may close the connection on a body that it refuses.
            Err(_) => (0, String::new(), String::new()),
        };
        self.judge_reply(attempt, status, &text, &headers).await;
    }

    /// The response to these bytes, as far as it was received.
    async fn send_raw(&self, server: &HttpServer, wire: &str) -> String {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let host = server.base.trim_start_matches("http://");
        let admin = self.attack.tokens.get("admin").map_or("", String::as_str);
        let many: String = (0..2_000).map(|number| format!("X{number}: a\r\n")).collect();
        let wire = wire.replace("{host}", host).replace("{admin}", admin);
        let wire = wire.replace("{long}", &"a".repeat(600_000)).replace("{many}", &many);
        let mut connection = tokio::net::TcpStream::connect(host).await.unwrap();
        // The server may close the connection early.
        let _ = connection.write_all(wire.as_bytes()).await;
        let mut answer = Vec::new();
        let _ = tokio::time::timeout(MAX_WAIT, connection.read_to_end(&mut answer)).await;
        String::from_utf8_lossy(&answer).into_owned()
    }

    async fn judge_reply(&mut self, attempt: &RestAttempt, status: u16, text: &str, headers: &str) {
        let mut why = Vec::new();
        if !attempt.status.contains(&status) {
            why.push(format!("the status is {status}"));
        }
        if attempt.says.as_ref().is_some_and(|says| !text.contains(says.as_str())) {
            why.push(format!("the answer does not say {:?}", attempt.says));
        }
        if attempt.never.as_ref().is_some_and(|never| text.contains(never.as_str())) {
            why.push(format!("the answer says {:?}", attempt.never));
        }
        if text.len() > MAX_TEXT {
            why.push(format!("the answer has {} bytes", text.len()));
        }
        let shown = [text.to_owned(), headers.to_owned()];
        why.extend(self.check(&shown).await);
        self.note(why, &attempt.request, text);
    }

    fn request(&self, server: &HttpServer, method: &str, path: &str, attempt: &RestAttempt) -> reqwest::RequestBuilder {
        let method: Method = method.parse().unwrap();
        let request = server.anonymous(method, path);
        match attempt.token.as_deref().map(|name| self.attack.tokens.get(name).map_or(name, String::as_str)) {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    /// The checks after every attempt.
    async fn check(&self, shown: &[String]) -> Vec<String> {
        let mut why = Vec::new();
        for secret in &self.attack.secrets {
            if shown.iter().any(|text| text.contains(secret.as_str())) {
                why.push(format!("the answer shows {secret}"));
            }
        }
        for path in self.attack.absent.iter().map(String::as_str).chain([MARKER]) {
            if self.project.path().join(path).exists() {
                why.push(format!("{path} exists"));
                let _ = std::fs::remove_file(self.project.path().join(path));
            }
        }
        for (path, text) in &self.before {
            if std::fs::read(self.project.path().join(path)).ok().as_ref() != Some(text) {
                why.push(format!("{} was changed", path.display()));
                let path = self.project.path().join(path);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text).unwrap();
            }
        }
        let next = self.session.client.run("1 + 1").await;
        if next.text != "2" {
            why.push(format!("the next run answers {:.200}", next.text));
        }
        why
    }

    fn note(&mut self, why: Vec<String>, attempt: &str, answer: &str) {
        let (name, door) = (self.name, self.door);
        if std::env::var_os(ONLY).is_some() {
            println!("  {attempt:.200}\n    -> {answer:.300}");
        }
        self.successes.extend(
            why.into_iter().map(|why| format!("{name} ({door:?}): {why}\n    {attempt:.300}\n    -> {answer:.300}")),
        );
    }
}

fn judge(attempt: &Attempt, answer: &Answer) -> Vec<String> {
    let mut why = Vec::new();
    match attempt {
        Attempt::Refused(_) if !answer.is_error => why.push("it was not refused".to_owned()),
        Attempt::Refused(_) => {}
        Attempt::Judged(judged) => {
            if judged.says.is_none() && !judged.harmless && !answer.is_error {
                why.push("it was not refused".to_owned());
            }
            if judged.says.as_ref().is_some_and(|says| !answer.text.contains(says.as_str())) {
                why.push(format!("the answer does not say {:?}", judged.says));
            }
            if judged.never.as_ref().is_some_and(|never| answer.text.contains(never.as_str())) {
                why.push(format!("the answer says {:?}", judged.never));
            }
        }
    }
    why
}
