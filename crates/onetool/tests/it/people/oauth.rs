//! Tokens of an OAuth issuer: a real JWKS server, real signatures, alongside named tokens.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Json;
use axum::routing::get;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use parking_lot::Mutex;
use reqwest::{Method, Response};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair,
    RsaPublicKeyComponents,
};
use serde_json::{Value as Json_, json};

use super::token;
use crate::client::{HttpServer, Project};

pub const PUBLIC: &str = "https://tools.example.org/team";

/// An issuer on this machine.
pub struct Issuer {
    pub base: String,
    keys: Arc<Mutex<Json_>>,
    asked: Arc<AtomicUsize>,
    rsa: RsaKeyPair,
    ec: EcdsaKeyPair,
    ed: Ed25519KeyPair,
}

fn text(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

impl Issuer {
    pub async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let der = STANDARD.decode(include_str!("issuer_key.txt").replace('\n', "")).unwrap();
        let rsa = RsaKeyPair::from_der(&der).unwrap();
        let random = SystemRandom::new();
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let ec = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8.as_ref(), &random).unwrap();
        let ed = Ed25519KeyPair::from_seed_unchecked(&[9; 32]).unwrap();
        let point = ec.public_key().as_ref();
        let public = RsaPublicKeyComponents::<Vec<u8>>::from(rsa.public());
        let keys = json!({"keys": [
            {"kty": "RSA", "kid": "r", "use": "sig", "alg": "RS256",
             "n": text(&public.n), "e": text(&public.e)},
            {"kty": "EC", "crv": "P-256", "kid": "e", "x": text(&point[1..33]), "y": text(&point[33..])},
        ]});
        let (keys, asked) = (Arc::new(Mutex::new(keys)), Arc::<AtomicUsize>::default());
        let issuer = Self { base: base.clone(), keys: keys.clone(), asked: asked.clone(), rsa, ec, ed };
        let app = axum::Router::new()
            .route(
                "/.well-known/openid-configuration",
                get({
                    let base = base.clone();
                    move || async move { Json(json!({"issuer": base, "jwks_uri": format!("{base}/keys")})) }
                }),
            )
            .route(
                "/keys",
                get(move || {
                    asked.fetch_add(1, Ordering::SeqCst);
                    let keys = keys.lock().clone();
                    async move { Json(keys) }
                }),
            );
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        issuer
    }

    fn add_ed_key(&self) {
        let key = json!({"kty": "OKP", "crv": "Ed25519", "kid": "d", "x": text(self.ed.public_key().as_ref())});
        self.keys.lock()["keys"].as_array_mut().unwrap().push(key);
    }

    fn claims(&self, change: Json_) -> Json_ {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let mut claims = json!({
            "iss": self.base, "aud": format!("{PUBLIC}/mcp"), "exp": now + 300, "iat": now, "sub": "ana",
            "scope": "openid onetool:read onetool:invoke",
        });
        for (name, value) in change.as_object().unwrap() {
            claims[name] = value.clone();
        }
        claims
    }

    fn signed(&self, header: Json_, change: Json_) -> String {
        let body =
            format!("{}.{}", text(header.to_string().as_bytes()), text(self.claims(change).to_string().as_bytes()));
        let random = SystemRandom::new();
        let signature = match header["kid"].as_str() {
            Some("r") => {
                let mut signature = vec![0; self.rsa.public().modulus_len()];
                self.rsa.sign(&RSA_PKCS1_SHA256, &random, body.as_bytes(), &mut signature).unwrap();
                signature
            }
            Some("e") => self.ec.sign(&random, body.as_bytes()).unwrap().as_ref().to_vec(),
            _ => self.ed.sign(body.as_bytes()).as_ref().to_vec(),
        };
        format!("{body}.{}", text(&signature))
    }

    pub fn good(&self, change: Json_) -> String {
        self.signed(json!({"alg": "RS256", "kid": "r", "typ": "at+jwt"}), change)
    }
}

async fn ask(server: &HttpServer, method: Method, path: &str, token: Option<&str>) -> Response {
    let request = server.anonymous(method, path);
    let request = match token {
        Some(token) => request.bearer_auth(token),
        None => request,
    };
    request.send().await.unwrap()
}

