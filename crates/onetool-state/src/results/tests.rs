//! Stored results: files on disk, results of queries, and removal.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use chrono::TimeDelta;

use super::*;

const HOUR: Duration = Duration::from_hours(1);

fn open(folder: impl Into<PathBuf>, ttl: Duration) -> ResultStore {
    ResultStore::in_folder(folder, Retention { ttl, ..Retention::default() })
}

fn text_path(folder: &Path, handle: &str) -> PathBuf {
    folder.join(format!("result-{handle}.txt"))
}

fn meta_path(folder: &Path, handle: &str) -> PathBuf {
    folder.join(format!("result-{handle}.meta.json"))
}

fn all(_: &ResultStore) -> Query {
    Query::new(1, 100, 40_000).unwrap()
}

fn always() -> bool {
    true
}

fn make_old(folder: &Path, handle: &str) {
    let path = meta_path(folder, handle);
    let mut meta: Json = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let at: DateTime<Utc> = serde_json::from_value(meta["created_at"].clone()).unwrap();
    meta["created_at"] = serde_json::to_value(at - TimeDelta::hours(2)).unwrap();
    fs::write(&path, meta.to_string()).unwrap();
}

#[test]
fn a_result_is_two_private_files_and_a_summary() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path().join("tmp"), HOUR);
    let text = (1..=1000).map(|number| format!("line {number}")).collect::<Vec<_>>().join("\n") + "\n";
    let stored = store.store(&text, "brave.search", 3).unwrap();
    let handle = &stored.meta.handle;
    assert!(handle.len() == 32 && handle.parse::<BlobId>().is_ok(), "{handle}");
    let path = folder.path().join(format!("tmp/result-{handle}.txt"));
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let meta: serde_json::Value =
        serde_json::from_slice(&fs::read(folder.path().join(format!("tmp/result-{handle}.meta.json"))).unwrap())
            .unwrap();
    let keys: Vec<&String> = meta.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["handle", "total_lines", "size_bytes", "created_at", "tool"]);
    assert!(meta["created_at"].as_str().unwrap().ends_with('Z'));
    assert_eq!(
        stored.summary(None).to_json(),
        serde_json::json!({
            "handle": handle, "total_lines": 1000, "size_bytes": text.len(),
            "summary": "1000 lines, 8.9 kB from brave.search", "preview": ["line 1", "line 2", "line 3"],
            "query": format!("ot.result(handle='{handle}', offset=1, limit=50)"),
        })
    );
    assert_eq!(stored.summary(Some("7 matches")).get("summary"), Some(&Value::from("7 matches")));
}

#[test]
fn json_is_stored_a_line_an_element() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), HOUR);
    let rows: Vec<serde_json::Value> = (0..1000).map(|id| serde_json::json!({"id": id, "name": "row"})).collect();
    let stored = store.store_json(&serde_json::json!(rows).to_string(), "t", 2).unwrap();
    assert_eq!(stored.meta.total_lines, 1002);
    assert_eq!(stored.preview, ["[", " {\"id\":0,\"name\":\"row\"},"]);
    let back: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(text_path(folder.path(), &stored.meta.handle)).unwrap()).unwrap();
    assert_eq!(back, serde_json::json!(rows));
    let query = all(&store).searching("\"id\":77\\b", Matching::Regex);
    assert_eq!(store.query(&stored.meta.handle, &query, &always).unwrap().lines, [" {\"id\":77,\"name\":\"row\"},"]);
}

#[test]
fn lines_are_counted_with_and_without_a_last_break() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), HOUR);
    for (text, lines) in [("", 0), ("a", 1), ("a\n", 1), ("a\n\nb", 3), ("\r\n\r\n", 2)] {
        let stored = store.store(text, "t", 10).unwrap();
        assert_eq!(stored.meta.total_lines, lines, "{text:?}");
        let page = store.query(&stored.meta.handle, &all(&store), &always).unwrap();
        assert_eq!(page.lines.len() as u64, lines, "{text:?}");
        assert_eq!(stored.preview, page.lines, "{text:?}");
    }
}

