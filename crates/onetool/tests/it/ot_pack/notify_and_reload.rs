//! Requirements: Notify Message, Reload Configuration.

use serde_json::Value as Json;

use super::{House, example_project, house};

#[test]
fn send_notification() {
    let house = House::of(example_project());
    let answer = house.ok("ot.notify(topic='notes', message='Remember to review PR #123')");
    assert_eq!(answer, "OK: notes -> .onetool/notes.yaml");
    assert_eq!(
        house.ok("ot.notify(topic='status:build', message='green')"),
        "OK: status:build -> .onetool/status.yaml"
    );
    house.ok("ot.notify(topic='notes', message='second: with a colon\\n--- and a line of dashes')");
    let text = std::fs::read_to_string(house.project.path().join(".onetool/notes.yaml")).unwrap();
    let documents: Vec<Json> = serde_saphyr::from_multiple(&text).unwrap();
    let messages: Vec<&Json> = documents.iter().map(|document| &document["message"]).collect();
    assert_eq!(messages, ["Remember to review PR #123", "second: with a colon\n--- and a line of dashes"], "{text}");
    assert_eq!(documents[0]["topic"], "notes");
    let at = documents[0]["ts"].as_str().unwrap();
    assert!(at.ends_with('Z') && chrono::DateTime::parse_from_rfc3339(at).is_ok(), "{text}");
}

#[test]
fn no_matching_topic() {
    assert_eq!(house().ok("ot.notify(topic='unknown:topic', message='test')"), "SKIP: no matching topic");
}

#[test]
fn reload_config() {
    let house = House::of(example_project());
    assert!(house.err("v()").starts_with("NameError"));
    house.project.write(".onetool/onetool.yaml", "alias: {v: ot.version}\nstats: {enabled: false}\n");
    house.project.write(".onetool/snippets.yaml", "two: {description: Two, body: '2'}\n");
    house.project.write(".onetool/prompts.yaml", "packs: {demo: Use it with care.}\n");
    house.project.write(
        ".onetool/tools/demo/demo_tools.py",
        "pack = 'demo'\ndef baz() -> str:\n    \"\"\"Say baz.\"\"\"\n    return 'baz'\n",
    );
    assert_eq!(house.ok("ot.reload()"), "OK: Configuration reloaded");
    // Everything at once: nothing is left of the previous configuration.
    assert_eq!(house.ok("ot.config()"), "aliases: {v: ot.version}\nsnippets: {two: {description: Two}}\nservers: []");
    assert_eq!(house.ok("v()"), env!("CARGO_PKG_VERSION"));
    assert_eq!(house.ok("$two"), "2");
    assert_eq!(house.ok("ot.tools(pattern='demo', info='list')"), "[demo.baz]");
    assert_eq!(house.ok("demo.baz()"), "baz");
    assert!(house.ok("ot.packs(pattern='demo', info='full')").contains("Use it with care."));
    assert!(house.ok("ot.stats()").starts_with("Error: Statistics are disabled"));
}

#[test]
fn a_key_that_needs_a_restart_is_reported() {
    let house = House::of(example_project());
    house.project.write(".onetool/onetool.yaml", "run: {max_parallel: 3, timeout: 20}\n");
    house.ok("ot.reload()");
    let health = house.ok("ot.health()");
    assert!(health.contains("run.max_parallel") && health.contains("restart onetool"), "{health}");
    assert!(!health.contains("run.timeout"), "{health}");
}

#[test]
fn statistics_follow_the_configuration() {
    let house = House::of(example_project());
    house.project.write(".onetool/onetool.yaml", "stats: {persist_path: other.jsonl, flush_interval_seconds: 1}\n");
    house.ok("ot.reload()");
    let file = house.project.path().join(".onetool/stats/other.jsonl");
    house.until("ot.version()", |_| file.is_file());
}

#[test]
fn a_configuration_that_is_gone_stays_in_force() {
    let house = House::of(example_project());
    house.project.write(".onetool/onetool.yaml", "security: {policy: {'file.*': deny}}\n");
    house.ok("ot.reload()");
    assert!(house.err("file.list()").contains("denied"), "{}", house.err("file.list()"));
    std::fs::remove_file(house.project.path().join(".onetool/onetool.yaml")).unwrap();
    let refusal = house.err("ot.reload()");
    assert!(refusal.contains("onetool.yaml: this file is gone") && refusal.contains("last good"), "{refusal}");
    assert!(house.err("file.list()").contains("denied"));
    // It is back in another place, which is an ordinary change.
    house.project.write(".onetool/config/onetool.yaml", "alias: {v: ot.version}\n");
    house.ok("ot.reload()");
    house.ok("file.list()");
}

#[test]
fn an_included_file_that_is_gone_holds_back_until_nothing_includes_it() {
    let house = House::of(example_project());
    house.project.write(".onetool/rules.yaml", "security: {policy: {'file.*': deny}}\n");
    house.project.write(".onetool/onetool.yaml", "include: rules.yaml\n");
    house.ok("ot.reload()");
    assert!(house.err("file.list()").contains("denied"));
    std::fs::remove_file(house.project.path().join(".onetool/rules.yaml")).unwrap();
    let refusal = house.err("ot.reload()");
    assert!(refusal.contains("rules.yaml: this file is gone"), "{refusal}");
    assert!(house.err("file.list()").contains("denied"));
    house.project.write(".onetool/onetool.yaml", "alias: {v: ot.version}\n");
    house.ok("ot.reload()");
    house.ok("file.list()");
}
