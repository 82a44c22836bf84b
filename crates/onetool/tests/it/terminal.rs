//! Commands on a real terminal: their questions and output.

use std::path::Path;

use serde_json::json;

use crate::client::{BINARY, Project};

/// Runs a command on a terminal, types each answer once its question appears, and returns the terminal's output with
/// the exit code.
pub async fn on_terminal(
    project: &Project,
    steps: &[(&str, &str)],
    arguments: &[&str],
    environment: &[(&str, &str)],
) -> (String, i32) {
    let driver = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/terminal_steps.py");
    let prepared = project.command(arguments);
    let mut command = tokio::process::Command::new("python3");
    command.arg(driver).arg(json!(steps).to_string()).arg(BINARY).args(arguments).current_dir(project.path());
    for (name, value) in prepared.as_std().get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.env("TERM", "xterm").env_remove("NO_COLOR").envs(environment.iter().copied()).kill_on_drop(true);
    let output = command.output().await.unwrap();
    (String::from_utf8(output.stdout).unwrap(), output.status.code().unwrap_or(-1))
}

const POLICY: &str = "security:\n  policy:\n    file.write: ask\n";

#[tokio::test]
async fn permission_is_asked_for_in_the_terminal() {
    let project = Project::with(POLICY);
    let question = "Allow the call file.write(";
    let write = "file.write(path='a.txt', content='x')";
    for arguments in [&["run", write][..], &["call", "file.write", "path=a.txt", "content=x"]] {
        let (shown, code) = on_terminal(&project, &[(question, "n\n")], arguments, &[]).await;
        assert!(code == 1 && shown.contains("the user declined"), "{code} {shown}");
        assert!(!project.path().join("a.txt").exists());
        let (shown, code) = on_terminal(&project, &[(question, "y\n")], arguments, &[]).await;
        assert!(code == 0 && shown.contains("path='a.txt'"), "{code} {shown}");
        std::fs::remove_file(project.path().join("a.txt")).unwrap();
    }
    // Without a terminal nobody can be asked.
    let output = project.command(&["run", write]).output().await.unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && told.contains("needs the user's permission"), "{told}");
    assert!(!project.path().join("a.txt").exists());
}

#[tokio::test]
async fn a_server_at_a_terminal_says_how_clients_start_it() {
    let project = Project::empty();
    let (shown, code) = on_terminal(&project, &[("Waiting for messages", "\u{3}")], &["serve"], &[]).await;
    assert_eq!(code, 0, "{shown}");
    let (_, entry) = shown.lines().find_map(|line| line.split_once("settings of a client")).unwrap();
    let entry: serde_json::Value = serde_json::from_str(entry.trim()).unwrap();
    let folder = project.path().canonicalize().unwrap();
    assert_eq!(entry, json!({"command": BINARY, "args": ["--project", folder, "serve"]}), "{shown}");
    assert!(shown.contains(&format!("claude mcp add onetool -- {BINARY} --project")), "{shown}");
}

#[tokio::test]
async fn init_asks_two_questions_and_keeps_private_files_out_of_git() {
    let project = Project::empty();
    std::fs::remove_dir_all(project.path().join(".onetool")).unwrap();
    project
        .write("home/.cursor/mcp.json", r#"{"mcpServers": {"time": {"command": "uvx", "args": ["mcp-server-time"]}}}"#);
    let steps = [("Configure this project alone?", "y\n"), ("Import 1 MCP server", "y\n")];
    let (shown, code) = on_terminal(&project, &steps, &["init"], &[]).await;
    assert_eq!(code, 0, "{shown}");
    let configuration = std::fs::read_to_string(project.path().join(".onetool/onetool.yaml")).unwrap();
    assert!(configuration.contains("mcp-server-time"), "{configuration}");
    let ignored = std::fs::read_to_string(project.path().join(".onetool/.gitignore")).unwrap();
    // Results are stored in tmp.
    for name in ["secrets.yaml", "logs/", "tmp/"] {
        assert!(ignored.lines().any(|line| line == name), "{name}: {ignored}");
    }
    // The user's own configuration instead.
    let project = Project::empty();
    std::fs::remove_dir_all(project.path().join(".onetool")).unwrap();
    project.write("home/.cursor/mcp.json", r#"{"mcpServers": {"a": {"command": "a"}, "b": {"command": "b"}}}"#);
    let steps = [("Configure this project alone?", "n\n"), ("Import 2 MCP servers", "y\n")];
    let (shown, code) = on_terminal(&project, &steps, &["init"], &[]).await;
    assert_eq!(code, 0, "{shown}");
    let configuration = std::fs::read_to_string(project.home().join(".onetool/onetool.yaml")).unwrap();
    assert!(configuration.contains("command: b"), "{configuration}");
    assert!(!project.path().join(".onetool").exists());
}
