//! Commands for people: each shows a tool's answer, as a table or as JSON.

use serde_json::{Value as Json, json};

use crate::client::{BINARY, Project};

/// A command's output and exit code.
struct Outcome {
    out: String,
    err: String,
    code: i32,
}

impl Outcome {
    fn json(&self) -> Json {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {} {}", self.out, self.err))
    }
}

async fn outcome(project: &Project, arguments: &[&str]) -> Outcome {
    let output = project.command(arguments).output().await.unwrap();
    Outcome {
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
        code: output.status.code().unwrap(),
    }
}

/// A project whose only server is this program, with its own project.
fn with_server() -> Project {
    let project = Project::empty();
    project.write("upstream/.onetool/onetool.yaml", "stats: {enabled: false}\n");
    project.write(
        ".onetool/onetool.yaml",
        &format!(
            "servers:\n  up:\n    command: {BINARY}\n    args: [serve]\n    cwd: upstream\n  off:\n    enabled: false\n    command: x\n  gone:\n    command: no-such-program-anywhere\n"
        ),
    );
    project
}

#[tokio::test]
async fn health_is_a_page_and_json_and_fails_with_the_configuration() {
    let project = Project::empty();
    let page = outcome(&project, &["health"]).await;
    assert_eq!((page.code, page.err.as_str()), (0, ""));
    assert!(page.out.contains("version  0.") && !page.out.contains('\u{1b}'), "{}", page.out);
    let report = outcome(&project, &["health", "--json"]).await.json();
    assert_eq!(report["registry"]["status"], "ok");
    project.write(".onetool/onetool.yaml", "bogus: 1\n");
    let page = outcome(&project, &["health"]).await;
    assert_eq!(page.code, 1);
    assert!(page.out.contains("problem: ") && page.out.contains("line 1: bogus"), "{}", page.out);
}

#[tokio::test]
async fn tools_are_listed_described_and_given_as_json() {
    let project = Project::empty();
    let listed = outcome(&project, &["tools", "FILE.re", "--json"]).await.json();
    assert_eq!(listed[0]["name"], "file.read");
    let full = outcome(&project, &["tools", "file.read", "--full"]).await;
    assert!(full.out.starts_with("file.read(path: "), "{}", full.out);
    assert!(full.out.contains("  example: "), "{}", full.out);
    let none = outcome(&project, &["tools", "no-such-tool"]).await;
    assert_eq!((none.code, none.out.as_str()), (1, ""));
    let none = outcome(&project, &["tools", "no-such-tool", "--json"]).await;
    assert_eq!((none.code, none.json()), (1, json!([])));
}

#[tokio::test]
async fn help_explains_commands_tools_and_finds_words() {
    let project = Project::empty();
    assert!(outcome(&project, &["help"]).await.out.contains("Usage: onetool"));
    assert!(outcome(&project, &["help", "stats"]).await.out.contains("--period"));
    assert!(outcome(&project, &["help", "bundles", "tools", "invoke"]).await.out.contains("--dry-run"));
    assert!(outcome(&project, &["help", "file.read"]).await.out.contains("file.read("));
    assert!(outcome(&project, &["help", "find", "text", "in", "files"]).await.out.contains("file.grep"));
}

