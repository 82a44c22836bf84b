//! Authentication of requests.

use serde_json::{Value as Json, json};

use super::{BUNDLE, Bench, assert_clean};

fn client_credentials() -> Json {
    json!({"type": "oauth2", "tokenUrl": "UP/token", "clientId": "${CLIENT_ID}", "clientSecret": "${CLIENT_SECRET}",
           "scopes": ["read", "write"], "test": {"url": "UP/echo", "expect": [200]}})
}

fn refresh() -> Json {
    json!({"type": "oauth2", "grant": "refresh_token", "tokenUrl": "UP/token", "clientId": "${CLIENT_ID}",
           "clientSecret": "${CLIENT_SECRET}", "clientAuth": "body", "refreshToken": "${REFRESH}", "refreshBefore": 0})
}

#[tokio::test]
async fn a_token_is_fetched_once_used_masked_and_renewed_when_it_is_refused() {
    let bench = Bench::start().await;
    assert_eq!(bench.bundle(client_credentials()).await.0, 201);
    bench.tool("echo", json!({"urlTemplate": "UP/echo"})).await;
    for _ in 0..3 {
        let value = bench.value("echo").await;
        assert_eq!(value, json!({"authorization": "Bearer [REDACTED]", "said": "you sent [REDACTED]"}));
    }
    assert_eq!(bench.upstream.redemptions().await, 1);
    let sent = &bench.upstream.seen("/token").await[0];
    assert_eq!(sent["body"], "grant_type=client_credentials&scope=read%20write");
    // Refused before expiry: one new token, and one repeated request, with any method.
    bench.upstream.set(json!({"valid": []})).await;
    bench.tool("post", json!({"method": "POST", "urlTemplate": "UP/echo", "bodyTemplate": "{}"})).await;
    let (status, reply) = bench.invoke("post").await;
    assert_eq!((status, &reply["meta"]["attempts"]), (200, &json!(2)), "{reply}");
    assert_eq!(bench.upstream.redemptions().await, 2);
    // Refused again: no third attempt.
    bench.upstream.set(json!({"valid": [], "serial": 100})).await;
    bench.tool("never", json!({"urlTemplate": "UP/signed/github"})).await;
    let (status, reply) = bench.invoke("never").await;
    assert_eq!((status, &reply["meta"]["attempts"]), (502, &json!(2)), "{reply}");
    assert!(reply["error"]["hint"].as_str().unwrap().contains("auth test svc"), "{reply}");
    assert_clean(&reply.to_string());
    assert_clean(&bench.everything_written());
}

#[tokio::test]
async fn clients_show_who_they_are_in_every_way_there_is() {
    let bench = Bench::start().await;
    let with = |more: Json| {
        let mut auth = client_credentials();
        for (name, value) in more.as_object().unwrap() {
            if value.is_null() {
                auth.as_object_mut().unwrap().remove(name);
            } else {
                auth[name] = value.clone();
            }
        }
        auth
    };
    for (number, auth) in [
        with(json!({"clientAuth": "body", "audience": "https://api.example", "resource": "urn:x", "extraParams": {"a": "b c"}})),
        with(json!({"clientAuth": "private_key_jwt", "clientSecret": null, "privateKey": "${PRIVATE_KEY}", "keyId": "k1"})),
        with(json!({"grant": "jwt_bearer", "clientSecret": null, "privateKey": "${PRIVATE_KEY}", "subject": "somebody"})),
        with(json!({"apply": [{"in": "header", "name": "Authorization", "value": "Bearer ${token}"}], "scopeSeparator": ","})),
    ]
    .into_iter()
    .enumerate()
    {
        let status = bench.bundle(auth).await;
        assert!(status.0 < 300, "{status:?}");
        let slug = format!("echo{number}");
        bench.tool(&slug, json!({"urlTemplate": "UP/echo"})).await;
        assert_eq!(bench.value(&slug).await["authorization"], "Bearer [REDACTED]");
    }
    let bodies: Vec<String> =
        bench.upstream.seen("/token").await.iter().map(|one| one["body"].as_str().unwrap().to_owned()).collect();
    assert!(
        bodies[0].contains("&audience=https%3A%2F%2Fapi.example&resource=urn%3Ax&a=b%20c&client_id="),
        "{bodies:?}"
    );
    assert!(bodies[1].contains("client_assertion_type=urn%3Aietf%3A"), "{bodies:?}");
    assert!(bodies[2].contains("grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer"), "{bodies:?}");
    assert!(bodies[3].contains("scope=read%2Cwrite"), "{bodies:?}");
}

