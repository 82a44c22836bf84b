//! An import that is killed midway leaves all of it or none of it.

use std::process::Stdio;
use std::time::{Duration, Instant};

use onetool_state_postgres::testing::Server;
use serde_json::{Map, Value as Json, json};

use crate::client::{PATIENCE, Project};

const OPERATIONS: usize = 400;

fn document() -> String {
    let description = "What this does, at some length. ".repeat(20);
    let paths: Map<String, Json> = (0..OPERATIONS)
        .map(|number| {
            let operation = json!({"operationId": format!("op_{number}"), "summary": "S", "description": description,
                "responses": {"200": {"description": "ok"}}});
            (format!("/r{number}"), json!({ "get": operation }))
        })
        .collect();
    json!({"openapi": "3.1.0", "info": {"title": "Shop", "version": "1"}, "servers": [{"url": "http://127.0.0.1:9"}], "paths": paths})
        .to_string()
}

async fn tool_count(project: &Project) -> usize {
    tools_of_shop(project).await.unwrap()
}

#[tokio::test]
async fn an_import_into_a_bundle_is_all_or_nothing_also_when_it_is_killed() {
    let project = Project::with("http: {allowed_hosts: ['127.0.0.1:9']}\n");
    project.write("one.json", &json!({"openapi": "3.1.0", "info": {"title": "Shop", "version": "1"}, "servers": [{"url": "http://127.0.0.1:9"}],
        "paths": {"/first": {"get": {"operationId": "first", "responses": {"200": {"description": "ok"}}}}}}).to_string());
    project.write("many.json", &document());
    let first = project.command(&["bundles", "import", "one.json"]).output().await.unwrap();
    assert!(first.status.success(), "{}", String::from_utf8_lossy(&first.stderr));
    assert_eq!(tool_count(&project).await, 1);
    let list = project.path().join(".onetool/bundles/.batch");
    let mut outcomes = Vec::new();
    // Killed as soon as the intent is written, then a little later each time.
    for pause in [0, 2, 5, 10, 20, 40] {
        let mut command = project.command(&["bundles", "import", "many.json", "--on-conflict", "skip"]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let started = Instant::now();
        while !list.exists() && child.try_wait().unwrap().is_none() {
            assert!(started.elapsed() < PATIENCE);
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        tokio::time::sleep(Duration::from_millis(pause)).await;
        let _ = child.kill().await;
        let count = tool_count(&project).await;
        assert!(count == 1 || count == 1 + OPERATIONS, "{pause} ms: {count} tools");
        assert!(!list.exists());
        outcomes.push(count);
        if count > 1 {
            break;
        }
    }
    assert_eq!(outcomes.last(), Some(&(1 + OPERATIONS)), "what was written down counts: {outcomes:?}");
}

/// The number of tools in the bundle, if it exists.
async fn tools_of_shop(project: &Project) -> Option<usize> {
    let listed = project.command(&["bundles", "list", "--json"]).output().await.unwrap();
    let listed: Json = serde_json::from_slice(&listed.stdout).unwrap();
    let bundles = listed["bundles"].as_array().unwrap_or_else(|| panic!("{listed}"));
    let shop = bundles.iter().find(|bundle| bundle["slug"] == "shop")?;
    shop["toolCount"].as_u64().and_then(|count| count.try_into().ok())
}

/// Slows down every document, so that the process is killed between the first and the last.
const SLOWLY: &str = "
CREATE FUNCTION slowly() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.02); RETURN NEW; END $$;
CREATE TRIGGER slowly BEFORE INSERT ON onetool_documents FOR EACH ROW EXECUTE FUNCTION slowly()";
const HALF_WAY: &str = "SELECT count(*) FROM pg_stat_activity WHERE datname = 'imports'
    AND query LIKE '%onetool_put_1%' AND xact_start < clock_timestamp() - interval '300 milliseconds'";

#[tokio::test]
async fn an_import_into_a_database_is_all_or_nothing_also_when_it_is_killed() {
    let database = tokio::task::spawn_blocking(Server::start).await.unwrap();
    let project =
        Project::with(&format!("state: {}\nhttp: {{allowed_hosts: ['127.0.0.1:9']}}\n", database.database("imports")));
    project.write("many.json", &document());
    assert_eq!(tools_of_shop(&project).await, None);
    database.ask("imports", SLOWLY);
    let mut command = project.command(&["bundles", "import", "many.json"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let started = Instant::now();
    while database.ask("imports", HALF_WAY) != "1" {
        assert!(started.elapsed() < PATIENCE && child.try_wait().unwrap().is_none(), "it is never half-way");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    child.kill().await.unwrap();
    assert_eq!(tools_of_shop(&project).await, None, "nothing of it is there");
    database.ask("imports", "DROP TRIGGER slowly ON onetool_documents");
    assert_eq!(tools_of_shop(&project).await, None, "and nothing comes");
    let again = project.command(&["bundles", "import", "many.json"]).output().await.unwrap();
    assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stderr));
    assert_eq!(tools_of_shop(&project).await, Some(OPERATIONS));
}

/// Bundles that are loaded in the background at startup are complete before a command uses them.
#[tokio::test]
async fn a_command_sees_a_large_bundle() {
    let project = Project::with("http: {allowed_hosts: ['127.0.0.1:9']}\n");
    project.write("many.json", &document());
    let imported = project.command(&["bundles", "import", "many.json"]).output().await.unwrap();
    assert!(imported.status.success(), "{}", String::from_utf8_lossy(&imported.stderr));
    for arguments in [
        &["tools", "shop.op_7", "--json"][..],
        &["run", "ot.tools(pattern='shop.op_7')"],
        &["call", "ot.tools", "pattern=shop.op_7"],
    ] {
        let output = project.command(arguments).output().await.unwrap();
        let shown = String::from_utf8(output.stdout).unwrap();
        assert!(shown.contains("shop.op_7"), "{arguments:?}: {shown}{}", String::from_utf8_lossy(&output.stderr));
    }
}