#[test]
fn pieces_of_any_size_make_the_same_result() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), HOUR);
    let text = "größe\nzwei\n\ndrei";
    for size in 1..text.len() {
        let mut writer = store.writer("t", 10).unwrap();
        for piece in text.as_bytes().chunks(size) {
            writer.write_all(piece).unwrap();
        }
        let stored = writer.finish().unwrap();
        assert_eq!(stored.preview, ["größe", "zwei", "", "drei"]);
        assert_eq!(store.query(&stored.meta.handle, &all(&store), &always).unwrap().lines, stored.preview);
    }
}

#[test]
fn a_huge_line_is_clipped_everywhere() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), HOUR);
    let text = format!("{}NEEDLE{}\nlast", "ä".repeat(300_000), "z".repeat(300_000));
    let stored = store.store(&text, "t", 10).unwrap();
    assert!(stored.preview.iter().map(String::len).sum::<usize>() < 4_000, "{:?}", stored.preview);
    assert!(stored.preview[0].ends_with("bytes more]"), "{:?}", stored.preview);
    let page = store.query(&stored.meta.handle, &all(&store), &always).unwrap();
    assert_eq!(page.lines.len(), 2);
    assert!(page.lines[0].chars().count() < 2_100 && page.lines[0].starts_with("ää"));
    // A match far inside a line is shown with its surroundings.
    let query = all(&store).searching("needle", Matching::Regex);
    let page = store.query(&stored.meta.handle, &query, &always).unwrap();
    assert_eq!(page.lines.len(), 1);
    assert!(page.lines[0].contains("äNEEDLEz") && page.lines[0].chars().count() < 2_200, "{}", page.lines[0]);
    assert_eq!(page.total_lines, 2);
}

#[test]
fn a_reply_has_a_cap_and_can_be_continued() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), HOUR);
    let lines: Vec<String> = (0..300).map(|number| format!("{number} {}", "\"".repeat(100))).collect();
    let handle = store.store(&lines.join("\n"), "t", 1).unwrap().meta.handle;
    let mut read = Vec::new();
    loop {
        let page = store.query(&handle, &Query::new(read.len() as i64 + 1, 1000, 5_000).unwrap(), &always).unwrap();
        assert!(page.to_value().to_json().to_string().len() < 6_000);
        read.extend(page.lines);
        if !page.has_more {
            break;
        }
    }
    assert_eq!(read, lines);
}

#[test]
fn expired_results_go_when_a_new_one_comes() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), HOUR);
    let old = store.store("old", "t", 1).unwrap().meta.handle;
    make_old(folder.path(), &old);
    assert!(matches!(store.query(&old, &all(&store), &always), Err(ResultError::Expired { .. })));
    let forever = open(folder.path(), Duration::ZERO);
    assert!(forever.query(&old, &all(&store), &always).is_ok());
    let new = store.store("new", "t", 1).unwrap().meta.handle;
    assert!(!text_path(folder.path(), &old).exists() && !meta_path(folder.path(), &old).exists(), "its files are gone");
    let error = store.query(&old, &all(&store), &always).unwrap_err();
    assert_eq!(error.to_string(), format!("Result expired: {old}"), "but not the memory of it");
    assert!(forever.query(&old, &all(&store), &always).is_err());
    assert_eq!(store.query(&new, &all(&store), &always).unwrap().lines, ["new"]);
    // The two files of the new result, the memory of the old one, and the key.
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 4);
}

#[test]
fn a_writer_that_is_dropped_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), HOUR);
    let mut writer = store.writer("t", 1).unwrap();
    writer.push(b"half").unwrap();
    drop(writer);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_text_that_was_cut_short_is_not_the_result() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), HOUR);
    let handle = store.store("whole text", "t", 1).unwrap().meta.handle;
    fs::write(text_path(folder.path(), &handle), "whole").unwrap();
    assert!(matches!(store.meta(&handle), Err(ResultError::NotFound { .. })));
}

#[test]
fn handles_are_no_paths() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path().join("tmp"), HOUR);
    let handle = store.store("text", "t", 1).unwrap().meta.handle;
    for bad in ["../x", "/etc/passwd", "", "ABCDEF", "a\0b", &format!("../tmp/{handle}"), &"a".repeat(1000)] {
        let error = store.query(bad, &all(&store), &always).unwrap_err();
        assert!(error.to_string().starts_with("Result not found: ") && error.to_string().len() < 100, "{error}");
    }
}