#[tokio::test]
async fn eight_processes_at_a_tokens_end_redeem_once() {
    let bench = Bench::start().await;
    assert_eq!(bench.bundle(refresh()).await.0, 201);
    bench.tool("echo", json!({"urlTemplate": "UP/echo"})).await;
    // The first token lasts a second, the second an hour.
    bench.upstream.set(json!({"lifetimes": [1]})).await;
    bench.value("echo").await;
    assert_eq!(bench.upstream.redemptions().await, 1);
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    let calls = (0..8).map(|_| {
        let mut command = bench.project.command(&["bundles", "tools", "invoke", "svc", "echo"]);
        tokio::spawn(async move { command.output().await.unwrap() })
    });
    for call in calls.collect::<Vec<_>>() {
        let output = call.await.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(String::from_utf8_lossy(&output.stdout).contains("Bearer [REDACTED]"));
    }
    assert_eq!(bench.upstream.redemptions().await, 2);
    // The server's process shares the token.
    bench.value("echo").await;
    assert_eq!(bench.upstream.redemptions().await, 2);
    assert_clean(&bench.everything_written());
}

/// A token with a lifetime shorter than the usual renewal margin is still shared.
#[tokio::test]
async fn a_token_of_a_short_life_is_shared_as_well() {
    let bench = Bench::start().await;
    let mut auth = refresh();
    auth.as_object_mut().unwrap().remove("refreshBefore");
    assert_eq!(bench.bundle(auth).await.0, 201);
    bench.tool("echo", json!({"urlTemplate": "UP/echo"})).await;
    bench.upstream.set(json!({"lifetimes": [1, 50]})).await;
    bench.value("echo").await;
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    let calls = futures_util::future::join_all((0..8).map(|_| bench.invoke("echo")));
    for (status, reply) in calls.await {
        assert_eq!(status, 200, "{reply}");
    }
    let output = bench.project.command(&["bundles", "tools", "invoke", "svc", "echo"]).output().await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(bench.upstream.redemptions().await, 2);
}

#[tokio::test]
async fn one_refresh_token_serves_all_who_ask_for_different_things_with_it() {
    let bench = Bench::start().await;
    assert_eq!(bench.bundle(refresh()).await.0, 201);
    bench.tool("echo", json!({"urlTemplate": "UP/echo"})).await;
    bench.value("echo").await;
    let mut narrow = refresh();
    narrow["scopes"] = json!(["read"]);
    bench.tool("narrow", json!({"urlTemplate": "UP/echo", "auth": narrow})).await;
    bench.value("narrow").await;
    bench.value("echo").await;
    assert_eq!(bench.upstream.redemptions().await, 2);
    // The block changes; the rotated token stays in use.
    let mut wide = refresh();
    wide["scopes"] = json!(["read", "write"]);
    assert_eq!(bench.bundle(wide).await.0, 200);
    bench.value("echo").await;
    assert_eq!(bench.upstream.redemptions().await, 3);
}

#[tokio::test]
async fn a_token_endpoint_may_be_busy_and_have_another_clock() {
    let bench = Bench::start().await;
    let mut auth = client_credentials();
    auth.as_object_mut().unwrap().remove("clientSecret");
    auth["clientAuth"] = json!("private_key_jwt");
    auth["privateKey"] = json!("${PRIVATE_KEY}");
    auth["tokenUrl"] = json!("UP/token/ahead");
    assert_eq!(bench.bundle(auth).await.0, 201);
    bench.tool("echo", json!({"urlTemplate": "UP/echo"})).await;
    bench.value("echo").await;
    assert_eq!(bench.upstream.redemptions().await, 2, "the second assertion has the endpoint's time");
    // A rate limit is not a refusal, not even for a refresh token.
    bench.upstream.set(json!({"busy": 1, "refresh": "refresh-0"})).await;
    assert_eq!(bench.bundle(refresh()).await.0, 200);
    bench.value("echo").await;
    assert_eq!(bench.upstream.redemptions().await, 3);
}

