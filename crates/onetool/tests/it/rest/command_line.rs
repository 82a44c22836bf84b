//! `onetool bundles`: the same store, from a terminal.

use std::process::Stdio;

use serde_json::{Value as Json, json};
use tokio::io::AsyncWriteExt as _;

use super::{Fixture, SECRET, eventually, new_id, slugs};
use crate::client::Project;

/// Runs `onetool bundles …` with this input; returns exit code, stdout and stderr.
async fn bundles(project: &Project, arguments: &[&str], input: &Json) -> (i32, String, String) {
    let all: Vec<&str> = [&["bundles"], arguments].concat();
    let mut command = project.command(&all);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // A command that reads nothing may have ended already.
    let _ = stdin.write_all(input.to_string().as_bytes()).await;
    drop(stdin);
    let output = child.wait_with_output().await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

async fn json_of(project: &Project, arguments: &[&str], input: &Json) -> Json {
    let (code, out, err) = bundles(project, &[arguments, &["--json"]].concat(), input).await;
    assert_eq!(code, 0, "{arguments:?}: {err}");
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {out}"))
}

async fn refused(project: &Project, arguments: &[&str], input: &Json) -> (Json, String) {
    let (code, out, err) = bundles(project, &[arguments, &["--json"]].concat(), input).await;
    assert_eq!(code, 1, "{arguments:?}: {out}");
    (serde_json::from_str(&out).unwrap_or(Json::Null), err)
}

#[tokio::test]
async fn a_tool_is_stored_called_and_deleted_and_a_running_server_follows() {
    let f = Fixture::start().await;
    let (p, none) = (&f.project, &Json::Null);
    let client = f.server.mcp().await;
    let created = json_of(p, &["put", "weather"], &json!({"displayName": "Weather", "secrets": ["API_KEY"]})).await;
    assert_eq!((&created["slug"], &created["isEnabled"]), (&json!("weather"), &json!(true)));
    let id = created["bundleID"].as_str().unwrap();
    assert_eq!(json_of(p, &["show", "weather"], none).await, created);

    let file = f.project.write("tool.json", &f.get("/${city}?k=${API_KEY}").to_string());
    let put = ["tools", "put", "weather", "now", "v1", file.to_str().unwrap()];
    let stored = json_of(p, &put, none).await;
    let (conflict, err) = refused(p, &put, none).await;
    assert_eq!(conflict["error"]["code"], "conflict");
    assert!(err.starts_with("error: ") && err.contains("already"), "{err}");
    assert_eq!(json_of(p, &["tools", "show", id, "now"], none).await, stored);
    eventually(&client, "weather.now(city='Oslo')", |answer| answer.text.contains("/Oslo")).await;
    assert_eq!(f.server.get(&format!("/tools/bundles/{id}")).await.1["createdAt"], created["createdAt"]);

    let shown =
        json_of(p, &["tools", "invoke", "weather", "now", "--dry-run", "--args", "{\"city\": \"a b\"}"], none).await;
    assert_eq!(shown["request"]["url"], format!("{}/a%20b?k=REDACTED", f.upstream.base));
    let called = json_of(p, &["tools", "invoke", "weather", "now", "--args-file", "-"], &json!({"city": "Rome"})).await;
    assert_eq!((&called["ok"], &called["value"]["uri"]), (&json!(true), &json!("/Rome?k=[REDACTED]")));
    assert_eq!(f.upstream.seen.lock().last().unwrap()["uri"], format!("/Rome?k={SECRET}"));
    let (wrong, _) = refused(p, &["tools", "invoke", "weather", "now", "--args", "{\"city\": 1}"], none).await;
    assert_eq!(wrong["error"]["code"], "arguments");

    assert_eq!(json_of(p, &["tools", "disable", "weather", "now"], none).await["isEnabled"], false);
    let (off, _) = refused(p, &["tools", "invoke", "weather", "now"], none).await;
    assert_eq!(off["error"]["code"], "conflict");
    eventually(&client, "weather.now(city='Oslo')", |answer| answer.is_error).await;
    assert_eq!(json_of(p, &["tools", "enable", "weather", "now", "v1"], none).await["isEnabled"], true);
    assert_eq!(refused(p, &["delete", "weather"], none).await.0["error"]["code"], "conflict");
    json_of(p, &["tools", "delete", "weather", "now"], none).await;
    json_of(p, &["delete", "weather"], none).await;
    assert_eq!(refused(p, &["show", "weather"], none).await.0["error"]["code"], "not_found");
    assert_eq!(json_of(p, &["put", id], &json!({"slug": "weather"})).await["createdAt"], created["createdAt"]);
}

#[tokio::test]
async fn versions_are_told_apart_and_so_are_bundles_of_one_slug() {
    let f = Fixture::start().await;
    let (p, none) = (&f.project, &Json::Null);
    let bundle = f.bundle("own").await;
    for version in ["v1", "v2"] {
        f.tool(&bundle, "which", version, f.get(&format!("/{version}"))).await;
    }
    let (_, err) = refused(p, &["tools", "invoke", "own", "which"], none).await;
    assert!(err.contains("several versions: v2, v1"), "{err}");
    for version in ["v1", "v2"] {
        let called = json_of(p, &["tools", "invoke", "own", "which", version], none).await;
        assert_eq!(called["value"]["uri"], format!("/{version}"));
    }
    // Two bundles can only get the same slug by manual edits.
    let (id, twin) = (bundle.rsplit('/').next().unwrap(), new_id());
    let file = f.project.path().join(format!(".onetool/bundles/{id}/bundle.json"));
    let text = std::fs::read_to_string(file).unwrap().replace(id, &twin);
    f.project.write(&format!(".onetool/bundles/{twin}/bundle.json"), &text);
    let (_, err) = refused(p, &["show", "own"], none).await;
    assert!(err.contains(&twin), "{err}");
    let (missing, err) = refused(p, &["show", &new_id()], none).await;
    assert_eq!(missing["error"]["code"], "not_found", "{err}");
}

#[tokio::test]
async fn lists_and_searches_are_tables_for_people_and_pages_for_programs() {
    let f = Fixture::start().await;
    let (p, none) = (&f.project, &Json::Null);
    let bundle = f.bundle("own").await;
    for number in 0..3 {
        f.tool(&bundle, &format!("zebra-{number}"), "v1", f.get("/x")).await;
    }
    let page = json_of(p, &["tools", "list", "--bundle", "own", "--page-size", "2"], none).await;
    assert_eq!(slugs(&page), ["zebra-2", "zebra-1"]);
    let token = page["nextPageToken"].as_str().unwrap();
    let rest = json_of(p, &["tools", "list", "--bundle", "own", "--page-token", token], none).await;
    assert_eq!(slugs(&rest), ["zebra-0"]);
    assert_eq!(json_of(p, &["tools", "search", "zebra"], none).await, f.server.get("/tools/search?q=zebra").await.1);
    let (code, table, _) = bundles(p, &["tools", "list", "own"], none).await;
    assert_eq!(code, 0);
    assert_eq!(
        table.lines().next().unwrap().split_whitespace().collect::<Vec<_>>(),
        ["BUNDLE", "TOOL", "VERSION", "STATE", "DESCRIPTION"]
    );
    assert_eq!(table.lines().count(), 4);
    let (_, table, _) = bundles(p, &["list"], none).await;
    assert!(table.contains("brave") && table.contains("enabled"), "{table}");
    let file = json_of(p, &["disable", "file"], none).await;
    assert_eq!((&file["isBuiltIn"], &file["isEnabled"]), (&json!(true), &json!(false)));
    assert!(!slugs(&json_of(p, &["list"], none).await).contains(&"file"));
    assert!(slugs(&json_of(p, &["list", "--all"], none).await).contains(&"file"));
    let (denied, _) = refused(p, &["delete", "file"], none).await;
    assert_eq!(denied["error"]["code"], "built_in");
}

#[tokio::test]
async fn the_example_bundle_can_be_stored_and_its_key_stays_hidden() {
    let project = Project::with("http: {allowed_hosts: [api.weatherapi.com]}\n");
    project.write(".onetool/secrets.yaml", "WEATHER_API_KEY: a-key-that-nobody-sees\n");
    let examples = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/bundles");
    let (none, mut seen) = (&Json::Null, 0);
    for bundle in std::fs::read_dir(&examples).unwrap().map(|entry| entry.unwrap().path()) {
        let slug = bundle.file_name().unwrap().to_str().unwrap();
        json_of(&project, &["put", slug, bundle.join("bundle.json").to_str().unwrap()], none).await;
        for tool in std::fs::read_dir(&bundle).unwrap().map(|entry| entry.unwrap().path()) {
            let name = tool.file_stem().unwrap().to_str().unwrap();
            if name != "bundle" {
                json_of(&project, &["tools", "put", slug, name, "v1", tool.to_str().unwrap()], none).await;
                seen += 1;
            }
        }
    }
    assert_ne!(seen, 0);
    let arguments = ["tools", "invoke", "weather", "current", "--dry-run", "--args", "{\"city\": \"São Paulo\"}"];
    let shown = json_of(&project, &arguments, none).await;
    let url = "https://api.weatherapi.com/v1/current.json?q=S%C3%A3o%20Paulo&key=REDACTED";
    assert_eq!(shown["request"]["url"], url);
}