#[test]
fn stores_that_share_a_folder_do_not_meet() {
    let folder = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        for server in 0..4 {
            let store = open(folder.path(), HOUR);
            scope.spawn(move || {
                for number in 0..25 {
                    let text = format!("{server}-{number}");
                    let handle = store.store(&text, "t", 1).unwrap().meta.handle;
                    assert_eq!(store.query(&handle, &all(&store), &always).unwrap().lines, [text]);
                }
            });
        }
    });
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 201);
}

#[test]
fn a_search_ends_when_nobody_waits() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), HOUR);
    let handle = store.store(&"x\n".repeat(5000), "t", 1).unwrap().meta.handle;
    for matching in [Matching::Regex, Matching::Fuzzy] {
        let query = all(&store).searching("nothing", matching);
        assert!(matches!(store.query(&handle, &query, &|| false), Err(ResultError::Cancelled)));
    }
}

#[test]
fn fuzzy_pages_follow_one_ranking() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), HOUR);
    let lines: Vec<String> = (0..50).map(|number| format!("{}config {number}", "pad ".repeat(number))).collect();
    let handle = store.store(&lines.join("\n"), "t", 1).unwrap().meta.handle;
    let page = |offset| {
        let query = Query::new(offset, 20, 40_000).unwrap().searching("config", Matching::Fuzzy);
        store.query(&handle, &query, &always).unwrap()
    };
    let pages = [page(1), page(21), page(41)];
    let numbers: Vec<usize> = pages
        .iter()
        .flat_map(|page| &page.lines)
        .map(|line| line.rsplit(' ').next().unwrap().parse().unwrap())
        .collect();
    assert_eq!(numbers, (0..50).collect::<Vec<_>>());
    assert_eq!(pages.map(|page| page.has_more), [true, true, false]);
}

#[test]
fn equal_results_are_stored_once_and_live_on() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), HOUR);
    let first = store.store("the same", "t", 1).unwrap().meta;
    make_old(folder.path(), &first.handle);
    let second = open(folder.path(), HOUR).store("the same", "t", 1).unwrap().meta;
    assert_eq!(first.handle, second.handle);
    assert_eq!(store.query(&first.handle, &all(&store), &always).unwrap().lines, ["the same"]);
    let own = store.scoped("somebody");
    let apart = own.store("the same", "t", 1).unwrap().meta.handle;
    assert_ne!(apart, first.handle, "another's result is another result");
    assert!(matches!(store.meta(&apart), Err(ResultError::NotFound { .. })), "and nobody else's");
    assert!(matches!(own.meta(&first.handle), Err(ResultError::NotFound { .. })));
    assert_eq!(own.meta(&apart).unwrap().total_lines, 1);
}

#[test]
fn beyond_its_size_the_store_lets_the_oldest_go() {
    let folder = tempfile::tempdir().unwrap();
    let store = ResultStore::in_folder(folder.path(), Retention { max_bytes: 1000, ttl: HOUR, ..Retention::default() });
    let first = store.store(&"a".repeat(600), "t", 1).unwrap().meta.handle;
    make_old(folder.path(), &first);
    let forever = Retention { max_bytes: 1000, ttl: Duration::ZERO, ..Retention::default() };
    let store = ResultStore::in_folder(folder.path(), forever);
    let second = store.store(&"b".repeat(600), "t", 1).unwrap().meta.handle;
    assert_eq!(store.clean_up(), 1);
    assert!(store.meta(&first).is_err() && store.meta(&second).is_ok());
    let error = store.store(&"c".repeat(2000), "t", 1).unwrap_err();
    assert!(error.to_string().contains("larger than 1000 bytes"), "{error}");
}

#[tokio::test]
async fn what_a_conversation_trims_is_read_by_its_handle() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), HOUR);
    let cache = onetool_sdk::OutputCache::new(Arc::new(store.clone()), "", onetool_sdk::Budget::default());
    let reference = cache.put(&onetool_sdk::MessageContent::Text("one\ntwo\n".to_owned())).await.unwrap();
    let page = store.query(reference.as_str(), &all(&store), &always).unwrap();
    assert_eq!((page.lines, page.total_lines), (vec!["one".to_owned(), "two".to_owned()], 2));
    let handle = store.store("stored by a run", "t", 1).unwrap().meta.handle;
    let restored = cache.restore(&handle.parse().unwrap()).await.unwrap();
    assert_eq!(restored, onetool_sdk::MessageContent::Text("stored by a run".to_owned()));
}
