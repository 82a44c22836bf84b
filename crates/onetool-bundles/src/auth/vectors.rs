//! Known answers: each file in `cases/auth/` holds a block, its secrets, a time, a request, and the expected signed
//! request. The signatures come from published examples and from an independent implementation, `check.py` there.

use std::collections::HashMap;
use std::path::PathBuf;

use chrono::{DateTime, Utc};
use http::{HeaderMap, HeaderName};
use indexmap::IndexMap;
use onetool_state::bundles::AuthBlock;
use serde::Deserialize;

use super::{AuthMethod, Moment, ReadyAuth};
use crate::request::Rendered;
use crate::template::{Bindings, Meaning};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    /// Origin of the expected signature.
    source: String,
    auth: AuthBlock,
    secrets: HashMap<String, String>,
    now: DateTime<Utc>,
    #[serde(default)]
    nonce: String,
    request: Message,
    sent: Message,
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Message {
    method: String,
    url: String,
    #[serde(default)]
    headers: IndexMap<String, String>,
    #[serde(default)]
    body: Option<String>,
}

impl Message {
    fn rendered(&self) -> Rendered {
        Rendered {
            method: self.method.parse().unwrap(),
            url: self.url.parse().unwrap(),
            headers: HeaderMap::from_iter(
                self.headers.iter().map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap())),
            ),
            private_headers: Vec::new(),
            body: self.body.clone(),
            body_holds_secret: false,
            auth: None,
        }
    }

    fn of(request: &Rendered) -> Self {
        let mut headers: IndexMap<String, String> = request
            .headers
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
            .collect();
        headers.sort_keys();
        Self { method: request.method.to_string(), url: request.url.to_string(), headers, body: request.body.clone() }
    }
}

#[test]
fn every_signature_is_the_known_one() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../cases/auth");
    let mut count = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|kind| kind != "json") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let mut case: Case = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(!case.source.is_empty(), "{}", path.display());
        let method = AuthMethod::compile(&case.auth.auth, &|_| Ok(Meaning::Secret)).unwrap();
        let arguments = IndexMap::new();
        let bindings = Bindings { arguments: &arguments, secrets: &case.secrets, version: "v1" };
        let mut request = case.request.rendered();
        match method.ready(&bindings).unwrap() {
            ReadyAuth::Hmac { method, ready } => {
                let moment = Moment { now: case.now, nonce: case.nonce.clone() };
                method.apply(&ready, &mut request, &moment).unwrap();
            }
            ReadyAuth::SigV4(sigv4) => {
                sigv4.apply(&mut request, case.now).unwrap();
            }
            other => {
                other.apply(&mut request, &super::Clocks::default(), None).unwrap();
            }
        }
        case.sent.headers.sort_keys();
        assert_eq!(Message::of(&request), case.sent, "{}", path.display());
        count += 1;
    }
    assert!(count >= 29, "only {count} cases were found");
}

/// An independent implementation checks the expected answers.
#[test]
fn the_known_answers_are_those_of_another_implementation() {
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../cases/auth/check.py");
    let output = std::process::Command::new("python3").arg(script).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn what_can_not_sign_is_refused_when_it_is_stored() {
    for (block, reason) in [
        (r#"{"type": "hmac", "secret": ""}"#, "auth.secret"),
        (r#"{"type": "hmac", "secret": "${S}", "stringToSign": "${signature}"}"#, "signature itself"),
        (r#"{"type": "hmac", "secret": "${S}", "stringToSign": "${boddy}"}"#, "boddy"),
        (r#"{"type": "hmac", "secret": "${S}", "preset": "binance"}"#, "keyId"),
        (r#"{"type": "hmac", "secret": "${S}", "algorithm": "sha1", "stringToSign": "${body}"}"#, "plain digest"),
        (
            r#"{"type": "hmac", "secret": "${S}", "apply": [{"in": "header", "name": "X", "value": "1"}]}"#,
            "${signature}",
        ),
        (r#"{"type": "hmac", "secret": "${S}", "nonce": {"bytes": 0}}"#, "nonce"),
        (r#"{"type": "sigv4", "service": "", "region": "x", "accessKeyId": "a", "secretAccessKey": "b"}"#, "service"),
        (r#"{"type": "sigv4", "service": "s3", "region": "x", "secretAccessKey": "b"}"#, "accessKeyId"),
        (r#"{"type": "oauth2", "tokenUrl": "ftp://x/", "clientId": "a", "clientSecret": "b"}"#, "tokenUrl"),
        (r#"{"type": "oauth2", "tokenUrl": "https://x/", "clientId": "a"}"#, "clientSecret"),
        (
            r#"{"type": "oauth2", "grant": "refresh_token", "tokenUrl": "https://x/", "clientId": "a", "clientSecret": "b"}"#,
            "refreshToken",
        ),
        (r#"{"type": "oauth2", "tokenUrl": "https://u:p@x/", "clientId": "a", "clientSecret": "b"}"#, "user name"),
        (r#"{"type": "apiKey", "in": "header", "name": "Host", "value": "${S}"}"#, "host"),
    ] {
        let block: AuthBlock = serde_json::from_str(block).unwrap();
        let error = AuthMethod::compile(&block.auth, &|_| Ok(Meaning::Secret)).unwrap_err();
        assert!(error.contains(reason), "{error}");
    }
}
