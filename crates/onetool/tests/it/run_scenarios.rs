//! Scenarios of `run()` that need more than a command and its answer: new files, passing time, a server behind the
//! server. The others are cases.

use std::path::PathBuf;

use serde_json::Value as Json;

use crate::client::{BINARY, Client, PATIENCE, Project};

/// A tool file whose function returns text of the requested size.
const BIG: &str = "pack = 'demo'\n\n\ndef big(size: int, lines: int = 1) -> str:\n    \"\"\"Text.\"\"\"\n    return '\\n'.join(['x' * (size // lines)] * lines)\n";

fn with_output(settings: &str) -> Project {
    let project =
        Project::with(&format!("output: {{max_inline_size: 50000, {settings}}}\nstats: {{enabled: false}}\n"));
    project.write(".onetool/tools/demo/demo_tools.py", BIG);
    project
}

/// The files of stored results, by suffix.
fn stored(project: &Project, end: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(project.path().join(".onetool/tmp")) else { return Vec::new() };
    entries.map(|entry| entry.unwrap().path()).filter(|path| path.to_string_lossy().ends_with(end)).collect()
}

async fn summary(client: &Client, command: &str) -> Json {
    client.json(command).await
}

#[tokio::test]
async fn output_below_threshold_is_returned_inline_unchanged() {
    let project = with_output("preview_lines: 3");
    let client = project.serve().await;
    assert_eq!(client.ok("demo.big(size=10000)").await, "x".repeat(10_000));
    assert_eq!(client.ok("demo.big(size=50000)").await.len(), 50_000);
    assert!(stored(&project, "").is_empty());
}

#[tokio::test]
async fn output_exceeds_threshold_is_stored_and_summarised() {
    let project = with_output("preview_lines: 3");
    let client = project.serve().await;
    let summary = summary(&client, "demo.big(size=100000)").await;
    assert_eq!(summary["size_bytes"], 100_000);
    let files = stored(&project, ".txt");
    assert_eq!(files.len(), 1);
    assert_eq!(std::fs::read_to_string(&files[0]).unwrap(), "x".repeat(100_000));
}

#[tokio::test]
async fn summary_response_format_has_every_field() {
    let project = with_output("preview_lines: 3");
    let client = project.serve().await;
    let summary = summary(&client, "demo.big(size=100000, lines=100)").await;
    let mut names: Vec<&str> = summary.as_object().unwrap().keys().map(String::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["handle", "preview", "query", "size_bytes", "summary", "total_lines"]);
    assert_eq!((summary["total_lines"].as_u64(), summary["size_bytes"].as_u64()), (Some(100), Some(100_099)));
    assert_eq!(summary["preview"].as_array().unwrap().len(), 3);
    assert!(summary["summary"].as_str().unwrap().contains("100 lines"), "{summary}");
    let handle = summary["handle"].as_str().unwrap();
    assert_eq!(summary["query"], format!("ot.result(handle='{handle}', offset=1, limit=50)"));
    // The hint works as written.
    let page = client.ok(summary["query"].as_str().unwrap()).await;
    assert!(page.contains("xxx"), "{page:.200}");
}

#[tokio::test]
async fn content_file_created_is_named_by_its_guid() {
    let project = with_output("preview_lines: 3");
    let client = project.serve().await;
    let handle = summary(&client, "demo.big(size=100000)").await["handle"].as_str().unwrap().to_owned();
    assert!(project.path().join(format!(".onetool/tmp/result-{handle}.txt")).is_file());
}

#[tokio::test]
async fn meta_file_created_tells_what_the_content_is() {
    let project = with_output("preview_lines: 3");
    let client = project.serve().await;
    let handle = summary(&client, "demo.big(size=100000)").await["handle"].as_str().unwrap().to_owned();
    let path = project.path().join(format!(".onetool/tmp/result-{handle}.meta.json"));
    let meta: Json = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!(meta["handle"], handle);
    assert_eq!((meta["total_lines"].as_u64(), meta["size_bytes"].as_u64()), (Some(1), Some(100_000)));
    assert_eq!(meta["tool"], "demo.big");
    assert!(meta["created_at"].is_string() || meta["created_at"].is_number(), "{meta}");
}

