//! `file.write`, `file.delete` and `file.info`: what they change, keep, report and refuse.

use serde_json::json;

use super::{Desk, path};

#[tokio::test]
async fn write_creates_folders_and_tells_what_changed() {
    let desk = Desk::new();
    let made = desk.call("write", json!({"path": "new/deep/a.txt", "content": "one\ntwo\n"})).await;
    assert_eq!((made["created"].as_bool(), made["changed"].as_bool()), (Some(true), Some(true)));
    assert_eq!(made["diff"], "--- /dev/null\n+++ b/new/deep/a.txt\n@@ -0,0 +1,2 @@\n+one\n+two\n");
    assert_eq!(desk.text("new/deep/a.txt"), "one\ntwo\n");
    let hash = made["hash"].as_str().unwrap();
    assert_eq!(desk.call("info", path("new/deep/a.txt")).await["hash"], hash);

    let again = json!({"path": "new/deep/a.txt", "content": "one\n2\n", "expected_hash": hash});
    let changed = desk.call("write", again.clone()).await;
    assert_eq!((changed["added"].as_u64(), changed["removed"].as_u64()), (Some(1), Some(1)));
    let error = desk.try_call("write", again).await.unwrap_err();
    assert_eq!(error.kind, onetool_sdk::ErrorKind::Conflict);
    let taken = json!({"path": "new/deep/a.txt", "content": "", "expected_hash": "missing"});
    assert!(desk.fail("write", taken).await.1.contains("exists already"));
    let gone = json!({"path": "other.txt", "content": "", "expected_hash": hash});
    assert!(desk.fail("write", gone).await.1.contains("does not exist"));
    assert_eq!(desk.text("new/deep/a.txt"), "one\n2\n");
    let same = desk.call("write", json!({"path": "new/deep/a.txt", "content": "one\n2\n"})).await;
    assert_eq!((same["changed"].as_bool(), same["diff"].as_str()), (Some(false), Some("")));
    assert_eq!(std::fs::read_dir(desk.path().join("new/deep")).unwrap().count(), 1, "no temporary file is left");
}

#[tokio::test]
async fn write_keeps_what_the_caller_does_not_see() {
    let desk = Desk::new();
    desk.put("a.txt", "\u{feff}one\r\ntwo\r\n");
    desk.call("write", json!({"path": "a.txt", "content": "one\n2"})).await;
    assert_eq!(desk.text("a.txt"), "\u{feff}one\r\n2");
    desk.call("write", json!({"path": "a.txt", "content": "one\n2\n", "line_endings": "lf"})).await;
    assert_eq!(desk.text("a.txt"), "\u{feff}one\n2\n");
    desk.put("mixed.txt", "a\r\nb\n");
    desk.call("write", json!({"path": "mixed.txt", "content": "x\ny\r\n"})).await;
    assert_eq!(desk.text("mixed.txt"), "x\ny\r\n");
}

#[cfg(unix)]
#[tokio::test]
async fn write_keeps_mode_bits_and_writes_through_links() {
    use std::os::unix::fs::PermissionsExt as _;
    let desk = Desk::new();
    desk.put("run.sh", "#!/bin/sh\n");
    std::fs::set_permissions(desk.path().join("run.sh"), std::fs::Permissions::from_mode(0o751)).unwrap();
    std::os::unix::fs::symlink("run.sh", desk.path().join("link")).unwrap();
    desk.call("write", json!({"path": "link", "content": "#!/bin/sh\ntrue\n"})).await;
    assert_eq!(desk.text("run.sh"), "#!/bin/sh\ntrue\n");
    assert!(desk.path().join("link").is_symlink());
    assert_eq!(std::fs::metadata(desk.path().join("run.sh")).unwrap().permissions().mode() & 0o7777, 0o751);
    assert_eq!(desk.call("info", path("run.sh")).await["mode"], "0751");
    std::fs::set_permissions(desk.path().join("run.sh"), std::fs::Permissions::from_mode(0o444)).unwrap();
    assert_eq!(desk.fail("write", json!({"path": "run.sh", "content": ""})).await.0, "PermissionError");
}

