//! Signing in to servers: a real authorization server in Python (`oauth_server.py`), which rotates and revokes.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use onetool_proxy::{
    AuthState, CREDENTIALS, Offers, ProxySettings, ProxySource, ResourceIndicator, ServerSettings, ServerState,
};
use onetool_sdk::{ClientBridge, ToolError, ToolSource as _};
use onetool_state::flat::{DocumentFolder, FlatFiles, FlatPlaces};
use onetool_state::interface::Collection;
use serde_json::{Value as Json, json};

use crate::fixture::{House, HttpServer, call, call_in, context, status, text, until};

fn server_file() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/proxy/oauth_server.py")
}

fn start(flags: &[&str]) -> HttpServer {
    HttpServer::start_file(&server_file(), flags, 0)
}

fn settings(port: u16) -> ServerSettings {
    ServerSettings {
        timeout: Duration::from_secs(30),
        ..ServerSettings::http("web", format!("http://127.0.0.1:{port}/mcp"))
    }
}

async fn get(url: &str) -> reqwest::Response {
    reqwest::Client::builder().no_proxy().build().unwrap().get(url).send().await.unwrap()
}

async fn steer(server: &HttpServer, what: &str) {
    get(&format!("http://127.0.0.1:{}/control?{what}", server.port)).await;
}

async fn stats(server: &HttpServer) -> Json {
    get(&format!("http://127.0.0.1:{}/stats", server.port)).await.json().await.unwrap()
}

/// Acts as the user: opens the address; the browser returns by itself.
async fn sign_in(source: &ProxySource) {
    let url = source.begin_sign_in("web", false).await.unwrap();
    let (page, finished) = tokio::join!(get(&url), source.signed_in("web"));
    finished.unwrap();
    assert!(page.text().await.unwrap().contains("You are signed in"));
}

async fn signed_in(house: &House, server: &HttpServer) -> ProxySource {
    let source = house.source(vec![settings(server.port)]);
    sign_in(&source).await;
    source.try_now("web", &context()).await.unwrap();
    source
}

fn auth(source: &ProxySource) -> AuthState {
    status(source, "web").auth.unwrap().state
}

/// The file with the tokens.
fn file(house: &House) -> PathBuf {
    let mut files: Vec<PathBuf> = std::fs::read_dir(house.path().join("credentials"))
        .unwrap()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| std::fs::read_to_string(path).is_ok_and(|text| text.contains("\"access\"")))
        .collect();
    assert_eq!(files.len(), 1, "{files:?}");
    files.remove(0)
}

#[tokio::test]
async fn whoever_signs_in_once_is_signed_in_for_good() {
    let (house, server) = (House::new(), start(&[]));
    let source = house.source(vec![settings(server.port)]);
    let error = source.settle("web", &context()).await.unwrap_err();
    assert!(error.message.contains("it needs a sign-in: nobody is signed in"), "{error}");
    let health = source.health();
    assert!(health[0].message.contains("run: onetool servers login web"), "{health:?}");
    sign_in(&source).await;
    // The connection is made automatically.
    until("it is connected", || status(&source, "web").state == ServerState::Connected).await;
    assert!(text(&source, "web.whoami", json!({})).await.starts_with("client-1 of"));
    assert_eq!(auth(&source), AuthState::SignedIn);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(std::fs::metadata(file(&house)).unwrap().permissions().mode() & 0o777, 0o600);
    }
    source.shutdown().await;
    // The next process knows the sign-in, even if the token has expired meanwhile.
    steer(&server, "expire=1").await;
    let source = house.source(vec![settings(server.port)]);
    source.settle("web", &context()).await.unwrap();
    assert!(text(&source, "web.whoami", json!({})).await.starts_with("client-1 of"));
    let stats = stats(&server).await;
    assert_eq!(
        (&stats["registrations"], &stats["redemptions"], &stats["refreshes"]),
        (&json!(1), &json!(1), &json!(1))
    );
    let resource = format!("http://127.0.0.1:{}/mcp", server.port);
    assert_eq!(stats["resources"], json!([resource, resource]));
    source.shutdown().await;
}

