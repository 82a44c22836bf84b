//! What code receives and passes: plain text, lists of paths, bytes.

use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::{Desk, path};

#[tokio::test]
async fn code_gets_text_and_paths() {
    let desk = Desk::new();
    desk.put("a.csv", "x,y\n1,2\n").put("sub/b.csv", "");
    assert_eq!(desk.call("read", json!({"path": "a.csv", "line_numbers": false})).await, json!("x,y\n1,2\n"));
    assert_eq!(desk.call("list", json!({"details": false})).await, json!(["sub", "a.csv"]));
    assert_eq!(
        desk.call("glob", json!({"pattern": "**/*.csv", "details": false})).await,
        json!(["a.csv", "sub/b.csv"])
    );
    assert_eq!(desk.call("list", json!({"details": false, "limit": 1})).await, json!(["sub"]));
}

#[tokio::test]
async fn a_list_of_paths_is_never_cut_silently() {
    let desk = Desk::with(|settings| settings.max_paths = 2);
    desk.put("a", "").put("b", "").put("c", "");
    for (tool, arguments) in [("list", json!({"details": false})), ("glob", json!({"pattern": "*", "details": false}))]
    {
        let (exception, text) = desk.fail(tool, arguments).await;
        assert!(exception == "ValueError" && text.contains("more than 2 paths"), "{text}");
    }
}

#[tokio::test]
async fn bytes_are_read_and_written_as_they_are() {
    let desk = Desk::new();
    let bytes: Vec<u8> = (0..=255).collect();
    let write = |content: &[u8], mode: &str| json!({"path": "b.bin", "content": STANDARD.encode(content), "encoding": "base64", "mode": mode});
    desk.call("write", write(&bytes, "create")).await;
    assert_eq!(desk.fail("write", write(&bytes, "create")).await.0, "FileExistsError");
    desk.call("write", write(b"\0\n", "append")).await;
    assert_eq!(desk.bytes("b.bin"), [bytes.as_slice(), b"\0\n"].concat());
    assert_eq!(
        desk.call("read", json!({"path": "b.bin", "byte_offset": 250, "byte_limit": 3})).await,
        json!(STANDARD.encode([250, 251, 252]))
    );
    desk.call("write", write(b"new", "replace")).await;
    assert_eq!(desk.text("b.bin"), "new");
    let nowhere = json!({"path": "no/b.bin", "content": "x", "mode": "replace"});
    assert_eq!(desk.fail("write", nowhere).await.0, "FileNotFoundError");
    let hook = json!({"path": ".git/hooks/x", "content": "x", "mode": "append"});
    assert_eq!(desk.fail("write", hook).await.0, "PermissionError");
    let (exception, text) = desk.fail("read", json!({"path": "/etc/passwd", "byte_offset": 0})).await;
    assert!(exception == "PermissionError" && text.contains("allowed: "), "{text}");
}

#[tokio::test]
async fn folders_are_made_and_things_are_moved() {
    let desk = Desk::new();
    desk.put("a.txt", "a").put("b.txt", "b");
    desk.call("make_folder", path("x/y")).await;
    assert_eq!(desk.fail("make_folder", path("x/y")).await.0, "FileExistsError");
    assert_eq!(desk.fail("make_folder", path(".git/x")).await.0, "PermissionError");
    desk.call("move", json!({"path": "a.txt", "target": "x/y/c.txt"})).await;
    assert_eq!(desk.text("x/y/c.txt"), "a");
    let moved = desk.call("move", json!({"path": "b.txt", "target": "x/y/c.txt"})).await;
    assert_eq!(desk.text(moved["replaced"].as_str().unwrap()), "a");
    assert_eq!(desk.text("x/y/c.txt"), "b");
    for (path, target) in [("x", ".git/x"), ("x", "x/y/z"), (".", "x/z"), ("x/y/c.txt", "/etc/c")] {
        desk.fail("move", json!({"path": path, "target": target})).await;
    }
    let info = desk.call("info", json!({"path": "x/y/c.txt", "content": false})).await;
    assert!(info["mtime"].is_f64() && info.get("hash").is_none(), "{info}");
}

/// Patterns of two hundred shapes find the lines that `grep -E` finds.
#[tokio::test]
async fn patterns_find_what_grep_finds() {
    let desk = Desk::new();
    let text = "foo\nbar\nfoobar\n\nfoo bar o\nno\nno \n  indent\nend.\na1b22\nA-B_c\n(x)\n[y]\n$5\n^up\ntab\there\n";
    desk.put("t.txt", text);
    let atoms = [
        "o",
        "fo+",
        "b.r",
        "[a-c]",
        "[0-9]+",
        "(no|end)",
        "x",
        "\\(",
        "\\$",
        "\\^",
        " ",
        "\\.",
        "a1?",
        "o{2}",
        "[^a-z]",
        ".",
        "(foo)?bar",
        "e.*e",
        "[[:upper:]]",
        "[[:space:]]",
    ];
    let shapes = ["{}", "^{}", "{}$", "^{}$", "{}.*$", "^.*{}", "^ *{}", "({})$", "{}|^$", "^({}|foo)$"];
    let mut tried = 0;
    for atom in atoms {
        for shape in shapes {
            let pattern = shape.replace("{}", atom);
            let output = Command::new("grep")
                .args(["-n", "-E", "-e", &pattern, "t.txt"])
                .current_dir(desk.path())
                .env("LC_ALL", "C")
                .output()
                .unwrap();
            let expected: Vec<u64> = String::from_utf8(output.stdout)
                .unwrap()
                .lines()
                .map(|line| line.split(':').next().unwrap().parse().unwrap())
                .collect();
            let found = desk.call("grep", json!({"pattern": pattern, "output": "matches"})).await;
            let found: Vec<u64> =
                found["matches"].as_array().unwrap().iter().map(|one| one["line"].as_u64().unwrap()).collect();
            assert_eq!(found, expected, "{pattern}");
            tried += 1;
        }
    }
    assert_eq!(tried, 200);
}
