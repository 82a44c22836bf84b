//! The parts of a tool that define its authentication, streaming and pagination. As they are stored, but strict: an
//! unknown field is an error.

use indexmap::IndexMap;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value as Json;
use utoipa::ToSchema;

/// Authentication of the request. Values are templates; `${NAME}` refers to a secret.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum AuthBody {
    ApiKey(ApiKeyBody),
    Basic(BasicBody),
    Bearer(BearerBody),
    #[serde(rename = "oauth2")]
    OAuth2(Box<OAuth2Body>),
    Hmac(Box<HmacBody>),
    #[serde(rename = "sigv4")]
    SigV4(Box<SigV4Body>),
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ApiKeyBody {
    #[serde(rename = "in")]
    pub place: PlaceBody,
    pub name: String,
    pub value: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<AuthTestBody>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BasicBody {
    pub username: String,
    pub password: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<AuthTestBody>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BearerBody {
    pub token: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<AuthTestBody>,
}

/// Tokens from a token endpoint, kept until they expire.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OAuth2Body {
    #[serde(default)]
    pub grant: GrantBody,
    /// Its host must be allowed.
    pub token_url: String,
    #[serde(default)]
    pub client_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<String>,
    #[serde(default)]
    pub client_auth: ClientAuthBody,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
    /// A space when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope_separator: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audience: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    #[schema(value_type = std::collections::BTreeMap<String, String>)]
    pub extra_params: IndexMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refresh_token: Option<String>,
    /// Whether a new refresh token replaces the old one; yes when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotate: Option<bool>,
    /// PEM of the key that signs assertions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub private_key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub algorithm: Option<JwtAlgorithmBody>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// `$.access_token` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_path: Option<String>,
    /// `$.expires_in` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_path: Option<String>,
    /// Seconds; 3600 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_ttl: Option<u64>,
    /// Seconds; 60 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refresh_before: Option<u64>,
    /// `Authorization: Bearer ${token}` when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub apply: Vec<ApplyBody>,
    /// 401 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_on: Option<Vec<u16>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<AuthTestBody>,
}

#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum GrantBody {
    #[default]
    ClientCredentials,
    RefreshToken,
    JwtBearer,
}

#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ClientAuthBody {
    #[default]
    Basic,
    Body,
    PrivateKeyJwt,
    None,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
pub enum JwtAlgorithmBody {
    RS256,
    RS384,
    RS512,
    PS256,
    ES256,
    ES384,
}

/// A signature over the request as it is sent. What is absent comes from the preset.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HmacBody {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preset: Option<PresetBody>,
    #[schema(example = "${SIGNING_SECRET}")]
    pub secret: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_encoding: Option<SecretEncodingBody>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub algorithm: Option<AlgorithmBody>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<TimestampBody>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nonce: Option<NonceBody>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "${method}\n${path}\n${query.sorted}\n${timestamp}\n${body|sha256|hex}")]
    pub string_to_sign: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<SignatureEncodingBody>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub apply: Vec<ApplyBody>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<AuthTestBody>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum PresetBody {
    Generic,
    Github,
    Stripe,
    Binance,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum SecretEncodingBody {
    Utf8,
    Hex,
    Base64,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
pub enum AlgorithmBody {
    #[serde(rename = "hmac-sha1")]
    HmacSha1,
    #[serde(rename = "hmac-sha256")]
    HmacSha256,
    #[serde(rename = "hmac-sha384")]
    HmacSha384,
    #[serde(rename = "hmac-sha512")]
    HmacSha512,
    #[serde(rename = "sha1")]
    Sha1,
    #[serde(rename = "sha256")]
    Sha256,
    #[serde(rename = "sha512")]
    Sha512,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TimestampBody {
    #[serde(default)]
    pub format: TimestampFormatBody,
    #[serde(default)]
    pub offset: TimestampOffsetBody,
}

#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TimestampFormatBody {
    #[default]
    UnixS,
    UnixMs,
    Iso8601,
    HttpDate,
}

/// `auto` follows the host's clock, as its `Date` headers tell it.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TimestampOffsetBody {
    #[default]
    Auto,
    None,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NonceBody {
    #[serde(default = "sixteen")]
    #[schema(minimum = 1, maximum = 64, default = 16)]
    pub bytes: u8,
    #[serde(default)]
    pub encoding: SignatureEncodingBody,
}

fn sixteen() -> u8 {
    16
}

#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum SignatureEncodingBody {
    #[default]
    Hex,
    Base64,
    Base64url,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ApplyBody {
    #[serde(rename = "in")]
    pub place: ApplyPlaceBody,
    pub name: String,
    pub value: String,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum ApplyPlaceBody {
    Header,
    Query,
    BodyField,
}

/// AWS Signature Version 4.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SigV4Body {
    #[schema(example = "execute-api")]
    pub service: String,
    #[schema(example = "us-east-1")]
    pub region: String,
    pub access_key_id: String,
    pub secret_access_key: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_token: Option<String>,
    #[serde(default)]
    pub payload: PayloadBody,
    #[serde(default, rename = "in")]
    pub place: PlaceBody,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<AuthTestBody>,
}

#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum PayloadBody {
    #[default]
    Signed,
    Unsigned,
}

#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum PlaceBody {
    #[default]
    Header,
    Query,
}

