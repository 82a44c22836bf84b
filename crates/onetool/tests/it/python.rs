//! Typical model code behaves as in Python: every snippet of `cases/python`, and the restrictions on files.

use std::path::Path;

use crate::client::Project;

/// The separator between two snippets of a file.
const BETWEEN: &str = "# %%\n";

/// Runs every snippet of a file separately, and prints the output of each as a JSON list.
const PEER: &str = "import contextlib, io, json, sys\nout = []\n\
    for snippet in open(sys.argv[1], encoding='utf-8').read().split('# %%\\n'):\n\
    \x20   text = io.StringIO()\n\
    \x20   with contextlib.redirect_stdout(text):\n\
    \x20       exec(compile(snippet, 'snippet', 'exec'), {'__name__': '__main__'})\n\
    \x20   out.append(text.getvalue())\n\
    print(json.dumps(out))";

/// Serializing a value that calls a tool meanwhile must not deadlock.
#[tokio::test]
async fn a_value_that_reads_a_file_to_show_itself_does_not_hang() {
    let project = Project::with("run: {engine: cpython}\n");
    std::fs::write(project.path().join("a.txt"), "text").unwrap();
    let client = project.serve().await;
    let code = "class A:\n    def __repr__(self):\n        return open('a.txt').read()\nA()";
    assert_eq!(client.run(code).await.text, "<A object whose repr raised RuntimeError>");
}

/// Each snippet runs in `python3` and in both engines; the output must be identical.
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

/// With Monty only, file access uses the same calls of the file pack.
#[tokio::test]
async fn files_work_in_monty_too() {
    let project = Project::with("run: {engine: monty}\n");
    project.write("a.txt", "one\r\ntwo\n");
    let client = project.serve().await;
    for (code, expected) in [
        ("open('a.txt').read()", "one\ntwo"),
        ("with open('a.txt') as f:\n    n = len(f.readlines())\nn", "2"),
        ("with open('b.txt', 'w') as f:\n    f.write('x')\n    f.write('y')\nopen('b.txt').read()", "xy"),
        ("with open('b.txt', 'a') as f:\n    f.write('z')\nopen('b.txt').read()", "xyz"),
        ("from pathlib import Path\np = Path('d')\np.mkdir()\n(p / 'c.txt').write_text('hé')", "2"),
        ("from pathlib import Path\n[str(p) for p in Path('d').iterdir()]", "[\"d/c.txt\"]"),
        (
            "from pathlib import Path\n[Path('d').is_dir(), Path('d/c.txt').is_file(), Path('no').exists()]",
            "[true,true,false]",
        ),
        ("from pathlib import Path\nPath('d/c.txt').stat().st_size", "3"),
        ("import os\nos.rename('d/c.txt', 'd/e.txt')\nos.listdir('d')", "[\"e.txt\"]"),
        ("import os\nos.remove('d/e.txt')\nos.rmdir('d')\nos.listdir('.').count('d')", "0"),
    ] {
        assert_eq!(client.ok(code).await.trim_end(), expected, "{code}");
    }
    for (code, expected) in [
        ("open('/etc/passwd').read()", "PermissionError:"),
        ("from pathlib import Path\nPath('/etc/passwd').exists()", "PermissionError:"),
        ("open('missing.txt')", "FileNotFoundError:"),
        ("from pathlib import Path\nPath('x/y').mkdir()", "FileNotFoundError:"),
    ] {
        let text = client.err(code).await;
        assert!(text.starts_with(expected), "{code}\n{text}");
    }
    project.write(".onetool/onetool.yaml", "run: {engine: monty, files: read}\n");
    client.ok("ot.reload()").await;
    assert_eq!(client.ok("open('b.txt').read()").await, "xyz");
    assert!(client.err("open('b.txt', 'w')").await.contains("run.files: read"));
    project.write(".onetool/onetool.yaml", "run: {engine: monty, files: 'off'}\n");
    client.ok("ot.reload()").await;
    assert!(client.err("open('b.txt').read()").await.contains("run.files: off"));
}

