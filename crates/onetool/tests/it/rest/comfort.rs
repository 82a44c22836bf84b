//! Convenience of the API: server-generated ids, slugs, pointers to mistakes, nulls, languages.

use reqwest::Method;
use serde_json::json;

use super::{Fixture, project, slugs};

#[tokio::test]
async fn the_server_makes_ids_and_slugs_stand_for_them() {
    let f = Fixture::start().await;
    let (status, made) = f.server.post("/tools/bundles", json!({"slug": "weather"})).await;
    assert_eq!((status, &made["displayName"]), (201, &json!("weather")), "{made}");
    let id = made["bundleID"].as_str().unwrap();
    assert_eq!(f.server.get("/tools/bundles/weather").await, f.server.get(&format!("/tools/bundles/{id}")).await);
    let (status, again) = f.server.post("/tools/bundles", json!({"slug": "weather"})).await;
    assert_eq!((status, &again["error"]["code"]), (409, &json!("conflict")), "{again}");
    let tool = "/tools/bundles/weather/tools/now/version/v1";
    assert_eq!(f.server.put(tool, f.get("/x")).await.0, 201);
    assert_eq!(f.invoke(tool, json!({})).await.0, 200);
    let (_, page) = f.server.get("/tools/tools?bundleIDs=weather").await;
    assert_eq!(slugs(&page), ["now"]);
    assert_eq!(f.server.patch("/tools/bundles/weather", json!({"isEnabled": false})).await.0, 200);
    assert_eq!(f.server.put("/tools/bundles/weather", json!({"slug": "climate"})).await.0, 200);
    assert_eq!(f.server.get("/tools/bundles/weather").await.0, 404);
    assert_eq!(f.server.delete(&tool.replace("weather", "climate")).await.0, 204);
    assert_eq!(f.server.delete("/tools/bundles/climate").await.0, 204);
    assert_eq!(
        f.server.post("/tools/bundles", json!({"slug": "climate"})).await.0,
        201,
        "a deleted one is in nobody's way"
    );
}

#[tokio::test]
async fn a_mistake_is_told_with_its_place() {
    let f = Fixture::start().await;
    let bundle = f.bundle("geo").await;
    let mut body = f.get("/at?lat=${lat}");
    body["argSchema"] = json!({"type": "object", "properties": {
        "lat": {"type": "number"},
        "loc": {"type": "object", "properties": {"lat": {"type": "number"}}, "required": ["lat"]},
    }, "additionalProperties": false});
    body["outputSchema"] = json!({"type": "object", "properties": {"method": {"type": "integer"}}});
    let path = f.tool(&bundle, "at", "v1", body).await;
    for (args, status, pointer) in [
        (json!({"loc": {"lat": "x"}}), 400, "/loc/lat"),
        (json!({"loc": {}}), 400, "/loc/lat"),
        (json!({"lat": []}), 400, "/lat"),
        (json!({"nope": 1}), 400, "/nope"),
        (json!({}), 422, "/method"),
    ] {
        let (given, reply) = f.invoke(&path, args.clone()).await;
        assert_eq!((given, &reply["error"]["pointer"]), (status, &json!(pointer)), "{args}: {reply}");
    }
    for (body, pointer) in [
        (json!({"slug": "a_b"}), "/slug"),
        (json!({"slug": "x", "displayName": " "}), "/displayName"),
        (json!({"slug": "x", "secrets": [1]}), "/secrets/0"),
        (json!({"slug": "x", "docs": "nowhere"}), "/docs"),
    ] {
        let (status, reply) = f.server.post("/tools/bundles", body.clone()).await;
        assert_eq!((status, &reply["error"]["pointer"]), (400, &json!(pointer)), "{body}: {reply}");
    }
    let steps =
        json!({"type": "sequence", "impl": {"steps": [{"id": "a", "tool": "x.y", "args": {"q": "${args.z}"}}]}});
    let (status, reply) = f.server.put(&super::tool_path(&bundle, "s", "v1"), steps).await;
    assert_eq!((status, &reply["error"]["pointer"]), (400, &json!("/impl/steps/0")), "{reply}");
    let (status, reply) = f
        .server
        .put(
            &super::tool_path(&bundle, "e", "v1"),
            json!({"type": "http", "displayName": "",
        "impl": {"urlTemplate": f.upstream.base}}),
        )
        .await;
    assert_eq!((status, &reply["error"]["pointer"]), (400, &json!("/displayName")), "{reply}");
    // Numeric settings of a request, whether it is stored or only previewed.
    for (name, value, pointer) in [
        ("timeoutMs", json!(0), "/impl/timeoutMs"),
        ("timeoutMs", json!(-1), "/impl/timeoutMs"),
        ("timeoutMs", json!("soon"), "/impl/timeoutMs"),
        ("maxRetries", json!(11), "/impl/maxRetries"),
        ("maxRetries", json!(1.5), "/impl/maxRetries"),
        ("successCodes", json!([200, 99]), "/impl/successCodes/1"),
        ("successCodes", json!([200, 70_000]), "/impl/successCodes/1"),
    ] {
        let mut tool = f.get("/x");
        tool["impl"][name] = value.clone();
        let (status, reply) = f.server.put(&super::tool_path(&bundle, "n", "v1"), tool.clone()).await;
        assert_eq!((status, &reply["error"]["pointer"]), (400, &json!(pointer)), "{name} {value}: {reply}");
        let (status, reply) = f.server.post(&format!("{bundle}/preview"), json!({"tool": tool})).await;
        let shown = reply["error"]["pointer"].as_str().unwrap_or_default();
        assert!(status == 400 && shown.ends_with(pointer), "{name} {value}: {reply}");
    }
}