#[cfg(unix)]
#[tokio::test]
async fn nothing_is_written_outside_or_where_it_would_run() {
    let outside = tempfile::tempdir().unwrap();
    let desk = Desk::new();
    desk.put(".git/config", "x").put("dir/a", "").put("bin", b"\0\x01");
    std::os::unix::fs::symlink(outside.path(), desk.path().join("out")).unwrap();
    std::os::unix::fs::symlink(outside.path().join("new"), desk.path().join("dangling")).unwrap();
    std::os::unix::fs::symlink(".git", desk.path().join("git")).unwrap();
    for target in [
        "out/x",
        "../x",
        "/tmp/onetool-x",
        "dir/../../x",
        "out/../x/../../y",
        ".git/config",
        "git/hooks/pre-commit",
        ".git/hooks/post-checkout",
        ".onetool/tools/evil.py",
        ".GIT/config",
    ] {
        let (exception, text) = desk.fail("write", json!({"path": target, "content": "x"})).await;
        assert_eq!(exception, "PermissionError", "{target}: {text}");
    }
    assert_eq!(desk.fail("write", json!({"path": "dangling", "content": "x"})).await.0, "PermissionError");
    assert_eq!(desk.fail("write", json!({"path": "dir", "content": "x"})).await.0, "IsADirectoryError");
    assert_eq!(desk.fail("write", json!({"path": ".", "content": "x"})).await.0, "IsADirectoryError");
    assert_eq!(desk.fail("write", json!({"path": "new/", "content": "x"})).await.0, "IsADirectoryError");
    assert_eq!(desk.fail("write", json!({"path": "dir/a/b", "content": "x"})).await.0, "NotADirectoryError");
    assert_eq!(desk.fail("write", json!({"path": "bin", "content": "x"})).await.0, "ValueError");
    assert_eq!(desk.fail("write", json!({"path": "zero", "content": "a\0"})).await.0, "ValueError");
    assert_eq!(desk.bytes("bin"), b"\0\x01");
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
    assert_eq!(desk.text(".git/config"), "x");
}

#[tokio::test]
async fn delete_moves_to_the_trash() {
    let desk = Desk::new();
    desk.put("a/b.txt", "kept").put("a/c.txt", "").put(".git/config", "x");
    let gone = desk.call("delete", path("a/b.txt")).await;
    let trash = gone["trash"].as_str().unwrap();
    assert!(trash.starts_with(".onetool/trash/") && trash.ends_with("/a/b.txt"), "{trash}");
    assert_eq!(desk.text(trash), "kept");
    assert!(!desk.path().join("a/b.txt").exists());
    assert_eq!(desk.text(".onetool/trash/.gitignore"), "*\n");
    assert!(desk.fail("delete", path("a")).await.1.contains("recursive=True"));
    desk.call("delete", json!({"path": "a", "recursive": true})).await;
    assert!(!desk.path().join("a").exists());
    for target in [".", ".git", ".git/config", ".onetool", ".onetool/trash", "..", "/etc/passwd"] {
        let (exception, text) = desk.fail("delete", json!({"path": target, "recursive": true})).await;
        assert_eq!(exception, "PermissionError", "{target}: {text}");
    }
    assert_eq!(desk.fail("delete", path("a/b.txt")).await.0, "FileNotFoundError");
}

#[cfg(unix)]
#[tokio::test]
async fn delete_takes_a_link_not_what_it_leads_to() {
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("x"), "x").unwrap();
    let desk = Desk::new();
    std::os::unix::fs::symlink(outside.path(), desk.path().join("out")).unwrap();
    assert_eq!(desk.call("info", path("out")).await["leads_to"], outside.path().display().to_string());
    assert_eq!(desk.call("delete", path("out")).await["type"], "link");
    assert!(outside.path().join("x").exists());
    assert!(!desk.path().join("out").is_symlink());
}

