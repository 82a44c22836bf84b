//! The gallery: a pack is added, edited, updated and removed, and no edit is ever lost.

use std::path::PathBuf;

use serde_json::{Value as Json, json};

use crate::client::Project;

/// A command's output and exit code.
async fn outcome(project: &Project, arguments: &[&str]) -> (String, String, i32) {
    let output = project.command(arguments).output().await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr), output.status.code().unwrap())
}

async fn state(project: &Project, pack: &str, place: &str) -> String {
    let (out, _, code) = outcome(project, &["packs", "list", "--json"]).await;
    assert_eq!(code, 0);
    let all: Vec<Json> = serde_json::from_str(&out).unwrap();
    let entry = all.iter().find(|entry| entry["name"] == pack).unwrap();
    entry[place].as_str().unwrap().to_owned()
}

fn file(project: &Project) -> PathBuf {
    project.path().join(".onetool/tools/git/git_tools.py")
}

/// Makes the copy look like one from an older gallery.
fn make_older(project: &Project) {
    let older = std::fs::read_to_string(file(project)).unwrap().replace("TIMEOUT = 60", "TIMEOUT = 30");
    std::fs::write(file(project), &older).unwrap();
    std::fs::write(file(project).with_file_name(".original.py"), older).unwrap();
}

#[tokio::test]
async fn a_pack_is_added_to_the_project_and_works() {
    let project = Project::empty();
    assert_eq!(state(&project, "git", "project").await, "-");
    let (out, err, code) = outcome(&project, &["packs", "add", "git"]).await;
    assert_eq!(code, 0, "{err}");
    assert!(out.starts_with("wrote ") && out.contains("git_tools.py"), "{out}");
    assert_eq!(state(&project, "git", "project").await, "added");
    let (out, err, code) = outcome(&project, &["call", "git.status"]).await;
    // The folder is not a repository: the pack passes on git's error.
    assert!(code == 1 && format!("{out}{err}").contains("not a git repository"), "{out} {err}");
    let run =
        tokio::process::Command::new("git").args(["init", "-q", "-b", "trunk"]).current_dir(project.path()).status();
    assert!(run.await.unwrap().success());
    let client = project.serve().await;
    assert_eq!(client.ok("git.status()['branch']").await, "trunk");
    let (out, _, code) = outcome(&project, &["packs", "add", "git"]).await;
    assert!(code == 0 && out.starts_with("kept "), "{out}");
}

#[tokio::test]
async fn code_that_uses_a_pack_of_the_gallery_is_told_how_to_add_it() {
    let project = Project::empty();
    let (out, err, code) = outcome(&project, &["run", "git.log()"]).await;
    assert!(code == 1 && format!("{out}{err}").contains("`onetool packs add git` adds it"), "{out} {err}");
    let (_, err, code) = outcome(&project, &["servers", "test", "git"]).await;
    assert!(code == 1 && err.contains("`onetool servers add` adds one"), "{err}");
    let (_, err, code) = outcome(&project, &["audit", "search", "--outcome", "fine"]).await;
    assert!(code == 2 && err.contains("ok, error, denied, limited"), "{err}");
}

#[tokio::test]
async fn a_pack_is_added_for_all_projects() {
    let project = Project::empty();
    assert_eq!(outcome(&project, &["packs", "add", "git", "plot", "--global"]).await.2, 0);
    assert!(project.home().join(".onetool/tools/plot/plot_tools.py").is_file());
    assert_eq!(state(&project, "plot", "global").await, "added");
    assert_eq!(state(&project, "plot", "project").await, "-");
    let (out, _, _) = outcome(&project, &["tools", "plot", "--json"]).await;
    let tools: Json = serde_json::from_str(&out).unwrap();
    assert!(tools.as_array().unwrap().len() >= 7, "{tools}");
    assert_eq!(outcome(&project, &["packs", "remove", "plot", "--global"]).await.2, 0);
    assert!(!project.home().join(".onetool/tools/plot").exists());
}