/// The variable that tells a child process what to call.
const CALLER: &str = "PROXY_TEST_CALLER";

/// A source in another process with the same credentials.
fn source_at(folder: &Path, port: u16) -> ProxySource {
    let state = |name: &str| {
        let folder = folder.join(name);
        let places = FlatPlaces::new(&folder)
            .with_documents(Collection::LISTINGS, DocumentFolder::new(folder.join("cache")))
            .with_documents(CREDENTIALS, DocumentFolder::new(folder.clone()));
        Arc::new(FlatFiles::new(places))
    };
    ProxySource::new(ProxySettings {
        search_path: onetool_process::SearchPath::default(),
        servers: vec![settings(port)],
        state: state("own"),
        credentials: state("credentials"),
        offers: Offers::default(),
    })
}

#[tokio::test]
async fn eight_processes_redeem_one_token_once() {
    if let Ok(told) = std::env::var(CALLER) {
        let (port, folder) = told.split_once(':').unwrap();
        let source = source_at(Path::new(folder), port.parse().unwrap());
        println!("\nanswer: {}", text(&source, "web.whoami", json!({})).await);
        source.shutdown().await;
        return;
    }
    for expiry in ["expire=1", "lifetime"] {
        let (house, server) = (House::new(), start(&[]));
        signed_in(&house, &server).await.shutdown().await;
        if expiry == "lifetime" {
            // Expired by the clock.
            let path = file(&house);
            let mut record: Json = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
            record["tokens"]["expires_at"] = record["tokens"]["received_at"].clone();
            std::fs::write(&path, record.to_string()).unwrap();
        } else {
            // Expired because the server says so.
            steer(&server, expiry).await;
        }
        let before = stats(&server).await["refreshes"].as_u64().unwrap();
        // The servers' tools are known from the last connection.
        let (from, to) = (house.path().join("cache"), house.path().join("own/cache"));
        std::fs::create_dir_all(&to).unwrap();
        for entry in std::fs::read_dir(from).unwrap().flatten() {
            if entry.path().is_file() {
                std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
            }
        }
        let children: Vec<_> = (0..8)
            .map(|_| {
                tokio::process::Command::new(std::env::current_exe().unwrap())
                    .args(["oauth::eight_processes_redeem_one_token_once", "--exact", "--nocapture"])
                    .env(CALLER, format!("{}:{}", server.port, house.path().display()))
                    .stdout(std::process::Stdio::piped())
                    .kill_on_drop(true)
                    .spawn()
                    .unwrap()
            })
            .collect();
        for child in children {
            let output = child.wait_with_output().await.unwrap();
            let out = String::from_utf8_lossy(&output.stdout);
            assert!(out.contains("answer: client-1 of"), "{expiry}: {out}");
        }
        let stats = stats(&server).await;
        assert_eq!(stats["refreshes"].as_u64().unwrap() - before, 1, "{expiry}: {stats}");
        assert_eq!((&stats["reuses"], &stats["redemptions"]), (&json!(0), &json!(1)), "{expiry}: {stats}");
    }
}