#[tokio::test]
async fn info_describes_text_and_binary() {
    let desk = Desk::new();
    desk.put("crlf.txt", "\u{feff}a\r\nb").put("bin", b"\0").put("mixed", "a\r\nb\n").put("dir/x", "");
    let info = desk.call("info", path("crlf.txt")).await;
    assert_eq!(info["lines"], 2);
    assert_eq!(
        (&info["line_endings"], &info["bom"], &info["final_newline"]),
        (&json!("crlf"), &json!(true), &json!(false))
    );
    assert_eq!(desk.call("info", path("bin")).await["encoding"], "binary");
    assert_eq!(desk.call("info", path("mixed")).await["line_endings"], "mixed");
    assert_eq!(desk.call("info", path("dir")).await["type"], "folder");
}

/// A folder that keeps alternating with a link to the outside never leaks anything.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_exchanged_folder_leads_nowhere() {
    use std::sync::atomic::{AtomicBool, Ordering};

    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("file.txt"), "secret\n").unwrap();
    let desk = Desk::new();
    desk.put("dir/file.txt", "public\n");
    std::os::unix::fs::symlink(outside.path(), desk.path().join("link")).unwrap();
    let root = desk.path().to_owned();
    let stop = std::sync::Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let swapper = std::thread::spawn(move || {
        let mut swaps = 0;
        while !stopped.load(Ordering::Relaxed) {
            let (dir, link) = (root.join("dir"), root.join("link"));
            rustix::fs::renameat_with(rustix::fs::CWD, dir, rustix::fs::CWD, link, rustix::fs::RenameFlags::EXCHANGE)
                .unwrap();
            swaps += 1;
        }
        swaps
    });
    let mut read = 0;
    for turn in 0..300 {
        if let Ok(text) = desk.try_call("read", path("dir/file.txt")).await {
            assert!(!text.as_str().unwrap().contains("secret"), "{text}");
            read += 1;
        }
        let _ = desk.try_call("write", json!({"path": "dir/file.txt", "content": format!("public {turn}\n")})).await;
        let _ = desk.try_call("write", json!({"path": format!("dir/new-{turn}.txt"), "content": "x"})).await;
        if let Ok(found) = desk.try_call("grep", json!({"pattern": "secret", "output": "files"})).await {
            assert_eq!(found["paths"], json!([]));
        }
    }
    stop.store(true, Ordering::Relaxed);
    assert!(swapper.join().unwrap() > 0 && read > 0);
    assert_eq!(std::fs::read_to_string(outside.path().join("file.txt")).unwrap(), "secret\n");
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn other_roots_are_reached_by_absolute_paths() {
    let other = tempfile::tempdir().unwrap();
    std::fs::write(other.path().join("b.txt"), "needle\n").unwrap();
    let desk = Desk::with(|settings| settings.roots.push(other.path().to_owned()));
    desk.put("a.txt", "needle\n");
    let there = |name: &str| other.path().join(name).display().to_string();
    assert_eq!(desk.fail("read", path("b.txt")).await.0, "FileNotFoundError");
    let text = desk.call("read", path(&there("b.txt"))).await;
    assert!(text.as_str().unwrap().starts_with(&format!("[{}: lines 1-1", there("b.txt"))), "{text}");
    let listed = desk.call("list", path(&other.path().display().to_string())).await;
    assert_eq!(listed["entries"][0]["path"], there("b.txt"));
    let found = desk.call("grep", json!({"pattern": "needle", "path": other.path(), "output": "files"})).await;
    assert_eq!(found["paths"], json!([there("b.txt")]));
    desk.call("write", json!({"path": there("new/c.txt"), "content": "c"})).await;
    assert_eq!(std::fs::read_to_string(other.path().join("new/c.txt")).unwrap(), "c");
    let gone = desk.call("delete", path(&there("b.txt"))).await;
    assert!(other.path().join(gone["trash"].as_str().unwrap()).exists(), "{gone}");
    assert_eq!(desk.fail("read", path(&there("../x"))).await.0, "PermissionError");
}