fn challenge(response: &Response) -> String {
    response.headers().get("www-authenticate").map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default()
}

#[tokio::test]
async fn tokens_of_an_issuer_and_named_ones_both_open_the_server() {
    let issuer = Issuer::start().await;
    let project = Project::with(&format!(
        "server:\n  public_url: {PUBLIC}\n  oauth: {{issuer: '{}', groups_claim: roles}}\nsecurity:\n  groups:\n    readers: {{packs: [file]}}\n",
        issuer.base
    ));
    let mut server = project.serve_http_at("0.0.0.0:0").await;

    let metadata = ask(&server, Method::GET, "/.well-known/oauth-protected-resource/mcp", None).await;
    let metadata: Json_ = metadata.json().await.unwrap();
    assert_eq!(metadata["resource"], format!("{PUBLIC}/mcp"));
    assert_eq!(metadata["authorization_servers"], json!([issuer.base]));
    assert_eq!(metadata["scopes_supported"], json!(["onetool:read", "onetool:invoke", "onetool:admin"]));
    let whole: Json_ =
        ask(&server, Method::GET, "/.well-known/oauth-protected-resource", None).await.json().await.unwrap();
    assert_eq!(whole["resource"], PUBLIC);

    let place = "https://tools.example.org/.well-known/oauth-protected-resource/team";
    let response = ask(&server, Method::POST, "/mcp", None).await;
    assert_eq!(response.status(), 401);
    assert_eq!(challenge(&response), format!("Bearer resource_metadata=\"{place}/mcp\", scope=\"onetool:invoke\""));
    let good = issuer.good(json!({}));
    let response = ask(&server, Method::GET, "/api/tokens", Some(&good)).await;
    assert_eq!(response.status(), 403);
    let told = challenge(&response);
    assert!(told.contains("error=\"insufficient_scope\"") && told.contains("scope=\"onetool:admin\""), "{told}");

    assert_eq!(ask(&server, Method::GET, "/tools/bundles", Some(&good)).await.status(), 200);
    let ec = issuer.signed(json!({"alg": "ES256", "kid": "e"}), json!({}));
    assert_eq!(ask(&server, Method::GET, "/tools/bundles", Some(&ec)).await.status(), 200);
    assert_eq!(issuer.asked.load(Ordering::SeqCst), 1, "the keys are read once");
    server.token = Some(good.leak());
    assert_eq!(server.mcp().await.ok("1 + 1").await, "2");

    let named = token(&project, &["ci"]).await;
    assert_eq!(ask(&server, Method::GET, "/tools/bundles", Some(named)).await.status(), 200);
    // Groups come from the claim; those that are not configured are ignored.
    server.token = Some(issuer.good(json!({"roles": ["/readers", "strangers"]})).leak());
    let client = server.mcp().await;
    assert_eq!(client.ok("ot.packs(info='list')").await, "[file, ot]");
}

