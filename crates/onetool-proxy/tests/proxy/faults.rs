//! Servers that misbehave harm their own calls, and nothing else.

use std::time::{Duration, Instant};

use onetool_proxy::{ServerKind, ServerSettings, ServerState};
use onetool_sdk::{ErrorKind, Severity, ToolSource, Value};
use rustix::process::Signal;
use serde_json::{Value as Json, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::fixture::{House, call, connected, context, is_alive, server, signal, status, text, until};

#[tokio::test]
async fn a_crash_fails_its_call_and_the_next_one_works() {
    let house = House::new();
    let source = connected(&house, &[]).await;
    let error = call(&source, "fixture.crash", json!({})).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(error.message.contains("exit status: 3"), "{}", error.message);
    assert!(error.message.contains("the last straw"), "{}", error.message);
    assert_eq!(text(&source, "fixture.echo", json!({"text": "again"})).await, "again");
    assert_eq!(status(&source, "fixture").state, ServerState::Connected);
    source.shutdown().await;
}

#[tokio::test]
async fn a_server_that_does_not_start_is_told_with_its_last_words() {
    let house = House::new();
    let source = house.source(vec![
        server("fixture", &["--mode", "exit"]),
        ServerSettings::stdio("missing", "/no/such/program", [""; 0]),
        server("good", &[]),
    ]);
    let _ = source.settle("fixture", &context()).await;
    let _ = source.settle("missing", &context()).await;
    let broken = status(&source, "fixture");
    assert_eq!(broken.state, ServerState::Disconnected);
    assert!(broken.reason.as_deref().unwrap().contains("exit status: 7"), "{broken:?}");
    assert!(broken.reason.as_deref().unwrap().contains("no such module: flux"), "{broken:?}");
    let missing = status(&source, "missing");
    assert!(missing.reason.as_deref().unwrap().contains("can't be started"), "{missing:?}");
    let _ = source.settle("good", &context()).await;
    assert_eq!(text(&source, "good.echo", json!({"text": "x"})).await, "x");
    let health = source.health();
    assert_eq!(health.len(), 2);
    assert_eq!((health[0].severity, health[0].subject.as_str()), (Severity::Error, "proxy:fixture"));
    source.shutdown().await;
}

#[tokio::test]
async fn a_server_that_says_nothing_is_given_up() {
    let house = House::new();
    let silent = ServerSettings { timeout: Duration::from_secs(3), ..server("fixture", &["--mode", "silent"]) };
    let source = house.source(vec![silent]);
    let _ = source.settle("fixture", &context()).await;
    until("it is given up", || {
        let reason = status(&source, "fixture").reason.unwrap_or_default();
        reason.contains("not ready within") && reason.contains("waiting for the tide")
    })
    .await;
    source.shutdown().await;
}

#[tokio::test]
async fn rubbish_on_the_wire_is_passed_over() {
    let house = House::new();
    let source = connected(&house, &["--mode", "banner"]).await;
    assert_eq!(text(&source, "fixture.rubbish", json!({})).await, "after the rubbish");
    assert_eq!(text(&source, "fixture.echo", json!({"text": "x"})).await, "x");
    source.shutdown().await;
}

#[tokio::test]
async fn floods_stall_nobody() {
    let house = House::new();
    let source = connected(&house, &[]).await;
    assert_eq!(text(&source, "fixture.shout", json!({"kib": 4096})).await, "quiet again");
    let large = call(&source, "fixture.large", json!({"kib": 10 * 1024})).await.unwrap();
    assert!(matches!(large, Value::Str(text) if text.len() == 10 * 1024 * 1024));
    source.shutdown().await;
}

#[tokio::test]
async fn a_message_without_end_ends_the_connection() {
    let house = House::new();
    let source = connected(&house, &[]).await;
    let error = call(&source, "fixture.large", json!({"kib": 65 * 1024})).await.unwrap_err();
    assert!(error.message.contains("more than 64 MiB"), "{}", error.message);
    assert_eq!(text(&source, "fixture.echo", json!({"text": "x"})).await, "x");
    source.shutdown().await;
}

#[tokio::test]
async fn a_limit_of_ones_own_holds_for_lines() {
    let house = House::new();
    let source = house.source(vec![ServerSettings { max_message_bytes: 1 << 20, ..server("fixture", &[]) }]);
    let _ = source.settle("fixture", &context()).await;
    let error = call(&source, "fixture.large", json!({"kib": 2048})).await.unwrap_err();
    assert!(error.message.contains("more than 1 MiB"), "{}", error.message);
    assert_eq!(text(&source, "fixture.echo", json!({"text": "x"})).await, "x");
    source.shutdown().await;
}

#[tokio::test]
async fn the_first_call_after_a_kill_finds_a_new_server() {
    let house = House::new();
    let source = connected(&house, &[]).await;
    for round in 0..5 {
        let processes: Vec<u64> = serde_json::from_str(&text(&source, "fixture.processes", json!({})).await).unwrap();
        signal(processes[0], Signal::KILL);
        // Without yielding to a task that could notice meanwhile.
        while is_alive(processes[0]) {
            std::hint::spin_loop();
        }
        assert_eq!(text(&source, "fixture.echo", json!({"text": "x"})).await, "x", "round {round}");
    }
    source.shutdown().await;
}

#[tokio::test]
async fn a_request_that_nobody_has_read_is_sent_anew() {
    let house = House::new();
    let source = connected(&house, &[]).await;
    let processes: Vec<u64> = serde_json::from_str(&text(&source, "fixture.processes", json!({})).await).unwrap();
    // It reads nothing any more, so the request stays in the pipe.
    signal(processes[0], Signal::STOP);
    until("it stands still", || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", processes[0])).unwrap_or_default();
        stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('T'))
    })
    .await;
    let (answer, ()) = tokio::join!(text(&source, "fixture.echo", json!({"text": "x"})), async {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        signal(processes[0], Signal::KILL);
    });
    assert_eq!(answer, "x");
    source.shutdown().await;
}

