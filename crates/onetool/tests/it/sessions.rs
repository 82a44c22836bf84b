//! Sessions: names that persist between runs, their owners, and their end.

use std::time::Duration;

use crate::client::{Project, children, eventually};

const A: &str = "__session__ = 'a'\n";

#[tokio::test]
async fn names_imports_and_functions_last_in_a_session_alone() {
    let project = Project::empty();
    let client = project.serve().await;
    let first = "import statistics as st\nrate = 3\nclass Row:\n    pass\ndef f(n):\n    return n * rate";
    client.ok(&format!("{A}{first}")).await;
    assert_eq!(client.ok(&format!("{A}f(2) + st.mean([1, 3])")).await, "8");
    assert_eq!(client.ok(&format!("{A}rate = 5\nawait asyncio.gather(asyncio.sleep(0, f(2)))")).await, "[10]");
    assert_eq!(client.ok(&format!("{A}if rate == 5:\n    return rate\n0")).await, "5");
    assert_eq!(
        client.ok(&format!("{A}if rate == 6:\n    return rate")).await,
        "Code executed successfully (no value returned)"
    );
    // A variable with the name of a pack takes precedence in the session.
    assert_eq!(client.ok(&format!("{A}file = Row()\nfile.x = 1\nfile.x")).await, "1");
    assert_eq!(client.ok(&format!("{A}file.x")).await, "1");
    // An open file is saved with the session, and continues.
    client.ok(&format!("{A}out = open('log.txt', 'w')\nout.write('one\\n')")).await;
    assert_eq!(
        client.ok(&format!("{A}out.write('two\\n')\nout.close()\nopen('log.txt').read()")).await.trim_end(),
        "one\ntwo"
    );
    // Outside the session its names are unknown, but the error says where they are.
    let text = client.err("f(1)").await;
    assert!(text.starts_with("NameError:") && text.contains("__session__ = \"a\""), "{text}");
    let text = client.err("__session__ = 'b'\nrate").await;
    assert!(text.starts_with("NameError:") && text.contains("session 'a'"), "{text}");
    let listed = client.json("__format__ = 'json'\not.sessions()").await;
    assert_eq!(listed[0]["name"], "a");
    assert_eq!(listed[0]["runs"], 9);
    assert_eq!(listed[0]["names"], serde_json::json!(["Row", "f", "file", "out", "rate", "st"]));
}

#[tokio::test]
async fn an_error_names_the_line_of_its_own_run_and_leaves_the_session() {
    let project = Project::empty();
    let client = project.serve().await;
    client.ok(&format!("{A}x = 1\n\n\n\ndef f():\n    return 1 / 0")).await;
    let text = client.err(&format!("{A}y = 2\nf()")).await;
    assert_eq!(text, "ZeroDivisionError: division by zero\n  line 3: f()");
    assert_eq!(client.ok(&format!("{A}x + y")).await, "3");
    let text = client.err(&format!("{A}b = [0] * 10**9")).await;
    assert!(text.starts_with("MemoryError:"), "{text}");
    assert_eq!(client.ok(&format!("{A}x + y")).await, "3");
}

#[tokio::test]
async fn a_name_of_the_run_before_is_explained() {
    let project = Project::empty();
    let client = project.serve().await;
    for engine in ["", "class B(int):\n    pass\n"] {
        client.ok("total = 41").await;
        let text = client.err(&format!("{engine}total + 1")).await;
        assert!(text.starts_with("NameError: name 'total' is not defined"), "{text}");
        assert!(text.contains("runs do not share names") && text.contains("__session__ = \"name\""), "{text}");
        let text = client.err(&format!("{engine}never_defined + 1")).await;
        assert!(!text.contains("__session__"), "{text}");
    }
}

