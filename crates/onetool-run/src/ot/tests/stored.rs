//! `ot.result`.

use std::path::Path;

use onetool_state::interface::Retention;
use onetool_state::results::ResultStore;
use serde_json::json;
use tempfile::tempdir;

use super::fixture::toolbox;

fn stored(folder: &Path, text: &str) -> String {
    let store = ResultStore::in_folder(folder.join(".onetool/tmp"), Retention::default());
    store.store(text, "brave.search", 10).unwrap().meta.handle
}

#[tokio::test]
async fn behind_the_last_line_there_is_nothing() {
    let folder = tempdir().unwrap();
    let handle = stored(folder.path(), "one\ntwo");
    let beyond = toolbox(folder.path()).json("result", json!({"handle": handle, "offset": 3})).await;
    assert_eq!(beyond, json!({"lines": [], "total_lines": 2, "returned": 0, "offset": 3, "has_more": false}));
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
async fn a_reply_is_never_so_large_that_it_is_stored_again() {
    let folder = tempdir().unwrap();
    let handle = stored(folder.path(), &format!("{}\n", "\"x".repeat(5_000)).repeat(200));
    let toolbox = toolbox(folder.path());
    let page = toolbox.call("result", json!({"handle": handle, "limit": 1000})).await;
    assert_eq!(page.to_json()["returned"], 200, "code gets all the lines that it asks for");
    let state = crate::ot::Toolbox::state(&*toolbox);
    let shown = crate::ot::shown_result(page, &state.output).to_json();
    assert!(shown.to_string().len() <= 50_000, "{}", shown.to_string().len());
    assert_eq!(shown["has_more"], true);
    assert!(shown["returned"].as_u64().unwrap() > 1);
}
