//! Changes on disk take effect automatically, and broken files change nothing.

use std::time::Duration;

use crate::client::{Client, PATIENCE, Project};

/// Runs a command until its answer is as expected.
async fn until(client: &Client, command: &str, expected: impl Fn(&str) -> bool) -> String {
    let patience = tokio::time::Instant::now() + PATIENCE;
    loop {
        let answer = client.run(command).await.text;
        if expected(&answer) {
            return answer;
        }
        assert!(tokio::time::Instant::now() < patience, "never as expected: {command}: {answer}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn an_alias_a_snippet_and_a_prompt_work_once_they_are_written() {
    let project = Project::with("alias: {v: ot.version}\n");
    let client = project.serve().await;
    let version = client.ok("v()").await;
    project.write(".onetool/onetool.yaml", "alias: {w: ot.version}\n");
    until(&client, "w()", |answer| answer == version).await;
    assert!(client.err("v()").await.starts_with("NameError"));
    project.write(".onetool/snippets.yaml", "twice: {body: '{{ x }} * 2', params: {x: {}}}\n");
    until(&client, "$twice x=21", |answer| answer == "42").await;
    project.write(".onetool/prompts.yaml", "packs: {ot: 'Read this first.'}\n");
    until(&client, "ot.packs(pattern='ot', info='full')", |answer| answer.contains("Read this first.")).await;
}

#[tokio::test]
async fn folders_that_come_later_are_noticed_too() {
    let project = Project::empty();
    let client = project.serve().await;
    project.write("home/.onetool/onetool.yaml", "alias: {v: ot.version}\n");
    until(&client, "v()", |answer| answer == env!("CARGO_PKG_VERSION")).await;
    project.write(".onetool/more/aliases.yaml", "alias: {a: ot.version}\n");
    project.write(".onetool/onetool.yaml", "include: [more/aliases.yaml]\n");
    // Included files are watched too, wherever they are.
    until(&client, "a()", |answer| answer == env!("CARGO_PKG_VERSION")).await;
    project.write(".onetool/more/aliases.yaml", "alias: {b: ot.version}\n");
    until(&client, "b()", |answer| answer == env!("CARGO_PKG_VERSION")).await;
}

#[tokio::test]
async fn a_broken_file_keeps_the_last_good_state_until_it_is_fixed() {
    let project = Project::with("alias: {v: ot.version}\nsecurity: {policy: {file.write: deny}}\n");
    let client = project.serve().await;
    let version = client.ok("v()").await;
    project.write(".onetool/onetool.yaml", "alias: {v: [ot.version\n");
    let health = until(&client, "ot.health()", |answer| answer.contains("invalid YAML")).await;
    assert!(health.contains("the last good configuration stays in effect"), "{health}");
    assert!(health.contains("degraded"), "{health}");
    assert_eq!(client.ok("v()").await, version);
    assert!(client.err("file.write('x', 'y')").await.contains("denied by policy"));
    // An explicit reload makes no difference, and gives the reason.
    let refused = client.err("ot.reload()").await;
    assert!(refused.contains("onetool.yaml: line 1: invalid YAML"), "{refused}");
    assert_eq!(client.ok("v()").await, version);
    // Nor does another file that is valid.
    project.write(".onetool/snippets.yaml", "two: {body: '2'}\n");
    client.err("ot.reload()").await;
    assert!(client.run("$two").await.is_error);
    project.write(".onetool/onetool.yaml", "alias: {w: ot.version}\n");
    until(&client, "w()", |answer| answer == version).await;
    assert_eq!(client.ok("$two").await, "2");
    assert!(!client.ok("ot.health()").await.contains("problems"));
}

#[tokio::test]
async fn a_file_that_was_broken_from_the_start_holds_nothing_back() {
    let project = Project::with("alias: {v: [ot.version\n");
    let client = project.serve().await;
    project.write(".onetool/snippets.yaml", "two: {body: '2'}\n");
    until(&client, "$two", |answer| answer == "2").await;
    assert!(client.ok("ot.health()").await.contains("invalid YAML"));
}

#[tokio::test]
async fn a_new_tool_file_and_a_changed_secret_are_noticed() {
    const TOOL: &str = "\
# /// script
# dependencies = []
# [tool.onetool]
# secrets = ['WORD']
# ///
from onetool import get_secret
def tell() -> str:
    \"\"\"Tell.\"\"\"
    return 'word: ' + str(get_secret('WORD', None))[::-1]
";
    let project = Project::empty();
    project.write(".onetool/secrets.yaml", "WORD: first-word\n");
    let client = project.serve().await;
    client.ok("1").await;
    project.write(".onetool/tools/teller/teller_tools.py", TOOL);
    until(&client, "teller.tell()", |answer| answer == "word: drow-tsrif").await;
    project.write(".onetool/secrets.yaml", "WORD: second-word\n");
    until(&client, "teller.tell()", |answer| answer == "word: drow-dnoces").await;
    project.write(".onetool/secrets.yaml", "WORD: [third-word\n");
    let health = until(&client, "ot.health()", |answer| answer.contains("stays in effect")).await;
    assert!(!health.contains("third-word"), "{health}");
    assert_eq!(client.ok("teller.tell()").await, "word: drow-dnoces");
    // The secret itself is never returned.
    assert_eq!(client.ok("teller.tell()[6:][::-1]").await, "[REDACTED]");
}

#[tokio::test]
async fn tools_may_be_edited_and_removed_while_they_are_served() {
    let project = Project::empty();
    let file = project.write(".onetool/tools/live/live_tools.py", "def f(): return {'version': 1}\n");
    let client = project.serve().await;
    assert_eq!(client.json("live.f()").await, serde_json::json!({"version": 1}));
    project.write(".onetool/tools/live/live_tools.py", "def f(): return {'version': 2}\ndef g(): return 0\n");
    assert_eq!(client.json("live.f()").await, serde_json::json!({"version": 2}));
    project.write(".onetool/tools/live/live_tools.py", "def g(: return 0\n");
    // An edit that cannot be parsed keeps the last valid version, and health reports it.
    assert_eq!(client.json("live.f()").await, serde_json::json!({"version": 2}));
    let health = client.ok("ot.health()").await;
    assert!(health.contains("live_tools.py") && health.contains("line 1: "), "{health}");
    std::fs::remove_file(&file).unwrap();
    let gone = client.err("live.f()").await;
    assert!(gone.contains("live"), "{gone}");
    project.write(".onetool/tools/live/live_tools.py", "def f(: return 1\n");
    until(&client, "live.f()", |answer| answer.contains("live_tools.py: line 1: ")).await;
    project.write(".onetool/tools/live/live_tools.py", "def f(): return {'version': 3}\n");
    until(&client, "live.f()", |answer| answer.contains("version\":3")).await;
}
