//! What models write gives what Python gives: every snippet of `cases/python`, and the walls around files.

use std::path::Path;

use crate::client::Project;

/// A line that stands between two snippets of a file.
const BETWEEN: &str = "# %%\n";

/// Runs every snippet of a file by itself, and prints what each printed as a JSON list.
const PEER: &str = "import contextlib, io, json, sys\nout = []\n\
    for snippet in open(sys.argv[1], encoding='utf-8').read().split('# %%\\n'):\n\
    \x20   text = io.StringIO()\n\
    \x20   with contextlib.redirect_stdout(text):\n\
    \x20       exec(compile(snippet, 'snippet', 'exec'), {'__name__': '__main__'})\n\
    \x20   out.append(text.getvalue())\n\
    print(json.dumps(out))";

/// Each snippet runs in `python3` and in both engines; what it prints must be the same, byte for byte.
#[tokio::test]
async fn snippets_print_what_python_prints() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../cases/python");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let projects = ["auto", "cpython"]
        .map(|engine| Project::with(&format!("run: {{engine: {engine}}}\nstats: {{enabled: false}}\n")));
    let clients = [projects[0].serve().await, projects[1].serve().await];
    let (mut count, mut failures) = (0, Vec::new());
    for file in &files {
        let peer = tempfile::tempdir().unwrap();
        let file_name = file.canonicalize().unwrap();
        let python = tokio::process::Command::new("python3")
            .args(["-X", "utf8", "-c", PEER])
            .arg(&file_name)
            .current_dir(peer.path())
            .output()
            .await
            .unwrap();
        assert!(python.status.success(), "{}\n{}", file.display(), String::from_utf8_lossy(&python.stderr));
        let expected: Vec<String> = serde_json::from_slice(&python.stdout).unwrap();
        let text = std::fs::read_to_string(file).unwrap();
        for (snippet, expected) in text.split(BETWEEN).zip(&expected) {
            let expected = expected.strip_suffix('\n').unwrap_or(expected);
            for client in &clients {
                let answer = client.run(snippet).await;
                if answer.is_error || answer.text != expected {
                    failures.push(format!("{snippet}\nexpected: {expected}\nactual:   {}", answer.text));
                }
            }
            count += 1;
        }
    }
    assert!(count >= 300, "{count}");
    assert!(failures.is_empty(), "{} differ\n{}", failures.len(), failures.join("\n---\n"));
}

#[tokio::test]
async fn files_follow_what_the_configuration_allows() {
    let project = Project::with("run: {files: read}\n");
    project.write("a.txt", "text");
    let client = project.serve().await;
    assert_eq!(client.ok("open('a.txt').read()").await, "text");
    for code in ["open('b.txt', 'w')", "import os\nos.remove('a.txt')", "from pathlib import Path\nPath('d').mkdir()"] {
        let text = client.err(code).await;
        assert!(text.starts_with("PermissionError:") && text.contains("run.files: read"), "{text}");
    }
    project.write(".onetool/onetool.yaml", "security: {policy: {file.write: deny}}\n");
    assert!(client.ok("ot.reload()").await.contains("OK"), "reloaded");
    let text = client.err("with open('b.txt', 'w') as f:\n    f.write('x')").await;
    assert!(text.starts_with("PermissionError:"), "{text}");
    assert!(!project.path().join("b.txt").exists());
}

#[tokio::test]
async fn a_large_file_is_read_within_the_memory_limit() {
    let project = Project::with("run: {max_memory_mb: 32}\n");
    let row = "1234567890,some text that makes the row longer,another column\n";
    let rows = (100 << 20) / row.len();
    project.write("big.csv", &format!("id,text,more\n{}", row.repeat(rows)));
    let client = project.serve().await;
    let code = "import csv\nwith open('big.csv') as f:\n    n = sum(1 for _ in csv.DictReader(f))\nn";
    assert_eq!(client.ok(code).await, rows.to_string());
}

/// A picture, a KeyError with its key, a run that is interrupted, and output for a pipe.
#[tokio::test]
async fn what_comes_out_is_usable() {
    let project = Project::with("output: {max_inline_size: 1000}\n");
    project.write(
        ".onetool/tools/t/t_tools.py",
        "pack = 't'\n__all__ = ['lookup']\ndef lookup(key: str) -> str:\n    \"\"\"Looks a key up.\"\"\"\n    return {}[key]\n",
    );
    let client = project.serve().await;
    let code = "class A: pass\nclass B(A): pass\ntry:\n    t.lookup('x')\nexcept KeyError as e:\n    r = e.args[0]\nr";
    assert_eq!(client.ok(code).await, "x");
    let piped = project.command(&["run", "'x' * 5000"]).output().await.unwrap();
    assert_eq!(String::from_utf8(piped.stdout).unwrap().trim_end().len(), 5000);
}
