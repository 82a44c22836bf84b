//! Paginated lists.

use serde_json::{Value as Json, json};

use super::Bench;

#[tokio::test]
async fn one_call_gives_all_items_however_pages_are_named() {
    let bench = Bench::start().await;
    assert_eq!(bench.bundle(Json::Null).await.0, 201);
    let all: Json = (0..25).collect();
    for (slug, http) in [
        (
            "cursor",
            json!({"urlTemplate": "UP/pages/cursor", "paginate": {"type": "cursor", "cursor": "$.next", "param": "cursor", "items": "$.data.items"}}),
        ),
        (
            "cursor-body",
            json!({"method": "POST", "urlTemplate": "UP/pages/cursor", "bodyTemplate": "{\"a\": 1}", "extractExpr": "$.data.items",
            "paginate": {"type": "cursor", "cursor": "$.next", "param": "cursor", "in": "body"}}),
        ),
        ("number", json!({"urlTemplate": "UP/pages/number?page=1&x=y", "paginate": {"type": "page", "param": "page"}})),
        (
            "number-size",
            json!({"urlTemplate": "UP/pages/number", "paginate": {"type": "page", "param": "page", "sizeParam": "size", "size": 7}}),
        ),
        (
            "offset",
            json!({"urlTemplate": "UP/pages/offset", "paginate": {"type": "offset", "param": "offset", "sizeParam": "limit", "size": 10, "items": "$.items[*]"}}),
        ),
        ("link", json!({"urlTemplate": "UP/pages/link", "paginate": {"type": "link"}})),
    ] {
        bench.tool(slug, http).await;
        let (status, reply) = bench.invoke(slug).await;
        assert_eq!((status, &reply["value"]), (200, &all), "{slug}: {reply}");
        assert!(reply["meta"]["pages"].as_u64().unwrap() >= 3 && reply["meta"].get("cut").is_none(), "{slug}: {reply}");
    }
    let asked: Vec<String> = bench
        .upstream
        .seen("/pages/number?page")
        .await
        .iter()
        .map(|one| one["path"].as_str().unwrap().to_owned())
        .collect();
    assert!(asked.contains(&"/pages/number?page=2&x=y".to_owned()), "{asked:?}");
    // With a size, a short page is the last one; without, an empty one.
    assert_eq!(asked.iter().filter(|path| path.contains("size=7")).count(), 4, "{asked:?}");
    let client = bench.server.mcp().await;
    assert_eq!(client.ok("len(svc.link())").await, "25");
}

#[tokio::test]
async fn a_list_that_is_cut_says_so() {
    let bench = Bench::with("max_pages: 4, max_items: 35").await;
    assert_eq!(bench.bundle(Json::Null).await.0, 201);
    let endless = |more: Json| {
        let mut paginate = json!({"type": "page", "param": "page"});
        paginate.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"urlTemplate": "UP/pages/endless", "paginate": paginate})
    };
    bench.tool("two", endless(json!({"maxPages": 2}))).await;
    bench.tool("five", endless(json!({"maxItems": 5}))).await;
    bench.tool("many", endless(json!({"maxPages": 1000, "maxItems": 100_000}))).await;
    bench.tool("same", json!({"urlTemplate": "UP/pages/same", "paginate": {"type": "cursor", "cursor": "$.next", "param": "c", "items": "$.items"}})).await;
    for (slug, items, pages, cut) in [
        ("two", 20, 2, "maxPages"),
        ("five", 5, 1, "maxItems"),
        ("many", 35, 4, "maxItems"),
        ("same", 2, 2, "repeatedPage"),
    ] {
        let (status, reply) = bench.invoke(slug).await;
        assert_eq!(status, 200, "{reply}");
        assert_eq!(reply["value"].as_array().unwrap().len(), items, "{slug}: {reply}");
        assert_eq!((&reply["meta"]["pages"], &reply["meta"]["cut"]), (&json!(pages), &json!(cut)), "{slug}");
    }
    let output = bench.project.command(&["bundles", "tools", "invoke", "svc", "two"]).output().await.unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("the list was cut (maxPages)"), "{output:?}");
    // Code sees it once, with the run's reply.
    let code = "[len(svc.two()), len(svc.two()), len(svc.five())]";
    let output = bench.project.command(&["run", code]).output().await.unwrap();
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        "[20,20,5]\n[svc.two: the list is not whole: it was cut at maxPages after 20 items in 2 pages]\n\
         [svc.five: the list is not whole: it was cut at maxItems after 5 items in 1 pages]\n"
    );
    let output = bench.project.command(&["call", "svc.two"]).output().await.unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("note: svc.two: the list is not whole"), "{output:?}");
    // In the value itself, on request.
    bench.tool("envelope", endless(json!({"maxPages": 2, "envelope": true}))).await;
    let value = bench.value("envelope").await;
    assert_eq!((&value["pages"], &value["cut"], &value["next"]), (&json!(2), &json!("maxPages"), &json!(3)));
    assert_eq!(value["items"].as_array().unwrap().len(), 20);
}

#[tokio::test]
async fn pages_that_lead_astray_are_refused() {
    // All pages together may be as large as one reply.
    let bench = Bench::with("max_response_bytes: 60").await;
    assert_eq!(bench.bundle(Json::Null).await.0, 201);
    bench.tool("link", json!({"urlTemplate": "UP/pages/link", "paginate": {"type": "link"}})).await;
    let (status, reply) = bench.invoke("link").await;
    assert_eq!(
        (status, &reply["meta"]["pages"], &reply["meta"]["cut"]),
        (200, &json!(2), &json!("maxBytes")),
        "{reply}"
    );
    let bench = Bench::start().await;
    assert_eq!(bench.bundle(Json::Null).await.0, 201);
    bench.tool("elsewhere", json!({"urlTemplate": "UP/pages/elsewhere", "paginate": {"type": "link"}})).await;
    let (status, reply) = bench.invoke("elsewhere").await;
    assert!(status == 403 && reply["error"]["message"].as_str().unwrap().contains("another host"), "{reply}");
    bench.tool("object", json!({"urlTemplate": "UP/pages/same", "paginate": {"type": "link"}})).await;
    let (status, reply) = bench.invoke("object").await;
    assert!(status == 502 && reply["error"]["hint"].as_str().unwrap().contains("paginate.items"), "{reply}");
    for (paginate, reason) in [
        (json!({"type": "cursor", "cursor": "next", "param": "c"}), "paginate.cursor"),
        (json!({"type": "page", "param": ""}), "paginate.param"),
        (json!({"type": "page", "param": "p", "size": 3}), "sizeParam"),
        (json!({"type": "page", "param": "p", "maxPages": 0}), "maxPages"),
        (json!({"type": "cursor", "cursor": "$.n", "param": "c", "in": "body"}), "body is not JSON"),
        (json!({"type": "other"}), "other"),
    ] {
        let (status, reply) = bench.try_tool("bad", json!({"urlTemplate": "UP/open", "paginate": paginate})).await;
        assert!(status == 400 && reply["error"]["message"].as_str().unwrap().contains(reason), "{reply}");
    }
}
