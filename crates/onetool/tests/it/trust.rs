//! Folder trust: files that came with a repository wait for the user, files created here just work.

use std::process::Command;
use std::time::Instant;

use reqwest::Method;
use serde_json::json;

use crate::client::{Project, eventually};

fn git(project: &Project, arguments: &[&str]) {
    let done = Command::new("git").args(arguments).current_dir(project.path()).status().unwrap();
    assert!(done.success(), "{arguments:?}");
}

const TOOL: &str = "def f() -> int:\n    \"\"\"One.\"\"\"\n    return 1\n";

fn with_tool() -> Project {
    let project = Project::empty();
    project.write(".onetool/tools/mine/mine_tools.py", TOOL);
    project
}

fn tracked(project: &Project) {
    project.write(".gitignore", "home/\n");
    git(project, &["init", "-q"]);
    git(project, &["add", "-A"]);
}

/// Copies a folder below `.onetool` to another project.
fn carry(from: &Project, to: &Project, folder: &str) {
    let (from, to) = (from.path().join(".onetool").join(folder), to.path().join(".onetool").join(folder));
    std::fs::create_dir_all(to.parent().unwrap()).unwrap();
    let done = Command::new("cp").arg("-R").args([from, to]).status().unwrap();
    assert!(done.success());
}

