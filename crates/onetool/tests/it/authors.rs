//! The development loop of a tool author: visible prints, tracebacks, `onetool dev`, and packs that do not block.

use std::process::Stdio;

use serde_json::{Value as Json, json};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader, Lines};

use crate::client::{PATIENCE, Project};
use crate::terminal::on_terminal;

async fn output(project: &Project, arguments: &[&str]) -> (String, String, i32) {
    let output = project.command(arguments).output().await.unwrap();
    (
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
        output.status.code().unwrap(),
    )
}

fn pack(name: &str, code: &str) -> Project {
    let project = Project::empty();
    project.write(&format!(".onetool/tools/{name}/{name}_tools.py"), code);
    project
}

/// Reads lines up to the first that contains `text`, inclusive.
async fn until<R: AsyncRead + Unpin>(lines: &mut Lines<BufReader<R>>, text: &str) -> Vec<String> {
    let mut seen = Vec::new();
    let reading = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            seen.push(line);
            if seen.last().is_some_and(|line| line.contains(text)) {
                return;
            }
        }
        panic!("the end came before {text:?}: {seen:?}");
    };
    tokio::time::timeout(PATIENCE, reading).await.unwrap_or_else(|_| panic!("never {text:?}"));
    seen
}

#[tokio::test]
async fn what_a_tool_prints_is_seen_by_its_author() {
    let project = pack(
        "loud",
        "import sys\ndef speak(n: int) -> int:\n    print('first', n)\n    print('second', file=sys.stderr)\n    print('no end', end='')\n    return n * 2\n",
    );
    for arguments in [&["call", "loud.speak", "n=4"][..], &["run", "loud.speak(n=4)"]] {
        let (out, err, code) = output(&project, arguments).await;
        assert_eq!((out.as_str(), code), ("8\n", 0), "{err}");
        assert_eq!(err, "first 4\nsecond\nno end\n");
    }
    let log = std::fs::read_to_string(project.path().join(".onetool/logs/onetool.log")).unwrap();
    let printed: Vec<String> = log
        .lines()
        .filter_map(|line| serde_json::from_str::<Json>(line).ok())
        .filter(|line| line["pack"] == "loud")
        .filter_map(|line| line["output"].as_str().map(str::to_owned))
        .collect();
    assert_eq!(printed, ["first 4", "second", "no end", "first 4", "second", "no end"]);
}

#[tokio::test]
async fn one_slow_function_does_not_block_its_pack() {
    let project = pack(
        "slow",
        "import threading\nmeeting = threading.Barrier(3)\ndef meet(n: int) -> int:\n    meeting.wait(100)\n    return n\n",
    );
    let client = project.serve().await;
    let code = "import asyncio\nawait asyncio.gather(slow.meet(n=1), slow.meet(n=2), slow.meet(n=3))";
    assert_eq!(client.json(code).await, json!([1, 2, 3]));
}

const WEATHER: &str = "\"\"\"Weather.\"\"\"\nimport helper_module\n\ndef forecast(city: str, days: int = 1) -> dict:\n    \"\"\"What the weather will be.\"\"\"\n    print('asking for', city)\n    return {'city': city, 'days': days, 'sky': helper_module.sky()}\n";

#[tokio::test]
async fn dev_calls_once_and_tells_how_it_went() {
    let project = Project::empty();
    project.write("elsewhere/helper_module.py", "def sky():\n    return 'blue'\n");
    project.write("elsewhere/weather_tools.py", WEATHER);
    let file = "elsewhere/weather_tools.py";
    let (out, err, code) = output(&project, &["dev", file, "forecast", "city=Bern", "days=2", "--once"]).await;
    assert_eq!(serde_json::from_str::<Json>(&out).unwrap(), json!({"city": "Bern", "days": 2, "sky": "blue"}), "{err}");
    assert_eq!(code, 0);
    assert!(err.contains("asking for Bern\n") && err.contains("weather_tools.forecast returned after "), "{err}");
    let (out, _, code) = output(&project, &["dev", file, "--once"]).await;
    assert_eq!((out.as_str(), code), ("weather_tools.forecast(city: str, days: int = 1) -> dict\n", 0));
    let (_, err, code) = output(&project, &["dev", file, "forecast", "city=Bern", "days=soon", "--once"]).await;
    assert!(code == 1 && err.contains("days") && err.contains("forecast(city: str"), "{err}");
    project.write("elsewhere/helper_module.py", "def sky():\n    raise ValueError('no sky')\n");
    let (out, err, code) =
        output(&project, &["dev", file, "forecast", "--json", "{\"city\": \"Bern\"}", "--once"]).await;
    assert_eq!((out.as_str(), code), ("", 1));
    assert!(err.contains("Traceback") && err.contains("helper_module.py\", line 2, in sky"), "{err}");
    assert!(err.contains("error: ValueError: no sky") && err.contains("failed after "), "{err}");
    let (_, err, code) = output(&project, &["dev", "missing.py", "--once"]).await;
    assert!(code == 1 && err.contains("missing.py"), "{err}");
}

