//! Requirements: Configuration Summary, Health Check, Version.

use serde_json::json;

use crate::client::Project;

use super::{House, example_project, house, keys};

const VERSION: &str = env!("CARGO_PKG_VERSION");

#[test]
fn show_config() {
    let house = house();
    let text = house.ok("ot.config()");
    assert!(
        text.starts_with("aliases: {ws: brave.web_search, alias_f: demo.foo, page: web.fetch, al: ot.aliases}\n"),
        "{text}"
    );
    assert!(text.contains("\nsnippets: {foon: {description: Get foo() for n items}, barn: {description: "), "{text}");
    assert!(text.ends_with("\nservers: [github]"), "{text}");
    let config = house.yaml("ot.config()");
    assert_eq!(keys(&config), ["aliases", "snippets", "servers"]);
    assert_eq!(config["snippets"]["barn"], json!({"description": "Get bar() for n items"}));
}

#[test]
fn empty_config() {
    let house = House::of(Project::empty());
    assert_eq!(house.ok("ot.config()"), "{aliases: {}, snippets: {}, servers: []}");
}

#[test]
fn show_health() {
    let house = house();
    let tools = house.yaml("ot.tools(info='list')").as_array().unwrap().len();
    let text = house.ok("ot.health()");
    // The version of full Python is shown once it is known.
    let python = text.lines().nth(1).unwrap_or_default();
    assert!(python.starts_with("python: \"3.14 (monty)"), "{text}");
    let expected = format!(
        "version: \"{VERSION}\"\n{python}\ncwd: {}\nregistry: {{status: ok, tool_count: {tools}}}\n\
         proxy: {{status: ok, server_count: 1, servers: {{github: connected}}}}",
        house.project.path().display()
    );
    assert!(text.starts_with(&expected), "{text}");
    assert!(!text.contains("problems"), "{text}");
}

/// A port without a listener.
fn closed_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn disconnected_server() {
    let project = example_project();
    let configuration = std::fs::read_to_string(project.path().join(".onetool/onetool.yaml")).unwrap();
    let servers = format!(
        "servers:\n  gone: {{command: no-such-program-anywhere}}\n  deaf: {{url: 'http://127.0.0.1:{}/mcp'}}\n  \
         silent: {{command: sleep, args: ['600']}}\n  resting: {{enabled: false, command: x}}\n",
        closed_port()
    );
    project.write(".onetool/onetool.yaml", &configuration.replace("servers:\n", &servers));
    let house = House::of(project);
    house.until("ot.health()", |text| text.contains("github: connected"));
    let health = house.yaml("ot.health()");
    assert_eq!(
        health["proxy"],
        json!({
            "status": "degraded",
            "server_count": 5,
            "servers": {
                "gone": "disconnected", "deaf": "disconnected", "silent": "disconnected", "resting": "disabled",
                "github": "connected",
            },
        })
    );
    // The existing tools are not affected.
    assert_eq!(health["registry"]["status"], "ok");
    // Each problem is reported once, with its reason.
    let text = house.ok("ot.health()");
    for (server, reason) in [
        ("gone", "'no-such-program-anywhere' can't be started"),
        ("deaf", "Connection refused"),
        ("silent", "it has not answered yet"),
        ("resting", "switched off in the configuration"),
    ] {
        assert_eq!(text.matches(&format!("server {server}: ")).count(), 1, "{server}: {text}");
        assert_eq!(text.matches(reason).count(), 1, "{server}: {text}");
    }
    assert_eq!(health["problems"].as_array().unwrap().len(), 3, "{text}");
}

#[test]
fn a_server_that_loses_its_connection_is_disconnected() {
    let house = House::of(example_project());
    house.until("ot.health()", |text| text.contains("github: connected"));
    house.project.write("server.py", "raise SystemExit('out of order')\n");
    house.project.write(
        ".onetool/onetool.yaml",
        "servers:\n  github: {command: python3, args: [server.py], env: {AGAIN: 'yes'}}\n",
    );
    house.ok("ot.reload()");
    let health = house.until("ot.health()", |text| text.contains("{github: disconnected}"));
    assert!(health.contains("proxy: {status: degraded, "), "{health}");
    assert!(health.contains("server github: "), "{health}");
}

#[test]
fn what_is_wrong_with_the_configuration_is_told_once() {
    let project = Project::with("bogus: 1\nservers:\n  needy: {command: '${NOT_THERE}'}\n");
    project.write(".onetool/tools/bad/bad_tools.py", "def f(:\n");
    for file in ["one", "two"] {
        project
            .write(&format!(".onetool/tools/{file}/{file}_tools.py"), "pack = 'same'\ndef f() -> int:\n    return 1\n");
    }
    let house = House::of(project);
    let text = house.ok("ot.health()");
    for told in ["unknown key 'bogus'", "'NOT_THERE' is neither", "bad_tools.py", "pack 'same' is already offered"] {
        assert_eq!(text.matches(told).count(), 1, "{told}: {text}");
    }
    assert_eq!(house.yaml("ot.health()")["problems"].as_array().unwrap().len(), 4, "{text}");
}

#[test]
fn a_folder_that_cannot_be_written_to_is_told() {
    let project = Project::with("output: {result_store_dir: results}\n");
    let fine = House::of(project);
    assert!(!fine.ok("ot.health()").contains("written"), "all is well");
    // A file in place of a folder: not even root can write there.
    fine.project.write(".onetool/results", "");
    let text = fine.ok("ot.health()");
    let folder = fine.project.path().join(".onetool/results");
    assert_eq!(text.matches(&format!("{} can't be written to", folder.display())).count(), 1, "{text}");
    drop(fine);

    // `.onetool` in a place that cannot be written to.
    let project = Project::empty();
    std::fs::remove_dir_all(project.path().join(".onetool")).unwrap();
    std::os::unix::fs::symlink("/proc", project.path().join(".onetool")).unwrap();
    let house = House::of(project);
    let text = house.ok("ot.health()");
    let folder = house.project.path().join(".onetool");
    assert_eq!(text.matches("can't be written to").count(), 1, "once, not for each folder in it: {text}");
    assert!(text.contains(&format!("{} can't be written to (", folder.display())), "{text}");
    assert_eq!(house.ok("1 + 1"), "2", "and the server works all the same");
}

#[test]
fn the_first_question_after_a_start_knows_the_servers() {
    for (question, part) in [
        ("ot.tools()", "github.search"),
        ("ot.packs()", "{name: github, source: proxy, tool_count: 2,"),
        ("ot.help(query='github.search')", "# github.search"),
        ("ot.health()", "{github: connected}"),
    ] {
        let answer = House::of(example_project()).ok(question);
        assert!(answer.contains(part), "{question}: {answer}");
    }
}

#[test]
fn a_server_that_never_answers_delays_nobody_for_long() {
    let project = Project::with("servers:\n  silent: {command: sleep, args: ['600'], timeout: 600}\n");
    let house = House::of(project);
    // Waiting for its own timeout would have exceeded the run's.
    assert!(house.ok("ot.packs()").contains("{name: silent, source: proxy, tool_count: 0,"));
}

#[test]
fn get_version() {
    assert_eq!(house().ok("ot.version()"), VERSION);
}
