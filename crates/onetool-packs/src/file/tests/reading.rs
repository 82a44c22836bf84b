//! `file.read` and `file.list`, and what every function that opens a file refuses.

use onetool_sdk::{ErrorKind, ToolContext};
use serde_json::json;

use super::{Desk, path};

#[tokio::test]
async fn read_numbers_lines_and_tells_the_rest() {
    let desk = Desk::new();
    desk.put("a.txt", "one\r\ntwo\nthree\nfour");
    let hash = blake3::hash(b"one\r\ntwo\nthree\nfour").to_hex().chars().take(32).collect::<String>();
    assert_eq!(
        desk.call("read", json!({"path": "a.txt", "offset": 1, "limit": 2})).await,
        json!(format!(
            "[a.txt: lines 1-2 of 4, 19 bytes, hash {hash}]\n     1\tone\n     2\ttwo\n[2 more lines; continue with offset=3]\n"
        ))
    );
    assert_eq!(
        desk.call("read", json!({"path": "./a.txt", "offset": 4})).await,
        json!(format!("[a.txt: lines 4-4 of 4, 19 bytes, hash {hash}]\n     4\tfour\n"))
    );
    assert_eq!(
        desk.call("read", json!({"path": "a.txt", "line_numbers": false, "offset": 1, "limit": 2})).await,
        json!("one\r\ntwo\n")
    );
    let (exception, text) = desk.fail("read", json!({"path": "a.txt", "offset": 9})).await;
    assert_eq!(exception, "ValueError");
    assert!(text.contains("has 4 lines"), "{text}");
    assert_eq!(desk.fail("read", json!({"path": "a.txt", "offset": 0})).await.0, "ValueError");
    assert_eq!(desk.fail("read", json!({"path": "a.txt", "color": 0})).await.0, "TypeError");
}

#[tokio::test]
async fn read_clips_long_lines_and_caps_the_answer() {
    let desk = Desk::with(|settings| {
        settings.max_read_bytes = 200;
        settings.max_line_chars = 10;
    });
    desk.put("long.txt", format!("\u{feff}{}\n", "é".repeat(100)));
    let text = desk.call("read", path("long.txt")).await;
    assert!(text.as_str().unwrap().contains("     1\téééééééééé… [clipped, the line has 200 bytes]\n"), "{text}");
    desk.put("many.txt", "abcdefghi\n".repeat(100));
    let text = desk.call("read", path("many.txt")).await;
    assert!(text.as_str().unwrap().contains("more lines; continue with offset="), "{text}");
    assert!(text.as_str().unwrap().len() < 500, "{text}");
    desk.put("empty.txt", "");
    assert!(desk.call("read", path("empty.txt")).await.as_str().unwrap().starts_with("[empty.txt: empty, 0 bytes"));
}

#[tokio::test]
async fn what_is_not_text_is_refused_with_a_reason() {
    let desk = Desk::new();
    desk.put("zero.bin", b"ab\0cd").put("latin.txt", b"one\ncaf\xe9\n").put("wide.txt", b"\xff\xfea\0");
    for (file, reason) in [("zero.bin", "zero bytes"), ("latin.txt", "line 2"), ("wide.txt", "UTF-16")] {
        let (exception, text) = desk.fail("read", path(file)).await;
        assert_eq!(exception, "ValueError");
        assert!(text.contains(reason), "{text}");
    }
    desk.put("dir/x", "");
    assert_eq!(desk.fail("read", path("dir")).await.0, "IsADirectoryError");
    assert_eq!(desk.fail("list", path("zero.bin")).await.0, "NotADirectoryError");
    assert_eq!(desk.fail("read", path("zero.bin/x")).await.0, "NotADirectoryError");
}

#[tokio::test]
async fn a_missing_file_suggests_the_nearest_names() {
    let desk = Desk::new();
    desk.put("src/settings.rs", "").put("src/other.rs", "");
    let (exception, text) = desk.fail("read", path("src/setings.rs")).await;
    assert_eq!(exception, "FileNotFoundError");
    assert!(text.contains("did you mean src/settings.rs?"), "{text}");
    let (_, text) = desk.fail("read", path("scr/settings.rs")).await;
    assert!(text.contains("did you mean src?"), "{text}");
}

