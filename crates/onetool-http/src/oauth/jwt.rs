//! Signed tokens (RFC 7515, RFC 7519): three algorithms, all with public keys.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{self, UnparsedPublicKey, VerificationAlgorithm};
use serde::Deserialize;
use serde_json::Value as Json;

/// The accepted signature algorithms. `none` and algorithms with shared keys are excluded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Algorithm {
    Rs256,
    Es256,
    EdDsa,
}

impl Algorithm {
    fn named(name: &str) -> Option<Self> {
        match name {
            "RS256" => Some(Self::Rs256),
            "ES256" => Some(Self::Es256),
            "EdDSA" | "Ed25519" => Some(Self::EdDsa),
            _ => None,
        }
    }
}

/// A parsed token whose signature is not verified yet.
pub(super) struct Parsed {
    pub(super) algorithm: Algorithm,
    pub(super) key_id: Option<String>,
    /// The signed text: the first two parts.
    signed: Vec<u8>,
    signature: Vec<u8>,
    pub(super) claims: Json,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    typ: Option<String>,
    crit: Option<Json>,
}

pub(super) fn parse(token: &str) -> Result<Parsed, String> {
    let mut parts = token.split('.');
    let (Some(header), Some(claims), Some(signature), None) = (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err("it does not have three parts".to_owned());
    };
    let decoded = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| "it is not base64url".to_owned());
    let not_json = |_| "it is not JSON".to_owned();
    let head: Header = serde_json::from_slice(&decoded(header)?).map_err(not_json)?;
    let algorithm =
        Algorithm::named(&head.alg).ok_or("its algorithm is not one of RS256, ES256 and EdDSA".to_owned())?;
    if head.crit.is_some() {
        return Err("it has critical headers".to_owned());
    }
    let kind = head.typ.unwrap_or_default().to_ascii_lowercase();
    if !["", "jwt", "at+jwt", "application/at+jwt"].contains(&kind.as_str()) {
        return Err("it is not an access token".to_owned());
    }
    let body: Json = serde_json::from_slice(&decoded(claims)?).map_err(not_json)?;
    if !body.is_object() {
        return Err("it has no claims".to_owned());
    }
    Ok(Parsed {
        algorithm,
        key_id: head.kid,
        signed: token[..header.len() + 1 + claims.len()].as_bytes().to_vec(),
        signature: decoded(signature)?,
        claims: body,
    })
}

/// A public key of the issuer.
#[derive(Debug, Clone)]
pub(super) struct PublicKey {
    pub(super) id: Option<String>,
    material: Material,
}

#[derive(Debug, Clone)]
enum Material {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    P256(Vec<u8>),
    Ed25519(Vec<u8>),
}

impl PublicKey {
    /// Reads a key of a JWKS; `None` if it is of another kind or for another use.
    pub(super) fn read(jwk: &Json) -> Option<Self> {
        let text = |name: &str| jwk.get(name).and_then(Json::as_str);
        let bytes = |name: &str| URL_SAFE_NO_PAD.decode(text(name)?.trim_end_matches('=')).ok();
        if text("use").is_some_and(|usage| usage != "sig") {
            return None;
        }
        let (material, algorithm) = match (text("kty")?, text("crv")) {
            ("RSA", _) => (Material::Rsa { n: bytes("n")?, e: bytes("e")? }, Algorithm::Rs256),
            ("EC", Some("P-256")) => {
                let (x, y) = (bytes("x")?, bytes("y")?);
                if x.len() != 32 || y.len() != 32 {
                    return None;
                }
                (Material::P256([&[4][..], &x, &y].concat()), Algorithm::Es256)
            }
            ("OKP", Some("Ed25519")) => (Material::Ed25519(bytes("x")?), Algorithm::EdDsa),
            _ => return None,
        };
        // A key for one algorithm must not be used with another.
        if text("alg").is_some_and(|name| Algorithm::named(name) != Some(algorithm)) {
            return None;
        }
        Some(Self { id: text("kid").map(str::to_owned), material })
    }

    fn algorithm(&self) -> Algorithm {
        match self.material {
            Material::Rsa { .. } => Algorithm::Rs256,
            Material::P256(_) => Algorithm::Es256,
            Material::Ed25519(_) => Algorithm::EdDsa,
        }
    }