/// Printed text arrives while the code runs, in both engines, neither repeated nor truncated.
#[tokio::test]
async fn printed_text_is_streamed_to_the_terminal() {
    use tokio::io::AsyncReadExt as _;
    let project = Project::empty();
    for class in ["", "class B(int):\n    pass\n"] {
        // Prints, and then waits for a file, which the reader of the text creates.
        let code = format!("{class}print('first')\nwhile not file.glob('go'):\n    pass\nprint('second', end='')\n7");
        let mut child = project.command(&["run", &code]).stdout(std::process::Stdio::piped()).spawn().unwrap();
        let mut out = child.stdout.take().unwrap();
        let mut head = [0; 6];
        tokio::time::timeout(crate::client::PATIENCE, out.read_exact(&mut head)).await.unwrap().unwrap();
        assert_eq!(&head, b"first\n");
        project.write("go", "");
        let mut rest = String::new();
        out.read_to_string(&mut rest).await.unwrap();
        assert_eq!(rest, "second\n7\n");
        std::fs::remove_file(project.path().join("go")).unwrap();
    }
    let many = "for i in range(300000):\n    print('line', i)";
    let output = project.command(&["run", many]).output().await.unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.lines().count(), 300_000, "{:.200}", String::from_utf8_lossy(&output.stderr));
    assert!(text.ends_with("line 299999\n"));
    // An error does not repeat what was printed.
    let output = project.command(&["run", "print('once')\n1 / 0"]).output().await.unwrap();
    assert_eq!(output.stdout, b"once\n");
    assert!(!String::from_utf8_lossy(&output.stderr).contains("once\n"));
}

/// Names persist across commands; the process that holds them ends with its last session.
#[tokio::test]
async fn a_session_lasts_from_command_to_command() {
    let project = Project::with("run: {session_idle: 60}\n");
    let runtime = project.path().join("runtime");
    std::fs::create_dir_all(&runtime).unwrap();
    let run = async |arguments: &[&str]| {
        let output = project.command(arguments).env("XDG_RUNTIME_DIR", &runtime).output().await.unwrap();
        let text = if output.status.success() { output.stdout } else { output.stderr };
        (output.status.success(), String::from_utf8(text).unwrap().trim_end().to_owned())
    };
    assert!(run(&["run", "--session", "work", "x = 40\nprint('kept')"]).await.1.contains("kept"));
    assert_eq!(run(&["run", "--session", "work", "x + 2"]).await, (true, "42".to_owned()));
    let (ok, text) = run(&["run", "x"]).await;
    assert!(!ok && text.starts_with("NameError:"), "{text}");
    let pid: u32 = run(&["run", "--session", "work", "import os\nos.getppid()"]).await.1.parse().unwrap();
    assert!(crate::client::is_alive(pid));
    let (ok, text) = run(&["run", "--session", "work", "__session__ = None"]).await;
    assert!(ok, "{text}");
    crate::client::eventually("the process that keeps sessions ends", || !crate::client::is_alive(pid)).await;
    let (ok, text) = run(&["run", "--session", "work", "x"]).await;
    assert!(!ok && text.starts_with("NameError:"), "{text}");
    run(&["run", "--session", "work", "__session__ = None"]).await;
}

#[tokio::test]
async fn a_key_that_a_tool_misses_is_the_argument_in_monty_too() {
    let project = Project::empty();
    project.write(
        ".onetool/tools/t/t_tools.py",
        "pack = 't'\n__all__ = ['lookup']\ndef lookup(key: str) -> str:\n    \"\"\"Looks a key up.\"\"\"\n    return {}[key]\n",
    );
    let client = project.serve().await;
    let code = "try:\n    t.lookup('x')\nexcept KeyError as e:\n    r = e.args[0]\nr";
    assert_eq!(client.ok(code).await, "x");
    assert!(client.err("t.lookup('x')").await.starts_with("KeyError: 'x'"));
    assert!(client.err("a = t.lookup('x')\na").await.starts_with("KeyError: 'x'"));
}

/// An image, a KeyError with its key, an interrupted run, and output to a pipe.
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

/// The interrupt key reaches all processes of the terminal: it ends the run, and does not count as an engine crash.
#[tokio::test]
async fn the_interrupt_key_ends_a_run_in_both_engines() {
    let project = Project::empty();
    for class in ["", "class B(int):\n    pass\n"] {
        let code = format!("{class}print('begun')\nwhile True:\n    file.list('.')");
        let (shown, status) = crate::terminal::on_terminal(&project, &[("begun", "^C")], &["run", &code], &[]).await;
        assert_eq!(status, 130, "{shown}");
        assert!(!shown.contains("Error"), "{shown}");
    }
}
