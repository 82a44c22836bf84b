//! `edit` and `patch` on real files, with diffs checked by git.

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::json;

use super::{Desk, path};
use crate::file::diff;

/// Applies a diff with git in a separate folder, and returns the resulting file.
fn git_apply(name: &str, before: Option<&[u8]>, diff: &str) -> Option<Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(name);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    if let Some(before) = before {
        std::fs::write(&file, before).unwrap();
    }
    for check in [&["apply", "--check", "-"][..], &["apply", "-"]] {
        let mut git = Command::new("git")
            .args(["-c", "core.autocrlf=false", "-c", "apply.whitespace=nowarn"])
            .args(check)
            .current_dir(folder.path())
            .env("GIT_CEILING_DIRECTORIES", folder.path().parent().unwrap())
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        git.stdin.take().unwrap().write_all(diff.as_bytes()).unwrap();
        let done = git.wait_with_output().unwrap();
        assert!(done.status.success(), "{}\n{diff:?}", String::from_utf8_lossy(&done.stderr));
    }
    std::fs::read(&file).ok()
}

#[test]
fn git_takes_every_diff() {
    let texts = [
        "",
        "a",
        "a\n",
        "a\r\n",
        "a\r\nb\r\n",
        "a\nb",
        "a\nb\n",
        "\u{feff}a\nb\n",
        "a\n\n\nb\n",
        "x\ra\n",
        "x\ra",
        "\n",
        "\r\n",
        "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n",
        "1\n2\n3\n4\n5\n6\nx\n8\n9\n10\n11\ny",
        "-- a\n++ b\n",
        "@@ -1 +1 @@\n",
    ];
    for before in texts {
        for after in texts {
            let diff = diff::unified("dir/a file.txt", Some(before), Some(after));
            if before == after {
                assert_eq!(diff, "");
                continue;
            }
            let made = git_apply("dir/a file.txt", Some(before.as_bytes()), &diff);
            // Git removes a file that a diff leaves empty only if the diff says so.
            assert_eq!(made.as_deref(), Some(after.as_bytes()), "{before:?} -> {after:?}");
        }
    }
    for name in ["é ü.txt", "tab\tname", "quo\"te\\s", "plain"] {
        let diff = diff::unified(name, None, Some("new\n"));
        assert_eq!(git_apply(name, None, &diff).as_deref(), Some(&b"new\n"[..]), "{name}");
        let diff = diff::unified(name, Some("old"), None);
        assert_eq!(git_apply(name, Some(b"old"), &diff), None, "{name}");
    }
}

#[tokio::test]
async fn edit_returns_a_diff_that_git_applies() {
    for (before, old, new) in [
        ("one\ntwo\nthree\n", "two", "2\n2b"),
        ("one\r\ntwo\r\nthree", "two\nthree", "2"),
        ("\u{feff}one\ntwo", "one\n", ""),
        ("def f():\n\tpass", "    pass", "    return 1\n    # end"),
    ] {
        let desk = Desk::new();
        desk.put("src/a b.txt", before);
        let answer = desk.call("edit", json!({"path": "src/a b.txt", "old_string": old, "new_string": new})).await;
        assert_eq!(answer["changed"], true, "{answer}");
        let after = desk.bytes("src/a b.txt");
        let diff = answer["diff"].as_str().unwrap();
        assert_eq!(git_apply("src/a b.txt", Some(before.as_bytes()), diff), Some(after));
        assert_eq!(desk.call("info", path("src/a b.txt")).await["hash"], answer["hash"]);
    }
}

#[tokio::test]
async fn edit_tells_how_and_changes_nothing_when_dry() {
    let desk = Desk::new();
    desk.put("a.rs", "fn main() {\n    let x = 1;\n}\n");
    let ask = json!({"path": "a.rs", "old_string": "let x = 1; ", "new_string": "let x = 2;", "dry_run": true});
    let answer = desk.call("edit", ask).await;
    assert_eq!((&answer["changed"], &answer["dry_run"], &answer["lines"]), (&json!(false), &json!(true), &json!([2])));
    assert_eq!(answer["matched"], "indentation shifted");
    assert!(answer["diff"].as_str().unwrap().contains("+    let x = 2;"));
    assert_eq!(desk.text("a.rs"), "fn main() {\n    let x = 1;\n}\n");

    let done = json!({"path": "a.rs", "old_string": "let x = 0;", "new_string": "let x = 1;"});
    let answer = desk.call("edit", done).await;
    assert_eq!((&answer["changed"], &answer["already_applied"]), (&json!(false), &json!(true)));
}

