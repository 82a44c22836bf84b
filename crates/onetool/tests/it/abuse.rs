//! Malicious or excessive code: each attempt gets a clear error, and the next run works at once.

use std::time::Duration;

use crate::client::{Answer, Project, call, children, eventually, is_alive};

/// Small limits, so that the tests are quick.
const LIMITS: &str = "run:\n  timeout: 1\n  max_memory_mb: 64\n  prewarm: 2\nstats:\n  enabled: false\n";

#[tokio::test]
async fn what_knows_no_measure_is_stopped_and_the_next_run_works() {
    let project = Project::with(LIMITS);
    let client = project.serve().await;
    let nested = format!("{}1{}", "(".repeat(5000), ")".repeat(5000));
    let nested_list = format!("{}{}", "[".repeat(300), "]".repeat(300));
    let chain = format!("{}1", "1+".repeat(60_000));
    let attributes = format!("a{}", ".b".repeat(60_000));
    let calls = format!("f{}", "()".repeat(60_000));
    let large = format!("x = '{}'", "a".repeat(10 << 20));
    let cases: Vec<(&str, &str)> = vec![
        ("while True: pass", "TimeoutError"),
        ("def g():\n    yield 1\nwhile True: pass", "TimeoutError"),
        ("[0] * 10 ** 10", "MemoryError"),
        ("a = []\nwhile True: a.append('x' * 1000)", "MemoryError"),
        ("def f(): return f()\nf()", "RecursionError"),
        ("exit(2)", "SystemExit"),
        ("input()", ""),
        ("2 ** 10 ** 9", ""),
        ("'x' * 10 ** 12", ""),
        (&nested, ""),
        (&nested_list, ""),
        (&chain, ""),
        (&attributes, ""),
        (&calls, ""),
        (&large, "at most"),
        ("open('/etc/passwd').read()", ""),
        ("import os\nos.system('id')", ""),
        ("import socket\nsocket.create_connection(('127.0.0.1', 1))", ""),
        ("raise SystemExit(3)", "SystemExit"),
        ("\0", "NUL"),
        ("", "empty"),
    ];
    for (code, expected) in cases {
        let text = client.run(code).await;
        // A shell that cannot be started gives an exit status, not an exception.
        let is_fine = text.is_error || code.starts_with("1+") || code.starts_with('[') || text.text == "32512";
        assert!(is_fine, "{code:.60}: {:.300}", text.text);
        assert!(text.text.contains(expected), "{code:.60}: {:.500}", text.text);
        assert!(text.text.len() < 64 << 10, "{code:.60}: {} bytes", text.text.len());
        assert_eq!(client.ok("1 + 1").await, "2", "after {code:.60}");
    }
}

#[tokio::test]
async fn a_flood_of_print_is_cut() {
    let project = Project::with("run: {timeout: 20}\n");
    let client = project.serve().await;
    let answer = client.run("for i in range(100):\n    print('x' * 1_000_000)").await;
    assert!(answer.text.len() < 64 << 10, "{} bytes", answer.text.len());
    assert_eq!(client.ok("1 + 1").await, "2");
}

#[tokio::test]
async fn a_killed_child_costs_one_run_at_most() {
    let project = Project::with("run: {prewarm: 2}\n");
    let client = project.serve().await;
    assert_eq!(client.ok("1").await, "1");
    for _ in 0..5 {
        for child in children(client.pid) {
            rustix::process::kill_process(
                rustix::process::Pid::from_raw(child as i32).unwrap(),
                rustix::process::Signal::KILL,
            )
            .unwrap();
        }
        assert_eq!(client.ok("1 + 1").await, "2");
    }
    // While it runs.
    let peer = client.service.peer().clone();
    let running = tokio::spawn(async move { peer.call_tool(call("while True: pass")).await });
    eventually("a child that runs", || !children(client.pid).is_empty()).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    for child in children(client.pid) {
        let _ = rustix::process::kill_process(
            rustix::process::Pid::from_raw(child as i32).unwrap(),
            rustix::process::Signal::KILL,
        );
    }
    let answer = Answer::of(&running.await.unwrap().unwrap());
    assert!(answer.is_error && answer.text.contains("died"), "{}", answer.text);
    assert_eq!(client.ok("1 + 1").await, "2");
}

