//! `file.glob` and `file.grep` in a tree with ignored files and links.

use serde_json::json;

use super::Desk;

fn tree() -> Desk {
    let desk = Desk::new();
    desk.put("src/main.rs", "fn main() {\n    needle();\n}\n")
        .put("src/deep/lib.rs", "// Needle\r\nfn lib() {}\r\n")
        .put("target/out.rs", "needle\n")
        .put(".gitignore", "target/\n")
        .put(".hidden.rs", "needle\n")
        .put(".git/needle.rs", "needle\n")
        .put("notes.md", "a\nneedle one\nb\nc\nneedle two\nd\nneedle three\n")
        .put("image.bin", b"needle\0")
        .put(".onetool/secrets.yaml", "needle: 1\n");
    desk
}

#[tokio::test]
async fn glob_respects_gitignore() {
    let desk = tree();
    let paths = |value: serde_json::Value| value["paths"].clone();
    assert_eq!(
        paths(desk.call("glob", json!({"pattern": "**/*.rs"})).await),
        json!(["src/deep/lib.rs", "src/main.rs"])
    );
    assert_eq!(paths(desk.call("glob", json!({"pattern": "*.rs", "path": "src"})).await), json!(["src/main.rs"]));
    assert_eq!(
        paths(desk.call("glob", json!({"pattern": "**/*.rs", "ignored": true, "hidden": true})).await),
        json!([".hidden.rs", "src/deep/lib.rs", "src/main.rs", "target/out.rs"])
    );
    assert_eq!(paths(desk.call("glob", json!({"pattern": "*.rs", "path": "target"})).await), json!(["target/out.rs"]));
    assert_eq!(paths(desk.call("glob", json!({"pattern": ".git*"})).await), json!([".gitignore"]));
    let cut = desk.call("glob", json!({"pattern": "./**/*.{rs,md}", "limit": 1})).await;
    assert_eq!(cut, json!({"paths": ["notes.md"], "truncated": true}));
    assert_eq!(desk.fail("glob", json!({"pattern": "a{b"})).await.0, "ValueError");
    assert_eq!(desk.fail("glob", json!({"pattern": "../*"})).await.0, "ValueError");
}

#[tokio::test]
async fn grep_shows_numbered_lines_with_context() {
    let desk = tree();
    assert_eq!(
        desk.call("grep", json!({"pattern": "needle"})).await,
        "notes.md\n     2:\tneedle one\n     5:\tneedle two\n     7:\tneedle three\nsrc/main.rs\n     2:\t    needle();\n\
         [4 matching lines in 2 files; 4 files searched]\n"
    );
    assert_eq!(
        desk.call("grep", json!({"pattern": "needle (one|three)", "glob": "*.md", "before": 1, "after": 1})).await,
        "notes.md\n     1-\ta\n     2:\tneedle one\n     3-\tb\n    --\n     6-\td\n     7:\tneedle three\n\
         [2 matching lines in 1 files; 1 files searched]\n"
    );
}

#[tokio::test]
async fn grep_answers_in_other_forms() {
    let desk = tree();
    let lower = json!({"pattern": "needle$", "ignore_case": true, "output": "matches", "glob": "src/**/*.rs"});
    assert_eq!(
        desk.call("grep", lower).await,
        json!({"matches": [{"path": "src/deep/lib.rs", "line": 1, "text": "// Needle"}], "truncated": false})
    );
    assert_eq!(
        desk.call("grep", json!({"pattern": "needle", "output": "files"})).await,
        json!({"paths": ["notes.md", "src/main.rs"], "truncated": false})
    );
    let one = json!({"pattern": "needle", "output": "matches", "path": "notes.md", "max_matches": 1});
    assert_eq!(
        desk.call("grep", one).await,
        json!({"matches": [{"path": "notes.md", "line": 2, "text": "needle one"}], "truncated": true})
    );
    assert_eq!(
        desk.call("grep", json!({"pattern": "needle", "output": "count"})).await,
        json!({"counts": {"notes.md": 3, "src/main.rs": 1}, "truncated": false})
    );
    let literal = json!({"pattern": "needle()", "regex": false, "output": "files"});
    assert_eq!(desk.call("grep", literal).await["paths"], json!(["src/main.rs"]));
    assert_eq!(
        desk.call("grep", json!({"pattern": "needle", "path": "notes.md", "output": "count"})).await,
        json!({"counts": {"notes.md": 3}, "truncated": false})
    );
    let everything = json!({"pattern": "needle", "hidden": true, "ignored": true, "output": "files"});
    assert_eq!(
        desk.call("grep", everything).await["paths"],
        json!([".hidden.rs", "notes.md", "src/main.rs", "target/out.rs"])
    );
    let cut = desk.call("grep", json!({"pattern": "needle", "path": "notes.md", "max_matches": 2})).await;
    assert_eq!(
        cut,
        "notes.md\n     2:\tneedle one\n     5:\tneedle two\n\
         [stopped after 2 matches; narrow the pattern or the glob, or raise max_matches]\n"
    );
    let none = desk.call("grep", json!({"pattern": "absent", "glob": "*.md"})).await;
    assert_eq!(none, "[no match for \"absent\"; 1 files searched]\n");
    for pattern in ["(", "", "a\nb"] {
        assert_eq!(desk.fail("grep", json!({"pattern": pattern})).await.0, "ValueError", "{pattern:?}");
    }
}

#[tokio::test]
async fn grep_shows_the_match_of_a_long_line() {
    let desk = Desk::new();
    desk.put("long.json", format!("{}needle{}\n", "x".repeat(1_000_000), "y".repeat(1_000_000)));
    let text = desk.call("grep", json!({"pattern": "needle"})).await;
    assert!(text.as_str().unwrap().starts_with("long.json\n     1:\t…xxx"), "{text}");
    assert!(text.as_str().unwrap().contains("xneedley"), "{text}");
    assert!(text.as_str().unwrap().len() < 1000);
}

#[cfg(unix)]
#[tokio::test]
async fn searches_do_not_follow_links() {
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("x.txt"), "needle\n").unwrap();
    let desk = Desk::new();
    std::os::unix::fs::symlink(outside.path(), desk.path().join("out")).unwrap();
    std::os::unix::fs::symlink(outside.path().join("x.txt"), desk.path().join("x.txt")).unwrap();
    assert_eq!(desk.call("grep", json!({"pattern": "needle", "output": "files"})).await["paths"], json!([]));
    assert_eq!(desk.call("glob", json!({"pattern": "**/*"})).await["paths"], json!([]));
    assert_eq!(desk.fail("grep", json!({"pattern": "needle", "path": "out"})).await.0, "PermissionError");
}
