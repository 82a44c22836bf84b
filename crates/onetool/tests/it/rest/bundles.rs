//! The rules of bundles.

use serde_json::json;

use super::{Fixture, new_id, slugs, tool_path};

#[tokio::test]
async fn a_bundle_is_created_replaced_switched_deleted_and_revived() {
    let f = Fixture::start().await;
    let path = format!("/tools/bundles/{}", new_id());
    let (status, created) = f.server.put(&path, json!({"slug": "weather", "description": "one"})).await;
    assert_eq!((status, &created["isEnabled"], &created["isBuiltIn"]), (201, &json!(true), &json!(false)), "{created}");
    let (status, replaced) = f.server.put(&path, json!({"slug": "weather", "description": "two"})).await;
    assert_eq!((status, &replaced["description"]), (200, &json!("two")));
    assert_eq!(replaced["createdAt"], created["createdAt"]);
    assert_ne!(replaced["modifiedAt"], created["modifiedAt"]);
    assert_eq!(f.server.get(&path).await, (200, replaced.clone()));
    let (status, patched) = f.server.patch(&path, json!({"isEnabled": false})).await;
    assert_eq!((status, &patched["isEnabled"], &patched["modifiedAt"]), (200, &json!(false), &replaced["modifiedAt"]));
    assert_eq!(f.server.patch(&path, json!({"slug": "other"})).await.0, 400);

    assert_eq!(f.server.delete(&path).await.0, 204);
    assert_eq!(f.server.get(&path).await.0, 404);
    let file = f.project.path().join(".onetool").join(path.replace("/tools/", "")).join("bundle.json");
    assert!(std::fs::read_to_string(&file).unwrap().contains("\"softDeletedAt\""));
    let (_, all) = f.server.get("/tools/bundles?includeDisabled=true").await;
    assert!(!slugs(&all).contains(&"weather"));
    assert_eq!(f.server.put(&tool_path(&path, "now", "v1"), f.get("/x")).await.0, 404);

    let (status, revived) = f.server.put(&path, json!({"slug": "weather"})).await;
    assert_eq!((status, &revived["createdAt"]), (201, &created["createdAt"]));
    assert!(!std::fs::read_to_string(&file).unwrap().contains("\"softDeletedAt\": \""));
}

#[tokio::test]
async fn a_bundle_with_tools_is_not_deleted() {
    let f = Fixture::start().await;
    let bundle = f.bundle("weather").await;
    let tool = f.tool(&bundle, "now", "v1", f.get("/x")).await;
    let (status, body) = f.server.delete(&bundle).await;
    assert_eq!((status, &body["error"]["code"]), (409, &json!("conflict")), "{body}");
    assert_eq!(f.server.get(&tool).await.0, 200);
    assert_eq!(f.server.delete(&tool).await.0, 204);
    assert_eq!(f.server.delete(&bundle).await.0, 204);
}

#[tokio::test]
async fn inside_a_disabled_bundle_nothing_changes_and_nothing_is_called() {
    let f = Fixture::start().await;
    let bundle = f.bundle("weather").await;
    let tool = f.tool(&bundle, "now", "v1", f.get("/x")).await;
    assert_eq!(f.server.patch(&bundle, json!({"isEnabled": false})).await.0, 200);
    assert_eq!(f.server.put(&tool_path(&bundle, "now", "v2"), f.get("/x")).await.0, 409);
    assert_eq!(f.server.patch(&tool, json!({"isEnabled": false})).await.0, 409);
    assert_eq!(f.server.delete(&tool).await.0, 409);
    assert_eq!(f.invoke(&tool, json!({})).await.0, 409);
    assert_eq!(f.upstream.hits(), 0);
    let (_, hidden) = f.server.get("/tools/bundles").await;
    assert!(!slugs(&hidden).contains(&"weather"));
    let (_, hidden) = f.server.get("/tools/tools?recommendedPageSize=256").await;
    assert!(!slugs(&hidden).contains(&"now"));
    let (_, shown) = f.server.get("/tools/tools?recommendedPageSize=256&includeDisabled=true").await;
    assert!(slugs(&shown).contains(&"now"));
    assert_eq!(f.server.patch(&bundle, json!({"isEnabled": true})).await.0, 200);
    assert_eq!(f.invoke(&tool, json!({})).await.0, 200);
}

