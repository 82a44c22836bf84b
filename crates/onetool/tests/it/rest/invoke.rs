//! Calls: requests, replies, and every kind of failure.

use serde_json::{Value as Json, json};

use super::{Fixture, SECRET, project, tool_path};

fn with(mut tool: Json, more: Json) -> Json {
    for (key, value) in more.as_object().unwrap() {
        match (key.as_str(), value) {
            ("impl", Json::Object(fields)) => {
                for (field, value) in fields {
                    tool["impl"][field] = value.clone();
                }
            }
            _ => tool[key] = value.clone(),
        }
    }
    tool
}

fn code(body: &Json) -> &str {
    body["error"]["code"].as_str().unwrap_or_else(|| panic!("{body}"))
}

#[tokio::test]
async fn templates_are_filled_and_escaped_and_the_value_is_extracted() {
    let f = Fixture::start().await;
    let bundle = f.bundle("weather").await;
    let tool = f
        .tool(&bundle, "now", "v1", json!({
            "type": "http",
            "impl": {
                "method": "POST",
                "urlTemplate": format!("{}/in/${{city}}?n=${{count}}&missing=${{other}}", f.upstream.base),
                "headers": {"X-Key": "${API_KEY}", "Content-Type": "application/json"},
                "bodyTemplate": "{\"city\": \"${city}\", \"n\": ${count}}",
                "extractExpr": "$.uri",
            },
            "argSchema": {
                "type": "object",
                "properties": {"city": {"type": "string"}, "count": {"type": "integer"}, "other": {"type": "string"}},
                "required": ["city", "count"],
            },
            "outputSchema": {"type": "string"},
        }))
        .await;
    let (status, body) = f.invoke(&tool, json!({"city": "São \"Paulo\"/..", "count": 1_234_567})).await;
    assert_eq!((status, &body["ok"], &body["meta"]["status"]), (200, &json!(true), &json!(200)), "{body}");
    assert_eq!(body["value"], "/in/S%C3%A3o%20%22Paulo%22%2F..?n=1234567");
    let seen = f.upstream.seen.lock().pop().unwrap();
    let sent: Json = serde_json::from_str(seen["body"].as_str().unwrap()).unwrap();
    assert_eq!(sent, json!({"city": "São \"Paulo\"/..", "n": 1_234_567}));
    assert_eq!((&seen["method"], &seen["key"]), (&json!("POST"), &json!(SECRET)));
}

#[tokio::test]
async fn bad_arguments_are_400_and_nothing_is_sent() {
    let f = Fixture::start().await;
    let bundle = f.bundle("weather").await;
    let tool = f.tool(&bundle, "now", "v1", f.get("/${city}")).await;
    for args in [json!({"city": 7}), json!({"town": "x"})] {
        let (status, body) = f.invoke(&tool, args).await;
        assert_eq!((status, &body["ok"], code(&body)), (400, &json!(false), "arguments"), "{body}");
    }
    let nothing = f.server.request(reqwest::Method::POST, &format!("{tool}/invoke?dryRun=true"));
    let (status, body) = crate::client::reply(nothing.header("content-type", "application/json").body("null")).await;
    assert!(status != 400 || !body.to_string().contains("JSON object"), "{body}");
    let (status, _) = f.server.post(&format!("{tool}/invoke"), json!({"arguments": {}})).await;
    assert_eq!(status, 400);
    let (status, _) = f.server.post(&format!("{tool}/invoke?dryRun=perhaps"), json!({"args": {}})).await;
    assert_eq!(status, 400);
    assert_eq!(f.upstream.hits(), 0);
}

#[tokio::test]
async fn what_is_not_there_is_404_and_what_is_off_or_lacks_a_secret_is_409() {
    let f = Fixture::start().await;
    let bundle = f.bundle("weather").await;
    let tool = f.tool(&bundle, "now", "v1", f.get("/x")).await;
    assert_eq!(f.invoke(&tool_path(&bundle, "now", "v2"), json!({})).await.0, 404);
    assert_eq!(f.invoke(&tool_path(&bundle, "then", "v1"), json!({})).await.0, 404);
    assert_eq!(f.server.patch(&tool, json!({"isEnabled": false})).await.0, 200);
    let (status, body) = f.invoke(&tool, json!({})).await;
    assert_eq!((status, code(&body)), (409, "conflict"));
    let needy = with(f.get("/x?k=${NO_SUCH_SECRET}"), json!({"impl": {"secrets": ["NO_SUCH_SECRET"]}}));
    let needy = f.tool(&bundle, "needy", "v1", needy).await;
    let (status, body) = f.invoke(&needy, json!({})).await;
    assert_eq!((status, code(&body)), (409, "unavailable"), "{body}");
    assert!(body["error"]["message"].as_str().unwrap().contains("NO_SUCH_SECRET"));
    assert_eq!(f.upstream.hits(), 0);
}

#[tokio::test]
async fn a_value_that_breaks_its_promise_is_422() {
    let f = Fixture::start().await;
    let bundle = f.bundle("weather").await;
    let tool = with(f.get("/x"), json!({"impl": {"extractExpr": "$.uri"}, "outputSchema": {"type": "integer"}}));
    let tool = f.tool(&bundle, "now", "v1", tool).await;
    let (status, body) = f.invoke(&tool, json!({})).await;
    assert_eq!((status, code(&body), &body["meta"]["status"]), (422, "output", &json!(200)), "{body}");
}