#[tokio::test]
async fn one_tool_is_called_without_code() {
    let project = Project::empty();
    project.write("5", "five\nsix\n");
    let call = |arguments: &'static [&'static str]| {
        let all: Vec<&str> = std::iter::once("call").chain(arguments.iter().copied()).collect();
        let project = &project;
        async move { outcome(project, &all).await }
    };
    // A path is text, whatever it looks like; the beginning of a parameter's name is enough.
    assert!(call(&["file.read", "pa=5"]).await.out.contains("five"));
    assert!(call(&["file.read", "--json", r#"{"path": "5"}"#]).await.out.contains("six"));
    assert_eq!(call(&["ot.version"]).await.out, format!("{}\n", env!("CARGO_PKG_VERSION")));
    assert!(call(&["ot.tools", "pattern=ot.version", "info=list"]).await.out.starts_with(r#"["ot.version"]"#));
    let wrong = call(&["file.read", "nope=1"]).await;
    assert_eq!((wrong.code, wrong.out.as_str()), (1, ""));
    assert!(wrong.err.starts_with("TypeError: file.read() got an unexpected keyword argument 'nope'"), "{}", wrong.err);
    assert!(call(&["file.reed"]).await.err.contains("did you mean 'read'?"));
    for (arguments, message) in [
        (&["file"][..], "not a tool name; expected pack.function"),
        (&["ot.tools", "pattern"], "expected name=value"),
        (&["ot.tools", "--json", "[]"], "one JSON object"),
    ] {
        let refused = call(arguments).await;
        assert!(refused.code != 0 && refused.err.contains(message), "{arguments:?}: {}", refused.err);
    }
}

#[tokio::test]
async fn stats_count_calls_and_write_a_page() {
    let project = Project::empty();
    outcome(&project, &["run", "ot.version()"]).await;
    outcome(&project, &["call", "file.read", "path=none"]).await;
    let report = outcome(&project, &["stats", "--period", "day", "--json"]).await.json();
    assert_eq!(report["total_runs"], 1);
    let tools: Vec<&str> =
        report["tools"].as_array().unwrap().iter().map(|tool| tool["tool"].as_str().unwrap()).collect();
    assert!(tools.contains(&"ot.version") && tools.contains(&"file.read"), "{tools:?}");
    let page = outcome(&project, &["stats", "--tool", "file", "--html", "report.html"]).await;
    assert!(
        page.out.contains("TOOL") && page.out.contains("file.read") && !page.out.contains("ot.version"),
        "{}",
        page.out
    );
    assert!(std::fs::read_to_string(project.path().join("report.html")).unwrap().contains("file.read"));
    let refused = outcome(&project, &["stats", "--html", "report.txt"]).await;
    assert!(refused.code == 1 && refused.err.contains("must end in .html"), "{}", refused.err);
    assert_eq!(outcome(&project, &["stats", "--period", "year"]).await.code, 2);
}

#[tokio::test]
async fn servers_are_listed_tested_and_accepted() {
    let project = with_server();
    let listed = outcome(&project, &["servers", "list", "--json"]).await.json();
    let states: Vec<_> = listed.as_array().unwrap().iter().map(|server| (&server["name"], &server["state"])).collect();
    assert_eq!(json!(states), json!([["up", "enabled"], ["off", "disabled"], ["gone", "enabled"]]));
    let tested = outcome(&project, &["servers", "test", "up"]).await;
    assert_eq!(tested.code, 0, "{}{}", tested.out, tested.err);
    assert!(tested.out.contains("connected"), "{}", tested.out);
    let all = outcome(&project, &["servers", "test", "--json"]).await;
    assert_eq!(all.code, 1);
    assert_eq!(all.json()[2]["state"], "disconnected");
    assert!(all.json()[2]["reason"].as_str().unwrap().contains("no-such-program-anywhere"));
    assert_eq!(outcome(&project, &["servers", "accept", "up"]).await.out, "accepted: up\n");
    let unknown = outcome(&project, &["servers", "accept", "nobody"]).await;
    assert!(unknown.code == 1 && unknown.err.contains("there are: up, off, gone"), "{}", unknown.err);
    assert!(outcome(&project, &["servers", "test", "nobody"]).await.err.contains("no server is named"));
    // A server's tool is called by name too.
    let called = outcome(&project, &["call", "up.run", "command=1 + 1"]).await;
    assert_eq!(called.out, "2\n", "{}", called.err);
}

#[tokio::test]
async fn files_to_begin_with_are_written_once() {
    let project = Project::empty();
    std::fs::remove_file(project.path().join(".onetool/onetool.yaml")).unwrap();
    assert_eq!(outcome(&project, &["init"]).await.code, 0);
    assert_eq!(outcome(&project, &["health"]).await.code, 0);
    project.write(".onetool/onetool.yaml", "version: 1\n");
    let again = outcome(&project, &["init"]).await;
    assert!(again.code == 1 && again.err.contains("exists already"), "{}", again.err);
    assert_eq!(std::fs::read_to_string(project.path().join(".onetool/onetool.yaml")).unwrap(), "version: 1\n");

    assert_eq!(outcome(&project, &["scaffold", "my-pack"]).await.code, 0);
    assert!(project.path().join(".onetool/tools/my_pack/my_pack_tools.py").is_file());
    let tools = outcome(&project, &["tools", "my_pack."]).await.out;
    assert!(tools.contains("my_pack.greet"), "{tools}");
    assert_eq!(outcome(&project, &["scaffold", "my-pack"]).await.code, 1);
    for name in ["file", "../..", "--"] {
        assert_ne!(outcome(&project, &["scaffold", name]).await.code, 0, "{name}");
    }
}

#[tokio::test]
async fn shells_get_their_completions() {
    let project = Project::empty();
    project.write(
        ".onetool/tools/shop/shop_tools.py",
        "from typing import Literal\ndef order(item: str, size: Literal['small', 'large'] = 'small', gift: bool = False) -> str:\n    return item\n\ndef refund(order_id: int) -> str:\n    return 'x'\n",
    );
    for shell in ["bash", "zsh", "fish", "elvish"] {
        let script = outcome(&project, &["completions", shell]).await.out;
        assert!(script.contains("onetool"), "{shell}");
    }
    // Real bash, with the unchanged script.
    let folder = std::path::Path::new(BINARY).parent().unwrap();
    for (line, expected) in [
        ("onetool sca", "scaffold "),
        ("onetool call sho", "shop.order shop.refund "),
        ("onetool call shop.ref", "shop.refund "),
        ("onetool call shop.order ", "item= size= gift= "),
        ("onetool call shop.order item=x si", "size= "),
        ("onetool call shop.order size=", "small large "),
        ("onetool call shop.order size=l", "large "),
        ("onetool call shop.order gift=t", "true "),
        ("onetool call file.read pa", "path= "),
        ("onetool help file.gre", "file.grep "),
        ("onetool servers te", "test "),
        ("onetool stats --jso", "--json "),
        ("onetool --project . call shop.refund or", "order_id= "),
    ] {
        let script = format!(
            "source <(onetool completions bash); COMP_LINE='{line}'; COMP_POINT=${{#COMP_LINE}}; COMP_WORDS=(onetool); _onetool; printf '%s ' \"${{COMPREPLY[@]}}\""
        );
        let mut command = tokio::process::Command::new("bash");
        command.args(["-c", &script]).current_dir(project.path()).env("HOME", project.home());
        let path = std::env::join_paths(
            std::iter::once(folder.to_owned()).chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
        );
        let output = command.env("PATH", path.unwrap()).output().await.unwrap();
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            expected,
            "{line}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

/// The scripts in their shells, as far as installed. Checks the completed command line.
#[tokio::test]
async fn shells_complete_what_is_typed() {
    let project = Project::empty();
    project.write(
        ".onetool/tools/shop/shop_tools.py",
        "from typing import Literal\ndef order(item: str, size: Literal['small', 'large'] = 'small') -> str:\n    return item\n\ndef refund(order_id: int) -> str:\n    return 'x'\n",
    );
    let folder = std::path::Path::new(BINARY).parent().unwrap().to_owned();
    let path =
        std::env::join_paths(std::iter::once(folder).chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())))
            .unwrap();
    let driver = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/complete_line.py");
    for shell in ["bash", "zsh", "fish"] {
        let is_here = tokio::process::Command::new(shell).arg("--version").output().await.is_ok();
        if !is_here {
            eprintln!("== {shell} is not installed: ITS COMPLETIONS ARE NOT TRIED");
            continue;
        }
        for (typed, whole) in [
            ("onetool sca", "onetool scaffold"),
            ("onetool call shop.ref", "onetool call shop.refund"),
            ("onetool call shop.order si", "onetool call shop.order size="),
            ("onetool call shop.order size=l", "onetool call shop.order size=large"),
        ] {
            let output = tokio::process::Command::new("python3")
                .arg(&driver)
                .args([shell, typed, whole])
                .current_dir(project.path())
                .env("HOME", project.home())
                .env("PATH", &path)
                .kill_on_drop(true)
                .output()
                .await
                .unwrap();
            assert!(output.status.success(), "{shell}: {typed}: {}", String::from_utf8_lossy(&output.stdout));
        }
    }
}

#[tokio::test]
async fn a_configuration_that_was_named_must_be_there() {
    let project = Project::empty();
    for arguments in [&["run", "1"][..], &["tools"], &["health"], &["call", "ot.version"], &["scaffold", "x"]] {
        let all: Vec<&str> = ["--config", "nope.yaml"].into_iter().chain(arguments.iter().copied()).collect();
        let refused = outcome(&project, &all).await;
        assert_eq!((refused.code, refused.out.as_str()), (2, ""), "{arguments:?}");
        assert!(refused.err.contains("nope.yaml: this file does not exist"), "{arguments:?}: {}", refused.err);
    }
    let by_variable = project.command(&["run", "1"]).env("ONETOOL_CONFIG", ".").output().await.unwrap();
    assert_eq!(by_variable.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&by_variable.stderr).contains("expected a file, found a folder"));
    // An empty variable counts as unset.
    let unset = project.command(&["run", "1"]).env("ONETOOL_CONFIG", "").output().await.unwrap();
    assert_eq!(unset.stdout, b"1\n");
    // Problems in its content do not prevent the rest from working.
    project.write("odd.yaml", "bogus: 1\n");
    let odd = outcome(&project, &["--config", "odd.yaml", "tools", "ot.version"]).await;
    assert_eq!(odd.code, 0);
    assert!(odd.err.starts_with("warning: ") && odd.err.contains("line 1: bogus"), "{}", odd.err);
}

#[tokio::test]
async fn a_folder_that_is_no_project_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let home = tempfile::tempdir().unwrap();
    // The user's own configuration applies everywhere.
    let upstream = Project::empty();
    std::fs::create_dir(home.path().join(".onetool")).unwrap();
    std::fs::write(
        home.path().join(".onetool/onetool.yaml"),
        format!("servers:\n  up:\n    command: {BINARY}\n    args: [serve]\n    cwd: {}\n", upstream.path().display()),
    )
    .unwrap();
    for arguments in [
        &["run", "ot.health()"][..],
        &["run", "boom"],
        &["call", "ot.version"],
        &["call", "file.read", "path=none"],
        &["tools"],
        &["help", "file.read"],
        &["help", "search", "files"],
        &["health"],
        &["stats"],
        &["servers", "list"],
        &["servers", "test"],
        &["servers", "accept", "up"],
        &["call", "up.run", "command=1"],
        &["bundles", "list"],
        &["bundles", "tools", "list"],
        &["bundles", "tools", "search", "npm"],
        &["bundles", "show", "file"],
        &["completions", "bash"],
        &["--help"],
        &["--version"],
    ] {
        let mut command = tokio::process::Command::new(BINARY);
        command.args(arguments).current_dir(folder.path()).env("HOME", home.path()).env_remove("ONETOOL_CONFIG");
        let output = command.output().await.unwrap();
        let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert!(left.is_empty(), "{arguments:?} leaves {left:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