#[tokio::test]
async fn no_trouble_of_a_network_signs_anybody_out() {
    let (house, server) = (House::new(), start(&[]));
    let source = signed_in(&house, &server).await;
    let kept = std::fs::read_to_string(file(&house)).unwrap();
    steer(&server, "expire=1&fail=2").await;
    let error = call(&source, "web.whoami", json!({})).await.unwrap_err();
    assert!(error.message.contains("can't be renewed now") && error.message.contains("503"), "{error}");
    assert_eq!(std::fs::read_to_string(file(&house)).unwrap(), kept);
    // It works again once a retry is due; no one signs in.
    let mut answer = Err(error);
    for _ in 0..300 {
        answer = call(&source, "web.whoami", json!({})).await;
        if answer.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    answer.unwrap();
    assert_eq!(stats(&server).await["redemptions"], 1);
    source.shutdown().await;
}

#[tokio::test]
async fn a_gateway_on_the_way_signs_nobody_out() {
    let (house, server) = (House::new(), start(&[]));
    let source = signed_in(&house, &server).await;
    steer(&server, "expire=1&gateway=1").await;
    let error = call(&source, "web.whoami", json!({})).await.unwrap_err();
    assert!(error.message.contains("can't be renewed now") && error.message.contains("401"), "{error}");
    until_it_answers(&source).await;
    assert_eq!(stats(&server).await["redemptions"], 1);
    source.shutdown().await;
}

/// The new tokens were issued but never arrived: the old refresh token is spent, and only a sign-in helps.
#[tokio::test]
async fn tokens_that_got_lost_on_the_way_are_told() {
    let (house, server) = (House::new(), start(&[]));
    let source = signed_in(&house, &server).await;
    steer(&server, "expire=1&garble=1").await;
    let error = call(&source, "web.whoami", json!({})).await.unwrap_err();
    assert!(error.message.contains("can't be renewed now"), "{error}");
    let mut told = error.message;
    for _ in 0..300 {
        if told.contains("the sign-in is no longer accepted") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        told = call(&source, "web.whoami", json!({})).await.unwrap_err().message;
    }
    assert!(told.contains("the sign-in is no longer accepted (invalid_grant"), "{told}");
    assert_eq!(stats(&server).await["reuses"], 1);
    sign_in(&source).await;
    assert!(text(&source, "web.whoami", json!({})).await.starts_with("client-1"));
    source.shutdown().await;
}

async fn until_it_answers(source: &ProxySource) {
    let mut answer = call(source, "web.whoami", json!({})).await;
    for _ in 0..300 {
        if answer.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        answer = call(source, "web.whoami", json!({})).await;
    }
    answer.unwrap();
}

#[tokio::test]
async fn a_port_that_is_taken_costs_a_registration_and_nothing_else() {
    let (house, server) = (House::new(), start(&[]));
    let source = signed_in(&house, &server).await;
    let record: Json = serde_json::from_slice(&std::fs::read(file(&house)).unwrap()).unwrap();
    let registered = reqwest::Url::parse(record["registered"]["redirect_uri"].as_str().unwrap()).unwrap();
    assert_eq!(registered.path(), "/callback", "as it was asked for, not as the server normalised it");
    // The port is reused if it is free.
    source.sign_out("web").await.unwrap();
    sign_in(&source).await;
    assert_eq!(stats(&server).await["registrations"], 1);
    source.sign_out("web").await.unwrap();
    let _taken = std::net::TcpListener::bind(("127.0.0.1", registered.port().unwrap())).unwrap();
    sign_in(&source).await;
    assert_eq!(stats(&server).await["registrations"], 2);
    source.shutdown().await;
}

#[tokio::test]
async fn accounts_at_one_address_have_tokens_of_their_own() {
    let (house, server) = (House::new(), start(&[]));
    let with_account = |name: &str| {
        let mut settings = settings(server.port);
        settings.auth.account = Some(name.to_owned());
        settings
    };
    let work = house.source(vec![with_account("work")]);
    sign_in(&work).await;
    work.try_now("web", &context()).await.unwrap();
    let family = text(&work, "web.whoami", json!({})).await;
    let home = house.source(vec![with_account("home")]);
    assert!(home.settle("web", &context()).await.unwrap_err().message.contains("nobody is signed in"));
    sign_in(&home).await;
    home.try_now("web", &context()).await.unwrap();
    assert_ne!(text(&home, "web.whoami", json!({})).await, family);
    home.sign_out("web").await.unwrap();
    work.try_now("web", &context()).await.unwrap();
    assert_eq!(text(&work, "web.whoami", json!({})).await, family);
    work.shutdown().await;
    home.shutdown().await;
}

/// A publicly reachable server receives the callback itself, even if the sign-in began at another one.
#[tokio::test]
async fn a_browser_comes_back_to_a_public_address() {
    let (house, server) = (House::new(), start(&[]));
    let public = "https://tools.example.org/oauth/callback";
    let began = house.source(vec![settings(server.port)]);
    began.take_callbacks_at(Some(public));
    let url = began.begin_sign_in("web", false).await.unwrap();
    let client = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let back = client.get(&url).send().await.unwrap().headers()["location"].to_str().unwrap().to_owned();
    let query = back.strip_prefix(public).unwrap_or_else(|| panic!("{back}")).to_owned();
    assert_eq!(stats(&server).await["kinds"], json!(["web"]));
    let other = house.source(vec![settings(server.port)]);
    other.take_callbacks_at(Some(public));
    let error = other.finish_callback("?code=stolen&state=guessed").await.unwrap_err().to_string();
    assert!(error.contains("no sign-in that has begun"), "{error}");
    assert_eq!(other.finish_callback(&query).await.unwrap(), "web");
    other.try_now("web", &context()).await.unwrap();
    assert!(text(&other, "web.whoami", json!({})).await.starts_with("client-1"));
    // Only once.
    other.finish_callback(&query).await.unwrap_err();
    // The first one sees it too.
    until("it is connected", || status(&began, "web").state == ServerState::Connected).await;
    began.shutdown().await;
    other.shutdown().await;
}

#[tokio::test]
async fn a_token_that_is_valid_is_used_while_it_cannot_be_renewed() {
    let (house, server) = (House::new(), start(&[]));
    steer(&server, "lifetime=60").await;
    let source = signed_in(&house, &server).await;
    source.shutdown().await;
    // Renewal is due, and no server is there to do it.
    let path = file(&house);
    let mut record: Json = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let at = record["tokens"]["received_at"].as_u64().unwrap();
    record["tokens"]["received_at"] = (at - 100_000).into();
    std::fs::write(&path, record.to_string()).unwrap();
    steer(&server, "fail=100").await;
    let source = house.source(vec![settings(server.port)]);
    source.settle("web", &context()).await.unwrap();
    assert!(text(&source, "web.whoami", json!({})).await.starts_with("client-1"));
    assert_eq!(auth(&source), AuthState::SignedIn);
    source.shutdown().await;
}

#[tokio::test]
async fn a_sign_in_that_is_over_says_so_and_keeps_what_there_is() {
    let (house, server) = (House::new(), start(&[]));
    let source = signed_in(&house, &server).await;
    steer(&server, "expire=1&revoke=1").await;
    let error = call(&source, "web.whoami", json!({})).await.unwrap_err();
    assert!(error.message.contains("the sign-in is no longer accepted (invalid_grant: it is not valid)"), "{error}");
    assert!(error.hint.as_deref().unwrap().contains("onetool servers login web"), "{error:?}");
    assert_eq!(auth(&source), AuthState::NeedsSignIn);
    assert!(std::fs::read_to_string(file(&house)).unwrap().contains("\"rt-"));
    let refused = stats(&server).await["refused"].as_u64().unwrap();
    // A refused token is not sent again.
    for _ in 0..3 {
        call(&source, "web.whoami", json!({})).await.unwrap_err();
    }
    assert_eq!(stats(&server).await["refused"].as_u64().unwrap(), refused);
    // A process that only reads the state knows it too.
    let other = house.source(vec![settings(server.port)]);
    other.look_at_sign_ins().await;
    assert_eq!(auth(&other), AuthState::NeedsSignIn);
    other.shutdown().await;
    sign_in(&source).await;
    assert!(text(&source, "web.whoami", json!({})).await.starts_with("client-1"));
    assert_eq!(auth(&source), AuthState::SignedIn);
    source.shutdown().await;
}

#[tokio::test]
async fn a_client_that_was_forgotten_registers_again() {
    let (house, server) = (House::new(), start(&[]));
    let source = signed_in(&house, &server).await;
    steer(&server, "expire=1&purge=1").await;
    let error = call(&source, "web.whoami", json!({})).await.unwrap_err();
    assert!(error.message.contains("invalid_client"), "{error}");
    sign_in(&source).await;
    assert!(text(&source, "web.whoami", json!({})).await.starts_with("client-2"));
    // A client that is forgotten before its first use is detected when it is used.
    source.sign_out("web").await.unwrap();
    steer(&server, "purge=1").await;
    sign_in(&source).await;
    source.try_now("web", &context()).await.unwrap();
    assert!(text(&source, "web.whoami", json!({})).await.starts_with("client-3"));
    source.shutdown().await;
}

#[tokio::test]
async fn a_provider_that_minds_the_resource_is_asked_without() {
    let (house, server) = (House::new(), start(&["--entra"]));
    let mut entra = settings(server.port);
    let source = house.source(vec![entra.clone()]);
    let error = source.begin_sign_in("web", false).await.unwrap_err().to_string();
    assert!(error.contains("require_pkce: false"), "{error}");
    source.shutdown().await;
    entra.auth.require_pkce = false;
    let source = house.source(vec![entra.clone()]);
    let error = source.begin_sign_in("web", false).await.unwrap_err().to_string();
    assert!(error.contains("lets no client register") && error.contains("auth.client_id"), "{error}");
    source.shutdown().await;
    entra.auth.client_id = Some("known-client".into());
    entra.auth.client_secret = Some("s3cret".into());
    entra.auth.resource = ResourceIndicator::Omit;
    let source = house.source(vec![entra]);
    sign_in(&source).await;
    source.try_now("web", &context()).await.unwrap();
    steer(&server, "expire=1").await;
    assert!(text(&source, "web.whoami", json!({})).await.starts_with("known-client"));
    let stats = stats(&server).await;
    assert_eq!((&stats["resources"], &stats["refreshes"]), (&json!([null, null]), &json!(1)));
    source.shutdown().await;
}

#[tokio::test]
async fn without_a_browser_on_this_machine_the_address_or_the_code_is_pasted() {
    for bare in [false, true] {
        let (house, server) = (House::new(), start(&[]));
        let mut headless = settings(server.port);
        headless.auth.redirect_url = Some("https://elsewhere.example/callback".into());
        let source = house.source(vec![headless]);
        let url = source.begin_sign_in("web", false).await.unwrap();
        let client = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build().unwrap();
        let response = client.get(&url).send().await.unwrap();
        let back = response.headers()["location"].to_str().unwrap().to_owned();
        assert!(back.starts_with("https://elsewhere.example/callback?code="), "{back}");
        let pasted = if bare { back.split(['=', '&']).nth(1).unwrap().to_owned() } else { back };
        source.finish_sign_in("web", &pasted).await.unwrap();
        source.try_now("web", &context()).await.unwrap();
        assert!(text(&source, "web.whoami", json!({})).await.starts_with("client-1"));
        source.shutdown().await;
    }
}

#[tokio::test]
async fn what_does_not_belong_to_a_sign_in_does_not_end_it() {
    let (house, server) = (House::new(), start(&[]));
    let source = house.source(vec![settings(server.port)]);
    let url = source.begin_sign_in("web", false).await.unwrap();
    let error = source.finish_sign_in("web", "?code=stolen&state=another").await.unwrap_err().to_string();
    assert!(error.contains("its state is another"), "{error}");
    // An error must come from the right issuer too.
    let state = url.split_once("state=").unwrap().1.split('&').next().unwrap();
    let error = format!("?error=access_denied&state={state}&iss=https%3A%2F%2Fevil.example");
    let error = source.finish_sign_in("web", &error).await.unwrap_err().to_string();
    assert!(error.contains("another authorization server"), "{error}");
    let url = source.begin_sign_in("web", false).await.unwrap();
    steer(&server, "iss=https://evil.example").await;
    let page = get(&url).await;
    assert_eq!(page.status(), 400);
    assert!(page.text().await.unwrap().contains("another authorization server"));
    assert_eq!(stats(&server).await["redemptions"], 0);
    steer(&server, "iss=0").await;
    sign_in(&source).await;
    source.shutdown().await;
}

/// Opens the addresses that it is asked to open.
struct Browser;

#[async_trait]
impl ClientBridge for Browser {
    async fn elicit(&self, params: Json) -> Result<Json, ToolError> {
        assert_eq!(params["mode"], "url", "{params}");
        assert!(params["message"].as_str().unwrap().contains("'web' needs you to sign in"), "{params}");
        assert_eq!(get(params["url"].as_str().unwrap()).await.status(), 200);
        Ok(json!({"action": "accept"}))
    }

    async fn sample(&self, _: Json) -> Result<Json, ToolError> {
        Err(ToolError::unavailable("not here"))
    }
}

#[tokio::test]
async fn a_call_asks_its_client_to_sign_in_and_goes_on() {
    let (house, server) = (House::new(), start(&[]));
    signed_in(&house, &server).await.shutdown().await;
    std::fs::remove_file(file(&house)).unwrap();
    let source = house.source(vec![settings(server.port)]);
    let mut ctx = context();
    ctx.client = Some(Arc::new(Browser));
    let answer = call_in(&source, "web.whoami", json!({}), &ctx).await.unwrap();
    assert!(answer.as_str().unwrap().starts_with("client-"), "{answer:?}");
    // More scopes, during a connection.
    steer(&server, "scope=admin").await;
    let error = call(&source, "web.whoami", json!({})).await.unwrap_err();
    assert!(error.message.contains("it wants more rights: admin"), "{error}");
    call_in(&source, "web.whoami", json!({}), &ctx).await.unwrap();
    source.shutdown().await;
}

#[tokio::test]
async fn signing_out_revokes_and_forgets() {
    let (house, server) = (House::new(), start(&[]));
    let source = signed_in(&house, &server).await;
    assert!(source.sign_out("web").await.unwrap());
    let seen = stats(&server).await;
    assert_eq!((&seen["revocations"], &seen["access"], &seen["refresh"]), (&json!(1), &json!(0), &json!(0)));
    until("it is not connected", || status(&source, "web").state == ServerState::Disconnected).await;
    assert!(!source.sign_out("web").await.unwrap());
    source.shutdown().await;
}

#[tokio::test]
async fn another_process_that_signs_in_is_noticed() {
    let (house, server) = (House::new(), start(&[]));
    let source = house.source(vec![settings(server.port)]);
    source.settle("web", &context()).await.unwrap_err();
    let other = house.source(vec![settings(server.port)]);
    sign_in(&other).await;
    other.shutdown().await;
    source.try_now("web", &context()).await.expect("not only when it is looked up the next time");
    until("it is connected", || status(&source, "web").state == ServerState::Connected).await;
    source.shutdown().await;
}

#[tokio::test]
async fn a_process_that_stays_says_where_to_sign_in() {
    let (house, server) = (House::new(), start(&[]));
    let source = house.source(vec![settings(server.port)]);
    source.wait_for_sign_ins();
    until("it is told", || source.health().iter().any(|note| note.message.contains("/authorize?"))).await;
    let health = source.health();
    let url = health[0].message.split_once("open ").unwrap().1.split(' ').next().unwrap().to_owned();
    assert_eq!(get(&url).await.status(), 200);
    until("it is connected", || status(&source, "web").state == ServerState::Connected).await;
    source.shutdown().await;
}
