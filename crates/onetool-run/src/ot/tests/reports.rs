//! `ot.health`, `ot.notify`, `ot.reload`, `ot.stats`.

use std::fs;
use std::sync::atomic::Ordering;

use chrono::{TimeDelta, Utc};
use onetool_sdk::{HealthNote, Severity};
use onetool_store::stats::{Outcome, Record};
use serde_json::json;
use tempfile::tempdir;

use super::fixture::{TestToolbox, toolbox};
use crate::ServerStatus;
use crate::present::to_ot_display;

#[tokio::test]
async fn health_in_short() {
    let folder = tempdir().unwrap();
    let toolbox = toolbox(folder.path());
    assert_eq!(
        to_ot_display(&toolbox.call("health", json!({})).await),
        format!(
            "version: \"{}\"\npython: \"3.14 (monty)\"\ncwd: {}\nregistry: {{status: ok, tool_count: 19}}\n\
             proxy: {{status: ok, server_count: 1, servers: {{github: connected}}}}",
            env!("CARGO_PKG_VERSION"),
            folder.path().display()
        )
    );
}

#[tokio::test]
async fn a_lost_server_degrades_the_proxy() {
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
        });
        state.notes.push(HealthNote { severity: Severity::Info, subject: "cache".into(), message: "is old".into() });
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
async fn a_message_goes_to_the_file_of_its_topic() {
    let folder = tempdir().unwrap();
    let toolbox = toolbox(folder.path());
    let message = "Remember to review PR #123\n- and: this";
    let answer = toolbox.text("notify", json!({"topic": "notes", "message": message})).await;
    assert_eq!(answer, "OK: notes -> .onetool/notes.yaml");
    toolbox.text("notify", json!({"topic": "notes", "message": "second"})).await;
    let text = fs::read_to_string(folder.path().join(".onetool/notes.yaml")).unwrap();
    let documents: Vec<serde_json::Value> = serde_saphyr::from_multiple(&text).unwrap();
    assert_eq!(documents.len(), 2, "{text}");
    assert_eq!(documents[0]["message"], message);
    assert_eq!(documents[0]["topic"], "notes");
    assert!(documents[0]["ts"].as_str().unwrap().ends_with('Z'));
    assert_eq!(documents[1]["message"], "second");
}

#[tokio::test]
async fn a_topic_without_a_file_is_skipped() {
    let folder = tempdir().unwrap();
    let answer = toolbox(folder.path()).text("notify", json!({"topic": "unknown:topic", "message": "test"})).await;
    assert_eq!(answer, "SKIP: no matching topic");
}

#[tokio::test]
async fn reload_brings_the_new_configuration() {
    let folder = tempdir().unwrap();
    let toolbox = toolbox(folder.path());
    assert_eq!(toolbox.text("reload", json!({})).await, "OK: Configuration reloaded");
    assert_eq!(toolbox.reloads.load(Ordering::SeqCst), 1);
    assert_eq!(toolbox.json("aliases", json!({"pattern": "fresh", "info": "list"})).await, json!(["fresh"]));
}

fn used(toolbox: &TestToolbox) {
    let outcome =
        |ms, error: Option<&str>| Outcome { chars_in: 40, chars_out: 400, ms, error: error.map(str::to_owned) };
    let now = Utc::now();
    toolbox.stats.record(Record::run(now, outcome(50.0, None)));
    toolbox.stats.record(Record::call(now, "brave.search", outcome(10.0, None)));
    toolbox.stats.record(Record::call(now, "brave.search", outcome(30.0, Some("ValueError"))));
    toolbox.stats.record(Record::call(now, "web.fetch", outcome(5.0, None)));
    toolbox.stats.record(Record::call(now - TimeDelta::days(3), "web.fetch", outcome(5.0, None)));
}

#[tokio::test]
async fn statistics_of_all_time() {
    let folder = tempdir().unwrap();
    let toolbox = toolbox(folder.path());
    used(&toolbox);
    let stats = toolbox.json("stats", json!({})).await;
    assert_eq!(stats["total_calls"], 4);
    assert_eq!(stats["total_runs"], 1);
    assert_eq!(stats["success_rate"], 75.0);
    assert_eq!(stats["context_saved"], 120_000);
    assert_eq!(stats["time_saved_ms"], 16_000);
    assert_eq!(stats["savings_usd"], 1.8);
    assert_eq!(
        stats["tools"][0],
        json!({"tool": "brave.search", "calls": 2, "success_rate": 50.0, "avg_ms": 20.0, "max_ms": 30.0,
               "chars_in": 80, "chars_out": 800, "errors": {"ValueError": 1}})
    );
}

#[tokio::test]
async fn statistics_of_a_period_and_of_a_tool() {
    let folder = tempdir().unwrap();
    let toolbox = toolbox(folder.path());
    used(&toolbox);
    for (period, calls) in [("day", 3), ("week", 4), ("month", 4), ("all", 4)] {
        assert_eq!(toolbox.json("stats", json!({"period": period})).await["total_calls"], calls, "{period}");
    }
    let one = toolbox.json("stats", json!({"tool": "brave.search"})).await;
    assert_eq!(one["total_calls"], 2);
    assert_eq!(one["tools"].as_array().unwrap().len(), 1);
    assert_eq!(toolbox.json("stats", json!({"tool": "web"})).await["total_calls"], 2);
}

#[tokio::test]
async fn what_is_wrong_with_the_question_is_said() {
    let folder = tempdir().unwrap();
    let toolbox = toolbox(folder.path());
    assert_eq!(
        toolbox.text("stats", json!({"period": "invalid"})).await,
        "Error: Invalid period 'invalid'. Valid: day, week, month, all. Example: ot.stats(period='day')"
    );
    toolbox.change(|state| state.stats.enabled = false);
    assert!(toolbox.text("stats", json!({})).await.starts_with("Error: Statistics are disabled"));
}

#[tokio::test]
async fn a_report_is_written() {
    let folder = tempdir().unwrap();
    let toolbox = toolbox(folder.path());
    used(&toolbox);
    let stats = toolbox.json("stats", json!({"output": "out/stats.html"})).await;
    let path = folder.path().join("out/stats.html");
    assert_eq!(stats["html_report"], json!(path.display().to_string()));
    let page = fs::read_to_string(path).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.contains("brave.search"), "{page}");
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