async fn output(project: &Project, arguments: &[&str]) -> (bool, String) {
    let output = project.command(arguments).output().await.unwrap();
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[tokio::test]
async fn a_cloned_folder_is_trusted_once_and_stays_trusted() {
    let project = with_tool();
    git(&project, &["init", "-q"]);
    git(&project, &["add", "-A"]);
    let client = project.serve().await;
    let refused = client.err("mine.f()").await;
    assert!(refused.contains("onetool trust"), "{refused}");
    let (ok, shown) = output(&project, &["trust"]).await;
    assert!(!ok && shown.contains("mine_tools.py"), "{shown}");
    let (ok, shown) = output(&project, &["trust", "--yes"]).await;
    assert!(ok && shown.contains("is trusted"), "{shown}");
    assert_eq!(project.serve().await.ok("mine.f()").await, "1");
    let (_, listed) = output(&project, &["trust", "--list"]).await;
    assert_eq!(listed.trim(), project.path().canonicalize().unwrap().display().to_string());
    let (ok, _) = output(&project, &["trust", "--remove"]).await;
    assert!(ok);
    assert!(project.serve().await.err("mine.f()").await.contains("onetool trust"));
}

#[tokio::test]
async fn what_was_made_here_works_and_goes_on_working_when_it_is_committed() {
    let project = with_tool();
    git(&project, &["init", "-q"]);
    assert_eq!(project.serve().await.ok("mine.f()").await, "1");
    git(&project, &["add", "-A"]);
    assert_eq!(project.serve().await.ok("mine.f()").await, "1");
}

#[tokio::test]
async fn the_environment_can_trust_a_folder_for_one_process() {
    let project = with_tool();
    git(&project, &["init", "-q"]);
    git(&project, &["add", "-A"]);
    let trusted = [("ONETOOL_TRUST".to_owned(), "1".to_owned())];
    assert_eq!(project.serve_in(&["serve"], &trusted).await.ok("mine.f()").await, "1");
    assert!(project.serve().await.err("mine.f()").await.contains("onetool trust"));
}

#[tokio::test]
async fn a_file_of_the_users_own_works_beside_untrusted_ones() {
    let project = with_tool();
    git(&project, &["init", "-q"]);
    git(&project, &["add", "-A"]);
    project.write(".onetool/tools/own/own_tools.py", TOOL);
    let client = project.serve().await;
    assert_eq!(client.ok("own.f()").await, "1");
    client.err("mine.f()").await;
}

/// A run of somebody else, as if its server had died in the middle of it.
#[tokio::test]
async fn a_run_that_came_with_a_repository_is_not_continued() {
    let author = Project::with("run: {durable: true}\n");
    let server = author.serve_http().await;
    let command = "import os, time\nwhile not os.path.exists('go'):\n    time.sleep(0.05)\nfile.delete('keep.txt')";
    let (status, run) = server.post("/runs", json!({"command": command})).await;
    assert_eq!(status, 202, "{run}");
    let queue = author.path().join(".onetool/runs/queue");
    let job = || {
        let jobs = std::fs::read_dir(&queue).into_iter().flatten().flatten().map(|entry| entry.path());
        jobs.filter_map(|path| Some((std::fs::read_to_string(&path).ok()?, path)))
            .find(|(text, _)| text.contains("\"node\""))
    };
    eventually("the run is at work", || job().is_some()).await;
    server.kill().await;
    let (text, path) = job().unwrap();
    let mut free: serde_json::Value = serde_json::from_str(&text).unwrap();
    free["until"] = json!(1);
    std::fs::write(path, free.to_string()).unwrap();
    let victim = || {
        let project = Project::empty();
        carry(&author, &project, "runs");
        project.write("keep.txt", "keep");
        project.write("go", "");
        project
    };
    // The same files in a folder where they were made are gone on with.
    let own = victim();
    let start = Instant::now();
    let client = own.serve().await;
    eventually("the user's own run goes on", || !own.path().join("keep.txt").exists()).await;
    let patience = start.elapsed() * 2;
    drop(client);
    let clone = victim();
    tracked(&clone);
    let client = clone.serve().await;
    let health = client.ok("str(ot.health())").await;
    assert!(health.contains("other state in it are not used"), "{health}");
    tokio::time::sleep(patience).await;
    assert!(clone.path().join("keep.txt").exists());
    let (_, shown) = output(&clone, &["trust"]).await;
    assert!(shown.contains(".onetool: the runs, tokens and other state"), "{shown}");
    // What is saved in such a folder stays there.
    client.ok("ot.save('mine', 'Two')\n1 + 1").await;
    assert!(clone.path().join(".onetool/saved").symlink_metadata().is_err());
    drop(client);
    assert!(clone.serve().await.ok("saved.mine()").await.contains('2'));
}

#[tokio::test]
async fn a_token_that_came_with_a_repository_opens_nothing() {
    let author = Project::empty();
    let (ok, made) = output(&author, &["tokens", "create", "evil", "--scope", "admin", "--json"]).await;
    assert!(ok, "{made}");
    let made: serde_json::Value = serde_json::from_str(&made).unwrap();
    let victim = || {
        let project = Project::empty();
        carry(&author, &project, "state");
        project.write(
            "home/.onetool/onetool.yaml",
            "server: {tokens: [{token: own-token-of-the-user, scopes: [read]}]}\n",
        );
        project
    };
    let asked = async |project: &Project| {
        let server = project.serve_http().await;
        let request = server.anonymous(Method::GET, "/api/tokens").bearer_auth(made["token"].as_str().unwrap());
        request.send().await.unwrap().status().as_u16()
    };
    let (own, clone) = (victim(), victim());
    tracked(&clone);
    assert_eq!(asked(&own).await, 200, "the user's own token");
    assert_eq!(asked(&clone).await, 401);
}

/// Trust of what was made here does not extend to what a pull brings.
#[tokio::test]
async fn what_a_pull_brings_is_not_covered_by_what_was_made_here() {
    let project = Project::empty();
    std::fs::remove_file(project.path().join(".onetool/onetool.yaml")).unwrap();
    git(&project, &["init", "-q"]);
    project.write(".onetool/secrets.yaml", "A: aaaaaaaaaaaa\n");
    project.write(".onetool/tools/own/own_tools.py", TOOL);
    assert_eq!(project.serve().await.ok("own.f()").await, "1");
    git(&project, &["add", "-A", "-f", ".onetool/tools", ".onetool/secrets.yaml"]);
    assert_eq!(project.serve().await.ok("own.f()").await, "1");
    project.write(".onetool/tools/mine/mine_tools.py", TOOL);
    git(&project, &["add", "-A", "-f", ".onetool/tools"]);
    let client = project.serve().await;
    assert_eq!(client.ok("own.f()").await, "1");
    let refused = client.err("mine.f()").await;
    assert!(refused.contains("onetool trust"), "{refused}");
}

/// A folder that is committed with everything in it goes on as before.
#[tokio::test]
async fn state_that_was_made_here_is_used_when_it_is_committed() {
    let project = with_tool();
    git(&project, &["init", "-q"]);
    let client = project.serve().await;
    client.ok("ot.save('mine', 'Two')\n1 + 1").await;
    drop(client);
    let (ok, _) = output(&project, &["health"]).await;
    assert!(ok);
    git(&project, &["add", "-A", "-f", ".onetool"]);
    assert!(project.serve().await.ok("saved.mine()").await.contains('2'));
}

#[tokio::test]
async fn a_repository_with_its_git_folder_elsewhere_keeps_its_index() {
    let project = with_tool();
    git(&project, &["init", "-q", "--separate-git-dir", "repo.d", "."]);
    git(&project, &["add", "-A", ".onetool"]);
    let client = project.serve().await;
    for attempt in [
        "file.delete('repo.d/index')",
        "file.write('repo.d/index', 'x')",
        "file.write('repo.d/hooks/post-checkout', 'x')",
        "file.move('repo.d', 'other.d')",
        "file.delete('repo.d')",
    ] {
        client.err(attempt).await;
    }
    assert!(project.path().join("repo.d/index").is_file());
    assert!(project.serve().await.err("mine.f()").await.contains("onetool trust"));
}

#[tokio::test]
async fn a_folder_above_the_home_folder_is_not_a_project() {
    let project = Project::empty();
    project.write("users/me/notes.txt", "private");
    let told = async || {
        let mut command = project.command(&["run", "file.read('users/me/notes.txt')"]);
        let answer = command.env("HOME", project.path().join("users/me")).output().await.unwrap();
        format!("{}{}", String::from_utf8_lossy(&answer.stdout), String::from_utf8_lossy(&answer.stderr))
    };
    // Some give programs a home inside a project.
    assert!(told().await.contains("private"));
    // What a server writes does not make it one.
    std::fs::remove_file(project.path().join(".onetool/onetool.yaml")).unwrap();
    let refused = told().await;
    assert!(refused.contains("tools.file.roots") && !refused.contains("private"), "{refused}");
}

#[tokio::test]
async fn the_home_folder_is_not_a_project() {
    let project = Project::empty();
    project.write("home/notes.txt", "private");
    let home = project.home();
    let mut command = project.command(&["run", "file.read('notes.txt')"]);
    let answer = command.current_dir(&home).output().await.unwrap();
    assert!(!answer.status.success());
    let told = String::from_utf8_lossy(&answer.stderr);
    assert!(told.contains("tools.file.roots"), "{told}");
    project.write("home/.onetool/onetool.yaml", "tools: {file: {roots: ['~/open']}}\n");
    project.write("home/open/a.txt", "in the open");
    let mut command = project.command(&["call", "file.read", "path=a.txt"]);
    let answer = command.current_dir(&home).output().await.unwrap();
    assert!(String::from_utf8_lossy(&answer.stdout).contains("in the open"), "{answer:?}");
}