#[tokio::test]
async fn more_calls_than_allowed_are_429_and_say_when_to_come_back() {
    let f = Fixture::start().await;
    let bundle = f.bundle("weather").await;
    let tool = f.tool(&bundle, "now", "v1", with(f.get("/x"), json!({"maxCallsPerMinute": 1}))).await;
    assert_eq!(f.invoke(&tool, json!({})).await.0, 200);
    let request = f.server.request(reqwest::Method::POST, &format!("{tool}/invoke"));
    let response = request.send().await.unwrap();
    assert_eq!(response.status(), 429);
    let wait: u64 = response.headers()["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=61).contains(&wait), "{wait}");
    assert_eq!(f.upstream.hits(), 1);
}

#[tokio::test]
async fn an_upstream_that_fails_is_502_and_one_that_hangs_504() {
    let f = Fixture::start().await;
    let bundle = f.bundle("weather").await;
    let broken = f.tool(&bundle, "broken", "v1", f.get("/status/500")).await;
    let (status, body) = f.invoke(&broken, json!({})).await;
    assert_eq!((status, code(&body), &body["meta"]["status"]), (502, "upstream", &json!(500)), "{body}");
    let slow = f.tool(&bundle, "slow", "v1", with(f.get("/slow"), json!({"impl": {"timeoutMs": 200}}))).await;
    let (status, body) = f.invoke(&slow, json!({})).await;
    assert_eq!((status, code(&body)), (504, "timeout"), "{body}");
    let gone = with(
        f.get("/"),
        json!({"impl": {"errorMode": "empty", "successCodes": [201]}, "outputSchema": {"type": "string"}}),
    );
    let gone = f.tool(&bundle, "gone", "v1", gone).await;
    let (status, body) = f.invoke(&gone, json!({})).await;
    assert_eq!(
        (status, &body["ok"], &body["value"], &body["meta"]["status"]),
        (200, &json!(true), &Json::Null, &json!(200))
    );
    let away = f.tool(&bundle, "away", "v1", f.get("/away")).await;
    let (status, body) = f.invoke(&away, json!({})).await;
    assert_eq!((status, code(&body)), (403, "denied"), "a redirect to a host that is not allowed: {body}");
}

#[tokio::test]
async fn no_call_outlasts_the_servers_own_limit() {
    let mut f = Fixture::start().await;
    f.project = project(&f.upstream, "server: {invoke_timeout: 0.3}\n");
    f.server = f.project.serve_http().await;
    let bundle = f.bundle("weather").await;
    let slow = f.tool(&bundle, "slow", "v1", f.get("/slow")).await;
    let (status, body) = f.invoke(&slow, json!({})).await;
    assert_eq!((status, code(&body)), (504, "timeout"), "{body}");
}

#[tokio::test]
async fn a_failed_get_is_tried_again_and_a_failed_post_is_not() {
    let f = Fixture::start().await;
    let bundle = f.bundle("weather").await;
    let get = f.tool(&bundle, "get", "v1", with(f.get("/x"), json!({"impl": {"maxRetries": 2}}))).await;
    f.upstream.next.lock().extend([503, 503]);
    let (status, body) = f.invoke(&get, json!({})).await;
    assert_eq!((status, &body["meta"]["attempts"]), (200, &json!(3)), "{body}");
    let post = with(f.get("/x"), json!({"impl": {"maxRetries": 2, "method": "POST"}}));
    let post = f.tool(&bundle, "post", "v1", post).await;
    f.upstream.next.lock().extend([503]);
    let (status, body) = f.invoke(&post, json!({})).await;
    assert_eq!((status, &body["meta"]["attempts"]), (502, &json!(1)), "{body}");
}

#[tokio::test]
async fn a_dry_run_shows_the_request_and_hides_secrets() {
    let f = Fixture::start().await;
    let bundle = f.bundle("weather").await;
    let tool = with(f.get("/${city}?k=${API_KEY}"), json!({"impl": {"headers": {"X-Key": "${API_KEY}"}}}));
    let tool = f.tool(&bundle, "now", "v1", tool).await;
    let (status, body) = f.server.post(&format!("{tool}/invoke?dryRun=true"), json!({"args": {"city": "a b"}})).await;
    assert_eq!((status, &body["meta"]["dryRun"]), (200, &json!(true)), "{body}");
    assert_eq!(body["request"]["url"], format!("{}/a%20b?k=REDACTED", f.upstream.base));
    assert_eq!(body["request"]["method"], "GET");
    assert!(!body.to_string().contains(SECRET));
    assert_eq!(f.upstream.hits(), 0);
    assert_eq!(f.server.post(&format!("{tool}/invoke?dryRun=true"), json!({"args": {"city": 1}})).await.0, 400);

    let (status, body) = f.invoke(&tool, json!({"city": "x"})).await;
    assert_eq!(status, 200);
    assert!(!body.to_string().contains(SECRET), "what an upstream echoes is masked too: {body}");
    assert_eq!(f.upstream.seen.lock()[0]["key"], SECRET);
}

#[tokio::test]
async fn calls_are_counted_aside() {
    let f = Fixture::start().await;
    let bundle = f.bundle("weather").await;
    let tool = f.tool(&bundle, "now", "v1", f.get("/x")).await;
    let (_, before) = f.server.get(&tool).await;
    assert_eq!((&before["callCount"], before.get("lastCalledAt")), (&json!(0), None));
    for _ in 0..3 {
        assert_eq!(f.invoke(&tool, json!({})).await.0, 200);
    }
    let Fixture { project, upstream: _upstream, server } = f;
    server.stop().await;
    let server = project.serve_http().await;
    let (_, after) = server.get(&tool).await;
    assert_eq!((&after["callCount"], &after["modifiedAt"]), (&json!(3), &before["modifiedAt"]));
    assert!(after["lastCalledAt"].as_str().unwrap() > after["createdAt"].as_str().unwrap());
}
