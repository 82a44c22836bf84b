//! Declarative authentication of requests. Stored with a bundle, and with a tool that differs from its bundle.
//!
//! Values are templates: `${NAME}` refers to a secret. Nothing here holds a secret itself.

use indexmap::IndexMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An `auth` block: the kind, and an optional test request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuthBlock {
    #[serde(flatten)]
    pub auth: Auth,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<AuthTest>,
}

impl From<Auth> for AuthBlock {
    fn from(auth: Auth) -> Self {
        Self { auth, test: None }
    }
}

/// A tool's `auth`: absent, `null`, or its own block.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ToolAuth {
    /// The bundle's authentication.
    #[default]
    Inherited,
    /// No authentication, whatever the bundle sets.
    Off,
    Own(Box<AuthBlock>),
}

impl ToolAuth {
    pub fn is_inherited(&self) -> bool {
        *self == Self::Inherited
    }
}

impl From<Auth> for ToolAuth {
    fn from(auth: Auth) -> Self {
        Self::Own(Box::new(auth.into()))
    }
}

impl Serialize for ToolAuth {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Inherited | Self::Off => serializer.serialize_none(),
            Self::Own(block) => block.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for ToolAuth {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let block = Option::<AuthBlock>::deserialize(deserializer)?;
        Ok(block.map_or(Self::Off, |block| Self::Own(Box::new(block))))
    }
}

/// The kinds of authentication.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum Auth {
    ApiKey {
        #[serde(rename = "in")]
        place: ApiKeyPlace,
        name: String,
        value: String,
    },
    Basic {
        username: String,
        password: String,
    },
    Bearer {
        token: String,
    },
    #[serde(rename = "oauth2")]
    OAuth2(Box<OAuth2Auth>),
    Hmac(Box<HmacAuth>),
    #[serde(rename = "sigv4")]
    SigV4(Box<SigV4Auth>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[derive(Default)]
pub enum ApiKeyPlace {
    #[default]
    Header,
    Query,
}

/// Tokens from a token endpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OAuth2Auth {
    pub grant: OAuth2Grant,
    pub token_url: String,
    pub client_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<String>,
    pub client_auth: ClientAuth,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
    /// A space when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope_separator: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audience: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub extra_params: IndexMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refresh_token: Option<String>,
    /// Whether a new refresh token in a response replaces the old one; yes when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rotate: Option<bool>,
    /// The key that signs assertions (`private_key_jwt`, `jwt_bearer`), as PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub private_key: Option<String>,
    /// `kid` in the header of assertions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_id: Option<String>,
    /// RS256 when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub algorithm: Option<JwtAlgorithm>,
    /// `sub` of the `jwt_bearer` assertion; the client id when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// `$.access_token` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_path: Option<String>,
    /// `$.expires_in` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_path: Option<String>,
    /// Lifetime in seconds of a token whose response gives none; 3600 when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_ttl: Option<u64>,
    /// How many seconds before it expires a token is replaced; 60 when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refresh_before: Option<u64>,
    /// Where the token is sent; `Authorization: Bearer ${token}` when empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub apply: Vec<ApplyEntry>,
    /// Statuses on which the request is retried once with a new token; 401 when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_on: Option<Vec<u16>>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OAuth2Grant {
    #[default]
    ClientCredentials,
    RefreshToken,
    JwtBearer,
}

/// How a client authenticates to the token endpoint.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientAuth {
    #[default]
    Basic,
    Body,
    PrivateKeyJwt,
    /// A public client: sends its id in the body, and no secret.
    None,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum JwtAlgorithm {
    #[default]
    RS256,
    RS384,
    RS512,
    PS256,
    ES256,
    ES384,
}

