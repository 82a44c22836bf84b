//! The rules of tools: names, conflicts, timestamps, pages and search.

use reqwest::Method;
use serde_json::json;

use super::{Fixture, slugs, tool_path};
use crate::client::reply;

#[tokio::test]
async fn a_second_put_is_a_conflict_and_changes_nothing() {
    let f = Fixture::start().await;
    let bundle = f.bundle("weather").await;
    let tool = f.tool(&bundle, "now", "v1", f.get("/one")).await;
    let (status, before) = f.server.get(&tool).await;
    assert_eq!(status, 200);
    let (status, body) = f.server.put(&tool, f.get("/two")).await;
    assert_eq!((status, &body["error"]["code"]), (409, &json!("conflict")));
    assert_eq!(f.server.get(&tool).await.1, before);
    let (_, called) = f.invoke(&tool, json!({})).await;
    assert_eq!(called["value"]["uri"], "/one");
}

#[tokio::test]
async fn names_are_unique_per_bundle_and_case_counts() {
    let f = Fixture::start().await;
    let (first, second) = (f.bundle("one").await, f.bundle("two").await);
    f.tool(&first, "now", "v1", f.get("/x")).await;
    f.tool(&first, "now", "v1.0-β", f.get("/x")).await;
    f.tool(&first, "Now", "v1", f.get("/x")).await;
    f.tool(&first, "wetter-für-köln", "V1", f.get("/x")).await;
    f.tool(&first, &"天".repeat(64), "1", f.get("/x")).await;
    f.tool(&second, "now", "v1", f.get("/x")).await;
    for (slug, version) in [
        ("a_b", "v1"),
        ("a%20b", "v1"),
        ("a%2Fb", "v1"),
        ("a.b", "v1"),
        ("a%00b", "v1"),
        ("a+b", "v1"),
        ("a", "v_1"),
        ("a", "v%2F1"),
        ("a", "v 1"),
        (&"x".repeat(65), "v1"),
        ("a", &"x".repeat(65)),
    ] {
        let (status, body) = f.server.put(&tool_path(&first, slug, version), f.get("/x")).await;
        assert_eq!(status, 400, "{slug} {version}: {body}");
    }
}

#[tokio::test]
async fn times_are_the_stores_and_a_switch_is_no_structural_change() {
    let f = Fixture::start().await;
    let bundle = f.bundle("weather").await;
    let mut body = f.get("/x");
    body["createdAt"] = json!("2024-05-14T13:44:00Z");
    let tool = f.tool(&bundle, "now", "v1", body).await;
    let (_, stored) = f.server.get(&tool).await;
    assert_eq!(stored["createdAt"], stored["modifiedAt"]);
    assert_ne!(stored["createdAt"], "2024-05-14T13:44:00Z");
    assert_eq!(stored["toolID"].as_str().unwrap().as_bytes()[14], b'7', "a UUIDv7");
    let (_, switched) = f.server.patch(&tool, json!({"isEnabled": false})).await;
    assert_eq!((&switched["isEnabled"], &switched["modifiedAt"]), (&json!(false), &stored["modifiedAt"]));
    assert_eq!(f.server.patch(&tool, json!({"isEnabled": true, "description": "x"})).await.0, 400);
}

#[tokio::test]
async fn a_deleted_tool_is_gone_and_its_name_is_free() {
    let f = Fixture::start().await;
    let bundle = f.bundle("weather").await;
    let tool = f.tool(&bundle, "now", "v1", f.get("/one")).await;
    assert_eq!(f.server.delete(&tool).await.0, 204);
    assert_eq!(f.server.get(&tool).await.0, 404);
    assert_eq!(f.server.delete(&tool).await.0, 404);
    assert_eq!(f.invoke(&tool, json!({})).await.0, 404);
    f.tool(&bundle, "now", "v1", f.get("/two")).await;
    assert_eq!(f.invoke(&tool, json!({})).await.1["value"]["uri"], "/two");
}