#[cfg(unix)]
#[tokio::test]
async fn nothing_leads_outside_the_roots() {
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), "s").unwrap();
    let desk = Desk::new();
    desk.put("in/a.txt", "a\n");
    std::os::unix::fs::symlink(outside.path(), desk.path().join("out")).unwrap();
    std::os::unix::fs::symlink(outside.path().join("secret"), desk.path().join("leak")).unwrap();
    std::os::unix::fs::symlink("in/a.txt", desk.path().join("fine")).unwrap();
    let absolute = outside.path().join("secret").display().to_string();
    let name = outside.path().file_name().unwrap().to_str().unwrap();
    for escape in ["out/secret", "leak", "../x", "in/../../x", &format!("../{name}/secret"), &absolute, "/etc/passwd"] {
        let (exception, text) = desk.fail("read", path(escape)).await;
        assert_eq!(exception, "PermissionError", "{escape}: {text}");
    }
    assert_eq!(desk.fail("list", path("out")).await.0, "PermissionError");
    assert!(desk.call("read", path("fine")).await.as_str().unwrap().starts_with("[in/a.txt:"));
    assert!(desk.call("read", path("in/../in/a.txt")).await.as_str().unwrap().starts_with("[in/a.txt:"));
    let inside = desk.path().join("in/a.txt").display().to_string();
    assert!(desk.call("read", path(&inside)).await.as_str().unwrap().starts_with("[in/a.txt:"));
    assert_eq!(desk.fail("read", path("a\0b")).await.0, "ValueError");
    assert_eq!(desk.fail("read", path("")).await.0, "ValueError");
}

#[cfg(unix)]
#[tokio::test]
async fn a_pipe_is_refused_not_waited_for() {
    let desk = Desk::new();
    let made = std::process::Command::new("mkfifo").arg(desk.path().join("pipe")).status().unwrap();
    assert!(made.success());
    let (_, text) = desk.fail("read", path("pipe")).await;
    assert!(text.contains("not a regular file"), "{text}");
}

#[tokio::test]
async fn secrets_stay_secret() {
    let desk = Desk::new();
    desk.put(".onetool/secrets.yaml", "token: abc\n");
    assert_eq!(desk.fail("read", path(".onetool/secrets.yaml")).await.0, "PermissionError");
    assert_eq!(desk.fail("read", path(".onetool/../.onetool/./secrets.yaml")).await.0, "PermissionError");
}

#[tokio::test]
async fn list_shows_folders_first_and_says_when_it_is_cut() {
    let desk = Desk::new();
    desk.put("b.txt", "12345").put("a/deep/x.txt", "1").put(".hidden", "");
    assert_eq!(
        desk.call("list", json!({})).await,
        json!({"path": ".", "entries": [
            {"path": "a", "type": "folder"},
            {"path": ".hidden", "type": "file", "size": 0},
            {"path": "b.txt", "type": "file", "size": 5},
        ], "truncated": false})
    );
    assert_eq!(
        desk.call("list", json!({"path": "a", "depth": 3, "hidden": false})).await["entries"],
        json!([{"path": "a/deep", "type": "folder"}, {"path": "a/deep/x.txt", "type": "file", "size": 1}])
    );
    let cut = desk.call("list", json!({"limit": 1})).await;
    assert_eq!((cut["entries"].as_array().unwrap().len(), cut["truncated"].as_bool()), (1, Some(true)));
}

#[tokio::test]
async fn a_cancelled_call_does_nothing() {
    let desk = Desk::new();
    desk.put("a.txt", "a");
    let ctx = ToolContext::default();
    ctx.call.cancel.cancel();
    let error = desk.call_in("read", path("a.txt"), ctx).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Cancelled);
}

/// A link that replaces a folder after the rules were checked.
#[cfg(unix)]
#[test]
fn a_link_in_the_place_of_a_folder_leads_nowhere() {
    use cap_std::ambient_authority;
    use cap_std::fs::Dir;

    use crate::file::place::open_at;

    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("real/sub")).unwrap();
    std::fs::write(folder.path().join("real/sub/a.txt"), "a").unwrap();
    std::os::unix::fs::symlink("real", folder.path().join("link")).unwrap();
    std::os::unix::fs::symlink("sub/a.txt", folder.path().join("real/other.txt")).unwrap();
    let dir = Dir::open_ambient_dir(folder.path(), ambient_authority()).unwrap();
    let opens = |path: &str| open_at(&dir, std::path::Path::new(path)).is_ok();
    for path in ["real/sub/a.txt", "real/sub", "real", "."] {
        assert!(opens(path), "{path}");
    }
    for path in ["link/sub/a.txt", "link/sub", "link", "real/other.txt", "real/../real/sub/a.txt", "/etc/passwd", ""] {
        assert!(!opens(path), "{path}");
    }
}
