//! The command line.

use std::process::Stdio;

use tokio::io::AsyncWriteExt as _;

use crate::client::Project;

async fn output(project: &Project, arguments: &[&str]) -> (String, String, i32) {
    let output = project.command(arguments).output().await.unwrap();
    (
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
        output.status.code().unwrap(),
    )
}

#[tokio::test]
async fn run_prints_the_value() {
    let project = Project::empty();
    assert_eq!(output(&project, &["run", "sum(range(10))"]).await, ("45\n".into(), String::new(), 0));
    let script = project.write("script.py", "x = 6\nx * 7\n");
    assert_eq!(output(&project, &["run", "--file", script.to_str().unwrap()]).await.0, "42\n");
}

#[tokio::test]
async fn run_reads_standard_input() {
    let project = Project::empty();
    let mut child = project.command(&["run", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"1 + 1").await.unwrap();
    drop(stdin);
    assert_eq!(child.wait_with_output().await.unwrap().stdout, b"2\n");
}

#[tokio::test]
async fn errors_go_to_stderr_with_exit_code_1() {
    let project = Project::empty();
    let (out, err, code) = output(&project, &["run", "1 / 0"]).await;
    assert_eq!((out.as_str(), code), ("", 1));
    assert_eq!(err, "ZeroDivisionError: division by zero\n  line 1: 1 / 0\n");
}

#[tokio::test]
async fn tools_version_and_help_answer() {
    let project = Project::empty();
    assert!(output(&project, &["tools", "file.re"]).await.0.starts_with("file.read"));
    assert_eq!(output(&project, &["--version"]).await.0, format!("onetool {}\n", env!("CARGO_PKG_VERSION")));
    assert!(output(&project, &["--help"]).await.0.contains("Examples:"));
}

#[tokio::test]
async fn a_broken_configuration_is_told_and_the_rest_works() {
    let project = Project::with("run:\n  timeout: soon\n");
    let (out, err, code) = output(&project, &["run", "1"]).await;
    assert_eq!((out.as_str(), code), ("1\n", 0));
    assert!(err.contains("line 2: run.timeout"), "{err}");
}

#[tokio::test]
async fn output_that_nobody_reads_to_the_end_is_no_error() {
    let project = Project::empty();
    let mut child =
        project.command(&["run", "'x' * 40000"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().await.unwrap();
    assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap()), (Some(0), String::new()));
}