#[tokio::test]
async fn a_tool_that_could_never_be_called_is_not_stored() {
    let f = Fixture::start().await;
    let bundle = f.bundle("weather").await;
    let path = tool_path(&bundle, "now", "v1");
    for (url, reason) in [
        ("ftp://example.com/", "http"),
        ("/relative", "http"),
        ("https://elsewhere.example.com/", "allowed_hosts"),
        (&format!("{}/${{nobody}}", f.upstream.base), "neither an argument nor a secret"),
        (&format!("{}/${{city", f.upstream.base), ""),
    ] {
        let mut body = f.get("/");
        body["impl"]["urlTemplate"] = json!(url);
        let (status, reply) = f.server.put(&path, body).await;
        assert_eq!(status, 400, "{url}: {reply}");
        assert!(reply["error"]["message"].as_str().unwrap().contains(reason), "{url}: {reply}");
    }
    for (field, value) in
        [("argSchema", json!({"type": 7})), ("type", json!("shell")), ("surprise", json!(1)), ("slug", json!("other"))]
    {
        let mut body = f.get("/");
        body[field] = value;
        assert_eq!(f.server.put(&path, body).await.0, 400, "{field}");
    }
    for function in ["", "a\u{85}b", &"x".repeat(257)] {
        let body = json!({"type": "native", "impl": {"function": function}});
        assert_eq!(f.server.put(&path, body).await.0, 400, "{function:?}");
    }
    assert_eq!(f.server.get(&path).await.0, 404);
}

#[tokio::test]
async fn a_native_function_that_is_not_in_this_build_is_kept_and_shown_disabled() {
    let f = Fixture::start().await;
    let bundle = f.bundle("old").await;
    let body = json!({"type": "go", "impl": {"goFunc": "github.com/acme/agent/tools.Weather"}});
    let tool = f.tool(&bundle, "weather", "v1", body).await;
    let (_, shown) = f.server.get(&tool).await;
    assert_eq!((&shown["type"], &shown["isEnabled"]), (&json!("native"), &json!(false)));
    assert_eq!(shown["impl"]["function"], "github.com/acme/agent/tools.Weather");
    assert!(shown["disabledReason"].as_str().unwrap().contains("not in this build"), "{shown}");
    assert_eq!(f.invoke(&tool, json!({})).await.0, 409);
}

#[tokio::test]
async fn an_entity_tag_guards_against_changes_in_between() {
    let f = Fixture::start().await;
    let bundle = f.bundle("weather").await;
    let tool = f.tool(&bundle, "now", "v1", f.get("/x")).await;
    let read = f.server.request(Method::GET, &tool).send().await.unwrap();
    let etag = read.headers()["etag"].to_str().unwrap().to_owned();
    let patch = |tag: &str| {
        reply(f.server.request(Method::PATCH, &tool).header("if-match", tag).json(&json!({"isEnabled": false})))
    };
    assert_eq!(patch("\"another\"").await.0, 412);
    assert_eq!(reply(f.server.request(Method::GET, &tool).header("if-none-match", &etag)).await.0, 304);
    assert_eq!(patch(&etag).await.0, 200);
    assert_eq!(patch(&etag).await.0, 412);
}