#[tokio::test]
async fn no_state_leaks_from_run_to_run() {
    let project = Project::empty();
    let client = project.serve().await;
    client.ok("secret = 5").await;
    for _ in 0..4 {
        assert!(client.err("secret").await.starts_with("NameError"));
    }
    client.ok("ot = 5\nfile = 6").await;
    assert_eq!(client.ok("ot.version()").await, env!("CARGO_PKG_VERSION"));
}

#[tokio::test]
async fn every_request_gets_an_answer_even_one_that_is_no_message() {
    use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _};
    let project = Project::empty();
    let mut child = project
        .command(&["serve"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut lines = tokio::io::BufReader::new(child.stdout.take().unwrap()).lines();
    let hello = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
    let run = |id: u32, command: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"run","arguments":{{"command":"{command}"}}}}}}"#
        )
    };
    let deep = format!(r#"{{"jsonrpc":"2.0","id":3,"method":"ping","params":{}{}}}"#, "[".repeat(300), "]".repeat(300));
    let mut not_utf8 = run(2, "len('X')").into_bytes();
    let at = not_utf8.iter().position(|&byte| byte == b'X').unwrap();
    not_utf8[at] = 0xff;
    let messages: Vec<Vec<u8>> = vec![
        hello.into(),
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.into(),
        b"{not json".to_vec(),
        run(1, r"len('\ud83d')").into_bytes(),
        not_utf8,
        deep.into_bytes(),
        run(4, "1 + 1").into_bytes(),
        br#"{"jsonrpc":"2.0","id":5,"method":"tools/call","params":[1]}"#.to_vec(),
        br#"{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"run","arguments":"1"}}"#.to_vec(),
        br#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#.to_vec(),
        // The same id twice: the first run continues, the second is refused.
        run(7, r"import time\ntime.sleep(0.2)\n'first'").into_bytes(),
        run(7, "'second'").into_bytes(),
    ];
    for message in messages {
        input.write_all(&message).await.unwrap();
        input.write_all(b"\n").await.unwrap();
    }
    let mut answered = Vec::new();
    let mut sevenths = Vec::new();
    while answered.len() < 11 {
        let line = tokio::time::timeout(crate::client::PATIENCE, lines.next_line()).await.unwrap().unwrap().unwrap();
        let reply: serde_json::Value = serde_json::from_str(&line).unwrap();
        if reply["id"] == 5 || reply["id"] == 6 {
            let message = reply["error"]["message"].as_str().unwrap();
            assert!(message.contains("params") || message.contains("parameters"), "{reply}");
        }
        if reply["id"] == 7 {
            sevenths.push(reply["result"]["content"][0]["text"].as_str().unwrap_or("refused").to_owned());
        }
        answered.push(reply["id"].to_string());
    }
    answered.sort();
    assert_eq!(answered, ["0", "1", "2", "3", "4", "5", "6", "7", "7", "null", "null"]);
    assert_eq!(sevenths, ["refused", "first"]);
}

/// Python does not check its input, or anything else, while it computes such a large number.
#[tokio::test]
async fn a_tool_that_notices_nothing_does_not_outlive_a_server_that_is_killed() {
    let project = Project::with("stats:\n  enabled: false\n");
    project.write(
        ".onetool/tools/busy/busy_tools.py",
        "import os\n\n\ndef work(file: str) -> str:\n    \"\"\"Works.\"\"\"\n    open(file, 'w').write(str(os.getpid()))\n    \
         import sys\n    sys.set_int_max_str_digits(0)\n    return str(10 ** 30_000_000)[:1]\n",
    );
    let server = project.serve_http().await;
    let client = server.mcp().await;
    let file = project.path().join("worker.pid");
    let command = format!("busy.work(file={:?})", file.display().to_string());
    let call = tokio::spawn(async move {
        let _ = client.service.call_tool(call(&command)).await;
    });
    let worker = || std::fs::read_to_string(&file).ok().and_then(|text| text.parse::<u32>().ok());
    eventually("the tool works", || worker().is_some()).await;
    let worker = worker().unwrap();
    server.kill().await;
    eventually("the tool's process is gone", || !is_alive(worker)).await;
    call.abort();
}
