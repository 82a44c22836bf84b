//! A server that is killed in the middle of its work.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use reqwest::Method;
use serde_json::{Value as Json, json};

use super::{Fixture, tool_path};

/// Number of concurrent writers.
const WRITERS: usize = 8;
/// The server is killed after this number of acknowledged writes.
const ENOUGH: usize = 40;

#[tokio::test]
async fn what_was_acknowledged_survives_a_kill_and_nothing_is_half_written() {
    let f = Fixture::start().await;
    let bundle = f.bundle("load").await;
    let acknowledged: Arc<Mutex<Vec<(String, Json)>>> = Arc::default();
    let number = Arc::new(AtomicUsize::new(0));
    let enough = Arc::new(tokio::sync::Notify::new());
    let mut writers = Vec::new();
    for _ in 0..WRITERS {
        let (acknowledged, number, enough) = (acknowledged.clone(), number.clone(), enough.clone());
        let (client, base, bundle, body) =
            (onetool_outbound::client_builder().build().unwrap(), f.server.base.clone(), bundle.clone(), f.get("/x"));
        writers.push(tokio::spawn(async move {
            loop {
                let path = tool_path(&bundle, &format!("t-{}", number.fetch_add(1, Ordering::Relaxed)), "v1");
                let put = client.request(Method::PUT, format!("{base}{path}")).json(&body);
                // The server is gone if there is no complete answer.
                let Ok(response) = put.send().await else { return };
                assert_eq!(response.status(), 201);
                let Ok(stored) = response.json::<Json>().await else { return };
                let mut all = acknowledged.lock();
                all.push((path, stored));
                if all.len() == ENOUGH {
                    enough.notify_one();
                }
            }
        }));
    }
    enough.notified().await;
    let Fixture { project, upstream: _upstream, server } = f;
    server.kill().await;
    for writer in writers {
        writer.await.unwrap();
    }

    let server = project.serve_http().await;
    let all = std::mem::take(&mut *acknowledged.lock());
    assert!(all.len() >= ENOUGH);
    for (path, stored) in &all {
        let (status, found) = server.get(path).await;
        assert_eq!((status, &found["toolID"]), (200, &stored["toolID"]), "{path}");
    }
    let health = server.mcp().await.ok("str(ot.health())").await;
    assert!(!health.contains("bundles/"), "no file is reported: {health}");
    let id = bundle.rsplit('/').next().unwrap();
    for entry in std::fs::read_dir(project.path().join(".onetool/bundles").join(id)).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "json") {
            let text = std::fs::read_to_string(&path).unwrap();
            assert!(serde_json::from_str::<Json>(&text).is_ok(), "{}", path.display());
        }
    }
    assert_eq!(
        server
            .put(&tool_path(&bundle, "after", "v1"), json!({"type": "native", "impl": {"function": "file.list"}}))
            .await
            .0,
        201
    );
}
