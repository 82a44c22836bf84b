//! `ot.result`, and the spans that calls leave.

use std::fmt::{self, Write as _};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use onetool_store::results::ResultStore;
use parking_lot::Mutex;
use serde_json::json;
use tempfile::tempdir;
use tracing::field::{Field, Visit};
use tracing::instrument::WithSubscriber as _;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use super::fixture::toolbox;

fn stored(folder: &Path, text: &str) -> String {
    let store = ResultStore::new(folder.join(".onetool/tmp"), Duration::from_hours(1));
    store.store(text, "brave.search", 10).unwrap().meta.handle
}

fn numbered(lines: usize) -> String {
    let lines: Vec<String> = (1..=lines).map(|number| format!("line {number}")).collect();
    lines.join("\n")
}

#[tokio::test]
async fn the_first_hundred_lines_are_the_default() {
    let folder = tempdir().unwrap();
    let handle = stored(folder.path(), &numbered(500));
    let page = toolbox(folder.path()).json("result", json!({"handle": handle})).await;
    let lines: Vec<String> = (1..=100).map(|number| format!("line {number}")).collect();
    assert_eq!(page, json!({"lines": lines, "total_lines": 500, "returned": 100, "offset": 1, "has_more": true}));
}

#[tokio::test]
async fn offset_and_limit_count_from_one() {
    let folder = tempdir().unwrap();
    let handle = stored(folder.path(), &numbered(500));
    let toolbox = toolbox(folder.path());
    let page = toolbox.json("result", json!({"handle": handle, "offset": 101, "limit": 50})).await;
    assert_eq!(page["lines"][0], "line 101");
    assert_eq!(page["lines"][49], "line 150");
    assert_eq!(page["returned"], 50);
    let end = toolbox.json("result", json!({"handle": handle, "offset": 451, "limit": 100})).await;
    assert_eq!((&end["returned"], &end["has_more"]), (&json!(50), &json!(false)));
    let beyond = toolbox.json("result", json!({"handle": handle, "offset": 501})).await;
    assert_eq!((&beyond["lines"], &beyond["has_more"]), (&json!([]), &json!(false)));
}

#[tokio::test]
async fn a_search_filters_before_offset_and_limit() {
    let folder = tempdir().unwrap();
    let text: String =
        (1..=50).map(|n| if n % 5 == 0 { format!("ERROR {n}\n") } else { format!("fine {n}\n") }).collect();
    let handle = stored(folder.path(), &text);
    let toolbox = toolbox(folder.path());
    let page = toolbox.json("result", json!({"handle": handle, "search": "error", "offset": 2, "limit": 3})).await;
    assert_eq!(
        page,
        json!({"lines": ["ERROR 10", "ERROR 15", "ERROR 20"], "total_lines": 50, "returned": 3, "offset": 2,
               "has_more": true})
    );
    let error = toolbox.try_call("result", json!({"handle": handle, "search": "("})).await.unwrap_err();
    assert_eq!(error.exception(), "ValueError");
}

#[tokio::test]
async fn a_fuzzy_search_shows_the_best_first() {
    let folder = tempdir().unwrap();
    let handle = stored(folder.path(), "nothing here\nthe confgi was lost\nreading configuration\nconfig\n");
    let page =
        toolbox(folder.path()).json("result", json!({"handle": handle, "search": "config", "fuzzy": true})).await;
    assert_eq!(page["lines"], json!(["config", "reading configuration", "the confgi was lost"]));
}

#[tokio::test]
async fn a_handle_that_is_not_there_is_said() {
    let folder = tempdir().unwrap();
    let toolbox = toolbox(folder.path());
    for handle in ["nonexistent", "abc123", "../../etc/passwd", ""] {
        assert_eq!(toolbox.text("result", json!({"handle": handle})).await, format!("Result not found: {handle}"));
    }
}

#[tokio::test]
async fn an_expired_result_is_said() {
    let folder = tempdir().unwrap();
    let handle = stored(folder.path(), "text");
    let meta = folder.path().join(format!(".onetool/tmp/result-{handle}.meta.json"));
    let mut json: serde_json::Value = serde_json::from_slice(&fs::read(&meta).unwrap()).unwrap();
    json["created_at"] = json!("2020-01-01T00:00:00Z");
    fs::write(&meta, json.to_string()).unwrap();
    assert_eq!(
        toolbox(folder.path()).text("result", json!({"handle": handle})).await,
        format!("Result expired: {handle}")
    );
}

#[tokio::test]
async fn numbers_below_one_are_value_errors() {
    let folder = tempdir().unwrap();
    let toolbox = toolbox(folder.path());
    let error = toolbox.try_call("result", json!({"handle": "abc123", "offset": 0})).await.unwrap_err();
    assert_eq!(error.to_string(), "ValueError: offset must be >= 1 (1-indexed), got 0");
    let error = toolbox.try_call("result", json!({"handle": "abc123", "limit": 0})).await.unwrap_err();
    assert_eq!(error.to_string(), "ValueError: limit must be >= 1, got 0");
}

#[tokio::test]
async fn a_reply_is_never_so_large_that_it_is_stored_again() {
    let folder = tempdir().unwrap();
    let handle = stored(folder.path(), &format!("{}\n", "\"x".repeat(5_000)).repeat(200));
    let toolbox = toolbox(folder.path());
    let page = toolbox.json("result", json!({"handle": handle, "limit": 1000})).await;
    assert!(page.to_string().len() <= 50_000, "{}", page.to_string().len());
    assert_eq!(page["has_more"], true);
    assert!(page["returned"].as_u64().unwrap() > 5);
}

/// Remembers the names and fields of spans.
#[derive(Clone, Default)]
struct Spans {
    seen: Arc<Mutex<Vec<String>>>,
    next: Arc<AtomicU64>,
}

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = write!(self.0, " {field}={value:?}");
    }
}

impl Subscriber for Spans {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut fields = Fields(span.metadata().name().to_owned());
        span.record(&mut fields);
        self.seen.lock().push(fields.0);
        Id::from_u64(self.next.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields("event".to_owned());
        event.record(&mut fields);
        self.seen.lock().push(fields.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn calls_leave_spans_with_their_fields() {
    let folder = tempdir().unwrap();
    let handle = stored(folder.path(), "text");
    let toolbox = toolbox(folder.path());
    let spans = Spans::default();
    let arguments = json!({"handle": handle, "offset": 1, "limit": 5, "search": "t"});
    toolbox.call("result", arguments).with_subscriber(spans.clone()).await;
    toolbox.call("health", json!({})).with_subscriber(spans.clone()).await;
    let seen = spans.seen.lock().clone();
    assert!(seen.contains(&format!("ot.result handle=\"{handle}\" offset=1 limit=5 search=\"t\"")), "{seen:#?}");
    assert!(seen.contains(&"ot.health".to_owned()), "{seen:#?}");
    assert!(seen.iter().any(|line| line.contains("duration_ms=") && line.contains("outcome=\"ok\"")), "{seen:#?}");
}
