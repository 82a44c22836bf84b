//! `ot.health`, `ot.stats`.

use std::fs;

use chrono::{TimeDelta, Utc};
use onetool_sdk::{HealthNote, NoteFacts, Severity};
use onetool_state::stats::{Outcome, Record};
use serde_json::json;
use tempfile::tempdir;

use super::fixture::toolbox;
use crate::ServerStatus;

#[tokio::test]
async fn troubles_degrade_and_notes_do_not() {
    let folder = tempdir().unwrap();
    let toolbox = toolbox(folder.path());
    toolbox.change(|state| {
        state.servers.push(ServerStatus {
            name: "db".into(),
            state: "disconnected".into(),
            reason: Some("the command was not found".into()),
        });
        state.notes.push(HealthNote {
            severity: Severity::Error,
            subject: "tools/x.py".into(),
            message: "not Python".into(),
            facts: NoteFacts::default(),
        });
        state.notes.push(HealthNote {
            severity: Severity::Info,
            subject: "cache".into(),
            message: "is old".into(),
            facts: NoteFacts::default(),
        });
    });
    let health = toolbox.json("health", json!({})).await;
    assert_eq!(
        health["proxy"],
        json!({"status": "degraded", "server_count": 2, "servers": {"github": "connected", "db": "disconnected"}})
    );
    assert_eq!(health["registry"]["status"], "degraded");
    assert_eq!(health["problems"], json!(["tools/x.py: not Python", "server db: the command was not found"]));
    assert_eq!(health["notes"], json!(["cache: is old"]));
}

#[tokio::test]
async fn statistics_add_up() {
    let folder = tempdir().unwrap();
    let toolbox = toolbox(folder.path());
    let outcome =
        |ms, error: Option<&str>| Outcome { chars_in: 40, chars_out: 400, ms, error: error.map(str::to_owned) };
    let now = Utc::now();
    toolbox.stats.record(Record::run(now, outcome(50.0, None)));
    toolbox.stats.record(Record::call(now, "brave.search", outcome(10.0, None)));
    toolbox.stats.record(Record::call(now, "brave.search", outcome(30.0, Some("ValueError"))));
    toolbox.stats.record(Record::call(now, "web.fetch", outcome(5.0, None)));
    toolbox.stats.record(Record::call(now - TimeDelta::days(3), "web.fetch", outcome(5.0, None)));
    let stats = toolbox.json("stats", json!({})).await;
    assert_eq!(stats["total_calls"], 4);
    assert_eq!(stats["total_runs"], 1);
    assert_eq!(stats["success_rate"], 75.0);
    assert_eq!(stats["context_saved"], 90_000);
    assert_eq!(stats["time_saved_ms"], 12_000);
    assert_eq!(stats["savings_usd"], 1.35);
    assert_eq!(
        stats["tools"][0],
        json!({"tool": "brave.search", "calls": 2, "success_rate": 50.0, "avg_ms": 20.0, "max_ms": 30.0,
               "chars_in": 80, "chars_out": 800, "errors": {"ValueError": 1}})
    );
}

#[tokio::test]
async fn a_report_that_cannot_be_written_says_why() {
    let folder = tempdir().unwrap();
    let elsewhere = tempdir().unwrap();
    let toolbox = toolbox(folder.path());
    fs::create_dir(folder.path().join("report.html")).unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    std::os::unix::fs::symlink(elsewhere.path(), folder.path().join("link")).unwrap();
    for output in [
        "report.html",
        "file/report.html",
        "../report.html",
        "main.py",
        "link/report.html",
        elsewhere.path().join("report.html").to_str().unwrap(),
    ] {
        let answer = toolbox.text("stats", json!({"output": output})).await;
        assert!(answer.starts_with(&format!("Error: Cannot write to '{output}': ")), "{answer}");
    }
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
}
