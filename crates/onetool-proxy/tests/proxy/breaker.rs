//! Servers that hang: detected once, then calls do not wait for them, while the background task keeps trying.

use std::path::Path;
use std::time::{Duration, Instant};

use onetool_proxy::{ProxySource, ServerSettings, ServerState};
use onetool_sdk::{ErrorKind, ToolSource as _};
use serde_json::json;

use crate::fixture::{House, call, call_in, context, server, status, text, until};

/// A server that answers nothing until a file exists, and counts its starts in another.
fn hanging(folder: &Path, retry_after: Duration) -> ServerSettings {
    let (tally, until) = (folder.join("tally"), folder.join("until"));
    let arguments = ["--tally", tally.to_str().unwrap(), "--until", until.to_str().unwrap()];
    ServerSettings { timeout: Duration::from_millis(1500), retry_after, ..server("fixture", &arguments) }
}

fn starts(folder: &Path) -> usize {
    std::fs::read_to_string(folder.join("tally")).unwrap_or_default().len()
}

/// A source with a server whose tools are known, and which hangs.
async fn hung(house: &House, folder: &Path, retry_after: Duration) -> ProxySource {
    std::fs::write(folder.join("until"), "").unwrap();
    let source = house.source(vec![hanging(folder, retry_after)]);
    source.settle("fixture", &context()).await.unwrap();
    source.shutdown().await;
    std::fs::remove_file(folder.join("until")).unwrap();
    house.source(vec![hanging(folder, retry_after)])
}

#[tokio::test]
async fn after_a_hang_calls_fail_at_once_with_the_reason_and_the_next_try() {
    let (house, folder) = (House::new(), tempfile::tempdir().unwrap());
    let source = hung(&house, folder.path(), Duration::from_mins(1)).await;
    let first = call(&source, "fixture.echo", json!({"text": "x"})).await.unwrap_err();
    assert!(matches!(first.kind, ErrorKind::Timeout | ErrorKind::Unavailable), "{first:?}");
    until("it is given up", || status(&source, "fixture").state == ServerState::Disconnected).await;
    let before = starts(folder.path());
    for _ in 0..50 {
        let mut ctx = context();
        // Even with no time to wait, the error gives the reason.
        ctx.deadline = Some(Instant::now());
        let error = call_in(&source, "fixture.echo", json!({"text": "x"}), &ctx).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unavailable, "{error}");
        assert!(error.message.contains("not ready within 1.5 s (no answer to initialize)"), "{error}");
        assert!(error.message.contains("the next try is due in 60 s") || error.message.contains("due in 5"), "{error}");
    }
    assert_eq!(starts(folder.path()), before, "a call started it");
    let health = source.health();
    assert!(health[0].message.contains("the next try is due in"), "{health:?}");
    assert!(status(&source, "fixture").hung);
    source.shutdown().await;
}

#[tokio::test]
async fn the_next_try_is_made_in_the_background_and_closes_the_circuit() {
    let (house, folder) = (House::new(), tempfile::tempdir().unwrap());
    let source = hung(&house, folder.path(), Duration::from_millis(300)).await;
    until("it is given up", || status(&source, "fixture").hung).await;
    std::fs::write(folder.path().join("until"), "").unwrap();
    // Without any call.
    until("it is found again", || status(&source, "fixture").state == ServerState::Connected).await;
    assert!(!status(&source, "fixture").hung);
    assert_eq!(text(&source, "fixture.echo", json!({"text": "x"})).await, "x");
    source.shutdown().await;
}

#[tokio::test]
async fn while_it_is_tried_again_calls_do_not_wait_for_it() {
    let (house, folder) = (House::new(), tempfile::tempdir().unwrap());
    let mut settings = hanging(folder.path(), Duration::from_millis(10));
    settings.timeout = Duration::from_secs(3);
    let source = house.source(vec![settings]);
    let trying = |source: &ProxySource| {
        let status = status(source, "fixture");
        status.hung && status.wait.is_some()
    };
    until("it is tried for the second time", || trying(&source)).await;
    let error = source.settle("fixture", &context()).await.unwrap_err();
    assert!(error.message.contains("it is being tried again now, for at most"), "{error}");
    let wait = status(&source, "fixture").wait.unwrap();
    assert!(["answer to initialize", "answer to server/discover"].contains(&wait.what.as_str()), "{wait:?}");
    assert_eq!(wait.limit, Duration::from_secs(3));
    source.shutdown().await;
}

#[tokio::test]
async fn whoever_insists_gets_a_try_now() {
    let (house, folder) = (House::new(), tempfile::tempdir().unwrap());
    let source = hung(&house, folder.path(), Duration::from_hours(1)).await;
    until("it is given up", || status(&source, "fixture").state == ServerState::Disconnected).await;
    std::fs::write(folder.path().join("until"), "").unwrap();
    assert!(source.settle("fixture", &context()).await.is_err());
    source.try_now("fixture", &context()).await.unwrap();
    assert_eq!(status(&source, "fixture").state, ServerState::Connected);
    source.shutdown().await;
}

#[tokio::test]
async fn the_next_process_knows_that_it_hung() {
    let (house, folder) = (House::new(), tempfile::tempdir().unwrap());
    let source = house.source(vec![hanging(folder.path(), Duration::from_mins(1))]);
    assert!(!status(&source, "fixture").hung);
    until("it is given up", || status(&source, "fixture").hung).await;
    source.shutdown().await;
    let source = house.source(vec![hanging(folder.path(), Duration::from_mins(1))]);
    assert!(status(&source, "fixture").hung);
    std::fs::write(folder.path().join("until"), "").unwrap();
    // A call waits for the first attempt of this process.
    source.settle("fixture", &context()).await.unwrap();
    assert!(!status(&source, "fixture").hung);
    source.shutdown().await;
    let source = house.source(vec![hanging(folder.path(), Duration::from_mins(1))]);
    assert!(!status(&source, "fixture").hung);
    source.shutdown().await;
}

#[tokio::test]
async fn a_server_that_stands_still_again_and_again_is_left_alone() {
    let house = House::new();
    let source = house.source(vec![ServerSettings {
        timeout: Duration::from_secs(10),
        retry_after: Duration::from_mins(5),
        ..server("fixture", &[])
    }]);
    for _ in 0..2 {
        source.settle("fixture", &context()).await.unwrap();
        let mut ctx = context();
        ctx.deadline = Some(Instant::now() + Duration::from_millis(300));
        call_in(&source, "fixture.freeze", json!({}), &ctx).await.unwrap_err();
        until("it is found out", || status(&source, "fixture").state != ServerState::Connected).await;
    }
    until("it is left alone", || status(&source, "fixture").hung).await;
    let error = call(&source, "fixture.echo", json!({"text": "x"})).await.unwrap_err();
    assert!(error.message.contains("the next try is due in"), "{error}");
    source.shutdown().await;
}