#[tokio::test]
async fn dev_calls_again_when_the_file_or_its_helper_changes() {
    let project = Project::empty();
    project.write("tools/helper_module.py", "def sky():\n    return 'blue'\n");
    project.write("tools/weather_tools.py", WEATHER);
    let arguments = ["dev", "tools/weather_tools.py", "forecast", "city=Bern"];
    let mut child = project.command(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut err = BufReader::new(child.stderr.take().unwrap()).lines();
    until(&mut out, "blue").await;
    until(&mut err, "watching ").await;
    // The helper is watched once the worker has reported it; earlier changes are not noticed.
    let editing = async {
        for number in 0.. {
            project.write("tools/helper_module.py", &format!("def sky():\n    return 'grey'  # {number}\n"));
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        }
    };
    tokio::select! {
        _ = until(&mut out, "grey") => {}
        () = editing => unreachable!(),
    }
    until(&mut err, "watching ").await;
    project.write("tools/weather_tools.py", "def forecast(city: str):\n    return (\n");
    let told = until(&mut err, "watching ").await;
    assert!(told.iter().any(|line| line.contains("error: ") && line.contains("weather_tools.py: line ")), "{told:?}");
    // A hanging call is abandoned when the file changes.
    project.write(
        "tools/weather_tools.py",
        "import time\ndef forecast(city: str):\n    print('hangs')\n    time.sleep(3600)\n",
    );
    until(&mut err, "hangs").await;
    project.write("tools/weather_tools.py", "def forecast(city: str):\n    return 'again'\n");
    until(&mut out, "again").await;
    until(&mut err, "watching ").await;
    let pid = rustix::process::Pid::from_raw(child.id().unwrap() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let status = tokio::time::timeout(PATIENCE, child.wait()).await.expect("Ctrl-C ends it").unwrap();
    assert!(status.success(), "{status}");
}

#[tokio::test]
async fn dev_works_on_a_terminal_with_colours_that_can_be_switched_off() {
    let project = Project::empty();
    project.write("t.py", "def f(n: int) -> int:\n    return n + 1\n");
    let (shown, code) = on_terminal(&project, &[("Ctrl-C ends", "^C")], &["dev", "t.py", "f", "n=41"], &[]).await;
    assert_eq!(code, 0, "{shown}");
    assert!(shown.contains("42") && shown.contains("\u{1b}[32mt.f returned after "), "{shown:?}");
    let plain = [("NO_COLOR", "1")];
    let (shown, _) = on_terminal(&project, &[("Ctrl-C ends", "^C")], &["dev", "t.py", "f", "n=41"], &plain).await;
    assert!(shown.contains("t.f returned after ") && !shown.contains("\u{1b}[3"), "{shown:?}");
}

#[tokio::test]
async fn a_pack_a_bundle_and_a_server_say_where_they_are_documented() {
    let project = Project::with(
        "servers:\n  up: {command: no-such-program, docs: 'https://up.example.org'}\ntools:\n  c: {docs: off}\nhttp:\n  allowed_hosts: [shop.example.org]\n",
    );
    for (name, docs) in [
        ("a", "docs = \"https://a.example.org/x\"\n"),
        ("b", "docs = \"off\"\n"),
        ("c", "docs = 'https://c.example.org'\n"),
        ("d", ""),
    ] {
        let code = format!("{docs}def f(n: int) -> int:\n    \"\"\"Adds.\"\"\"\n    return n\n");
        project.write(&format!(".onetool/tools/{name}/{name}_tools.py"), &code);
    }
    let server = project.serve_http().await;
    let client = server.mcp().await;
    assert!(client.ok("ot.help(query='a.f')").await.contains("Docs: https://a.example.org/x"));
    for off in ["b.f", "c.f"] {
        let page = client.ok(&format!("ot.help(query='{off}')")).await;
        assert!(!page.contains("Docs:"), "{page}");
    }
    assert!(client.ok("ot.help(query='d.f')").await.contains("Docs: https://onetool."));
    let id = "0193f2a0-0000-7000-8000-000000000001";
    let body = json!({"slug": "shop", "displayName": "Shop", "docs": "https://shop.example.org/api"});
    let (status, reply) = server.put(&format!("/tools/bundles/{id}"), body).await;
    assert!(status < 300, "{status} {reply}");
    assert_eq!(server.get(&format!("/tools/bundles/{id}")).await.1["docs"], "https://shop.example.org/api");
    let tool = json!({"displayName": "Ping", "type": "http", "impl": {"urlTemplate": "https://shop.example.org/ping"}});
    let (status, reply) = server.put(&format!("/tools/bundles/{id}/tools/ping/version/v1"), tool).await;
    assert!(status < 300, "{status} {reply}");
    let page = client.ok("ot.help(query='shop')").await;
    assert!(page.contains("Docs: https://shop.example.org/api"), "{page}");
    let (status, reply) =
        server.put(&format!("/tools/bundles/{id}"), json!({"slug": "shop", "docs": "shop docs"})).await;
    assert_eq!(status, 400, "{reply}");
}
