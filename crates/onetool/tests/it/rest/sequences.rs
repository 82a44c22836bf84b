//! Sequences: stored over REST, called over REST and from code.

use serde_json::{Value as Json, json};

use super::{Fixture, project, tool_path};

/// A bundle `api` with tools that call the upstream, and the path for sequences.
async fn prepared() -> (Fixture, String) {
    let f = Fixture::start().await;
    let bundle = f.bundle("api").await;
    let mut user = f.get("/user/${city}");
    user["impl"]["extractExpr"] = json!("$.uri");
    f.tool(&bundle, "user", "v1", user).await;
    let mut post = f.get("/post");
    post["impl"]["method"] = json!("POST");
    f.tool(&bundle, "post", "v1", post).await;
    for status in [404, 503] {
        f.tool(&bundle, &format!("fails-{status}"), "v1", f.get(&format!("/status/{status}"))).await;
    }
    (f, bundle)
}

fn sequence(steps: Json, output: Json) -> Json {
    json!({
        "type": "sequence",
        "description": "Several at once",
        "argSchema": {"type": "object", "properties": {"city": {"type": "string"}, "all": {"type": "array"},
            "notify": {"type": "boolean"}}, "additionalProperties": false},
        "impl": {"steps": steps, "output": output},
    })
}

#[tokio::test]
async fn a_sequence_is_a_function_like_any_other() {
    let (f, bundle) = prepared().await;
    let steps = json!([
        {"id": "post", "tool": "api.post", "if": "${args.notify}", "dependsOn": ["each"], "default": "nothing posted"},
        {"id": "first", "tool": "api.user", "args": {"city": "${args.city}"}},
        {"id": "second", "tool": "api.user", "version": "v1", "args": {"city": "${steps.first.value}!"}},
        {"id": "each", "tool": "api.user", "forEach": "${args.all}", "as": "one", "args": {"city": "${one.name}-${index}"}},
        {"id": "bad", "tool": "api.fails_404", "errorMode": "empty", "default": []},
    ]);
    let output = json!({"second": "${steps.second.value}", "each": "${steps.each.value}", "bad": "${steps.bad.value}",
        "ok": "${steps.bad.ok}", "posted": "${steps.post.value}", "text": "${args.city}: ${steps.each.value|length}"});
    let path = f.tool(&bundle, "report", "v1", sequence(steps, output)).await;
    let args = json!({"city": "Oslo", "all": [{"name": "a"}, {"name": "b"}]});
    let (status, reply) = f.invoke(&path, args.clone()).await;
    assert_eq!(status, 200, "{reply}");
    assert_eq!(
        reply["value"],
        json!({"second": "/user/%2Fuser%2FOslo%21", "each": ["/user/a-0", "/user/b-1"], "bad": [], "ok": false,
            "posted": "nothing posted", "text": "Oslo: 2"})
    );
    let trace = reply["meta"]["trace"].as_array().unwrap();
    let told: Vec<(&str, &str, u64)> = trace
        .iter()
        .map(|step| {
            (step["id"].as_str().unwrap(), step["status"].as_str().unwrap(), step["attempts"].as_u64().unwrap())
        })
        .collect();
    assert_eq!(
        told,
        [
            ("post", "skipped", 0),
            ("first", "done", 1),
            ("second", "done", 1),
            ("each", "done", 2),
            ("bad", "failed", 1)
        ]
    );
    assert_eq!((&trace[3]["items"], &trace[1]["tool"]), (&json!(2), &json!("api.user")), "{reply}");
    assert!(trace[1]["argsHash"].is_string() && trace[1]["started"].is_string(), "{reply}");

    let client = f.server.mcp().await;
    let code = "api.report(city='Oslo', all=[{'name': 'x'}])['each'] + [api.report(city='B')['text']]";
    assert_eq!(client.ok(code).await, r#"["/user/x-0","B: 0"]"#);
    let (_, tool) = f.server.get(&tool_path(&bundle, "user", "v1")).await;
    assert_eq!(tool["callCount"].as_u64().unwrap(), 9, "each step counts as a call: {tool}");

    let hits = f.upstream.hits();
    let (status, shown) = f.server.post(&format!("{path}/invoke?dryRun=true"), json!({"args": args})).await;
    assert_eq!(status, 200, "{shown}");
    assert_eq!(shown["steps"][1]["args"], json!({"city": "Oslo"}));
    assert_eq!(shown["steps"][2]["args"], json!({"city": "${steps.first.value}!"}));
    assert_eq!((&shown["steps"][2]["after"], &shown["steps"][0]["after"]), (&json!(["first"]), &json!(["each"])));
    assert_eq!(f.upstream.hits(), hits, "a dry run sends nothing");
}

#[tokio::test]
async fn a_failing_step_ends_the_sequence_and_says_which() {
    let (f, bundle) = prepared().await;
    let steps = json!([
        {"id": "first", "tool": "api.user", "args": {"city": "x"}},
        {"id": "broken", "tool": "api.fails_404", "dependsOn": ["first"]},
        {"id": "never", "tool": "api.user", "args": {"city": "${steps.broken.value}"}},
    ]);
    let path = f.tool(&bundle, "fails", "v1", sequence(steps, json!(null))).await;
    let (status, reply) = f.invoke(&path, json!({})).await;
    assert_eq!((status, &reply["error"]["code"]), (502, &json!("upstream")), "{reply}");
    let message = reply["error"]["message"].as_str().unwrap();
    assert!(message.starts_with("step 'broken' (api.fails_404) failed: "), "{message}");
    assert!(message.ends_with("(completed: first)"), "{message}");
    let states: Vec<&str> =
        reply["meta"]["trace"].as_array().unwrap().iter().map(|step| step["status"].as_str().unwrap()).collect();
    assert_eq!(states, ["done", "failed", "waiting"]);
    let client = f.server.mcp().await;
    assert!(client.err("api.fails()").await.contains("step 'broken'"));
}

#[tokio::test]
async fn a_step_does_not_report_for_its_sequence() {
    let (mut f, _) = prepared().await;
    f.project = project(&f.upstream, "server: {invoke_timeout: 1}\n");
    f.server = f.project.serve_http().await;
    let bundle = f.bundle("api").await;
    f.tool(&bundle, "quick", "v1", f.get("/quick")).await;
    f.tool(&bundle, "slow", "v1", f.get("/slow")).await;
    let steps = json!([
        {"id": "quick", "tool": "api.quick"},
        {"id": "slow", "tool": "api.slow", "dependsOn": ["quick"]},
    ]);
    let path = f.tool(&bundle, "late", "v1", sequence(steps, json!(null))).await;
    let (status, reply) = f.invoke(&path, json!({})).await;
    assert_eq!((status, &reply["error"]["code"]), (504, &json!("timeout")), "{reply}");
    assert_eq!((&reply["meta"]["status"], &reply["meta"]["attempts"]), (&Json::Null, &Json::Null), "{reply}");
}

#[tokio::test]
async fn a_step_is_retried_only_where_that_is_safe() {
    let (f, bundle) = prepared().await;
    let retried = |tool: &str, more: Json| {
        let mut retry = json!({"max": 2, "delayMs": 1});
        retry.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        sequence(json!([{"id": "s", "tool": tool, "args": {}, "retry": retry}]), json!("${steps.s.ok}"))
    };
    let get = f.tool(&bundle, "retry-get", "v1", retried("api.fails_503", json!({}))).await;
    let (status, reply) = f.invoke(&get, json!({})).await;
    assert_eq!((status, &reply["meta"]["trace"][0]["attempts"]), (502, &json!(3)), "{reply}");
    let post = f.tool(&bundle, "retry-post", "v1", retried("api.post", json!({}))).await;
    f.upstream.next.lock().extend([503, 503]);
    let (status, reply) = f.invoke(&post, json!({})).await;
    assert_eq!((status, &reply["meta"]["trace"][0]["attempts"]), (502, &json!(1)), "{reply}");
    assert!(reply["error"]["hint"].as_str().unwrap().contains("retry.unsafe"), "{reply}");
    f.upstream.next.lock().clear();
    let bold = f.tool(&bundle, "retry-bold", "v1", retried("api.post", json!({"unsafe": true}))).await;
    f.upstream.next.lock().extend([503, 503]);
    let (status, reply) = f.invoke(&bold, json!({})).await;
    assert_eq!((status, &reply["value"]), (200, &json!(true)), "{reply}");
}

#[tokio::test]
async fn one_deadline_covers_all_steps_and_ends_what_is_under_way() {
    let (f, bundle) = prepared().await;
    f.tool(&bundle, "slow", "v1", f.get("/slow")).await;
    let mut body = sequence(json!([{"id": "a", "tool": "api.slow"}, {"id": "b", "tool": "api.slow"}]), json!(null));
    body["impl"]["timeoutMs"] = json!(300);
    let path = f.tool(&bundle, "late", "v1", body).await;
    let (status, reply) = f.invoke(&path, json!({})).await;
    assert_eq!((status, &reply["error"]["code"]), (504, &json!("timeout")), "{reply}");
    assert_eq!(f.upstream.hits(), 2, "steps that need nothing of each other run at once");
    let rows = json!([{"id": "bad", "tool": "api.fails_404"}, {"id": "slow", "tool": "api.slow"}]);
    let path = f.tool(&bundle, "cut-short", "v1", sequence(rows, json!(null))).await;
    let (status, reply) = f.invoke(&path, json!({})).await;
    assert_eq!((status, &reply["meta"]["trace"][1]["status"]), (502, &json!("cancelled")), "{reply}");
}

#[tokio::test]
async fn what_cannot_run_is_not_stored() {
    let (f, bundle) = prepared().await;
    let call = |tool: &str| sequence(json!([{"id": "a", "tool": tool}]), json!(null));
    let (status, reply) = f.server.put(&tool_path(&bundle, "own", "v1"), call("api.own")).await;
    assert_eq!(status, 400, "{reply}");
    assert!(reply["error"]["message"].as_str().unwrap().contains("would call itself"), "{reply}");
    f.tool(&bundle, "one", "v1", call("api.two")).await;
    let (status, reply) = f.server.put(&tool_path(&bundle, "two", "v1"), call("api.one")).await;
    assert_eq!(status, 400, "{reply}");
    assert!(reply["error"]["message"].as_str().unwrap().contains("api.two → api.one → api.two"), "{reply}");
    for (steps, part) in [
        (json!([{"id": "a", "tool": "api.user", "args": {"city": "${steps.b.value}"}}]), "no step 'b'"),
        (json!([{"id": "a", "tool": "api.user", "zz": 1}]), "steps[0]"),
        (json!([{"id": "a"}]), "tool"),
        (json!([]), "at least one step"),
    ] {
        let (status, reply) = f.server.put(&tool_path(&bundle, "bad", "v1"), sequence(steps, json!(null))).await;
        assert_eq!(status, 400, "{reply}");
        assert!(reply["error"]["message"].as_str().unwrap().contains(part), "{reply}");
    }
}

#[tokio::test]
async fn a_loop_that_storing_could_not_see_ends_at_the_depth() {
    let (f, bundle) = prepared().await;
    let call = |tool: &str| sequence(json!([{"id": "a", "tool": tool}]), json!(null));
    let path = f.tool(&bundle, "one", "v1", call("later.two")).await;
    let later = f.bundle("earlier").await;
    f.tool(&later, "two", "v1", call("api.one")).await;
    let (status, reply) = f.server.put(&later, json!({"slug": "later"})).await;
    assert_eq!(status, 200, "{reply}");
    let (status, reply) = f.invoke(&path, json!({})).await;
    assert_eq!(status, 403, "{reply}");
    assert!(reply["error"]["message"].as_str().unwrap().contains("more than 5 deep"), "{reply}");
}

#[tokio::test]
async fn policy_and_limits_hold_for_steps() {
    let upstream = super::Upstream::start().await;
    let more = "sequences:\n  max_items: 2\n  max_steps: 3\nsecurity:\n  policy:\n    'api.user': deny\n";
    let project = project(&upstream, more);
    let server = project.serve_http().await;
    let f = Fixture { project, upstream, server };
    let bundle = f.bundle("api").await;
    f.tool(&bundle, "user", "v1", f.get("/user")).await;
    f.tool(&bundle, "free", "v1", f.get("/free")).await;
    let path = f.tool(&bundle, "denied", "v1", sequence(json!([{"id": "a", "tool": "api.user"}]), json!(null))).await;
    let (status, reply) = f.invoke(&path, json!({})).await;
    assert_eq!((status, f.upstream.hits()), (403, 0), "{reply}");
    let each = json!([{"id": "a", "tool": "api.free", "forEach": "${args.all}"}]);
    let path = f.tool(&bundle, "each", "v1", sequence(each, json!("${steps.a.value|length}"))).await;
    assert_eq!(f.invoke(&path, json!({"all": [1, 2]})).await.1["value"], 2);
    let (status, reply) = f.invoke(&path, json!({"all": [1, 2, 3]})).await;
    assert_eq!((status, f.upstream.hits()), (413, 2), "{reply}");
    let four: Vec<Json> = (0..4).map(|n| json!({"id": format!("s{n}"), "tool": "api.free"})).collect();
    let (status, reply) = f.server.put(&tool_path(&bundle, "four", "v1"), sequence(json!(four), json!(null))).await;
    assert_eq!(status, 400, "{reply}");
}
