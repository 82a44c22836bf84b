//! Assertions: short-lived signed statements that identify the client to a token endpoint (RFC 7523).

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use chrono::{DateTime, Utc};
use onetool_state::bundles::JwtAlgorithm;
use ring::rand::SystemRandom;
use ring::signature::{self, EcdsaKeyPair, RsaKeyPair};
use serde_json::{Value as Json, json};

/// Validity of an assertion, in seconds.
const LIFETIME: i64 = 300;

/// The claims of an assertion.
pub(crate) struct Claims<'a> {
    pub(crate) issuer: &'a str,
    pub(crate) subject: &'a str,
    pub(crate) audience: &'a str,
    /// Scopes, if the assertion carries them.
    pub(crate) scope: Option<&'a str>,
    pub(crate) now: DateTime<Utc>,
}

/// The signing key.
pub(crate) struct SigningKey<'a> {
    pub(crate) algorithm: JwtAlgorithm,
    /// PEM: PKCS #8, PKCS #1 (RSA).
    pub(crate) pem: &'a str,
    pub(crate) id: Option<&'a str>,
}

/// Signs an assertion. An error describes what is wrong with the key without revealing any of it.
pub(crate) fn assertion(key: &SigningKey<'_>, claims: &Claims<'_>) -> Result<String, String> {
    let mut header = json!({"alg": name(key.algorithm), "typ": "JWT"});
    if let Some(id) = key.id.filter(|id| !id.is_empty()) {
        header["kid"] = id.into();
    }
    let issued = claims.now.timestamp();
    let mut body = json!({
        "iss": claims.issuer, "sub": claims.subject, "aud": claims.audience,
        "iat": issued, "exp": issued + LIFETIME, "jti": uuid::Uuid::new_v4().to_string(),
    });
    if let Some(scope) = claims.scope {
        body["scope"] = scope.into();
    }
    let encode = |json: &Json| URL_SAFE_NO_PAD.encode(json.to_string());
    let signed = format!("{}.{}", encode(&header), encode(&body));
    let signature = sign(key, signed.as_bytes())?;
    Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
}

fn name(algorithm: JwtAlgorithm) -> &'static str {
    match algorithm {
        JwtAlgorithm::RS256 => "RS256",
        JwtAlgorithm::RS384 => "RS384",
        JwtAlgorithm::RS512 => "RS512",
        JwtAlgorithm::PS256 => "PS256",
        JwtAlgorithm::ES256 => "ES256",
        JwtAlgorithm::ES384 => "ES384",
    }
}

fn sign(key: &SigningKey<'_>, bytes: &[u8]) -> Result<Vec<u8>, String> {
    let random = SystemRandom::new();
    let (label, der) = from_pem(key.pem).ok_or("the private key is not PEM (-----BEGIN PRIVATE KEY-----)")?;
    let rsa = |padding: &'static dyn signature::RsaEncoding| {
        let pair = if label == "RSA PRIVATE KEY" { RsaKeyPair::from_der(&der) } else { RsaKeyPair::from_pkcs8(&der) };
        let pair = pair.map_err(|error| format!("the private key is not an RSA key that can be used: {error}"))?;
        let mut signed = vec![0; pair.public().modulus_len()];
        pair.sign(padding, &random, bytes, &mut signed).map_err(|_| "the private key does not sign".to_owned())?;
        Ok(signed)
    };
    let ecdsa = |algorithm| {
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, &der, &random)
            .map_err(|error| format!("the private key is not an EC key of this curve in PKCS #8: {error}"))?;
        let signed = pair.sign(&random, bytes).map_err(|_| "the private key does not sign".to_owned())?;
        Ok(signed.as_ref().to_vec())
    };
    match key.algorithm {
        JwtAlgorithm::RS256 => rsa(&signature::RSA_PKCS1_SHA256),
        JwtAlgorithm::RS384 => rsa(&signature::RSA_PKCS1_SHA384),
        JwtAlgorithm::RS512 => rsa(&signature::RSA_PKCS1_SHA512),
        JwtAlgorithm::PS256 => rsa(&signature::RSA_PSS_SHA256),
        JwtAlgorithm::ES256 => ecdsa(&signature::ECDSA_P256_SHA256_FIXED_SIGNING),
        JwtAlgorithm::ES384 => ecdsa(&signature::ECDSA_P384_SHA384_FIXED_SIGNING),
    }
}