#[tokio::test]
async fn a_session_ends_on_request_with_its_run_or_when_it_is_idle() {
    let project = Project::with("run: {timeout: 1, session_idle: 2, max_sessions: 2}\n");
    let client = project.serve().await;
    client.ok(&format!("{A}x = 1")).await;
    assert_eq!(client.ok("ot.end_session('a')").await, "OK: session 'a' ended");
    let text = client.err("ot.end_session('a')").await;
    assert!(text.starts_with("ValueError: no session 'a' is open"), "{text}");
    // From code: after its own run, or for the most recently used session.
    client.ok(&format!("{A}x = 1\n__session__ = None")).await;
    assert_eq!(client.ok("ot.sessions()").await, "[]");
    client.ok(&format!("{A}x = 1")).await;
    assert_eq!(client.ok("__session__ = None").await, "[session 'a' ended]");
    assert_eq!(client.ok("ot.sessions()").await, "[]");
    // A stopped run ends its session.
    client.ok(&format!("{A}x = 1")).await;
    let text = client.err(&format!("{A}while True:\n    pass")).await;
    assert!(text.starts_with("TimeoutError:") && text.contains("session 'a' ended with this run"), "{text}");
    let text = client.err(&format!("{A}x")).await;
    assert!(text.starts_with("NameError:") && text.contains("is new: the one before ended, because"), "{text}");
    let text = client.err(&format!("{A}import os\nos._exit(3)")).await;
    assert!(text.contains("ended itself with status 3") && text.contains("session 'a' ended"), "{text}");
    assert!(client.ok(&format!("{A}1")).await.starts_with("[session 'a' is new"));
    assert_eq!(client.ok(&format!("{A}2")).await, "2");
    // The number and the lifetime are limited.
    client.ok("__session__ = 'b'\nx = 1").await;
    let text = client.err("__session__ = 'c'\n1").await;
    assert!(text.contains("2 sessions are open (a, b), and run.max_sessions allows 2"), "{text}");
    let until = tokio::time::Instant::now() + Duration::from_mins(1);
    while client.ok("ot.sessions()").await != "[]" {
        assert!(tokio::time::Instant::now() < until, "the sessions never end");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(client.ok(&format!("{A}1")).await.contains("it was not used for 2 s"));
}

#[tokio::test]
async fn runs_of_one_session_take_turns() {
    let project = Project::empty();
    let client = project.serve().await;
    client.ok(&format!("{A}n = 0")).await;
    let code = format!("{A}before = n\nimport time\ntime.sleep(0.02)\nn = before + 1");
    let runs = futures_util::future::join_all((0..10).map(|_| client.ok(&code))).await;
    assert_eq!(runs.len(), 10);
    assert_eq!(client.ok(&format!("{A}n")).await, "10");
}

#[tokio::test]
async fn what_is_not_a_session_is_refused_before_anything_runs() {
    let project = Project::empty();
    let client = project.serve().await;
    for code in ["__session__ = 'a' + 'b'", "if 1:\n    __session__ = 'a'", "__session__ = ''", "__session__ = 5"] {
        let text = client.err(&format!("open('touched', 'w').close()\n{code}")).await;
        assert!(text.starts_with("ValueError:"), "{text}");
        assert!(!project.path().join("touched").exists());
    }
    project.write(".onetool/onetool.yaml", "run: {engine: monty}\n");
    client.ok("ot.reload()").await;
    let text = client.err(&format!("{A}1")).await;
    assert!(text.starts_with("RuntimeError:") && text.contains("run.engine"), "{text}");
}

/// A thread left behind by an earlier run gets no commands, and no answers for others.
#[tokio::test]
async fn what_a_run_leaves_behind_does_not_disturb_the_next() {
    let project = Project::empty();
    let client = project.serve().await;
    let thread = "import threading, time\nseen = []\ndef work():\n    while len(seen) < 5:\n        seen.append(ot.version())\n        time.sleep(0.01)\nt = threading.Thread(target=work, daemon=True)\nt.start()";
    client.ok(&format!("{A}{thread}")).await;
    for number in 0..10 {
        assert_eq!(client.ok(&format!("{A}{number}")).await, number.to_string());
    }
    let code = format!("{A}import time\nwhile len(seen) < 5:\n    ot.version()\n    time.sleep(0.01)\nlen(seen)");
    assert_eq!(client.ok(&code).await, "5");
}

#[tokio::test]
async fn sessions_belong_to_their_principal() {
    let tokens = "server:\n  tokens:\n    - {token: first-token-0123456789, scopes: [read, invoke]}\n    - {token: second-token-012345678, scopes: [read, invoke]}\n";
    let project = Project::with(tokens);
    let mut server = project.serve_http().await;
    server.token = Some("first-token-0123456789");
    let first = server.mcp().await;
    first.ok(&format!("{A}secret = 'mine'")).await;
    server.token = Some("second-token-012345678");
    let second = server.mcp().await;
    assert_eq!(second.ok("ot.sessions()").await, "[]");
    let text = second.err(&format!("{A}secret")).await;
    assert!(text.starts_with("NameError:") && !text.contains("mine"), "{text}");
    assert!(second.err("ot.end_session('b')").await.contains("open sessions: a"));
    second.ok("ot.end_session('a')").await;
    // The same principal finds it again on another connection.
    server.token = Some("first-token-0123456789");
    assert_eq!(server.mcp().await.ok(&format!("{A}secret")).await, "mine");
}

#[tokio::test]
async fn clients_without_a_token_share_no_session() {
    let project = Project::empty();
    let server = project.serve_http().await;
    let (first, second) = (server.mcp().await, server.mcp().await);
    first.ok(&format!("{A}secret = 'mine'")).await;
    assert!(second.err(&format!("{A}secret")).await.starts_with("NameError:"));
    assert_eq!(first.ok(&format!("{A}secret")).await, "mine");
}

/// The child of a session has the same restrictions as any other, and ends with its server.
#[tokio::test]
async fn a_session_has_the_same_walls() {
    let project = Project::empty();
    let client = project.serve().await;
    client.ok(&format!("{A}x = 1")).await;
    for code in [
        "open('/etc/passwd').read()",
        "import os\nos.fork()",
        "import socket\nsocket.socket()",
        "import subprocess\nsubprocess.run(['/bin/true'])",
        "import os\nos.kill(os.getppid(), 9)",
    ] {
        let text = client.err(&format!("{A}{code}")).await;
        assert!(text.starts_with("PermissionError:"), "{code}\n{text}");
    }
    assert_eq!(client.ok(&format!("{A}x")).await, "1");
    let pid: u32 = client.ok(&format!("{A}import os\nos.getpid()")).await.parse().unwrap();
    let parent: u32 = client.ok(&format!("{A}os.getppid()")).await.parse().unwrap();
    assert!(children(parent).contains(&pid));
    client.service.cancel().await.unwrap();
    eventually("the session's process ends", || !crate::client::is_alive(pid)).await;
}