#[tokio::test]
async fn an_update_shows_a_diff() {
    let project = Project::empty();
    outcome(&project, &["packs", "add", "git"]).await;
    make_older(&project);
    assert_eq!(state(&project, "git", "project").await, "update available");
    let (out, _, code) = outcome(&project, &["packs", "update", "--check"]).await;
    assert_eq!(code, 1);
    assert!(out.contains("-TIMEOUT = 30\n+TIMEOUT = 60\n"), "{out}");
    assert!(std::fs::read_to_string(file(&project)).unwrap().contains("TIMEOUT = 30"));
    let (out, _, code) = outcome(&project, &["packs", "update"]).await;
    assert!(code == 0 && out.contains("+TIMEOUT = 60") && out.contains("git: updated"), "{out}");
    assert_eq!(state(&project, "git", "project").await, "added");
    let (out, _, code) = outcome(&project, &["packs", "update"]).await;
    assert!(code == 0 && out.contains("git: up to date"), "{out}");
}

#[tokio::test]
async fn edits_are_never_lost() {
    let project = Project::empty();
    outcome(&project, &["packs", "add", "git"]).await;
    make_older(&project);
    let edited = format!("{}\n# mine\n", std::fs::read_to_string(file(&project)).unwrap());
    std::fs::write(file(&project), &edited).unwrap();
    assert_eq!(state(&project, "git", "project").await, "edited, update available");
    let (out, _, _) = outcome(&project, &["packs", "show", "git", "--diff"]).await;
    assert!(out.contains("+# mine") && !out.contains("TIMEOUT"), "{out}");
    let (out, err, code) = outcome(&project, &["packs", "update"]).await;
    assert!(code == 1 && out.contains("left as it is") && err.contains("--force"), "{out} {err}");
    assert_eq!(std::fs::read_to_string(file(&project)).unwrap(), edited);
    let (_, err, code) = outcome(&project, &["packs", "remove", "git"]).await;
    assert!(code == 1 && err.contains("you edited"), "{err}");

    assert_eq!(outcome(&project, &["packs", "update", "git", "--force"]).await.2, 0);
    let backup = file(&project).with_file_name("git_tools.py.bak");
    assert_eq!(std::fs::read_to_string(&backup).unwrap(), edited);
    assert_eq!(state(&project, "git", "project").await, "added");
    std::fs::write(file(&project), "def other(): ...\n").unwrap();
    assert_eq!(outcome(&project, &["packs", "remove", "git", "--force"]).await.2, 0);
    assert_eq!(std::fs::read_to_string(&backup).unwrap(), edited);
    let second = file(&project).with_file_name("git_tools.py.bak2");
    assert_eq!(std::fs::read_to_string(second).unwrap(), "def other(): ...\n");
    assert!(!file(&project).exists());
}

#[tokio::test]
async fn a_pack_of_your_own_is_left_alone() {
    let project = Project::empty();
    project.write(".onetool/tools/git/git_tools.py", "def mine(): ...\n");
    assert_eq!(state(&project, "git", "project").await, "your own");
    for command in [["packs", "add", "git"], ["packs", "update", "git"], ["packs", "remove", "git"]] {
        let (_, err, code) = outcome(&project, &command).await;
        assert!(code == 1 && err.contains("not from the gallery"), "{command:?} {err}");
    }
    // If one pack cannot be written, none is.
    assert_eq!(outcome(&project, &["packs", "add", "plot", "git"]).await.2, 1);
    assert_eq!(state(&project, "plot", "project").await, "-");
    assert_eq!(std::fs::read_to_string(file(&project)).unwrap(), "def mine(): ...\n");
}

#[tokio::test]
async fn packs_are_explained_and_unknown_names_get_a_hint() {
    let project = Project::empty();
    let (out, _, _) = outcome(&project, &["packs", "show", "db"]).await;
    assert!(out.starts_with("# db\n") && out.contains("tools.db"), "{out}");
    let (out, _, _) = outcome(&project, &["packs", "show", "db", "--source"]).await;
    assert!(out.starts_with("# /// script\n"), "{out}");
    let (_, err, code) = outcome(&project, &["packs", "add", "exel"]).await;
    assert!(code == 1 && err.contains("did you mean 'excel'?"), "{err}");
    let (out, _, _) = outcome(&project, &["packs", "list", "--json"]).await;
    let all: Json = serde_json::from_str(&out).unwrap();
    assert_eq!(all[0]["name"], json!("code"));
}