#[tokio::test]
async fn null_is_sent_as_null_and_a_path_variable_is_required() {
    let f = Fixture::start().await;
    let bundle = f.bundle("notes").await;
    let mut body = f.get("/notes/${id}");
    body["impl"]["method"] = json!("POST");
    body["impl"]["bodyTemplate"] = json!(r#"{"text": ${text}, "due": ${due}}"#);
    body["argSchema"] = json!({"type": "object", "properties": {
        "id": {"type": "string"}, "text": {"type": "string"}, "due": {"type": ["string", "null"], "default": "today"},
    }, "additionalProperties": false});
    let path = f.tool(&bundle, "write", "v1", body).await;
    let sent = || f.upstream.seen.lock().last().unwrap()["body"].as_str().unwrap().to_owned();
    assert_eq!(f.invoke(&path, json!({"id": "1", "due": null})).await.0, 200);
    assert_eq!(sent(), r#"{"due":null}"#);
    assert_eq!(f.invoke(&path, json!({"id": "1", "text": "t"})).await.0, 200);
    assert_eq!(sent(), r#"{"text":"t","due":"today"}"#);
    let (status, reply) = f.invoke(&path, json!({"text": "t"})).await;
    assert_eq!((status, &reply["error"]["pointer"]), (400, &json!("/id")), "{reply}");
    let client = f.server.mcp().await;
    assert!(client.err("notes.write(text='t')").await.contains("missing 1 required argument: 'id'"));
    client.ok("notes.write(id='2', due=None)").await;
    assert_eq!(sent(), r#"{"due":null}"#);
}

#[tokio::test]
async fn arguments_are_found_and_punctuation_finds_nothing() {
    let f = Fixture::start().await;
    let bundle = f.bundle("api").await;
    let mut body = f.get("/x");
    body["argSchema"]["properties"] = json!({"longitude_east": {"type": "number"}});
    f.tool(&bundle, "at", "v1", body).await;
    let (_, page) = f.server.get("/tools/search?q=longitude").await;
    assert_eq!(slugs(&page), ["at"]);
    for query in ["...", "%24%24", "-"] {
        let (status, page) = f.server.get(&format!("/tools/search?q={query}")).await;
        assert_eq!((status, slugs(&page).len()), (200, 0), "{page}");
    }
    let client = f.server.mcp().await;
    assert!(client.err("file.grep(pattern='x', max_matches=0)").await.contains("max_matches"));
}

#[tokio::test]
async fn names_are_in_the_language_that_is_asked_for() {
    let upstream = super::Upstream::start().await;
    let project = project(&upstream, "locale: pt\n");
    let server = project.serve_http().await;
    let f = Fixture { project, upstream, server };
    let translations =
        json!({"de": {"displayName": "Wetter", "description": "Wie es ist"}, "pt-BR": {"description": "Como está"}});
    let (status, made) = f
        .server
        .post("/tools/bundles", json!({"slug": "weather", "displayName": "Weather", "translations": translations}))
        .await;
    assert_eq!(status, 201, "{made}");
    let mut body = f.get("/x");
    body["displayName"] = json!("Now");
    body["translations"] = json!({"de": {"displayName": "Jetzt", "description": "Regenwahrscheinlichkeit"}, "pt-BR": {"description": "Agora mesmo"}});
    let tool = f.tool("/tools/bundles/weather", "now", "v1", body).await;
    let ask = async |path: &str, language: &str| {
        crate::client::reply(f.server.request(Method::GET, path).header("accept-language", language)).await.1
    };
    let german = ask(&tool, "fr;q=0.3, de-AT").await;
    assert_eq!((&german["displayName"], &german["description"]), (&json!("Jetzt"), &json!("Regenwahrscheinlichkeit")));
    let own = ask(&tool, "fr").await;
    assert_eq!(
        (&own["displayName"], &own["description"]),
        (&json!("Now"), &json!("Agora mesmo")),
        "then the configured one"
    );
    let stored = ask(&tool, "und").await;
    assert_eq!((&stored["displayName"], &stored["description"]), (&json!("Now"), &f.get("/x")["description"]));
    assert_eq!(ask("/tools/bundles/weather", "de").await["displayName"], "Wetter");
    assert_eq!(ask("/tools/bundles/weather", "und").await["displayName"], "Weather");
    assert_eq!(ask("/tools/bundles", "de").await["bundles"][0]["displayName"], "Wetter");
    let (_, found) = f.server.get("/tools/search?q=regenwahrscheinlichkeit").await;
    assert_eq!(slugs(&found), ["now"]);
    let client = f.server.mcp().await;
    assert!(client.ok("ot.tools(pattern='weather')").await.contains("Agora mesmo"));
    let (status, reply) =
        f.server.post("/tools/bundles", json!({"slug": "y", "translations": {"not a language": {}}})).await;
    assert_eq!(status, 400, "{reply}");
}

#[tokio::test]
async fn a_request_is_shown_before_its_tool_is_stored() {
    let f = Fixture::start().await;
    let bundle = f.bundle("geo").await;
    let path = format!("{bundle}/preview");
    let mut tool = f.get("/at?city=${city}");
    tool["impl"]["headers"] = json!({"X-Key": "${API_KEY}"});
    tool["impl"]["secrets"] = json!(["API_KEY"]);
    let (status, shown) = f.server.post(&path, json!({"tool": tool, "args": {"city": "Köln am Rhein"}})).await;
    assert_eq!(status, 200, "{shown}");
    assert_eq!(shown["request"]["method"], "GET");
    let url = shown["request"]["url"].as_str().unwrap();
    assert!(url.ends_with("/at?city=K%C3%B6ln%20am%20Rhein") || url.ends_with("/at?city=K%C3%B6ln+am+Rhein"), "{url}");
    assert!(!shown.to_string().contains(super::SECRET), "{shown}");
    let (status, wrong) = f.server.post(&path, json!({"tool": tool, "args": {}})).await;
    assert!(status == 400 && wrong["error"]["message"].as_str().unwrap().contains("city"), "{wrong}");
    tool["impl"]["urlTemplate"] = json!("not an address");
    let (status, wrong) = f.server.post(&path, json!({"tool": tool, "args": {"city": "x"}})).await;
    assert_eq!(status, 400, "{wrong}");
    assert!(wrong["error"]["pointer"].as_str().unwrap().ends_with("/impl/urlTemplate"), "{wrong}");
    assert_eq!(f.server.post("/tools/bundles/nope/preview", json!({"tool": f.get("/x")})).await.0, 404);
    let (_, page) = f.server.get("/tools/tools?bundleIDs=geo&includeDisabled=true").await;
    assert_eq!((slugs(&page).len(), f.upstream.hits()), (0, 0), "nothing is stored, nothing is sent");
}
