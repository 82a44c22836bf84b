//! What is known about a server, with and without a connection.

use std::time::Duration;

use onetool_proxy::{Enabled, ServerSettings, ServerState};
use onetool_sdk::{Origin, Severity, ToolSource};
use serde_json::json;

use crate::fixture::{House, call, connected, context, pack, python, server, server_file, status, text, until};

#[tokio::test]
async fn a_server_is_a_pack_with_signatures() {
    let house = House::new();
    let source = connected(&house, &[]).await;
    let pack = pack(&source, "fixture");
    assert_eq!(pack.origin, Origin::Proxy { server: "fixture".into() });
    assert_eq!(pack.origin.label(), "proxy:fixture");
    assert_eq!(pack.note, None);
    assert_eq!(pack.description, "Tools of the MCP server 'fixture' (Fixture)\nUse echo.");
    assert_eq!(pack.tools["echo"].signature.render("fixture.echo"), "fixture.echo(text: str) -> str | dict | list");
    assert_eq!(pack.tools["add"].signature.render("add"), "add(a: float, b: float) -> float");
    assert_eq!(pack.tools["search_repos"].signature.render("s"), "s(query: str, **kwargs) -> str | dict | list");
    // All pages, without the tool that has no name.
    assert_eq!(status(&source, "fixture").tool_count, 21);
    source.shutdown().await;
}

#[tokio::test]
async fn the_first_call_waits_for_a_server_that_is_still_connecting() {
    let house = House::new();
    connected(&house, &[]).await.shutdown().await;
    let source = house.source(vec![server("fixture", &[])]);
    // Known from the last connection, before anything is connected.
    let before = pack(&source, "fixture");
    assert!(before.note.as_deref().unwrap().contains("not connected"), "{:?}", before.note);
    assert_eq!(status(&source, "fixture").state, ServerState::Connecting);
    let generation = source.generation();
    assert_eq!(text(&source, "fixture.echo", json!({"text": "x"})).await, "x");
    until("the note is gone", || pack(&source, "fixture").note.is_none()).await;
    assert_ne!(source.generation(), generation);
    source.shutdown().await;
}

#[tokio::test]
async fn tools_are_known_without_the_server() {
    let house = House::new();
    let program = house.path().join("python3");
    std::os::unix::fs::symlink(python(), &program).unwrap();
    let file = server_file().to_string_lossy().into_owned();
    let settings = || ServerSettings::stdio("fixture", program.to_string_lossy(), [file.clone()]);
    let source = house.source(vec![settings()]);
    until("it is connected", || status(&source, "fixture").state == ServerState::Connected).await;
    source.shutdown().await;
    std::fs::remove_file(&program).unwrap();
    let source = house.source(vec![settings()]);
    until("it is found out", || status(&source, "fixture").state == ServerState::Disconnected).await;
    let pack = pack(&source, "fixture");
    assert_eq!(pack.tools.len(), 25);
    assert!(pack.note.as_deref().unwrap().contains("listed as they were"));
    source.shutdown().await;
}

#[tokio::test]
async fn changed_tools_are_seen() {
    let house = House::new();
    let source = connected(&house, &[]).await;
    let generation = source.generation();
    text(&source, "fixture.change", json!({"description": "Say it twice."})).await;
    until("the new tool is there", || pack(&source, "fixture").tools.contains_key("extra")).await;
    assert_ne!(source.generation(), generation);
    assert_eq!(text(&source, "fixture.extra", json!({})).await, "extra");
    source.shutdown().await;
}

#[tokio::test]
async fn fifty_servers_half_of_them_broken_start_without_anybody_waiting() {
    let house = House::new();
    let mut servers = Vec::new();
    for number in 0..50 {
        let name = format!("s{number}");
        servers.push(match number % 10 {
            0 | 5 => server(&name, &["--mode", "exit"]),
            1 => ServerSettings { timeout: Duration::from_mins(1), ..server(&name, &["--mode", "silent"]) },
            2 => ServerSettings::stdio(&name, "/no/such/program", [""; 0]),
            3 => ServerSettings::http(&name, "http://127.0.0.1:9/mcp"),
            _ => server(&name, &[]),
        });
    }
    let source = house.source(servers);
    assert_eq!(source.packs().len(), 50);
    // This thread has not yielded, so no task has run yet.
    assert!(source.status().iter().all(|status| status.state == ServerState::Connecting));
    // A wanted server skips the queue.
    let _ = source.settle("s49", &context()).await;
    assert_eq!(text(&source, "s49.echo", json!({"text": "x"})).await, "x");
    source.shutdown().await;
    assert!(source.status().iter().all(|status| status.state == ServerState::Disconnected));
}

#[tokio::test]
async fn servers_that_cannot_be_used_say_why() {
    let house = House::new();
    let off = ServerSettings { enabled: Enabled::No { reason: "TOKEN is not set".into() }, ..server("off", &[]) };
    let bad = ServerSettings { include: vec!["[".into()], ..server("bad", &[]) };
    let source = house.source(vec![off, bad, server("my-one", &[]), server("my_one", &[])]);
    let states: Vec<_> = source.status().into_iter().map(|status| (status.name, status.state)).collect();
    assert_eq!(states[0], ("off".to_owned(), ServerState::Disabled));
    assert_eq!(states[1], ("bad".to_owned(), ServerState::Disabled));
    assert_eq!(states[3], ("my_one".to_owned(), ServerState::Disabled));
    assert_eq!(source.packs().iter().map(|pack| pack.name.clone()).collect::<Vec<_>>(), ["my_one"]);
    let health = source.health();
    assert_eq!(health[0].severity, Severity::Info);
    assert_eq!(health[0].message, "disabled: TOKEN is not set");
    assert!(health[2].message.contains("like that of the server 'my-one'"), "{health:?}");
    let _ = source.settle("my_one", &context()).await;
    assert!(call(&source, "my_one.echo", json!({"text": "x"})).await.is_ok());
    source.shutdown().await;
}

#[tokio::test]
async fn odd_tools_are_left_out_or_made_fit() {
    let house = House::new();
    let source = connected(&house, &["--mode", "odd"]).await;
    let pack = pack(&source, "fixture");
    let of = |name: &str| pack.tools.get(name).unwrap_or_else(|| panic!("no {name}"));
    assert!(pack.tools.keys().all(|name| onetool_sdk::is_python_identifier(name)));
    assert_eq!(of("twice").description, "the first");
    assert_eq!(of("bidi").description, "Adds two numbers.");
    assert!(of("long").description.chars().count() <= 4_100);
    assert_eq!(of("class_").name, "class_");
    assert_eq!(of("文字").name, "文字");
    assert!(pack.tools.keys().all(|name| name.chars().count() <= 130));
    for name in ["list_schema", "no_schema", "true_schema", "huge"] {
        assert_eq!(of(name).signature.render(name), format!("{name}(**kwargs) -> str | dict | list"));
    }
    for name in ["text_schema", "odd_parts", "null_parts", "cyclic", "around", "deep"] {
        assert!(of(name).signature.render(name).starts_with(&format!("{name}(")), "{name}");
    }
    // As many as allowed, of more.
    assert!(pack.tools.len() > 4_900 && pack.tools.len() <= 5_004, "{}", pack.tools.len());
    let error = call(&source, "fixture.twice", json!({})).await.unwrap_err();
    assert_eq!(error.message, "fixture.twice: no tool twice");
    source.shutdown().await;
}