#[tokio::test]
async fn pages_are_bound_to_their_filters_and_miss_nothing() {
    let f = Fixture::start().await;
    let bundle = f.bundle("weather").await;
    let id = bundle.rsplit('/').next().unwrap();
    for number in 0..5 {
        let mut body = f.get("/x");
        body["tags"] = json!([if number % 2 == 0 { "even" } else { "odd" }]);
        f.tool(&bundle, &format!("t-{number}"), "v1", body).await;
    }
    let list = format!("/tools/tools?bundleIDs={id}&recommendedPageSize=2");
    let (_, first) = f.server.get(&list).await;
    assert_eq!(slugs(&first), ["t-4", "t-3"]);
    let token = first["nextPageToken"].as_str().unwrap().to_owned();
    // Tools added or removed between two pages do not shift the others.
    f.tool(&bundle, "t-9", "v1", f.get("/x")).await;
    assert_eq!(f.server.delete(&tool_path(&bundle, "t-4", "v1")).await.0, 204);
    let (_, second) = f.server.get(&format!("{list}&pageToken={token}")).await;
    assert_eq!(slugs(&second), ["t-2", "t-1"]);
    let token = second["nextPageToken"].as_str().unwrap();
    let (_, last) = f.server.get(&format!("{list}&pageToken={token}")).await;
    assert_eq!((slugs(&last), last.get("nextPageToken")), (vec!["t-0"], None));
    let (_, odd) = f.server.get(&format!("/tools?bundleIDs={id}&tags=odd")).await;
    assert_eq!(slugs(&odd), ["t-3", "t-1"]);
    for wrong in [
        format!("/tools/tools?pageToken={token}"),
        format!("{list}&pageToken={token}x"),
        "/tools?pageToken=%00".to_owned(),
    ] {
        let (status, body) = f.server.get(&wrong).await;
        assert_eq!((status, &body["error"]["code"]), (400, &json!("bad_page_token")), "{wrong}");
    }
}

#[tokio::test]
async fn search_ranks_prefixes_then_words_then_near_words_then_the_newest() {
    let f = Fixture::start().await;
    let bundle = f.bundle("own").await;
    let named = |description: &str| {
        let mut body = f.get("/x");
        body["description"] = json!(description);
        body
    };
    f.tool(&bundle, "zebrafish-old", "v1", named("nothing")).await;
    f.tool(&bundle, "zebrafish-new", "v1", named("nothing")).await;
    f.tool(&bundle, "tank", "v1", named("feeds a zebrafish daily")).await;
    f.tool(&bundle, "zebrafsh", "v1", named("misspelt")).await;
    f.tool(&bundle, "unrelated", "v1", named("nothing at all")).await;
    let (status, found) = f.server.get("/tools/tools/search?q=zebrafish").await;
    assert_eq!(status, 200);
    assert_eq!(slugs(&found), ["zebrafish-new", "zebrafish-old", "tank", "zebrafsh"]);
    assert_eq!(f.server.get("/tools/search?q=zebrafish").await.1, found);
    let (_, page) = f.server.get("/tools/tools/search?q=zebrafish&pageSize=3").await;
    let token = page["nextPageToken"].as_str().unwrap();
    let (_, rest) = f.server.get(&format!("/tools/tools/search?q=zebrafish&pageSize=3&pageToken={token}")).await;
    assert_eq!(slugs(&rest), ["zebrafsh"]);
    assert_eq!(f.server.get(&format!("/tools/tools/search?q=other&pageToken={token}")).await.0, 400);

    assert_eq!(f.server.patch(&tool_path(&bundle, "tank", "v1"), json!({"isEnabled": false})).await.0, 200);
    let (_, enabled) = f.server.get("/tools/tools/search?q=zebrafish").await;
    assert_eq!(slugs(&enabled), ["zebrafish-new", "zebrafish-old", "zebrafsh"]);
    let (_, all) = f.server.get("/tools/tools/search?q=zebrafish&includeDisabled=true").await;
    assert_eq!(slugs(&all), ["zebrafish-new", "zebrafish-old", "tank", "zebrafsh"]);
}

#[tokio::test]
async fn of_two_servers_that_put_one_name_exactly_one_wins() {
    let f = Fixture::start().await;
    let bundle = f.bundle("race").await;
    let other = f.project.serve_http().await;
    for number in 0..20 {
        let path = tool_path(&bundle, &format!("t-{number}"), "v1");
        let (a, b) = tokio::join!(f.server.put(&path, f.get("/a")), other.put(&path, f.get("/b")));
        let mut statuses = [a.0, b.0];
        statuses.sort_unstable();
        assert_eq!(statuses, [201, 409]);
        let winner = if a.0 == 201 { a.1 } else { b.1 };
        assert_eq!(f.server.get(&path).await.1["toolID"], winner["toolID"]);
        assert_eq!(other.get(&path).await.1["toolID"], winner["toolID"]);
    }
}