    /// Whether a token may be signed with this key, according to its header.
    pub(super) fn fits(&self, token: &Parsed) -> bool {
        self.algorithm() == token.algorithm && (token.key_id.is_none() || self.id.is_none() || self.id == token.key_id)
    }

    /// Whether the token is signed with this key. The kind of the key determines the check, not the token.
    pub(super) fn verifies(&self, token: &Parsed) -> bool {
        let check = |algorithm: &'static dyn VerificationAlgorithm, key: &[u8]| {
            UnparsedPublicKey::new(algorithm, key).verify(&token.signed, &token.signature).is_ok()
        };
        self.algorithm() == token.algorithm
            && match &self.material {
                Material::Rsa { n, e } => signature::RsaPublicKeyComponents { n, e }
                    .verify(&signature::RSA_PKCS1_2048_8192_SHA256, &token.signed, &token.signature)
                    .is_ok(),
                Material::P256(point) => check(&signature::ECDSA_P256_SHA256_FIXED, point),
                Material::Ed25519(key) => check(&signature::ED25519, key),
            }
    }
}

#[cfg(test)]
mod tests {
    use ring::signature::KeyPair as _;
    use serde_json::json;

    use super::*;

    fn encoded(json: &Json) -> String {
        URL_SAFE_NO_PAD.encode(json.to_string())
    }

    fn signed(pair: &signature::Ed25519KeyPair, header: &Json) -> String {
        let text = format!("{}.{}", encoded(header), encoded(&json!({"sub": "7"})));
        let signature = URL_SAFE_NO_PAD.encode(pair.sign(text.as_bytes()));
        format!("{text}.{signature}")
    }

    #[test]
    fn only_what_a_key_signed_is_believed() {
        let pair = signature::Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap();
        let other = signature::Ed25519KeyPair::from_seed_unchecked(&[8; 32]).unwrap();
        let x = URL_SAFE_NO_PAD.encode(pair.public_key().as_ref());
        let key = PublicKey::read(&json!({"kty": "OKP", "crv": "Ed25519", "x": x, "kid": "k"})).unwrap();
        let good = signed(&pair, &json!({"alg": "EdDSA", "kid": "k", "typ": "at+jwt"}));
        let parsed = parse(&good).unwrap();
        assert!(key.fits(&parsed) && key.verifies(&parsed));
        assert!(!key.verifies(&parse(&signed(&other, &json!({"alg": "EdDSA", "kid": "k"}))).unwrap()));
        // A key of one asymmetric algorithm is never accepted for another.
        assert!(!key.verifies(&parse(&signed(&pair, &json!({"alg": "RS256", "kid": "k"}))).unwrap()));
        for header in [
            json!({"alg": "none"}),
            json!({"alg": "HS256"}),
            json!({"alg": "ES384"}),
            json!({"alg": "EdDSA", "crit": ["x"]}),
            json!({"alg": "EdDSA", "typ": "dpop+jwt"}),
        ] {
            assert!(parse(&signed(&pair, &header)).is_err(), "{header}");
        }
        let mut parts: Vec<&str> = good.split('.').collect();
        let forged = encoded(&json!({"sub": "8"}));
        parts[1] = &forged;
        assert!(!key.verifies(&parse(&parts.join(".")).unwrap()));
        for text in ["", "a.b", "a.b.c", "....", &format!("{good}.x")] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn keys_for_something_else_are_left_out() {
        let x = URL_SAFE_NO_PAD.encode([1; 32]);
        for jwk in [
            json!({"kty": "oct", "k": "AAAA"}),
            json!({"kty": "OKP", "crv": "Ed25519", "x": x, "use": "enc"}),
            json!({"kty": "OKP", "crv": "Ed25519", "x": x, "alg": "RS256"}),
            json!({"kty": "EC", "crv": "P-384", "x": x, "y": x}),
            json!({"kty": "EC", "crv": "P-256", "x": "AA", "y": x}),
            json!({"kty": "RSA", "n": "??", "e": "AQAB"}),
            json!(null),
        ] {
            assert!(PublicKey::read(&jwk).is_none(), "{jwk}");
        }
    }
}