#[tokio::test]
async fn two_servers_on_one_database_redeem_once() {
    let database = tokio::task::spawn_blocking(onetool_state_postgres::testing::Server::start).await.unwrap();
    let upstream = super::BadUpstream::start().await;
    let state = format!("\nstate: {}", database.database("tokens"));
    let projects = [(); 2].map(|()| {
        let project = Bench::project(&upstream, "");
        let file = project.path().join(".onetool/onetool.yaml");
        std::fs::write(&file, std::fs::read_to_string(&file).unwrap() + &state).unwrap();
        project
    });
    let mut servers = Vec::new();
    for project in &projects {
        servers.push(project.serve_http().await);
    }
    let other = servers.pop().unwrap();
    let [project, _other_project] = projects;
    let bench = Bench { upstream, server: servers.pop().unwrap(), project };
    assert_eq!(bench.bundle(refresh()).await.0, 201);
    bench.tool("echo", json!({"urlTemplate": "UP/echo"})).await;
    let until = tokio::time::Instant::now() + crate::client::PATIENCE;
    while other.get(&format!("/tools/bundles/{BUNDLE}/tools/echo/version/v1")).await.0 != 200 {
        assert!(tokio::time::Instant::now() < until, "the other server never saw the tool");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let path = Bench::path("echo");
    let body = json!({"args": {}});
    let calls = futures_util::future::join_all((0..8).map(|number| {
        let server = if number % 2 == 0 { &bench.server } else { &other };
        server.post(&path, body.clone())
    }));
    for (status, reply) in calls.await {
        assert_eq!(status, 200, "{reply}");
    }
    assert_eq!(bench.upstream.redemptions().await, 1);
}

#[tokio::test]
async fn a_rotated_refresh_token_outlives_its_process_and_a_revoked_family_is_told() {
    let bench = Bench::start().await;
    assert_eq!(bench.bundle(refresh()).await.0, 201);
    bench.tool("echo", json!({"urlTemplate": "UP/echo"})).await;
    bench.value("echo").await;
    // Each refused token makes the next process redeem the token that the previous one received.
    for _ in 0..3 {
        bench.upstream.set(json!({"valid": []})).await;
        let output = bench.project.command(&["bundles", "tools", "invoke", "svc", "echo"]).output().await.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(bench.upstream.redemptions().await, 4);
    assert_eq!(bench.upstream.state().await["refresh"], "refresh-4");
    bench.upstream.set(json!({"valid": [], "revoked": true})).await;
    let (status, reply) = bench.invoke("echo").await;
    assert_eq!(status, 502, "{reply}");
    let error = &reply["error"];
    assert!(error["message"].as_str().unwrap().contains("invalid_grant"), "{reply}");
    assert!(error["hint"].as_str().unwrap().contains("refresh token"), "{reply}");
    assert_clean(&reply.to_string());
    // A token that is known to be invalid is not tried again.
    let before = bench.upstream.redemptions().await;
    for _ in 0..3 {
        let output = bench.project.command(&["bundles", "tools", "invoke", "svc", "echo"]).output().await.unwrap();
        assert!(!output.status.success());
        assert!(String::from_utf8_lossy(&output.stderr).contains("invalid_grant"));
    }
    assert_eq!(bench.upstream.redemptions().await, before);
}

#[tokio::test]
async fn signatures_are_taken_by_an_upstream_that_checks_them_itself() {
    let bench = Bench::start().await;
    assert_eq!(bench.bundle(Json::Null).await.0, 201);
    let hmac = |preset: &str| json!({"type": "hmac", "preset": preset, "secret": "${SIGNING}", "keyId": "${KEY_ID}"});
    let aws = json!({"type": "sigv4", "service": "execute-api", "region": "eu-central-1", "accessKeyId": "${AWS_KEY}",
                     "secretAccessKey": "${AWS_SECRET}"});
    for (kind, auth) in [
        ("github", hmac("github")),
        ("stripe", hmac("stripe")),
        ("binance", hmac("binance")),
        ("generic", hmac("generic")),
        ("aws", aws),
    ] {
        for (method, url, body) in [
            ("GET", format!("UP/signed/{kind}?b=2&a=1"), ""),
            ("POST", format!("UP/signed/{kind}/a%20b?q=${{q:-x y}}&z="), "{\"text\": \"grüße\", \"n\": 1.10}"),
        ] {
            let slug = format!("{kind}-{}", method.to_lowercase());
            let http = json!({"method": method, "urlTemplate": url, "bodyTemplate": body, "auth": auth});
            bench.tool(&slug, http).await;
            assert_eq!(bench.value(&slug).await["taken"], kind, "{slug}");
        }
    }
    // A signature in a reply is masked like its secret.
    assert_eq!(bench.value("generic-get").await["header"], "[REDACTED]");
}

#[tokio::test]
async fn a_wrong_clock_is_learned_from_the_first_refusal() {
    let bench = Bench::start().await;
    assert_eq!(bench.bundle(json!({"type": "hmac", "secret": "${SIGNING}"})).await.0, 201);
    bench.tool("ahead", json!({"method": "POST", "urlTemplate": "UP/signed/ahead", "bodyTemplate": "{}"})).await;
    let (status, reply) = bench.invoke("ahead").await;
    assert_eq!((status, &reply["meta"]["attempts"]), (200, &json!(2)), "{reply}");
    let (_, reply) = bench.invoke("ahead").await;
    assert_eq!(reply["meta"]["attempts"], json!(1), "{reply}");
}

#[tokio::test]
async fn tools_inherit_override_and_switch_off() {
    let bench = Bench::start().await;
    let key = json!({"type": "apiKey", "in": "header", "name": "X-Key", "value": "${PLAIN}"});
    assert_eq!(bench.bundle(key).await.0, 201);
    let (_, shown) = bench.server.get(&format!("/tools/bundles/{BUNDLE}")).await;
    assert_eq!(shown["auth"]["value"], "${PLAIN}");
    bench.tool("inherits", json!({"urlTemplate": "UP/open"})).await;
    bench.tool("off", json!({"urlTemplate": "UP/open", "auth": null})).await;
    let basic = json!({"type": "basic", "username": "me", "password": "${PLAIN}"});
    bench.tool("own", json!({"urlTemplate": "UP/open", "auth": basic})).await;
    assert_eq!(bench.value("inherits").await["key"], "[REDACTED]");
    assert_eq!(bench.value("off").await, json!({"authorization": null, "path": "/open", "key": null}));
    let own = bench.value("own").await;
    assert_eq!((&own["authorization"], &own["key"]), (&json!("Basic [REDACTED]"), &json!(null)));
    let (_, stored) = bench.server.get(&format!("/tools/bundles/{BUNDLE}/tools/off/version/v1")).await;
    assert!(stored["impl"].as_object().unwrap().contains_key("auth") && stored["impl"]["auth"].is_null(), "{stored}");
    // Secrets of auth are not available to templates.
    let (status, reply) = bench.try_tool("leak", json!({"urlTemplate": "UP/open?x=${PLAIN}"})).await;
    assert_eq!(status, 400, "{reply}");
    assert!(reply["error"]["message"].as_str().unwrap().contains("belongs to auth"), "{reply}");
    // A mistake is reported with its key.
    let (status, reply) = bench.bundle(json!({"type": "bearer", "tokn": "x"})).await;
    assert!(status == 400 && reply["error"]["message"].as_str().unwrap().contains("tokn"), "{reply}");
    let (status, reply) = bench
        .bundle(
            json!({"type": "oauth2", "tokenUrl": "https://id.example/token", "clientId": "a", "clientSecret": "${B}"}),
        )
        .await;
    assert!(status == 400 && reply["error"]["message"].as_str().unwrap().contains("id.example"), "{reply}");
}

#[tokio::test]
async fn a_redirect_elsewhere_has_nothing_of_it_and_one_within_has() {
    let bench = Bench::start().await;
    let other = super::BadUpstream::start().await;
    let host = other.base.trim_start_matches("http://").to_owned();
    let own = bench.upstream.base.trim_start_matches("http://").to_owned();
    bench.project.write(".onetool/onetool.yaml", &format!("http: {{allowed_hosts: [\"{own}\", \"{host}\"]}}\n"));
    let server = bench.project.serve_http().await;
    let bench = Bench { server, ..bench };
    let auth = json!({"type": "apiKey", "in": "header", "name": "X-Key", "value": "${PLAIN}"});
    assert_eq!(bench.bundle(auth).await.0, 201);
    bench.tool("within", json!({"urlTemplate": "UP/away?to=/open"})).await;
    bench.tool("elsewhere", json!({"urlTemplate": format!("UP/away?to={}/open", other.base)})).await;
    bench
        .tool(
            "and-back",
            json!({"urlTemplate": format!("UP/away?to={}/away%3Fto%3D{}/open", other.base, bench.upstream.base)}),
        )
        .await;
    assert_eq!(bench.value("within").await["key"], "[REDACTED]");
    assert_eq!(bench.value("elsewhere").await["key"], Json::Null);
    assert_eq!(bench.value("and-back").await["key"], Json::Null);
    let bearer = json!({"type": "sigv4", "service": "s3", "region": "x", "accessKeyId": "${AWS_KEY}", "secretAccessKey": "${AWS_SECRET}"});
    bench.tool("signed", json!({"urlTemplate": format!("UP/away?to={}/open", other.base), "auth": bearer})).await;
    assert_eq!(bench.value("signed").await["authorization"], Json::Null);
}

#[tokio::test]
async fn dry_runs_show_where_it_goes_and_nothing_of_it() {
    let bench = Bench::start().await;
    assert_eq!(bench.bundle(client_credentials()).await.0, 201);
    bench.tool("token", json!({"urlTemplate": "UP/echo"})).await;
    let aws = json!({"type": "sigv4", "service": "s3", "region": "x", "accessKeyId": "${AWS_KEY}", "secretAccessKey": "${AWS_SECRET}"});
    bench.tool("aws", json!({"urlTemplate": "UP/open", "auth": aws})).await;
    let hmac = json!({"type": "hmac", "preset": "binance", "secret": "${SIGNING}", "keyId": "${KEY_ID}"});
    bench.tool("hmac", json!({"urlTemplate": "UP/open?a=1", "auth": hmac})).await;
    let dry = async |slug: &str| {
        let (status, reply) = bench.server.post(&format!("{}?dryRun=true", Bench::path(slug)), json!({})).await;
        assert_eq!(status, 200, "{reply}");
        assert_clean(&reply.to_string());
        reply["request"].clone()
    };
    assert_eq!(dry("token").await["headers"]["authorization"], "<oauth2 token>");
    assert_eq!(dry("aws").await["headers"]["authorization"], "<sigv4 signature>");
    let shown = dry("hmac").await;
    assert_eq!(shown["headers"]["x-mbx-apikey"], "REDACTED");
    assert!(shown["url"].as_str().unwrap().ends_with("timestamp=%3Ctimestamp%3E&signature=%3Csignature%3E"), "{shown}");
    assert_eq!(bench.upstream.state().await["seen"].as_array().unwrap().len(), 1, "nothing was sent");
}

#[tokio::test]
async fn the_test_request_tells_which_step_fails() {
    let bench = Bench::start().await;
    assert_eq!(bench.bundle(client_credentials()).await.0, 201);
    let test = async || {
        let output = bench.project.command(&["bundles", "auth", "test", "svc", "--json"]).output().await.unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_clean(&text);
        let reply: Json = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        assert_eq!(output.status.success(), reply["ok"] == json!(true), "{text}");
        let states: Vec<String> = reply["steps"]
            .as_array()
            .unwrap()
            .iter()
            .map(|step| format!("{}={}", step["step"].as_str().unwrap(), step["state"].as_str().unwrap()))
            .collect();
        (states.join(" "), reply)
    };
    assert_eq!(test().await.0, "configuration=ok token=ok request=ok");
    let shown = bench.project.command(&["bundles", "auth", "test", "svc"]).output().await.unwrap();
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("configuration") && shown.contains("answered 200"), "{shown}");
    // The request is refused.
    let mut auth = client_credentials();
    auth["test"]["url"] = json!("UP/signed/github");
    assert_eq!(bench.bundle(auth).await.0, 200);
    assert_eq!(test().await.0, "configuration=ok token=ok request=failed");
    // There is no token.
    let mut auth = client_credentials();
    auth["clientSecret"] = json!("${PLAIN}");
    assert_eq!(bench.bundle(auth).await.0, 200);
    let (states, reply) = test().await;
    assert_eq!(states, "configuration=ok token=failed request=skipped");
    assert!(reply.to_string().contains("invalid_client"), "{reply}");
    // A secret is missing.
    let mut auth = client_credentials();
    auth["clientSecret"] = json!("${NOT_SET_ANYWHERE}");
    assert_eq!(bench.bundle(auth).await.0, 200);
    let (states, reply) = test().await;
    assert_eq!(states, "configuration=failed token=skipped request=skipped");
    assert!(reply.to_string().contains("NOT_SET_ANYWHERE"), "{reply}");
    // The same over REST.
    assert_eq!(bench.bundle(client_credentials()).await.0, 200);
    let (status, reply) = bench.server.post(&format!("/tools/bundles/{BUNDLE}/auth/test"), Json::Null).await;
    assert_eq!((status, &reply["ok"]), (200, &json!(true)), "{reply}");
    assert_clean(&reply.to_string());
    assert_eq!(bench.bundle(Json::Null).await.0, 200);
    let (_, reply) = bench.server.post(&format!("/tools/bundles/{BUNDLE}/auth/test"), Json::Null).await;
    assert!(reply["ok"] == json!(false) && reply.to_string().contains("has no auth"), "{reply}");
}