#[tokio::test]
async fn whatever_is_wrong_with_a_token_it_opens_nothing() {
    let issuer = Issuer::start().await;
    let project = Project::with(&format!(
        "server:\n  public_url: {PUBLIC}\n  oauth: {{issuer: '{0}', jwks_url: '{0}/keys', audience: [tools, '{PUBLIC}/mcp']}}\n",
        issuer.base
    ));
    let server = project.serve_http().await;
    let status = async |token: &str| ask(&server, Method::GET, "/tools/bundles", Some(token)).await.status().as_u16();
    assert_eq!(status(&issuer.good(json!({"aud": ["x", "tools"]}))).await, 200);
    let good = issuer.good(json!({}));
    let mut parts: Vec<String> = good.split('.').map(str::to_owned).collect();
    parts[1] = text(issuer.claims(json!({"sub": "root"})).to_string().as_bytes());
    let unsigned = |alg: &str| {
        let header = text(json!({"alg": alg, "kid": "r"}).to_string().as_bytes());
        format!("{header}.{}.{}", text(issuer.claims(json!({})).to_string().as_bytes()), text(b"x"))
    };
    for (what, token) in [
        ("another body", parts.join(".")),
        ("no algorithm", unsigned("none")),
        ("no algorithm, no signature", unsigned("none").trim_end_matches("eA").to_owned()),
        ("a shared key", unsigned("HS256")),
        ("expired", issuer.good(json!({"exp": 1_000_000}))),
        ("not yet valid", issuer.good(json!({"nbf": 99_999_999_999_u64}))),
        ("another audience", issuer.good(json!({"aud": "https://other.example.org"}))),
        ("another issuer", issuer.good(json!({"iss": "https://other.example.org"}))),
        ("another algorithm", issuer.signed(json!({"alg": "ES256", "kid": "r"}), json!({}))),
        ("not a token", "x".repeat(40)),
        ("far too long", format!("{}.{}.{}", "a".repeat(20_000), "b", "c")),
    ] {
        assert_eq!(status(&token).await, 401, "{what}");
    }
    let told = challenge(&ask(&server, Method::GET, "/tools/bundles", Some(&unsigned("none"))).await);
    assert!(told.contains("error=\"invalid_token\""), "{told}");
    let none = issuer.good(json!({"scope": "openid"}));
    assert_eq!(ask(&server, Method::GET, "/tools/bundles", Some(&none)).await.status(), 403);

    // Many tokens with unknown keys cause only a few requests to the issuer.
    issuer.add_ed_key();
    let before = issuer.asked.load(Ordering::SeqCst);
    for number in 0..20 {
        let token = issuer.signed(json!({"alg": "EdDSA", "kid": format!("unknown-{number}")}), json!({}));
        assert_eq!(status(&token).await, 401);
    }
    assert!(issuer.asked.load(Ordering::SeqCst) <= before + 1);
}

#[tokio::test]
async fn an_issuer_without_a_public_url_opens_nothing() {
    let project = Project::with("server:\n  oauth: {issuer: 'https://id.example.org'}\n");
    let server = project.serve_http().await;
    assert_eq!(server.get("/tools/bundles").await.0, 401);
    let health = project.command(&["health"]).output().await.unwrap();
    let text = String::from_utf8_lossy(&[health.stdout, health.stderr].concat()).into_owned();
    assert!(text.contains("server.public_url is missing"), "{text}");
}

#[tokio::test]
async fn pages_of_sites_that_are_allowed_may_call_and_see_the_challenge() {
    let issuer = Issuer::start().await;
    let project = Project::with(&format!(
        "server:\n  public_url: {PUBLIC}\n  oauth: {{issuer: '{}'}}\n  allowed_origins: ['https://app.example.org']\n",
        issuer.base
    ));
    let server = project.serve_http().await;
    let send = async |method: Method, path: &str, origin: &'static str| {
        let request = server.anonymous(method, path).header("origin", origin);
        let request = request.header("access-control-request-method", "POST");
        request.header("access-control-request-headers", "authorization, mcp-session-id").send().await.unwrap()
    };
    let text = |response: &Response, name: &str| {
        response.headers().get(name).map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default()
    };
    for path in ["/mcp", "/runs", "/.well-known/oauth-protected-resource/mcp"] {
        let asked = send(Method::OPTIONS, path, "https://app.example.org").await;
        assert_eq!(asked.status(), 204, "{path}");
        assert_eq!(text(&asked, "access-control-allow-origin"), "https://app.example.org");
        assert!(text(&asked, "access-control-allow-headers").contains("authorization"));
        assert!(text(&asked, "access-control-allow-methods").contains("POST"));
        let other = send(Method::OPTIONS, path, "https://evil.example.org").await;
        assert_eq!((other.status().as_u16(), text(&other, "access-control-allow-origin")), (403, String::new()));
    }
    let refused = send(Method::POST, "/mcp", "https://app.example.org").await;
    assert_eq!(refused.status(), 401);
    assert!(text(&refused, "www-authenticate").contains("resource_metadata"));
    assert!(text(&refused, "access-control-expose-headers").contains("www-authenticate"));
    assert_eq!(text(&refused, "access-control-allow-origin"), "https://app.example.org");
    // Cookies and browser passwords grant nothing.
    assert_eq!(text(&refused, "access-control-allow-credentials"), "");
}