/// A signature over the request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HmacAuth {
    /// Supplies defaults for the fields below.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preset: Option<HmacPreset>,
    pub secret: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_encoding: Option<SecretEncoding>,
    /// The id of the signing key: `${keyId}` in the templates below.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub algorithm: Option<SignatureAlgorithm>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<TimestampRule>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nonce: Option<NonceRule>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub string_to_sign: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encoding: Option<SignatureEncoding>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub apply: Vec<ApplyEntry>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HmacPreset {
    Generic,
    Github,
    Stripe,
    Binance,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SecretEncoding {
    #[default]
    Utf8,
    Hex,
    Base64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SignatureAlgorithm {
    #[serde(rename = "hmac-sha1")]
    HmacSha1,
    #[default]
    #[serde(rename = "hmac-sha256")]
    HmacSha256,
    #[serde(rename = "hmac-sha384")]
    HmacSha384,
    #[serde(rename = "hmac-sha512")]
    HmacSha512,
    /// A plain digest: the secret is part of `stringToSign`.
    #[serde(rename = "sha1")]
    Sha1,
    #[serde(rename = "sha256")]
    Sha256,
    #[serde(rename = "sha512")]
    Sha512,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TimestampRule {
    pub format: TimestampFormat,
    pub offset: TimestampOffset,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimestampFormat {
    #[default]
    UnixS,
    UnixMs,
    Iso8601,
    HttpDate,
}

/// Which clock is used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimestampOffset {
    /// The host's clock, as far as its `Date` headers show it.
    #[default]
    Auto,
    /// This machine's clock.
    None,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NonceRule {
    pub bytes: u8,
    pub encoding: SignatureEncoding,
}

impl Default for NonceRule {
    fn default() -> Self {
        Self { bytes: 16, encoding: SignatureEncoding::Hex }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SignatureEncoding {
    #[default]
    Hex,
    Base64,
    Base64url,
}

/// One value that authentication adds to a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApplyEntry {
    #[serde(rename = "in")]
    pub place: ApplyPlace,
    pub name: String,
    pub value: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ApplyPlace {
    Header,
    /// Appended last.
    Query,
    /// A member of a JSON body, or a form field.
    BodyField,
}

/// AWS Signature Version 4.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SigV4Auth {
    pub service: String,
    pub region: String,
    pub access_key_id: String,
    pub secret_access_key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_token: Option<String>,
    pub payload: SigV4Payload,
    #[serde(rename = "in")]
    pub place: ApiKeyPlace,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SigV4Payload {
    #[default]
    Signed,
    Unsigned,
}

/// A request that tests the authentication.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuthTest {
    #[serde(default = "get")]
    pub method: String,
    pub url: String,
    /// Statuses that count as success; any 2xx when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expect: Vec<u16>,
}

fn get() -> String {
    "GET".to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Holder {
        #[serde(default, skip_serializing_if = "ToolAuth::is_inherited")]
        auth: ToolAuth,
    }

    #[test]
    fn absent_null_and_a_block_are_three_things() {
        for (text, auth) in [
            (json!({}), ToolAuth::Inherited),
            (json!({"auth": null}), ToolAuth::Off),
            (json!({"auth": {"type": "bearer", "token": "${T}"}}), Auth::Bearer { token: "${T}".to_owned() }.into()),
        ] {
            let holder: Holder = serde_json::from_value(text.clone()).unwrap();
            assert_eq!(holder, Holder { auth });
            assert_eq!(serde_json::to_value(&holder).unwrap(), text);
        }
    }

    #[test]
    fn a_block_keeps_its_test_beside_its_kind() {
        let text = json!({
            "type": "oauth2", "grant": "refresh_token", "tokenUrl": "https://id.example/token", "clientId": "${ID}",
            "clientAuth": "private_key_jwt", "algorithm": "ES256",
            "test": {"method": "GET", "url": "https://api.example/me", "expect": [200]},
        });
        let block: AuthBlock = serde_json::from_value(text.clone()).unwrap();
        assert_eq!(serde_json::to_value(&block).unwrap(), text);
    }
}