#[tokio::test]
async fn edit_refuses_with_what_is_near() {
    let desk = Desk::new();
    desk.put("a.txt", "alpha beta\nx\ngamma delta epsilon\nx\n").put("dir/b", "").put("bin", b"a\0b");
    let edit = |path: &str, old: &str, new: &str| json!({"path": path, "old_string": old, "new_string": new});
    let (exception, text) = desk.fail("edit", edit("a.txt", "gamma delt epsilom!", "q")).await;
    assert_eq!(exception, "ValueError");
    assert!(text.contains("     3\tgamma delta epsilon"), "{text}");
    let (_, text) = desk.fail("edit", edit("a.txt", "x", "y")).await;
    assert!(text.contains("2 times in a.txt") && text.contains("lines 2, 4"), "{text}");
    assert_eq!(desk.fail("edit", edit("a.txt", "", "y")).await.0, "ValueError");
    assert_eq!(desk.fail("edit", edit("a.txt", "x", "x")).await.0, "ValueError");
    assert_eq!(desk.fail("edit", edit("a.txt", "alpha", "a\0")).await.0, "ValueError");
    assert_eq!(desk.fail("edit", edit("dir", "a", "b")).await.0, "IsADirectoryError");
    assert_eq!(desk.fail("edit", edit("bin", "a", "b")).await.0, "ValueError");
    assert_eq!(desk.fail("edit", edit("none.txt", "a", "b")).await.0, "FileNotFoundError");
    assert_eq!(desk.fail("edit", edit("../x", "a", "b")).await.0, "PermissionError");
    let stale = json!({"path": "a.txt", "old_string": "alpha", "new_string": "b", "expected_hash": "0"});
    assert_eq!(desk.try_call("edit", stale).await.unwrap_err().kind, onetool_sdk::ErrorKind::Conflict);
    let count = json!({"path": "a.txt", "old_string": "x", "new_string": "y", "expected_replacements": 3});
    assert_eq!(desk.fail("edit", count).await.0, "ValueError");
    assert_eq!(desk.text("a.txt"), "alpha beta\nx\ngamma delta epsilon\nx\n");
    assert_eq!(desk.bytes("bin"), b"a\0b");
    let all = json!({"path": "a.txt", "old_string": "x", "new_string": "$0", "expected_replacements": 2});
    assert_eq!(desk.call("edit", all).await["replacements"], 2);
    assert_eq!(desk.text("a.txt"), "alpha beta\n$0\ngamma delta epsilon\n$0\n");
}

#[tokio::test]
async fn edits_at_the_same_time_do_not_lose_each_other() {
    let desk = Desk::new();
    let lines: Vec<String> = (0..20).map(|n| format!("line-{n:02}\n")).collect();
    desk.put("a.txt", lines.concat());
    let edits = (0..20).map(|n| {
        desk.call(
            "edit",
            json!({"path": "a.txt", "old_string": format!("line-{n:02}"), "new_string": format!("done-{n:02}")}),
        )
    });
    futures_util::future::join_all(edits).await;
    assert_eq!(desk.text("a.txt"), lines.concat().replace("line-", "done-"));
}

#[tokio::test]
async fn patch_changes_several_files_or_none() {
    let desk = Desk::new();
    desk.put("a.txt", "1\n2\n3\n")
        .put("b/c.txt", "x\r\ny\r\nz")
        .put("gone.txt", "bye\n")
        .put("from.txt", "same\nold\n");
    let good = "diff --git a/a.txt b/a.txt\nindex 1..2 100644\n--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n 1\n-2\n+two\n 3\n\
                --- a/b/c.txt\n+++ b/b/c.txt\n@@ -1,3 +1,4 @@\n x\n y\n+new\n z\n\
                --- a/gone.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-bye\n\
                diff --git a/from.txt b/to.txt\nsimilarity index 50%\nrename from from.txt\nrename to to.txt\n\
                --- a/from.txt\n+++ b/to.txt\n@@ -1,2 +1,2 @@\n same\n-old\n+new\n\
                diff --git a/run.sh b/run.sh\nnew file mode 100755\n--- /dev/null\n+++ b/run.sh\n@@ -0,0 +1 @@\n+#!/bin/sh\n";
    let bad = format!("{good}--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-not there\n+x\n");
    let dry = desk.call("patch", json!({"patch": good, "dry_run": true})).await;
    assert_eq!((&dry["changed"], dry["files"].as_array().unwrap().len()), (&json!(false), 6));
    let (exception, text) = desk.fail("patch", json!({"patch": bad})).await;
    assert_eq!(exception, "ValueError");
    assert!(text.contains("hunk 1 of a.txt"), "{text}");
    assert_eq!((desk.text("a.txt").as_str(), desk.text("b/c.txt").as_str()), ("1\n2\n3\n", "x\r\ny\r\nz"));
    assert!(!desk.path().join("run.sh").exists() && desk.path().join("gone.txt").exists());

    let answer = desk.call("patch", json!({"patch": good})).await;
    assert_eq!(answer["changed"], true);
    assert_eq!(desk.text("a.txt"), "1\ntwo\n3\n");
    assert_eq!(desk.text("b/c.txt"), "x\r\ny\r\nnew\r\nz");
    assert_eq!(desk.text("to.txt"), "same\nnew\n");
    assert!(!desk.path().join("gone.txt").exists() && !desk.path().join("from.txt").exists());
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(std::fs::metadata(desk.path().join("run.sh")).unwrap().permissions().mode() & 0o777, 0o755);
    }
    let (_, text) = desk.fail("patch", json!({"patch": "--- a/a.txt\n+++ b/a.txt\n@@ -2 +2 @@\n-2\n+two\n"})).await;
    assert!(text.contains("applied to a.txt already"), "{text}");
}