/// The label and content of the first key in a PEM text. A secret may have its line breaks written as `\n`.
fn from_pem(text: &str) -> Option<(String, Vec<u8>)> {
    let text = text.replace("\\n", "\n");
    let begin = text
        .match_indices("-----BEGIN ")
        .find(|(at, _)| text[*at..].lines().next().is_some_and(|line| line.trim_end().ends_with("PRIVATE KEY-----")))?;
    let after = &text[begin.0 + begin.1.len()..];
    let (label, after) = after.split_once("-----")?;
    let (content, _) = after.split_once("-----END")?;
    let content: String = content.chars().filter(|c| !c.is_whitespace()).collect();
    Some((label.to_owned(), STANDARD.decode(content).ok()?))
}

#[cfg(test)]
mod tests {
    use ring::signature::{KeyPair as _, UnparsedPublicKey};

    use super::*;

    const RSA: &str = include_str!("../../../onetool/tests/it/bad_upstream/test_only_key.pem");

    fn pem(der: &[u8]) -> String {
        format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", STANDARD.encode(der))
    }

    fn signed(algorithm: JwtAlgorithm, pem: &str) -> Result<String, String> {
        let now = Utc::now();
        let claims = Claims { issuer: "me", subject: "you", audience: "https://id.example", scope: Some("a b"), now };
        assertion(&SigningKey { algorithm, pem, id: Some("k1") }, &claims)
    }

    fn verify(jwt: &str, algorithm: &'static dyn signature::VerificationAlgorithm, public: &[u8]) {
        let (text, signature) = jwt.rsplit_once('.').unwrap();
        let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
        UnparsedPublicKey::new(algorithm, public).verify(text.as_bytes(), &signature).unwrap();
        let (head, body) = text.split_once('.').unwrap();
        let part = |part: &str| serde_json::from_slice::<Json>(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap();
        assert_eq!((&part(head)["kid"], &part(head)["typ"]), (&json!("k1"), &json!("JWT")));
        let claims = part(body);
        assert_eq!((&claims["iss"], &claims["sub"], &claims["scope"]), (&json!("me"), &json!("you"), &json!("a b")));
        assert_eq!(claims["exp"].as_i64().unwrap() - claims["iat"].as_i64().unwrap(), LIFETIME);
    }

    #[test]
    fn assertions_of_every_kind_are_verified_by_their_public_key() {
        let random = SystemRandom::new();
        for (algorithm, signing, verifying) in [
            (JwtAlgorithm::ES256, &signature::ECDSA_P256_SHA256_FIXED_SIGNING, &signature::ECDSA_P256_SHA256_FIXED),
            (JwtAlgorithm::ES384, &signature::ECDSA_P384_SHA384_FIXED_SIGNING, &signature::ECDSA_P384_SHA384_FIXED),
        ] {
            let der = EcdsaKeyPair::generate_pkcs8(signing, &random).unwrap();
            let pair = EcdsaKeyPair::from_pkcs8(signing, der.as_ref(), &random).unwrap();
            // On one line, as secrets often are.
            let text = pem(der.as_ref()).replace('\n', "\\n");
            verify(&signed(algorithm, &text).unwrap(), verifying, pair.public_key().as_ref());
        }
        let pair = RsaKeyPair::from_pkcs8(&from_pem(RSA).unwrap().1).unwrap();
        for (algorithm, verifying) in [
            (JwtAlgorithm::RS256, &signature::RSA_PKCS1_2048_8192_SHA256),
            (JwtAlgorithm::RS384, &signature::RSA_PKCS1_2048_8192_SHA384),
            (JwtAlgorithm::RS512, &signature::RSA_PKCS1_2048_8192_SHA512),
            (JwtAlgorithm::PS256, &signature::RSA_PSS_2048_8192_SHA256),
        ] {
            verify(&signed(algorithm, RSA).unwrap(), verifying, pair.public().as_ref());
        }
    }

    #[test]
    fn a_key_that_does_not_fit_is_told_without_showing_it() {
        for (algorithm, key) in [
            (JwtAlgorithm::ES256, RSA),
            (JwtAlgorithm::RS256, "not a key at all"),
            (JwtAlgorithm::RS256, "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----"),
            (JwtAlgorithm::RS256, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"),
        ] {
            let error = signed(algorithm, key).unwrap_err();
            assert!(error.contains("private key") && !error.contains("AAAA"), "{error}");
        }
    }
}
