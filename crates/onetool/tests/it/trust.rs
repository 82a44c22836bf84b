//! Folder trust: files that came with a repository wait for the user, files created here just work.

use std::process::Command;

use crate::client::Project;

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