#[tokio::test]
async fn patch_undoes_the_files_before_one_that_cannot_be_written() {
    let desk = Desk::new();
    desk.put("a.txt", "1\n").put("z/file", "1\n");
    // The last target's folder is a file: it is refused before anything is written.
    let patch = "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-1\n+2\n--- /dev/null\n+++ b/z/file/new\n@@ -0,0 +1 @@\n+x\n";
    assert_eq!(desk.fail("patch", json!({"patch": patch})).await.0, "NotADirectoryError");
    // The trash cannot be created: the rename fails after the first file was replaced.
    desk.put(".onetool/trash", "in the way");
    let patch = "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-1\n+2\n--- /dev/null\n+++ b/n/new\n@@ -0,0 +1 @@\n+x\n\
                 --- a/z/file\n+++ /dev/null\n@@ -1 +0,0 @@\n-1\n";
    desk.fail("patch", json!({"patch": patch})).await;
    assert_eq!((desk.text("a.txt").as_str(), desk.text("z/file").as_str()), ("1\n", "1\n"));
    assert!(!desk.path().join("n/new").exists());
    assert_eq!(
        std::fs::read_dir(desk.path())
            .unwrap()
            .filter(|entry| { entry.as_ref().unwrap().file_name().to_string_lossy().ends_with(".tmp") })
            .count(),
        0
    );
}

#[tokio::test]
async fn patch_finds_moved_lines_once_or_refuses() {
    let desk = Desk::new();
    desk.put("a.txt", "new\nnew\na\nb\nc\n")
        .put("twice.txt", "x\na\nx\na\n")
        .put("crlf.txt", "\u{feff}a\r\nb\r\n")
        .put("open.txt", "a\nb");
    let patch = |name: &str, hunk: &str| json!({"patch": format!("--- a/{name}\n+++ b/{name}\n{hunk}")});
    desk.call("patch", patch("a.txt", "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n")).await;
    assert_eq!(desk.text("a.txt"), "new\nnew\na\nB\nc\n");
    let (_, text) = desk.fail("patch", patch("twice.txt", "@@ -9 +9 @@\n-a\n+b\n")).await;
    assert!(text.contains("lines 2, 4"), "{text}");
    desk.call("patch", patch("twice.txt", "@@ -4 +4 @@\n-a\n+b\n")).await;
    assert_eq!(desk.text("twice.txt"), "x\na\nx\nb\n");
    desk.call("patch", patch("crlf.txt", "@@ -1,2 +1,3 @@\n-a\n+A\n+A2\n b\n")).await;
    assert_eq!(desk.text("crlf.txt"), "\u{feff}A\r\nA2\r\nb\r\n");
    desk.call("patch", patch("open.txt", "@@ -1,2 +1,3 @@\n a\n-b\n+c\n+d\n")).await;
    assert_eq!(desk.text("open.txt"), "a\nc\nd");
    for (patch, exception) in [
        (json!({"patch": "nothing"}), "ValueError"),
        (json!({"patch": "--- /dev/null\n+++ b/../x\n@@ -0,0 +1 @@\n+x\n"}), "PermissionError"),
        (json!({"patch": "--- /dev/null\n+++ b/.git/hooks/pre-commit\n@@ -0,0 +1 @@\n+x\n"}), "PermissionError"),
        (json!({"patch": "--- /dev/null\n+++ b/a.txt\n@@ -0,0 +1 @@\n+x\n"}), "FileExistsError"),
        (json!({"patch": "--- a/none\n+++ b/none\n@@ -1 +1 @@\n-a\n+x\n"}), "FileNotFoundError"),
        (json!({"patch": "--- a/a.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-new\n"}), "ValueError"),
    ] {
        let (found, text) = desk.fail("patch", patch.clone()).await;
        assert_eq!(found, exception, "{patch}: {text}");
    }
}
