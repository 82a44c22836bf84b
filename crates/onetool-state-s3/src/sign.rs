//! AWS Signature Version 4, as S3 requires it: the content's hash is signed too.

use chrono::{DateTime, Utc};
use http::Method;
use reqwest::Url;
use ring::{digest, hmac};

use crate::{Credentials, S3Address};

const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// The headers that a request needs.
pub(crate) fn headers(
    address: &S3Address,
    credentials: &Credentials,
    method: &Method,
    url: &Url,
    body: &[u8],
    now: DateTime<Utc>,
) -> Vec<(&'static str, String)> {
    let stamp = now.format("%Y%m%dT%H%M%SZ").to_string();
    let date = &stamp[..8];
    let content = hex(digest::digest(&digest::SHA256, body).as_ref());
    let host = match url.port() {
        Some(port) => format!("{}:{port}", url.host_str().unwrap_or_default()),
        None => url.host_str().unwrap_or_default().to_owned(),
    };
    let mut signed = vec![("host", host), ("x-amz-content-sha256", content.clone()), ("x-amz-date", stamp.clone())];
    if let Some(session) = &credentials.session {
        signed.push(("x-amz-security-token", session.clone()));
    }
    let names: Vec<&str> = signed.iter().map(|(name, _)| *name).collect();
    let names = names.join(";");
    let lines: String = signed.iter().map(|(name, value)| format!("{name}:{}\n", value.trim())).collect();
    let mut query: Vec<&str> = url.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty()).collect();
    query.sort_unstable();
    let canonical = format!("{method}\n{}\n{}\n{lines}\n{names}\n{content}", url.path(), query.join("&"));
    let scope = format!("{date}/{}/s3/aws4_request", address.region);
    let hashed = hex(digest::digest(&digest::SHA256, canonical.as_bytes()).as_ref());
    let to_sign = format!("{ALGORITHM}\n{stamp}\n{scope}\n{hashed}");
    let mut key = format!("AWS4{}", credentials.secret).into_bytes();
    for part in [date, &address.region, "s3", "aws4_request"] {
        key = mac(&key, part.as_bytes());
    }
    let signature = hex(&mac(&key, to_sign.as_bytes()));
    let authorization =
        format!("{ALGORITHM} Credential={}/{scope}, SignedHeaders={names}, Signature={signature}", credentials.key);
    // The client adds the host itself.
    signed.remove(0);
    signed.push(("authorization", authorization));
    signed
}

fn mac(key: &[u8], text: &[u8]) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text).as_ref().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Encodes a query value, as it is signed and sent.
pub(crate) fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

/// Encodes a path, keeping its slashes.
pub(crate) fn encoded_path(text: &str) -> String {
    encoded(text).replace("%2F", "/")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The "GET Object" example from the service's documentation, without its Range header.
    #[test]
    fn a_signature_is_reproducible_and_depends_on_everything() {
        let address = S3Address::parse("s3://examplebucket?region=us-east-1", |_| None).unwrap();
        let credentials = Credentials::find(|name| {
            Some(
                match name {
                    "AWS_ACCESS_KEY_ID" => "AKIAIOSFODNN7EXAMPLE",
                    "AWS_SECRET_ACCESS_KEY" => "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
                    _ => return None,
                }
                .to_owned(),
            )
        })
        .unwrap();
        let now = DateTime::parse_from_rfc3339("2013-05-24T00:00:00Z").unwrap().to_utc();
        let sign = |url: &str, body: &[u8]| {
            let url = Url::parse(url).unwrap();
            headers(&address, &credentials, &Method::GET, &url, body, now).pop().unwrap().1
        };
        // "GET Bucket (List Objects)" on the same page signs the same headers as we do.
        let listed = sign("https://examplebucket.s3.amazonaws.com/?max-keys=2&prefix=J", b"");
        assert!(
            listed.ends_with("Signature=34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"),
            "{listed}"
        );
        assert_ne!(listed, sign("https://examplebucket.s3.amazonaws.com/?max-keys=2&prefix=J", b"x"));
    }
}
