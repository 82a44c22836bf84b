//! Sends malformed MCP lines to the real server: it keeps answering.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use serde_json::Value as Json;

use crate::client::{BINARY, Project};

#[path = "../../../../cases/fuzz/fuzzing.rs"]
mod fuzzing;

const HELLO: &str = r#"{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
/// Number of lines after which the server must answer a check.
const LINES_PER_CHECK: u64 = 50;

#[test]
fn fuzz_lines_of_clients() {
    let project = Project::with("run: {timeout: 1, max_memory_mb: 64}\nstats: {enabled: false}\n");
    let mut child = Command::new(BINARY)
        .arg("serve")
        .current_dir(project.path())
        .env("HOME", project.home())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let (answered, answers) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for line in output.lines().map_while(Result::ok) {
            let Ok(message) = serde_json::from_str::<Json>(&line) else { panic!("not JSON: {line:.500}") };
            if let Some(id) = message["id"].as_str().and_then(|id| id.strip_prefix("check-")) {
                let _ = answered.send(id.parse::<u64>().unwrap());
            }
        }
    });
    let ready = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    input.write_all(format!("{HELLO}\n{ready}\n").as_bytes()).unwrap();
    let messages = fuzzing::Messages::json(&[
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run","arguments":{"command":"1 + 1"}}}"#,
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"cursor":"x"}}"#,
        r#"{"jsonrpc":"2.0","id":3,"method":"resources/read","params":{"uri":"ot://tools"}}"#,
        r#"{"jsonrpc":"2.0","id":4,"method":"prompts/get","params":{"name":"p","arguments":{"a":"b"}}}"#,
        r#"{"jsonrpc":"2.0","id":5,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":"v"}}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"r"}}"#,
        r#"{"jsonrpc":"2.0","id":6,"method":"logging/setLevel","params":{"level":"debug"}}"#,
        r#"{"jsonrpc":"2.0","id":7,"result":{"action":"accept","content":{"allow":true}}}"#,
        ready,
        HELLO,
    ]);
    let mut sent = 0_u64;
    fuzzing::fuzz("clients", &messages, |message| {
        // A line may exceed the server's limit, but only slightly here.
        let line = &message[..message.len().min(256 << 10)];
        input.write_all(line).and_then(|()| input.write_all(b"\n")).expect("the server takes lines");
        sent += 1;
        if sent.is_multiple_of(LINES_PER_CHECK) {
            let check = format!("\n{{\"jsonrpc\":\"2.0\",\"id\":\"check-{sent}\",\"method\":\"ping\"}}\n");
            input.write_all(check.as_bytes()).expect("the server takes lines");
            while answers.recv_timeout(crate::client::PATIENCE).expect("the server answers") != sent {}
        }
    });
    drop(input);
    let status = child.wait().unwrap();
    assert!(status.code().is_some(), "the server was killed: {status}");
}
