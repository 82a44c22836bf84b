//! AWS Signature Version 4, in headers or in the query string.

use chrono::{DateTime, Utc};
use http::{HeaderName, HeaderValue};
use onetool_sdk::ToolError;
use onetool_state::bundles::{ApiKeyPlace, SigV4Auth, SigV4Payload};
use percent_encoding::percent_decode_str;
use reqwest::Url;
use ring::{digest, hmac};

use super::sign_text::hex;
use crate::request::Rendered;
use crate::template::{Bindings, Scope, Template, UNRESERVED, parse, percent_encode};

const ALGORITHM: &str = "AWS4-HMAC-SHA256";
const DATE: &str = "x-amz-date";
const TOKEN: &str = "x-amz-security-token";
const CONTENT: &str = "x-amz-content-sha256";
const UNSIGNED: &str = "UNSIGNED-PAYLOAD";
/// Validity of a query signature, in seconds.
const QUERY_SECONDS: u32 = 300;

/// A parsed block.
#[derive(Debug)]
pub(crate) struct SigV4 {
    pub(crate) service: String,
    pub(crate) region: String,
    pub(crate) access_key: Template,
    pub(crate) secret_key: Template,
    pub(crate) session_token: Option<Template>,
    payload: SigV4Payload,
    place: ApiKeyPlace,
}

/// A block with its secrets.
#[derive(Debug, Clone)]
pub(crate) struct ReadySigV4 {
    pub(crate) service: String,
    pub(crate) region: String,
    pub(crate) access_key: String,
    pub(crate) secret_key: String,
    pub(crate) session_token: Option<String>,
    pub(crate) payload: SigV4Payload,
    pub(crate) place: ApiKeyPlace,
}

impl SigV4 {
    pub(crate) fn compile(auth: &SigV4Auth, scope: &Scope<'_>) -> Result<Self, String> {
        for (name, value) in [("service", &auth.service), ("region", &auth.region)] {
            if value.is_empty() || !value.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')) {
                return Err(format!("auth.{name} must be a name such as 'execute-api' or 'us-east-1'"));
            }
        }
        for (name, value) in [("accessKeyId", &auth.access_key_id), ("secretAccessKey", &auth.secret_access_key)] {
            if value.is_empty() {
                return Err(format!("auth.{name} is missing"));
            }
        }
        Ok(Self {
            service: auth.service.clone(),
            region: auth.region.clone(),
            access_key: parse(&auth.access_key_id, scope)?,
            secret_key: parse(&auth.secret_access_key, scope)?,
            session_token: auth.session_token.as_ref().map(|token| parse(token, scope)).transpose()?,
            payload: auth.payload,
            place: auth.place,
        })
    }

    pub(crate) fn is_in_query(&self) -> bool {
        self.place == ApiKeyPlace::Query
    }

    pub(crate) fn ready(&self, bindings: &Bindings<'_>) -> Result<ReadySigV4, ToolError> {
        let text =
            |template: &Template| Ok::<_, ToolError>(bindings.fill(template, str::to_owned)?.unwrap_or_default());
        Ok(ReadySigV4 {
            service: self.service.clone(),
            region: self.region.clone(),
            access_key: text(&self.access_key)?,
            secret_key: text(&self.secret_key)?,
            session_token: self.session_token.as_ref().map(text).transpose()?.filter(|token| !token.is_empty()),
            payload: self.payload,
            place: self.place,
        })
    }
}