#[tokio::test]
async fn of_a_built_in_only_the_switch_changes_and_it_stays_over_a_restart() {
    let f = Fixture::start().await;
    let bundle = f.built_in("file").await;
    let read = tool_path(&bundle, "read", "v1");
    let before = f.server.get(&read).await;
    for (status, body) in [
        f.server.put(&bundle, json!({"slug": "file"})).await,
        f.server.delete(&bundle).await,
        f.server.put(&tool_path(&bundle, "read", "v2"), f.get("/x")).await,
        f.server.delete(&read).await,
    ] {
        assert_eq!((status, &body["error"]["code"]), (403, &json!("built_in")), "{body}");
    }
    assert_eq!(f.server.patch(&read, json!({"isEnabled": true, "description": "mine"})).await.0, 400);
    assert_eq!(f.server.get(&read).await, before);

    f.project.write("note.txt", "hello\n");
    assert_eq!(f.invoke(&read, json!({"path": "note.txt"})).await.0, 200);
    assert_eq!(f.server.patch(&read, json!({"isEnabled": false})).await.0, 200);
    let standard = f.built_in("std").await;
    assert_eq!(f.server.patch(&standard, json!({"isEnabled": false})).await.0, 200);
    f.server.stop().await;
    let server = f.project.serve_http().await;
    assert_eq!(server.get(&read).await.1["isEnabled"], false);
    assert_eq!(server.get(&standard).await.1["isEnabled"], false);
    let (status, body) = server.post(&format!("{read}/invoke"), json!({"args": {"path": "note.txt"}})).await;
    assert_eq!(status, 409, "{body}");
    assert_eq!(server.patch(&read, json!({"isEnabled": true})).await.0, 200);
    assert_eq!(server.post(&format!("{read}/invoke"), json!({"args": {"path": "note.txt"}})).await.0, 200);
}

#[tokio::test]
async fn bundles_are_paged_and_chosen_by_id() {
    let f = Fixture::start().await;
    let mut ids = Vec::new();
    for number in 0..3 {
        ids.push(f.bundle(&format!("b-{number}")).await.rsplit('/').next().unwrap().to_owned());
    }
    let (_, first) = f.server.get("/tools/bundles?pageSize=2").await;
    assert_eq!(slugs(&first), ["b-2", "b-1"]);
    let token = first["nextPageToken"].as_str().unwrap();
    let (_, second) = f.server.get(&format!("/tools/bundles?pageSize=1&pageToken={token}")).await;
    assert_eq!(slugs(&second), ["b-0"]);
    let (_, chosen) = f.server.get(&format!("/tools/bundles?bundleIDs={},{}", ids[0], ids[2])).await;
    assert_eq!(slugs(&chosen), ["b-2", "b-0"]);
    assert_eq!(chosen.get("nextPageToken"), None);
    let other = f.server.get(&format!("/tools/bundles?includeDisabled=true&pageToken={token}")).await;
    assert_eq!(
        (other.0, &other.1["error"]["code"]),
        (400, &json!("bad_page_token")),
        "a token is bound to its filters"
    );
}

#[tokio::test]
async fn ids_are_uuids_of_version_seven() {
    let f = Fixture::start().await;
    for id in ["1", "not-an-id", "c56a4180-65aa-42ec-a945-5fd21dec0538", "018faf50b7b67a019a05a22a6e0af101"] {
        let (status, body) = f.server.put(&format!("/tools/bundles/{id}"), json!({"slug": "x"})).await;
        assert_eq!((status, &body["ok"]), (400, &json!(false)), "{id}");
    }
}