/// A request that shows whether the authentication works.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AuthTestBody {
    #[serde(default = "get")]
    #[schema(default = "GET")]
    pub method: String,
    pub url: String,
    /// Statuses that are a success; any 2xx when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expect: Vec<u16>,
}

fn get() -> String {
    "GET".to_owned()
}

/// Distinguishes `null` from an absent value.
pub(super) fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(deserializer).map(Some)
}

/// The reply is a stream of events: each becomes progress, and together they are the value.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StreamBody {
    #[serde(default)]
    pub format: StreamFormatBody,
    /// A JSONPath to the text that an event adds.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(example = "$.choices[0].delta.content")]
    pub text: String,
    /// Names of server-sent events that count; all when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<String>,
    /// Data that ends the stream and is then required; when absent, `[DONE]` ends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done: Option<String>,
    /// A JSONPath; an event in which it finds something fails the call.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub error: String,
    /// The joined text where `text` is given, else all events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<StreamResultBody>,
}

#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum StreamFormatBody {
    #[default]
    Auto,
    Sse,
    Ndjson,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum StreamResultBody {
    Text,
    Last,
    Events,
}

/// The reply is one page of several: one call asks for all of them.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum PaginateBody {
    Cursor(CursorBody),
    Page(PageNumberBody),
    Offset(OffsetBody),
    Link(LinkBody),
}

/// A reply names the next page.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CursorBody {
    /// A JSONPath to the cursor; the last page has none.
    #[schema(example = "$.next_cursor")]
    pub cursor: String,
    pub param: String,
    #[serde(default, rename = "in")]
    pub place: PagePlaceBody,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub items: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub max_pages: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub max_items: Option<u32>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub envelope: bool,
}

/// Pages are numbered.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PageNumberBody {
    pub param: String,
    #[serde(default = "one")]
    #[schema(default = 1)]
    pub start: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_param: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u32>,
    #[serde(default, rename = "in")]
    pub place: PagePlaceBody,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub items: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub max_pages: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub max_items: Option<u32>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub envelope: bool,
}

/// Items are counted.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OffsetBody {
    pub param: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_param: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u32>,
    #[serde(default, rename = "in")]
    pub place: PagePlaceBody,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub items: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub max_pages: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub max_items: Option<u32>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub envelope: bool,
}

/// The header `Link` with `rel="next"` names the next page.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LinkBody {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub items: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub max_pages: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub max_items: Option<u32>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub envelope: bool,
}

fn one() -> u64 {
    1
}

#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum PagePlaceBody {
    #[default]
    Query,
    Body,
}