impl ReadySigV4 {
    /// Signs the request in its current form. Returns the added values, which must be masked.
    pub(crate) fn apply(&self, request: &mut Rendered, now: DateTime<Utc>) -> Result<Vec<String>, ToolError> {
        let stamp = now.format("%Y%m%dT%H%M%SZ").to_string();
        let scope = format!("{}/{}/{}/aws4_request", &stamp[..8], self.region, self.service);
        let is_s3 = self.service == "s3";
        let body = request.body.as_deref().unwrap_or_default().as_bytes();
        let content = match self.payload {
            // A query signature is computed before there is a body.
            SigV4Payload::Signed if !(is_s3 && self.place == ApiKeyPlace::Query) => sha256(body),
            _ => UNSIGNED.to_owned(),
        };
        if self.place == ApiKeyPlace::Header {
            set(request, DATE, &stamp)?;
            if let Some(token) = &self.session_token {
                set(request, TOKEN, token)?;
            }
            if is_s3 || content == UNSIGNED {
                set(request, CONTENT, &content)?;
            }
        }
        let (names, headers) = self.headers(request);
        if self.place == ApiKeyPlace::Query {
            let credential = percent_encode(&format!("{}/{scope}", self.access_key));
            let mut added = format!(
                "X-Amz-Algorithm={ALGORITHM}&X-Amz-Credential={credential}&X-Amz-Date={stamp}&X-Amz-Expires={QUERY_SECONDS}\
                 &X-Amz-SignedHeaders={}",
                percent_encode(&names)
            );
            if let Some(token) = &self.session_token {
                added.push_str(&format!("&X-Amz-Security-Token={}", percent_encode(token)));
            }
            append_query(&mut request.url, &added);
        }
        let canonical = format!(
            "{}\n{}\n{}\n{headers}\n{names}\n{content}",
            request.method,
            canonical_path(&request.url, is_s3),
            canonical_query(&request.url),
        );
        let to_sign = format!("{ALGORITHM}\n{stamp}\n{scope}\n{}", sha256(canonical.as_bytes()));
        let signature = hex(hmac_sha256(&self.key(&stamp[..8]), to_sign.as_bytes()).as_ref());
        match self.place {
            ApiKeyPlace::Query => append_query(&mut request.url, &format!("X-Amz-Signature={signature}")),
            ApiKeyPlace::Header => set(
                request,
                "authorization",
                &format!(
                    "{ALGORITHM} Credential={}/{scope}, SignedHeaders={names}, Signature={signature}",
                    self.access_key
                ),
            )?,
        }
        Ok(vec![signature])
    }

    /// Returns the names of the signed headers, and the headers in canonical form.
    fn headers(&self, request: &Rendered) -> (String, String) {
        let mut signed: Vec<(String, String)> = vec![("host".to_owned(), host(&request.url))];
        for name in request.headers.keys() {
            let counts = name.as_str().starts_with("x-amz-") || name == "content-type";
            // A query signature covers only the host: the client that follows the URL sends no other headers.
            if !counts || self.place == ApiKeyPlace::Query {
                continue;
            }
            let values: Vec<String> = request
                .headers
                .get_all(name)
                .iter()
                .map(|value| String::from_utf8_lossy(value.as_bytes()).split_whitespace().collect::<Vec<_>>().join(" "))
                .collect();
            signed.push((name.as_str().to_owned(), values.join(",")));
        }
        signed.sort();
        let names: Vec<&str> = signed.iter().map(|(name, _)| name.as_str()).collect();
        let text = signed.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
        (names.join(";"), text)
    }

    fn key(&self, day: &str) -> Vec<u8> {
        let first = format!("AWS4{}", self.secret_key).into_bytes();
        [day, &self.region, &self.service, "aws4_request"]
            .iter()
            .fold(first, |key, part| hmac_sha256(&key, part.as_bytes()).as_ref().to_vec())
    }
}

fn set(request: &mut Rendered, name: &'static str, value: &str) -> Result<(), ToolError> {
    let mut value = HeaderValue::from_str(value)
        .map_err(|_| ToolError::unavailable(format!("the value for {name} holds a control character")))?;
    value.set_sensitive(true);
    request.headers.insert(HeaderName::from_static(name), value);
    Ok(())
}

/// The host as in the `Host` header.
pub(crate) fn host(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// Appends to a query without changing its existing part.
pub(crate) fn append_query(url: &mut Url, added: &str) {
    let query = match url.query() {
        Some(query) if !query.is_empty() => format!("{query}&{added}"),
        _ => added.to_owned(),
    };
    url.set_query(Some(&query));
}

/// Encodes every segment once more than it is sent, and drops empty segments. S3 uses the path as it is.
fn canonical_path(url: &Url, is_s3: bool) -> String {
    let path = url.path();
    if is_s3 {
        return path.split('/').map(normalised).collect::<Vec<_>>().join("/");
    }
    let segments: Vec<String> = path.split('/').filter(|segment| !segment.is_empty()).map(percent_encode).collect();
    let end = if path.ends_with('/') && !segments.is_empty() { "/" } else { "" };
    format!("/{}{end}", segments.join("/"))
}

/// The query parameters in canonical encoding and order.
pub(crate) fn canonical_query(url: &Url) -> String {
    let mut pairs: Vec<(String, String)> = url
        .query()
        .unwrap_or_default()
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (normalised(name), normalised(value))
        })
        .collect();
    pairs.sort();
    pairs.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&")
}

/// Percent-encodes anew, whatever was encoded before. The bytes may not be UTF-8.
fn normalised(text: &str) -> String {
    let bytes: Vec<u8> = percent_decode_str(text).collect();
    percent_encoding::percent_encode(&bytes, UNRESERVED).to_string()
}

fn sha256(bytes: &[u8]) -> String {
    hex(digest::digest(&digest::SHA256, bytes).as_ref())
}

fn hmac_sha256(key: &[u8], bytes: &[u8]) -> hmac::Tag {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), bytes)
}