/// Stores a result and waits until it has expired.
async fn expired(client: &Client) -> String {
    let handle = summary(client, "demo.big(size=60000)").await["handle"].as_str().unwrap().to_owned();
    let begun = std::time::Instant::now();
    loop {
        let answer = client.run(&format!("ot.result(handle='{handle}', limit=1)")).await;
        if answer.text.contains("Result expired") {
            return handle;
        }
        assert!(begun.elapsed() < PATIENCE, "a result never expires");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn ttl_based_expiry_makes_a_result_unreadable() {
    let project = with_output("result_ttl: 1");
    let client = project.serve().await;
    expired(&client).await;
    assert_eq!(client.ok("1 + 1").await, "2");
}

#[tokio::test]
async fn cleanup_on_store_removes_expired_files() {
    let project = with_output("result_ttl: 1");
    let client = project.serve().await;
    let old = expired(&client).await;
    let new = summary(&client, "demo.big(size=60001)").await["handle"].as_str().unwrap().to_owned();
    let names =
        |end: &str| stored(&project, end).iter().map(|path| path.to_string_lossy().into_owned()).collect::<Vec<_>>();
    for end in [".txt", ".meta.json"] {
        let names = names(end);
        assert!(names.iter().any(|name| name.contains(&new)), "{names:?}");
        assert!(!names.iter().any(|name| name.contains(&old)), "{names:?}");
    }
}

#[tokio::test]
async fn mcp_proxy_tool_prefix_matching_follows_the_input_schema() {
    let project = Project::with(&format!(
        "servers:\n  up:\n    command: {BINARY}\n    args: [serve]\n    cwd: upstream\nstats: {{enabled: false}}\n"
    ));
    project.write("upstream/.onetool/onetool.yaml", "stats: {enabled: false}\n");
    let client = project.serve().await;
    assert_eq!(client.ok("up.run(command='20 + 1')").await, "21");
    assert_eq!(client.ok("up.run(comm='20 + 2')").await, "22");
    assert_eq!(client.ok("up.run(c='20 + 3')").await, "23");
    let refused = client.err("up.run(xyz='20 + 4')").await;
    assert!(refused.contains("xyz") && refused.contains("command"), "{refused}");
}

#[tokio::test]
async fn extension_tool_prefix_matching_reaches_the_worker() {
    let project = with_output("preview_lines: 3");
    let client = project.serve().await;
    assert_eq!(client.ok("demo.big(si=6, li=3)").await, "xx\nxx\nxx");
}

#[tokio::test]
async fn internal_tool_prefix_matching_is_applied() {
    let project = Project::empty();
    project.write("a.txt", "one\ntwo\nthree\n");
    let client = project.serve().await;
    let whole = client.ok("file.read(path='a.txt', offset=2, limit=1)").await;
    assert!(whole.contains("two") && !whole.contains("one"), "{whole}");
    assert_eq!(client.ok("file.read(p='a.txt', off=2, li=1)").await, whole);
}

/// Checks the module structure in the source, and that one command uses each module.
#[tokio::test]
async fn runner_focused_on_orchestration_uses_its_modules() {
    let runner = concat!(
        include_str!("../../../onetool-run/src/runner.rs"),
        include_str!("../../../onetool-run/src/runner/prepare.rs")
    );
    for (module, source) in [
        ("fence_processor", include_str!("../../../onetool-run/src/fence_processor.rs")),
        ("tool_loader", include_str!("../../../onetool-run/src/tool_loader.rs")),
        ("pack_proxy", include_str!("../../../onetool-run/src/pack_proxy.rs")),
    ] {
        assert!(source.starts_with("//! "), "{module} does not say what it is for");
    }
    assert!(runner.contains("fence_processor::strip") && runner.contains("PackProxy::new"));
    assert!(!runner.contains("```"), "the runner looks at fences itself");
    let project = with_output("preview_lines: 3");
    let client = project.serve().await;
    assert_eq!(client.ok("```python\nlen(demo.big(si=5))\n```").await, "5");
}