#[tokio::test]
async fn a_call_that_may_have_had_its_effect_is_not_repeated() {
    let house = House::new();
    let source = connected(&house, &["--mode", "hostile"]).await;
    let folder = tempfile::tempdir().unwrap();
    let tally = folder.path().join("tally");
    let error = call(&source, "fixture.die_after", json!({"file": tally})).await.unwrap_err();
    assert!(error.message.contains("was lost during"), "{}", error.message);
    assert_eq!(text(&source, "fixture.echo", json!({"text": "x"})).await, "x");
    assert_eq!(std::fs::read_to_string(&tally).unwrap(), "x");
    source.shutdown().await;
}

#[tokio::test]
async fn an_answer_that_cannot_be_read_fails_at_once() {
    let house = House::new();
    let source = connected(&house, &["--mode", "hostile"]).await;
    let deep = format!(r#"{{"jsonrpc":"2.0","id":ID,"result":{}{}}}"#, "[".repeat(500), "]".repeat(500));
    for line in [
        deep.as_str(),
        r#"{"jsonrpc":"2.0","id":ID,"error":"boom"}"#,
        r#"{"jsonrpc":"2.0","id":ID,"error":{"code":"x","message":5}}"#,
        r#"{"jsonrpc":"2.0","id":ID,"result":{},"error":{"code":1,"message":"both"}}"#,
    ] {
        let error = call(&source, "fixture.malformed", json!({"line": line})).await.unwrap_err();
        assert!(matches!(error.kind, ErrorKind::Upstream { .. }), "{line:.60}: {error}");
        assert!(error.message.len() < 1_000, "{line:.60}: {error}");
    }
    for (line, expected) in [
        (r#"{"jsonrpc":"2.0","id":ID,"result":5}"#, Value::Int(5)),
        (r#"{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"a\ud83d"}]}}"#, "a\u{fffd}".into()),
    ] {
        let value = call(&source, "fixture.malformed", json!({"line": line})).await;
        assert_eq!(value.unwrap(), expected, "{line}");
    }
    let error = call(&source, "fixture.verbose", json!({"kib": 1024})).await.unwrap_err();
    assert!(error.message.starts_with("fixture.verbose: no no"), "{:.80}", error.message);
    assert!(error.message.len() < 9_000, "{}", error.message.len());
    assert_eq!(text(&source, "fixture.echo", json!({"text": "x"})).await, "x");
    source.shutdown().await;
}

#[tokio::test]
async fn a_frozen_server_is_replaced() {
    let house = House::new();
    let source = house.source(vec![ServerSettings { timeout: Duration::from_secs(10), ..server("fixture", &[]) }]);
    let _ = source.settle("fixture", &context()).await;
    let mut ctx = context();
    ctx.deadline = Some(Instant::now() + Duration::from_millis(300));
    let error = crate::fixture::call_in(&source, "fixture.freeze", json!({}), &ctx).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Timeout);
    // It does not answer the ping either: a new process replaces it.
    until("a new one answers", || status(&source, "fixture").state != ServerState::Connected).await;
    assert_eq!(text(&source, "fixture.echo", json!({"text": "x"})).await, "x");
    source.shutdown().await;
}

#[tokio::test]
async fn shutdown_leaves_nobody_behind() {
    let house = House::new();
    let source = connected(&house, &[]).await;
    let processes: Vec<u64> = serde_json::from_str(&text(&source, "fixture.processes", json!({})).await).unwrap();
    assert!(processes.iter().all(|process| is_alive(*process)));
    source.shutdown().await;
    until("they are gone", || !processes.iter().any(|process| is_alive(*process))).await;
    assert_eq!(status(&source, "fixture").state, ServerState::Disconnected);
    let error = call(&source, "fixture.echo", json!({"text": "x"})).await.unwrap_err();
    assert!(matches!(error.kind, ErrorKind::Unavailable | ErrorKind::Timeout), "{error:?}");
}

#[tokio::test]
async fn a_source_that_is_dropped_leaves_nobody_behind() {
    let house = House::new();
    let source = connected(&house, &[]).await;
    let processes: Vec<u64> = serde_json::from_str(&text(&source, "fixture.processes", json!({})).await).unwrap();
    drop(source);
    until("they are gone", || !processes.iter().any(|process| is_alive(*process))).await;
}

/// Set for the process that is to be killed.
const VICTIM: &str = "PROXY_TEST_VICTIM";

#[tokio::test]
async fn a_server_does_not_outlive_us_when_we_are_killed() {
    if std::env::var_os(VICTIM).is_some() {
        let house = House::new();
        let source = connected(&house, &[]).await;
        println!("\nservers: {}", text(&source, "fixture.processes", json!({})).await);
        std::future::pending::<()>().await;
    }
    let mut victim = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args(["faults::a_server_does_not_outlive_us_when_we_are_killed", "--exact", "--nocapture"])
        .env(VICTIM, "1")
        .stdout(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(victim.stdout.take().unwrap()).lines();
    let processes: Vec<u64> = loop {
        let line = lines.next_line().await.unwrap().unwrap();
        if let Some(list) = line.strip_prefix("servers: ") {
            break serde_json::from_str(list).unwrap();
        }
    };
    assert!(is_alive(processes[0]));
    victim.kill().await.unwrap();
    until("the server is gone", || !is_alive(processes[0])).await;
    // A process that a server started and did not end is not ours to find; the test's own is ended here.
    let _ = std::process::Command::new("kill").arg(processes[1].to_string()).status();
}

#[tokio::test]
async fn a_server_that_reads_nothing_does_not_outlive_us_either() {
    let folder = tempfile::tempdir().unwrap();
    let note = std::env::var_os(VICTIM).map_or_else(|| folder.path().join("note"), std::path::PathBuf::from);
    if std::env::var_os(VICTIM).is_some() {
        let house = House::new();
        // It waits briefly first, so that its parent has registered it by then.
        let script = format!("sleep 0.3; echo $$ > {0}.new; mv {0}.new {0}; exec sleep 600", note.display());
        let _source = house.source(vec![ServerSettings::stdio("sleepy", "sh", ["-c".to_owned(), script])]);
        std::future::pending::<()>().await;
    }
    let mut victim = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args(["faults::a_server_that_reads_nothing_does_not_outlive_us_either", "--exact", "--nocapture"])
        .env(VICTIM, &note)
        .stdout(std::process::Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    until("the server has started", || note.exists()).await;
    let process: u64 = std::fs::read_to_string(&note).unwrap().trim().parse().unwrap();
    assert!(is_alive(process));
    victim.kill().await.unwrap();
    until("the server is gone", || !is_alive(process)).await;
}

#[tokio::test]
async fn a_server_gets_its_own_environment_and_not_ours() {
    let house = House::new();
    let mut settings = server("fixture", &[]);
    if let ServerKind::Stdio { env, .. } = &mut settings.kind {
        env.insert("FIXTURE_TOKEN".into(), "open sesame".into());
    }
    let source = house.source(vec![settings]);
    let _ = source.settle("fixture", &context()).await;
    let environment: Json = serde_json::from_str(&text(&source, "fixture.environment", json!({})).await).unwrap();
    assert_eq!(environment["FIXTURE_TOKEN"], "open sesame");
    assert!(environment.get("CARGO_MANIFEST_DIR").is_none(), "{environment}");
    source.shutdown().await;
}
